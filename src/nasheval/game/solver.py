"""`solve`: the equilibrium of every game of a batch, certified by its gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from nasheval.arrays import Bools, Floats, Ints
from nasheval.errors import ConvergenceError, InputError
from nasheval.game.checks import agents_up, payoffs
from nasheval.game.costs import (
    ConvexCost,
    HardBudget,
    LinearCost,
    SoftBudget,
    budgeted,
    charged,
    check_affordable,
    priced,
    settled,
    spend_of,
    surcharge,
)
from nasheval.game.gaps import composed, gap_at, residual_at
from nasheval.game.regularizers import L2, Entropy, Regularizer
from nasheval.game.single import LARGEST_GAP, PIVOT_UP_TO, equilibrium, solvers_are_loaded, tidied

# Lotteries (m, K), the steps each took (m,), and the price of spend (m,) where a budget sets one.
_Equilibria: TypeAlias = "tuple[Floats, Ints, Floats | None]"


@dataclass(frozen=True)
class Solution:
    """Equilibria of a batch of games, or of one, without the leading axis.

    Args:
        strategy: (n, K) lotteries; under L2 exactly zero off the support.
        gap: (n,) the regularised gap of each, zero up to rounding (Eq. gap).
        iterations: (n,) pivots, interior or Newton steps, over all games solved on the way.
        kkt: (n,) the largest violation of the first-order conditions.
        price: (n,) payoff per unit of cost that the budget sets at the margin; None without a budget.
    """

    strategy: Floats
    gap: Floats
    iterations: Ints
    kkt: Floats
    price: Floats | None = None


def solve(
    A: ArrayLike,
    *,
    regularizer: Regularizer = L2(),  # noqa: B008 (frozen)
    costs: ArrayLike | None = None,
    cost_weight: float = 0.0,
    budget: float | SoftBudget | None = None,
    available: ArrayLike | None = None,
) -> Solution:
    """Return the equilibria of the regularised preference game (Eq. contextual-equilibrium).

    Args:
        A: (K, K) or (n, K, K) antisymmetric payoffs; A[j, k] above 0 says that j is preferred to k.
        regularizer: L2(rho) or Entropy(tau), or one of them with costs of your own on top.
        costs: (K,) or (n, K), in your units.
        cost_weight: the weight of costs scaled to [0, 1] in each game (Eq. routerbench-cost-regularizer).
        budget: the most a lottery may cost in expectation, in your units, for both players
            (Eq. hard-budget-equilibrium), or a SoftBudget (Eq. soft-budget-disutility).
        available: (K,) or (n, K) bool, which agents are up; both players choose among those, and the others get 0.
            Costs stay scaled over all agents, so that the price of one does not depend on which others are up.
    """
    games = payoffs(A)
    n, K = games.shape[:2]
    omega = composed(regularizer, costs, cost_weight, budget, n, K)
    up = np.ones((n, K), bool) if available is None else agents_up(available, n, K)
    if not n:
        return Solution(np.empty((0, K)), np.empty(0), np.empty(0, np.int64), np.empty(0))
    solution = _solved(games, omega, np.arange(n)) if up.all() else _among(games, omega, up)
    return solution if np.ndim(A) == 3 else _first(solution)


def lotteries(A: Floats, omega: Regularizer, up: Bools) -> Floats:
    """Return the equilibria (n, K) of games that need no check: A (n, K, K) exactly antisymmetric, in order in memory.

    Args:
        up: (K,) which agents are up; see `solve`.
    """
    if not up.all():
        return _among(A, omega, np.broadcast_to(up, A.shape[:2])).strategy
    return _solved(A, omega, np.arange(len(A))).strategy


def lottery(pairs: Floats, K: int, rho: float) -> Floats | None:
    """Return the lottery (1, K) of one game in a single compiled call, bit for bit that of `lotteries`.

    None where the compiled solvers are not loaded, the game is large, or nothing is certified.

    Args:
        pairs: (1, n_pairs) A_jk of the pairs j < k.
    """
    if not 1 < K <= PIVOT_UP_TO or not solvers_are_loaded():
        return None
    from nasheval.game.one import one_game

    x, certified = one_game(pairs, K, float(rho))
    return x if certified else None


def _among(A: Floats, omega: Regularizer, up: Bools) -> Solution:
    """Return the solutions among the agents that are up (n, K): one batch of smaller games for each number of them."""
    check_affordable(omega, up)
    n, counts = len(A), up.sum(-1)
    strategy, gaps, steps, kkt = np.zeros(up.shape), np.empty(n), np.empty(n, np.int64), np.empty(n)
    price: Floats | None = None
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        agents = np.argsort(~up[rows], axis=-1, kind="stable")[:, :count]
        batch = _solved(_games_among(A, rows, agents), omega.at(rows).among(agents), rows)
        strategy[rows[:, None], agents] = batch.strategy
        gaps[rows], steps[rows], kkt[rows] = batch.gap, batch.iterations, batch.kkt
        if batch.price is not None:
            price = np.empty(n) if price is None else price
            price[rows] = batch.price
    return Solution(strategy, gaps, steps, kkt, price)


def _games_among(A: Floats, rows: Ints, agents: Ints) -> Floats:
    """Return the games `rows` of A among the agents (r, k) of each, (r, k, k); those of all games are gathered fast."""
    same = agents[0]
    if len(rows) == len(A) and (agents == same).all():
        return A.take(same, axis=1).take(same, axis=2)
    return A[rows[:, None, None], agents[:, :, None], agents[:, None, :]]


def _solved(A: Floats, omega: Regularizer, names: Ints) -> Solution:
    """Return the solution with its gap and residual; raise where the gap is not zero up to rounding."""
    pi, steps, price = equilibria(A, omega, names)
    if isinstance(omega, L2):
        gaps, kkt = _certify(A, omega, pi)
        scale = np.full(len(A), omega.rho)
    else:
        pi = np.maximum(pi, 0.0)  # rounding may have left a weight of -1e-13
        pi /= pi.sum(-1, keepdims=True)
        payoff, slope = np.einsum("njk,nk->nj", A, pi), omega.gradient(pi)
        gaps, kkt = gap_at(pi, payoff, omega), residual_at(pi, payoff, omega, price)
        scale = omega.kappa + np.where(np.isfinite(slope), np.abs(slope), 0.0).max(-1)
    rows = np.flatnonzero(~(np.abs(gaps) <= LARGEST_GAP * scale))
    if len(rows):  # payoffs add to the scale, and are looked through only where that matters
        scale[rows] += (A if len(rows) == len(A) else A[rows]).max((1, 2))
    for g in rows[~(np.abs(gaps[rows]) <= LARGEST_GAP * scale[rows])]:
        raise ConvergenceError(
            f"Game {names[g]} could not be solved: its lottery has a gap of {gaps[g]:.3g}. Please report it."
        )
    return Solution(pi, gaps, steps, kkt, price)


def _certify(A: Floats, omega: L2, pi: Floats) -> tuple[Floats, Floats]:
    """Return the gaps and residuals (n,) of lotteries pi (n, K), from which rounding below zero is taken, in place."""
    if len(A) == 1 and not solvers_are_loaded():
        pi[0] = tidied(pi[0])
        payoff = np.einsum("njk,nk->nj", A, pi)
        return gap_at(pi, payoff, omega), residual_at(pi, payoff, omega, None)
    from nasheval.game.supports import certify

    return certify(A, omega.rho, pi)


def _first(one: Solution) -> Solution:
    price = None if one.price is None else one.price[0]
    return Solution(one.strategy[0], one.gap[0], one.iterations[0], one.kkt[0], cast("Floats | None", price))


# -- which method solves which game -----------------------------------------------------------------------------------


def equilibria(A: Floats, omega: Regularizer, names: Ints) -> _Equilibria:
    """Return the equilibria of games A (m, K, K), exactly antisymmetric: prices become payoffs, budgets a search.

    The compiled solvers are imported when first needed, since numba takes half a second; one game does not need them.

    Args:
        names: (m,) what to call the games in errors.
    """
    match omega:
        case LinearCost():
            return equilibria(charged(A, omega.costs), omega.base, names)
        case ConvexCost():
            return _Priced.of(A, omega, names).disliked(omega.disutility)
        case HardBudget():
            return _Priced.of(A, omega, names).limited(omega.limit)
        case L2():
            alone = len(A) == 1 and A.shape[1] <= PIVOT_UP_TO and not solvers_are_loaded()
            if alone and (answer := equilibrium(A[0], omega.rho)):
                return answer[0][None], np.array([answer[1]]), None
            import nasheval.game.quadratic as quadratic

            return *quadratic.equilibria(A, omega.rho, names), None
        case Entropy():
            import nasheval.game.entropic as entropic

            return *entropic.equilibria(A, omega.tau, omega.log_reference(A.shape[1]), names), None
    raise InputError(f"{omega!r} cannot be solved: give L2 or Entropy, or LinearCost, ConvexCost or HardBudget on top.")


@dataclass(frozen=True)
class _Priced:
    """Games A (m, K, K) with costs (m, K); `steps` (m,) counts what their solutions take."""

    A: Floats
    base: Regularizer
    costs: Floats
    names: Ints
    steps: Ints

    @classmethod
    def of(cls, A: Floats, omega: ConvexCost | HardBudget, names: Ints) -> _Priced:
        base = omega.base
        while isinstance(base, LinearCost):
            A, base = charged(A, base.costs), base.base
        return cls(A, base, np.broadcast_to(omega.costs, A.shape[:2]), names, np.zeros(len(A), np.int64))

    def at(self, prices: Floats, rows: Ints) -> Floats:
        """Return the lotteries of games `rows` when agents pay prices (r, K)."""
        lotteries, steps, _ = equilibria(charged(self.A[rows], prices), self.base.at(rows), self.names[rows])
        self.steps[rows] += steps
        return lotteries

    def within(self, limit: Floats, rows: Ints) -> tuple[Floats, Floats]:
        """Return the lotteries of L2 games `rows` that spend at most limit (r,), and its multipliers (r,)."""
        import nasheval.game.quadratic as quadratic

        rho, costs = self.base.kappa, self.costs[rows]
        pi, steps, price = quadratic.budgeted_equilibria(self.A[rows], rho, costs, limit, self.names[rows])
        self.steps[rows] += steps
        return pi, price

    def limited(self, limit: float) -> _Equilibria:
        """Return the equilibria under a hard budget (Eq. hard-budget-equilibrium)."""
        if isinstance(self.base, L2):
            pi, price = self.within(np.full(len(self.A), limit), np.arange(len(self.A)))
            return pi, self.steps, price
        bar = surcharge(self.costs, limit, 4 * np.abs(self.A).max((1, 2))[:, None] + 1e3 * self.base.kappa)
        pi, price = budgeted(lambda prices, rows: self.at(prices + bar[rows], rows), self.costs - limit)
        return pi, self.steps, price

    def disliked(self, phi: SoftBudget) -> _Equilibria:
        """Return the equilibria under a disutility of spend (Eq. convex-cost-disutility)."""
        pi = priced(self.at, self.costs, phi) if self.base.kappa > 0 else self._unregularised(phi)
        return pi, self.steps, phi.derivative(spend_of(self.costs, pi))

    def _unregularised(self, phi: SoftBudget) -> Floats:
        """Return maximal lotteries under a disutility of spend.

        Their spend jumps in the price, and the price in the spend. The spend at which both agree is found first; if the
        price jumps there, the lottery is the one at the marginal price, and else the one of that hard budget.
        """
        rows = np.arange(len(self.A))
        spend = settled(self.within, self.costs, phi)
        omega = ConvexCost(self.base, self.costs, phi)
        both = self.within(spend, rows)[0], self.at(phi.derivative(spend)[:, None] * self.costs, rows)
        gaps = [gap_at(pi, np.einsum("njk,nk->nj", self.A, pi), omega) for pi in both]
        return np.where((gaps[0] <= gaps[1])[:, None], *both)

"""Which method solves which game: prices become payoffs, budgets a search or one more unknown, the rest L2 or entropy.

The compiled solvers are imported when first needed, since numba takes half a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.errors import InputError
from nasheval.game.costs import (
    ConvexCost,
    Disutility,
    HardBudget,
    LinearCost,
    budgeted,
    charged,
    priced,
    settled,
    spend_of,
    surcharge,
)
from nasheval.game.gaps import gap_at
from nasheval.game.regularizers import L2, Entropy, Regularizer


@dataclass(frozen=True)
class Equilibria:
    """Lotteries (m, K), the steps each took (m,), and the price of spend (m,) where a budget sets one."""

    lotteries: Floats
    steps: Ints
    price: Floats | None = None


def equilibria(A: Floats, omega: Regularizer, names: Ints) -> Equilibria:
    """Return the equilibria of games A (m, K, K), exactly antisymmetric.

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
            import nasheval.game.quadratic as quadratic

            return Equilibria(*quadratic.equilibria(A, omega.rho, names))
        case Entropy():
            import nasheval.game.entropic as entropic

            return Equilibria(*entropic.equilibria(A, omega.tau, omega.log_reference(A.shape[1]), names))
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
        solved = equilibria(charged(self.A[rows], prices), self.base.at(rows), self.names[rows])
        self.steps[rows] += solved.steps
        return solved.lotteries

    def within(self, limit: Floats, rows: Ints) -> tuple[Floats, Floats]:
        """Return the lotteries of L2 games `rows` that spend at most limit (r,), and its multipliers (r,)."""
        import nasheval.game.quadratic as quadratic

        rho, costs = self.base.kappa, self.costs[rows]
        pi, steps, price = quadratic.budgeted_equilibria(self.A[rows], rho, costs, limit, self.names[rows])
        self.steps[rows] += steps
        return pi, price

    def limited(self, limit: float) -> Equilibria:
        """Return the equilibria under a hard budget (Eq. hard-budget-equilibrium)."""
        if isinstance(self.base, L2):
            pi, price = self.within(np.full(len(self.A), limit), np.arange(len(self.A)))
            return Equilibria(pi, self.steps, price)
        bar = surcharge(self.costs, limit, 4 * np.abs(self.A).max((1, 2))[:, None] + 1e3 * self.base.kappa)
        pi, price = budgeted(lambda prices, rows: self.at(prices + bar[rows], rows), self.costs - limit)
        return Equilibria(pi, self.steps, price)

    def disliked(self, phi: Disutility) -> Equilibria:
        """Return the equilibria under a disutility of spend (Eq. convex-cost-disutility)."""
        pi = priced(self.at, self.costs, phi) if self.base.kappa > 0 else self._unregularised(phi)
        return Equilibria(pi, self.steps, phi.derivative(spend_of(self.costs, pi)))

    def _unregularised(self, phi: Disutility) -> Floats:
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

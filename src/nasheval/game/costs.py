"""What spending does to the game: linear prices, a convex disutility of expected spend, a hard budget.

Each wraps a regulariser and is one itself, so that gaps and certificates need no special cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, as_number
from nasheval.errors import Argument, InputError
from nasheval.game.regularizers import Regularizer, columns_of

# Lotteries (m, K) of the problems rows (m,) when agents pay prices (m, K): answer(prices, rows).
Answer: TypeAlias = Callable[[Floats, Ints], Floats]
# Lotteries (m, K) of the problems rows (m,) that spend at most limit (m,), and multipliers (m,): within(limit, rows).
Within: TypeAlias = Callable[[Floats, Ints], tuple[Floats, Floats]]
_LIMIT = 200
RAISES = 30  # times that a price may be multiplied by 4 to find one that is high enough
_ALIKE = 1e-15  # relative width at which the two ends are the same price
_SOFT = "a SoftBudget, which may be exceeded at a price"
_ADVICE = (
    "Give a larger budget, or ",
    Argument(_SOFT, flag="in its place a --cost-weight, which forbids nothing"),
    ".",
)
_NEAR = 1e-14  # spend this near to its target, on the scale of the costs, meets it


@dataclass(frozen=True)
class SoftBudget:
    """A price that rises by `penalty` as expected spend crosses the budget (Eq. soft-budget-disutility).

    It is a convex, differentiable, nondecreasing function phi of expected spend (Eq. convex-cost-disutility).

    Args:
        budget: B, in the user's units of cost.
        price: lambda_0, payoff per unit of cost.
        penalty: lambda_bar, added to the price beyond the budget.
        width: gamma, the spend over which the price rises.
    """

    budget: float
    price: float
    penalty: float
    width: float

    def __post_init__(self) -> None:
        numbers = [as_number(value) for value in (self.budget, self.price, self.penalty, self.width)]
        if not np.isfinite(numbers).all() or min(numbers[1:3]) < 0 or self.width <= 0:
            raise InputError(f"{self}: all four are finite, price and penalty at least 0, and width above 0.")

    def value(self, spend: Floats) -> Floats:
        """Return phi(spend)."""
        excess = np.logaddexp(0.0, (spend - self.budget) / self.width)
        return self.price * spend + self.penalty * self.width * excess

    def derivative(self, spend: Floats) -> Floats:
        """Return the marginal price phi'(spend)."""
        return self.price + self.penalty * (1 + np.tanh((spend - self.budget) / (2 * self.width))) / 2


@dataclass(frozen=True, eq=False)
class _Spending:
    """A regulariser on top of another, with one number per agent.

    Args:
        base: the regulariser beneath.
        costs: (K,) or (n, K), in the user's units.
    """

    base: Regularizer
    costs: Floats

    @property
    def kappa(self) -> float:
        """The modulus of strong convexity, that of the base."""
        return self.base.kappa

    def at(self, rows: Ints) -> Self:
        """Return the same for the games `rows` of a batch."""
        return replace(self, base=self.base.at(rows), costs=self.costs if self.costs.ndim == 1 else self.costs[rows])

    def among(self, agents: Ints) -> Self:
        """Return the same for lotteries over the agents (n, k) of each game only."""
        return replace(self, base=self.base.among(agents), costs=columns_of(self.costs, agents))


@dataclass(frozen=True, eq=False)
class LinearCost(_Spending):
    """Omega(pi) = base(pi) + costs . pi, the costs being in units of payoff."""

    def value(self, pi: Floats) -> Floats:
        """Return Omega(pi), (...)."""
        return self.base.value(pi) + spend_of(self.costs, pi)

    def gradient(self, pi: Floats) -> Floats:
        """Return the gradient, (..., K)."""
        return self.base.gradient(pi) + self.costs

    def best_response(self, payoff: Floats) -> Floats:
        """Return the best response of the base to payoff - costs, (..., K)."""
        return self.base.best_response(payoff - self.costs)


@dataclass(frozen=True, eq=False)
class ConvexCost(_Spending):
    """Omega(pi) = base(pi) + phi(costs . pi) (Eq. convex-cost-disutility).

    Args:
        disutility: phi.
    """

    disutility: SoftBudget

    def value(self, pi: Floats) -> Floats:
        """Return Omega(pi), (...)."""
        return self.base.value(pi) + self.disutility.value(spend_of(self.costs, pi))

    def gradient(self, pi: Floats) -> Floats:
        """Return the gradient, (..., K)."""
        price = self.disutility.derivative(spend_of(self.costs, pi))
        return self.base.gradient(pi) + price[..., None] * self.costs

    def best_response(self, payoff: Floats) -> Floats:
        """Return the best response, (..., K), by a search on the marginal price."""
        return _responses(self, payoff, lambda respond, c: priced(respond, c, self.disutility))


@dataclass(frozen=True, eq=False)
class HardBudget(_Spending):
    """Omega = base on the lotteries with costs . pi <= limit, for both players (Eq. hard-budget-equilibrium).

    Args:
        limit: C, the most a lottery may spend.
    """

    limit: float

    def __post_init__(self) -> None:
        cheapest = self.costs.min(-1)
        if not (self.limit >= cheapest).all():
            raise InputError(
                f"No lottery costs as little as the budget {self.limit!r}: the cheapest agent costs "
                f"{np.max(cheapest):.9g}. ",
                *_ADVICE,
            )

    def value(self, pi: Floats) -> Floats:
        """Return Omega(pi), (...), for lotteries within the budget."""
        return self.base.value(pi)

    def gradient(self, pi: Floats) -> Floats:
        """Return the gradient of the base, (..., K)."""
        return self.base.gradient(pi)

    def best_response(self, payoff: Floats) -> Floats:
        """Return the best response within the budget, (..., K), by a search on its multiplier."""
        barred = surcharge(self.costs, self.limit, 4 * np.ptp(payoff, -1, keepdims=True) + 1e3 * self.kappa + 1e-9)
        return _responses(self, payoff - barred, lambda respond, c: budgeted(respond, c - self.limit)[0])


def check_affordable(omega: Regularizer, up: Bools) -> None:
    """Raise where no agent that is up, (n, K), fits a hard budget in omega."""
    while isinstance(omega, LinearCost | ConvexCost | HardBudget):
        if isinstance(omega, HardBudget):
            cheapest = np.where(up, omega.costs, np.inf).min(-1)
            for g in np.flatnonzero(cheapest > omega.limit):
                raise InputError(
                    f"No agent available in game {g} fits the budget {omega.limit!r}: the cheapest of them costs "
                    f"{cheapest[g]:.9g}. ",
                    *_ADVICE,
                )
        omega = omega.base


def priced(answer: Answer, costs: Floats, phi: SoftBudget) -> Floats:
    """Return the lotteries (n, K) whose marginal price phi'(costs . pi) is the one they answer."""

    def excess(p: Floats, rows: Ints) -> Floats:
        return phi.derivative(spend_of(costs[rows], answer(p[:, None] * costs[rows], rows))) - p

    rows = np.arange(len(costs))
    low, high = phi.derivative(costs.min(-1)), phi.derivative(costs.max(-1))
    low, high = crossing(excess, low, high, _NEAR * float(np.max(high - low, initial=0.0)))
    cheap, dear = answer(high[:, None] * costs, rows), answer(low[:, None] * costs, rows)
    least, most = spend_of(costs, cheap), spend_of(costs, dear)
    spend, _ = crossing(lambda s, rows: (low[rows] + high[rows]) / 2 - phi.derivative(s), least, most, 0.0)
    return mixed(cheap, dear, least, most, spend)


def settled(within: Within, costs: Floats, phi: SoftBudget) -> Floats:
    """Return the spend (n,) at which the multiplier of a hard budget is the marginal price phi'(spend).

    For games without regulariser: their spend jumps in the price, but the price only steps down in the spend.
    """
    low, high = costs.min(-1), costs.max(-1)
    near = _NEAR * float(np.max(phi.derivative(high) - phi.derivative(low), initial=0.0))
    low, high = crossing(lambda spend, rows: within(spend, rows)[1] - phi.derivative(spend), low, high, near)
    return (low + high) / 2


def budgeted(answer: Answer, over: Floats) -> tuple[Floats, Floats]:
    """Return the lotteries (n, K) with over . pi <= 0 at the least multiplier, and that multiplier (n,).

    Args:
        over: (n, K), what each agent costs beyond the budget: costs that are all alike leave no rounding to search in.
    """
    size = scale_of(over)

    def excess(p: Floats, rows: Ints) -> Floats:
        return spend_of(over[rows], answer(p[:, None] * over[rows], rows)) / size[rows]

    rows = np.arange(len(over))
    low, high = crossing(excess, np.zeros(len(over)), raised(excess, 1 / size, _NEAR), _NEAR)
    cheap, dear = answer(high[:, None] * over, rows), answer(low[:, None] * over, rows)
    least, most = spend_of(over, cheap), spend_of(over, dear)
    return mixed(cheap, dear, least, most, np.minimum(0.0, most)), high


def scale_of(over: Floats) -> Floats:
    """Return the largest |over| (n,) of costs beyond a budget, over (n, K), and 1 where all are zero."""
    size = np.abs(over).max(-1)
    return np.where(size > 0, size, 1.0)


def mixed(cheap: Floats, dear: Floats, least: Floats, most: Floats, spend: Floats) -> Floats:
    """Return the mixture (n, K) of two lotteries that spends `spend` (n,), given what each of them spends.

    Without regulariser spend jumps in the price; at the jump both ends are equilibria, and so is any mixture.
    """
    share = np.divide(spend - least, most - least, out=np.zeros_like(least), where=most > least)
    share = np.clip(share, 0.0, 1.0)[:, None]
    return (1 - share) * cheap + share * dear


def charged(A: Floats, prices: Floats) -> Floats:
    """Return the games in which agents pay prices (n, K) or (K,): A - (prices 1^T - 1 prices^T)."""
    return A - (prices[..., :, None] - prices[..., None, :])


def spend_of(costs: Floats, pi: Floats) -> Floats:
    """Return the expected cost costs . pi, (...)."""
    return np.einsum("...k,...k->...", costs, pi)


def surcharge(costs: Floats, limit: float | Floats, bar: Floats) -> Floats:
    """Return the charge bar (..., 1) on all but the cheapest agents where the budget has room for no others, else 0.

    Such a budget may have no multiplier that a search could find, and barring the dearer agents is the same.
    """
    least, most = costs.min(-1, keepdims=True), costs.max(-1, keepdims=True)
    tight = limit <= least + 1e-12 * (most - least)
    return np.where(tight & (costs > least), bar, 0.0)


def _responses(omega: ConvexCost | HardBudget, payoff: Floats, search: Callable[[Answer, Floats], Floats]) -> Floats:
    flat = payoff.reshape(-1, payoff.shape[-1])
    costs = np.broadcast_to(omega.costs, payoff.shape).reshape(flat.shape)

    def respond(prices: Floats, rows: Ints) -> Floats:
        base = omega.base.at(rows) if payoff.ndim > 1 else omega.base
        return base.best_response(flat[rows] - prices)

    return search(respond, costs).reshape(payoff.shape)


# -- the search behind budgets -----------------------------------------------------------------------------------------


def crossing(f: Callable[[Floats, Ints], Floats], low: Floats, high: Floats, near: float) -> tuple[Floats, Floats]:
    """Narrow [low, high], each (n,), around where f crosses zero, until they meet or f jumps between them.

    Args:
        f: f(p, rows) gives the values (m,) at prices p (m,) of the problems rows (m,); decreasing in p.
        near: a value of f this near to zero is zero.
    """
    rows = np.arange(len(low))
    low, high = low.copy(), high.copy()
    above, below = f(low, rows), f(high, rows)
    high = np.where(above <= near, low, high)
    low = np.where((below > near) & (above > near), high, low)
    last = np.zeros(len(low))
    for step in range(_LIMIT):
        rows = np.flatnonzero(high - low > _ALIKE * np.maximum(np.abs(low), np.abs(high)))
        if not len(rows):
            break
        p = _between(low[rows], high[rows], above[rows], below[rows], halve=step % 3 == 2)
        value = f(p, rows)
        up, zero = value > 0, np.abs(value) <= near
        # Illinois: an end that stays twice in a row counts half, so that the other end moves as well.
        below[rows] = np.where(up, np.where(last[rows] > 0, below[rows] / 2, below[rows]), value)
        above[rows] = np.where(up, value, np.where(last[rows] < 0, above[rows] / 2, above[rows]))
        last[rows] = np.where(up, 1, -1)
        low[rows] = np.where(up | zero, p, low[rows])
        high[rows] = np.where(~up | zero, p, high[rows])
    return low, high


def raised(f: Callable[[Floats, Ints], Floats], high: Floats, near: float) -> Floats:
    """Return high (n,), multiplied until f is no longer above `near` there."""
    high = high.copy()
    rows = np.arange(len(high))
    for _ in range(RAISES):
        rows = rows[f(high[rows], rows) > near]
        if not len(rows):
            break
        high[rows] *= 4
    return high


def _between(low: Floats, high: Floats, above: Floats, below: Floats, *, halve: bool) -> Floats:
    middle = (low + high) / 2
    if halve:
        return middle
    p = low + (high - low) * above / np.maximum(above - below, 1e-300)
    return np.where((p > low) & (p < high), p, middle)

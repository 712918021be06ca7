"""The gap function: how far a lottery is from the equilibrium, and the residual of its first-order conditions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nasheval.arrays import Floats, as_number
from nasheval.errors import InputError
from nasheval.game.costs import ConvexCost, HardBudget, LinearCost, SoftBudget, scale_of, spend_of
from nasheval.game.regularizers import L2, Entropy, Regularizer


def gap(
    pi: ArrayLike,
    A: ArrayLike,
    *,
    regularizer: Regularizer = L2(),  # noqa: B008 (frozen)
    costs: ArrayLike | None = None,
    cost_weight: float = 0.0,
    budget: float | SoftBudget | None = None,
) -> Floats:
    """Return the regularised gap of lotteries pi, (...), zero exactly at the equilibrium (Eq. gap).

    Args:
        pi: (K,) or (n, K) lotteries.
        A: (K, K) or (n, K, K) payoffs; they need not be antisymmetric here.
        regularizer, costs, cost_weight, budget: as for `solve`.
    """
    lottery, payoff = np.asarray(pi, np.float64), np.asarray(A, np.float64)
    if payoff.shape[-2:] != 2 * lottery.shape[-1:] or payoff.shape[:-2] not in ((), lottery.shape[:-1]):
        raise InputError(
            f"pi has shape {lottery.shape} and A {payoff.shape}; give (n, K) and (n, K, K), or (K,), (K, K)."
        )
    n = lottery.shape[0] if lottery.ndim > 1 else 1
    omega = composed(regularizer, costs, cost_weight, budget, n, lottery.shape[-1])
    return gap_at(lottery, np.einsum("...jk,...k->...j", payoff, lottery), omega)


def composed(
    regularizer: Regularizer,
    costs: ArrayLike | None,
    cost_weight: float,
    budget: float | SoftBudget | None,
    n: int,
    K: int,
) -> Regularizer:
    """Return the regulariser with the cost weight and the budget on top, checked for n games of K agents."""
    shape = np.asarray(regularizer.reference).shape if isinstance(regularizer, Entropy) else ()
    if shape[-1:] not in ((), (K,)):
        raise InputError(f"The reference of Entropy has shape {shape}; with {K} agents it is ({K},) or (n, {K}).")
    if costs is None:
        if cost_weight or budget is not None:
            raise InputError("cost_weight and budget are about costs, and none were given: costs=(K,) or (n, K).")
        return regularizer
    if not 0 <= as_number(cost_weight) < np.inf:
        raise InputError(f"cost_weight is a finite number at least 0; {cost_weight!r} was given.")
    try:
        c = np.asarray(costs, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"costs is {costs!r:.60}; accepted are numbers in the order of the agents, (K,).") from None
    if c.shape not in ((K,), (n, K)):
        raise InputError(f"costs has shape {c.shape}; with {n} games of {K} agents it is ({K},) or ({n}, {K}).")
    if not np.isfinite(c).all():
        raise InputError("costs holds NaN or an infinity; every agent needs a finite cost.")
    if cost_weight:  # scaled to [0, 1] in each game, 0 if all are equal (Eq. routerbench-cost-regularizer)
        least, most = c.min(-1, keepdims=True), c.max(-1, keepdims=True)
        scaled = np.divide(c - least, most - least, out=np.zeros_like(c), where=most > least)
        regularizer = LinearCost(regularizer, cost_weight * scaled)
    if isinstance(budget, SoftBudget):
        return ConvexCost(regularizer, c, budget)
    if budget is None:
        return regularizer
    if not np.isfinite(as_number(budget)):
        raise InputError(f"budget is {budget!r}; accepted is a finite number, a SoftBudget, or None for no budget.")
    return HardBudget(regularizer, c, float(budget))


def gap_at(pi: Floats, payoff: Floats, omega: Regularizer) -> Floats:
    """Return the gap of lotteries pi (..., K) against which the agents earn payoff = A pi (..., K)."""
    q = omega.best_response(payoff)
    return np.einsum("...k,...k->...", payoff, q - pi) + omega.value(pi) - omega.value(q)


def residual_at(pi: Floats, payoff: Floats, omega: Regularizer, price: Floats | None) -> Floats:
    """Return the largest violation of the first-order conditions at pi (..., K), (...).

    That is |min(pi_i, w_i)| with w the losses of the agents, and |min(price, unspent)| under a hard budget, with the
    largest |cost - limit| as the unit of cost; for the entropy, whose gradient is infinite at zero, it is the distance
    to the best response.
    """
    base = omega
    while isinstance(base, LinearCost | ConvexCost | HardBudget):
        base = base.base
    if isinstance(base, Entropy):
        return np.abs(pi - omega.best_response(payoff)).max(-1)
    loss = omega.gradient(pi) - payoff
    spare = np.zeros(pi.shape[:-1])
    if isinstance(omega, HardBudget) and price is not None:
        loss = loss + price[..., None] * omega.costs
        over = omega.costs - omega.limit
        size = scale_of(over)
        spare = np.abs(np.minimum(price * size, -spend_of(over, pi) / size))
    loss = loss - np.einsum("...k,...k->...", loss, pi)[..., None]
    return np.maximum(np.abs(np.minimum(pi, loss)).max(-1), spare)

"""The gap function as a differentiable PyTorch operation, batched, on any device.

By Danskin's theorem its gradient is that at a fixed best response (Prop. gap-loss-properties): the response is found
without recording, and the rest is a plain expression. Import this file only where PyTorch is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch

from nasheval.arrays import Floats
from nasheval.errors import InputError
from nasheval.game.costs import RAISES, ConvexCost, HardBudget, LinearCost
from nasheval.game.regularizers import L2, Entropy, Regularizer

Tensor: TypeAlias = torch.Tensor
_HALVINGS = 60


def gap(pi: Tensor, A: Tensor, omega: Regularizer) -> Tensor:
    """Return the regularised gap of lotteries pi, (...), with Danskin's gradient (Eq. gap, Eq. gap-gradient).

    Args:
        pi: (K,) or (n, K) lotteries.
        A: (K, K) or (n, K, K) payoffs, which need not be antisymmetric.
        omega: the regulariser, with costs and budget on top as `composed` puts them.
    """
    payoff = (A @ pi[..., None])[..., 0]
    with torch.no_grad():
        q = best_response(omega, payoff)
    return (payoff * (q - pi)).sum(-1) + value(omega, pi) - value(omega, q)


def value(omega: Regularizer, pi: Tensor) -> Tensor:
    """Return Omega(pi), (...), differentiable in pi (..., K)."""
    match omega:
        case L2():
            return omega.rho / 2 * (pi * pi).sum(-1)
        case Entropy():
            logs = pi.clamp_min(torch.finfo(pi.dtype).tiny).log() - _like(omega.log_reference(pi.shape[-1]), pi)
            return omega.tau * (pi * logs).sum(-1)
        case LinearCost():
            return value(omega.base, pi) + _spend(omega.costs, pi)
        case ConvexCost():
            phi, spend = omega.disutility, _spend(omega.costs, pi)
            excess = torch.nn.functional.softplus((spend - phi.budget) / phi.width)
            return value(omega.base, pi) + phi.price * spend + phi.penalty * phi.width * excess
        case HardBudget():
            return value(omega.base, pi)
    raise InputError(f"{omega!r} has no gap in PyTorch: give L2 or Entropy, with a cost weight, budget or SoftBudget.")


def best_response(omega: Regularizer, payoff: Tensor) -> Tensor:
    """Return the lottery q (..., K) that maximises payoff . q - Omega(q) (Eq. regularized-best-response)."""
    match omega:
        case L2(rho=0):
            best = (payoff == payoff.amax(-1, keepdim=True)).to(payoff.dtype)
            return best / best.sum(-1, keepdim=True)
        case L2():
            return project((payoff - payoff.amax(-1, keepdim=True)) / omega.rho)
        case Entropy():
            return torch.softmax(payoff / omega.tau + _like(omega.log_reference(payoff.shape[-1]), payoff), -1)
        case LinearCost():
            return best_response(omega.base, payoff - _like(omega.costs, payoff))
        case ConvexCost() | HardBudget():
            return _under_costs(omega, payoff)
    raise InputError(f"{omega!r} has no best response in PyTorch.")


def project(v: Tensor) -> Tensor:
    """Return the point of the simplex nearest to v, (..., K)."""
    ordered = v.sort(-1, descending=True).values
    surplus = ordered.cumsum(-1) - 1
    count = torch.arange(1, v.shape[-1] + 1, device=v.device, dtype=v.dtype)
    kept = (ordered * count > surplus).sum(-1, keepdim=True)
    return (v - surplus.gather(-1, kept - 1) / kept).clamp_min(0)


def _under_costs(omega: ConvexCost | HardBudget, payoff: Tensor) -> Tensor:
    """Halve the range of the price of spend, then mix the answers at its two ends, between which spend may jump."""
    costs = _like(omega.costs, payoff).expand(payoff.shape)
    if isinstance(omega, HardBudget):
        payoff = payoff - _bar(omega, payoff, costs)
        # What agents cost beyond the budget: costs that are all alike leave no rounding to search in.
        costs = _like(omega.costs - omega.limit, payoff).expand(payoff.shape)

    def answer(p: Tensor) -> tuple[Tensor, Tensor]:
        q = best_response(omega.base, payoff - p[..., None] * costs)
        return q, (costs * q).sum(-1)

    low, high = _prices(omega, costs, answer)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        spend = answer(middle)[1]
        up = spend > 0 if isinstance(omega, HardBudget) else _marginal(omega, spend) > middle
        low, high = torch.where(up, middle, low), torch.where(up, high, middle)
    (dear, most), (cheap, least) = answer(low), answer(high)
    wanted = torch.zeros_like(low) if isinstance(omega, HardBudget) else _spend_at(omega, (low + high) / 2)
    share = ((wanted - least) / (most - least).clamp_min(torch.finfo(most.dtype).tiny)).clamp(0, 1)[..., None]
    return share * dear + (1 - share) * cheap


def _prices(
    omega: ConvexCost | HardBudget, costs: Tensor, answer: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Return prices (...) of spend below and above the one sought; costs are beyond the budget where it is hard."""
    if isinstance(omega, ConvexCost):
        return _marginal(omega, costs.amin(-1)), _marginal(omega, costs.amax(-1))
    size = costs.abs().amax(-1)
    size = torch.where(size > 0, size, torch.ones_like(size))
    high, near = 1 / size, 10 * torch.finfo(costs.dtype).eps * size
    for _ in range(RAISES):
        if not bool((over := answer(high)[1] > near).any()):
            break
        high = torch.where(over, 4 * high, high)
    return torch.zeros_like(high), high


def _marginal(omega: ConvexCost, spend: Tensor) -> Tensor:
    phi = omega.disutility
    return phi.price + phi.penalty * torch.sigmoid((spend - phi.budget) / phi.width)


def _spend_at(omega: ConvexCost, price: Tensor) -> Tensor:
    phi = omega.disutility
    return phi.budget + phi.width * torch.logit((price - phi.price) / max(phi.penalty, 1e-300), eps=1e-15)


def _bar(omega: HardBudget, payoff: Tensor, costs: Tensor) -> Tensor:
    """Return charges (..., K) on all but the cheapest agents where the budget has room for no others, else 0."""
    least, most = costs.amin(-1, keepdim=True), costs.amax(-1, keepdim=True)
    tight = (omega.limit <= least + 1e-12 * (most - least)) & (costs > least)
    bar = 4 * (payoff.amax(-1, keepdim=True) - payoff.amin(-1, keepdim=True)) + 1e3 * omega.kappa + 1e-9
    return torch.where(tight, bar, torch.zeros_like(bar))


def _spend(costs: Floats, pi: Tensor) -> Tensor:
    return (_like(costs, pi) * pi).sum(-1)


def _like(array: Floats, other: Tensor) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(array), dtype=other.dtype, device=other.device)

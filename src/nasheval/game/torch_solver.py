"""L2 games in large batches by PyTorch, on any device: principal pivoting as in `pivoting`, all games at once.

Few agents of many are ever chosen, so each game is first solved among its most promising agents, and among twice as
many where one of the others would do better. Every answer is certified as those of `solve` are; the few that rounding
rules go to `solve`. Import this file only where PyTorch is wanted.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from nasheval.arrays import Bools, Floats
from nasheval.game import solver
from nasheval.game.costs import LinearCost
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.single import CERTIFIED, REFINEMENTS, REGULAR, ROUNDING, SLIGHT, STILL, STRICT, ZERO

Tensor: TypeAlias = torch.Tensor
_FIRST = 16  # candidates of the first round
_PIVOTS = 6  # per candidate; games that take more go to `solve`
_BETWEEN = 4  # pivots between two looks at who has ended: a look makes the processor wait for the device


class _Tableau(NamedTuple):
    """T (n, c, c), q (n, c) and the support (n, c) of n games, as in `pivoting`."""

    T: Tensor
    q: Tensor
    inside: Tensor


def lotteries(A: Tensor, omega: Regularizer, up: Bools) -> Floats:
    """Return the equilibria (n, K) of games A (n, K, K), float64 and exactly antisymmetric; as `solver.lotteries`.

    Args:
        omega: L2, with a cost weight or not; games of any other go to the processor.
        up: (K,) which agents are up.
    """
    agents = np.flatnonzero(up)
    kept = omega if len(agents) == len(up) else omega.among(np.broadcast_to(agents, (len(A), len(agents))))
    prices: Floats = np.zeros(1)
    while isinstance(kept, LinearCost):
        prices, kept = prices + kept.costs, kept.base
    if not isinstance(kept, L2):
        return solver.lotteries(A.cpu().numpy(), omega, up)
    at = torch.as_tensor(agents, device=A.device)
    games = A if len(agents) == len(up) else A[:, at][:, :, at]
    if prices.any():
        paid = torch.as_tensor(prices, device=A.device)
        games = games - (paid[..., :, None] - paid[..., None, :])
    x, certified = equilibria(games, kept.rho)
    answers: Floats = x.cpu().numpy()
    if len(agents) < len(up):
        chosen, answers = answers, np.zeros((len(A), len(up)))
        answers[:, agents] = chosen
    if len(left := np.flatnonzero(~certified.cpu().numpy())):
        hard = A[torch.as_tensor(left, device=A.device)].cpu().numpy()
        answers[left] = solver.lotteries(hard, omega.at(left), up)
    return answers


def equilibria(A: Tensor, rho: float) -> tuple[Tensor, Tensor]:
    """Return the lotteries (n, K) of games A (n, K, K), and which are certified (n,)."""
    n, K = A.shape[:2]
    size = A.amax((1, 2)).clamp_min(rho)
    powers = torch.where(size > 0, size, 1.0).log2().round()
    scale = torch.where(powers.abs() > 2, powers, 0.0).exp2()[:, None, None]  # as `unit_scale`
    games = A if bool((scale == 1).all()) else A / scale
    strength = rho / scale[:, 0]
    x, done = torch.zeros_like(A[..., 0]), torch.zeros(n, dtype=torch.bool, device=A.device)
    left, promise, count = torch.arange(n, device=A.device), games.sum(-1), min(K, _FIRST)
    while len(left):
        here = games if len(left) == n else games[left]
        answer, losses, sure = _among(here, strength[left], promise.topk(count).indices)
        x[left], done[left] = answer, sure
        if count == K:
            break
        left, promise = left[~sure], torch.where(answer > 0, torch.inf, -losses)[~sure]
        count = min(K, 2 * count)
    return x, done


def _among(A: Tensor, rho: Tensor, agents: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return lotteries (n, K) over candidates (n, c), the losses (n, K) of all agents, and which are certified (n,)."""
    n, K = A.shape[:2]
    c = agents.shape[1]
    rows = A.gather(1, agents[:, :, None].expand(n, c, K))
    games = rows.gather(2, agents[:, None].expand(n, c, c))
    T, q, inside = _pivoted(games, rho.clamp_min(SLIGHT))
    inverse = T.masked_fill_(~(inside[:, :, None] & inside[:, None]), 0.0)
    y = q.masked_fill(~inside, 0.0)
    for _ in range(REFINEMENTS):
        move = torch.einsum("nij,nj->ni", inverse, _losses(games, rho, y))
        y = y - move
    y = torch.where((y > ROUNDING) & (y < 0), 0.0, y)
    y = y / y.sum(-1, keepdim=True)
    x = torch.zeros_like(A[..., 0]).scatter_(1, agents, y)
    w = torch.einsum("nci,nc->ni", rows, y) + rho * (x - (y * y).sum(-1, keepdim=True))
    unique = (rho[:, 0] > 0) | ((torch.maximum(x, w).amin(-1) > STRICT) & (inverse.abs().amax((1, 2)) < REGULAR))
    sure = unique & (move.abs().amax(-1) <= STILL) & (torch.minimum(x, w).abs().amax(-1) < CERTIFIED)
    return x, w, sure


def _losses(A: Tensor, rho: Tensor, x: Tensor) -> Tensor:
    return torch.einsum("nji,nj->ni", A, x) + rho * (x - (x * x).sum(-1, keepdim=True))


def _pivoted(A: Tensor, rho: Tensor) -> _Tableau:
    """Return the tableau at which no agent is on the wrong side; games that have ended are left out of the rest."""
    whole = parts = _tableau(A, rho)
    left = torch.arange(len(A), device=A.device)
    for step in range(_PIVOTS * A.shape[1]):
        if step % _BETWEEN == 0:
            going = (parts.q < -ZERO).any(-1)
            if not (count := int(going.sum())):
                break
            if 2 * count <= len(left):
                _put_back(parts, whole, left)
                left, parts = left[going], _Tableau(*(part[going] for part in parts))
        _pivot(*parts)
    _put_back(parts, whole, left)
    return whole


def _put_back(parts: _Tableau, whole: _Tableau, rows: Tensor) -> None:
    if parts is not whole:
        for part, values in zip(parts, whole, strict=True):
            values[rows] = part


def _tableau(A: Tensor, rho: Tensor) -> _Tableau:
    """Return the tableau of the support of one agent: that of the largest mean margin."""
    n, c = A.shape[:2]
    s = A.sum(-1).argmax(-1)[:, None]
    row = A.gather(1, s[:, :, None].expand(n, 1, c))[:, 0]
    T = (rho - row)[:, :, None] - A + row[:, None]
    T.diagonal(dim1=1, dim2=2).add_(rho)
    inside = torch.zeros_like(row, dtype=torch.bool).scatter_(1, s, True)
    T.masked_fill_(inside[:, None], 1.0).masked_fill_(inside[:, :, None], -1.0)
    T.diagonal(dim1=1, dim2=2).masked_fill_(inside, 0.0)
    return _Tableau(T, torch.where(inside, 1.0, row - rho), inside)


def _pivot(T: Tensor, q: Tensor, inside: Tensor) -> None:
    """Move the agent of the largest q^2 / diagonal over to the other side in every game that has one, in place."""
    gain = torch.where(q < -ZERO, q * q / T.diagonal(dim1=1, dim2=2).clamp_min(1e-300), 0.0)
    most, r = gain.max(-1, keepdim=True)
    go, at = most > 0, r[:, :, None]
    row, column = T.gather(1, at.expand(-1, 1, T.shape[1])), T.gather(2, at.expand(-1, T.shape[1], 1))
    pivot, q_r = row.gather(2, at), q.gather(1, r)
    inverse = torch.where(go[..., None], 1.0 / pivot, 0.0)
    top, constant = row * inverse, q_r * inverse[:, 0]
    T.addcmul_(column, top, value=-1.0)
    T.scatter_(2, at.expand(-1, T.shape[1], 1), torch.where(go[..., None], column * inverse, column))
    top = torch.where(go[..., None], -top, row).scatter_(2, at, torch.where(go[..., None], inverse, pivot))
    T.scatter_(1, at.expand(-1, 1, T.shape[1]), top)
    q.addcmul_(column[..., 0], constant, value=-1.0)
    q.scatter_(1, r, torch.where(go, -constant, q_r))
    inside.scatter_(1, r, inside.gather(1, r) ^ go)

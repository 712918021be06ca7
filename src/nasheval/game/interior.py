"""Compiled: an interior point method, for L2 games of many agents, of budgets, and without a unique answer.

Predictor and corrector share one factorisation (Mehrotra). From the moment the pairs (x_i, w_i) begin to separate, the
support they suggest is tried in the exact solve; a certified answer ends the run.
"""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.game.compiled import compiled
from nasheval.game.linear import dot, factor, substitute
from nasheval.game.single import CERTIFIED
from nasheval.game.supports import Workspace, certified_on, settle, workspace

_TRY_BELOW = 1e-3  # complementarity from which the interior method tries supports
_END, _LIMIT = 1e-16, 100  # where the interior method stops: mean complementarity, iterations


@compiled
def begin(A: Floats, agents: int, rho: float, x: Floats, w: Floats) -> float:
    """Write a start in the middle, the uniform lottery, into x (n,) and w (n,); return its lam."""
    n = A.shape[0]
    for i in range(n):
        x[i] = 1.0 / agents
    least, total = 1e300, 0.0
    for i in range(n):
        w[i] = -dot(A[i], x, 0, n)
        if i < agents:
            w[i] += rho * x[i]
            least, total = min(least, w[i]), total + w[i]
    room = max(total / agents - least, 1e-2)
    for i in range(n):
        w[i] = max(w[i] - (least - room if i < agents else 0.0), room)
    return least - room


@compiled
def newton_matrix(A: Floats, agents: int, rho: float, x: Floats, w: Floats, H: Floats) -> None:
    """Write [R - A + diag(w / x), -e; e, 0] into H (n + 1, n + 1)."""
    n = A.shape[0]
    for i in range(n):
        row, source = H[i], A[i]
        for j in range(n):
            row[j] = -source[j]
        border = 1.0 if i < agents else 0.0
        row[i] += rho * border + w[i] / x[i]
        row[n] = -border
        H[n, i] = border
    H[n, n] = 0.0


@compiled
def longest(x: Floats, dx: Floats, w: Floats, dw: Floats) -> float:
    """Return the longest step that keeps x + step dx and w + step dw from turning negative."""
    step = 1e300
    for i in range(x.shape[0]):
        if dx[i] < 0.0:
            step = min(step, -x[i] / dx[i])
        if dw[i] < 0.0:
            step = min(step, -w[i] / dw[i])
    return step


@compiled
def direction(
    H: Floats, order: Ints, error: Floats, target: Floats, x: Floats, w: Floats, dx: Floats, dw: Floats
) -> None:
    """Write the step towards x w = target into dx (n + 1,), whose last entry is that of lam, and dw (n,)."""
    n = x.shape[0]
    for i in range(n):
        dw[i] = target[i] / x[i] - w[i]
        dx[i] = dw[i] - error[i]
    dx[n] = error[n]
    substitute(H, n + 1, order, dx)
    for i in range(n):
        dw[i] -= w[i] / x[i] * dx[i]


@compiled
def iterate(A: Floats, agents: int, rho: float, lam: float, x: Floats, w: Floats, room: Workspace) -> float:
    """Take one predictor-corrector step on x (n,) and w (n,), in place; return the new lam."""
    H, vectors, order, error, dx = room
    n = A.shape[0]
    target, dw = vectors[0], vectors[1]
    error[n] = 1.0
    for i in range(n):
        error[i] = -dot(A[i], x, 0, n) - w[i] + (rho * x[i] - lam if i < agents else 0.0)
        error[n] -= x[i] if i < agents else 0.0
        target[i] = 0.0
    mu = dot(x, w, 0, n) / n
    newton_matrix(A, agents, rho, x, w, H)
    if factor(H, n + 1, order) == 0.0:
        return np.nan
    direction(H, order, error, target, x, w, dx, dw)
    step = min(1.0, longest(x, dx, w, dw))
    affine = 0.0
    for i in range(n):
        affine += (x[i] + step * dx[i]) * (w[i] + step * dw[i]) / n
    for i in range(n):
        target[i] = mu * (affine / mu) ** 3 - dx[i] * dw[i]
    direction(H, order, error, target, x, w, dx, dw)
    step = min(1.0, max(0.9, 1.0 - mu) * longest(x, dx, w, dw))
    for i in range(n):
        x[i] += step * dx[i]
        w[i] += step * dw[i]
    moved: float = lam + step * dx[n]
    return moved


@compiled
def cross_over(
    A: Floats, agents: int, rho: float, x: Floats, w: Floats, tried: Bools, answer: Floats, room: Workspace
) -> float:
    """Solve exactly on the support that x and w suggest; return its residual, infinite where it was tried before."""
    fresh, lottery = False, False
    for i in range(A.shape[0]):
        inside = x[i] > w[i]
        fresh = fresh or inside != tried[i]
        lottery = lottery or (inside and i < agents)
        tried[i] = inside
    return certified_on(A, agents, rho, tried, answer, room, False) if fresh and lottery else np.inf


@compiled
def interior_games(
    start: int, stop: int, A: Floats, agents: int, rho: Floats, x: Floats, w: Floats, steps: Ints, certified: Bools
) -> None:
    """Solve games start to stop of A (n, m, m), the largest entry of each about 1, rho (n,) on the same scale.

    Writes x (n, m), the number of iterations and whether x is certified. Where it is not, x and w are the centre of all
    equilibria, as far as the method got.

    Args:
        agents: how many of the m entries are the lottery.
    """
    m = A.shape[1]
    room, tried, answer = workspace(max(m, 2)), np.empty(m, np.bool_), np.empty(m)
    for g in range(start, stop):
        lam = begin(A[g], agents, rho[g], x[g], w[g])
        certified[g] = False
        for i in range(m):
            tried[i] = False
        for step in range(_LIMIT):
            mu = dot(x[g], w[g], 0, m) / m
            steps[g] = step
            near = agents * mu < _TRY_BELOW
            if near and cross_over(A[g], agents, rho[g], x[g], w[g], tried, answer, room) < CERTIFIED:
                certified[g] = True
                break
            if not mu > _END or np.isnan(lam):
                break
            lam = iterate(A[g], agents, rho[g], lam, x[g], w[g], room)
        certified[g] = certified[g] or settle(A[g], agents, rho[g], tried, answer, room) < CERTIFIED
        for i in range(m if certified[g] else 0):
            x[g, i] = answer[i]

"""Compiled kernels of the L2 game: the exact solve on a support, principal pivoting, an interior point method.

The game is written as the complementarity problem

    x >= 0,   w = R x - A x - lam e >= 0,   x w = 0,   e x = 1,        R = diag(rho, ..., rho, 0), e = (1, ..., 1, 0),

with A (n, n) antisymmetric. The first `agents` entries of x are the lottery; a hard budget adds one more, its
multiplier. Multiplying by x gives lam = rho ||lottery||^2, so a residual needs no multiplier.
"""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.game.compiled import compiled
from nasheval.game.linear import careful_dot, dot, factor, substitute

CERTIFIED = 1e-12  # the residual of a game whose largest entry is 1
_STRICT = 1e-11  # margin that makes an equilibrium without regulariser the only one
_ROUNDING, _CAREFUL = -1e-9, -1e-13  # weights below these, plainly or carefully solved, say that the support is wrong
_ZERO = 1e-11  # an entry of the tableau above minus this counts as not negative
_GREEDY, _SURE = 8, 8  # pivots an agent by the greedy rule, then by the sure rule
_TRY_BELOW = 1e-3  # complementarity from which the interior method tries supports
_END, _LIMIT = 1e-16, 100  # where the interior method stops: mean complementarity, iterations
Workspace = tuple[Floats, Floats, Ints, Floats, Floats]


# The exact solve on a support, and the residual that certifies it.


@compiled
def workspace(n: int) -> Workspace:
    """Return room for the linear systems of a game with n entries."""
    square = (n + 1, n + 1)
    return np.empty(square), np.empty(square), np.empty(n + 1, np.int64), np.empty(n + 1), np.empty(n + 1)


@compiled
def residual(A: Floats, agents: int, rho: float, x: Floats) -> float:
    """Return the largest of |min(x_i, w_i)| and |e x - 1|, zero exactly at the equilibrium."""
    n = A.shape[0]
    lam = rho * dot(x, x, 0, agents)
    worst, total = 0.0, 0.0
    for i in range(n):
        w = -dot(A[i], x, 0, n)
        if i < agents:
            w += rho * x[i] - lam
            total += x[i]
        worst = max(worst, abs(min(x[i], w)))
    return max(worst, abs(total - 1.0))


@compiled
def bordered(A: Floats, agents: int, rho: float, inside: Bools, B: Floats) -> int:
    """Write the system of the support, [R - A, -e; e, 0] on the entries inside, into B; return its order."""
    n = A.shape[0]
    m = 0
    for i in range(n):
        if inside[i]:
            k = 0
            for j in range(n):
                if inside[j]:
                    B[m, k] = -A[i, j]
                    k += 1
            border = 1.0 if i < agents else 0.0
            B[m, m] += rho * border
            B[m, k] = -border
            B[k, m] = border
            m += 1
    B[m, m] = 0.0
    return m + 1


@compiled
def refined(B: Floats, m: int, lu: Floats, order: Ints, y: Floats, error: Floats, careful: bool) -> None:
    """Write the solution of B y = (0, ..., 0, 1) into y, given the factors of B, refined once, or carefully."""
    for i in range(m):
        y[i] = 1.0 if i == m - 1 else 0.0
    substitute(lu, m, order, y)
    for _ in range(4 if careful else 1):
        for i in range(m):
            target = 1.0 if i == m - 1 else 0.0
            error[i] = careful_dot(B[i], y, target, m) if careful else target - dot(B[i], y, 0, m)
        substitute(lu, m, order, error)
        for i in range(m):
            y[i] += error[i]


@compiled
def solve_on(A: Floats, agents: int, rho: float, inside: Bools, x: Floats, work: Workspace, careful: bool) -> float:
    """Solve for x (n,) with support inside (n,); return how regular the system is (0: not at all).

    Weights that rounding left below zero become zero. Where the support is wrong, some weight stays negative.
    """
    B, lu, order, y, error = work
    m = bordered(A, agents, rho, inside, B)
    regular, y[0] = 1.0, 1.0  # one agent alone gets everything
    if m > 2:
        for i in range(m):
            for j in range(m):
                lu[i, j] = B[i, j]
        regular = factor(lu, m, order)
        if regular > 0.0:
            refined(B, m, lu, order, y, error, careful)
    k, total = 0, 0.0
    for i in range(A.shape[0]):
        x[i] = 0.0
        if inside[i] and regular > 0.0:
            x[i] = 0.0 if (_CAREFUL if careful else _ROUNDING) < y[k] < 0.0 else y[k]
            total += x[i] if i < agents else 0.0
            k += 1
    for i in range(A.shape[0] if total > 0.0 else 0):
        x[i] /= total
    return regular


@compiled
def is_strict(A: Floats, inside: Bools, x: Floats) -> bool:
    """Whether every entry inside has weight and every other loses, both by a clear margin."""
    margin = 1.0
    for i in range(A.shape[0]):
        margin = min(margin, x[i] if inside[i] else -dot(A[i], x, 0, A.shape[0]))
    return margin > _STRICT


@compiled
def certified_on(A: Floats, agents: int, rho: float, inside: Bools, x: Floats, work: Workspace, careful: bool) -> float:
    """Solve for x (n,) on the support inside (n,) and return its residual, infinite where it is not the one answer.

    Without regulariser there may be several; a strict answer of a regular system is the only one.
    """
    regular = solve_on(A, agents, rho, inside, x, work, careful)
    if regular == 0.0 or (rho == 0.0 and (regular < _STRICT or not is_strict(A, inside, x))):
        return np.inf
    return residual(A, agents, rho, x)


@compiled
def first_wrong(A: Floats, agents: int, rho: float, inside: Bools, x: Floats) -> int:
    """Return the first entry on the wrong side of the support that x (n,) was solved on, -1 where none is."""
    n = A.shape[0]
    lam = rho * dot(x, x, 0, agents)
    for i in range(n):
        w = -dot(A[i], x, 0, n) + (rho * x[i] - lam if i < agents else 0.0)
        if (inside[i] and x[i] < 0.0) or (not inside[i] and w < -CERTIFIED / 2):
            return i
    return -1


@compiled
def settle(A: Floats, agents: int, rho: float, inside: Bools, x: Floats, work: Workspace) -> float:
    """As `certified_on`, but mend a support that rounding misled, by the sure rule, carefully solved each time."""
    wrong = certified_on(A, agents, rho, inside, x, work, False)
    for _ in range(min(A.shape[0] ** 2, 1000)):
        if wrong < CERTIFIED or rho == 0.0:
            break
        wrong = certified_on(A, agents, rho, inside, x, work, True)
        i = first_wrong(A, agents, rho, inside, x) if wrong < np.inf else -1
        if wrong < CERTIFIED or i < 0:
            break
        inside[i] = not inside[i]
    return wrong


# Principal pivoting. A basis is a nonempty support; its tableau holds weights (inside) and losses w (outside) as
# functions of the others. An entry below zero says that its agent is on the wrong side, and a pivot moves it over.
# R - A is a P-matrix, so always moving the first such agent ends for certain (Murty). Moving the one with the largest
# q^2 / diagonal takes a third of the pivots and hardly ever cycles; where it has taken long, the sure rule takes over.


@compiled
def tableau(A: Floats, rho: float, T: Floats, q: Floats, inside: Bools) -> None:
    """Write the tableau of the support {s} into T (K, K) and q (K,), with s the agent of the largest mean margin."""
    K = A.shape[0]
    s, most = 0, -1e300
    for i in range(K):
        total = 0.0
        for j in range(K):
            total += A[i, j]
        if total > most:
            s, most = i, total
    for i in range(K):
        a = A[i, s] + rho
        for j in range(K):
            T[i, j] = a - A[i, j] + A[s, j]
        T[i, i] += rho
        T[i, s] = 1.0
        q[i] = A[s, i] - rho
        inside[i] = i == s
    for j in range(K):
        T[s, j] = -1.0
    T[s, s] = 0.0
    q[s] = 1.0


@compiled
def choose(T: Floats, q: Floats, greedy: bool) -> int:
    """Return the agent to move over, -1 where none is on the wrong side."""
    best, most = -1, 0.0
    for i in range(q.shape[0]):
        if q[i] < -_ZERO:
            if not greedy:
                return i
            gain = q[i] * q[i] / max(T[i, i], 1e-300)
            if gain > most:
                best, most = i, gain
    return best


@compiled
def pivot(T: Floats, q: Floats, r: int) -> None:
    """Move agent r over to the other side: exchange its weight and its loss, in place."""
    inverse = 1.0 / T[r, r]
    top = T[r]
    for i in range(q.shape[0]):
        if i != r:
            f = T[i, r] * inverse
            row = T[i]
            for j in range(row.shape[0]):
                row[j] -= f * top[j]
            row[r] = f
            q[i] -= f * q[r]
    for j in range(top.shape[0]):
        top[j] *= -inverse
    q[r] *= -inverse
    top[r] = inverse


@compiled
def find_support(A: Floats, rho: float, T: Floats, q: Floats, inside: Bools) -> int:
    """Pivot until inside (K,) is the support; return the number of pivots, also where the limit stopped them."""
    K = A.shape[0]
    tableau(A, rho, T, q, inside)
    for step in range((_GREEDY + _SURE) * K):
        r = choose(T, q, step < _GREEDY * K)
        if r < 0:
            return step
        pivot(T, q, r)
        inside[r] = not inside[r]
    limit: int = (_GREEDY + _SURE) * K
    return limit


@compiled
def pivot_games(start: int, stop: int, A: Floats, rho: Floats, x: Floats, steps: Ints, certified: Bools) -> None:
    """Solve games start to stop of A (n, K, K), the largest entry of each about 1, rho (n,) on the same scale.

    Writes the lottery x (n, K), the number of pivots and whether it is certified. With rho = 0 the support comes from
    a slight rho.
    """
    K = A.shape[1]
    T, q, inside, work = np.empty((K, K)), np.empty(K), np.empty(K, np.bool_), workspace(K)
    for g in range(start, stop):
        steps[g] = find_support(A[g], max(rho[g], 1e-7), T, q, inside)
        certified[g] = settle(A[g], K, rho[g], inside, x[g], work) < CERTIFIED


# The interior point method: predictor and corrector share one factorisation (Mehrotra). From the moment the pairs
# (x_i, w_i) begin to separate, the support they suggest is tried in the exact solve; a certified answer ends the run.


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

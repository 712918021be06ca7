"""Compiled: principal pivoting, for L2 games of few agents.

A basis is a nonempty support; its tableau holds weights (inside) and losses w (outside) as functions of the others. An
entry below zero says that its agent is on the wrong side, and a pivot moves it over. R - A is a P-matrix, so always
moving the first such agent ends for certain (Murty). Moving the one with the largest q^2 / diagonal takes a third of
the pivots and hardly ever cycles; where it has taken long, the sure rule takes over.
"""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.game.compiled import compiled, inlined
from nasheval.game.single import CERTIFIED, GREEDY, REFINEMENTS, REGULAR, ROUNDING, SLIGHT, STILL, STRICT, SURE, ZERO
from nasheval.game.supports import settle, workspace


@inlined
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


@inlined
def choose(T: Floats, q: Floats, greedy: bool) -> int:
    """Return the agent to move over, -1 where none is on the wrong side."""
    best, most = -1, 0.0
    for i in range(q.shape[0]):
        gain = q[i] * q[i] / max(T[i, i], 1e-300) if greedy else 1.0
        better = (gain if q[i] < -ZERO else 0.0) > most  # without branches, which nobody could foresee
        best = i if better else best
        most = gain if better else most
    return best


@inlined
def pivot(T: Floats, q: Floats, r: int, top: Floats) -> None:
    """Move agent r over to the other side: exchange its weight and its loss, in place; top (K,) is room for a row."""
    K = q.shape[0]
    inverse = 1.0 / T[r, r]
    constant = q[r] * inverse
    for j in range(K):
        top[j] = T[r, j] * inverse
    for i in range(K):
        f = T[i, r]
        for j in range(K):
            T[i, j] -= f * top[j]
        T[i, r] = f * inverse
        q[i] -= f * constant
    for j in range(K):
        T[r, j] = -top[j]
    q[r] = -constant
    T[r, r] = inverse


@compiled
def find_support(A: Floats, rho: float, T: Floats, q: Floats, inside: Bools, top: Floats) -> int:
    """Pivot until inside (K,) is the support; return the number of pivots, also where the limit stopped them."""
    K = A.shape[0]
    tableau(A, rho, T, q, inside)
    for step in range((GREEDY + SURE) * K):
        r = choose(T, q, step < GREEDY * K)
        if r < 0:
            return step
        pivot(T, q, r, top)
        inside[r] = not inside[r]
    limit: int = (GREEDY + SURE) * K
    return limit


@inlined
def losses(A: Floats, rho: float, on: Ints, m: int, x: Floats, w: Floats) -> None:
    """Write the losses w = rho x - A x - rho ||x||^2 (K,) of lottery x (K,), row by row since A = -A^T.

    Args:
        on: the m agents of the support come first; a list, since testing every agent costs more than adding.
    """
    K = x.shape[0]
    square = 0.0
    for i in range(K):
        w[i] = 0.0
    for a in range(m):
        j = on[a]
        square += x[j] * x[j]
        for i in range(K):
            w[i] += A[j, i] * x[j]
    for i in range(K):
        w[i] += rho * (x[i] - square)


@inlined
def refine(T: Floats, on: Ints, m: int, w: Floats, x: Floats) -> tuple[float, float]:
    """Move the weights x (K,) so that the losses w (K,) inside vanish; return the largest move and entry of T used."""
    moved, largest = 0.0, 0.0
    for a in range(m):
        i, move = on[a], 0.0
        for b in range(m):
            move += T[i, on[b]] * w[on[b]]
            largest = max(largest, abs(T[i, on[b]]))
        x[i] -= move
        moved = max(moved, abs(move))
    return moved, largest


@compiled
def read_off(A: Floats, rho: float, T: Floats, q: Floats, on: Ints, m: int, x: Floats, w: Floats) -> float:
    """Write the lottery of the tableau's support into x (K,); return its residual, infinite where rounding rules.

    The tableau holds the inverse of the support's system, for a rho as large or larger: refining with it is the exact
    solve without a factorisation. Without regulariser the answer must be strict, and so the only one.
    """
    K = x.shape[0]
    moved, largest, total, worst, margin = np.inf, 0.0, 0.0, 0.0, 1.0
    for i in range(K):
        x[i] = 0.0
    for a in range(m):
        x[on[a]] = q[on[a]]
    for _ in range(REFINEMENTS):
        losses(A, rho, on, m, x, w)
        moved, largest = refine(T, on, m, w, x)
        if moved <= STILL:
            break
    for i in range(K):
        x[i] = 0.0 if ROUNDING < x[i] < 0.0 else x[i]
        total += x[i]
    if not 0.0 < total < np.inf:  # a pivot was zero, and its NaN would pass every comparison below
        return np.inf
    for i in range(K):
        x[i] /= total
    losses(A, rho, on, m, x, w)
    for i in range(K):
        worst = max(worst, abs(min(x[i], w[i])))
        margin = min(margin, max(x[i], w[i]))
    unique = rho > 0.0 or (margin > STRICT and largest < REGULAR)
    return worst if unique and moved <= STILL else np.inf


@inlined
def listed(inside: Bools, on: Ints) -> int:
    """Write the agents inside (K,) to the front of on (K + 1,); return how many they are."""
    m = 0
    for i in range(inside.shape[0]):
        on[m] = i
        m += 1 if inside[i] else 0
    return m


@compiled
def pivot_games(start: int, stop: int, A: Floats, rho: Floats, x: Floats, steps: Ints, certified: Bools) -> None:
    """Solve games start to stop of A (n, K, K), the largest entry of each about 1, rho (n,) on the same scale.

    Writes the lottery x (n, K), the number of pivots and whether it is certified.
    """
    K = A.shape[1]
    T, q, inside, work = np.empty((K, K)), np.empty(K), np.empty(K, np.bool_), workspace(K)
    w, on = np.empty(K), np.empty(K + 1, np.int64)
    for g in range(start, stop):
        steps[g] = find_support(A[g], max(rho[g], SLIGHT), T, q, inside, w)
        certified[g] = read_off(A[g], rho[g], T, q, on, listed(inside, on), x[g], w) < CERTIFIED
        if not certified[g]:
            certified[g] = settle(A[g], K, rho[g], inside, x[g], work) < CERTIFIED

"""Compiled dense linear algebra on small matrices, with LU in place.

Matrices are the leading m by m part of a larger one, so that one workspace serves every game of a batch.
"""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.game.compiled import compiled, inlined


@compiled
def survey_games(start: int, stop: int, A: Floats, largest: Floats, uneven: Floats) -> None:
    """Write the largest |A_ij| (NaN where one is not finite) and the largest |A_ij + A_ji| of each game."""
    for g in range(start, stop):
        most, worst, finite = 0.0, 0.0, True
        for i in range(A.shape[1]):
            for j in range(i + 1):
                size = max(abs(A[g, i, j]), abs(A[g, j, i]))
                most, worst = max(most, size), max(worst, abs(A[g, i, j] + A[g, j, i]))
                finite = finite and abs(A[g, i, j]) < np.inf and abs(A[g, j, i]) < np.inf
        largest[g], uneven[g] = most if finite else np.nan, worst


@compiled
def size_games(start: int, stop: int, entries: Floats, largest: Floats) -> None:
    """Write the largest of entries (n, K K) of each antisymmetric game, which is the largest |A_ij|."""
    whole = entries.shape[1] - entries.shape[1] % 4
    for g in range(start, stop):
        a = entries[g]
        m0, m1, m2, m3 = 0.0, 0.0, 0.0, 0.0  # side by side, as in `dot`
        for i in range(0, whole, 4):
            m0, m1, m2, m3 = max(m0, a[i]), max(m1, a[i + 1]), max(m2, a[i + 2]), max(m3, a[i + 3])
        for i in range(whole, a.shape[0]):
            m0 = max(m0, a[i])
        largest[g] = max(max(m0, m1), max(m2, m3))


@compiled
def fill_games(start: int, stop: int, pairs: Floats, A: Floats) -> None:
    """Write A_jk = -A_kj of games A (n, K, K) from their pairs j < k (n, n_pairs); no negative zeros."""
    for g in range(start, stop):
        place = 0
        for j in range(A.shape[1]):
            A[g, j, j] = 0.0
            for k in range(j + 1, A.shape[1]):
                A[g, j, k], A[g, k, j] = pairs[g, place], 0.0 - pairs[g, place]
                place += 1


@compiled
def dot(a: Floats, b: Floats, start: int, stop: int) -> float:
    """Return the inner product of a[start:stop] and b[start:stop], in four sums that run side by side."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = stop - (stop - start) % 4
    for i in range(start, whole, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(whole, stop):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@compiled
def careful_dot(a: Floats, b: Floats, start: float, m: int) -> float:
    """Return start - a . b over m entries as if in twice the precision (Ogita, Rump and Oishi's Dot2)."""
    high, low = start, 0.0
    for i in range(m):
        x, y = -a[i], b[i]
        product = x * y
        c, d = 134217729.0 * x, 134217729.0 * y  # Veltkamp's split: x = x1 + x2 with half the digits each
        x1, y1 = c - (c - x), d - (d - y)
        x2, y2 = x - x1, y - y1
        low += x2 * y2 - (((product - x1 * y1) - x2 * y1) - x1 * y2)
        total = high + product
        back = total - high
        low += (high - (total - back)) + (product - back)
        high = total
    return high + low


@inlined
def pivot_column(a: Floats, m: int, k: int, stop: int, order: Ints) -> float:
    """Bring the largest entry of column k to the diagonal, take column k off those up to `stop`; return its size."""
    best = k
    for i in range(k + 1, m):
        if abs(a[i, k]) > abs(a[best, k]):
            best = i
    order[k] = best
    top, other = a[k], a[best]  # rows as views: over whole views the compiler writes vector loops
    if best != k:
        for j in range(m):
            top[j], other[j] = other[j], top[j]
    size: float = abs(top[k])
    inverse = 1.0 / top[k]
    for i in range(k + 1, m):
        a[i, k] *= inverse
        f = a[i, k]
        for j in range(k + 1, stop):
            a[i, j] -= f * top[j]
    return size


@inlined
def take_off_four(a: Floats, m: int, k: int) -> None:
    """Take the four rows from k on, done up to their columns, off the columns right of these."""
    r0, r1, r2, r3 = a[k, k + 4 : m], a[k + 1, k + 4 : m], a[k + 2, k + 4 : m], a[k + 3, k + 4 : m]
    for c in range(k + 1, k + 4):
        for d in range(k, c):
            f, row, above = a[c, d], a[c, k + 4 : m], a[d, k + 4 : m]
            for j in range(row.shape[0]):
                row[j] -= f * above[j]
    for i in range(k + 4, m):
        f0, f1, f2, f3, row = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3], a[i, k + 4 : m]
        for j in range(row.shape[0]):
            row[j] = (((row[j] - f0 * r0[j]) - f1 * r1[j]) - f2 * r2[j]) - f3 * r3[j]


@compiled
def factor(a: Floats, m: int, order: Ints) -> float:
    """Factor a (m, m) as LU in place; return the smallest pivot over the largest, 0 where a is singular.

    Four columns at a time, so that the rest of the matrix is read once for all four: the bits are those of one by one.
    """
    least, most = 1e300, 0.0
    for k in range(0, m, 4):
        stop = min(k + 4, m)
        for column in range(k, stop):
            size = pivot_column(a, m, column, stop, order)
            least, most = min(least, size), max(most, size)
            if not size > 0.0:  # also where a held a NaN
                return 0.0
        if stop < m:
            take_off_four(a, m, k)
    return least / most


@compiled
def substitute(lu: Floats, m: int, order: Ints, b: Floats) -> None:
    """Solve with the factors that `factor` left, in place: b (m,) becomes the solution."""
    for k in range(m):
        b[k], b[order[k]] = b[order[k]], b[k]
    for i in range(m):
        b[i] -= dot(lu[i], b, 0, i)
    for i in range(m - 1, -1, -1):
        b[i] = (b[i] - dot(lu[i], b, i + 1, m)) / lu[i, i]

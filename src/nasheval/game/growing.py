"""Compiled: L2 games of many agents, few of whom play.

A game is solved among a few candidates: by pivoting while they are few, then by the interior method. Those who would
win against that lottery join them, the largest winners first, until nobody would: its support is that of the whole
game. The lottery is then solved on the support as the interior method does, so that no bit of it depends on how the
support was found. A game that needs too many candidates is left to the interior method.
"""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.game.compiled import compiled, inlined
from nasheval.game.interior import interior_games
from nasheval.game.pivoting import find_support
from nasheval.game.single import CERTIFIED, SLIGHT, ZERO
from nasheval.game.supports import certified_on, workspace

_PIVOTED = 55  # candidates; beyond, the interior method is safer
_SHARE = 2  # at most one in so many agents is a candidate, where that is more
_JOIN = 8  # candidates that join at a time, and half as many as there are
_JUDGED = 20  # candidates from which on the winners left out tell how many more are needed: half again as many


@inlined
def losses_against(A: Floats, rho: float, on: Ints, c: int, x: Floats, w: Floats) -> int:
    """Write the losses w (K,) of the agents left out against the candidates' lottery x (c,); return how many win."""
    K = w.shape[0]
    square, wins = 0.0, 0
    for a in range(c):
        square += x[a] * x[a]
    for i in range(K):
        w[i] = -rho * square
    for a in range(c):
        if x[a] > 0.0:
            row = A[on[a]]
            for i in range(K):
                w[i] += row[i] * x[a]  # row by row, since A = -A^T
    for a in range(c):
        w[on[a]] = 0.0
    for i in range(K):
        wins += 1 if w[i] < -ZERO else 0
    return wins


@inlined
def join(w: Floats, on: Ints, c: int, more: int) -> int:
    """Append the agents of the smallest losses w (K,) to the candidates on; return how many candidates there are."""
    for place in range(c, c + more):
        least = 0
        for i in range(w.shape[0]):
            least = i if w[i] < w[least] else least
        on[place], w[least] = least, 0.0
    return c + more


@compiled
def lottery_among(A: Floats, rho: float, on: Ints, c: int, G: Floats, T: Floats, x: Floats, w: Floats) -> int:
    """Write the lottery x (c,) among the first c agents of on; return the steps, -1 where none was found.

    Args:
        G, T: room for two games of as many candidates as there may be, flat.
        w: (K,) room.
    """
    game, inside = G[: c * c].reshape(c, c), np.empty(c, np.bool_)
    for a in range(c):
        for b in range(c):
            game[a, b] = A[on[a], on[b]]
    if c <= _PIVOTED:
        pivots = find_support(game, rho, T[: c * c].reshape(c, c), x[:c], inside, w[:c])
        for a in range(c):
            x[a] = max(x[a], 0.0) if inside[a] else 0.0
        return pivots
    both, steps, certified = np.empty((2, 1, c)), np.empty(1, np.int64), np.empty(1, np.bool_)
    interior_games(0, 1, game.reshape(1, c, c), c, np.full(1, rho), both[0], both[1], steps, certified)
    for a in range(c):
        x[a] = both[0, 0, a]
    found: int = steps[0] if certified[0] else -1
    return found


@compiled
def grow(A: Floats, rho: float, most: int, inside: Bools, on: Ints, G: Floats, T: Floats, x: Floats, w: Floats) -> int:
    """Write the support into inside (K,), empty where more than `most` candidates are needed; return the steps."""
    c, total = 1, 0
    on[0] = 0
    inside[:] = False
    while True:
        steps = lottery_among(A, rho, on, c, G, T, x, w)
        if steps < 0:
            return total
        total += steps
        wins = losses_against(A, rho, on, c, x, w)
        if wins == 0:
            break
        more = min(wins, _JOIN + c // 2)
        if c + (more if c < _JUDGED else 3 * wins // 2) > most:
            return total
        c = join(w, on, c, more)
    for a in range(c):
        inside[on[a]] = x[a] > 0.0
    return total


@compiled
def grow_games(start: int, stop: int, A: Floats, rho: Floats, x: Floats, steps: Ints, certified: Bools) -> None:
    """Solve games start to stop of A (n, K, K), the largest entry of each about 1, rho (n,) on the same scale.

    Writes the lottery x (n, K), the number of pivots and interior steps, and whether it is certified over all agents.
    """
    K = A.shape[1]
    most = min(max(_PIVOTED, K // _SHARE), K)
    G, T, lottery = np.empty(most * most), np.empty(_PIVOTED * _PIVOTED), np.empty(most)
    inside, on, w, work = np.empty(K, np.bool_), np.empty(most, np.int64), np.empty(K), workspace(K)
    for g in range(start, stop):
        steps[g] = grow(A[g], max(rho[g], SLIGHT), most, inside, on, G, T, lottery, w)
        certified[g] = inside.any() and certified_on(A[g], K, rho[g], inside, x[g], work, False) < CERTIFIED

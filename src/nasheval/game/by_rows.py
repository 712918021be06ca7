"""Compiled: L2 games of many agents of which only the rows of candidates are known, asked for as they are needed.

A lottery takes the payoffs of those who play it against everybody, and nobody else's. As in `growing`, a game is solved
among a few candidates, and those who would win against that lottery join; here their rows are asked for then. The
lottery on the support found, and its certificate, are those of the whole game, in the same kernels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, runs
from nasheval.game.compiled import compiled, spread
from nasheval.game.growing import join, losses_against, lottery_among
from nasheval.game.single import CERTIFIED, LARGEST_GAP, SLIGHT, UNIT
from nasheval.game.supports import certified_on, certify_games, workspace

_FEW = 8  # candidates of a game
_SHARE = 8  # or one in so many agents, where that is more


def lotteries_by_rows(ask: Callable[[Ints, Ints], Floats], first: Ints, K: int, rho: float) -> tuple[Floats, Bools]:
    """Return the lotteries (n, K) of games on [-1, 1], and which of them (n,) are certified; the others are left open.

    Args:
        ask: (m,) games and (m,) agents -> (m, K) the payoffs of that agent in that game against every agent.
        first: (n,) the agents whose rows are asked for first.
        rho: of L2, above 0.
    """
    n, most = len(first), min(max(_FEW, K // _SHARE), K)
    rows, on = np.empty((most, n, K)), np.zeros((n, most), np.int64)
    on[:, 0] = first
    x, certified = np.zeros((n, K)), np.zeros(n, bool)
    asked, wanted, pending = np.zeros(n, np.int64), np.ones(n, np.int64), np.arange(n)
    while len(pending):
        new = (wanted - asked)[pending]
        game, place = np.repeat(pending, new), runs(asked[pending], new)
        rows[place, game] = ask(game, on[game, place])
        asked[pending] = wanted[pending]
        spread(grow_by_rows, len(pending), 1e2 * K, pending, rows, on, wanted, rho, x, certified)
        pending = pending[wanted[pending] > asked[pending]]
    return x, certified


@compiled
def grow_by_rows(
    start: int, stop: int, games: Ints, rows: Floats, on: Ints, wanted: Ints, rho: float, x: Floats, certified: Bools
) -> None:
    """Write the lotteries of games start to stop of `games` among their candidates, or add candidates to on (n, most).

    Games that are not of unit scale stay open, and so do those in which too many would win: whoever is asked first, few
    do where few play.

    Args:
        rows: (most, n, K) the payoffs of each candidate.
        wanted: (n,) how many candidates there are; more afterwards where their rows are to be asked for.
    """
    most, _, K = rows.shape
    A, gap, kkt = np.empty((1, K, K)), np.empty(1), np.empty(1)
    G, T, lottery = np.empty(most * most), np.empty(most * most), np.empty(most)
    inside, w, work = np.empty(K, np.bool_), np.empty(K), workspace(K)
    for place in range(start, stop):
        g = games[place]
        c, largest = wanted[g], 0.0
        for a in range(c):
            row, own = rows[a, g], A[0, on[g, a]]
            for k in range(K):
                own[k] = row[k]
                largest = max(largest, abs(row[k]))
        if not UNIT[0] <= largest or lottery_among(A[0], max(rho, SLIGHT), on[g], c, G, T, lottery, w) < 0:
            continue
        wins = losses_against(A[0], max(rho, SLIGHT), on[g], c, lottery, w)
        if wins > 0:
            wanted[g] = join(w, on[g], c, min(wins, 1 + c // 2)) if c + wins <= most else c
            continue
        inside[:] = False
        for a in range(c):
            inside[on[g, a]] = lottery[a] > 0.0
        if inside.any() and certified_on(A[0], K, rho, inside, x[g], work, False) < CERTIFIED:
            certify_games(0, 1, A, rho, x[g : g + 1], gap, kkt)
            certified[g] = abs(gap[0]) <= LARGEST_GAP * rho

"""Compiled: one small L2 game, from its pairs to its lottery in one call, by the kernels that solve many."""

from __future__ import annotations

import math

import numpy as np

from nasheval.arrays import Floats
from nasheval.game.compiled import compiled
from nasheval.game.linear import fill_games, size_games
from nasheval.game.pivoting import pivot_games
from nasheval.game.single import LARGEST_GAP
from nasheval.game.supports import certify_games


@compiled
def one_game(pairs: Floats, K: int, rho: float) -> tuple[Floats, bool]:
    """Return the lottery (1, K) of the game with A_jk of the pairs j < k, (1, n_pairs), and whether it is certified."""
    A = np.empty((1, K, K))
    fill_games(0, 1, pairs, A)
    return settled_game(A, rho)


@compiled
def settled_game(A: Floats, rho: float) -> tuple[Floats, bool]:
    """Return the lottery (1, K) of one game A (1, K, K), which is scaled in place, and whether it is certified."""
    K = A.shape[1]
    x, largest, gap, kkt = np.empty((1, K)), np.empty(1), np.full(1, np.inf), np.empty(1)
    steps, certified = np.empty(1, np.int64), np.empty(1, np.bool_)
    size_games(0, 1, A.reshape(1, K * K), largest)
    size = max(largest[0], rho)
    power = np.rint(math.log2(size)) if 0.0 < size < np.inf else 0.0
    if abs(power) > 2.0:  # as `unit_scale` has it
        scale = math.ldexp(1.0, int(power))
        rho, largest[0] = rho / scale, largest[0] / scale
        for i in range(K):
            for j in range(K):
                A[0, i, j] /= scale
    pivot_games(0, 1, A, np.full(1, rho), x, steps, certified)
    if certified[0]:
        certify_games(0, 1, A, rho, x, gap, kkt)
    return x, abs(gap[0]) <= LARGEST_GAP * (largest[0] + rho)

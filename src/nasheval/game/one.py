"""Compiled: one small L2 game, from its pairs to its lottery in one call, by the kernels that solve many."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Floats
from nasheval.game.compiled import compiled
from nasheval.game.linear import fill_games, size_games
from nasheval.game.pivoting import pivot_games
from nasheval.game.supports import certify_games


@compiled
def one_game(pairs: Floats, K: int, rho: float) -> tuple[Floats, float, float]:
    """Return the lottery (1, K) of the game with A_jk of the pairs j < k, (1, n_pairs), its largest entry and gap.

    The gap is infinite where the lottery is not certified. The game is taken as it is, not brought to unit scale.
    """
    A, x, rhos = np.empty((1, K, K)), np.empty((1, K)), np.full(1, rho)
    largest, gap, kkt = np.empty(1), np.full(1, np.inf), np.empty(1)
    steps, certified = np.empty(1, np.int64), np.empty(1, np.bool_)
    fill_games(0, 1, pairs, A)
    size_games(0, 1, A.reshape(1, K * K), largest)
    pivot_games(0, 1, A, rhos, x, steps, certified)
    if certified[0]:
        certify_games(0, 1, A, rho, x, gap, kkt)
    return x, largest[0], gap[0]

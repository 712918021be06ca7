"""Compiled: the game at one context, from what voters say of every pair to its lottery."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.game.compiled import compiled, inlined
from nasheval.game.one import settled_game
from nasheval.nuisance.voters_compiled import say_duels


@inlined
def cut(value: float) -> float:
    """Return a payoff within [-1, 1]; what is no number stays none."""
    return -1.0 if value < -1.0 else 1.0 if value > 1.0 else value


@compiled
def duel_lottery(
    s: Floats, nu: Floats, bad: Floats, weight: Floats, alive: Bools, correction: Floats, rho: float
) -> tuple[Floats, bool]:
    """Return the lottery (1, K) of one game, and whether it is certified; shapes as in `Electorate`, n being 1.

    Args:
        alive: (K, K) the pairs that have a payoff; the others are 0.
        correction: (n_pairs,) what is added to the payoffs of the pairs j < k, or nothing.
    """
    folds, K = s.shape[0], s.shape[4]
    A, total, mean, run, pair = np.empty((1, K, K)), np.empty(K), np.empty(K, np.float32), np.empty((1, 4), np.int64), 0
    for j in range(K):
        run[0, 0], run[0, 1], run[0, 2], run[0, 3] = j + 1, j, j + 1, K - 1 - j
        total[:] = 0.0
        for f in range(folds):
            say_duels(f, 0, s, nu, bad, weight, run, mean)
            for k in range(j + 1, K):
                total[k] += mean[k]
        A[0, j, j] = 0.0
        for k in range(j + 1, K):
            payoff = cut(total[k] / folds)
            if len(correction):
                payoff = cut(payoff + correction[pair])
            pair += 1
            A[0, j, k] = payoff if alive[j, k] else 0.0
            A[0, k, j] = 0.0 - A[0, j, k]
    return settled_game(A, rho)

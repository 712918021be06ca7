"""What `make setup` compiles is what is used later."""

from __future__ import annotations

import numpy as np

from nasheval.forests.kernels import walk, walk_means, walk_pairs
from nasheval.game.interior import interior_games
from nasheval.game.one import one_game
from nasheval.game.pivoting import pivot_games
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import solve
from nasheval.nuisance.voters_compiled import duel_contexts
from nasheval.policy.warming import warm


def test_after_warming_nothing_is_left_to_compile():
    warm()
    kernels = pivot_games, interior_games, duel_contexts, one_game, walk, walk_means, walk_pairs
    before = [kernel.signatures for kernel in kernels]
    assert all(before)
    B = np.random.default_rng(0).normal(size=(3, 8, 8))
    for regularizer in (L2(0.01), L2(0.0), Entropy(0.2)):
        solve(B - B.swapaxes(1, 2), regularizer=regularizer, costs=np.arange(8.0), budget=2.0)
    assert [kernel.signatures for kernel in kernels] == before

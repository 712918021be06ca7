"""What `make setup` compiles is what is used later."""

from __future__ import annotations

import numpy as np

from nasheval.forests.forest import forest_of_trees
from nasheval.forests.kernels import walk, walk_agents, walk_means, walk_pairs
from nasheval.game.by_rows import grow_by_rows
from nasheval.game.growing import grow_games
from nasheval.game.interior import interior_games
from nasheval.game.one import one_game
from nasheval.game.pivoting import pivot_games
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import lottery, solve
from nasheval.nuisance.columns import ColumnModels
from nasheval.nuisance.learners import Features
from nasheval.nuisance.voters import Voters
from nasheval.nuisance.voters_compiled import duel_agents, duel_contexts, favour, halves_of_one
from nasheval.payoff.duel_game import duel_lottery
from nasheval.payoff.duels import DuelGames
from nasheval.payoff.stage1 import fit_stage1
from nasheval.payoff.surfaces import SharedSurface
from nasheval.policy.warming import warm

from .hand import duels


def test_after_warming_nothing_is_left_to_compile():
    warm()
    kernels = (
        *(pivot_games, grow_games, grow_by_rows, interior_games, one_game),
        *(walk, walk_means, walk_pairs, walk_agents, duel_contexts, duel_agents, favour, halves_of_one, duel_lottery),
    )
    before = [kernel.signatures for kernel in kernels]
    assert all(before)
    B = np.random.default_rng(0).normal(size=(3, 8, 8))
    for regularizer in (L2(0.01), L2(0.0), Entropy(0.2)):
        solve(B - B.swapaxes(1, 2), regularizer=regularizer, costs=np.arange(8.0), budget=2.0)
    larger = np.random.default_rng(0).normal(size=(3, 60, 60))
    solve(larger - larger.swapaxes(1, 2))
    split = {
        "feature": [1, 0, 0],
        "threshold": [0.5] * 3,
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "value": [1.0] * 3,
    }
    forest = forest_of_trees(4, True, [{name: np.array(values) for name, values in split.items()}] * 3)
    models, x = ColumnModels(((forest, 0.5), (0.25, forest)), -1.0, 1.0), np.ones((5, 4), np.float32)
    for rows in (1, 5):
        models.mean(Features(x[:rows], x[:rows]))
    models.cells(Features(x, x), 1, np.arange(5), np.arange(5) % 2)
    surface, two = SharedSurface(forest, np.arange(10) > 2, 5), np.arange(2)
    surface.predict(Features(x[:, :2], x))
    surface.of_agents(Features(x[:, :2], x), two, two)
    voters = Voters(voters=2, hidden=(8,), epochs=2, weight_decay=0.3, members=1)
    log = duels([("a", "b", "a"), ("b", "c", "c"), ("a", "b", "b")] * 20)
    model = fit_stage1(log, outcome=voters, second_stage="none", folds=2)
    X = Features.of(model.encoder, log.contexts)
    DuelGames.of(model.payoff).lotteries(X, L2(1e-3), np.ones(3, bool))
    assert DuelGames.of(model.payoff).lottery(X[:1], 1e-3) is not None
    assert lottery(np.linspace(-1, 1, 10)[None], 5, 1e-3) is not None
    assert [kernel.signatures for kernel in kernels] == before

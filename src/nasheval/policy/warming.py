"""`python -m nasheval.policy.warming`: compile solvers, walks through trees, and how voters answer and learn, once.

What is compiled is kept (`nasheval.game.compiled` says where), so that nobody waits for it later.
"""

from __future__ import annotations

import numpy as np

from nasheval.forests.forest import forest_of_trees
from nasheval.forests.packed import AtPairs, Packed
from nasheval.game.by_rows import lotteries_by_rows
from nasheval.game.checks import games_of
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.single import PIVOT_UP_TO
from nasheval.game.solver import lottery, solve
from nasheval.nuisance.voters_duel_loss import Duels, Parts
from nasheval.nuisance.voters_duels import Electorate, Pairs
from nasheval.nuisance.voters_records import Kind, Question, Table
from nasheval.payoff.duel_game import duel_lottery


def warm() -> None:
    """Solve two games of every kind and walk two small trees, so that everything is compiled for them."""
    games = games_of(np.array([[0.5, -0.5, 0.5], [0.25, 0.5, 0.75]]), 3)
    for regularizer in (L2(), Entropy(0.1)):
        for budget in (None, 0.5):
            solve(games, regularizer=regularizer, costs=np.arange(3.0), budget=budget)
    solve(np.zeros((2, PIVOT_UP_TO + 1, PIVOT_UP_TO + 1)))
    lottery(np.array([[0.5, -0.5, 0.5]]), 3, 1e-3)
    _walk()
    ones = np.ones((1, 1, 2, 1), np.float32)
    voters = Electorate.of(np.ones((1, 1, 2, 1, 2), np.float32), ones[:, :, 0], ones, ones[0])
    voters.duels(Pairs(np.arange(1), np.zeros(1, np.int64), np.ones(1, np.int64)), ones, ones)
    outputs = (np.ones(shape, np.float32) for shape in ((1, 1, 3), (1, 1, 1, 2), (1, 1, 1), (1, 1, 1), (1, 1)))
    one = Electorate.of_one(*outputs)
    duel_lottery(one.s, one.lean, one.lean, one.weight, np.ones((2, 2), bool), np.zeros(0), 1e-3)
    first = voters.favourites(np.ones(2, bool))
    lotteries_by_rows(lambda games, agents: voters.of_agents(games, agents, ones, ones), first, 2, 1e-3)
    zero, two = np.zeros(1, np.int64), np.array([[0], [1]])
    table = Table(Question(2, 0, Kind.DUEL, 0, 2), two, two, two, (), zero, np.ones(1), zero, zero, zero)
    parts = Parts(*(np.ones(shape, np.float32) for shape in ((1, 1, 1), (1, 5, 1), (1, 2, 1), (1, 1), (1, 2), (1, 1))))
    Duels([table]).losses(parts, [(zero, zero)], 1)
    Duels([table]).gradients(parts, [(zero, zero)], 1, np.ones(1))


def _walk() -> None:
    """Ask a tree of one split in every way that models are asked: rows, cells, and all pairs of two agents."""
    split = {
        "feature": [0, 0, 0],
        "threshold": [0.0] * 3,
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "value": [0.5] * 3,
    }
    trees = forest_of_trees(3, False, [{name: np.array(values) for name, values in split.items()}])
    packed, table, one = Packed.of([trees, 0.5]), np.zeros((2, 3), np.float32), np.zeros(1, np.int64)
    packed.predict(table)
    packed.cells(table, one, one)
    pairs = AtPairs.of(trees, one, one + 1)
    pairs.predict(table[:, :1], np.empty((2, 1)))
    pairs.of_agents(table[:, :1], one, one, np.array([0, 1, 2]), np.zeros(2, np.int64))


if __name__ == "__main__":
    warm()

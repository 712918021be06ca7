"""The worlds of `separations`, and what is counted there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from studies.benchmarks.separations import WORLDS, _false_separation, _line, log_of, study
from studies.harness.study import Cell


@pytest.mark.parametrize("name", WORLDS)
def test_votes_have_the_payoffs_of_their_world(name):
    world = WORLDS[name]
    logs = [log_of(world, seed) for seed in range(8)]
    margin = np.nanmean([log.pair_counts.margin for log in logs], axis=0)
    votes = sum(log.pair_counts.votes for log in logs)
    off = np.abs(margin - world.payoff) * np.sqrt(votes)
    upper = np.triu_indices(len(world.payoff), 1)
    assert all(log.n_records == world.votes for log in logs)
    assert np.median(off[upper]) < 2
    assert off[upper].max() < 5 if world.selected == 1 else True


def test_a_false_separation_is_one_from_a_lottery_that_does_not_beat_the_agent():
    payoff = np.array([[0, 0.2, 0.0], [-0.2, 0, 0.1], [0.0, -0.1, 0]])
    rows = pd.DataFrame({"agent": ["a", "b", "c"], "lottery": [1.0, 0.0, 0.0], "tied": [True, False, True]})
    assert not _false_separation(rows, payoff, "abc".index)
    assert _false_separation(rows.assign(tied=[True, False, False]), payoff, "abc".index)  # c is as good as a


def test_one_log_and_its_line():
    [row] = study(Cell("x", {"world": "cycle", "seed": 0, "outcome": "lightgbm"}))
    assert not row["apart"]
    assert row["tied"] == 3
    assert not row["shipped"]
    assert _line("a circle", [row])[:3] == ("a circle", "1", "0.000 [0.000, 0.995]")

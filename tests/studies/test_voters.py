"""The worlds of `voters`, and what is counted there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from studies.benchmarks.voters import WORLDS, _mean, drawn, line_of, study
from studies.harness.study import Cell


@pytest.mark.parametrize("name", WORLDS)
def test_logs_are_of_their_world(name):
    world = replace(WORLDS[name], votes=min(WORLDS[name].votes, 8000), honest=min(WORLDS[name].honest, 190))
    found = drawn(world, 0)
    records = found.log.records
    assert (found.log.n_records, found.log.n_agents) == (world.votes, world.agents)
    assert sum(found.plants.values()) == world.planters
    assert (records.time is not None) == (world.burst >= 0)
    names = found.log.voters.to_pylist()
    plants = np.array([found.plants[name] for name in names])[records.voter]
    assert plants.sum() == world.planters * world.each
    tie = (found.log.verdicts.z == 0)[~plants].mean()
    assert tie == pytest.approx(world.ties, abs=0.03)
    assert len(set(found.bloc.values())) == world.blocs


def test_loyal_planters_vote_for_one_agent():
    found = drawn(WORLDS["loyal"], 0)
    names, verdicts = found.log.voters.to_pylist(), found.log.verdicts
    plants = np.array([found.plants[name] for name in names])[found.log.records.voter]
    winner = np.where(verdicts.z > 0, verdicts.j, verdicts.k)[plants]
    assert len(set(winner.tolist())) == 1
    assert (verdicts.z[plants] != 0).all()


def test_one_log_and_its_line(monkeypatch):
    monkeypatch.setitem(WORLDS, "loyal", replace(WORLDS["loyal"], votes=4000, honest=90, planters=5))
    [row] = study(Cell("x", {"world": "loyal", "seed": 0, "outcome": "lightgbm"}))
    assert row["auc"] > 0.9
    assert row["planters"][1] == 5
    line = line_of("loyal", [row])
    assert line[1] == "1"
    assert "MISSED" not in "".join(line)
    assert "MISSED" in line_of("loyal", [{**row, "auc": 0.5}])[2]
    assert "MISSED" in line_of("loyal", [{**row, "honest": [2, 90]}])[4]


def test_blocs_are_counted(monkeypatch):
    [row] = study(Cell("x", {"world": "blocs", "seed": 0, "outcome": "lightgbm"}))
    assert row["blocs"] == 3
    assert row["rand"] > 0.7
    assert line_of("blocs", [row])[5] == "1 x 3"
    assert "MISSED" in line_of("blocs", [{**row, "rand": 0.7}])[6]


def test_means_have_intervals():
    assert _mean([]) == ""
    assert _mean([0.5]) == "0.500"
    assert _mean([0.9, 0.8, 1.0], bar=0.95).endswith("MISSED")

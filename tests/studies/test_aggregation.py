"""What a pooled equilibrium hides: a golden case, and the study on small data."""

from __future__ import annotations

import numpy as np
import pytest

import nasheval as ne
from studies.harness.rows import Rows
from studies.harness.running import run_study
from studies.harness.study import Scale
from studies.harness.writing import write
from studies.paper import aggregation

from .small_prompts import write_routed

CYCLE = np.array([[0.0, 1, -1], [-1, 0, 1], [1, -1, 0]])
LADDER = np.array([[0.0, 1, 1], [-1, 0, 1], [-1, -1, 0]])


def test_what_is_hidden_by_hand():
    """At two prompts of three a beats all; at the third there is a cycle. Pooled, a wins, and c would exploit that."""
    games = np.stack([LADDER, LADDER, CYCLE])
    single = ne.solve(games, regularizer=ne.L2(1e-3)).strategy
    found = aggregation.hidden(games, np.array([1.0, 0, 0]), single, ("a", "b", "c"))
    assert found == {
        "prompts": 3,
        "winner": "a",
        "condorcet": True,
        "without_condorcet": pytest.approx(1 / 3),
        "several": pytest.approx(1 / 3),
        "left_out": 0.0,
        "winners": found["winners"],
        "exploitability": pytest.approx(1 / 3),
    }


def test_a_winner_that_prompts_leave_out():
    single = np.array([[0.0, 1, 0], [1, 0, 0]])
    found = aggregation.hidden(np.stack([-LADDER, LADDER]), np.array([0.6, 0.4, 0]), single, ("a", "b", "c"))
    assert (found["left_out"], found["winners"], found["condorcet"]) == (0.5, 2, False)


def test_condorcet_winners_must_be_preferred_to_all():
    tie = LADDER.copy()
    tie[0, 1] = tie[1, 0] = 0
    assert aggregation.condorcet(np.stack([LADDER, CYCLE, tie])).tolist() == [True, False, False]


def test_the_whole_study_on_small_data(tmp_path, monkeypatch):
    write_routed(tmp_path)
    monkeypatch.setenv("NASHEVAL_DATA", str(tmp_path))
    out = tmp_path / "out"
    finished = run_study(aggregation.STUDY, out, Scale(quick=True), show=False)
    report = write(finished, out)
    assert (out / "aggregation.png").stat().st_size > 10_000
    assert [row[0] for row in report.tables[0].rows] == ["arc-challenge", "mbpp"]
    shown = Rows([row for row in finished.rows if "lottery" in row])
    assert len(shown) == 2 * (1 + aggregation.SHOWN) * 4
    for subset in shown.distinct("subset"):
        for context in shown.distinct("context"):
            assert shown.where(subset=subset, context=context).values("lottery").sum() == pytest.approx(1)

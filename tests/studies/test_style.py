"""The worlds of `style`, and what is counted there."""

from __future__ import annotations

import numpy as np
import pytest

from nasheval.feedback.style import differences
from studies.benchmarks.style import WORLDS, World, _differ, covered, drawn, line_of, study
from studies.harness.study import Cell


@pytest.mark.parametrize("name", WORLDS)
def test_logs_are_of_their_world(name):
    world = WORLDS[name]
    found = drawn(world, 0)
    assert (found.log.n_records, found.log.n_agents) == (world.votes, world.agents)
    assert found.log.style == ("words",)
    np.testing.assert_allclose(found.truth, -found.truth.T, atol=1e-12)
    assert np.abs(found.truth).max() < 1
    assert (found.log.records.voter is not None) == (world.voters > 0)


def test_verdicts_at_equal_style_have_the_payoffs_of_the_truth():
    """Of votes whose answers are nearly alike in style, pooled over logs, by position of the first agent."""
    hits = []
    for seed in range(6):
        found = drawn(World("", agents=3, votes=4_000), seed)
        d = differences(found.log, ["words", "position"])
        verdicts = found.log.verdicts
        near = np.abs(d[:, 0]) < 0.4
        expected = found.truth[verdicts.j, verdicts.k] + 0.05 * d[:, 1]
        hits.append((verdicts.z - expected)[near])
    rest = np.concatenate(hits)
    assert abs(rest.mean()) < 4 * rest.std() / np.sqrt(len(rest))


def test_a_star_shows_its_reference_first():
    log = drawn(WORLDS["star"], 0).log
    assert (log.pair_counts.votes[1:, 1:] == 0).all()
    assert (differences(log, ["position"]) == 1).all()


def test_differences_of_rows():
    values = np.array([[1.0, 4.0], [2.0, 7.0]])
    assert _differ(values, np.array([0, 1]), np.array([1, 0])).tolist() == [-3.0, 5.0]


def test_one_log_and_its_line():
    [row] = study(Cell("x", {"world": "three", "seed": 0, "outcome": "lightgbm"}))
    assert row["equal_error"] < row["voted_error"] / 4
    assert row["equal_covered"][1] == 3
    assert set(row["effects"]) == {"position", "words"}
    assert line_of("three", [row])[:2] == ("straight, three agents", "1")
    assert "MISSED" in line_of("three", [{**row, "equal_error": 1.0}])[4]


def test_coverage_that_misses_is_called_so():
    assert "MISSED" in covered([{"equal_covered": [8, 10]}] * 9 + [{"equal_covered": [7, 10]}], "equal")
    assert "MISSED" not in covered([{"equal_covered": [3, 3]}] * 9, "equal")  # no spread says nothing by itself
    assert "MISSED" not in covered([{"equal_covered": [19, 20]}] * 5 + [{"equal_covered": [18, 20]}] * 2, "equal")

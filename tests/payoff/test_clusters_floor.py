"""Means without any spread have errors all the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import nasheval as ne

HOW = {"outcome": Ridge(), "second_stage": "none", "folds": 2, "n_jobs": 1, "verbose": False}


def ties(n, others=()):
    rows = [("a", "b", "tie")] * n + list(others)
    columns = dict(zip(("model_a", "model_b", "winner"), map(list, zip(*rows, strict=True)), strict=True))
    table = pa.table({**columns, "x": np.random.default_rng(0).uniform(size=len(rows))})
    return ne.NashEval(**HOW).fit(ne.read_votes(table, context=["x"], design="draws"))


@pytest.mark.parametrize("n", [20, 300, 3000])
def test_votes_that_are_all_ties_tell_that_the_payoff_is_near_zero(n):
    """As many votes of one kind leave as much doubt whether they are ties or wins."""
    group = ties(n).payoff_interval()
    tied, half = group.upper[0, 1], 1.96 * 2 * np.sqrt(2) / (n + 4)
    assert group.lower[0, 1] == pytest.approx(-tied)
    assert half * 0.99 < tied < half * 1.2  # Student's t where votes are few
    assert tied < ties(n // 2).payoff_interval().upper[0, 1]


def test_a_pair_of_ties_beside_others_is_known():
    rng = np.random.default_rng(1)
    others = [("a", "c", rng.choice(["model_a", "model_b"])) for _ in range(200)]
    others += [("b", "c", rng.choice(["model_a", "model_b"])) for _ in range(200)]
    group = ties(200, others).payoff_interval()
    assert -0.1 < group.lower[0, 1] < 0 < group.upper[0, 1] < 0.1

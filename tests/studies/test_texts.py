"""The benchmark of text encoders: what is left out of which fit, and how scores are averaged."""

from __future__ import annotations

import numpy as np
import pytest

from studies.benchmarks.texts import macro, parts, rivals

TASK = np.repeat(["a", "b", "c", "d", "e"], [50, 10, 20, 30, 5])


def test_every_prompt_is_left_out_where_tasks_are_and_a_fifth_of_each_task_where_prompts_are():
    sets = parts(TASK, 0, 3)
    [held] = sets["held out"]
    assert [int(held[name == TASK].sum()) for name in "abcde"] == [10, 2, 4, 6, 1]
    assert (np.sum(sets["other tasks"], axis=0) == 1).all()
    for out in sets["other tasks"]:
        assert all(len(set(out[name == TASK])) == 1 for name in "abcde"), "a task is left out whole"


def test_tasks_count_alike_and_errors_are_over_prompts():
    rng = np.random.default_rng(0)
    draws = np.array([macro(rng.normal(size=len(TASK)), TASK) for _ in range(2000)])
    assert draws[:, 0].std() == pytest.approx(draws[:, 1].mean(), rel=0.1)
    score = np.where(TASK == "a", 1.0, 0.0)
    assert macro(score, TASK)[0] == pytest.approx(0.2)
    score[TASK == "e"] = np.nan
    assert macro(score, TASK)[0] == pytest.approx(0.25)


def test_neighbours_and_ridge_see_what_decides():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 3))
    scores = np.column_stack([vectors[:, 0] > 0, vectors[:, 0] <= 0]).astype(float)
    out = np.arange(400) < 100
    for _, chosen in rivals(vectors, scores, out):
        assert scores[out, chosen].mean() > 0.85

"""The search for the payoff regressor's hyperparameters."""

from __future__ import annotations

import numpy as np
import pytest

import nasheval as ne
from nasheval.nuisance.learners import Effort
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.payoff.second_stage import _pairs, _shared, tuned_boosting
from nasheval.payoff.stage1 import fit_stage1
from nasheval.payoff.surfaces import Boosting

# Two settings of which one cannot split at all.
GRID = {"learning_rate": (0.1,), "num_leaves": (7,), "min_data_in_leaf": (20, 5_000), "num_iterations": (50,),
        "max_depth": (10,), "lambda_l2": (0.0,), "feature_fraction": (1.0,)}  # fmt: skip


@pytest.fixture(scope="module")
def pseudo():
    log = ne.SyntheticWorld(seed=70).feedback("pairwise", voters=1, n=400)
    return fit_stage1(log, outcome="lightgbm", propensity="marginal", second_stage="none", folds=2).pseudo


@pytest.mark.parametrize("form", ["shared", "per-pair"])
def test_the_setting_that_can_learn_is_found(pseudo, form, monkeypatch):
    monkeypatch.setattr("nasheval.nuisance.tuning.PAYOFF_GRID", GRID)
    found = tuned_boosting(pseudo, form, "paper", Effort())
    assert (found.least, found.leaves, found.rate) == (20, 7, 0.1)
    assert found.trees >= 1
    assert dict(found.more) == {"max_depth": 10, "lambda_l2": 0.0, "feature_fraction": 1.0}


def test_all_rows_of_a_context_are_in_one_part(pseudo):
    contexts = pseudo.sampled(6_000)
    gamma = pseudo.dense(contexts)
    (problem,) = _shared(pseudo, contexts, gamma, 0)
    for context in contexts[:50]:
        assert len(set(problem.fold[problem.context == context])) == 1
    np.testing.assert_array_equal(problem.label.reshape(len(contexts), -1), gamma)


def test_pairs_with_the_most_votes_are_looked_at(pseudo):
    contexts = pseudo.sampled(6_000)
    gamma = pseudo.dense(contexts)
    votes = np.bincount(pseudo.pair, minlength=10)
    best = np.argsort(-votes, kind="stable")[0]
    np.testing.assert_array_equal(_pairs(pseudo, contexts, gamma, 0)[0].label, gamma[:, best])


def test_the_estimator_tunes_its_payoff_regressor(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "nasheval.payoff.second_stage.tuned_boosting",
        lambda pseudo, form, how, effort: asked.append((form, how)) or Boosting(trees=3),
    )
    log = ne.SyntheticWorld(seed=70).feedback("pairwise", voters=1, n=100)
    ne.NashEval(outcome=Intercept(), second_stage="shared", tune="fast", propensity="marginal", folds=2, n_jobs=1,
                verbose=False).fit(log)  # fmt: skip
    assert asked == [("shared", "fast")]

"""The paper's grids, the fast search over them, and what a search may see."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import InputError
from nasheval.feedback.world import SyntheticWorld
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.trees import TreeOutcome, TreePropensity
from nasheval.nuisance.tuning import (
    NUISANCE_GRID,
    PAYOFF_GRID,
    Problem,
    TunedTrees,
    search,
    settings_of,
    stop_early,
)

lgb = pytest.importorskip("lightgbm")
WORLD = SyntheticWorld(seed=3, features=16, calibration=64)
SMALL = {
    "learning_rate": (0.1, 0.3), "num_leaves": (3, 7, 15), "max_depth": (7, 10), "min_data_in_leaf": (30, 100),
    "lambda_l2": (0.0, 1.0, 10.0), "feature_fraction": (0.6, 1.0), "num_iterations": (50, 100),
}  # fmt: skip


def features(log):
    return Features.of(ContextEncoder.fit(log.contexts), log.contexts)


def problem_of(log):
    return TunedTrees(TreeOutcome(), columns=1).problems(log, features(log), np.ones(log.n_contexts, bool))[0]


def test_the_grids_are_those_of_the_paper():
    assert NUISANCE_GRID == {
        "learning_rate": (0.01, 0.1), "num_leaves": (7, 15, 31), "max_depth": (7, 10),
        "min_data_in_leaf": (30, 50, 100, 200), "lambda_l2": (0, 0.1, 1), "feature_fraction": (0.6, 0.8, 1.0),
        "num_iterations": (50, 100, 200),
    }  # fmt: skip
    assert PAYOFF_GRID == {
        "learning_rate": (0.02, 0.05, 0.1), "num_leaves": (15, 31, 62), "max_depth": (10, 15),
        "min_data_in_leaf": (50, 100, 200), "lambda_l2": (0, 0.1, 1), "feature_fraction": (0.6, 0.8, 1.0),
        "num_iterations": (50, 100, 200, 400),
    }  # fmt: skip
    assert (len(settings_of(NUISANCE_GRID)) * 3, len(settings_of(PAYOFF_GRID)) * 4) == (1296, 1944)
    assert "num_iterations" not in settings_of(PAYOFF_GRID)[0]


def test_the_curve_is_the_loss_of_plain_fits():
    """After t trees the curve is the held-out squared error of t trees grown outside the part."""
    problem = problem_of(WORLD.feedback("pairwise", 3, 600))
    curve = problem.curve({"num_leaves": 7, "min_data_in_leaf": 20}, 1)
    inside = problem.fold == 1
    params = {
        "objective": "regression", "num_leaves": 7, "min_data_in_leaf": 20, "learning_rate": 0.1, "max_depth": 7,
        "max_bin": 63, "num_threads": 1, "deterministic": True, "force_col_wise": True, "verbosity": -1,
        "feature_pre_filter": False, "seed": 0,
    }  # fmt: skip
    table = problem.X.trees[problem.rows]
    booster = lgb.train(params, lgb.Dataset(table[~inside], problem.label[~inside], params=params), 30)
    for trees in (1, 5, 30):
        error = booster.predict(table[inside], num_iteration=trees, num_threads=1) - problem.label[inside]
        assert curve[trees - 1] == pytest.approx((error**2).mean(), rel=1e-6)
    assert len(curve) - 1 - curve.argmin() <= 50


def test_contexts_are_in_one_part():
    log = WORLD.feedback("pairwise", 3, 300)
    X = features(log)
    rows = np.repeat(np.arange(300), 2)
    part = Problem(X, rows, np.zeros(600)).fold.reshape(300, 2)
    assert (part[:, 0] == part[:, 1]).all()
    assert np.bincount(part[:, 0]).tolist() == [100, 100, 100]


def test_the_fast_search_ends_near_the_grid_in_a_tenth_of_the_fits():
    """One menu of the simulation, on a reduced grid of 144 settings."""
    problem = problem_of(WORLD.feedback("pairwise", 3, 800))
    fast, grid = search([problem], SMALL, "fast"), search([problem], SMALL, "paper")
    assert (grid.settings, grid.fits) == (144, 144 * 3)
    assert fast.fits <= grid.fits / 10
    assert grid.loss <= fast.loss <= 1.01 * grid.loss
    assert set(fast.params) == set(SMALL)


def test_the_grid_search_is_a_loop():
    grid = {"learning_rate": (0.1,), "num_leaves": (3, 7), "min_data_in_leaf": (30, 60), "num_iterations": (50,)}
    problem = problem_of(WORLD.feedback("pairwise", 3, 500))
    best = (np.inf, None)
    for leaves in (3, 7):
        for least in (30, 60):
            setting = {"learning_rate": 0.1, "num_leaves": leaves, "min_data_in_leaf": least}
            curves = [problem.curve(setting, part) for part in range(3)]
            for trees in range(1, max(map(len, curves)) + 1):
                loss = np.mean([curve[min(trees, len(curve)) - 1] for curve in curves])
                best = min(best, (loss, (leaves, least, trees)))
    found = search([problem], grid, "paper")
    assert found.loss == pytest.approx(best[0])
    assert (found.params["num_leaves"], found.params["min_data_in_leaf"], found.params["num_iterations"]) == best[1]
    assert (found.settings, found.fits) == (4, 12)


@pytest.mark.parametrize("how", ["fast", "paper"])
def test_progress_adds_up_to_one_and_threads_do_not_matter(how):
    problem, told = problem_of(WORLD.feedback("pairwise", 3, 400)), []
    grid = {
        "learning_rate": (0.3,),
        "num_leaves": (3, 5, 7),
        "min_data_in_leaf": (20, 40, 60, 80),
        "lambda_l2": (0.0, 1.0),
    }
    one = search([problem], grid, how, Effort(advance=told.append))
    assert sum(told) == pytest.approx(1)
    assert min(told) >= 0
    assert search([replace(problem)], grid, how, Effort(n_jobs=2)) == one


def test_several_problems_are_averaged():
    log = WORLD.feedback("pairwise", 3, 500)
    problems = TunedTrees(TreeOutcome(), columns=2).problems(log, features(log), np.ones(500, bool))
    sizes = [np.count_nonzero(problem.label) for problem in problems]
    assert len(problems) == 2
    assert all(a >= b for a, b in pairwise(sizes))
    both, alone = stop_early(problems, {}), [problem.curve({}, 0) for problem in problems]
    longest = max(map(len, alone))
    mean = np.mean([[curve[min(t, len(curve) - 1)] for t in range(longest)] for curve in alone], axis=0)
    assert both.loss == pytest.approx(mean.min())
    assert both.params == {"num_iterations": int(mean.argmin()) + 1}


@pytest.mark.parametrize("learner", [TreeOutcome({"learning_rate": 0.3}), TreePropensity({"learning_rate": 0.3})])
def test_learners_that_tune_themselves_see_only_their_fold(learner):
    log, told = WORLD.feedback("pairwise", 3, 1000), []
    X = features(log)
    train = np.arange(2)[:, None] != (np.arange(1000) % 2)[None, :]
    tuned = TunedTrees(learner, how="trees", columns=2)
    models = tuned.fit(log, X, train, Effort(advance=told.append))
    assert sum(told) == pytest.approx(1)
    for fold, seen in enumerate(train):
        trees = models.tuned[fold].params["num_iterations"]
        plain = replace(learner, params={"learning_rate": 0.3, "num_iterations": trees}).fit(log, X, train, Effort())
        assert np.array_equal(models.predict(X, fold), plain.predict(X, fold))
        other = replace(X, trees=np.where(seen[:, None], X.trees, 0.5))
        assert tuned.tune(log, other, seen, Effort()) == models.tuned[fold]
    once = replace(tuned, per_fold=False).fit(log, X, train, Effort())
    assert once.tuned[0] is once.tuned[1]


@pytest.mark.parametrize("how", ["trees", "fast"])
def test_parameters_outside_the_grid_are_kept(how, monkeypatch):
    """Other bins, and scikit-learn's name for the number of trees, which the search replaces."""
    monkeypatch.setattr("nasheval.nuisance.tuning.NUISANCE_GRID", {"num_leaves": (3, 7), "min_data_in_leaf": (20, 40)})
    log = WORLD.feedback("pairwise", 3, 500)
    X, train = features(log), np.ones((1, 500), bool)
    given = {"max_bin": 15, "n_estimators": 3, "learning_rate": 0.5}
    models = TunedTrees(TreeOutcome(given), how=how, columns=1).fit(log, X, train, Effort())
    found = models.tuned[0].params
    plain = TreeOutcome({"max_bin": 15, "learning_rate": 0.5, **found}).fit(log, X, train, Effort())
    assert np.array_equal(models.predict(X, 0), plain.predict(X, 0))


def test_fewer_trees_make_better_propensities():
    """At a few hundred contexts a hundred trees a menu overfit."""
    log = WORLD.feedback("pairwise", 3, 600)
    X, train = features(log), np.ones((1, 600), bool)
    at = WORLD.test_contexts(500).astype(np.float32)
    true = WORLD.propensity(at)[:, None]
    printed, stopped = (
        ((learner.fit(log, X, train, Effort()).predict(Features(at, at), 0) - true) ** 2).mean()
        for learner in (TreePropensity(), TunedTrees(TreePropensity(), how="trees"))
    )
    assert stopped < 0.7 * printed


def test_a_small_log_is_not_tuned():
    log = WORLD.feedback("pairwise", 3, 60)
    X, train = features(log), np.ones((1, 60), bool)
    models = TunedTrees(TreeOutcome()).fit(log, X, train, Effort())
    assert models.tuned[0].params == {}
    assert np.array_equal(models.predict(X, 0), TreeOutcome().fit(log, X, train, Effort()).predict(X, 0))


def test_searches_that_cannot_be():
    with pytest.raises(InputError, match="'slow'; accepted are False, 'fast' and 'paper'"):
        search([], NUISANCE_GRID, "slow")
    with pytest.raises(InputError, match="nothing to tune on"):
        search([], NUISANCE_GRID, "fast")

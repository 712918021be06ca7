"""Any scikit-learn estimator as a nuisance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.contexts.encoder import ContextEncoder
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import ranking
from nasheval.feedback.world import SyntheticWorld
from nasheval.nuisance.columns import shrunken_means
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.sklearn_models import Intercept, PerPair, SklearnPropensity

linear = pytest.importorskip("sklearn.linear_model")
tree = pytest.importorskip("sklearn.tree")
WORLD = SyntheticWorld(seed=3, features=16, calibration=64)


def features(log):
    return Features.of(ContextEncoder.fit(log.contexts), log.contexts)


def folds(n, k=2):
    return np.arange(k)[:, None] != (np.arange(n) % k)[None, :]


def weighted(log, seed=0):
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, log.n_records)
    return Feedback(
        log.agents, log.contexts, log.context_offsets, log.records.replace(weight=weight), given_design=log.how_designed
    )


@pytest.mark.parametrize("with_weights", [False, True])
def test_a_clone_a_pair_is_a_plain_fit(with_weights):
    log = WORLD.feedback("ranking", 1, 120)
    log = weighted(log) if with_weights else log
    X, train = features(log), folds(120)
    models = PerPair(linear.Ridge(2.0)).fit(log, X, train, Effort())
    verdicts, column_of = log.verdicts, log.menus.column_of_verdict
    context = log.context_of[verdicts.record]
    for fold, seen in enumerate(train):
        found = models.predict(X, fold)
        for column in range(len(log.menus.columns)):
            rows = np.flatnonzero((column_of == column) & seen[context])
            weight = log.records.weight[verdicts.record[rows]] if with_weights else None
            plain = linear.Ridge(2.0).fit(X.network[context[rows]], verdicts.z[rows], sample_weight=weight)
            said = X.network.astype(float) @ plain.coef_.astype(float) + float(
                plain.intercept_
            )  # its own are of 32 bits
            assert found[:, column] == pytest.approx(np.clip(said, -1, 1), abs=1e-12)
            assert plain.predict(X.network) == pytest.approx(said, abs=1e-6)


def test_cells_are_those_of_whole_rows():
    log = WORLD.feedback("ranking", 1, 120)
    X, rng = features(log), np.random.default_rng(0)
    rows, columns = rng.integers(0, 120, 300), rng.integers(0, len(log.menus.columns), 300)
    for learner in (PerPair(linear.Ridge()), Intercept()):
        models = learner.fit(log, X, folds(120), Effort())
        assert models.cells(X, 1, rows, columns) == pytest.approx(models.predict(X, 1)[rows, columns], abs=1e-6)
        assert len(models.cells(X, 1, rows[:0], columns[:0])) == 0


def test_the_intercept_is_the_shrunken_mean():
    log = WORLD.feedback("winner", 3, 60)
    X, train = features(log), folds(60)
    models = Intercept(prior=4.0).fit(log, X, train, Effort())
    for fold, seen in enumerate(train):
        assert np.array_equal(models.predict(X, fold)[7], shrunken_means(log, seen, 4.0))


def test_columns_with_few_rows_are_shrunken_means():
    log = WORLD.feedback("pairwise", 1, 60)
    X, train = features(log), folds(60)
    models = PerPair(linear.Ridge(), least=1000).fit(log, X, train, Effort())
    assert np.array_equal(models.predict(X, 1)[0], shrunken_means(log, train[1]))


def test_seeds_are_given_and_threads_do_not_matter():
    log = WORLD.feedback("pairwise", 1, 200)
    X, train = features(log), folds(200)
    forest = pytest.importorskip("sklearn.ensemble").ExtraTreesRegressor(3, max_depth=3)
    runs = [
        PerPair(forest).fit(log, X, train, Effort(seed=seed, n_jobs=jobs)).predict(X, 0)
        for seed, jobs in ((0, 1), (0, 2), (1, 1))
    ]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    assert forest.random_state is None


@pytest.mark.parametrize("with_weights", [False, True])
def test_propensities_under_draws_sum_to_one(with_weights):
    log = WORLD.feedback("pairwise", 1, 3000, selection="one")
    log = weighted(log) if with_weights else log
    X, told = features(log), []
    models = SklearnPropensity(linear.LogisticRegression()).fit(log, X, folds(3000), Effort(advance=told.append))
    e, true = models.predict(X, 0), WORLD.propensity(X.trees, "pairwise", selection="one")
    assert e.sum(axis=1) == pytest.approx(1)
    assert ((e - true) ** 2).mean() < 0.5 * ((true - true.mean(axis=0)) ** 2).mean()
    assert sum(told) == pytest.approx(1)


def test_propensities_under_inclusion_a_menu_at_a_time():
    log = WORLD.feedback("pairwise", 1, 2000)
    X = features(log)
    e = SklearnPropensity(linear.LogisticRegression()).fit(log, X, folds(2000), Effort()).predict(X, 0)
    assert np.sqrt(((e - WORLD.propensity(X.trees)[:, None]) ** 2).mean()) < 0.05


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 6))
def test_a_menu_that_a_fold_never_saw(unseen):
    told = [ranking(["a", "b"])] * 4 + [ranking(["b", "c"])] * unseen
    log = Feedback.from_partitions(np.arange(4.0 + unseen)[:, None], told, design="draws")
    X, train = features(log), np.vstack([np.arange(4 + unseen) < 4, np.ones(4 + unseen, bool)])
    models = SklearnPropensity(linear.LogisticRegression()).fit(log, X, train, Effort())
    assert models.predict(X, 0)[0].tolist() == [1.0, 0.0]
    assert models.predict(X, 1).sum(axis=1) == pytest.approx(1)

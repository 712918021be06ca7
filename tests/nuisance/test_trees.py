"""LightGBM nuisances against plain LightGBM calls, and what must not leak or depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.boosting import complete
from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import ranking
from nasheval.feedback.records import Records
from nasheval.feedback.world import SyntheticWorld
from nasheval.forests.forest import tree_lines
from nasheval.nuisance.columns import grouped, shrunken_means
from nasheval.nuisance.learners import Effort, Features, held_out
from nasheval.nuisance.trees import TreeOutcome, TreePropensity

lgb = pytest.importorskip("lightgbm")
QUICK = {"num_iterations": 8, "min_data_in_leaf": 10, "num_leaves": 5}
WORLD = SyntheticWorld(seed=3, features=16, calibration=64)


def features(log):
    return Features.of(ContextEncoder.fit(log.contexts), log.contexts)


def folds(n, k=2):
    return np.arange(k)[:, None] != (np.arange(n) % k)[None, :]


def texts(models):
    return [[m if isinstance(m, float) else tree_lines(m) for m in row] for row in models.models]


def odd_log(seed=0, n=150):
    """Return weights, a category, missing numbers, triples and duels, and menus that a context asks twice."""
    rng = np.random.default_rng(seed)
    context_of = np.sort(rng.integers(0, n, 5 * n))
    sizes = rng.choice([2, 3], len(context_of), p=[0.6, 0.4])
    agent = np.concatenate([np.sort(rng.choice(3, size, replace=False)) for size in sizes])
    numbers = rng.random(n)
    table = pa.table({"c": rng.choice(["p", "q", "r"], n), "x": np.where(numbers < 0.1, np.nan, numbers), "y": numbers})
    records = Records.build(
        sizes=sizes, agent=agent, rank=rng.integers(0, 3, len(agent)), weight=rng.uniform(0.5, 2, len(sizes))
    )
    return Feedback.from_records(records, agents="abc", contexts=table, context_of=context_of, design="inclusion")


def plain(X, seen, rows, label, weight, objective):
    """Fit with `lightgbm.train` on a copy of the rows, the bins being those of all training contexts."""
    params = {
        "objective": objective, "num_leaves": 5, "learning_rate": 0.1, "min_data_in_leaf": 10, "max_depth": 7,
        "max_bin": 63, "seed": 0, "num_threads": 1, "deterministic": True, "force_col_wise": True, "verbosity": -1,
        "feature_pre_filter": False,
    }  # fmt: skip
    names = [f"x{c}" for c in range(X.trees.shape[1])]
    kinds = {"feature_name": names, "categorical_feature": list(X.categorical), "params": params}
    bins = lgb.Dataset(X.trees[seen], np.zeros(seen.sum()), **kinds)
    data = lgb.Dataset(X.trees[rows], label, weight=weight, reference=bins, **kinds)
    return lgb.train(params, data, 8)


def test_outcome_models_are_plain_lightgbm_fits():
    log = odd_log()
    X, train = features(log), folds(log.n_contexts)
    models = TreeOutcome(QUICK).fit(log, X, train, Effort())
    columns, verdicts = log.menus.columns, log.verdicts
    for fold in range(2):
        found = models.predict(X, fold)
        for column in range(len(columns)):
            rows, z, weight = [], [], []
            for record, j, k, value in zip(verdicts.record, verdicts.j, verdicts.k, verdicts.z, strict=True):
                same = log.menus.of_record[record] == columns.menu[column]
                if same and (j, k) == (columns.j[column], columns.k[column]) and train[fold, log.context_of[record]]:
                    rows.append(log.context_of[record])
                    z.append(float(value))
                    weight.append(log.records.weights[record])
            expected = plain(X, train[fold], np.array(rows), np.array(z), np.array(weight), "regression")
            assert len(rows) > 20
            assert np.array_equal(found[:, column], np.clip(expected.predict(X.trees, num_threads=1), -1, 1))


def test_propensity_models_are_plain_lightgbm_fits():
    log = odd_log(1)
    X, train = features(log), folds(log.n_contexts)
    models = TreePropensity(QUICK).fit(log, X, train, Effort())
    for fold, seen in enumerate(train):
        found = models.predict(X, fold)
        for menu in range(len(log.menus)):
            asked = np.isin(np.arange(log.n_contexts), log.context_of[log.menus.of_record == menu]).astype(float)
            expected = plain(X, seen, np.flatnonzero(seen), asked[seen], None, "binary")
            assert np.array_equal(found[:, menu], expected.predict(X.trees, num_threads=1))


def test_what_is_held_out_leaves_no_trace():
    """Other answers, other menus and other contexts in fold 0 change nothing in the models of fold 0."""
    log = odd_log()
    X, train = features(log), folds(log.n_contexts)
    hidden = ~train[0]
    shuffled = np.random.default_rng(1).permutation(np.flatnonzero(hidden))
    contexts = np.arange(log.n_contexts)
    contexts[hidden] = shuffled
    place = np.empty_like(contexts)
    place[contexts] = np.arange(log.n_contexts)
    moved = Feedback.from_records(
        log.records, agents=log.agents, contexts=log.contexts, context_of=place[log.context_of], design="inclusion"
    )
    block = np.where(hidden[np.repeat(moved.context_of, moved.records.sizes)], 0, moved.records.block)
    changed = replace(moved, records=moved.records.replace(block=block))
    other = replace(X, trees=np.where(hidden[:, None], X.trees[::-1], X.trees))
    for learner in (TreeOutcome(QUICK), TreePropensity(QUICK)):
        before, after = learner.fit(log, X, train, Effort()), learner.fit(changed, other, train, Effort())
        assert texts(before)[0] == texts(after)[0]
        assert texts(before)[1] != texts(after)[1]


def test_the_same_on_one_thread_and_on_two():
    log = odd_log()
    X, train = features(log), folds(log.n_contexts)
    learner = TreeOutcome({**QUICK, "feature_fraction": 0.5})
    one, two, other = (
        learner.fit(log, X, train, Effort(seed=seed, n_jobs=jobs)) for seed, jobs in ((0, 1), (0, 2), (1, 1))
    )
    assert texts(one) == texts(two)
    assert texts(one) != texts(other)
    many = Features(np.repeat(X.trees, 80, axis=0), np.repeat(X.network, 80, axis=0))  # enough to predict in threads
    assert np.array_equal(one.predict(many, 0), two.predict(many, 0))


def test_cells_are_those_of_whole_rows():
    log = odd_log()
    X, train = features(log), folds(log.n_contexts)
    models = TreeOutcome(QUICK).fit(log, X, train, Effort())
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, len(X), 500), rng.integers(1, len(log.menus.columns), 500)
    assert np.array_equal(models.cells(X, 1, rows, columns), models.predict(X, 1)[rows, columns])
    assert len(models.cells(X, 1, rows[:0], columns[:0])) == 0
    assert models.predict(X[:0], 0).shape == (0, len(log.menus.columns))


def test_columns_with_few_rows_are_shrunken_means():
    log = odd_log(n=40)
    X, train = features(log), folds(log.n_contexts)
    models = TreeOutcome({"min_data_in_leaf": 200}).fit(log, X, train, Effort())
    for fold, seen in enumerate(train):
        assert np.array_equal(models.predict(X, fold), np.tile(shrunken_means(log, seen), (len(X), 1)))


def test_shrunken_means_by_hand():
    """The pair (a, b): 1, 1, -1 alone and 1 among three; two votes' worth of prior."""
    told = [ranking(list(order)) for order in ("ab", "ab", "ba", "abc", "cb")]
    log = Feedback.from_partitions(np.zeros((5, 1)), told, weight=[1, 1, 1, 2, 9])
    means = shrunken_means(log, np.array([True, True, True, True, False]), prior=2.0)
    columns = log.menus.columns
    named = {(int(m), int(j), int(k)): v for m, j, k, v in zip(columns.menu, columns.j, columns.k, means, strict=True)}
    pair = (1 + 1 - 1 + 2) / (5 + 2)
    assert named[0, 0, 1] == pytest.approx((1 + 2 * pair) / (3 + 2))
    assert named[2, 0, 1] == pytest.approx((2 + 2 * pair) / (2 + 2))
    assert named[1, 1, 2] == pytest.approx((0 + 2 * (2 / 4)) / (0 + 2))  # its own vote was not looked at


def test_without_features_there_are_only_shares():
    log = Feedback.from_partitions(
        np.zeros((6, 0)), [ranking(["a", "b"])] * 4, context_of=[0, 1, 2, 3], design="inclusion"
    )
    X = Features(np.zeros((6, 0), np.float32), np.zeros((6, 0), np.float32))
    train = np.ones((1, 6), bool)
    assert (TreePropensity().fit(log, X, train, Effort()).predict(X, 0) == 4.5 / 7).all()
    assert TreeOutcome().fit(log, X, train, Effort()).predict(X, 0)[0, 0] == shrunken_means(log, train[0])[0]


def test_a_menu_that_every_context_includes():
    log = Feedback.from_partitions(np.arange(30.0)[:, None], [ranking(["a", "b"])] * 30, design="inclusion")
    models = TreePropensity().fit(log, features(log), np.ones((1, 30), bool), Effort())
    assert (models.predict(features(log), 0) == 30.5 / 31).all()


def test_estimated_propensities_come_near_the_truth():
    """The error falls as contexts are added, to well below that of a constant (the spread of the truth, 0.16)."""
    at = WORLD.test_contexts(1000).astype(np.float32)
    errors = []
    for n in (1000, 8000):
        log = WORLD.feedback("pairwise", 1, n)
        models = TreePropensity({"num_leaves": 7, "num_iterations": 40}).fit(
            log, features(log), np.ones((1, n), bool), Effort()
        )
        errors.append(models.predict(Features(at, at), 0) - WORLD.propensity(at)[:, None])
    few, many = (np.sqrt((error**2).mean()) for error in errors)
    assert many < 0.6 * few
    assert many < 0.3 * WORLD.propensity(at).std()
    assert abs(errors[1].mean()) < 0.01


def test_outcome_models_learn():
    log = WORLD.feedback("pairwise", 1, 2000)
    X = features(log)
    mu = TreeOutcome().fit(log, X, folds(log.n_contexts), Effort()).predict(X[::2], 0)
    true = WORLD.outcome(X.trees[::2], "pairwise", 1).values
    assert ((mu - true) ** 2).mean() < 0.5 * (true**2).mean()
    assert np.abs(mu).max() <= 1


def test_multinomial_trees():
    log = WORLD.feedback("pairwise", 1, 3000, selection="one")
    X, train = features(log), folds(log.n_contexts)
    models = TreePropensity({"num_iterations": 30}).fit(log, X, train, Effort())
    e, true = models.predict(X, 0), WORLD.propensity(X.trees, "pairwise", selection="one")
    assert np.allclose(e.sum(axis=1), 1, atol=1e-12)
    assert (e > 0).all()
    assert ((e - true) ** 2).mean() < ((true.mean(axis=0) - true) ** 2).mean()
    with pytest.raises(InputError, match="0 features"):
        TreePropensity().fit(log, Features(X.trees[:, :0], X.network[:, :0]), train, Effort())


def test_parameters_by_either_name():
    found = complete({"n_estimators": 7, "reg_lambda": 2.0, "path_smooth": 1.0})
    assert (found["num_iterations"], found["lambda_l2"], found["path_smooth"]) == (7, 2.0, 1.0)
    assert (found["num_leaves"], found["learning_rate"], found["min_data_in_leaf"], found["max_depth"]) == (
        15, 0.1, 50, 7,
    )  # fmt: skip
    with pytest.raises(InputError, match="num_threads"):
        complete({"num_threads": 4})


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_adds_up_to_one(jobs):
    log, told = odd_log(), []
    TreeOutcome(QUICK).fit(log, features(log), folds(log.n_contexts), Effort(n_jobs=jobs, advance=told.append))
    assert len(told) == 2 * len(log.menus.columns)
    assert sum(told) == pytest.approx(1)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_grouped_lists_every_row_once(numbers):
    groups = grouped(np.array(numbers), 6)
    assert len(groups) == 6
    for number, rows in enumerate(groups):
        assert rows.tolist() == [row for row, value in enumerate(numbers) if value == number]


@settings(max_examples=30)
@given(st.integers(2, 40), st.integers(0, 100))
def test_held_out_keeps_contexts_together(n, seed):
    context = np.repeat(np.arange(n), 3)
    held = held_out(context, np.random.default_rng(seed)).reshape(n, 3)
    assert (held.all(axis=1) == held.any(axis=1)).all()
    assert 0 < held[:, 0].sum() == max(1, round(0.2 * n))


def test_importing_stays_light():
    code = (
        "import sys, nasheval.nuisance.propensity, nasheval.nuisance.tuning, nasheval.nuisance.nuisance_diagnostics\n"
        "assert not {'lightgbm', 'sklearn', 'joblib', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_training_set_of_one_voter_is_parted_by_contexts():
    """One voter with half of the votes is alone in one of two training sets."""
    rng = np.random.default_rng(5)
    first = rng.integers(0, 4, 600)
    second = (first + rng.integers(1, 4, 600)) % 4
    voter = np.where(rng.random(600) < 0.5, "big", [f"v{i % 25}" for i in range(600)])
    table = {"lang": rng.choice(["en", "de"], 600), "winner": rng.choice(["model_a", "model_b"], 600), "voter": voter}
    table |= {"model_a": [f"m{i}" for i in first], "model_b": [f"m{i}" for i in second]}
    log = ne.read_votes(pa.table(table), context=["lang"], voter="voter")
    model = ne.NashEval(outcome="lightgbm", folds=2, n_jobs=1, verbose=False).fit(log)
    assert np.isfinite(model.payoff_interval().error[0, 1])

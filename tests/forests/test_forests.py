"""Trees walked by our code say, bit for bit, what the models they were read from say."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval.forests.packed as packed_module
from nasheval.forests.forest import Forest, read_booster, tree_lines
from nasheval.forests.packed import AtPairs, Packed
from nasheval.forests.sklearn_trees import forest_of
from nasheval.nuisance.columns import ColumnModels
from nasheval.nuisance.learners import Features
from nasheval.payoff.surfaces import Boosting, SharedSurface, fit_shared

lgb = pytest.importorskip("lightgbm")
OBJECTIVES = ("regression", "quantile", "poisson", "binary", "huber")
ODD = np.array([0.0, -0.0, 1e-36, -1e-36, 1e-35, np.nan, np.inf, -np.inf, -0.5, -3.0, 7.9, 1e10, 3e38], np.float32)


def predicted(forest, table):
    return Packed.of([forest]).predict(table)[:, 0]


def contexts(rng, n, categories=40):
    """Return numbers, numbers with zeros and holes, and categories with holes."""
    x = rng.normal(size=(n, 4)).astype(np.float32)
    x[:, 1] = np.where(rng.random(n) < 0.4, 0.0, x[:, 1])
    x[:, 2] = np.where(rng.random(n) < 0.2, np.nan, x[:, 2])
    x[:, 3] = np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, categories, n))
    return x


def odd_rows(rng, x, share=0.3):
    """Return the rows with values that no row was trained on."""
    return np.where(rng.random(x.shape) < share, rng.choice(ODD, x.shape), x)


def boosted(rng, x, label, trees=6, categorical=(3,), **extra):
    params = {"num_leaves": 9, "min_data_in_leaf": 3, "num_threads": 1, "verbosity": -1, "seed": 1, **extra}
    params |= {"min_data_per_group": 2, "cat_smooth": 1.0}
    if extra.get("objective") == "binary":
        label = label > np.median(label)
    data = lgb.Dataset(x, np.abs(label).astype(float), categorical_feature=list(categorical), params=params)
    model = lgb.Booster(params, data)
    for _ in range(trees):
        if model.update():
            break
    return model


def labels(rng, x):
    return np.nan_to_num(x[:, 0] * (x[:, 1] == 0) + np.isnan(x[:, 2]) + np.sin(x[:, 3])) + rng.normal(size=len(x))


@contextmanager
def not_compiled():
    """Let single rows be walked as in a process that has not loaded compiled code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_module, "walks_are_compiled", lambda: False)
        patch.setitem(sys.modules, "nasheval.forests.kernels", None)  # its import fails
        yield


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000), st.sampled_from(OBJECTIVES), st.sampled_from(["gbdt", "rf", "dart"]), st.booleans(),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_boosted_trees_say_what_lightgbm_says(seed, objective, kind, use_missing, zero_as_missing, root):
    rng = np.random.default_rng(seed)
    x = contexts(rng, 300)
    extra = {"objective": objective, "boosting": kind, "use_missing": use_missing, "zero_as_missing": zero_as_missing}
    if kind == "rf":
        extra |= {"bagging_freq": 1, "bagging_fraction": 0.6}
    if root and objective in ("regression", "quantile"):
        extra["reg_sqrt"] = True
    model = boosted(rng, x, labels(rng, x), **extra)
    forest = read_booster(model)
    assert forest is not None
    for table in (x, odd_rows(rng, x)):
        np.testing.assert_array_equal(predicted(forest, table), model.predict(table, num_threads=1))
    if objective != "binary" and objective != "poisson" and "reg_sqrt" not in extra:
        odd = odd_rows(rng, x)
        with not_compiled():
            alone = [predicted(forest, odd[row : row + 1])[0] for row in range(12)]
        np.testing.assert_array_equal(alone, model.predict(odd[:12], num_threads=1))
    if kind == "gbdt":
        few = forest.first(2)
        assert few.n_trees <= 2
        np.testing.assert_array_equal(predicted(few, x), model.predict(x, num_iteration=2, num_threads=1))


def test_models_and_numbers_side_by_side_and_by_cell():
    rng = np.random.default_rng(0)
    x = contexts(rng, 200)
    boosters = [boosted(rng, x, labels(rng, x), trees) for trees in (1, 9, 4)]
    stump = boosted(rng, x, labels(rng, x), min_data_in_leaf=200)  # trees of one leaf
    packed = Packed.of([0.25, *map(read_booster, boosters), -1.0, read_booster(stump)])
    expected = [np.full(200, 0.25), *(b.predict(x) for b in boosters), np.full(200, -1.0), stump.predict(x)]
    values = packed.predict(x)
    np.testing.assert_array_equal(values, np.column_stack(expected))
    rows, models = rng.integers(0, 200, 500), rng.integers(0, 6, 500)
    np.testing.assert_array_equal(packed.cells(x, rows, models), values[rows, models])
    np.testing.assert_array_equal(packed.predict(x[7:8]), values[7:8])
    with not_compiled():
        np.testing.assert_array_equal(packed.predict(x[7:8]), values[7:8])
    assert packed.predict(x[:0]).shape == (0, 6)
    many = np.tile(x, (40, 1))  # enough for threads
    np.testing.assert_array_equal(packed.predict(many), np.tile(values, (40, 1)))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 5), st.sampled_from(["regression", "poisson"]))
def test_means_over_folds_are_those_of_predictions_fold_by_fold(seed, folds, columns, objective):
    rng = np.random.default_rng(seed)
    x = contexts(rng, 120)
    some = [read_booster(boosted(rng, x, labels(rng, x), 3, objective=objective)) for _ in range(3)]
    some.append(read_booster(boosted(rng, x, labels(rng, x), min_data_in_leaf=120)))  # trees of one leaf
    choices = [*some, 0.25, -2.0, -0.0]
    rows = [tuple(choices[i] for i in rng.integers(0, len(choices), columns)) for _ in range(folds)]
    models, at = ColumnModels(tuple(rows), -0.3, 0.9), odd_rows(rng, x[:20])
    single = [ColumnModels((row,), -0.3, 0.9) for row in rows]
    each = [np.column_stack([_alone(model, at) for model in row]) for row in rows]
    total = each[0].copy()
    for fold in range(1, folds):
        total = total + each[fold]
    np.testing.assert_array_equal(models.mean(Features(at, at)), total / folds)
    for fold in range(folds):
        np.testing.assert_array_equal(models.predict(Features(at, at), fold), each[fold])
        np.testing.assert_array_equal(single[fold].mean(Features(at, at)), each[fold])
    one = [models.mean(Features(at[r : r + 1], at[r : r + 1]))[0] for r in range(4)]
    np.testing.assert_array_equal(one, (total / folds)[:4])
    if objective == "regression":  # exp is left to compiled code
        with not_compiled():
            cold = [models.mean(Features(at[r : r + 1], at[r : r + 1]))[0] for r in range(4)]
        np.testing.assert_array_equal(cold, one)


def _alone(model, table):
    """Return what one model says, within the bounds of the test above."""
    values = np.full(len(table), model) if isinstance(model, float) else predicted(model, table)
    return np.clip(values, -0.3, 0.9)


def test_numbers_and_trees_of_one_leaf_are_not_walked():
    rng = np.random.default_rng(0)
    x = contexts(rng, 120)
    stump = read_booster(boosted(rng, x, labels(rng, x), min_data_in_leaf=120))
    grown = read_booster(boosted(rng, x, labels(rng, x)))
    packed = Packed.of([0.5, stump, grown, 1.0])
    assert packed.grown.tolist() == [False, False, True, False]
    assert packed.part(1, 3).grown.tolist() == [False, True]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40), st.sampled_from([5, 60, 200]), st.booleans(), st.booleans())
def test_a_model_of_contexts_and_agents_at_all_pairs(seed, agents, leaves, as_categories, zero_as_missing):
    rng = np.random.default_rng(seed)
    j, k = np.triu_indices(agents, 1)
    rows, pairs = np.arange(1500) % 300, rng.integers(0, len(j), 1500)
    x = contexts(rng, 300)
    table = np.column_stack([x[rows], j[pairs], k[pairs]]).astype(np.float32)
    label = labels(rng, x)[rows] * np.cos(table[:, 4]) + np.sin(3 * table[:, 5])
    categorical = (3, 4, 5) if as_categories else (3,)
    extra = {"num_leaves": leaves, "max_bin": 80, "zero_as_missing": zero_as_missing}
    model = boosted(rng, table, label, 5, categorical, objective="regression", **extra)
    known = rng.random(len(j)) < 0.8
    surface = SharedSurface(read_booster(model), known, agents)
    at = odd_rows(rng, x[:23])
    values = surface.predict(Features(at, at))
    whole = np.column_stack([np.repeat(at, len(j), axis=0), np.tile(j, 23), np.tile(k, 23)]).astype(np.float32)
    expected = np.where(known, model.predict(whole, num_threads=1).reshape(23, len(j)), 0.0)
    np.testing.assert_array_equal(values, expected)
    with not_compiled():
        alone = [surface.predict(Features(at[row : row + 1], at[:1]))[0] for row in range(5)]
    np.testing.assert_array_equal(alone, expected[:5])
    cells, of_pair = rng.integers(0, 23, 100), rng.integers(0, len(j), 100)
    np.testing.assert_array_equal(surface.cells(Features(at, at), cells, of_pair), expected[cells, of_pair])
    some = rng.random(len(j)) < 0.3
    fewer = surface.only(some)
    np.testing.assert_array_equal(fewer.predict(Features(at, at)), np.where(some, expected, 0.0))
    assert fewer.values(Features(at, at)).shape == (23, (some & known).sum())
    asked, named = rng.integers(0, 23, 60), rng.integers(0, agents, 60)
    place, other, pair, value = fewer.of_agents(Features(at, at), asked, named)
    agent, said = named[place], expected[asked[place], pair]
    np.testing.assert_array_equal(value, np.where(agent == j[pair], said, -said))
    np.testing.assert_array_equal(np.sort([agent, other], axis=0), np.sort([j[pair], k[pair]], axis=0))
    meets = [np.flatnonzero(some & known & ((j == a) | (k == a))) for a in named]
    assert sorted(pair.tolist()) == sorted(np.concatenate(meets).tolist())


def test_pairs_are_grouped_and_contexts_are_few_walks():
    """Two agents that no split tells apart are one group: a context costs groups, not pairs."""
    rng = np.random.default_rng(1)
    X = Features(rng.normal(size=(400, 2)).astype(np.float32), np.empty((400, 0), np.float32))
    K, (j, _) = 12, np.triu_indices(12, 1)
    gamma = np.where(j < 6, 1.0, -1.0) * X.trees[:, :1]
    surface = fit_shared(X, gamma, np.ones(len(j), bool), Boosting(trees=5, leaves=4, least=20), K)
    assert isinstance(surface.model, Forest)
    at = AtPairs.of(surface.model, *np.triu_indices(K, 1))
    assert at.most <= 4


@pytest.mark.parametrize("rows", [1, 3])
def test_no_columns_and_no_pairs(rows):
    nothing = Features(np.empty((200, 0), np.float32), np.empty((200, 0), np.float32))
    gamma = np.tile(np.arange(6.0), (200, 1))
    surface = fit_shared(nothing, gamma, np.arange(6) != 2, Boosting(trees=30, leaves=8, rate=0.5, least=5), 4)
    values = surface.predict(nothing[np.arange(rows)])
    np.testing.assert_allclose(values, np.where(np.arange(6) != 2, gamma[:rows], 0.0), atol=1e-6)
    assert not SharedSurface(surface.model, np.zeros(6, bool), 4).predict(nothing[np.arange(rows)]).any()


def test_what_cannot_be_read_is_left_to_lightgbm():
    rng = np.random.default_rng(0)
    x = np.nan_to_num(contexts(rng, 300))
    linear = boosted(rng, x, labels(rng, x), categorical=(), objective="regression", linear_tree=True)
    assert read_booster(linear) is None
    models = ColumnModels(((linear, 0.5),), -9.0, 9.0)
    np.testing.assert_array_equal(models.predict(Features(x, x), 0)[:, 0], linear.predict(x, num_threads=1))
    classes = lgb.train(
        {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_threads": 1},
        lgb.Dataset(x, rng.integers(0, 3, 300)), 2,
    )  # fmt: skip
    assert read_booster(classes) is None


def test_lines_are_those_of_lightgbm():
    rng = np.random.default_rng(3)
    x = contexts(rng, 300)
    model = boosted(rng, x, labels(rng, x), objective="regression")
    text = model.model_to_string().split("\n")
    lines = [line for line in tree_lines(read_booster(model)) if "=" in line and not line.startswith("shrinkage")]
    assert set(lines) <= set(text)
    assert sum(line.startswith("cat_threshold=") for line in lines) > 0


@pytest.mark.parametrize("features", [0, 3, 5])
def test_tables_of_another_width_are_refused(features):
    rng = np.random.default_rng(0)
    x = contexts(rng, 100)
    forest = read_booster(boosted(rng, x, labels(rng, x)))
    with pytest.raises(ValueError, match=f"{features} features for trees of 4"):
        predicted(forest, np.zeros((2, features), np.float32))


# -- scikit-learn -----------------------------------------------------------------------------------------------------


def regressors():
    ensemble, tree = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.tree")
    return {
        "tree": tree.DecisionTreeRegressor(max_depth=5, random_state=0),
        "extra tree": tree.ExtraTreeRegressor(max_leaf_nodes=9, random_state=0),
        "forest": ensemble.RandomForestRegressor(7, max_depth=4, random_state=0),
        "extra trees": ensemble.ExtraTreesRegressor(7, max_depth=4, random_state=0),
        "boosted": ensemble.GradientBoostingRegressor(n_estimators=9, loss="huber", random_state=0),
        "histograms": ensemble.HistGradientBoostingRegressor(max_iter=9, min_samples_leaf=3, early_stopping=False),
        "lightgbm": lgb.LGBMRegressor(n_estimators=9, min_child_samples=3, verbosity=-1, n_jobs=1),
    }


@pytest.mark.parametrize("name", regressors())
def test_regressors_made_of_trees_say_what_they_say_alone(name, monkeypatch):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    fitted = [regressors()[name].fit(x, np.sin(2 * x[:, c]) + rng.normal(size=200)) for c in range(3)]
    expected = np.column_stack([model.predict(x) for model in fitted])
    for model in fitted:
        assert forest_of(model) is not None
        monkeypatch.setattr(model, "predict", None)  # it is not asked
    models = ColumnModels(((*fitted, 0.5),), -9.0, 9.0, form="network")
    values = models.predict(Features(x, x), 0)
    np.testing.assert_array_equal(values[:, :3], expected)
    assert (values[:, 3] == 0.5).all()
    np.testing.assert_array_equal(models.predict(Features(x[4:5], x[4:5]), 0), values[4:5])


def test_histograms_with_categories_or_a_link_are_asked_themselves():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 5, (200, 2)).astype(np.float32), rng.random(200)
    for options in ({"categorical_features": [0]}, {"loss": "poisson"}):
        model = ensemble.HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=3, **options).fit(x, y)
        assert forest_of(model) is None
        values = ColumnModels(((model,),), -9.0, 9.0, form="network").predict(Features(x, x), 0)
        np.testing.assert_array_equal(values[:, 0], model.predict(x))


@pytest.mark.parametrize("name", ["Ridge", "LinearRegression", "Lasso", "HuberRegressor", "BayesianRidge"])
def test_linear_regressors_are_one_matrix(name, monkeypatch):
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    fitted = [getattr(linear, name)().fit(x, x[:, c] + rng.normal(size=60)) for c in range(4)]
    expected = np.column_stack([model.predict(x) for model in fitted])
    models = ColumnModels(((*fitted, -0.5),), -9.0, 9.0, form="network")
    for model in fitted:
        monkeypatch.setattr(model, "predict", None)
    for n in (1, 3, 60):
        values = models.predict(Features(x[:n], x[:n]), 0)
        np.testing.assert_allclose(values[:, :4], expected[:n], atol=2e-6)
        exact = x[:n].astype(float) @ np.column_stack([m.coef_ for m in fitted]).astype(float)
        np.testing.assert_allclose(values[:, :4], exact + [m.intercept_ for m in fitted], atol=1e-14)
        assert (values[:, 4] == -0.5).all()


def test_a_model_with_a_link_is_not_taken_for_a_linear_one():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    model = linear.PoissonRegressor().fit(x, rng.random(60))
    values = ColumnModels(((model,),), -9.0, 9.0, form="network").predict(Features(x[:2], x[:2]), 0)
    np.testing.assert_array_equal(values[:, 0], model.predict(x[:2]))

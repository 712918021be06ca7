"""LightGBM text: reduced, checked, and bit for bit the same predictions."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.forests.packed import Packed
from nasheval.store.boosters import forest_of_lines, models_of, models_text

KINDS = {
    "plain": {},
    "a forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "dart": {"boosting": "dart"},
    "one leaf": {"min_data_in_leaf": 4000},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "square roots": {"reg_sqrt": True},
    "poisson": {"objective": "poisson"},
    "monotone": {"monotone_constraints": [1, 0]},
}
GOLDEN = """\
model 0 constant -0.125
model 1 lines 28
tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
feature_names=x0 x1
feature_infos=none none

Tree=0
num_leaves=3
num_cat=1
split_feature=0 1
threshold=0.5 0
decision_type=2 1
left_child=-1 -2
right_child=1 -3
leaf_value=1 2 4
cat_boundaries=0 1
cat_threshold=5
is_linear=0
shrinkage=1


end of trees

pandas_categorical:null
"""


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=1500), rng.integers(0, 60, 1500)]).astype(np.float32)
    x[::7, 0] = np.nan
    return x


def grown(table, **extra):
    params = {"objective": "regression", "num_leaves": 7, "num_threads": 1, "verbosity": -1, "seed": 1, **extra}
    label = np.abs(np.nan_to_num(table[:, 0])) + 3 * np.isin(table[:, 1], (2, 40, 50))
    data = lgb.Dataset(table, label, feature_name=["x0", "x1"], categorical_feature=[1], params=params)
    booster = lgb.Booster(params, data)
    for _ in range(10):
        if booster.update():
            break
    return booster


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_the_same_bits(table, kind):
    booster = grown(table, **KINDS[kind])
    text = models_text([0.25, booster], "it")
    constant, again = models_of(text, 2, 2)
    assert constant == 0.25
    rng = np.random.default_rng(1)
    wild = np.where(rng.random(table.shape) < 0.1, np.nan, table * rng.choice([1, -1, 1e9], table.shape))
    for x in (table, wild.astype(np.float32)):
        np.testing.assert_array_equal(Packed.of([again]).predict(x)[:, 0], booster.predict(x, num_threads=1))
    assert models_text([0.25, again], "it") == text
    assert len(text) < 0.7 * len(booster.model_to_string())


def test_a_tree_written_by_hand_answers_as_it_says():
    constant, tree = models_of(GOLDEN, 2, 2)
    assert constant == -0.125
    #                 left of 0.5       right, category 0 or 2 (5 is 101)    right, another category
    x = np.array([[0.0, 1], [0.5, 0], [1.0, 0], [1.0, 2], [1.0, 1], [1.0, 7], [np.nan, 1]])
    np.testing.assert_array_equal(Packed.of([tree]).predict(x)[:, 0], [1, 1, 2, 2, 4, 4, 1])


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=40, deadline=None)
def test_constants_come_back_as_they_were(value):
    assert models_of(models_text([value], "it"), 1, 3) == (value,)


@pytest.mark.parametrize("width", [0, 1, 3])
def test_a_model_of_other_features_is_refused(width):
    with pytest.raises(ValueError, match=f"with {width} features"):
        models_of(GOLDEN, 2, width)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_models_is_refused(count):
    with pytest.raises(ValueError, match=f"{count} models|of {count} does not begin"):
        models_of(GOLDEN, count, 2)


@pytest.mark.parametrize("cut", range(1, 28))
def test_a_text_that_ends_early_is_refused(cut):
    lines = GOLDEN.split("\n")
    with pytest.raises(ValueError):
        models_of("\n".join(lines[:-cut]), 2, 2)


def test_lines_that_are_no_model_are_refused():
    for lines in ([], [""], ["tree"], GOLDEN.split("\n")):
        with pytest.raises(ValueError, match="does not begin"):
            forest_of_lines(lines, 2)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(GOLDEN) - 1), st.sampled_from("0123456789-. =e\nin"))
def test_no_letter_can_lead_lightgbm_astray(place, letter):
    """What LightGBM would follow out of a tree would end this process, not this test."""
    try:
        models = models_of(GOLDEN[:place] + letter + GOLDEN[place + 1 :], 2, 2)
    except ValueError:
        return
    x = np.array([[0.0, 1.0], [1.0, 3.0], [np.nan, -1.0], [1e300, 1e300]])
    assert np.isfinite(Packed.of(models).predict(x)).all()


@pytest.mark.parametrize("extra", [{"linear_tree": True}, {"objective": "binary"}], ids=str)
def test_what_predicts_otherwise_is_not_written(table, extra):
    x = np.nan_to_num(table)
    data = lgb.Dataset(x, (x[:, 0] > 0).astype(float), params={"verbosity": -1, **extra})
    booster = lgb.Booster({"objective": "regression", "num_threads": 1, "verbosity": -1, **extra}, data)
    booster.update()
    with pytest.raises(InputError, match="LightGBM model with"):
        models_text([booster], "its outcome model")

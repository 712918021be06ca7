"""Settings as JSON: what goes in comes out, and nothing else does."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Entropy
from nasheval.nuisance.choice import BestPropensity
from nasheval.nuisance.propensity import Known
from nasheval.nuisance.strata import Strata
from nasheval.nuisance.trees import TreeOutcome, TreePropensity
from nasheval.nuisance.tuning import TunedTrees
from nasheval.nuisance.voters import Voters
from nasheval.payoff.aggregators import Cubic, Mean, Weighted
from nasheval.payoff.surfaces import Boosting
from nasheval.store.settings import TYPES, decode, encode

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def through(value, **options):
    return decode(json.loads(json.dumps(encode(value, "it", **options), allow_nan=False)), **options)


@given(plain)
@settings(max_examples=60, deadline=None)
def test_plain_values_come_back_with_their_types(value):
    again = through(value)
    assert again == value
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        L2(0.1), Entropy(0.5), Entropy(0.5, (0.25, 0.75)), SoftBudget(1.0, 0.1, 0.2, 0.3), Mean(), Cubic(2.0),
        Weighted({("a", "b"): 1.0, ("a", "b", "c"): 2.0}), Cubic(1.0, {("a", "b"): 1.0}), Boosting(more={"seed": 1}),
        Voters(hidden=(8, 8)), TunedTrees(TreePropensity(), how="trees", per_fold=False), TreeOutcome({"max_depth": 3}),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_settings_come_back(value):
    assert through(value) == value
    assert through({"it": [value]}) == {"it": [value]}


def test_settings_that_are_gone_load_at_the_value_they_had():
    old = {"is": "Strata", "most": 3, "spikes": encode(((0.1, 1.0), (0.1, 5.0), (0.01, 1.0)), "it")}
    assert decode(old) == Strata()
    assert decode({"is": "BestPropensity", "few_menus": 50}) == BestPropensity()
    with pytest.raises(TypeError, match="most"):
        decode({**old, "most": 4})


def test_numbers_of_numpy_become_numbers():
    given = (np.float64(0.5), np.int32(3), np.bool_(True))
    again = through(given)
    assert again == (0.5, 3, True)
    assert [type(value) for value in again] == [float, int, bool]
    np.testing.assert_array_equal(through(np.array([[1.5, 2.0]])), [[1.5, 2.0]])


def test_numbers_that_are_not_finite_come_back_where_they_may():
    again = through([float("inf"), float("-inf"), float("nan")], finite=False)
    np.testing.assert_array_equal(again, [np.inf, -np.inf, np.nan])
    with pytest.raises(InputError, match="it is inf"):
        encode(float("inf"), "it")


class L2Like(L2):
    """A subclass has code of its own, so it is not what its name says."""


class Odd:
    __name__ = "odd"


@pytest.mark.parametrize(
    "value", [lambda: 1, object(), {1, 2}, b"bytes", 1j, np.array(["a"]), np.array([object()]), Odd(), L2Like(0.1),
              Known(lambda X: X), type, json]
)  # fmt: skip
def test_anything_else_is_refused(value):
    with pytest.raises(InputError, match="cannot be saved: setting"):
        encode(value, "setting")


@pytest.mark.parametrize(
    "told",
    [{}, {"is": 3}, {"is": None}, {"is": "eval"}, {"is": "L2", "is_": 1}, {"is": "tuple"},
     {"is": "tuple", "items": "ab"},
     {"is": "tuple", "items": [], "more": 1}, {"is": "array", "items": [[1], [1, 2]]}, {"is": "float", "value": "inf"},
     {"is": "mapping", "items": [[[1], 2]]}, {"is": "frozenset", "items": [[1]]},
     {"is": "Boosting", "trees": 1, "x": 2},
     {"is": "SoftBudget", "budget": "1", "price": 1, "penalty": 1, "width": 1}, {"is": "Entropy", "tau": None},
     {"is": "Voters", "voters": "many"}],
    ids=str,
)  # fmt: skip
def test_what_was_not_written_by_us_is_refused(told):
    with pytest.raises((ValueError, TypeError)):
        decode(told)


def test_only_what_is_listed_can_be_built():
    assert all(kind.__module__.startswith("nasheval.") for kind in TYPES.values())
    assert all(hasattr(kind, "__dataclass_fields__") for kind in TYPES.values())


@pytest.mark.parametrize("name", ["PrintedPropensity", "TreeMultinomial"])
def test_former_names_are_read(name):
    saved = {"is": name, "params": {"is": "mapping", "items": [["num_leaves", 7]]}}
    assert decode(saved) == TreePropensity({"num_leaves": 7})

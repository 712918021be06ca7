"""Settings as JSON values and back: plain values, and the few types listed here. Nothing else is ever built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from math import isfinite
from typing import Any

import numpy as np

from nasheval.errors import InputError


@cache
def _of_policies() -> dict[str, Any]:
    """Return the kinds of settings that a router takes, by name."""
    from nasheval.contexts.text import TextEncoder
    from nasheval.game.costs import SoftBudget
    from nasheval.game.regularizers import L2, Entropy
    from nasheval.payoff.aggregators import AsAsked, Cubic, Mean, Weighted
    from nasheval.payoff.strengths import Strength
    from nasheval.policy.exact import ExactPolicy
    from nasheval.policy.learned import LearnedPolicy
    from nasheval.policy.learned_training import Recipe, Training

    listed = (TextEncoder, L2, Entropy, SoftBudget, Mean, AsAsked, Weighted, Cubic, Strength)
    return {kind.__name__: kind for kind in (*listed, ExactPolicy, LearnedPolicy, Recipe, Training)}


@cache
def _of_learners() -> dict[str, Any]:
    """Return the other kinds; their modules take a second to import."""
    from nasheval.nuisance.choice import BestPropensity
    from nasheval.nuisance.columns import Tuned
    from nasheval.nuisance.propensity import Known
    from nasheval.nuisance.sklearn_models import Intercept
    from nasheval.nuisance.softmax import Multinomial
    from nasheval.nuisance.stack import Stack
    from nasheval.nuisance.strata import Marginal, Strata
    from nasheval.nuisance.trees import TreeOutcome, TreePropensity
    from nasheval.nuisance.tuning import TunedTrees
    from nasheval.nuisance.voters import Voters
    from nasheval.payoff.surfaces import Boosting

    former = {"PrintedPropensity": TreePropensity, "TreeMultinomial": TreePropensity}  # in files of older versions
    outcomes, propensities = (Voters, TreeOutcome, Intercept, Stack, Tuned, TunedTrees), (BestPropensity, Known)
    listed = (Boosting, *outcomes, TreePropensity, Marginal, Multinomial, Strata, *propensities)
    return {kind.__name__: kind for kind in listed} | former


class _Types(Mapping[str, Any]):
    """The kinds of settings by name; learners are imported when they are asked for."""

    def __getitem__(self, name: str) -> Any:
        policies = _of_policies()
        return policies[name] if name in policies else _of_learners()[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*_of_policies(), *_of_learners()])

    def __len__(self) -> int:
        return len(_of_policies()) + len(_of_learners())


TYPES = _Types()
# Settings that older versions wrote and that are gone, with the only value at which a model still means the same.
_REMOVED: Mapping[str, Mapping[str, Any]] = {
    "Voters": {"context_weights": False, "dropout": 0.0, "batch": None, "rate": 16e-3},
    "Marginal": {"by": None, "prior": 20.0},
    "BestPropensity": {"few_menus": 50},
    "Multinomial": {"penalties": (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)},
    "Strata": {
        "most": 3,
        "priors": (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0),
        "spikes": ((0.1, 1.0), (0.1, 5.0), (0.01, 1.0)),
    },
}
TAG = "is"  # the key that says what an object stands for
_NOT_FINITE = ("inf", "-inf", "nan")


def encode(value: Any, where: str, *, finite: bool = True) -> Any:
    """Return a setting as JSON values.

    Args:
        where: what it is called in an error.
        finite: whether to refuse infinite numbers and NaN.
    """

    def inner(item: Any, name: str = where) -> Any:
        return encode(item, name, finite=finite)

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        if finite and not isfinite(value):
            raise InputError(f"{where} is {value!r}; a saved model holds finite settings. Fit with another value.")
        return value if isfinite(value) else {TAG: "float", "value": repr(value)}
    if isinstance(value, list):
        return [inner(item) for item in value]
    if isinstance(value, tuple):
        return {TAG: "tuple", "items": [inner(item) for item in value]}
    if isinstance(value, frozenset):
        return {TAG: "frozenset", "items": [inner(item) for item in sorted(value)]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {TAG: "array", "items": inner(value.tolist())}
    if isinstance(value, Mapping):
        items = [[inner(key), inner(item, f"{where}[{key!r}]")] for key, item in value.items()]
        return {TAG: "mapping", "items": items}
    if type(value) is TYPES.get(type(value).__name__):
        own = {field.name: inner(getattr(value, field.name), f"{where}.{field.name}") for field in fields(value)}
        return {TAG: type(value).__name__, **own}
    is_function = hasattr(value, "__name__")
    raise unsavable(where, f"the function {value.__name__}" if is_function else f"a {type(value).__name__}")


def unsavable(what: str, kind: str) -> InputError:
    """Return the error for something, such as "its policy", of a kind without a form on disk that is safe to load."""
    return InputError(
        f"This model cannot be saved: {what} is {kind}, which has no form on disk that is safe to load. Accepted are "
        "numbers, strings, and the learners and settings of nasheval. Fit with one of those, or keep "
        "the votes and fit again."
    )


def decode(value: Any, *, finite: bool = True) -> Any:
    """Return the setting that `encode` wrote; raises a ValueError or TypeError for anything else.

    Args:
        finite: whether to refuse infinite numbers and NaN.
    """
    if isinstance(value, list):
        return [decode(item, finite=finite) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(TAG)
    rest = {name: item for name, item in value.items() if name != TAG}
    if kind == "float" and not finite and rest.get("value") in _NOT_FINITE:
        return float(rest["value"])
    if kind in ("tuple", "frozenset", "array", "mapping") and list(rest) == ["items"] and type(rest["items"]) is list:
        return _container(kind, decode(rest["items"], finite=finite))
    if isinstance(kind, str) and kind in TYPES:
        gone, named = _REMOVED.get(kind, {}), {name: decode(item, finite=finite) for name, item in rest.items()}
        return TYPES[kind](**{name: item for name, item in named.items() if name not in gone or item != gone[name]})
    raise ValueError(f"a setting of the unknown kind {kind!r:.60}")


def _container(kind: str, items: list[Any]) -> Any:
    if kind == "tuple":
        return tuple(items)
    if kind == "frozenset":
        return frozenset(items)
    if kind == "array":
        numbers = np.array(items)
        if numbers.dtype.kind not in "biuf":
            raise ValueError("an array of something other than numbers")
        return numbers
    mapping = dict(items)
    if len(mapping) < len(items):
        raise ValueError("a mapping with the same key twice")
    return mapping

"""Settings as JSON values and back: plain values, and the few types listed here. Nothing else is ever built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from typing import Any

import numpy as np

from nasheval.errors import InputError
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Entropy
from nasheval.nuisance.choice import BestPropensity
from nasheval.nuisance.marginal import Marginal
from nasheval.nuisance.multinomial import Multinomial
from nasheval.nuisance.propensity import Known, PrintedPropensity
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.stack import Stack
from nasheval.nuisance.strata import Strata
from nasheval.nuisance.trees import TreeMultinomial, TreeOutcome, TreePropensity
from nasheval.nuisance.tuning import Tuned, TunedTrees
from nasheval.nuisance.voters import Voters
from nasheval.payoff.aggregators import AsAsked, Cubic, Mean, Weighted
from nasheval.payoff.corrected import Strength
from nasheval.payoff.surfaces import Boosting
from nasheval.policy.exact import ExactPolicy
from nasheval.policy.learned import LearnedPolicy
from nasheval.policy.learned_training import Recipe, Training

_LISTED = (
    L2, Entropy, SoftBudget, Mean, AsAsked, Weighted, Cubic, Boosting, Strength,
    Voters, TreeOutcome, Intercept, Stack, Tuned, TunedTrees,
    TreePropensity, TreeMultinomial, PrintedPropensity, Marginal, Multinomial, Strata, BestPropensity, Known,
    ExactPolicy, LearnedPolicy, Recipe, Training,
)  # fmt: skip
TYPES: Mapping[str, Any] = {kind.__name__: kind for kind in _LISTED}
# Settings that older versions wrote and that are gone, with the only value at which a model still means the same.
_REMOVED: Mapping[str, Mapping[str, Any]] = {"Voters": {"context_weights": False, "dropout": 0.0}}
TAG = "is"  # the key that says what an object stands for
_NOT_FINITE = ("inf", "-inf", "nan")


def encode(value: Any, where: str, *, finite: bool = True) -> Any:
    """Return a setting as JSON values.

    Args:
        where: what it is called in an error.
        finite: whether to refuse infinite numbers and NaN.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return _number(value, where, finite)
    if isinstance(value, list):
        return [encode(item, where, finite=finite) for item in value]
    if isinstance(value, tuple | frozenset):
        items = value if isinstance(value, tuple) else sorted(value)
        return {TAG: type(value).__name__, "items": [encode(item, where, finite=finite) for item in items]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {TAG: "array", "items": encode(value.tolist(), where, finite=finite)}
    if isinstance(value, Mapping):
        return {TAG: "mapping", "items": [_pair(k, v, where, finite) for k, v in value.items()]}
    if type(value) is TYPES.get(type(value).__name__):
        told = {f.name: encode(getattr(value, f.name), f"{where}.{f.name}", finite=finite) for f in fields(value)}
        return {TAG: type(value).__name__, **told}
    raise unsavable(where, _described(value))


def _pair(key: Any, value: Any, where: str, finite: bool) -> list[Any]:
    return [encode(key, where, finite=finite), encode(value, f"{where}[{key!r}]", finite=finite)]


def _number(value: float, where: str, finite: bool) -> Any:
    if isfinite(value):
        return value
    if finite:
        raise InputError(f"{where} is {value!r}; a saved model holds finite settings. Fit with another value.")
    return {TAG: "float", "value": repr(value)}


def unsavable(what: str, kind: str) -> InputError:
    """Return the error for something that has no form on disk which is safe to load.

    Args:
        what: what it is to the model.
        kind: what it is.
    """
    return InputError(
        f"This model cannot be saved: {what} is {kind}, which has no form on disk that is safe to load. Accepted are "
        "numbers, strings, and the learners and settings of nasheval. Fit with one of those, or keep the log "
        "(Feedback.to_parquet) and fit again."
    )


def _described(value: Any) -> str:
    return f"the function {value.__name__}" if hasattr(value, "__name__") else f"a {type(value).__name__}"


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
        gone = _REMOVED.get(kind, {})
        kept = {name: item for name, item in rest.items() if name not in gone or item != gone[name]}
        return TYPES[kind](**{name: decode(item, finite=finite) for name, item in kept.items()})
    raise ValueError(f"a setting of the unknown kind {kind!r:.60}")


def _container(kind: str, items: list[Any]) -> Any:
    if kind == "tuple":
        return tuple(items)
    if kind == "frozenset":
        return frozenset(items)
    if kind == "array":
        found = np.array(items)
        if found.dtype.kind not in "biuf":
            raise ValueError("an array of something other than numbers")
        return found
    made = dict(items)
    if len(made) < len(items):
        raise ValueError("a mapping with the same key twice")
    return made

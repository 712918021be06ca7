"""What the manifest tells of propensities: whether they are known, which model was chosen and where it fits worst."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from nasheval.arrays import Floats
from nasheval.feedback.log import Feedback
from nasheval.files import require_fields
from nasheval.nuisance.balance import PropensityCheck, check_propensities
from nasheval.nuisance.choice import Choice
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.nuisance.propensity import KnownModels

_CHOICE: dict[str, type] = {"name": str, "losses": dict, "gain": float, "gain_error": float}
_CHECK: dict[str, type] = {
    "p_value": float, "n_tests": int, "column": str, "group": str, "what": list, "observed": float, "expected": float,
    "rival": str,
}  # fmt: skip


def pack_propensity(fit: NuisanceFit) -> dict[str, Any]:
    """Return what is told of the propensities of a fit, as JSON values."""
    models = fit.propensity_models
    choice: Choice | None = getattr(models, "choice", None)
    check = models.check if isinstance(models, KnownModels) else check_propensities(fit)
    return {
        "known": fit.is_known,
        "choice": None if choice is None else asdict(choice),
        "check": None if check is None else asdict(check) | {"what": list(check.what)},
    }


def unpack_propensity(told: dict[str, Any] | None, values: Floats, log: Feedback) -> KnownModels:
    """Return the propensities of a saved model; a ValueError for what is none.

    Args:
        told: what `pack_propensity` gave; None for a model that was saved before there was such a thing.
        values: (n_records,) out-of-fold propensities.
    """
    if told is None:
        return KnownModels(values, known=log.records.propensity is not None)
    maybe = (dict, type(None))
    require_fields(told, "'propensity'", {"known": bool, "choice": maybe, "check": maybe})
    return KnownModels(values, told["known"], _choice(told["choice"]), _check(told["check"]))


def _choice(told: dict[str, Any] | None) -> Choice | None:
    if told is None:
        return None
    require_fields(told, "'choice'", _CHOICE)
    if not all(type(loss) is float and np.isfinite(loss) for loss in told["losses"].values()):
        raise ValueError("'losses' in 'choice' holds something other than numbers")
    return Choice(**told)


def _check(told: dict[str, Any] | None) -> PropensityCheck | None:
    if told is None:
        return None
    require_fields(told, "'check'", _CHECK)
    if not told["what"] or not all(type(name) is str for name in told["what"]):
        raise ValueError("'what' in 'check' holds something other than names")
    return PropensityCheck(**{**told, "what": tuple(told["what"])})

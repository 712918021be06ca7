"""What the manifest tells of propensities: whether they are known, which model was chosen and where it fits worst."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nasheval.arrays import Floats
from nasheval.feedback.log import Feedback
from nasheval.files import Kinds, require_fields
from nasheval.nuisance.balance import PropensityCheck, check_propensities
from nasheval.nuisance.choice import Choice
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.nuisance.propensity import KnownModels

_CHOICE: Kinds = {"name": str, "losses": dict, "gain": float, "gain_error": float}
_CHECK: Kinds = {
    "p_value": float, "n_tests": int, "column": str, "group": str, "what": list, "observed": float, "expected": float,
    "rival": str,
}  # fmt: skip


def pack_propensity(fit: NuisanceFit) -> dict[str, Any]:
    """Return what the manifest says of the propensities of a fit."""
    models = fit.propensity_models
    choice: Choice | None = getattr(models, "choice", None)
    check = models.check if isinstance(models, KnownModels) else check_propensities(fit)
    return {
        "known": fit.is_known,
        "choice": None if choice is None else asdict(choice),
        "check": None if check is None else asdict(check) | {"what": list(check.what)},
    }


def unpack_propensity(entry: dict[str, Any] | None, values: Floats, log: Feedback) -> KnownModels:
    """Return the propensities of a saved model; a ValueError for what is none.

    Args:
        entry: what `pack_propensity` gave; None for a model that was saved before there was such a thing.
        values: (n_records,) out-of-fold propensities.
    """
    if entry is None:
        return KnownModels(values, known=log.records.propensity is not None)
    optional = (dict, type(None))
    require_fields(entry, "'propensity'", {"known": bool, "choice": optional, "check": optional})
    choice, check = entry["choice"], entry["check"]
    if choice is not None:
        require_fields(choice, "'choice'", _CHOICE)
        if not all(type(loss) is float for loss in choice["losses"].values()):
            raise ValueError("'losses' in 'choice' holds something other than numbers")
        choice = Choice(**choice)
    if check is not None:
        require_fields(check, "'check'", _CHECK)
        if not check["what"] or not all(type(name) is str for name in check["what"]):
            raise ValueError("'what' in 'check' holds something other than names")
        check = PropensityCheck(**{**check, "what": tuple(check["what"])})
    return KnownModels(values, entry["known"], choice, check)

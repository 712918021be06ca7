"""The estimated game on disk: its second stage as LightGBM text, the rest in the manifest."""

from __future__ import annotations

from typing import Any

import numpy as np

from nasheval.arrays import Floats, n_pairs
from nasheval.files import require_fields
from nasheval.payoff.bridging import bridge_of
from nasheval.payoff.corrected import Strength
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.second_stage import SECOND_STAGES, PayoffModel, Plugin
from nasheval.payoff.surfaces import PairSurface, SharedSurface, Surface
from nasheval.store.boosters import models_of, models_text
from nasheval.store.folder import Files, reading
from nasheval.store.plain import decode, encode, unsavable

_FILE = "surface.txt"
_WHAT = "its payoff model"
_PLUGGED = ("none", "corrected")  # second stages that start at the plug-in surface


def pack_payoff(payoff: PayoffModel) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the model as what the manifest tells of it, and files."""
    told: dict[str, Any] = {
        "form": payoff.form, "strength": encode(payoff.strength, _WHAT, finite=False), "surface": None, "unknown": []
    }  # fmt: skip
    match payoff.surface:
        case None:
            return told, {}
        case PairSurface():
            told["surface"], models = "per-pair", payoff.surface.models.models[0]
        case SharedSurface():
            told["surface"], models = "shared", (payoff.surface.model,)
            told["unknown"] = np.flatnonzero(~payoff.surface.known).tolist()
        case _:
            raise unsavable(_WHAT, f"a {type(payoff.surface).__name__}")
    return told, {_FILE: models_text(models, _WHAT).encode()}


def unpack_payoff(told: Any, files: Files, pseudo: PseudoOutcomes, n_jobs: int) -> PayoffModel:
    """Return the model that `pack_payoff` wrote; raises a ValueError or ModelFileError for anything else."""
    optional = (dict, type(None)), (str, type(None))
    require_fields(told, "'payoff'", {"form": str, "strength": optional[0], "surface": optional[1], "unknown": list})
    form, strength = told["form"], decode(told["strength"], finite=False)
    if form not in SECOND_STAGES:
        raise ValueError(f"the second stage is {form!r:.40}")
    if (form == "corrected") != isinstance(strength, Strength):
        raise ValueError("the strength of the correction is missing, or there is nothing that it is of")
    strengths = np.zeros(0) if strength is None else _strengths(strength, pseudo.n_pairs)
    surface = _unpack_surface(told, files, pseudo, n_jobs)
    if (surface is None) != (form == "none" or (form == "corrected" and not strengths.any())):
        raise ValueError(f"the second stage {form!r} has a surface that it should not have, or lacks it")
    fit, aggregation = pseudo.fit, pseudo.aggregation
    plugin = Plugin(fit.outcome_models, fit.n_folds, aggregation) if form in _PLUGGED else None
    bridge = bridge_of(fit.log, fit.outcome_models, fit.n_folds) if pseudo.unseen == "model" else None
    return PayoffModel(fit.log.agents, form, pseudo.status, plugin, surface, strength, bridge)


def _strengths(strength: Strength, pairs: int) -> Floats:
    """Return (pairs,) strengths; a model saved before there was one per pair has the common one for all."""
    listed = strength.per_pair
    if type(listed) is not tuple or len(listed) not in (0, pairs):
        raise ValueError("'per_pair' of the strength does not have one number per pair of agents")
    for share in (strength.strength, *listed):
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise ValueError("a strength of the correction is no share from 0 to 1")
    return strength.of_pairs(pairs)


def _unpack_surface(told: Any, files: Files, pseudo: PseudoOutcomes, n_jobs: int) -> Surface | None:
    kind, K, width = told["surface"], pseudo.fit.log.n_agents, pseudo.fit.X.trees.shape[1]
    if kind is None:
        return None
    if kind not in ("per-pair", "shared"):
        raise ValueError(f"the surface is of the unknown kind {kind!r:.40}")
    shared = kind == "shared"
    known = _known(told["unknown"], n_pairs(K))
    raw = files.read(_FILE)
    with reading(files.path(_FILE)):
        models = models_of(raw.decode("ascii"), 1 if shared else n_pairs(K), width + 2 if shared else width)
        if not shared:
            return PairSurface.of(models, n_jobs)
        if isinstance(models[0], float):
            raise ValueError("the shared surface is a number in place of a model")
        return SharedSurface(models[0], known, K)


def _known(unknown: list[Any], pairs: int) -> Any:
    if any(type(pair) is not int or not 0 <= pair < pairs for pair in unknown):
        raise ValueError("'unknown' names something other than pairs of agents")
    known = np.ones(pairs, bool)
    known[unknown] = False
    return known

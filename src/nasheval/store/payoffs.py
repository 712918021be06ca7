"""The estimated game on disk: its second stage as LightGBM text, the rest in the manifest."""

from __future__ import annotations

from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats, n_pairs
from nasheval.files import require_fields
from nasheval.nuisance.trees import TreeModels
from nasheval.payoff.bridging import bridge_of
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.second_stage import SECOND_STAGES, PayoffModel, Plugin
from nasheval.payoff.strengths import Strength
from nasheval.payoff.surfaces import PairSurface, SharedSurface, Surface
from nasheval.store.boosters import models_of, models_text
from nasheval.store.folder import Files
from nasheval.store.settings import decode, encode, unsavable

_FILE = "surface.txt"
_WHAT = "its payoff model"
_PLUGGED = ("none", "corrected")  # second stages that start at the plug-in surface


def pack_payoff(payoff: PayoffModel, files: dict[str, bytes]) -> dict[str, Any]:
    """Add the model's files to those of its folder, and return what the manifest says of it."""
    strength, surface = encode(payoff.strength, _WHAT, finite=False), payoff.surface
    entry: dict[str, Any] = {"form": payoff.form, "strength": strength, "surface": None, "unknown": []}
    if isinstance(surface, PairSurface):
        if not isinstance(surface.models, TreeModels):
            raise unsavable(_WHAT, "made of scikit-learn regressors")
        entry["surface"] = "per-pair"
        files[_FILE] = models_text(surface.models.models[0], _WHAT).encode()
    elif isinstance(surface, SharedSurface):
        entry |= {"surface": "shared", "unknown": np.flatnonzero(~surface.known).tolist()}
        files[_FILE] = models_text((surface.model,), _WHAT).encode()
    return entry


def unpack_payoff(entry: Any, files: Files, pseudo: PseudoOutcomes, n_jobs: int) -> PayoffModel:
    """Return the model that `pack_payoff` wrote; raises a ValueError or ModelFileError for anything else."""
    optional = (dict, type(None)), (str, type(None))
    require_fields(entry, "'payoff'", {"form": str, "strength": optional[0], "surface": optional[1], "unknown": list})
    form, strength = entry["form"], decode(entry["strength"], finite=False)
    if form not in SECOND_STAGES:
        raise ValueError(f"the second stage is {form!r:.40}")
    if (form == "corrected") != isinstance(strength, Strength):
        raise ValueError("the strength of the correction is missing, or there is nothing that it is of")
    strengths = np.zeros(0) if strength is None else _strengths(strength, pseudo.n_pairs)
    surface = _unpack_surface(entry, files, pseudo, n_jobs)
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


def _unpack_surface(entry: Any, files: Files, pseudo: PseudoOutcomes, n_jobs: int) -> Surface | None:
    kind, K, width = entry["surface"], pseudo.fit.log.n_agents, pseudo.fit.X.trees.shape[1]
    known = _known(entry["unknown"], n_pairs(K))

    def per_pair(raw: bytes) -> Surface:
        return PairSurface.of(models_of(raw.decode("ascii"), n_pairs(K), width), n_jobs)

    def shared(raw: bytes) -> Surface:
        [model] = models_of(raw.decode("ascii"), 1, width + 2)
        if isinstance(model, float):
            raise ValueError("the shared surface is a number in place of a model")
        return SharedSurface(model, known, K)

    if kind is None:
        return None
    if kind not in ("per-pair", "shared"):
        raise ValueError(f"the surface is of the unknown kind {kind!r:.40}")
    return files.parsed(_FILE, shared if kind == "shared" else per_pair)


def _known(unknown: list[Any], pairs: int) -> Bools:
    if any(type(pair) is not int or not 0 <= pair < pairs for pair in unknown):
        raise ValueError("'unknown' names something other than pairs of agents")
    known = np.ones(pairs, bool)
    known[unknown] = False
    return known

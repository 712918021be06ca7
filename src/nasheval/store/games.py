"""The estimated game and its policy on disk: a second stage as LightGBM text, a learned network as safetensors, and
the terms of the game in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nasheval.arrays import Array, Floats, Ints, n_pairs
from nasheval.files import Kinds, require_fields
from nasheval.payoff.bridging import Bridge
from nasheval.payoff.second_stage import SECOND_STAGES, Added, PayoffModel, Plugin
from nasheval.payoff.strengths import Strength
from nasheval.payoff.surfaces import PairSurface, SharedSurface, Surface
from nasheval.policy.base import Policy
from nasheval.policy.exact import ExactEquilibria, ExactPolicy
from nasheval.policy.learned import LearnedEquilibria
from nasheval.policy.learned_training import OUTPUTS, Network, Training, depth
from nasheval.store.boosters import models_of, models_text
from nasheval.store.folder import Files
from nasheval.store.settings import decode, encode, unsavable
from nasheval.store.tensors import Layout, require_layout, tensors_bytes, tensors_of

_SURFACE, _NETWORK = "surface.txt", "policy.safetensors"
_WHAT = "its payoff model"
PLUGGED = ("none", "corrected")  # second stages that start at the plug-in surface
TERMS = ("regularizer", "costs", "cost_weight", "budget")


def pack_payoff(payoff: PayoffModel, files: dict[str, bytes]) -> dict[str, Any]:
    """Add the model's files to those of its folder, and return what the manifest says of it."""
    strength, surface = encode(payoff.strength, _WHAT, finite=False), payoff.surface
    entry: dict[str, Any] = {"form": payoff.form, "strength": strength, "surface": None, "unknown": []}
    if payoff.added is not None:
        entry["added"] = {"pairs": payoff.added.pairs.tolist(), "shift": payoff.added.shift.tolist()}
        entry["added"] |= {"known": payoff.added.known, "inherits": payoff.added.inherits}
    if isinstance(surface, PairSurface):
        if surface.models.form == "network":
            raise unsavable(_WHAT, "made of scikit-learn regressors")
        entry["surface"] = "per-pair"
        files[_SURFACE] = models_text(surface.models.models[0], _WHAT).encode()
    elif isinstance(surface, SharedSurface):
        entry |= {"surface": "shared", "unknown": np.flatnonzero(~surface.known).tolist()}
        files[_SURFACE] = models_text((surface.model,), _WHAT).encode()
    return entry


@dataclass(frozen=True)
class Ground:
    """What a payoff model stands on.

    Args:
        agents: names of the K agents.
        status: (n_pairs,) as in `PayoffModel`.
        plugin: the plug-in payoff; None: outcome models are not at hand, and not needed.
        bridge: as in `PayoffModel`.
        width: features of a context for trees.
        n_jobs: threads that predict.
    """

    agents: tuple[str, ...]
    status: Ints
    plugin: Plugin | None
    bridge: Bridge | None
    width: int
    n_jobs: int


def unpack_payoff(entry: Any, files: Files, ground: Ground) -> PayoffModel:
    """Return the model that `pack_payoff` wrote; raises a ValueError or ModelFileError for anything else."""
    optional = (dict, type(None)), (str, type(None))
    updated: Kinds = {"added": dict} if "added" in entry else {}
    wanted: Kinds = {"form": str, "strength": optional[0], "surface": optional[1], "unknown": list, **updated}
    require_fields(entry, "'payoff'", wanted)
    form, strength = entry["form"], decode(entry["strength"], finite=False)
    if form not in SECOND_STAGES:
        raise ValueError(f"the second stage is {form!r:.40}")
    if (form == "corrected") != isinstance(strength, Strength):
        raise ValueError("the strength of the correction is missing, or there is nothing that it is of")
    strengths = np.zeros(0) if strength is None else _strengths(strength, len(ground.status))
    surface = _unpack_surface(entry, files, ground)
    if (surface is None) != (form == "none" or (form == "corrected" and not strengths.any())):
        raise ValueError(f"the second stage {form!r} has a surface that it should not have, or lacks it")
    plugin = ground.plugin if form in PLUGGED or "added" in entry else None
    added = _added(entry["added"], len(ground.agents)) if "added" in entry else None
    return PayoffModel(ground.agents, form, ground.status, plugin, surface, strength, ground.bridge, added=added)


def _added(entry: dict[str, Any], K: int) -> Added:
    require_fields(entry, "'added'", {"pairs": list, "shift": list, "known": int, "inherits": bool})
    pairs, shift = _pairs(entry["pairs"], "pairs", K), entry["shift"]
    if len(shift) != len(pairs) or not all(type(one) in (int, float) and -2 <= one <= 2 for one in shift):
        raise ValueError("'shift' does not have one payoff per pair")
    if not 2 <= entry["known"] <= K:
        raise ValueError("'known' is no number of agents of the last full fit")
    return Added(pairs, np.array(shift, np.float64), entry["known"], entry["inherits"])


def _pairs(numbers: list[Any], name: str, K: int) -> Ints:
    """Return numbers of pairs; a ValueError for anything else."""
    if any(type(pair) is not int or not 0 <= pair < n_pairs(K) for pair in numbers):
        raise ValueError(f"{name!r} names something other than pairs of agents")
    return np.array(numbers, np.int64)


def _strengths(strength: Strength, pairs: int) -> Floats:
    """Return (pairs,) strengths; a model saved before there was one per pair has the common one for all."""
    listed = strength.per_pair
    if type(listed) is not tuple or len(listed) not in (0, pairs):
        raise ValueError("'per_pair' of the strength does not have one number per pair of agents")
    for share in (strength.strength, *listed):
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise ValueError("a strength of the correction is no share from 0 to 1")
    return strength.of_pairs(pairs)


def _unpack_surface(entry: Any, files: Files, ground: Ground) -> Surface | None:
    kind, K, width = entry["surface"], len(ground.agents), ground.width
    known = np.ones(n_pairs(K), bool)
    known[_pairs(entry["unknown"], "unknown", K)] = False

    def per_pair(raw: bytes) -> Surface:
        return PairSurface.of(models_of(raw.decode("ascii"), n_pairs(K), width), ground.n_jobs)

    def shared(raw: bytes) -> Surface:
        [model] = models_of(raw.decode("ascii"), 1, width + 2)
        if isinstance(model, float):
            raise ValueError("the shared surface is a number in place of a model")
        return SharedSurface(model, known, K)

    if kind is None:
        return None
    if kind not in ("per-pair", "shared"):
        raise ValueError(f"the surface is of the unknown kind {kind!r:.40}")
    return files.parsed(_SURFACE, shared if kind == "shared" else per_pair)


# -- the policy --------------------------------------------------------------------------------------------------------


def pack_policy(policy: Policy, files: dict[str, bytes]) -> dict[str, Any]:
    """Add a policy's files to those of its folder, and return what the manifest says of it.

    Raises an InputError where it has no safe form.
    """
    if isinstance(policy, ExactEquilibria):
        return {"kind": "exact", "terms": {name: encode(getattr(policy.terms, name), name) for name in TERMS}}
    if isinstance(policy, LearnedEquilibria):
        files[_NETWORK] = tensors_bytes(policy.network.to_arrays())
        training = {name: encode(getattr(policy, name), name, finite=False) for name in ("training", "tried")}
        return {**pack_policy(policy.exact, files), "kind": "learned", **training}
    raise unsavable("its policy", f"a {type(policy).__name__}")


def unpack_policy(
    entry: Any, files: Files, solve: Callable[[ExactPolicy], ExactEquilibria]
) -> ExactEquilibria | LearnedEquilibria:
    """Return the policy that `pack_policy` wrote; raises a ValueError or ModelFileError for anything else.

    Args:
        solve: makes the exact policy of its settings.
    """
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if kind not in ("exact", "learned"):
        raise ValueError(f"the policy is of the unknown kind {kind!r:.40}")
    learned: Kinds = {"training": dict, "tried": dict} if kind == "learned" else {}
    require_fields(entry, "'policy'", {"kind": str, "terms": dict, **learned})
    if set(entry["terms"]) != set(TERMS):
        raise ValueError("'policy' does not tell all terms of the game")
    exact = solve(ExactPolicy(**{name: decode(value) for name, value in entry["terms"].items()}))
    if kind == "exact":
        return exact
    training, tried = (decode(entry[name], finite=False) for name in ("training", "tried"))
    if not isinstance(training, Training) or not isinstance(tried, tuple):
        raise ValueError("'policy' does not tell how its network was trained")
    inputs, agents = len(exact.encoder.feature_names("network")), len(exact.agents)
    return LearnedEquilibria(exact, files.parsed(_NETWORK, lambda raw: _network(raw, inputs, agents)), training, tried)


def _network(raw: bytes, inputs: int, agents: int) -> Network:
    arrays = tensors_of(raw)
    require_layout(arrays, _layout(arrays, inputs, agents))
    if not 0 <= int(arrays["output"]) < len(OUTPUTS):
        raise ValueError("the network has an unknown output")
    return Network.from_arrays(arrays)


def _layout(arrays: Mapping[str, Array], inputs: int, agents: int) -> Layout:
    """Return the layout of a network whose hidden layers are as wide as their biases are long."""
    layers = depth(arrays)
    widths = [_length(arrays, f"bias_{layer}") for layer in range(layers)]
    waves = {"wave": ("f", (inputs, _length(arrays, "phase"))), "phase": ("f", (None,))} if "wave" in arrays else {}
    first = _length(arrays, "phase") if waves else inputs
    hidden: dict[str, Any] = {}
    for layer, (before, after) in enumerate(pairwise((first, *widths))):
        hidden |= {f"hidden_{layer}": ("f", (before, after)), f"bias_{layer}": ("f", (after,))}
    last = widths[-1] if widths else first
    return {"output": ("i", ()), **waves, **hidden, "head": ("f", (last, agents)), "lean": ("f", (agents,))}


def _length(arrays: Mapping[str, Array], name: str) -> int:
    return int(arrays[name].size) if name in arrays else 0

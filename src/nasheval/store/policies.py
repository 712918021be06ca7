"""Policies on disk: the terms of the game in the manifest, and a learned network as safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from nasheval.arrays import Array
from nasheval.files import Kinds, require_fields
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import Policy
from nasheval.policy.exact import ExactEquilibria, ExactPolicy
from nasheval.policy.learned import LearnedEquilibria
from nasheval.policy.learned_training import OUTPUTS, Network, Training, depth
from nasheval.policy.terms import Terms
from nasheval.store.folder import Files
from nasheval.store.settings import decode, encode, unsavable
from nasheval.store.tensors import Layout, require_layout, tensors_bytes, tensors_of

_FILE = "policy.safetensors"
_TERMS = ("regularizer", "costs", "cost_weight", "budget")


def pack_policy(policy: Policy, files: dict[str, bytes]) -> dict[str, Any]:
    """Add a policy's files to those of its folder, and return what the manifest says of it.

    Raises an InputError where it has no safe form.
    """
    if isinstance(policy, ExactEquilibria):
        return {"kind": "exact", "terms": _terms(policy.terms)}
    if isinstance(policy, LearnedEquilibria):
        files[_FILE] = tensors_bytes(policy.network.to_arrays())
        training = {name: encode(getattr(policy, name), name, finite=False) for name in ("training", "tried")}
        return {"kind": "learned", "terms": _terms(policy.exact.terms), **training}
    raise unsavable("its policy", f"a {type(policy).__name__}")


def _terms(terms: Terms) -> dict[str, Any]:
    return {name: encode(getattr(terms, name), name) for name in _TERMS}


def unpack_policy(entry: Any, files: Files, stage1: Stage1) -> ExactEquilibria | LearnedEquilibria:
    """Return the policy that `pack_policy` wrote; raises a ValueError or ModelFileError for anything else."""
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if kind not in ("exact", "learned"):
        raise ValueError(f"the policy is of the unknown kind {kind!r:.40}")
    learned: Kinds = {"training": dict, "tried": dict} if kind == "learned" else {}
    require_fields(entry, "'policy'", {"kind": str, "terms": dict, **learned})
    if set(entry["terms"]) != set(_TERMS):
        raise ValueError("'policy' does not tell all terms of the game")
    exact = ExactPolicy(**{name: decode(value) for name, value in entry["terms"].items()}).fit(stage1)
    if kind == "exact":
        return exact
    training, tried = (decode(entry[name], finite=False) for name in ("training", "tried"))
    if not isinstance(training, Training) or not isinstance(tried, tuple):
        raise ValueError("'policy' does not tell how its network was trained")
    inputs, agents = stage1.nuisances.X.network.shape[1], len(stage1.agents)
    return LearnedEquilibria(exact, files.parsed(_FILE, lambda raw: _network(raw, inputs, agents)), training, tried)


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

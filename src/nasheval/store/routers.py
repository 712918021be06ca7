"""`load_router`: what answers for one context, from a saved model's folder without reading its log.

`routing.safetensors` holds what a policy needs of the log beyond the models: which pairs were compared, the columns of
the outcome models and their weights, the menus that latent voters are asked about, and who was seen where. A model that
is loaded whole checks this file against the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from nasheval.arrays import Array, Ints, n_pairs
from nasheval.contexts.encoder import ContextEncoder, names_of
from nasheval.contexts.text import is_published, text_encoder_of
from nasheval.feedback.menus import MenuCatalogue
from nasheval.nuisance.columns import ColumnModels
from nasheval.nuisance.links import GRID, Curved, Straight
from nasheval.nuisance.voters import VoterModels
from nasheval.nuisance.voters_probes import Probes
from nasheval.nuisance.voters_records import Kind, Question
from nasheval.payoff.aggregators import Aggregation, Aggregator
from nasheval.payoff.bridging import Bridge, ScoreBridge, VoterBridge
from nasheval.payoff.second_stage import PayoffModel, Plugin
from nasheval.payoff.surfaces import StyleSurface
from nasheval.policy.availability import AmongAvailable
from nasheval.policy.base import Policy
from nasheval.policy.exact import ExactEquilibria, ExactPolicy
from nasheval.policy.learned import LearnedEquilibria
from nasheval.policy.router import Router
from nasheval.policy.terms import Terms
from nasheval.store.folder import MANIFEST, Files, open_folder, reading
from nasheval.store.games import Ground, unpack_payoff, unpack_policy
from nasheval.store.outcomes import Frame, unpack_outcome
from nasheval.store.settings import decode
from nasheval.store.tensors import tensors_bytes, tensors_of

ENCODER, ROUTING = "encoder.json", "routing.safetensors"
_KINDS = ("voters", "trees")  # outcome models of which a router can be loaded alone


def load_router(path: str | PathLike[str], *, text_encoder: Any = None) -> Router | None:
    """Return the router of a saved model; None where it takes the whole model: a stack, or an older file.

    It answers as `load(path).router()` would, but does not know the tags that stand for a log's texts.

    Args:
        text_encoder: as in `nasheval.load`.
    """
    manifest, files = open_folder(path)
    outcome = manifest["stage1"].get("outcome")
    if ROUTING not in manifest["files"] or not isinstance(outcome, dict) or outcome.get("kind") not in _KINDS:
        return None
    with reading(files.folder / MANIFEST):
        return Router(_policy(manifest, files, text_encoder))


def encoder_of(raw: bytes, text: str | list[str] | None, given: Any = None) -> ContextEncoder:
    """Return the encoder in a file; raises a ValueError for anything else, and unless its text column is `text`.

    Args:
        given: what embeds texts in place of what the file names, as in `NashEval(text_encoder=...)`.
    """
    encoder = ContextEncoder.from_json(raw.decode("utf-8"))
    if encoder.texts != names_of(text):
        raise ValueError(f"its text column is {encoder.text!r:.60} where manifest.json tells of {text!r:.60}")
    named = encoder.text_encoder
    if named is not None and not is_published(named.name):
        raise ValueError(f"its text model is {named.name!r:.80}, no name of a published one")
    if named is None or given is None:
        return encoder
    model = text_encoder_of(given).model
    return replace(encoder, text_encoder=replace(named, model=model, fetch=True))


# -- writing ----------------------------------------------------------------------------------------------------------


def pack_routed(policy: Policy, files: dict[str, bytes]) -> None:
    """Add `routing.safetensors` to the files of a model."""
    files[ROUTING] = tensors_bytes(_arrays(policy))


def check_routed(files: Files, policy: Policy) -> None:
    """Raise a ModelFileError where `routing.safetensors` is there and does not fit a policy loaded with its log."""

    def check(raw: bytes) -> None:
        found, wanted = tensors_of(raw), _arrays(policy)
        for name in sorted(set(found) | set(wanted)):
            if name not in found or name not in wanted or not np.array_equal(found[name], wanted[name]):
                raise ValueError(f"the array {name!r:.60} does not fit the log in evidence.parquet")

    if ROUTING in files:
        files.parsed(ROUTING, check)


def _arrays(policy: Policy) -> dict[str, Array]:
    """Return what a policy needs of the log; nothing for one that is no exact or learned policy."""
    arrays: dict[str, Array] = {}
    if isinstance(policy, AmongAvailable):
        arrays["seen"] = np.array(list(policy.seen.values())).astype(np.int8)
        names = [b"" if value is None else b"=" + value.encode() for value in policy.seen]
        arrays["seen_names"] = np.frombuffer(b"\0".join(names), np.uint8).astype(np.int16)
        policy = policy.policy
    exact = policy.exact if isinstance(policy, LearnedEquilibria) else policy
    return arrays | _payoff_arrays(exact.payoff) if isinstance(exact, ExactEquilibria) else {}


def _payoff_arrays(payoff: PayoffModel) -> dict[str, Array]:
    arrays: dict[str, Array] = {"status": np.asarray(payoff.status, np.int8)}
    if payoff.plugin is not None:
        aggregation, models = payoff.plugin.aggregation, payoff.plugin.outcome_models
        arrays |= {"pair": aggregation.pair.astype(np.int64), "weight": aggregation.weight.astype(np.float64)}
        if isinstance(models, VoterModels):
            arrays |= _probe_arrays(models.probes, "probes")
    if payoff.style is not None:
        arrays |= {"style.agent": payoff.style.agent, "style.pair": payoff.style.pair}
        if isinstance(payoff.style.link, Curved):
            arrays |= {"style.margin": payoff.style.link.margin, "style.steepness": payoff.style.link.steepness}
    bridge = payoff.bridge
    if bridge is not None:
        arrays["bridged"] = bridge.pairs.astype(np.int64)
        is_score = isinstance(bridge, ScoreBridge)
        arrays |= {"meetings": bridge.meetings} if is_score else _probe_arrays(bridge.probes, "bridge")  # type: ignore[union-attr]
    return arrays


def _probe_arrays(probes: Probes, name: str) -> dict[str, Array]:
    arrays: dict[str, Array] = {
        "offsets": probes.menus.offsets, "agents": probes.menus.agent, "question": probes.question
    }  # fmt: skip
    if probes.pooling is not None:
        pooling = probes.pooling.tocsr()
        arrays |= {"indptr": pooling.indptr, "indices": pooling.indices, "shape": np.array(pooling.shape)}
        arrays["share"] = pooling.data
    whole = {key: values.astype(np.int64) for key, values in arrays.items() if key != "share"}
    return {f"{name}.{key}": values for key, values in ({**arrays, **whole}).items()}


# -- reading ----------------------------------------------------------------------------------------------------------


def _policy(manifest: dict[str, Any], files: Files, text_encoder: Any) -> Policy:
    agents, stage, data = tuple(manifest["agents"]), manifest["stage1"], manifest["data"]
    encoder = files.parsed(ENCODER, lambda raw: encoder_of(raw, data["text"], text_encoder))
    arrays = files.parsed(ROUTING, tensors_of)
    with reading(files.folder / ROUTING):
        _check(arrays, len(agents))
    n_jobs = 1  # for one context, threads would wait for each other
    widths = len(encoder.feature_names("trees")), len(encoder.feature_names("network"))
    models = (
        _outcome(manifest, files, arrays, widths, n_jobs) if "pair" in arrays or "bridge.agents" in arrays else None
    )
    plugin = None
    if "pair" in arrays and models is not None:
        aggregator = decode(stage["aggregator"])
        if not isinstance(aggregator, Aggregator):
            raise ValueError("'aggregator' is none")
        plugin = Plugin(models, stage["folds"], Aggregation(aggregator, arrays["pair"], arrays["weight"], len(agents)))
    bridge = _bridge(arrays, models, len(agents))
    payoff = unpack_payoff(stage["payoff"], files, Ground(agents, arrays["status"], plugin, bridge, widths[0], n_jobs))
    payoff = replace(payoff, style=_style(arrays, len(agents), widths[1]))

    def solve(exact: ExactPolicy) -> ExactEquilibria:
        terms = Terms(exact.regularizer, exact.costs, exact.cost_weight, exact.budget)
        return ExactEquilibria(agents, encoder, payoff, terms)

    policy = unpack_policy(manifest["policy"], files, solve)
    column = decode(manifest["parameters"].get("availability"))
    return AmongAvailable(policy, column, _seen(arrays)) if column is not None else policy


def _outcome(
    manifest: dict[str, Any], files: Files, arrays: Mapping[str, Array], widths: tuple[int, int], n_jobs: int
) -> VoterModels | ColumnModels:
    entry, K = manifest["stage1"]["outcome"], len(manifest["agents"])
    questions: tuple[Question, ...] = ()
    probes = Probes(_menus(np.zeros(1, np.int64), np.zeros(0, np.int64), K), np.zeros(0, np.int64))
    menus = probes.menus
    if entry["kind"] == "voters":
        saved = files.parsed("outcome.safetensors", tensors_of)
        with reading(files.folder / "outcome.safetensors"):
            questions = tuple(
                Question(size, form, Kind(kind), *tie) for size, form, kind, *tie in saved["questions"].tolist()
            )
            menus = _menus(saved["menu_offsets"], saved["menu_agents"], K, saved["menu_forms"])
        probes = _probes(arrays, "probes", K) if "probes.agents" in arrays else probes
    elif len(arrays["pair"]):
        j, k = (side[arrays["pair"]] for side in np.triu_indices(K, 1))
        menus = _menus(np.arange(0, 2 * len(j) + 1, 2), np.stack([j, k], axis=1).ravel(), K)  # one column each
    frame = Frame(menus, questions, probes, widths, manifest["stage1"]["folds"], n_jobs)
    models = unpack_outcome(entry, files, frame)
    assert isinstance(models, VoterModels | ColumnModels)
    return models


def _bridge(arrays: Mapping[str, Array], models: Any, K: int) -> Bridge | None:
    if "bridged" not in arrays:
        return None
    if "meetings" in arrays:
        return ScoreBridge(arrays["bridged"], arrays["meetings"])
    return VoterBridge(arrays["bridged"], models, _probes(arrays, "bridge", K))


def _style(arrays: Mapping[str, Array], K: int, width: int) -> StyleSurface | None:
    if "style.agent" not in arrays:
        return None
    agent, pair = arrays["style.agent"], arrays.get("style.pair", np.zeros(0))
    if agent.shape != (K, 1 + width) or pair.shape != (n_pairs(K),):
        raise ValueError("'style' has not one line per agent and one number per pair")
    if "style.margin" not in arrays:
        return StyleSurface(agent, pair, Straight())
    curve = [arrays.get(f"style.{name}", np.zeros(0)) for name in ("margin", "steepness")]
    if any(values.shape != (GRID,) for values in curve) or (np.diff(curve[0]) < 0).any():
        raise ValueError("'style' has no curve that rises")
    return StyleSurface(agent, pair, Curved(curve[0], curve[1], np.zeros((GRID, 0))))


def _probes(arrays: Mapping[str, Array], name: str, K: int) -> Probes:
    menus, question = _menus(arrays[f"{name}.offsets"], arrays[f"{name}.agents"], K), arrays[f"{name}.question"]
    if f"{name}.share" not in arrays or _is_identity(arrays, name, len(menus.columns)):
        return Probes(menus, question)
    from scipy.sparse import csr_array

    parts = (arrays[f"{name}.{key}"] for key in ("share", "indices", "indptr"))
    pooling = csr_array(tuple(parts), shape=tuple(arrays[f"{name}.shape"].tolist()))
    pooling.check_format(full_check=True)
    if pooling.shape[0] != len(menus.columns):
        raise ValueError(f"{name!r} pools other pairs than those of its menus")
    return Probes(menus, question, pooling)


def _is_identity(arrays: Mapping[str, Array], name: str, size: int) -> bool:
    """Tell whether pooling leaves answers as they are: then it is left out, and SciPy is not imported."""
    place = np.arange(size + 1)
    wanted = {"share": np.ones(size), "indices": place[:-1], "indptr": place, "shape": np.array([size, size])}
    return all(np.array_equal(arrays[f"{name}.{key}"], values) for key, values in wanted.items())


def _menus(offsets: Ints, agents: Ints, K: int, forms: Ints | None = None) -> MenuCatalogue:
    """Return a catalogue of menus; a ValueError where they are none of K agents."""
    sizes = np.diff(offsets)
    inside = len(offsets) and offsets[0] == 0 and offsets[-1] == len(agents) and (sizes >= 2).all()
    if not inside or (len(agents) and not 0 <= agents.min() <= agents.max() < K):
        raise ValueError("a menu is none of these agents")
    form = np.zeros(len(sizes), np.int16) if forms is None else forms
    return MenuCatalogue(offsets, agents.astype(np.int16), form, np.zeros(0, np.int32), K)


def _seen(arrays: Mapping[str, Array]) -> dict[str | None, Any]:
    names = bytes(arrays["seen_names"].astype(np.uint8)).split(b"\0")
    values = [name[1:].decode() if name else None for name in names]
    return dict(zip(values, arrays["seen"].astype(bool), strict=True))


def _check(arrays: Mapping[str, Array], K: int) -> None:
    """Raise a ValueError where an array would lead outside of others, or is no number."""
    pairs = n_pairs(K)
    if arrays["status"].shape != (pairs,) or not np.isin(arrays["status"], (0, 1, 2)).all():
        raise ValueError("'status' is not one of three per pair of agents")
    for name in ("pair", "bridged"):
        within = arrays.get(name, np.zeros(0, np.int64))
        if (
            within.dtype.kind != "i"
            or within.ndim != 1
            or (len(within) and not 0 <= within.min() <= within.max() < pairs)
        ):
            raise ValueError(f"{name!r} names something other than pairs of agents")
    if "pair" in arrays and arrays["weight"].shape != arrays["pair"].shape:
        raise ValueError("'weight' has not one number per column")
    if "meetings" in arrays and arrays["meetings"].shape != (K, K):
        raise ValueError("'meetings' has not one number per two agents")
    if "seen" in arrays and arrays["seen"].shape[1:] != (K,):
        raise ValueError("'seen' has not one entry per agent")
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise ValueError(f"the array {name!r:.60} holds a number that is not finite")

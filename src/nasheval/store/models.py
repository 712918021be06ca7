"""Save and load a fitted model: a folder of JSON, Parquet, safetensors and LightGBM text, nothing of which is run.

| file | holds |
| --- | --- |
| `manifest.json` | format, package version, agents, settings, data fingerprint, metrics, hash of every other file |
| `encoder.json` | contexts -> features |
| `evidence.parquet` | the log, folds, out-of-fold nuisances; texts as tags, or as they are on request |
| `outcome*` | outcome models |
| `surface.txt` | what the second stage learned, if anything |
| `style.safetensors` | what style and position are worth, if they were adjusted for |
| `policy.safetensors` | the network of a learned policy |
| `routing.safetensors` | what the policy needs of the log, so that a router loads without it |

A model that was loaded answers as the one that was saved, bit for bit on the same machine and libraries. Two things
are not kept: models of the propensity, of which only the values at the log's records are (`KnownModels`), and names
of voters.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from nasheval.arrays import Floats, readonly
from nasheval.contexts.text import AUTO, MODEL_ARGUMENT, TextEncoder, is_published, text_encoder_of
from nasheval.errors import InputError
from nasheval.feedback.growing import Fitted
from nasheval.feedback.log import Feedback
from nasheval.files import Kinds, require_fields
from nasheval.nuisance.balance import PropensityCheck, check_propensities
from nasheval.nuisance.choice import Choice
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.nuisance_diagnostics import NuisanceDiagnostics
from nasheval.nuisance.propensity import KnownModels
from nasheval.payoff.aggregators import AsAsked, as_asked
from nasheval.payoff.bridging import UNSEEN, bridge_of
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.second_stage import Plugin
from nasheval.payoff.stage1 import Stage1, at_equal_style
from nasheval.policy.availability import AmongAvailable, among_available
from nasheval.policy.base import Policy
from nasheval.policy.terms import Terms
from nasheval.store.evidence import EVIDENCE, Evidence, evidence_bytes, evidence_of, fingerprint
from nasheval.store.folder import MANIFEST, Files, check_target, open_folder, reading, write_folder
from nasheval.store.games import TERMS, Ground, pack_payoff, pack_policy, unpack_payoff, unpack_policy
from nasheval.store.outcomes import Frame, pack_outcome, unpack_outcome
from nasheval.store.routers import ENCODER, check_routed, encoder_of, pack_routed
from nasheval.store.settings import decode, encode
from nasheval.store.styles import pack_style, unpack_style
from nasheval.store.text_tags import remembering, tagged

_LATER = "later "  # before the names of voters that came after the log of a model whose voters are numbers
_METRICS = ("n_verdicts", "r2", "r2_within", "log_loss", "smallest", "floor", "clipped_share")
_CHOICE: Kinds = {"name": str, "losses": dict, "gain": float, "gain_error": float}
_CHECK: Kinds = {
    "p_value": float, "n_tests": int, "column": str, "group": str, "what": list, "observed": float, "expected": float,
    "rival": str,
}  # fmt: skip
_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class SavedStage1(Stage1):
    """A Stage 1 that was loaded.

    Args:
        fingerprint: hash of the log it was fitted on, with all that is not kept.
        text_kept: whether texts were kept.
    """

    fingerprint: str = ""
    text_kept: bool = False

    @property
    def hidden_texts(self) -> tuple[str, ...]:
        """Columns of texts in whose place tags stand."""
        return () if self.text_kept else self.log.texts

    def admitted(self, log: Feedback) -> tuple[Feedback, Features]:
        """Return new votes with tags for texts where those of the log are, and voters that are none of its numbers."""
        _, X = super().admitted(log)
        if log.voters is not None:
            names = [
                name if name.startswith(_LATER) else _LATER + name for name in log.voters.cast(pa.string()).to_pylist()
            ]
            log = replace(log, voters=pa.array(names, pa.string()))
        contexts = log.contexts
        for name in self.hidden_texts:
            contexts = contexts.set_column(contexts.column_names.index(name), name, tagged(contexts[name]))
        return replace(log, contexts=contexts), X

    def remarks(self, log: Feedback) -> tuple[str, ...]:
        """Return what cannot be known of new votes, since names of voters were not kept."""
        if self.log.voters is None or log.voters is None:
            return super().remarks(log)
        return (
            "This model was loaded, and a folder keeps voters as numbers: the voters of the new votes count as others, "
            "also those who voted before. Update the fitted model itself to have them recognised.",
        )

    def succeeded(self, more: Feedback, **fields: Any) -> SavedStage1:
        """Return the Stage 1 of the log with more votes, whose hash is of both."""
        both = sha256(f"{self.fingerprint} {fingerprint(more)}".encode()).hexdigest()
        encoder, fit = self.encoder, fields["nuisances"]
        if encoder.text_size:
            encoder = remembering(encoder, fit.log.contexts, fit.X.trees[:, -encoder.text_size :])
        return SavedStage1(encoder, **fields, fingerprint=both, text_kept=self.text_kept)


def save(model: Any, path: str | PathLike[str], *, overwrite: bool = False, keep_text: bool = False) -> None:
    """Write a fitted model to a folder, all of it or nothing.

    Args:
        model: a fitted `NashEval`.
        path: the folder, which must not be there yet, or be empty.
        overwrite: whether to replace a saved model that is there; anything else that is there is left alone.
        keep_text: whether to keep the texts of the contexts as they are; otherwise tags stand for them.
    """
    if not hasattr(model, "policy_") or not hasattr(model, "stage1_"):
        raise InputError(f"This {type(model).__name__} is not fitted, so there is nothing to save; call fit first.")
    check_target(Path(path).resolve(), overwrite)  # before the work, not after it
    options = model.get_params(deep=False)
    options["text_encoder"] = _setting(options.get("text_encoder"))
    parameters = {name: encode(value, name) for name, value in options.items()}
    files: dict[str, bytes] = {}
    stage1 = pack_stage1(model.stage1_, files, keep_text=keep_text)
    inner = model.policy_.policy if isinstance(model.policy_, AmongAvailable) else model.policy_
    manifest = {**stage1, "parameters": parameters, "policy": pack_policy(inner, files)}
    pack_routed(model.policy_, files)
    write_folder(path, manifest, files, overwrite=overwrite)


def load(path: str | PathLike[str], make: Callable[..., _Made], *, text_encoder: Any = None) -> _Made:
    """Return the model that `save` wrote; a ModelFileError where the folder is damaged, edited or too new.

    Args:
        make: takes the settings by name and returns an estimator to be given what was fitted.
        text_encoder: what embeds texts in place of what the folder names.
    """
    manifest, files = open_folder(path)
    if text_encoder is not None:
        _check_given(text_encoder, manifest)
    with reading(files.folder / MANIFEST):
        parameters: dict[str, Any] = {"unseen": "tie"}  # that of models saved before pairs were bridged
        parameters |= {name: decode(value) for name, value in manifest["parameters"].items()}
        named = parameters.get("text_encoder")
        if named not in (None, AUTO) and not is_published(text_encoder_of(named).name):
            raise ValueError(f"'text_encoder' is {named!r:.80}, no name of a published one")
        parameters["text_encoder"] = named if text_encoder is None else text_encoder
        model: Any = make(**{**parameters, "engine": "local"})  # where it was fitted is not where it answers
        Terms(**{name: getattr(model, name) for name in TERMS})  # for its checks
        jobs: Any = parameters.get("n_jobs")
        if not (jobs is None or (type(jobs) is int and jobs != 0)):
            raise ValueError(f"'n_jobs' is {jobs!r:.40}")
        stage1 = unpack_stage1(manifest, files, jobs or os.cpu_count() or 1, text_encoder=text_encoder)
        device = Effort(device=str(parameters.get("device", "auto")))
        policy: Policy = unpack_policy(manifest["policy"], files, lambda exact: exact.fit(stage1, device))
        policy = among_available(policy, stage1.log, parameters.get("availability"))
        check_routed(files, policy)
        model.stage1_, model.policy_ = stage1, policy
        files.finish()
    model.agents_ = stage1.agents
    model.feature_names_in_ = np.array(manifest["features"], dtype=object)
    return model


def _setting(text_encoder: Any) -> Any:
    """Return an argument `text_encoder` as a saved model has it: without what cannot be saved, or should not be."""
    if text_encoder in (None, AUTO):
        return text_encoder
    encoder = text_encoder_of(text_encoder)
    plain = TextEncoder(encoder.saved_name, encoder.dim)
    return plain if isinstance(text_encoder, TextEncoder) else plain.model


def _check_given(text_encoder: Any, manifest: dict[str, Any]) -> None:
    text_encoder_of(text_encoder)  # for its checks
    if manifest["data"]["text"] is None:
        raise InputError(*(MODEL_ARGUMENT, " was given, but this model has no text column."))


# -- Stage 1 ----------------------------------------------------------------------------------------------------------


def pack_stage1(stage1: Stage1, files: dict[str, bytes], *, keep_text: bool = False) -> dict[str, Any]:
    """Add the files of a Stage 1 to those of its folder, and return what the manifest says of it.

    Raises an InputError where it has no safe form.
    """
    fit, log = stage1.nuisances, stage1.log
    saved = stage1 if isinstance(stage1, SavedStage1) else None
    if keep_text and stage1.hidden_texts:
        raise InputError("keep_text is True, but this model was saved without its texts; fit again to keep them.")
    stage = {
        "folds": fit.n_folds,
        "propensity": _pack_propensity(fit),
        "aggregator": encode(stage1.pseudo.aggregation.aggregator, "aggregator"),
        "unseen": stage1.pseudo.unseen,
        "outcome": pack_outcome(fit.outcome_models, files),
        "payoff": pack_payoff(stage1.payoff, files),
    }
    if stage1.fitted is not None:
        stage["fitted"] = asdict(stage1.fitted) | {"notes": list(stage1.fitted.notes)}
    if stage1.style is not None:
        stage["style"] = pack_style(stage1.style, files)
    files[ENCODER] = stage1.encoder.to_json().encode()
    tag = bool(log.texts) and not keep_text and (saved is None or saved.text_kept)
    files[EVIDENCE] = evidence_bytes(fit, dim=stage1.encoder.text_size, tag=tag)
    data = {
        "fingerprint": saved.fingerprint if saved else fingerprint(log),
        "contexts": log.n_contexts, "records": log.n_records, "menus": len(log.menus),
        "voters": None if log.records.voter is None else len(log.voters or ()),
        "design": log.design, "text": _text(log), "text_kept": bool(log.texts) and keep_text,
    }  # fmt: skip
    named = {"agents": list(log.agents), "features": log.contexts.column_names}
    text, metrics = stage1.encoder.text_encoder, _metrics(fit)
    if text is not None:
        metrics["text_encoder"] = f"{text.saved_name}, {text.size} dimensions"
    return {**named, "data": data, "metrics": metrics, "stage1": stage}


def _text(log: Feedback) -> str | list[str] | None:
    """Return the text columns of a log as JSON has them."""
    return list(log.text) if isinstance(log.text, tuple) else log.text


def _metrics(fit: NuisanceFit) -> dict[str, Any]:
    """Return what the nuisances are worth, for a reader of the manifest; JSON values."""
    known = _with_mu(replace(fit, propensity_models=KnownModels(fit.raw_propensity, fit.is_known)), fit.mu)
    measured = NuisanceDiagnostics.of(known).to_dict()
    return {name: measured[name] for name in _METRICS}


def _with_mu(fit: NuisanceFit, mu: Any) -> NuisanceFit:
    """Return the nuisances with mu at the verdicts already there, which spares predicting the whole log."""
    object.__setattr__(fit, "mu", readonly(mu))
    return fit


def unpack_stage1(manifest: dict[str, Any], files: Files, n_jobs: int, *, text_encoder: Any = None) -> SavedStage1:
    """Return the Stage 1 of a checked manifest and its files; a ValueError or ModelFileError for what is no Stage 1."""
    data, stage = manifest["data"], manifest["stage1"]
    stage.setdefault("unseen", "tie")  # models saved before pairs were bridged
    older: Kinds = {"floor": float} if "floor" in stage else {"propensity": dict}
    styled: Kinds = {name: dict for name in ("style", "fitted") if name in stage}
    wanted = {"folds": int, **older, **styled, "aggregator": dict, "outcome": dict, "payoff": dict, "unseen": str}
    require_fields(stage, "'stage1'", wanted)
    if stage["unseen"] not in UNSEEN:
        raise ValueError(f"'unseen' is {stage['unseen']!r:.40}")
    aggregator = decode(stage["aggregator"])
    encoder = files.parsed(ENCODER, lambda raw: encoder_of(raw, data["text"], text_encoder))
    size = {"n_contexts": data["contexts"], "n_voters": data["voters"]}
    size["dim"] = encoder.text_size
    cut = isinstance(aggregator, AsAsked)
    evidence = files.parsed(EVIDENCE, lambda raw: evidence_of(raw, cut=cut, **size))
    _require_same(manifest, evidence, stage["folds"])
    if evidence.vectors is not None:
        encoder = remembering(encoder, evidence.log.contexts, evidence.vectors)
    with reading(files.folder / EVIDENCE):
        X = Features.of(encoder, evidence.log.contexts, n=evidence.log.n_contexts)
    log, _ = as_asked(evidence.log, aggregator)
    outcome = unpack_outcome(stage["outcome"], files, Frame.of(log, X, stage["folds"], n_jobs))
    known = _unpack_propensity(stage.get("propensity"), evidence.propensity, log)
    fit = NuisanceFit(log, X, evidence.fold, outcome, known)
    if evidence.clipped is not None:
        fit = replace(fit, propensity_models=replace(known, clipped=_fitting(evidence.clipped, fit)))
    pseudo = pseudo_outcomes(_with_mu(fit, evidence.mu), aggregator, unseen=stage["unseen"])
    plugin = Plugin(outcome, fit.n_folds, pseudo.aggregation)
    bridge = bridge_of(log, outcome) if pseudo.unseen == "model" else None
    ground = Ground(log.agents, pseudo.status, plugin, bridge, X.trees.shape[1], n_jobs)
    payoff = unpack_payoff(stage["payoff"], files, ground)
    about = {"fingerprint": data["fingerprint"], "text_kept": data["text_kept"]}
    stage1 = SavedStage1(encoder, fit, pseudo, payoff, fitted=_fitted(stage.get("fitted"), log), **about)
    return at_equal_style(stage1, unpack_style(stage.get("style"), files, fit))


def _fitted(entry: dict[str, Any] | None, log: Feedback) -> Fitted | None:
    """Return what the manifest says of the last full fit; a ValueError for what cannot have been one."""
    if entry is None:
        return None
    require_fields(entry, "'fitted'", {"agents": int, "contexts": int, "records": int, "notes": list})
    inside = 2 <= entry["agents"] <= log.n_agents and 0 <= entry["contexts"] <= log.n_contexts
    if not inside or not 0 <= entry["records"] <= log.whole.n_records:
        raise ValueError("'fitted' tells of a larger log than this one")
    if not all(type(note) is str for note in entry["notes"]):
        raise ValueError("'notes' in 'fitted' holds something other than texts")
    return Fitted(**{**entry, "notes": tuple(entry["notes"])})


def _fitting(clipped: csr_array, fit: NuisanceFit) -> csr_array:
    """Return what was raised at the contexts that were looked at, as wide as there are menus."""
    if clipped.shape[1] > len(fit.log.menus):
        raise ValueError("'_raised' names a menu that the log does not have")
    kept = csr_array((clipped.data, clipped.indices, clipped.indptr), shape=(clipped.shape[0], len(fit.log.menus)))
    return csr_array(kept[fit.looked_at])


def _require_same(manifest: dict[str, Any], evidence: Evidence, folds: int) -> None:
    """Raise where the manifest and the log tell different things."""
    log, data = evidence.log, manifest["data"]
    both = {
        "agents": (manifest["agents"], list(log.agents)),
        "features": (manifest["features"], log.contexts.column_names),
        "records": (data["records"], log.n_records),
        "menus": (data["menus"], len(log.menus)),
        "design": (data["design"], log.design),
        "text": (data["text"], _text(log)),
        "folds": (list(range(folds)) if folds < 1 << 15 else None, np.unique(evidence.fold).tolist()),
    }
    for name, (here, there) in both.items():
        if here != there:
            raise ValueError(f"{name!r} differs between {MANIFEST} and {EVIDENCE}")


# -- propensities: whether they are known, which model was chosen and where it fits worst ----------------------------


def _pack_propensity(fit: NuisanceFit) -> dict[str, Any]:
    """Return what the manifest says of the propensities of a fit."""
    models = fit.propensity_models
    choice: Choice | None = getattr(models, "choice", None)
    check = models.check if isinstance(models, KnownModels) else check_propensities(fit)
    return {
        "known": fit.is_known,
        "choice": None if choice is None else asdict(choice),
        "check": None if check is None else asdict(check) | {"what": list(check.what)},
    }


def _unpack_propensity(entry: dict[str, Any] | None, values: Floats, log: Feedback) -> KnownModels:
    """Return the propensities of a saved model; a ValueError for what is none.

    Args:
        entry: what `_pack_propensity` gave; None for a model that was saved before there was such a thing.
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

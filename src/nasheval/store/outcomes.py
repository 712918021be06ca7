"""Outcome models on disk: voters as safetensors, trees as LightGBM text, a stack as both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from nasheval.arrays import Array
from nasheval.feedback.log import Feedback
from nasheval.feedback.menus import MenuCatalogue
from nasheval.files import Kinds, require_fields
from nasheval.nuisance.columns import ColumnModels, Tuned
from nasheval.nuisance.extended import ExtendedModels, catalogue_before
from nasheval.nuisance.learners import Features, FoldModels
from nasheval.nuisance.stack import StackModels
from nasheval.nuisance.voters import VoterModels
from nasheval.nuisance.voters_network import Shape
from nasheval.nuisance.voters_probes import Probes, probes_of
from nasheval.nuisance.voters_records import Question, question_rows, questions_of
from nasheval.store.boosters import models_of, models_text
from nasheval.store.folder import Files
from nasheval.store.settings import decode, encode, unsavable
from nasheval.store.tensors import Layout, require_layout, tensors_bytes, tensors_of

_WHAT = "its outcome model"


@dataclass(frozen=True)
class Frame:
    """What outcome models must fit.

    Args:
        menus: whose columns they predict.
        questions, probes: of latent voters; see `VoterModels`.
        widths: features of a context for trees and for networks.
        folds: number of folds.
        n_jobs: threads that predict.
    """

    menus: MenuCatalogue
    questions: tuple[Question, ...]
    probes: Probes
    widths: tuple[int, int]
    folds: int
    n_jobs: int

    @staticmethod
    def of(log: Feedback, X: Features, folds: int, n_jobs: int) -> Frame:
        """Return that of a log."""
        questions = questions_of(log.whole)
        widths = X.trees.shape[1], X.network.shape[1]
        return Frame(log.menus, tuple(questions), probes_of(log, questions), widths, folds, n_jobs)


def pack_outcome(models: FoldModels, files: dict[str, bytes], name: str = "outcome") -> dict[str, Any]:
    """Add the files of models, called `name`, to those of their folder; return what the manifest says of them.

    Raises an InputError where they have no safe form.
    """
    match models:
        case VoterModels():
            files[f"{name}.safetensors"] = tensors_bytes(models.to_arrays())
            return {"kind": "voters"}
        case ColumnModels() if models.form == "trees" or all(
            isinstance(m, float) for row in models.models for m in row
        ):
            return _pack_trees(models, files, name)
        case ExtendedModels():
            files[f"{name}.safetensors"] = tensors_bytes(models.to_arrays())
            return {"kind": "extended", "base": pack_outcome(models.base, files, f"{name}-base")}
        case StackModels():
            files[f"{name}.safetensors"] = tensors_bytes({"weights": models.weights, "losses": models.losses})
            own = [pack_outcome(one, files, f"{name}-{number}") for number, one in enumerate(models.models)]
            return {"kind": "stack", "models": own}
    raise unsavable(_WHAT, f"a {' or '.join(_kinds(models))}")


def _pack_trees(models: ColumnModels, files: dict[str, bytes], name: str) -> dict[str, Any]:
    for fold, row in enumerate(models.models):
        files[f"{name}-fold-{fold}.txt"] = models_text(row, _WHAT).encode()
    tuned = list(models.tuned) or None
    return {"kind": "trees", "low": models.low, "high": models.high, "tuned": encode(tuned, _WHAT, finite=False)}


def _kinds(models: FoldModels) -> list[str]:
    """Return the types that stand behind models, for an error: those of their estimators where there are some."""
    rows = [row if isinstance(row, tuple) else (row,) for row in getattr(models, "models", ())]
    named = {type(model).__name__ for row in rows for model in row if not isinstance(model, float)}
    return sorted(named or {type(models).__name__})


def unpack_outcome(entry: Any, files: Files, frame: Frame, name: str = "outcome") -> FoldModels:
    """Return the models that `pack_outcome` wrote; raises a ValueError or ModelFileError for anything else."""
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in _UNPACK:
        raise ValueError(f"the outcome model is of the unknown kind {kind!r:.40}")
    kinds, unpack = _UNPACK[kind]
    return unpack(require_fields(entry, "the outcome model", {"kind": str, **kinds}), files, frame, name)


def _unpack_trees(entry: dict[str, Any], files: Files, frame: Frame, name: str) -> ColumnModels:
    low, high = entry["low"], entry["high"]
    if not -1 <= low <= high <= 1:
        raise ValueError(f"the outcome model predicts from {low} to {high}")

    def row(raw: bytes) -> tuple[Any, ...]:
        return models_of(raw.decode("ascii"), len(frame.menus.columns), frame.widths[0])

    rows = tuple(files.parsed(f"{name}-fold-{fold}.txt", row) for fold in range(frame.folds))
    tuned = tuple(decode(entry["tuned"] or [], finite=False))
    if entry["tuned"] is not None and (len(tuned) != frame.folds or not all(isinstance(one, Tuned) for one in tuned)):
        raise ValueError("the outcome model does not have one search result per fold")
    return ColumnModels(rows, low, high, frame.n_jobs, tuned=tuned)


def _unpack_stack(entry: dict[str, Any], files: Files, frame: Frame, name: str) -> StackModels:
    models = tuple(unpack_outcome(own, files, frame, f"{name}-{i}") for i, own in enumerate(entry["models"]))
    shape = (frame.folds, len(models))

    def parse(raw: bytes) -> StackModels:
        arrays = tensors_of(raw)
        require_layout(arrays, {"weights": ("r", shape), "losses": ("r", shape)})
        if not (arrays["weights"] >= 0).all() or not np.allclose(arrays["weights"].sum(axis=1), 1.0):
            raise ValueError("the weights of a stack are no shares")
        return StackModels(models, arrays["weights"], arrays["losses"])

    return files.parsed(f"{name}.safetensors", parse)


def _unpack_extended(entry: dict[str, Any], files: Files, frame: Frame, name: str) -> ExtendedModels:
    arrays = files.parsed(f"{name}.safetensors", lambda raw: _extended(tensors_of(raw), frame))
    before = replace(frame, menus=catalogue_before(arrays))
    return ExtendedModels.from_arrays(arrays, unpack_outcome(entry["base"], files, before, f"{name}-base"), frame.menus)


def _extended(arrays: dict[str, Array], frame: Frame) -> dict[str, Array]:
    """Return the arrays of models that met new agents; a ValueError where they are none."""
    K = arrays["meetings"].shape[0] if "meetings" in arrays else 0
    menus, folds, q = len(arrays.get("before_forms", ())), frame.folds, frame.widths[1]
    N = frame.menus.n_agents - K
    layout: Layout = {
        "before_offsets": ("i", (menus + 1,)), "before_agents": ("i", (None,)), "before_forms": ("i", (menus,)),
        "mass": ("f", (menus,)), "meetings": ("f", (K, K)), "start": ("f", (folds, K)),
        "intercept": ("f", (folds, N)), "share": ("f", (folds, N, K)), "slope": ("f", (folds, N, q)),
    }  # fmt: skip
    require_layout(arrays, layout)
    offsets, agents, meetings = arrays["before_offsets"], arrays["before_agents"], arrays["meetings"]
    sizes = np.diff(offsets)
    if K < 2 or N < 0 or offsets[0] != 0 or offsets[-1] != len(agents) or (sizes < 2).any():
        raise ValueError("the menus of the models that were extended are none")
    inner = np.ones(max(0, len(agents) - 1), bool)
    inner[offsets[1:-1] - 1] = False  # agents ascend inside a menu
    if not (0 <= agents.min(initial=0) <= agents.max(initial=0) < K) or not (np.diff(agents)[inner] > 0).all():
        raise ValueError("a menu of the models that were extended is none of their agents")
    if (
        (meetings < 0).any()
        or (meetings != meetings.T).any()
        or meetings.diagonal().any()
        or (arrays["mass"] < 0).any()
    ):
        raise ValueError("the votes of the models that were extended are none")
    return arrays


# -- voters -----------------------------------------------------------------------------------------------------------


def _unpack_voters(entry: dict[str, Any], files: Files, frame: Frame, name: str) -> VoterModels:
    return files.parsed(f"{name}.safetensors", lambda raw: _voters(tensors_of(raw), frame))


def _voters(arrays: dict[str, Array], frame: Frame) -> VoterModels:
    questions, menus = list(frame.questions), frame.menus
    shape = _shape_of(arrays.get("shape"), frame, questions)
    require_layout(arrays, _voters_layout(arrays, shape, frame, questions))
    same = {"menu_offsets": menus.offsets, "menu_agents": menus.agent, "menu_forms": menus.form}
    for name, values in {**same, "questions": question_rows(questions)}.items():
        if not np.array_equal(arrays[name], values):
            raise ValueError(f"the array {name!r} does not fit the log in evidence.parquet")
    counts = arrays["n_voters"]
    if not ((counts >= 1) & (counts <= shape.voters)).all():
        raise ValueError("a fold has more voters than the model, or none")
    return VoterModels.assembled(arrays, menus, frame.questions, frame.probes)


def _shape_of(sizes: Array | None, frame: Frame, questions: list[Question]) -> Shape:
    whole = sizes is not None and sizes.dtype == np.int64 and sizes.ndim == 1
    if sizes is None or not whole or len(sizes) < 6 or sizes.min() < 0 or sizes.max() > 1e6:
        raise ValueError("the array 'shape' is missing or is no shape of a network")
    inputs, agents, voters, ties, unused, *hidden = sizes.tolist()
    shape = Shape(inputs, agents, voters, tuple(hidden), ties)
    wanted = max((question.tie + question.n_tie for question in questions), default=0)
    if (inputs, agents, ties) != (frame.widths[1], frame.menus.n_agents, wanted):
        raise ValueError(f"the network has {inputs} features, {agents} agents and {ties} ties, unlike the log")
    if voters < 1 or min(hidden) < 1 or unused:
        raise ValueError("the array 'shape' is no shape of a network")
    return shape


def _voters_layout(arrays: Mapping[str, Array], shape: Shape, frame: Frame, questions: list[Question]) -> Layout:
    pooled = arrays.get("parameter.pooled", np.zeros((0, 0)))
    members = pooled.shape[1] if pooled.ndim > 1 and pooled.shape[1] else 1
    K, V, folds, width = shape.agents, shape.voters, frame.folds, max((q.size for q in questions), default=1)
    own: dict[str, tuple[int, ...]] = {
        "head": (shape.hidden[-1], shape.outputs), "taste": (K, V), "logit": (V,), "tie": (shape.ties,), "lean": (V,),
        "pooled": (K,),
    }  # fmt: skip
    for layer, (before, after) in enumerate(pairwise((shape.inputs, *shape.hidden))):
        own |= {f"hidden_{layer}": (before, after), f"bias_{layer}": (1, after)}
    by_fold = dict.fromkeys(("held_out_loss", "pooled_loss"), ("r", (folds,)))
    by_fold |= {"weight_decay": ("f", (folds,)), "epoch": ("i", (folds,)), "n_voters": ("i", (folds,))}
    menus = dict.fromkeys(("menu_offsets", "menu_agents", "menu_forms"), ("i", (None,)))
    return {
        "shape": ("i", (None,)),
        "questions": ("i", (len(questions), 5)),
        "stops": ("f", (folds, len(questions), width)),
        **menus,
        **by_fold,
        **{f"parameter.{name}": ("f", (folds, members, *size)) for name, size in own.items()},
    }


# What the manifest says of each kind of models, and how it is read.
_UNPACK: Mapping[str, tuple[Kinds, Callable[..., FoldModels]]] = {
    "voters": ({}, _unpack_voters),
    "trees": ({"low": float, "high": float, "tuned": (list, type(None))}, _unpack_trees),
    "stack": ({"models": list}, _unpack_stack),
    "extended": ({"base": dict}, _unpack_extended),
}

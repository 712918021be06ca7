"""Outcome models on disk: voters as safetensors, trees as LightGBM text, a stack as both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nasheval.arrays import Array
from nasheval.feedback.base import Log
from nasheval.nuisance.learners import Features, FoldModels
from nasheval.nuisance.sklearn_models import EstimatorModels
from nasheval.nuisance.stack import StackModels
from nasheval.nuisance.trees import TreeModels
from nasheval.nuisance.tuning import Tuned, TunedModels
from nasheval.nuisance.voters import VoterModels
from nasheval.nuisance.voters_network import Shape
from nasheval.nuisance.voters_records import Question, question_rows, questions_of
from nasheval.store.boosters import models_of, models_text
from nasheval.store.folder import Files, reading
from nasheval.store.manifest import fields
from nasheval.store.plain import decode, encode, unsavable
from nasheval.store.tensors import Layout, require_finite, require_layout, tensors_bytes, tensors_of

Packed = tuple[dict[str, Any], dict[str, bytes]]  # what the manifest tells, and files
_WHAT = "its outcome model"


@dataclass(frozen=True)
class Frame:
    """What the outcome models of a log must fit.

    Args:
        log: the log.
        X: its contexts, encoded.
        folds: number of folds.
        n_jobs: threads that predict.
    """

    log: Log
    X: Features
    folds: int
    n_jobs: int

    @property
    def columns(self) -> int:
        """Number of columns of mu."""
        return len(self.log.menus.columns)


def pack_outcome(models: FoldModels, name: str = "outcome") -> Packed:
    """Return models as what the manifest tells of them and files; an InputError where they have no safe form.

    Args:
        name: what their files are called.
    """
    match models:
        case VoterModels():
            return {"kind": "voters"}, {f"{name}.safetensors": tensors_bytes(models.to_arrays())}
        case TreeModels():
            return _pack_trees(models, name)
        case EstimatorModels() if all(isinstance(model, float) for row in models.models for model in row):
            return _pack_trees(TreeModels(models.models, models.low, models.high), name)  # they predict the same
        case StackModels():
            return _pack_stack(models, name)
    raise unsavable(_WHAT, f"a {' or '.join(_kinds(models))}")


def _kinds(models: FoldModels) -> list[str]:
    """Return the types that stand behind models, for an error: those of their estimators where there are some."""
    rows = [row if isinstance(row, tuple) else (row,) for row in getattr(models, "models", ())]
    named = {type(model).__name__ for row in rows for model in row if not isinstance(model, float)}
    return sorted(named or {type(models).__name__})


def unpack_outcome(told: Any, files: Files, frame: Frame, name: str = "outcome") -> FoldModels:
    """Return the models that `pack_outcome` wrote; raises a ValueError or ModelFileError for anything else."""
    kind = told.get("kind") if isinstance(told, dict) else None
    kinds: Mapping[str, Callable[..., FoldModels]]
    kinds = {"voters": _unpack_voters, "trees": _unpack_trees, "stack": _unpack_stack}
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"the outcome model is of the unknown kind {kind!r:.40}")
    return kinds[kind](told, files, frame, name)


# -- trees ------------------------------------------------------------------------------------------------------------


def _pack_trees(models: TreeModels, name: str) -> Packed:
    tuned = list(models.tuned) if isinstance(models, TunedModels) else None
    told = {"kind": "trees", "low": models.low, "high": models.high, "tuned": encode(tuned, _WHAT, finite=False)}
    texts = [models_text(row, _WHAT) for row in models.models]
    return told, {f"{name}-fold-{fold}.txt": text.encode() for fold, text in enumerate(texts)}


def _unpack_trees(told: Any, files: Files, frame: Frame, name: str) -> TreeModels:
    fields(told, "the outcome model", {"kind": str, "low": float, "high": float, "tuned": (list, type(None))})
    if not -1 <= told["low"] <= told["high"] <= 1:
        raise ValueError(f"the outcome model predicts from {told['low']} to {told['high']}")
    rows = []
    for fold in range(frame.folds):
        file = f"{name}-fold-{fold}.txt"
        raw = files.read(file)
        with reading(files.path(file)):
            rows.append(models_of(raw.decode("ascii"), frame.columns, frame.X.trees.shape[1]))
    ready = (tuple(rows), told["low"], told["high"], frame.n_jobs)
    if told["tuned"] is None:
        return TreeModels(*ready)
    tuned = tuple(decode(told["tuned"], finite=False))
    if len(tuned) != frame.folds or not all(isinstance(one, Tuned) for one in tuned):
        raise ValueError("what a search found for the outcome model is not told once a fold")
    return TunedModels(*ready, tuned)


# -- a stack ----------------------------------------------------------------------------------------------------------


def _pack_stack(models: StackModels, name: str) -> Packed:
    packed = [pack_outcome(one, f"{name}-{number}") for number, one in enumerate(models.models)]
    files = {f"{name}.safetensors": tensors_bytes({"weights": models.weights, "losses": models.losses})}
    for _, own in packed:
        files |= own
    return {"kind": "stack", "models": [told for told, _ in packed]}, files


def _unpack_stack(told: Any, files: Files, frame: Frame, name: str) -> StackModels:
    fields(told, "the outcome model", {"kind": str, "models": list})
    models = tuple(unpack_outcome(own, files, frame, f"{name}-{i}") for i, own in enumerate(told["models"]))
    shape = (frame.folds, len(models))
    arrays = _arrays(files, f"{name}.safetensors", {"weights": ("f", shape), "losses": ("f", shape)})
    weights = arrays["weights"]
    with reading(files.path(f"{name}.safetensors")):
        if not (weights >= 0).all() or not np.allclose(weights.sum(axis=1), 1.0):
            raise ValueError("the weights of a stack are no shares")
    return StackModels(models, weights, arrays["losses"])


def _arrays(files: Files, file: str, layout: Layout) -> dict[str, Array]:
    raw = files.read(file)
    with reading(files.path(file)):
        found = tensors_of(raw)
        require_layout(found, layout)
    return found


# -- voters -----------------------------------------------------------------------------------------------------------


def _unpack_voters(told: Any, files: Files, frame: Frame, name: str) -> VoterModels:
    fields(told, "the outcome model", {"kind": str})
    raw = files.read(f"{name}.safetensors")
    with reading(files.path(f"{name}.safetensors")):
        arrays = tensors_of(raw)
        questions = questions_of(frame.log.whole)
        shape = _shape_of(arrays.get("shape"), frame, questions)
        require_layout(arrays, _voters_layout(arrays, shape, frame, questions))
        require_finite({key: values for key, values in arrays.items() if key not in ("held_out_loss", "pooled_loss")})
        _require_same_log(arrays, frame, questions)
        counts = arrays["n_voters"]
        if not ((counts >= 1) & (counts <= shape.voters)).all():
            raise ValueError("a fold has more voters than the model, or none")
        return VoterModels.from_arrays(arrays, frame.log)


def _shape_of(told: Array | None, frame: Frame, questions: list[Question]) -> Shape:
    if told is None or told.dtype != np.int64 or told.ndim != 1 or len(told) < 6 or told.min() < 0 or told.max() > 1e6:
        raise ValueError("the array 'shape' is missing or is no shape of a network")
    inputs, agents, voters, ties, unused, *hidden = told.tolist()
    shape = Shape(inputs, agents, voters, tuple(hidden), ties)
    wanted = max((question.tie + question.n_tie for question in questions), default=0)
    if (inputs, agents, ties) != (frame.X.network.shape[1], frame.log.n_agents, wanted):
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
    by_fold = dict.fromkeys(("held_out_loss", "pooled_loss", "weight_decay"), ("f", (folds,)))
    by_fold |= dict.fromkeys(("epoch", "n_voters"), ("i", (folds,)))
    menus = dict.fromkeys(("menu_offsets", "menu_agents", "menu_forms"), ("i", (None,)))
    return {
        "shape": ("i", (None,)),
        "questions": ("i", (len(questions), 5)),
        "stops": ("f", (folds, len(questions), width)),
        **menus,
        **by_fold,
        **{f"parameter.{name}": ("f", (folds, members, *size)) for name, size in own.items()},
    }


def _require_same_log(arrays: Mapping[str, Array], frame: Frame, questions: list[Question]) -> None:
    menus = frame.log.menus
    both = (("menu_offsets", menus.offsets), ("menu_agents", menus.agent), ("menu_forms", menus.form))
    for name, values in (*both, ("questions", question_rows(questions))):
        if not np.array_equal(arrays[name], values):
            raise ValueError(f"the array {name!r} does not fit the log in evidence.parquet")

"""Learning again from a store's votes, and whether what was learned may serve."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from nasheval.arrays import Array, Floats
from nasheval.contexts.text import TextEncoder
from nasheval.errors import Argument, InputError
from nasheval.estimator import NashEval, load
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.partitions import MARK, ROLES, read_partitions
from nasheval.notes import few
from nasheval.scoring.promotion import Promotion, promote
from nasheval.serving.exporting import Use, Votes, votes_of
from nasheval.serving.versions import Version, Versions
from nasheval.store.text_tags import RememberedTexts

_FEWEST = 20  # votes of a refit


@dataclass(frozen=True)
class Refit:
    """A model that was learned from a store.

    Args:
        model: it.
        votes: that it learned from.
        until: number of the last of them.
        notes: what to know of them.
        kept: whether the store has kept their prompts as they are.
    """

    model: NashEval
    votes: int
    until: int
    notes: tuple[str, ...]
    kept: bool


def refit(
    versions: Versions,
    *,
    use: Use = "auto",
    holdout: float = 0.0,
    update: bool = False,
    text_encoder: str = "",
    **options: Any,
) -> Refit:
    """Learn again from the votes of a store, with their propensities.

    Args:
        use: see `Votes.used`.
        holdout: share of the votes, the newest, that are left for `gate`.
        update: keep what the model that serves has learned, and add the votes since; False: fit all votes of the store
            anew, and forget what the first model was fitted on.
        options: of `NashEval`, in place of those of the model that serves; of its `update` with `update`.
    """
    if not 0 <= holdout <= 0.9:
        raise InputError(f"holdout is {holdout!r}; accepted is a share from 0 to 0.9.")
    name = versions.current()
    if name is None:
        raise InputError("No model is served from this store yet; start `nasheval serve model/` first.")
    base = load(versions[name].folder, text_encoder=text_encoder or None)
    votes = votes_of(versions.engine, after=versions[name].votes_until if update else 0)
    votes = _older(votes, holdout) if holdout else votes
    log, note = log_of(votes, base, use)
    if log.n_records < _FEWEST:
        raise InputError(f"There are {log.n_records:,} votes to learn from; collect {_FEWEST} at least.")
    if update:
        model = updated(base, log, votes, **options)
        return Refit(model, log.n_records, votes.until, (note, *str(model.update_).splitlines()), votes.kept)
    return Refit(learned(base, log, votes, **options), log.n_records, votes.until, (note,), votes.kept)


def updated(base: NashEval, log: Feedback, votes: Votes, **options: Any) -> NashEval:
    """Return the model that serves with more votes, in seconds (`NashEval.update`)."""
    if base.stage1_.encoder.texts and not votes.kept:
        raise InputError(
            "An update embeds the prompts of new votes, and this store has only their hashes; start the service with ",
            *(Argument("keep_prompts", True), ", or refit without ", Argument("update"), "."),
        )
    base.verbose = False
    return base.update(log, **options)


def learned(base: NashEval, log: Feedback, votes: Votes, **options: Any) -> NashEval:
    """Return what is learned from all votes, in the way the model that serves was: a full fit."""
    without = [agent for agent in base.agents_ if agent not in log.agents]
    if without:
        raise InputError(
            f"{few(without, 8)} had no vote yet, and would be lost; collect more votes, whose menus include every "
            "agent, before learning again."
        )
    settings = base.get_params() | {"propensity": "auto", "verbose": False} | options
    settings["costs"] = _costs(settings["costs"], base, log)
    model = NashEval(**settings | {"text_encoder": _remembering(base, votes)})
    return model.fit(log).set_params(text_encoder=base.text_encoder)


def _costs(costs: Any, base: NashEval, log: Feedback) -> Any:
    if costs is None or isinstance(costs, Mapping):
        new = [] if costs is None else [agent for agent in log.agents if agent not in costs]
        if new:
            raise InputError(f"{new[0]!r} is a new agent without a cost; fit a model with ", Argument("costs"), ".")
        return costs
    named = dict(zip(base.agents_, np.asarray(costs, float).tolist(), strict=True))
    return _costs(named, base, log)


def _remembering(base: NashEval, votes: Votes) -> Any:
    """Return what embeds the texts of the votes, of which there may be hashes only."""
    encoder = base.stage1_.encoder.text_encoder
    if encoder is None or votes.kept:
        return base.text_encoder
    if encoder.cut is not None:
        raise InputError(
            "Vectors of texts are cut by PCA in this model, which takes the texts themselves to fit again; start the "
            "service with ",
            *(Argument("keep_prompts", True), ", or fit without ", Argument("text_dim"), "."),
        )
    known, vectors = _known(votes)
    plain = {field.name: getattr(encoder, field.name) for field in fields(TextEncoder)}
    return RememberedTexts(**plain, known=known, vectors=vectors)


def _known(votes: Votes) -> tuple[dict[str, int], Floats]:
    names = [*votes.vectors]
    vectors = np.stack([votes.vectors[name] for name in names]) if names else np.zeros((0, 0), np.float32)
    return {name: place for place, name in enumerate(names)}, vectors


def _older(votes: Votes, holdout: float) -> Votes:
    """Return all but the newest votes."""
    count = int(len(votes) * (1 - holdout))
    numbers = votes.numbers
    until = int(numbers[count - 1]) if count else 0
    return Votes(votes.table.slice(0, count), until, votes.vectors, votes.texts, votes.kept, numbers[:count])


def log_of(votes: Votes, model: NashEval, use: Use) -> tuple[Feedback, str]:
    """Return votes as a log with the columns of a model, and why these votes."""
    if not len(votes):
        raise InputError("There are no votes in this store yet.")
    table, note = votes.used(use)
    encoder = model.stage1_.encoder
    there = [column.name for column in encoder.columns if column.name in table.column_names]
    roles: dict[str, Any] = {
        role: f"{MARK}{name}" for role, name in ROLES.items() if f"{MARK}{name}" in table.column_names
    }
    if not table[roles["voter"]].is_valid().to_numpy().any():
        roles.pop("voter")
    for name in encoder.names:
        if name not in table.column_names:
            raise InputError(f"No vote has a value of {name!r}, a column of the model; send it with each context.")
    categorical = [column.name for column in encoder.columns if column.kind == "categorical" and column.name in there]
    text = encoder.texts or None
    return read_partitions(table, context=there, text=text, categorical=categorical, design="draws", **roles), note


def gate(
    versions: Versions, new: Version, *, use: Use = "auto", text_encoder: str = "", **options: Any
) -> tuple[Promotion, str]:
    """Say whether a version may serve in place of the one that does, by the votes that neither was fitted on.

    Args:
        options: gain, confidence, planned and voters of `nasheval.promote`.
    """
    name = versions.current()
    if name is None:
        raise InputError("No model is served from this store yet; start `nasheval serve model/` first.")
    if name == new.name:
        raise InputError(f"Version {name} serves already.")
    old = versions[name]
    votes = votes_of(versions.engine, after=max(old.votes_until, new.votes_until))
    if not len(votes):
        raise InputError("There are no votes since this version was fitted; collect some, or refit with --holdout 0.2.")
    fallback = load(new.folder, text_encoder=text_encoder or None)
    embed = _lookup(fallback, votes) if not votes.kept else (text_encoder or None)
    models = [load(version.folder, text_encoder=embed) for version in (old, new)]
    log, note = log_of(votes, models[1], use)
    fitted = models[1]
    how: dict[str, Any] = {name: getattr(fitted, name) for name in ("outcome", "aggregator", "folds")} | options
    jobs = fitted.n_jobs or os.cpu_count() or 1
    found = promote(models[0], models[1], log, encoder=fitted.stage1_.encoder, n_jobs=jobs, verbose=False, **how)
    return found, note


def _lookup(model: NashEval, votes: Votes) -> Any:
    """Return a function that embeds texts, or hashes of those that were not kept."""
    encoder = model.stage1_.encoder.text_encoder
    if encoder is None:
        return None
    plain = TextEncoder(encoder.model, encoder.dim)

    def embed(texts: list[str]) -> Array:
        return np.stack([votes.vectors[one] if one in votes.vectors else plain.encode([one])[0] for one in texts])

    return embed


def saved(versions: Versions, made: Refit, path: str | Path, *, overwrite: bool = False) -> Version:
    """Save what was learned, with its prompts where the store has kept them, as a version that does not serve yet."""
    made.model.save(path, overwrite=overwrite, keep_text=made.kept and not made.model.stage1_.hidden_texts)
    return versions.add(path, origin="refit", votes_until=made.until, note=f"fitted on {made.votes:,} votes")

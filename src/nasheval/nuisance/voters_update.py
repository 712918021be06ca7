"""Latent voters who meet new agents: what they think of the others stays, and the newcomers' utilities are learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.feedback.growing import Fitted
from nasheval.feedback.log import Feedback
from nasheval.feedback.menus import PARTIAL
from nasheval.nuisance.learners import Features
from nasheval.nuisance.meeting import Meeting
from nasheval.nuisance.newcomers import Ground, Newcomers, learn_newcomers
from nasheval.nuisance.training import last_hidden
from nasheval.nuisance.voters import VoterModels
from nasheval.nuisance.voters_network import GAIN
from nasheval.nuisance.voters_probes import probes_of
from nasheval.nuisance.voters_records import questions_of, stop_shares, tables_of, tie_start

_NEVER = -1e3  # log weights below it are of answers that were never given


def updated_voters(models: VoterModels, log: Feedback, X: Features, fold: Ints, last: Fitted) -> VoterModels:
    """Return the populations of all folds with utilities for the agents that are new in a log.

    What they think of the agents they know does not change.

    Args:
        models: fitted to an earlier part of the log, whose agents come first.
        log: all of it.
        X: its contexts, encoded.
        fold: (n_contexts,); a fold's models have seen no context of it.
        last: the last full fit; agents that an earlier update added are learned anew, from all their votes.
    """
    models = _asked_anew(_of_first(models, last.agents), log, fold)
    meeting = Meeting.of(log.whole, last)
    if not meeting.count:
        return replace(models, menus=log.menus, probes=probes_of(log, list(models.questions)))
    folds, members = models.parameters["pooled"].shape[:2]
    ground, centre = _ground(models, X, meeting)
    tables = [table for table in tables_of(meeting.log, list(models.questions)) if len(table.weight)]
    learned = learn_newcomers(ground, tables, meeting.count, *meeting.masks(fold, folds, members))
    parameters = _grown(models, learned, centre)
    shape = replace(models.shape, agents=log.n_agents)
    probes = probes_of(log, list(models.questions))
    return replace(models, menus=log.menus, probes=probes, shape=shape, parameters=parameters)


def _of_first(models: VoterModels, known: int) -> VoterModels:
    """Return the models as if the first agents were all."""
    K, V = models.shape.agents, models.shape.voters
    if known == K:
        return models
    p = models.parameters
    own, shared, lean = np.split(p["head"], [K * V, K * V + K], axis=-1)
    head = np.concatenate([own[..., : known * V], shared[..., :known], lean], axis=-1)
    first = {"head": head, "taste": p["taste"][..., :known, :], "pooled": p["pooled"][..., :known]}
    first = {name: np.ascontiguousarray(values) for name, values in first.items()}
    return replace(models, parameters=p | first, shape=replace(models.shape, agents=known))


def _ground(models: VoterModels, X: Features, meeting: Meeting) -> tuple[Ground, Floats]:
    """Return what the voters say where newcomers were compared, and (T, width) the centre of their features."""
    stack = models.stack
    V, K = models.shape.voters, models.shape.agents

    def asked(contexts: Ints) -> tuple[Floats, Floats, Floats]:
        x = np.ascontiguousarray(X.network[contexts], np.float32)
        u, lean = stack.forward(x)
        width = stack.head.shape[1]
        phi = last_hidden(x[None], stack.layers) * np.float32(GAIN)
        return u.reshape(-1, len(x), V, K), lean, np.broadcast_to(phi, (len(stack.head), len(x), width))

    elsewhere, _, features = asked(meeting.elsewhere)
    centre = features.mean(axis=1, dtype=np.float64)
    size = ((features - centre[:, None]) ** 2).sum(axis=2).mean(axis=1)
    u, lean, phi = asked(meeting.contexts)
    log_weight = np.log(np.maximum(stack.weight, 1e-30))
    return Ground(u, elsewhere, log_weight, phi - centre[:, None], size, stack.tie, lean), centre


def _grown(models: VoterModels, learned: Newcomers, centre: Floats) -> dict[str, Floats]:
    """Return the parameters of the networks with outputs for the newcomers too."""
    p, (folds, members) = models.parameters, models.parameters["pooled"].shape[:2]
    K, V, T = models.shape.agents, models.shape.voters, folds * members
    N = learned.intercept.shape[1]
    width, share = models.shape.hidden[-1], learned.share
    pooled, taste = p["pooled"].reshape(T, K), p["taste"].reshape(T, K, V)
    own, shared, lean = np.split(p["head"].reshape(T, width, -1), [K * V, K * V + K], axis=-1)
    own = own.reshape(T, width, K, V)
    level = learned.intercept - np.einsum("tnq,tq->tn", learned.slope, centre)
    new = {
        "pooled": np.einsum("tnk,tk->tn", share, pooled) + level,
        "taste": np.einsum("tnk,tkv->tnv", share, taste),
        "own": np.einsum("tnk,twkv->twnv", share, own),
        "shared": np.einsum("tnk,twk->twn", share, shared) + learned.slope.transpose(0, 2, 1),
    }
    grown = [
        np.concatenate([own, new["own"]], axis=2).reshape(T, width, (K + N) * V),
        np.concatenate([shared, new["shared"]], axis=2),
        lean,
    ]
    changed = {
        "head": np.concatenate(grown, axis=2),
        "pooled": np.concatenate([pooled, new["pooled"]], axis=1),
        "taste": np.concatenate([taste, new["taste"]], axis=1),
    }
    by_fold = {name: values.reshape(folds, members, *values.shape[1:]) for name, values in changed.items()}
    return p | {name: np.ascontiguousarray(values, np.float32) for name, values in by_fold.items()}


def _asked_anew(models: VoterModels, log: Feedback, fold: Ints) -> VoterModels:
    """Return the models with the questions of the whole log: new kinds of answers get tie weights and stops."""
    questions = questions_of(log.whole)
    same = tuple(questions) == models.questions
    if same and all(question.form != PARTIAL for question in questions):
        return models
    folds, members = models.parameters["pooled"].shape[:2]
    seen = np.arange(folds)[:, None] != fold[None, :]
    tables = tables_of(log.whole, questions)
    stops = stop_shares(tables, questions, seen)
    tie = np.repeat(tie_start(tables, questions, seen)[:, None], members, axis=1)
    before = {(q.size, q.form): q for q in models.questions}
    for question in questions:
        old = before.get((question.size, question.form))
        if old is not None and old.kind == question.kind:
            count = min(old.n_tie, question.n_tie)
            kept = models.parameters["tie"][..., old.tie : old.tie + count]
            place = slice(question.tie, question.tie + count)
            tie[..., place] = np.where(kept > _NEVER, kept, tie[..., place])
    parameters = models.parameters | {"tie": np.ascontiguousarray(tie, np.float32)}
    shape = replace(models.shape, ties=tie.shape[-1])
    return replace(models, questions=tuple(questions), stops=stops, parameters=parameters, shape=shape)

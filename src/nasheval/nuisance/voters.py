"""`Voters`, the outcome model of FINDINGS 3: a population of latent voters, each with transitive utilities.

Voter v gives agent j the utility u_v(x, j); the margin of a question is the mean over voters of what that voter would
answer, so it is antisymmetric, can cycle, and every form of feedback speaks through one likelihood
(`voters_likelihood`). All folds are trained as one batched model (`voters_train`). A model starts at the pooled
utilities, and stays there unless contexts that it did not learn from say otherwise.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.errors import InputError
from nasheval.feedback.base import Log
from nasheval.feedback.menus import MenuCatalogue
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.voters_margins import margins
from nasheval.nuisance.voters_network import Shape, forward_one
from nasheval.nuisance.voters_records import (
    Kind,
    Question,
    pooled_utilities,
    questions_of,
    stop_shares,
    tables_of,
    tie_start,
)
from nasheval.nuisance.voters_train import Data, Schedule, Task, Trained, context_mass, train

_CELLS = 1 << 22  # predictions held at a time


@dataclass(frozen=True)
class Voters:
    """Learns mu^m_jk as the mean answer of a few latent voters.

    Args:
        voters: number of latent voters.
        hidden: widths of the network's hidden layers.
        epochs: passes over the contexts; the best one on a tenth of them is kept.
        batch: contexts a step.
        rate: highest learning rate.
        weight_decay: how fast weights shrink toward the pooled model.
        dropout: share of the last hidden layer that is dropped.
        context_weights: whether the shares of the voters depend on the context.
    """

    voters: int = 6
    hidden: tuple[int, ...] = (256, 256)
    epochs: int = 30
    batch: int = 512
    rate: float = 8e-3
    weight_decay: float = 0.02
    dropout: float = 0.0
    context_weights: bool = False

    def __post_init__(self) -> None:
        for name in ("voters", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; accepted is a whole number of 1 or more.")

    def fit(self, log: Log, X: Features, train: Bools, effort: Effort) -> VoterModels:
        """Fit one population for each training set; see `Learner.fit`."""
        questions = questions_of(log)
        data = Data(np.ascontiguousarray(X.network, np.float32), tables_of(log, questions), questions)
        asked = context_mass(data.tables, log.n_contexts) > 0
        tasks = self._tasks(log, data, train & asked, effort.seed)
        ties = max((question.tie + question.n_tie for question in questions), default=0)
        shape = Shape(data.x.shape[1], log.n_agents, self.voters, self.hidden, ties, self.context_weights)
        trained = _trained(data, tasks, shape, self._schedule(effort), effort)
        stops = stop_shares(data.tables, questions, train & asked)
        return VoterModels(
            log.menus, tuple(questions), shape, trained.parameters, stops, trained.loss, trained.pooled_loss
        )

    def _schedule(self, effort: Effort) -> Schedule:
        threads = 1 if effort.n_jobs == 1 else (os.cpu_count() or 1)
        return Schedule(self.epochs, self.batch, self.rate, effort.device, threads)

    def _tasks(self, log: Log, data: Data, train: Bools, seed: int) -> list[Task]:
        """Return one task a training set, a tenth of whose contexts choose the best epoch."""
        splits = [_split(np.flatnonzero(rows), seed, fold) for fold, rows in enumerate(train)]
        seen = np.zeros(train.shape, bool)
        for fold, (fit, _) in enumerate(splits):
            seen[fold, fit] = True
        pooled, (tie, _) = pooled_utilities(log, seen), tie_start(data.tables, data.questions, seen)
        settings = self.voters, self.weight_decay, self.dropout
        return [
            Task(fit, check, pooled[fold], tie[fold], *settings, seed=(seed, 2, fold), group=fold)
            for fold, (fit, check) in enumerate(splits)
        ]


def _split(contexts: Ints, seed: int, fold: int) -> tuple[Ints, Ints]:
    order = np.random.default_rng((seed, 1, fold)).permutation(contexts)
    cut = max(len(order) // 10, min(len(order), 1))
    return order[cut:], order[:cut]


def _trained(data: Data, tasks: list[Task], shape: Shape, schedule: Schedule, effort: Effort) -> Trained:
    return train(data, tasks, shape, schedule, effort.advance)


@dataclass(frozen=True, eq=False)
class VoterModels:
    """Fitted populations, one a fold.

    Args:
        menus: the catalogue whose columns are predicted.
        questions: the kinds of question in it.
        shape: of the network.
        parameters: each (folds, ...).
        stops: (folds, questions, places) how often voters stop ranking, for questions that let them.
        held_out_loss: (folds,) mean negative log likelihood at held-out contexts.
        pooled_loss: (folds,) the same of the pooled model.
    """

    menus: MenuCatalogue
    questions: tuple[Question, ...]
    shape: Shape
    parameters: dict[str, Floats]
    stops: Floats
    held_out_loss: Floats
    pooled_loss: Floats

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, P) mu^m_jk, one column for each pair of each menu."""
        x = np.ascontiguousarray(X.network, np.float32)
        found = np.zeros((len(x), len(self.menus.columns)))
        step = max(1, _CELLS // max(1, found.shape[1]))
        for start in range(0, len(x), step):
            rows = slice(start, start + step)
            for number, question in enumerate(self.questions):
                columns, answers = self._answers(x[rows], fold, number, question)
                found[rows, columns] = answers
        return np.clip(found, -1.0, 1.0)

    def _answers(self, x: Floats, fold: int, number: int, question: Question) -> tuple[Ints, Floats]:
        """Return the columns of one kind of question and (n, columns) the voters' mean answers."""
        p = {name: values[fold] for name, values in self.parameters.items()}
        u, weight, lean = forward_one(p, x, self.shape)
        asked = np.flatnonzero((self.menus.sizes == question.size) & (self.menus.form == question.form))
        agents = self.menus.agent[self.menus.offsets[asked][:, None] + np.arange(question.size)].T
        n_pairs = question.size * (question.size - 1) // 2
        total: Floats = np.zeros((n_pairs, len(asked), len(x)))
        for voter in range(self.shape.voters):
            ties = _ties(p, question, lean + p["lean"][voter], len(x))
            total = total + weight[voter] * margins(question, u[voter][agents], ties, self.stops[fold, number])
        columns = (self.menus.columns.offsets[asked][:, None] + np.arange(n_pairs)).T.ravel()
        return columns, total.reshape(-1, len(x)).T


def _ties(p: dict[str, Floats], question: Question, lean: Floats, n: int) -> Floats:
    ties = p["tie"][question.tie : question.tie + question.n_tie, None, None] + np.zeros((1, 1, n), np.float32)
    if question.n_tie:
        ties[: 1 if question.kind == Kind.DUEL else None] += lean
    return np.asarray(ties)

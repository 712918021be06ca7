"""The contexts at which new agents were compared, and what fitted models are asked there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Ints
from nasheval.feedback.growing import Fitted
from nasheval.feedback.log import Feedback

_MOST = 40_000  # contexts that newcomers are learned at; more call for a full refit
_ELSEWHERE = 512  # contexts of the whole log that tell how known agents differ


@dataclass(frozen=True, eq=False)
class Meeting:
    """Where agents numbered from `known` on were compared.

    Args:
        log: the contexts with a record on a newcomer, those records alone.
        contexts: (n,) which contexts of the whole log they are.
        elsewhere: (m,) contexts of the last full fit, at random.
        known: agents that were fitted before.
        count: newcomers.
    """

    log: Feedback
    contexts: Ints
    elsewhere: Ints
    known: int
    count: int

    @staticmethod
    def of(whole: Feedback, known: Fitted, seed: int = 0) -> Meeting:
        """Return that of a log that has grown since the last full fit."""
        rng, records = np.random.default_rng(seed), whole.records
        starts = records.offsets[:-1]
        new = np.logical_or.reduceat(records.agent >= known.agents, starts) if len(records) else np.zeros(0, bool)
        contexts = np.unique(whole.context_of[new])
        if len(contexts) > _MOST:
            contexts = np.sort(rng.choice(contexts, _MOST, replace=False))
        there = whole.keep_records(new)[contexts]
        elsewhere = np.sort(rng.permutation(known.contexts)[:_ELSEWHERE])
        return Meeting(there, contexts.astype(np.int64), elsewhere, known.agents, whole.n_agents - known.agents)

    def masks(self, fold: Ints, folds: int, members: int = 1) -> tuple[Bools, Bools]:
        """Return (folds members, n) which contexts each model may learn from, and which it has never seen."""
        held = np.repeat(np.arange(folds)[:, None] == fold[self.contexts], members, axis=0)
        return ~held, held

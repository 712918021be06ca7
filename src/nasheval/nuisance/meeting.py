"""The contexts at which new agents were compared, and what fitted models are asked there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Ints
from nasheval.feedback.log import Feedback

_MOST = 40_000  # contexts that newcomers are learned at; more call for a full refit
_ELSEWHERE = 512  # contexts of the whole log that tell how known agents differ


@dataclass(frozen=True, eq=False)
class Meeting:
    """Where agents numbered from `known` on were compared.

    Args:
        log: the contexts with a record on a newcomer, those records alone.
        contexts: (n,) which contexts of the whole log they are.
        elsewhere: (m,) contexts spread over the whole log.
        known: agents that were fitted before.
        count: newcomers.
    """

    log: Feedback
    contexts: Ints
    elsewhere: Ints
    known: int
    count: int

    @staticmethod
    def of(whole: Feedback, known: int, seed: int = 0) -> Meeting:
        """Return that of a log whose agents from number `known` on are new."""
        rng, records = np.random.default_rng(seed), whole.records
        starts = records.offsets[:-1]
        new = np.logical_or.reduceat(records.agent >= known, starts) if len(records) else np.zeros(0, bool)
        contexts = np.unique(whole.context_of[new])
        if len(contexts) > _MOST:
            contexts = np.sort(rng.choice(contexts, _MOST, replace=False))
        there = whole.keep_records(new)[contexts]
        elsewhere = np.sort(rng.permutation(whole.n_contexts)[:_ELSEWHERE])
        return Meeting(there, contexts.astype(np.int64), elsewhere, known, whole.n_agents - known)

    def masks(self, fold: Ints, folds: int, members: int = 1) -> tuple[Bools, Bools]:
        """Return (folds members, n) which contexts each model may learn from, and which it has never seen."""
        held = np.repeat(np.arange(folds)[:, None] == fold[self.contexts], members, axis=0)
        return ~held, held

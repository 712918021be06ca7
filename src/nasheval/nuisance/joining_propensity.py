"""Propensities of a log that grew under inclusion: menus with a newcomer share what tells where newcomers were asked.

A newcomer's menus are rare: each is in the log a few dozen times, too few for a model of its own. But all of them are
asked in the same new votes. So

    e^m(x) = P(some menu with a newcomer is asked | x) share(m | some is asked),

the first factor by whichever of several models foretells it best out of fold (`BestPropensity` on a log of two menus),
shares unless another is clearly better. Menus of known agents keep a model each, by the learner given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Floats, Ints, bin_sums
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance.choice import BestPropensity, ChosenModels
from nasheval.nuisance.learners import Effort, Features, FoldModels, Learner

_SMALLEST = 1e-6


@dataclass(frozen=True)
class Joining:
    """Propensities under inclusion where agents from number `known` on are new.

    Args:
        learner: of menus of known agents.
        known: their number.
    """

    learner: Learner
    known: int

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> FoldModels:
        """Fit a model per menu of known agents, and one for all menus with a newcomer; see `Learner.fit`."""
        menus = log.menus
        new = np.maximum.reduceat(menus.agent, menus.offsets[:-1]) >= self.known
        if not new.any() or not X.trees.shape[1]:
            return self.learner.fit(log, X, train, effort)
        records, weight = log.records, log.records.weights
        asked = new[menus.of_record]
        there = np.bincount(log.context_of[asked], minlength=log.n_contexts) > 0
        chosen = BestPropensity().fit(_as_draws(log, there), X, train, effort.share(0.2))
        share = np.zeros((len(train), len(menus)))
        for fold, seen in enumerate(train):
            mine = asked & seen[log.context_of]
            count = bin_sums(menus.of_record[mine], weight[mine], len(menus))
            half = 0.5 * min(1.0, float(records.weights.mean()))
            share[fold, new] = (count[new] + half) / (int((seen & there).sum()) + 1.0)
        rest = log.keep_records(~asked)
        known = np.flatnonzero(~new)
        own = self.learner.fit(rest, X, train, effort.share(0.8)) if len(known) else None
        return JoiningModels(own, known, chosen, share)


def _as_draws(log: Feedback, there: Bools) -> Feedback:
    """Return a log of one record per context, on one menu where newcomers were asked and on another elsewhere."""
    n = log.n_contexts
    agent = np.stack([np.zeros(n, np.int64), np.where(there, 2, 1)], axis=1).ravel()
    records = Records.build(sizes=np.full(n, 2), agent=agent, rank=np.tile([0, 1], n))
    voters, voter = (log.voters, log.sole_voters) if len(log.sole_voters) else (None, None)
    records = records.replace(voter=voter)
    return Feedback.from_records(
        records, agents=("any", "known", "new"), contexts=log.contexts if log.contexts.num_columns else pa.table({}),
        context_of=np.arange(n), voters=voters, design="draws",
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class JoiningModels:
    """Fitted propensities.

    Args:
        own: of the menus of known agents; None where there is none.
        known: which menus they are.
        chosen: whether a newcomer is asked, two columns: not, and asked.
        share: (folds, M) of the menus with a newcomer where some is asked; 0 for the others.
    """

    own: FoldModels | None
    known: Ints
    chosen: ChosenModels
    share: Floats

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) propensities; see `FoldModels.predict`."""
        asked = np.maximum(self.chosen.predict(X, fold)[:, -1:], _SMALLEST)
        values = asked * self.share[fold]
        if self.own is not None:
            values[:, self.known] = self.own.predict(X, fold)
        return np.minimum(values, 1.0)

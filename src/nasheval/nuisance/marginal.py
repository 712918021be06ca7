"""Propensities that are shares of the menus, whatever the context."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort, Features, records_of


@dataclass(frozen=True)
class Marginal:
    """The share of each menu, whatever the context.

    Under draws a share of records, which sum to one; under inclusion the share of contexts that include the menu.
    """

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> MarginalModels:
        """Count the menus on each training set; see `Learner.fit`."""
        shares = np.stack([menu_shares(log, seen) for seen in train])
        effort.advance(1.0)
        return MarginalModels(readonly(shares))


@dataclass(frozen=True)
class MarginalModels:
    """Shares of the menus.

    Args:
        shares: (folds, M) e^m.
    """

    shares: Floats

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) the shares, the same for each context."""
        return np.tile(self.shares[fold], (len(X), 1))


def _asked(log: Feedback, seen: Bools) -> tuple[Ints, Ints, Floats]:
    """Return context, menu and weight of what was asked: each record, or each inclusion once."""
    records = records_of(log, seen)
    context, menu, weight = log.context_of[records], log.menus.of_record[records], log.records.weights[records]
    if log.design == "draws":
        return context, menu, weight
    once = np.unique(context.astype(np.int64) * len(log.menus) + menu)
    return once // len(log.menus), once % len(log.menus), np.ones(len(once))


def menu_shares(log: Feedback, seen: Bools) -> Floats:
    """Return (M,) the smoothed share of each menu over some contexts; under draws they sum to one.

    Each menu is given half a context more; under draws half a record (`half_record`).
    """
    _, menu, weight = _asked(log, seen)
    count = np.bincount(menu, weight, len(log.menus)) + (half_record(log) if log.design == "draws" else 0.5)
    return count / (count.sum() if log.design == "draws" else int(seen.sum()) + 1.0)


def half_record(log: Feedback) -> float:
    """Return half a record's weight, that of a light record where records share one vote.

    Half a voter's records where voters are held out whole and may share one menu.
    """
    whole = log.n_contexts / max(1, len(np.unique(log.units)))
    usual = float(log.records.weights.mean()) if log.n_records else 1.0
    return 0.5 * whole * min(1.0, usual)


def raw_shares(log: Feedback) -> Floats:
    """Return (M,) the share of records that ask each menu, by weight; under inclusion of contexts that include it."""
    _, menu, weight = _asked(log, np.ones(log.n_contexts, bool))
    total = weight.sum() if log.design == "draws" else log.n_contexts
    return np.bincount(menu, weight, len(log.menus)) / max(total, 1e-300)

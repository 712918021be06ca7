"""Propensities that are shares of the menus, overall or by stratum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort, Features, records_of

_MOST_STRATA = 1000


@dataclass(frozen=True)
class Marginal:
    """The share of each menu, overall or by stratum of the context.

    Under draws a share of records, which sum to one; under inclusion the share of contexts that include the menu. The
    share in a stratum is shrunken to the overall share, and a stratum never seen has the overall share.

    Args:
        by: context columns that make the strata, by name or by their number in `Features.trees`; None: no strata.
        prior: how many records (or contexts) the overall share is worth in a stratum.
    """

    by: str | int | Iterable[str | int] | None = None
    prior: float = 20.0

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> MarginalModels:
        """Count the menus on each training set; see `Learner.fit`."""
        columns = _column_numbers(self.by, X)
        levels, stratum = _strata(X, columns)
        if len(levels) > _MOST_STRATA:
            raise InputError(
                f"by={self.by!r} makes {len(levels):,} strata; accepted are at most {_MOST_STRATA:,}: columns of a few "
                f"categories."
            )
        shares = [self._shares(log, seen, stratum, len(levels)) for seen in train]
        effort.advance(1.0)
        return MarginalModels(columns, readonly(levels), readonly(np.stack(shares)))

    def _shares(self, log: Feedback, seen: Bools, stratum: Ints, n_strata: int) -> Floats:
        """Return (n_strata + 1, M) shares, the last row overall."""
        n_menus, overall = len(log.menus), menu_shares(log, seen)
        context, menu, weight = _asked(log, seen)
        cell = stratum[context].astype(np.int64) * n_menus + menu
        count = np.bincount(cell, weight, n_strata * n_menus)[: n_strata * n_menus].reshape(n_strata, n_menus)
        if log.design == "draws":
            total = count.sum(axis=1, keepdims=True)
        else:
            total = np.bincount(stratum[seen], minlength=n_strata)[:n_strata, None]
        return np.vstack([(count + self.prior * overall) / (total + self.prior), overall])


@dataclass(frozen=True)
class MarginalModels:
    """Shares of the menus by stratum.

    Args:
        columns: the columns of `Features.trees` that make the strata.
        levels: (S, len(columns)) their values in each stratum, -1 where missing.
        shares: (folds, S + 1, M) e^m in each stratum, the last row for strata that were never seen.
    """

    columns: tuple[int, ...]
    levels: Floats
    shares: Floats

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) the shares in each context's stratum."""
        number = {tuple(level): s for s, level in enumerate(self.levels.tolist())}
        found, place = _strata(X, self.columns)
        stratum = np.array([*(number.get(tuple(level), -1) for level in found.tolist()), -1], np.int64)
        return np.asarray(self.shares[fold][stratum[place]])


def _strata(X: Features, columns: tuple[int, ...]) -> tuple[Floats, Ints]:
    """Return (S, columns) the values that some columns take and (n,) the stratum of each context."""
    if not columns:
        return np.zeros((0, 0), np.float32), np.zeros(len(X), np.int64)
    levels, stratum = np.unique(np.nan_to_num(X.trees[:, list(columns)], nan=-1.0), axis=0, return_inverse=True)
    return levels, stratum.ravel()


def _column_numbers(by: Any, X: Features) -> tuple[int, ...]:
    wanted = () if by is None else (by,) if isinstance(by, str | int) else tuple(by)
    accepted = set(X.names) | set(range(X.trees.shape[1]))
    missing = [column for column in wanted if column not in accepted]
    if missing:
        names = ", ".join(map(repr, X.names[:20])) or f"0 to {X.trees.shape[1] - 1}"
        raise InputError(f"by names {', '.join(map(repr, missing))}; accepted are context columns: {names}.")
    return tuple(X.names.index(column) if isinstance(column, str) else column for column in wanted)


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

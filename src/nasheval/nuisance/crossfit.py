"""The one cross-fitting loop: folds of contexts, models that never saw what they predict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow.compute as pc
from scipy.sparse import csr_array, vstack

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.errors import InputError
from nasheval.feedback.arrow_columns import column_list
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import CellModels, Effort, Features, FoldModels, Learner, RecordModels
from nasheval.nuisance.marginal import raw_shares

FLOOR = 0.05  # of the share of a menu, below which estimated propensities are raised
_CELLS = 1 << 23  # predictions held at a time
_CLIP_CELLS = 1 << 20  # propensities compared with the floors at a time


def make_folds(log: Feedback, folds: int = 5, *, seed: int = 0, by: str | None = None) -> Ints:
    """Return (n_contexts,) the fold of each context, folds of about equal size.

    Args:
        by: None: contexts at random, or whole voters (`units`); "voter": contexts that share a voter stay together
            (contexts joined by common voters are one group); "time": blocks of time; a context column: equal values
            stay together.
    """
    if not 2 <= folds <= log.n_contexts:
        raise InputError(f"folds is {folds}; accepted are 2 to {log.n_contexts}, the number of contexts.")
    rng = np.random.default_rng(seed)
    if by is None and folds <= len(np.unique(log.units)) < log.n_contexts:
        by = "voter"
    if by is None:
        return readonly(rng.permutation(np.arange(log.n_contexts) % folds).astype(np.int16))
    if by == "time":
        return readonly(_time_blocks(log, folds))
    groups = _voter_groups(log) if by == "voter" else _column_groups(log, by)
    if int(groups.max()) + 1 < folds:
        raise InputError(
            f"There are {int(groups.max()) + 1} groups by {by!r}, fewer than {folds} folds; ask for fewer."
        )
    return readonly(_spread(np.bincount(groups), folds, rng)[groups].astype(np.int16))


def _time_blocks(log: Feedback, folds: int) -> Ints:
    if log.records.time is None:
        raise InputError("This log has no times; name the column when reading (time='tstamp') to fold by time.")
    first = np.full(log.n_contexts, np.inf)
    np.minimum.at(first, log.context_of, np.nan_to_num(log.records.time, nan=np.inf))
    place = np.empty(log.n_contexts, np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(log.n_contexts)
    return (place * folds // log.n_contexts).astype(np.int16)


def _column_groups(log: Feedback, column: str) -> Ints:
    if column not in log.contexts.column_names:
        raise InputError(f"There is no context column {column!r}; this log has {column_list(log.contexts)}.")
    codes = pc.dictionary_encode(pc.cast(log.contexts[column], "string").combine_chunks(), null_encoding="encode")
    return np.asarray(codes.indices)


def _voter_groups(log: Feedback) -> Ints:
    """Number the groups of contexts that common voters connect; a context without a voter is its own group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if log.records.voter is None:
        raise InputError("This log has no voters; name the column when reading (voter='judge') to fold by voter.")
    known = log.records.voter >= 0
    n_voters = 0 if log.voters is None else len(log.voters)
    rows, columns = log.context_of[known], log.n_contexts + log.records.voter[known]
    size = log.n_contexts + n_voters
    graph = coo_array((np.ones(len(rows), bool), (rows, columns)), shape=(size, size))
    label = connected_components(graph, directed=False)[1][: log.n_contexts]
    return np.unique(label, return_inverse=True)[1]


def _spread(sizes: Ints, folds: int, rng: np.random.Generator) -> Ints:
    """Give each group to the fold that is smallest so far, largest groups first, equals in random order."""
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    load, fold = np.zeros(folds), np.zeros(len(sizes), np.int64)
    for group in order:
        fold[group] = int(load.argmin())
        load[fold[group]] += sizes[group]
    return fold


@dataclass(frozen=True)
class NuisanceFit:
    """Cross-fitted nuisances: out of fold at the contexts of the log, averaged over folds anywhere else.

    Args:
        log: the log.
        X: its contexts, encoded.
        fold: (n_contexts,) the fold of each context.
        outcome_models: mu, one model a fold.
        propensity_models: e, one model a fold.
    """

    log: Feedback
    X: Features
    fold: Ints
    outcome_models: FoldModels
    propensity_models: FoldModels

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    def out_of_fold(self, models: FoldModels, width: int) -> Iterator[tuple[Ints, Floats]]:
        """Yield (contexts, (len(contexts), width) predictions) by models that saw none of them, in chunks."""
        step = max(1, _CELLS // max(width, 1))
        for fold in range(self.n_folds):
            rows = np.flatnonzero(self.fold == fold)
            for start in range(0, len(rows), step):
                chunk = rows[start : start + step]
                yield chunk, models.predict(self.X[chunk], fold)

    def outcomes(self) -> Iterator[tuple[Ints, Floats]]:
        """Yield (contexts, (len(contexts), P) mu), out of fold, columns as in `log.menus.columns`."""
        return self.out_of_fold(self.outcome_models, len(self.log.menus.columns))

    @cached_property
    def mu(self) -> Floats:
        """(n_verdicts,) out-of-fold mu^m_jk at every observed pair verdict."""
        column, context = self.log.menus.column_of_verdict, self.log.context_of[self.log.verdicts.record]
        return readonly(self._at_rows(self.outcome_models, len(self.log.menus.columns), context, column))

    @cached_property
    def raw_propensity(self) -> Floats:
        """(n_records,) out-of-fold e^m of every record, before it is raised to the floor."""
        menus, models = self.log.menus, self.propensity_models
        if isinstance(models, RecordModels):
            return readonly(models.of_records())
        return readonly(self._at_rows(models, len(menus), self.log.context_of, menus.of_record))

    @property
    def e(self) -> Floats:
        """(n_records,) out-of-fold e^m of every record; estimates are raised to the floor of their menu."""
        return np.maximum(self.raw_propensity, self.floors[self.log.menus.of_record])

    @cached_property
    def floors(self) -> Floats:
        """(M,) what smaller propensities of each menu are raised to: 0.05 times the menu's share, 0 for known ones.

        The share is that of all records, by weight; under inclusion that of the contexts which include the menu.
        """
        return readonly(np.zeros(len(self.log.menus)) if self.is_known else FLOOR * raw_shares(self.log))

    @property
    def is_known(self) -> bool:
        """Whether propensities are known, not estimated."""
        return bool(getattr(self.propensity_models, "known", False))

    @property
    def clipped_share(self) -> float:
        """Share of records whose propensity was raised to the floor."""
        raised = self.raw_propensity < self.floors[self.log.menus.of_record]
        return float(raised.mean()) if self.log.n_records else 0.0

    @cached_property
    def looked_at(self) -> Ints:
        """The contexts, spread evenly over the log, whose propensities are compared with the floors."""
        thin = max(1, -(-self.log.n_contexts * len(self.log.menus) // _CELLS))
        return readonly(np.arange(0, self.log.n_contexts, thin))

    @cached_property
    def clipped(self) -> csr_array:
        """(len(looked_at), M): 1 - e / floor where the out-of-fold e is below its floor, else 0.

        That part of the correction of a menu is missing from Gamma on average: with d the outcome model's error at the
        context, the bias is this times d.
        """
        models, shape = self.propensity_models, (len(self.looked_at), len(self.log.menus))
        if self.is_known or isinstance(models, RecordModels):
            kept: csr_array | None = getattr(models, "clipped", None)
            return csr_array(shape) if kept is None else kept
        rows, step = [], max(1, _CLIP_CELLS // max(1, shape[1]))
        for start in range(0, shape[0], step):
            contexts = self.looked_at[start : start + step]
            share = np.zeros((len(contexts), shape[1]))
            for fold in np.unique(self.fold[contexts]):
                inside = np.flatnonzero(self.fold[contexts] == fold)
                e = models.predict(self.X[contexts[inside]], int(fold))
                share[inside] = np.maximum(1 - e / self.floors, 0.0)
            rows.append(csr_array(share))
        return csr_array(vstack(rows)) if rows else csr_array(shape)

    def _at_rows(self, models: FoldModels, width: int, context: Ints, column: Ints) -> Floats:
        """Return one out-of-fold prediction for each row, given by its context (ascending) and column."""
        if isinstance(models, CellModels):
            return self._cells(models, context, column)
        starts = np.searchsorted(context, np.arange(self.log.n_contexts + 1))
        found = np.empty(len(context))
        place = np.empty(self.log.n_contexts, np.int64)
        for contexts, values in self.out_of_fold(models, width):
            place[contexts] = np.arange(len(contexts))
            sizes = starts[contexts + 1] - starts[contexts]
            rows = np.repeat(starts[contexts] - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
            found[rows] = values[place[context[rows]], column[rows]]
        return found

    def _cells(self, models: CellModels, context: Ints, column: Ints) -> Floats:
        found, fold = np.empty(len(context)), self.fold[context]
        for number in range(self.n_folds):
            rows = np.flatnonzero(fold == number)
            found[rows] = models.cells(self.X, number, context[rows], column[rows])
        return found

    def predict_outcomes(self, X: Features) -> Floats:
        """Return (n, P) outcome regressions at any contexts, averaged over the folds' models."""
        return _average(self.outcome_models, X, self.n_folds)

    def predict_propensities(self, X: Features) -> Floats:
        """Return (n, M) propensities at any contexts, averaged over the folds' models."""
        return _average(self.propensity_models, X, self.n_folds)


def _average(models: FoldModels, X: Features, folds: int) -> Floats:
    total = models.predict(X, 0).astype(np.float64)
    for fold in range(1, folds):
        total += models.predict(X, fold)
    return np.asarray(total / folds)


def crossfit(
    log: Feedback,
    X: Features,
    *,
    outcome: Learner,
    propensity: Learner,
    fold: Ints,
    effort: Effort | None = None,
) -> NuisanceFit:
    """Fit both nuisances on all folds but one, for each fold in turn.

    Args:
        fold: (n_contexts,) the fold of each context, from `make_folds`.
    """
    train: Bools = np.arange(int(fold.max()) + 1)[:, None] != fold[None, :]
    half = (effort or Effort()).share(0.5)
    return NuisanceFit(log, X, fold, outcome.fit(log, X, train, half), propensity.fit(log, X, train, half))

"""The one cross-fitting loop: folds of contexts, models that never saw what they predict."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, vstack

from nasheval.arrays import Bools, Floats, Ints, is_whole, readonly
from nasheval.errors import Argument, InputError
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import CellModels, Effort, Features, FoldModels, Learner, RecordModels, run_all
from nasheval.nuisance.strata import raw_shares

FLOOR = 0.05  # of the share of a menu, below which estimated propensities are raised
_CELLS = 1 << 23  # predictions held at a time
_CLIP_CELLS = 1 << 20  # propensities compared with the floors at a time
_BLOCK = 1 << 17  # single predictions that one thread makes at a time


def make_folds(log: Feedback, folds: int = 5, *, seed: int = 0) -> Ints:
    """Return (n_contexts,) the fold of each context, folds of about equal size.

    Contexts are spread at random, or whole voters where voters have several contexts (`units`).
    """
    if log.n_contexts < 2:
        raise InputError(f"Contexts of this log: {log.n_contexts}; cross-fitting needs at least 2, better hundreds.")
    if not is_whole(folds, 2, log.n_contexts):
        raise InputError(Argument("folds", folds), f": accepted are 2 to {log.n_contexts}, the number of contexts.")
    rng = np.random.default_rng(seed)
    _, first, place = np.unique(log.units, return_index=True, return_inverse=True)
    if folds <= len(first) < log.n_contexts:
        unit = np.argsort(np.argsort(first))[place]  # numbered as they appear
        return readonly(_spread(np.bincount(unit), folds, rng)[unit].astype(np.int16))
    return readonly(rng.permutation(np.arange(log.n_contexts) % folds).astype(np.int16))


def continued_folds(log: Feedback, before: Ints, folds: int, *, seed: int = 0) -> Ints:
    """Return (n_contexts,) folds of a log that has grown: its first contexts keep theirs.

    A voter who is held out whole stays in one fold. Units that are new are dealt over the folds as they appear, so
    that it does not matter in how many parts they came.

    Args:
        before: (m,) the folds of the first m contexts.
        folds: number of folds.
    """
    _, first, place = np.unique(log.units, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))  # of each unit, as they appear
    rounds = np.random.default_rng((seed, 3)).random((-(-len(first) // folds), folds)).argsort(axis=1)
    fold = rounds.ravel()[number]
    known = first < len(before)
    fold[known] = before[first[known]]
    return readonly(np.concatenate([before, fold[place[len(before) :]]]).astype(np.int16))


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
    """Cross-fitted nuisances, out of fold at the contexts of the log.

    Args:
        log: the log.
        X: its contexts, encoded.
        fold: (n_contexts,) the fold of each context.
        outcome_models: mu, one model per fold.
        propensity_models: e, one model per fold.
        n_jobs: threads that predict them at the log's records.
    """

    log: Feedback
    X: Features
    fold: Ints
    outcome_models: FoldModels
    propensity_models: FoldModels
    n_jobs: int = 1

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    def out_of_fold(
        self, models: FoldModels, width: int, contexts: Ints | None = None, most: int = _CELLS
    ) -> Iterator[tuple[Ints, Floats]]:
        """Yield (places among some contexts, (n, width) predictions there by models that saw none of them), in chunks.

        Args:
            contexts: which; None: all.
            most: predictions held at a time.
        """
        contexts = np.arange(self.log.n_contexts) if contexts is None else contexts
        step = max(1, most // max(width, 1))
        for fold in range(self.n_folds):
            rows = np.flatnonzero(self.fold[contexts] == fold)
            for start in range(0, len(rows), step):
                chunk = rows[start : start + step]
                yield chunk, models.predict(self.X[contexts[chunk]], fold)

    def outcomes(self) -> Iterator[tuple[Ints, Floats]]:
        """Yield (contexts, (len(contexts), P) mu), out of fold, columns as in `log.menus.columns`."""
        return self.out_of_fold(self.outcome_models, len(self.log.menus.columns))

    @cached_property
    def mu(self) -> Floats:
        """(n_verdicts,) out-of-fold mu^m_jk at every observed pair verdict."""
        column, context = self.log.menus.column_of_verdict, self.log.context_of[self.log.verdicts.record]
        return readonly(self._at(self.outcome_models, len(self.log.menus.columns), context, column))

    @cached_property
    def raw_propensity(self) -> Floats:
        """(n_records,) out-of-fold e^m of every record, before it is raised to the floor."""
        menus, models = self.log.menus, self.propensity_models
        if isinstance(models, RecordModels):
            return readonly(models.of_records())
        return readonly(self._at(models, len(menus), self.log.context_of, menus.of_record))

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
        rows: list[Ints] = [np.zeros(0, np.int64)]
        shares = [csr_array((0, shape[1]))]
        for places, e in self.out_of_fold(models, shape[1], self.looked_at, _CLIP_CELLS):
            rows.append(places)
            shares.append(csr_array(np.maximum(1 - e / self.floors, 0.0)))
        return csr_array(csr_array(vstack(shares))[np.argsort(np.concatenate(rows))])

    def _at(self, models: FoldModels, width: int, context: Ints, column: Ints) -> Floats:
        """Return (cells,) out-of-fold predictions at contexts context[i] and columns column[i]."""
        values, fold = np.empty(len(context)), self.fold[context]
        if isinstance(models, CellModels):

            def predict(rows: Ints) -> None:
                values[rows] = models.cells(self.X, int(fold[rows[0]]), context[rows], column[rows])

            blocks = [rows for number in range(self.n_folds) for rows in _blocks(np.flatnonzero(fold == number))]
            run_all(predict, blocks, max(1, len(blocks)), Effort(n_jobs=self.n_jobs))
            return values
        for contexts, predicted in self.out_of_fold(models, width):
            place = np.full(self.log.n_contexts, -1)
            place[contexts] = np.arange(len(contexts))
            rows = np.flatnonzero(place[context] >= 0)
            values[rows] = predicted[place[context[rows]], column[rows]]
        return values


def _blocks(rows: Ints) -> list[Ints]:
    """Return rows in blocks of so many as one thread predicts at a time."""
    return [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]


def crossfit(
    log: Feedback, X: Features, *, outcome: Learner, propensity: Learner, fold: Ints, effort: Effort | None = None
) -> NuisanceFit:
    """Fit both nuisances on all folds but one, for each fold in turn.

    Args:
        fold: (n_contexts,) the fold of each context, from `make_folds`.
    """
    train: Bools = np.arange(int(fold.max()) + 1)[:, None] != fold[None, :]
    half = (effort or Effort()).share(0.5)
    if half.device == "cpu":
        models = outcome.fit(log, X, train, half), propensity.fit(log, X, train, half)
    else:  # the processor learns propensities while the device trains
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(propensity.fit, log, X, train, half)
            models = outcome.fit(log, X, train, half), beside.result()
    return NuisanceFit(log, X, fold, *models, half.n_jobs)

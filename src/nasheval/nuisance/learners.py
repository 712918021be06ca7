"""What a learner of a nuisance must be able to do; the cross-fitting loop takes any that can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.table import count_rows
from nasheval.engine import Workers, one_thread, run_threads
from nasheval.errors import Argument, InputError
from nasheval.feedback.log import Feedback

Advance = Callable[[float], None]  # called with the share of the work done since the last call, 1.0 in all
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Features:
    """Contexts encoded for both kinds of learner, from one fit.

    Args:
        trees: (n, p) float32, categories as codes, NaN where a value is missing.
        network: (n, q) float32, standardised and one-hot, always finite.
        categorical: columns of `trees` that hold categories.
        names: names of the columns of `trees`, where they are known.
        vectors: columns of `trees` that are dimensions of texts and vectors.
    """

    trees: Floats
    network: Floats
    categorical: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    vectors: tuple[int, ...] = ()

    @staticmethod
    def of(encoder: ContextEncoder, contexts: object, *, n: int | None = None) -> Features:
        """Encode contexts, embedding any text once.

        Args:
            n: how many there are; needed only where they have no columns and no length of their own.
        """
        if not encoder.feature_names("trees"):
            nothing = np.empty((count_rows(contexts) if n is None else n, 0), np.float32)
            return Features(nothing, nothing)
        vectors = encoder.embed(contexts) if encoder.texts else None
        return Features(
            encoder.encode(contexts, form="trees", vectors=vectors),
            encoder.encode(contexts, form="network", vectors=vectors),
            encoder.categorical_features,
            encoder.feature_names("trees"),
            encoder.vector_features,
        )

    @staticmethod
    def of_one(encoder: ContextEncoder, context: Any) -> Features | None:
        """Encode one context of plain Python values; None where `of` has to (`ContextEncoder.encode_one`)."""
        both = encoder.encode_one(context)
        return None if both is None else Features(*both)

    def __len__(self) -> int:
        return len(self.trees)

    def __getitem__(self, rows: Ints | Bools | slice) -> Features:
        return Features(self.trees[rows], self.network[rows], self.categorical, self.names, self.vectors)


@dataclass(frozen=True)
class Effort:
    """How hard a learner may work.

    Args:
        seed: of everything it draws.
        n_jobs: processes or threads; every single fit uses one.
        device: "cpu" or "cuda", for learners that can use it.
        advance: called with the share of the work done since the last call.
        workers: of a cluster, for what can be done elsewhere; None: threads of this process.
    """

    seed: int = 0
    n_jobs: int = 1
    device: str = "cpu"
    advance: Advance = lambda share: None
    workers: Workers | None = None

    def share(self, share: float) -> Effort:
        """Return the same effort for a share of the work: all of its progress is that share of this one's."""
        return replace(self, advance=lambda done: self.advance(share * done))

    def __reduce__(self) -> tuple[type[Effort], tuple[int, int, str]]:
        """Travel without the progress bar and the workers, which belong to one process."""
        return Effort, (self.seed, self.n_jobs, self.device)


def run_all(call: Callable[[T], R], arguments: Iterable[T], n_calls: int, effort: Effort) -> list[R]:
    """Return call(argument) for each argument, telling `effort` of each.

    It runs on `effort.n_jobs` threads or, where there are any, on `effort.workers`: so a call returns what it makes,
    changes nothing, and its argument is small (`nasheval.engine`).
    """
    if effort.workers is not None:
        return effort.workers.run(call, arguments, lambda: effort.advance(1.0 / n_calls))
    with one_thread():
        return run_threads(call, arguments, effort.n_jobs, lambda: effort.advance(1.0 / n_calls))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let PyTorch use some threads for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class FoldModels(Protocol):
    """Models of one nuisance, one per fold."""

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, columns) predictions of the model of a fold.

        An outcome model has one column for each pair of each menu (`log.menus.columns`), mu^m_jk in [-1, 1]; a
        propensity model has one for each menu, e^m in (0, 1].
        """
        ...


@runtime_checkable
class CellModels(FoldModels, Protocol):
    """Models that can also predict single cells, which spares most of the work where a context has few records."""

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) predictions of the model of a fold at rows[i] of X and column columns[i]."""
        ...


@runtime_checkable
class MeanModels(FoldModels, Protocol):
    """Models whose mean over the folds takes less than one prediction per fold."""

    def mean(self, X: Features) -> Floats:
        """Return (n, columns) the mean of `predict` over all folds."""
        ...


@runtime_checkable
class RecordModels(FoldModels, Protocol):
    """Models that know their value at each record of the log they were fitted on."""

    def of_records(self) -> Floats:
        """Return (n_records,) the values at the log's records."""
        ...


class Learner(Protocol):
    """Fits one nuisance on several training sets."""

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> FoldModels:
        """Fit one model on each training set.

        Args:
            log: the whole log.
            X: its contexts, encoded.
            train: (folds, n_contexts) which contexts each model may see.
        """
        ...


def records_of(log: Feedback, contexts: Bools) -> Ints:
    """Return the records at some contexts, (n_contexts,) booleans."""
    return np.flatnonzero(contexts[log.context_of])


def sampled(records: Ints, most: int, rng: np.random.Generator) -> Ints:
    """Return `most` of some records at random, in order, where there are more."""
    return np.sort(rng.choice(records, most, replace=False)) if len(records) > most else records


def menu_members(log: Feedback) -> Floats:
    """Return (M, K) float32, one where an agent is in a menu."""
    members = np.zeros((len(log.menus), log.n_agents), np.float32)
    members[np.repeat(np.arange(len(log.menus)), log.menus.sizes), log.menus.agent] = 1.0
    return members


def cells_of(models: FoldModels, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
    """Return (cells,) predictions of any models at rows[i] of X and column columns[i]."""
    if isinstance(models, CellModels):
        return models.cells(X, fold, rows, columns)
    return picked(models, X, fold, rows, columns)


def picked(models: FoldModels, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
    """Return (cells,) predictions at rows[i] of X and column columns[i], out of all predictions at these rows."""
    values = np.empty(len(rows))
    contexts, place = np.unique(rows, return_inverse=True)
    order, step = np.argsort(place, kind="stable"), 1 << 12
    ends = np.searchsorted(place[order], np.arange(0, len(contexts) + step, step))
    for chunk in range(len(ends) - 1):
        cells = order[ends[chunk] : ends[chunk + 1]]
        predicted = models.predict(X[contexts[chunk * step : (chunk + 1) * step]], fold)
        values[cells] = predicted[place[cells] - chunk * step, columns[cells]]
    return values


def held_out(unit: Ints, rng: np.random.Generator, share: float = 0.2) -> Bools:
    """Return (n,) which rows to hold out, given the unit of each, such as its context: all rows of a unit or none."""
    names, place = np.unique(unit, return_inverse=True)
    chosen = rng.permutation(len(names)) < max(1, round(share * len(names)))
    return chosen[place]


def require_draws(log: Feedback) -> None:
    """Refuse a log whose menus are included independently."""
    if log.design != "draws":
        raise InputError(
            "A multinomial propensity is for logs that draw one menu per record; this one includes menus independently",
            *(f" ({log.how_designed.reason}). Read it with ", Argument("design", "draws"), ", or use "),
            *(Argument("propensity", "lightgbm", flag="--propensity-model lightgbm"), " or 'marginal'."),
        )

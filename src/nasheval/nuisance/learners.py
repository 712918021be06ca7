"""What a learner of a nuisance must be able to do; the cross-fitting loop takes any that can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.table import count_rows
from nasheval.feedback.log import Feedback

Advance = Callable[[float], None]  # told how much of the work is done since it was last told, 1.0 in all


@dataclass(frozen=True)
class Features:
    """Contexts encoded for both kinds of learner, from one fit.

    Args:
        trees: (n, p) float32, categories as codes, NaN where a value is missing.
        network: (n, q) float32, standardised and one-hot, always finite.
        categorical: columns of `trees` that hold categories.
        names: names of the columns of `trees`, where they are known.
    """

    trees: Floats
    network: Floats
    categorical: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    @staticmethod
    def of(encoder: ContextEncoder, contexts: object, *, n: int | None = None) -> Features:
        """Encode contexts, embedding any text once.

        Args:
            n: how many there are; needed only where they have no columns and no length of their own.
        """
        if not encoder.feature_names("trees"):
            nothing = np.empty((count_rows(contexts) if n is None else n, 0), np.float32)
            return Features(nothing, nothing)
        vectors = encoder.embed(contexts) if encoder.text is not None else None
        return Features(
            encoder.encode(contexts, form="trees", vectors=vectors),
            encoder.encode(contexts, form="network", vectors=vectors),
            encoder.categorical_features,
            encoder.feature_names("trees"),
        )

    def __len__(self) -> int:
        return len(self.trees)

    def __getitem__(self, rows: Ints | Bools | slice) -> Features:
        return Features(self.trees[rows], self.network[rows], self.categorical, self.names)


@dataclass(frozen=True)
class Effort:
    """How hard a learner may work.

    Args:
        seed: of everything it draws.
        n_jobs: processes or threads; every single fit uses one.
        device: "cpu" or "cuda", for learners that can use it.
        advance: called with the share of the work done since the last call.
    """

    seed: int = 0
    n_jobs: int = 1
    device: str = "cpu"
    advance: Advance = lambda share: None

    def share(self, share: float) -> Effort:
        """Return the same effort for a share of the work: all of its progress is that share of this one's."""
        return replace(self, advance=lambda done: self.advance(share * done))


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
    """Models of one nuisance, one a fold."""

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

"""Context columns cut into a few strata: the values of few-valued ones, quantile bins of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Floats, Ints, readonly
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Features

FEW_VALUES = 20  # a column of numbers with no more is cut into its values
_MOST_LEVELS = 64  # categories with more are left alone; an encoder keeps 50, "other" and "missing"
_MOST_COLUMNS = 24
_MOST_CONTEXTS = 1 << 18  # of which values and quantiles are taken, evenly over the log where it has more
_KNOTS = 5  # of the curve in a number


@dataclass(frozen=True)
class Cut:
    """One column of `Features.trees` in strata 0 to size - 1.

    Args:
        column: its number.
        name: its name.
        edges: the values, ascending, one per stratum; or the inner edges of bins, a value at an edge above it.
        exact: whether `edges` are values.
    """

    column: int
    name: str
    edges: Floats
    exact: bool

    @property
    def size(self) -> int:
        """Number of strata; the last one holds what is missing or was never seen."""
        return len(self.edges) + (1 if self.exact else 2)

    def codes(self, X: Features, rows: Ints | None = None) -> Ints:
        """Return (n,) the stratum of each context, or of those in some rows."""
        value = X.trees[:, self.column] if rows is None else X.trees[rows, self.column]
        if not self.exact:
            return np.where(np.isnan(value), self.size - 1, np.searchsorted(self.edges, value, side="right"))
        place = np.searchsorted(self.edges, value)
        same = self.edges[np.minimum(place, len(self.edges) - 1)] == value
        return np.where(same, place, self.size - 1)


def hinges(numbers: tuple[Cut, ...], X: Features) -> Floats:
    """Return (n, q) float32 max(0, value - knot) at five quantiles of each column of numbers, over its spread.

    Sums of them are smooth enough curves of any shape, with straight ends; a missing value is below all knots.
    """
    columns = [np.zeros((len(X), 0), np.float32)]
    for cut in numbers:
        knots = cut.edges[np.linspace(0, len(cut.edges) - 1, _KNOTS).round().astype(int)]
        value = np.nan_to_num(X.trees[:, cut.column, None], nan=float(knots[0]))
        columns.append(np.maximum(value - knots, 0.0) / max(float(knots[-1] - knots[0]), 1e-9))
    return np.hstack(columns).astype(np.float32)


def cuts(log: Feedback, X: Features, bins: tuple[int, ...], *, categories: bool = True) -> tuple[Cut, ...]:
    """Return the cuts of the first 24 columns that can be cut; a column of numbers has one for each number of bins.

    Dimensions of texts and vectors are left out: no single one of them means anything.

    Args:
        bins: numbers of quantile bins for numbers of more than 20 values.
        categories: whether to cut categories, too.
    """
    vectors = set(X.vectors)
    columns = [c for c in range(X.trees.shape[1]) if c not in vectors and (categories or c not in X.categorical)]
    used = np.flatnonzero(np.diff(log.context_offsets) > 0)
    used = used[:: max(1, -(-len(used) // _MOST_CONTEXTS))]
    return tuple(cut for c in columns[:_MOST_COLUMNS] for cut in _of_column(X, c, bins, used))


def _of_column(X: Features, column: int, bins: tuple[int, ...], used: Ints) -> Iterator[Cut]:
    name = X.names[column] if X.names else f"column {column}"
    value = X.trees[used, column]
    value = value[~np.isnan(value)]
    levels = np.unique(value)
    if column in X.categorical or len(levels) <= FEW_VALUES:
        if len(levels) + bool(len(value) < len(used)) > 1 and len(levels) <= _MOST_LEVELS:
            yield Cut(column, name, readonly(levels), exact=True)
        return
    for number in bins:
        edges = np.unique(np.quantile(value, np.arange(1, number) / number).astype(np.float32))
        yield Cut(column, name, readonly(edges), exact=False)

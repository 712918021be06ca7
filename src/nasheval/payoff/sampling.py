"""The plug-in part of a group's means: at all its contexts, or at a sample where that is enough.

Corrections are known at every verdict and sparse; the plug-in is dense, and costs a prediction per context. Of a pair
that is asked at one context in a thousand it is a thousandth of the variance. So where all contexts would be too many,
the mean of the plug-in is taken over a random sample, just as large as keeps its own Monte Carlo variance below 1% of
the variance of every mean, and that variance is added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Floats, Ints
from nasheval.payoff.bridging import Tangent
from nasheval.payoff.estimand import CELLS, Estimand
from nasheval.payoff.grouped import Cells, Votes

ALL = 1 << 23  # plug-in values of a group that are always all computed
_MOST = 1 << 25  # plug-in values of a sample: 256 MB
_PILOT = 1 << 20  # plug-in values that tell how large a sample to take
_LEAST, _LEAST_BRIDGED = 64, 256  # contexts of a sample, and the least that it may have where pairs are bridged
_SHARE = 0.01  # the most that sampling may add to a variance
_USUAL = 0.25  # of the usual variance of a correction, the least that a column's counts for
_NONE = 1e-12  # variance of a mean that hardly moves
_SCORES = 1 << 29  # steps spent on Bradley-Terry scores at the contexts of a sample, where pairs are bridged


@dataclass(frozen=True, eq=False)
class Sample:
    """The plug-in at m of the n contexts of a group.

    Args:
        place: (m,) which ones, ascending.
        values: (m, C) the plug-in there, bridged columns bridged.
        cells: the cells at those contexts, and `at` (cells,) the place of the context of each in the sample.
        moved: (cells, b) how the corrections of each cell move the bridged columns there, less how they would at
            `middle`; (cells, 0) without any.
        pairs: (b,) the bridged columns.
        middle: the bridge at the mean payoffs; None without bridged columns.
    """

    place: Ints
    values: Floats
    cells: Ints
    at: Ints
    moved: Floats
    pairs: Ints
    middle: Tangent | None

    @property
    def mean(self) -> Floats:
        """(C,) mean of the plug-in and of what corrections add to it beyond a straight line."""
        mean = self.values.mean(axis=0)
        mean[self.pairs] += self.moved.sum(axis=0) / len(self.place)
        return mean


def sample_of(votes: Votes, cells: Cells, by_cell: csr_array) -> Sample:
    """Return the plug-in at all contexts of a group, or at a sample of them.

    Args:
        by_cell: (cells, C) the corrections of each cell.
    """
    bridge = votes.estimand.bridge
    place, values = _plugin(votes, _noise(votes))
    inside = np.full(votes.n, -1)
    inside[place] = np.arange(len(place))
    kept = np.flatnonzero(inside[cells.place] >= 0)
    at = inside[cells.place[kept]]
    if bridge is None:
        return Sample(place, values, kept, at, np.zeros((len(kept), 0)), np.zeros(0, np.int64), None)
    middle = bridge.at(values.mean(axis=0, keepdims=True))
    return Sample(place, values, kept, at, _bridge(middle, values, at, by_cell[kept]), bridge.pairs, middle)


def _noise(votes: Votes) -> Floats:
    """Return (C,) the part of the corrections in the variance of each mean; infinite without any.

    Three lucky votes may have next to none; it counts as no less than a quarter of what votes of the usual surprise
    would have.
    """
    column, correction = votes.corrections
    weight, C = votes.estimand.weight[votes.rows], votes.estimand.n_columns
    square, weighed = (np.bincount(column, each**2, C) for each in (correction, weight))
    usual = float(square.sum() / max(weighed.sum(), 1e-300))
    return np.where(weighed > 0, np.maximum(square, _USUAL * usual * weighed) / votes.n**2, np.inf)


def _plugin(votes: Votes, noise: Floats) -> tuple[Ints, Floats]:
    """Return the places of a sample of contexts, ascending, and the plug-in there, (m, C)."""
    estimand, n, C = votes.estimand, votes.n, votes.estimand.n_columns
    if n * C <= ALL and not (estimand.bridge is not None and n > _most_bridged(estimand)):
        return np.arange(n), _predicted(votes, np.arange(n))
    order = np.random.default_rng(0).permutation(n)
    pilot = min(n, max(_LEAST, _PILOT // C))
    first = _predicted(votes, order[:pilot])
    needed = _needed(estimand, first, noise)
    m = min(n, max(pilot, int(needed * n / (n + needed)) + 1))
    m = min(m, max(pilot, _MOST // C if estimand.bridge is None else _most_bridged(estimand)))
    chosen = np.sort(order[:m])
    values = np.empty((m, C))
    values[np.searchsorted(chosen, order[:pilot])] = first
    _predicted(votes, order[pilot:m], values, np.searchsorted(chosen, order[pilot:m]))
    return chosen, values


def _needed(estimand: Estimand, values: Floats, noise: Floats) -> float:
    """Return how large a sample of endless contexts would have to be, given the plug-in at some, (pilot, C)."""
    needed, bridge = values.var(axis=0, ddof=1) / (_SHARE * noise), estimand.bridge
    if bridge is not None:
        middle = bridge.at(values.mean(axis=0, keepdims=True))
        seen = bridge.incidence.T * np.where(np.isfinite(noise), noise, 0.0)
        bridged = bridge.at(values, near=middle.scores[0]).values.var(axis=0, ddof=1)
        needed[bridge.pairs] = bridged / (
            _SHARE * np.maximum(middle.variance((seen @ bridge.incidence).toarray()), _NONE)
        )
    return float(needed.max(initial=0.0))


def _most_bridged(estimand: Estimand) -> int:
    """Return at how many contexts Bradley-Terry scores are fitted at most."""
    return max(_LEAST_BRIDGED, min(_SCORES // estimand.log.n_agents**3, _MOST // estimand.n_columns))


def _predicted(votes: Votes, places: Ints, values: Floats | None = None, rows: Ints | None = None) -> Floats:
    """Return the plug-in at some contexts of a group, in their order, or write it into those rows of values."""
    estimand, contexts = votes.estimand, votes.contexts[places]
    values = np.empty((len(contexts), estimand.n_columns)) if values is None else values
    row_of = np.empty(estimand.log.n_contexts, np.int64)
    row_of[contexts] = np.arange(len(contexts)) if rows is None else rows
    for chunk, plugin in estimand.plugin(contexts):
        values[row_of[chunk]] = plugin
    return values


def _bridge(middle: Tangent, values: Floats, at: Ints, by_cell: csr_array) -> Floats:
    """Bridge the bridged columns of values (m, C), in place, and return `Sample.moved`.

    Args:
        middle: the bridge at the mean payoffs.
        at: (cells,) the row of each cell, ascending.
        by_cell: (cells, C) corrections.
    """
    bridge = middle.bridge
    moved = np.empty((len(at), len(bridge.pairs)))
    step = max(1, CELLS // values.shape[1])
    for start in range(0, len(values), step):
        tangent = bridge.at(values[start : start + step], near=middle.scores[0])
        values[start : start + step, bridge.pairs] = tangent.values
        cells = slice(*np.searchsorted(at, [start, start + step]))
        rows, lead = at[cells] - start, bridge.lead(by_cell[cells])
        moved[cells] = tangent.moved(rows, lead)
        moved[cells] -= middle.moved(rows, lead)
    return moved

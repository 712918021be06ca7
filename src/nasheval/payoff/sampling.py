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
_LEAST = 256  # contexts of a sample
_SHARE = 0.01  # the most that sampling may add to a variance
_USUAL = 0.25  # of the usual variance of a correction, the least that a column's counts for
_SCORES = 1 << 29  # steps spent on Bradley-Terry scores at the contexts of a sample, where pairs are bridged


@dataclass(frozen=True, eq=False)
class Sample:
    """The plug-in at m of the n contexts of a group.

    Args:
        place: (m,) which ones, ascending.
        values: (m, C) the plug-in there, bridged columns bridged.
        cells: the cells at those contexts, and `at` (cells,) the place of the context of each in the sample.
        moved: (cells, b) how the corrections of each cell move the bridged columns there, less `gradient` times them;
            (cells, 0) without any.
        pairs: (b,) the bridged columns.
        incidence: (C, K) that makes leads of corrections; None without bridged columns.
        gradient: (K, b) slopes of the bridged columns in the leads, at the mean payoffs.
    """

    place: Ints
    values: Floats
    cells: Ints
    at: Ints
    moved: Floats
    pairs: Ints
    incidence: csr_array | None
    gradient: Floats

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
    estimand, bridge = votes.estimand, votes.estimand.bridge
    place, values = _plugin(votes, _noise(votes))
    inside = np.full(votes.n, -1)
    inside[place] = np.arange(len(place))
    kept = np.flatnonzero(inside[cells.place] >= 0)
    at = inside[cells.place[kept]]
    if bridge is None:
        none = np.zeros((len(kept), 0)), np.zeros(0, np.int64)
        return Sample(place, values, kept, at, *none, None, np.zeros((estimand.log.n_agents, 0)))
    middle = bridge.at(values.mean(axis=0, keepdims=True))
    gradient = middle.gradient()[0]
    moved = _bridge(middle, values, at, by_cell[kept], gradient)
    return Sample(place, values, kept, at, moved, bridge.pairs, bridge.incidence, gradient)


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
        return np.arange(n), _predicted(estimand, votes.contexts)
    order = np.random.default_rng(0).permutation(n)
    pilot = min(n, max(_LEAST, _PILOT // C))
    values = _predicted(estimand, votes.contexts[order[:pilot]])
    needed = float((values.var(axis=0, ddof=1) / (_SHARE * noise)).max(initial=0.0))
    m = min(n, max(pilot, int(needed * n / (n + needed)) + 1))
    m = min(m, max(pilot, _MOST // C))
    if estimand.bridge is not None:
        m = min(n, max(pilot, _most_bridged(estimand)))
    if m > pilot:
        values = np.concatenate([values, _predicted(estimand, votes.contexts[order[pilot:m]])])
    ascending = np.argsort(order[:m])
    return order[:m][ascending], values[ascending]


def _most_bridged(estimand: Estimand) -> int:
    """Return at how many contexts Bradley-Terry scores are fitted at most."""
    return max(_LEAST, min(_SCORES // estimand.log.n_agents**3, _MOST // estimand.n_columns))


def _predicted(estimand: Estimand, contexts: Ints) -> Floats:
    """Return the plug-in at some contexts, in their order."""
    values, place = np.empty((len(contexts), estimand.n_columns)), np.empty(estimand.log.n_contexts, np.int64)
    place[contexts] = np.arange(len(contexts))
    for chunk, plugin in estimand.plugin(contexts):
        values[place[chunk]] = plugin
    return values


def _bridge(middle: Tangent, values: Floats, at: Ints, by_cell: csr_array, gradient: Floats) -> Floats:
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
        lead = bridge.lead(by_cell[cells])
        moved[cells] = tangent.moved(at[cells] - start, lead) - lead @ gradient
    return moved

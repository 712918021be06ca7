"""Whether the agent shown first is favoured, told from pairs that were shown in both orders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Floats, Ints, n_pairs, pair_index
from nasheval.feedback.records import Records

ONE_ORDER = "position cannot be told from agents: every pair was always shown in one order"
_ENOUGH = 10  # records of a pair that tell whether it was shown in both orders
_BALANCED = (0.4, 0.6)  # shares of either order that count as about equal
# Answers are counted in (pairs, 2, 3) cells: was the lower agent of a pair shown earlier, and the verdict for it.
_ORDER = np.array([-1.0, 1.0])[:, None]
_VERDICT = np.array([-1.0, 0.0, 1.0])


@dataclass(frozen=True)
class PositionBias:
    """What being shown earlier adds to the verdict, with its standard error (0 is fair, +1 always wins).

    Args:
        mean: the mean verdict for the agent shown earlier, over both orders of the same pair.
        error: its standard error, clustered by record.
        balanced: whether every pair with ten records or more was shown in either order about equally often, so that the
            bias cancels in each of them.
        pairs: how many pairs were shown in both orders; the others cannot tell position from agents.
    """

    mean: float
    error: float
    balanced: bool = False
    pairs: int = 0

    @property
    def clear(self) -> bool:
        """Whether it is more than three standard errors from zero."""
        return abs(self.mean) > 3 * self.error


def position_bias(records: Records, n_agents: int) -> PositionBias | None:
    """Return the effect of the position; None where the order shown is unknown, or no pair was shown in both.

    The verdict of a pair is regressed on which of the two was shown earlier, with an intercept per pair. So a pair adds
    the average of two means, the verdict for the earlier agent when one was shown first and when the other was, and a
    pair that was shown in one order adds nothing.
    """
    if records.shown is None or not len(records):
        return None
    count, weight = _answers(records, n_agents)
    by_order = count.sum(axis=2)
    both = (by_order > 0).all(axis=1)
    if not both.any():
        return None
    weight, times = weight[both], by_order[both].sum(axis=1)[:, None, None]
    total = weight.sum(axis=(1, 2), keepdims=True)
    order = _ORDER - (weight * _ORDER).sum(axis=(1, 2), keepdims=True) / total
    spread = float((order**2 * weight).sum())
    mean = float((order * weight * _VERDICT).sum()) / spread
    rest = _VERDICT - (weight * _VERDICT).sum(axis=(1, 2), keepdims=True) / total - mean * order
    scores = np.zeros(count.shape)  # what one record adds to the sum that the mean makes zero
    scores[both] = np.sqrt(times / (times - 1)) * order * rest  # the intercept of a pair takes a degree of freedom
    summed = np.zeros(len(records))  # records are the clusters
    for rows, cell in _cells(records, n_agents):
        summed[rows] = records.weights[rows] * scores.ravel()[cell].sum(axis=1)
    error = float(np.sqrt((summed**2).sum())) / spread
    least = 2 / (int(times.sum()) + 4)  # unanimous: as if two more had spoken for either side
    return PositionBias(mean, max(error, least), _balanced(by_order), int(both.sum()))


def _balanced(by_order: Floats) -> bool:
    """Tell whether every pair with enough records, of (pairs, 2), was shown in both orders about equally often."""
    enough = by_order[by_order.sum(axis=1) >= _ENOUGH]
    share = enough[:, 1] / enough.sum(axis=1)
    return bool(len(enough) and (share >= _BALANCED[0]).all() and (share <= _BALANCED[1]).all())


def _answers(records: Records, n_agents: int) -> tuple[Floats, Floats]:
    """Return (pairs, 2, 3) how many records gave each answer, and their total weight."""
    shape = (n_pairs(n_agents), 2, 3)
    count, weight = np.zeros(np.prod(shape)), np.zeros(np.prod(shape))
    for rows, cell in _cells(records, n_agents):
        weights = np.repeat(records.weights[rows], cell.shape[1])
        count += np.bincount(cell.ravel(), minlength=len(count))
        weight += np.bincount(cell.ravel(), weights, len(weight))
    return count.reshape(shape), weight.reshape(shape)


def _cells(records: Records, n_agents: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield (m,) records of one menu size and (m, pairs of the menu) their cells in (pairs, 2, 3)."""
    assert records.shown is not None
    for rows, entries in records.by_size():
        left, right = np.triu_indices(entries.shape[1], 1)
        agent, block, shown = (column[entries] for column in (records.agent, records.block, records.shown))
        pair = pair_index(agent[:, left], agent[:, right], n_agents)
        earlier, verdict = shown[:, left] < shown[:, right], np.sign(block[:, right] - block[:, left])
        yield rows, 6 * pair + 3 * earlier + verdict + 1

"""Whether the agent shown first is favoured, told from pairs that were shown in both orders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, n_pairs, pair_index
from nasheval.feedback.records import Records

ONE_ORDER = "position cannot be told from agents: every pair was always shown in one order"
_ENOUGH = 10  # records of a pair that tell whether it was shown in both orders
_BALANCED = (0.4, 0.6)  # shares of either order that count as about equal
_ORDER = np.array([-1.0, 1.0])[:, None]  # of the cells of `_Answers`
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
    answers = _answers(records, n_agents)
    if not answers.both.any():
        return None
    spread = float((answers.order_around**2 * answers.weight)[answers.both].sum())
    mean = float((answers.order_around * answers.weight * _VERDICT)[answers.both].sum()) / spread
    error = float(np.sqrt((_scores(records, n_agents, answers.scores(mean)) ** 2).sum())) / spread
    least = 2 / (int(answers.count[answers.both].sum()) + 4)  # unanimous: as if two more had spoken for either side
    return PositionBias(mean, max(error, least), answers.balanced, int(answers.both.sum()))


@dataclass(frozen=True)
class _Answers:
    """How often each pair j < k got which verdict in which order shown.

    Args:
        count: (pairs, 2, 3) records in which k (0) or j (1) was shown earlier, by the verdict for j: -1, 0 or 1.
        weight: (pairs, 2, 3) their total weight.
    """

    count: Floats
    weight: Floats

    @property
    def both(self) -> Bools:
        """(pairs,) whether the pair was shown in both orders."""
        return np.asarray((self.count.sum(axis=2) > 0).all(axis=1))

    @property
    def balanced(self) -> bool:
        """Whether every pair with enough records was shown in both orders about equally often."""
        by_order = self.count.sum(axis=2)
        enough = by_order.sum(axis=1) >= _ENOUGH
        share = by_order[enough, 1] / by_order[enough].sum(axis=1)
        return bool(enough.any() and (share >= _BALANCED[0]).all() and (share <= _BALANCED[1]).all())

    @property
    def order_around(self) -> Floats:
        """(pairs, 2, 1) the order, 1 where j was shown earlier and -1 where k was, around its mean in the pair."""
        return _ORDER - self._mean(_ORDER)

    def scores(self, effect: float) -> Floats:
        """Return (pairs, 2, 3) what one record adds to the sum that the effect makes zero; 0 for pairs in one order.

        The intercept of a pair with T records takes one of their T degrees of freedom, hence T / (T - 1).
        """
        rest = _VERDICT - self._mean(_VERDICT) - effect * self.order_around
        total = self.count.sum(axis=(1, 2), keepdims=True)
        widened = np.sqrt(total / np.maximum(total - 1, 1)) * self.order_around * rest
        return np.where(self.both[:, None, None], widened, 0.0)

    def _mean(self, values: Floats) -> Floats:
        """Return (pairs, 1, 1) the weighted mean of values that broadcast to (2, 3); 0 for pairs that never met."""
        total = self.weight.sum(axis=(1, 2), keepdims=True)
        summed = (self.weight * values).sum(axis=(1, 2), keepdims=True)
        return np.asarray(np.divide(summed, total, out=np.zeros_like(total), where=total > 0))


def _answers(records: Records, n_agents: int) -> _Answers:
    shape = (n_pairs(n_agents), 2, 3)
    count, weight = np.zeros(np.prod(shape)), np.zeros(np.prod(shape))
    for rows, cell in _cells(records, n_agents):
        weights = np.repeat(records.weights[rows], cell.shape[1])
        count += np.bincount(cell.ravel(), minlength=len(count))
        weight += np.bincount(cell.ravel(), weights, len(weight))
    return _Answers(count.reshape(shape), weight.reshape(shape))


def _cells(records: Records, n_agents: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield (m,) records of one menu size and (m, pairs of the menu) their cells in (pairs, 2, 3)."""
    assert records.shown is not None
    for rows, entries in records.by_size():
        left, right = np.triu_indices(entries.shape[1], 1)
        agent, block, shown = (column[entries] for column in (records.agent, records.block, records.shown))
        pair = pair_index(agent[:, left], agent[:, right], n_agents)
        earlier, verdict = shown[:, left] < shown[:, right], np.sign(block[:, right] - block[:, left])
        yield rows, 6 * pair + 3 * earlier + verdict + 1


def _scores(records: Records, n_agents: int, score: Floats) -> Floats:
    """Return (n_records,) the weighted score of each record, summed over its pairs: records are the clusters."""
    summed = np.zeros(len(records))
    for rows, cell in _cells(records, n_agents):
        summed[rows] = records.weights[rows] * score.ravel()[cell].sum(axis=1)
    return summed

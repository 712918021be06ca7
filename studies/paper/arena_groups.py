"""Contexts in groups, the games that each group's votes make, and what chance alone does to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import nasheval as ne
from studies.arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Groups:
    """Contexts dealt into groups by the values of some columns.

    Args:
        names: of the G groups: their values, joined by " / ".
        values: (G,) tuples of the values.
        of_context: (n_contexts,) the group of each.
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    of_context: Ints

    @classmethod
    def of(cls, contexts: pa.Table, columns: Sequence[str]) -> Groups:
        """Group contexts by columns of words; the largest group first."""
        combined = list(zip(*(contexts[column].to_pylist() for column in columns), strict=True))
        distinct, number, count = np.unique(_as_objects(combined), return_inverse=True, return_counts=True)
        order = np.argsort(-count, kind="stable")
        place = np.argsort(order, kind="stable")
        values = tuple(distinct[i] for i in order)
        return cls(tuple(" / ".join(value) for value in values), values, place[number.ravel()])


def _as_objects(values: list[tuple[str, ...]]) -> Any:
    listed = np.empty(len(values), object)
    listed[:] = values
    return listed


@dataclass(frozen=True, eq=False)
class Tallies:
    """What the votes of each of G groups say.

    Args:
        margins: (G, K, K) wins minus losses, weighted; 0 for pairs that never met.
        weights: (G, K, K) weight of the votes of each pair, symmetric.
        votes: (G,) number of votes.
    """

    margins: Floats
    weights: Floats
    votes: Ints

    @property
    def coverage(self) -> Floats:
        """(G,) share of pairs that met."""
        K = self.margins.shape[1]
        return np.asarray((self.weights > 0).sum((1, 2)) / (K * (K - 1)))

    @property
    def unlikeness(self) -> float:
        """How much the mean verdicts of groups differ from the pooled ones: squares, each by its weight."""
        pooled = self.margins.sum(0) / np.maximum(self.weights.sum(0), 1e-300)
        excess = self.margins - self.weights * pooled
        return float((excess**2 / np.maximum(self.weights, 1e-300)).sum())


def tallies(log: ne.Feedback, of_context: Ints, count: int) -> Tallies:
    """Count the votes of each of `count` groups, given the group of each context; contexts of group -1 are left out."""
    verdicts, K = log.verdicts, log.n_agents
    group = of_context[log.context_of[verdicts.record]]
    used = group >= 0
    flat, weight = ((group * K + verdicts.j) * K + verdicts.k)[used], log.records.weights[verdicts.record][used]
    won, met = (
        np.bincount(flat, w, count * K * K).reshape(count, K, K).astype(float)
        for w in (weight * verdicts.z[used], weight)
    )
    votes = np.bincount(group[used], minlength=count)
    return Tallies(won - won.transpose(0, 2, 1), met + met.transpose(0, 2, 1), votes)


def maximal_lotteries(margins: Floats, rho: float = 0.0) -> Floats:
    """Return the equilibria (n, K) of games (n, K, K); without regulariser those of least norm."""
    return np.asarray(ne.solve(margins, regularizer=ne.L2(rho)).strategy)


def distances(lotteries: Floats) -> Floats:
    """Return the total-variation distance of every pair of lotteries (..., G, K), (..., pairs)."""
    one, other = np.triu_indices(lotteries.shape[-2], 1)
    return np.asarray(0.5 * np.abs(lotteries[..., one, :] - lotteries[..., other, :]).sum(-1))


@dataclass(frozen=True)
class Chance:
    """What groups of the same sizes look like that are dealt at random.

    Args:
        distance: (shuffles,) mean total variation between their lotteries.
        unlikeness: (shuffles,) of their mean verdicts.
    """

    distance: Floats
    unlikeness: Floats


def dealt_at_random(log: ne.Feedback, of_context: Ints, covered: Bools, shuffles: int, *, seed: int = 0) -> Chance:
    """Deal the contexts of some groups into groups of the same sizes at random.

    Args:
        of_context: (n_contexts,) the group of each context.
        covered: (G,) which groups take part.
    """
    rng, place = np.random.default_rng(seed), np.cumsum(covered) - 1
    inside, count = np.flatnonzero(covered[of_context]), int(covered.sum())
    dealt_tallies = []
    for _ in range(shuffles):
        dealt = np.full(len(of_context), -1)
        dealt[inside] = rng.permutation(place[of_context[inside]])
        dealt_tallies.append(tallies(log, dealt, count))
    lotteries = maximal_lotteries(np.concatenate([one.margins for one in dealt_tallies])).reshape(shuffles, count, -1)
    return Chance(distances(lotteries).mean(-1), np.array([one.unlikeness for one in dealt_tallies]))


def share_as_large(by_chance: Floats, seen: float) -> float:
    """Return the p-value of a statistic: the share of random deals, with this one, in which it is as large."""
    return float((1 + (by_chance >= seen - 1e-9 * abs(seen) - 1e-12).sum()) / (1 + len(by_chance)))

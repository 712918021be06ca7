"""The covariance of group means as a dense (columns, columns) matrix: the literal form, for small logs.

Transcribed from the form that the package had before variances and draws were kept apart. It holds every product of
every two columns, so that its memory grows with the fourth power of the agents.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import bin_sums, runs
from nasheval.payoff.grouped import FEW, voter_labels


def dense_moments(estimand, inside, by):
    """Return the mean, (C,), and its covariance, (C, C), and for "both" also that before it is made definite."""
    sums = _Sums(estimand, inside, by)
    for chunk, plugin in estimand.plugin(np.flatnonzero(inside)):
        sums.add(chunk, plugin)
    return sums.mean, *sums.covariance()


def covariance_of(moments):
    """Return the covariance, (C, C), of the draws of some moments, but for their own randomness."""
    covariance = (moments.factor.T @ moments.factor) * np.outer(moments.error, moments.error)
    np.fill_diagonal(covariance, moments.variance)
    return covariance


def moved(tangent, rows, changes):
    """Return (m, b) how bridged payoffs at contexts rows[i] change, given changes of all payoffs, (m, n_pairs)."""
    meetings = tangent.bridge.meetings
    j, k = np.triu_indices(len(meetings), 1)
    lead = np.zeros((len(changes), len(meetings)))
    for pair, (a, b) in enumerate(zip(j, k, strict=True)):
        lead[:, a] += meetings[a, b] * changes[:, pair]
        lead[:, b] -= meetings[a, b] * changes[:, pair]
    step = np.einsum("mjk,mk->mj", tangent._inverse[rows], lead / 2)
    j, k = tangent.bridge.ends
    return (1 - tangent.values[rows] ** 2) / 2 * (step[:, j] - step[:, k])


def _raised(covariance, least):
    """Return the nearest covariance without negative directions, its variances raised to at least those given."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    if values[0] < 0:
        covariance = (vectors * np.maximum(values, 0)) @ vectors.T
    return _at_least(covariance, least)


def _at_least(covariance, least):
    """Return the covariance with its variances raised to at least those given, correlations kept."""
    variance = covariance.diagonal()
    scale = np.sqrt(np.maximum(least, variance) / np.where(variance > 0, variance, 1))
    raised = covariance * np.outer(scale, scale)
    np.fill_diagonal(raised, np.maximum(least, variance))
    return raised


class _Sums:
    """Sums and cross-products of Gamma over contexts, voters, and both, from one pass over a group's contexts.

    A voter owns the corrections of its records, and of the plug-in part of each context its records' share; where
    contexts are fixed, the corrections alone, less what the context's mean correction would give it.
    """

    def __init__(self, estimand, inside, by):
        size, log = estimand.n_columns, estimand.log
        self.estimand, self.by, self.n = estimand, by, int(inside.sum())
        self.voter, self.named = voter_labels(log.records.voter, log.n_records)
        weight = np.bincount(log.context_of, log.records.weights, log.n_contexts)
        self.share = log.records.weights / weight[log.context_of]
        records = np.flatnonzero(inside[log.context_of])
        self.all_voters, names = len(np.unique(self.voter[records])), np.unique(self.voter[records])
        self.n_voters = int((names < self.named).sum())
        cells = len(set(zip(log.context_of[records].tolist(), self.voter[records].tolist(), strict=True)))
        own_contexts = cells == self.n and self.all_voters == self.n_voters < self.n
        self.total, self.cross = np.zeros(size), np.zeros((size, size))
        self.strata = by == "context" and 0 < self.n_voters < FEW and own_contexts
        people = self.named if by != "context" or self.strata else 0
        self.of_voter, self.mass = np.zeros((people, size)), np.zeros(people)
        self.cells, self.leaning, self.square = np.zeros((size, size)), np.zeros(size), 0.0
        self.alone = np.zeros((size, size))

    def add(self, contexts, plugin):
        """Add some contexts, given f(mu) there, (len(contexts), n_pairs)."""
        estimand = self.estimand
        bridge = estimand.bridge
        tangent = None if bridge is None else bridge.at(plugin)
        correction = estimand.corrections[contexts].toarray()
        if tangent is not None and bridge is not None:
            plugin = plugin.copy()
            plugin[:, bridge.pairs] = tangent.values
            correction[:, bridge.pairs] = moved(tangent, np.arange(len(contexts)), correction)
        gamma = plugin + correction
        self.total += gamma.sum(axis=0)
        self.cross += gamma.T @ gamma
        if not len(self.mass):
            return
        for place, voter, mass, own in self._of_voters(contexts, tangent):
            if self.by == "voter":
                fixed = estimand.log.design == "draws"  # under inclusion whether a menu was asked is random as well
                self._add_voters(voter, mass, own - mass[:, None] * correction[place] if fixed else own)
            else:
                self._add_voters(voter, mass, own + mass[:, None] * plugin[place])

    def _of_voters(self, contexts, tangent):
        """Yield of each (context, voter): place of the context, voter, mass, and (cells, n_pairs) corrections."""
        estimand, log, bridge = self.estimand, self.estimand.log, self.estimand.bridge
        sizes = np.diff(log.context_offsets)[contexts].astype(np.int64)
        records = runs(log.context_offsets[contexts], sizes)
        place = np.repeat(np.arange(len(contexts)), sizes)
        base = int(self.voter.max(initial=0)) + 1
        cell, at = np.unique(place * np.int64(base) + self.voter[records], return_inverse=True)
        mass = bin_sums(at, self.share[records], len(cell))
        starts = np.searchsorted(estimand.record, [records, records + 1])
        rows, owner = runs(starts[0], starts[1] - starts[0]), np.repeat(at, starts[1] - starts[0])
        shape = len(cell), estimand.n_columns
        sparse = csr_array((estimand.correction[rows], (owner, estimand.column[rows])), shape=shape)
        step = max(1, (1 << 22) // max(1, estimand.n_columns))
        for start in range(0, len(cell), step):
            block = slice(start, start + step)
            own, there = sparse[block].toarray(), cell[block] // base
            if tangent is not None and bridge is not None:
                own[:, bridge.pairs] = moved(tangent, there, own)
            yield there, cell[block] % base, mass[block], own

    def _add_voters(self, voter, mass, own):
        known = voter < self.named
        np.add.at(self.of_voter, voter[known], own[known])
        self.mass += np.bincount(voter[known], mass[known], len(self.mass))
        self.cells += own[known].T @ own[known]
        self.leaning += mass[known] @ own[known]
        self.square += float(mass[known] @ mass[known])
        self.alone += own[~known].T @ own[~known]

    @property
    def mean(self):
        """(n_pairs,) mean Gamma; that of a bridged pair, which is no mean of votes, within [-1, 1]."""
        mean, bridge = self.total / self.n, self.estimand.bridge
        if bridge is not None:
            mean[bridge.pairs] = np.clip(mean[bridge.pairs], -1.0, 1.0)
        return mean

    def covariance(self):
        """Return the covariance of the mean."""
        n, mean = self.n, self.total / self.n
        voters = self.all_voters
        unbiased = voters / max(voters - 1, 1)
        if self.by == "voter":
            return ((self.of_voter.T @ self.of_voter + self.alone) * unbiased / n**2,)
        if self.strata:
            within = self.cross - (self.of_voter / np.maximum(self.mass, 1)[:, None]).T @ self.of_voter
            return (within / (n * max(n - self.n_voters, 1)),)
        covariance = (self.cross - n * np.outer(mean, mean)) / (n * max(n - 1, 1))
        if self.by == "context":
            return (covariance,)
        between = self._centred(
            self.of_voter.T @ self.of_voter, self.mass @ self.of_voter, float(self.mass @ self.mass)
        )
        cells = self._centred(self.cells, self.leaning, self.square)
        raw = covariance + (between * unbiased - cells) / n**2
        return _raised(raw, covariance.diagonal()), raw

    def _centred(self, cross, leaning, square):
        """Return the cross-products of sums less mass times the mean."""
        mean = self.total / self.n
        outer = np.outer(leaning, mean)
        return cross - outer - outer.T + square * np.outer(mean, mean)

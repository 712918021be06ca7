"""Variances of group means, one per column, and a factor whose draws have their correlations.

A mean is a sum over clusters. What a cluster adds to it is E + Q: E its corrections less the mean's, known of every
cluster and sparse; Q the plug-in part less its mean, dense, and known at a sample of w = m / n of the contexts
(`nasheval.payoff.sampling`). So sum (E + Q)^2 is sum E^2 + (2 sum EQ + sum Q^2) / w, with sums of Q over the sample; of
products of two contexts of one voter, sum Q^2 is divided by w^2. With all contexts that is exact. Nothing here is of
the size of columns times columns.

The factor, (H, C) with H of a few thousand at most, has one row per cluster, or, of more clusters, random sums of them
with random signs: normal numbers times it are the Gaussian multiplier bootstrap, up to an error of 1 / sqrt(H) in the
correlations, and each column of it is scaled to its exact variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Bools, Floats, Ints
from nasheval.payoff.estimand import CELLS
from nasheval.payoff.grouped import FEW, Cluster, Votes
from nasheval.payoff.sampling import sample_of

_ROWS = 1 << 21  # numbers in a factor, where that is not too few rows
_LEAST_ROWS, _MOST_ROWS = 512, 4096
_SINGLE = 1 << 20  # a factor of more numbers is of single precision
_CACHED = 1 << 18  # numbers that stay in the processor's cache
_ROUNDING = 1e-15  # of the squares that a variance is made of: what is no larger is zero
_FEW_STRATA = 512  # the centres of so many are held as a dense array


@dataclass(frozen=True, eq=False)
class Spread:
    """Means of a group with what is uncertain of them.

    Args:
        mean, variance: (C,) of the means.
        factor: (H, C) columns of length one: normal numbers (B, H) times it are draws of (mean - truth) / error.
    """

    mean: Floats
    variance: Floats
    factor: Floats


def spread_of(votes: Votes, by: Cluster, rows: int) -> Spread:
    """Return the means of a group and how they spread, with a factor of at most so many rows per kind of cluster."""
    group, (column, correction) = _Group(votes, by), votes.corrections
    mean, (variance, factor) = group.mean, group.variance(rows)
    size = mean**2 / votes.n + np.bincount(column, correction**2, len(mean)) / votes.n**2
    known = variance > _ROUNDING * size
    length = np.sqrt(np.einsum("ij,ij->j", factor, factor))
    factor *= np.where(known & (length > 0), 1 / np.where(length > 0, length, 1), 0)
    return Spread(mean, np.where(known, variance, 0.0), factor)


def factor_rows(columns: int) -> int:
    """Return the most rows of a factor of so many columns."""
    return int(np.clip(_ROWS // max(columns, 1), _LEAST_ROWS, _MOST_ROWS))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over clusters, (C,) each, of E^2, EQ, Q^2, and of Q^2 cell by cell; and the factor of the clusters."""

    E2: Floats
    EQ: Floats
    Q2: Floats
    cells: Floats
    factor: Floats

    def total(self, w: float, *, apart: bool) -> Floats:
        """Return the sum of (E + Q)^2, given that Q is known at a share w of the contexts.

        Args:
            apart: whether a cluster is one context; else products of different contexts are rarer in the sample.
        """
        square = self.Q2 / w if apart else (self.Q2 - self.cells) / w**2 + self.cells / w
        return self.E2 + 2 * self.EQ / w + square


class _Group:
    """A group of contexts, its cells, and the sample that its plug-in part is taken from.

    Every cell has a stratum whose mean, times the cell's mass, is taken off what the cell owns: all contexts are one
    stratum; a panel's voters with contexts of their own are one each; contexts that are fixed are one each too, and
    then voters own corrections alone.
    """

    def __init__(self, votes: Votes, by: Cluster) -> None:
        self.votes, self.by, self.n = votes, by, votes.n
        panel = by == "context" and 0 < votes.n_voters < FEW and votes.own_contexts
        self.cells = votes.cells(by != "context" or panel)
        size = len(self.cells.place)
        self.stratum = self.cells.voter if panel else np.zeros(size, np.int64)
        self.fixed = by == "voter" and votes.estimand.log.design == "draws"  # else that a menu was asked is random too
        if self.fixed:
            self.stratum = self.cells.place
        self.strata = int(self.stratum.max(initial=0)) + 1
        by_cell = self.cells.corrections(np.arange(size), size)
        self.sample = sample_of(votes, self.cells, by_cell)
        self.w = len(self.sample.place) / votes.n
        self.total = self._wide(csr_array(by_cell.sum(axis=0)[None]))[0]
        self.centre, self.plugin_centre = self._centres(by_cell)

    def _centres(self, by_cell: csr_array) -> tuple[csr_array, Floats]:
        """Return (G, C) the mean corrections of the strata, and (G, C) of the plug-in, or (m, b) where it is fixed."""
        sample, size = self.sample, len(self.cells.place)
        mass = np.bincount(self.stratum, self.cells.mass, self.strata)
        shares = csr_array((1 / mass[self.stratum], (self.stratum, np.arange(size))), shape=(self.strata, size))
        if self.by == "voter":
            at = csr_array((np.ones(len(sample.at)), (sample.at, np.arange(len(sample.at)))))
            none = csr_array((self.strata, by_cell.shape[1])), np.zeros((len(sample.place), len(sample.pairs)))
            return (csr_array(shares @ by_cell), np.asarray(at @ sample.moved)) if self.fixed else none
        means = np.zeros((self.strata, by_cell.shape[1]))
        for g in range(self.strata):
            cells = np.flatnonzero(self.stratum[sample.cells] == g)
            own = self.cells.mass[sample.cells[cells]]
            if len(cells):
                share = np.bincount(sample.at[cells], own, len(sample.place)) / own.sum()
                means[g] = share @ sample.values
                means[g, sample.pairs] += sample.moved[cells].sum(axis=0) / own.sum()
        return csr_array(shares @ by_cell), means

    @property
    def mean(self) -> Floats:
        """(C,) mean Gamma; that of a bridged pair, which is no mean of votes, within [-1, 1]."""
        mean, pairs = self.sample.mean + self.total / self.n, self.sample.pairs
        mean[pairs] = np.clip(mean[pairs], -1.0, 1.0)
        return mean

    def variance(self, rows: int) -> tuple[Floats, Floats]:
        """Return (C,) the variances of the means, and the factor of their draws, with at most so many rows."""
        n, voters, cells = self.n, self.votes.all_voters, self.cells
        unbiased, everybody = voters / max(voters - 1, 1), np.ones(len(cells.place), bool)
        if self.by == "voter":
            sums = self._summed(cells.voter, everybody, rows)
            return sums.total(self.w, apart=False) * unbiased / n**2 + self._sampling(), sums.factor
        context = self._summed(cells.place, everybody, rows)
        alone = context.total(self.w, apart=True) / (n * max(n - self.strata, 1))
        if self.by == "context":
            return alone + self._sampling(), context.factor
        between = self._summed(cells.voter, cells.named, 0).total(self.w, apart=False)
        within = self._summed(np.arange(len(cells.place)), cells.named, 0).total(self.w, apart=True)
        variance = alone + np.maximum((unbiased * between - within) / n**2, 0.0)
        return variance + self._sampling(), self._both(context, rows)

    def _sampling(self) -> Floats:
        """Return (C,) the Monte Carlo variance of the mean plug-in."""
        m, sample = len(self.sample.place), self.sample
        if m == self.n:
            return np.zeros(sample.values.shape[1])
        variance = sample.values.var(axis=0, ddof=1)
        if len(sample.pairs):
            at = csr_array((np.ones(len(sample.at)), (sample.at, np.arange(len(sample.at)))))
            variance[sample.pairs] = (sample.values[:, sample.pairs] + at @ sample.moved).var(axis=0, ddof=1)
        return np.asarray(variance * (1 / m - 1 / self.n))

    def _both(self, context: _Sums, rows: int) -> Floats:
        """Return the factor of context + voter - cell: that of voters, and of contexts what their cells leave of them.

        A difference of covariances may be none, and then has no draws. So context - cell is drawn as contexts are, each
        column scaled by its share of the variance; with one voter per context that is nothing.
        """
        size = len(self.cells.place)
        voter = self._summed(self.cells.voter, np.ones(size, bool), rows).factor
        if size == self.n:
            return voter
        whole, cell = context, self._summed(np.arange(size), np.ones(size, bool), 0)
        both = whole.total(self.w, apart=True)
        left = 1 - cell.total(self.w, apart=True) / np.where(both > 0, both, 1.0)
        return np.concatenate([voter, whole.factor * np.sqrt(np.maximum(left, 0.0)).astype(voter.dtype)])

    # -- sums over clusters -------------------------------------------------------------------------------------------

    def _summed(self, label: Ints, chosen: Bools, rows: int) -> _Sums:
        """Return the sums over the clusters that labels (cells,) make of the chosen cells, and a factor of them."""
        kept, place = np.flatnonzero(chosen), np.full(len(label), -1)
        place[kept] = np.unique(label[kept], return_inverse=True)[1]
        size = int(place.max(initial=-1)) + 1
        E = self.cells.corrections(place, size)
        mass = csr_array((self.cells.mass[kept], (place[kept], self.stratum[kept])), shape=(size, self.strata))
        mix, C = _Mix(size, min(rows, size)), E.shape[1]
        factor = mix.empty(C)
        if mix.rows:
            self._mix(mix.of(E), mix.of(mass), factor)
        EQ, Q2, each = (np.zeros(C) for _ in range(3))
        for clusters, first, q in self._plugin_parts(place):
            Q = q if len(first) == len(q) else np.add.reduceat(q, first, axis=0)
            EQ += self._products(E[clusters], mass[clusters], Q)
            Q2 += np.einsum("ij,ij->j", Q, Q)
            each += np.einsum("ij,ij->j", q, q)
            if mix.rows:
                factor += mix.at(clusters) @ (Q / self.w).astype(factor.dtype)
        return _Sums(self._squares(E, mass), EQ, Q2, each, factor)

    def _mix(self, corrections: csr_array, mass: csr_array, factor: Floats) -> None:
        """Add corrections less mass times the centres to a factor, (rows, C) each, a few rows at a time."""
        step = max(1, _CACHED // factor.shape[1])
        for start in range(0, len(factor), step):
            rows = slice(start, start + step)
            factor[rows] += self._wide(corrections[rows]) - self._centred(mass[rows])

    def _plugin_parts(self, place: Ints) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Yield whole clusters, in bounded chunks: their numbers, where the cells of each start, and (cells, C) Q."""
        if self.by == "voter" and not len(self.sample.pairs):
            return  # nothing but corrections
        label = place[self.sample.cells]
        order = np.argsort(label, kind="stable")
        order = order[label[order] >= 0]
        starts = np.append(np.flatnonzero(np.diff(label[order], prepend=-1)), len(order))
        step, first = max(1, CELLS // self.sample.values.shape[1]), 0
        while first < len(starts) - 1:
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + step, side="right")) - 1)
            part = order[starts[first] : starts[last]]
            yield label[order[starts[first:last]]], starts[first:last] - starts[first], self._plugin_part(part)
            first = last

    def _plugin_part(self, part: Ints) -> Floats:
        """Return (len(part), C) Q of some cells of the sample: their share of the plug-in, less its mean."""
        sample, cells = self.sample, self.sample.cells[part]
        mass = self.cells.mass[cells][:, None]
        if self.by == "voter":
            q = np.zeros((len(part), sample.values.shape[1]))
            q[:, sample.pairs] = sample.moved[part] - mass * self.plugin_centre[sample.at[part]]
            return q
        q = sample.values[sample.at[part]] - self.plugin_centre[self.stratum[cells]]
        q *= mass
        q[:, sample.pairs] += sample.moved[part]
        return np.asarray(q)

    def _products(self, corrections: csr_array, mass: csr_array, Q: Floats) -> Floats:
        """Return (C,) the sums over rows of EQ, E being corrections less mass times the centres, and Q (rows, C)."""
        row, middle = np.repeat(np.arange(len(Q)), np.diff(corrections.indptr)), self.sample.middle
        own = np.bincount(corrections.indices, corrections.data * Q[row, corrections.indices], Q.shape[1])
        if middle is not None:
            moved = middle.moved(np.arange(len(Q)), middle.bridge.lead(corrections))
            own[self.sample.pairs] = np.einsum("ij,ij->j", moved, Q[:, self.sample.pairs])
        if self.strata > _FEW_STRATA:
            return np.asarray(own - np.einsum("ij,ij->j", self._centred(mass), Q))
        return np.asarray(own - np.einsum("gj,gj->j", self._wide_centre, mass.T @ Q))

    def _wide(self, corrections: csr_array) -> Floats:
        """Return corrections (rows, C) as they are, with those of bridged columns."""
        dense, middle = corrections.toarray(), self.sample.middle
        if middle is not None:
            dense[:, self.sample.pairs] = middle.moved(np.arange(len(dense)), middle.bridge.lead(corrections))
        return np.asarray(dense)

    def _centred(self, mass: csr_array) -> Floats:
        """Return (rows, C) what is taken off the corrections of clusters with so much of each stratum, (rows, G)."""
        if self.strata > _FEW_STRATA:
            return self._wide(csr_array(mass @ self.centre))
        return np.asarray(mass.toarray() @ self._wide_centre)

    @cached_property
    def _wide_centre(self) -> Floats:
        return self._wide(self.centre)

    def _squares(self, corrections: csr_array, mass: csr_array) -> Floats:
        """Return (C,) the sums over rows of E^2, E being corrections less mass times the centres."""
        shares, centre, C = csr_array(mass.T @ corrections), self.centre, corrections.shape[1]
        off = csr_array(csr_array(mass.T @ mass) @ centre) - 2 * shares
        square = np.bincount(corrections.indices, corrections.data**2, C) + np.asarray(centre.multiply(off).sum(axis=0))
        if (middle := self.sample.middle) is not None:
            lead, mean = (csr_array(each @ middle.bridge.incidence) for each in (corrections, centre))
            off = mean.T @ csr_array((mass.T @ mass) @ mean - 2 * csr_array(mass.T @ lead))
            square[self.sample.pairs] = middle.variance((csr_array(lead.T @ lead) + (off + off.T) / 2).toarray())
        return np.asarray(square, np.float64)


class _Mix:
    """Random sums, with random signs, of the rows of clusters: as many as there are clusters, or fewer."""

    def __init__(self, clusters: int, rows: int) -> None:
        self.rows, rng = rows, np.random.default_rng(0)
        whole = rows >= clusters
        self.row = np.arange(clusters) if whole else rng.permutation(np.arange(clusters) % max(rows, 1))
        self.sign = np.ones(clusters) if whole else rng.choice([-1.0, 1.0], clusters)

    def at(self, clusters: Ints) -> csr_array:
        """Return (rows, len(clusters)) what makes the random sums of some clusters."""
        entries = self.sign[clusters], (self.row[clusters], np.arange(len(clusters)))
        return csr_array(entries, shape=(self.rows, len(clusters)))

    def of(self, values: csr_array) -> csr_array:
        """Return (rows, ...) the random sums of values (clusters, ...)."""
        return csr_array(self.at(np.arange(len(self.row))) @ values)

    def empty(self, columns: int) -> Floats:
        """Return a factor of zeros."""
        return np.zeros((self.rows, columns), np.float32 if self.rows * columns > _SINGLE else np.float64)

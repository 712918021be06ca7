"""The verdicts of a group of contexts, and the clusters they fall into.

The atoms are *cells*: the records of one voter at one context. Contexts and voters are both sets of cells, so that sums
over either are sums of what cells own: their corrections, and of the plug-in part of the context their records' share.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Bools, Floats, Ints, bin_sums, distinct, runs
from nasheval.payoff.estimand import Estimand

Cluster = Literal["context", "voter", "both"]
CLUSTERS: tuple[Cluster, ...] = get_args(Cluster)
FEW = 20  # clusters; with fewer, standard errors are themselves uncertain, and voters are taken for a panel


class Votes:
    """The verdicts and records of a group of n contexts.

    `rows` are its verdicts, as rows of the estimand, and `records` its records. Of each of its records, `place` is the
    place of its context in the group, `voter` who voted (every record without a known voter has its own; those known by
    name are below `named`), and `mass` how much it counts at its context, whose records sum to one.
    """

    def __init__(self, estimand: Estimand, inside: Bools) -> None:
        log, self.estimand = estimand.log, estimand
        self.contexts = np.flatnonzero(inside)
        self.n = len(self.contexts)
        sizes = np.diff(log.context_offsets)[self.contexts].astype(np.int64)
        self.records, self.place = runs(log.context_offsets[self.contexts], sizes), np.repeat(np.arange(self.n), sizes)
        first, last = estimand.starts[self.contexts], estimand.starts[self.contexts + 1]
        self.rows = runs(first, (last - first).astype(np.int64))
        voter, weight = log.records.voter, log.records.weights[self.records]
        self.voter, self.named = voter_labels(None if voter is None else voter[self.records], len(self.records))
        self.mass = weight / bin_sums(self.place, weight, self.n)[self.place]

    @cached_property
    def n_voters(self) -> int:
        """Number of voters of the group that are known by name."""
        return len(np.unique(self.voter[self.voter < self.named]))

    @cached_property
    def all_voters(self) -> int:
        """Number of voters, those without a name each one of their own."""
        return len(np.unique(self.voter))

    @cached_property
    def count(self) -> Ints:
        """(C,) verdicts of each column."""
        return np.bincount(self.estimand.column[self.rows], minlength=self.estimand.n_columns)

    @cached_property
    def corrections(self) -> tuple[Ints, Floats]:
        """(v,) twice: the column of each verdict, and what it adds."""
        return self.estimand.column[self.rows], self.estimand.correction[self.rows]

    @property
    def own_contexts(self) -> bool:
        """Whether each context of the group has one voter, known by name, and some voters have several contexts."""
        each = len(self.cells(True).place) == self.n and bool((self.voter < self.named).all())
        return each and self.n > self.n_voters

    def cells(self, by_voter: bool) -> Cells:
        """Return the cells of the group; where voters do not matter, whole contexts."""
        return Cells(self, by_voter)

    def certainty(self, by: Cluster) -> tuple[Floats, Floats]:
        """Return (C,) twice: effective clusters that observed each column, and degrees of freedom of its error.

        A variance is a sum of squares c_i^2 over clusters, and Satterthwaite's degrees of freedom are 2 V^2 / Var(V) of
        it: as many as clusters for normal c_i, more for votes that are all about as surprising, fewer where some count
        for much more. Four times the effective clusters but one are the most, and one less than the contexts of the
        group, which the plug-in part has. Voters, of whom there may be few, count for the effective number less one.
        """
        rows, estimand = self.rows, self.estimand
        effective, freedom = [], []
        for kind in ("context", "voter") if by == "both" else (by,):
            label = estimand.context[rows] if kind == "context" else self.voter[self.record_of_row]
            values = estimand.column[rows], estimand.correction[rows], estimand.weight[rows]
            _, clusters, satterthwaite = cluster_sums(label, *values, estimand.n_columns)
            effective.append(clusters)
            most = np.minimum(4 * (clusters - 1), self.n - 1)
            freedom.append(np.minimum(satterthwaite, most) if kind == "context" else clusters - 1)
        return np.min(effective, axis=0), np.min(freedom, axis=0)

    @cached_property
    def record_of_row(self) -> Ints:
        """(v,) the place, among the records of the group, of the record of each verdict."""
        return np.searchsorted(self.records, self.estimand.record[self.rows])


class Cells:
    """The cells of a group: `place` of its context, `voter`, `mass` there, and `of_row`, the cell of each verdict.

    A context without a record is a cell of nobody's. `named` says whose voter is known by name.
    """

    def __init__(self, votes: Votes, by_voter: bool) -> None:
        self.votes = votes
        if not by_voter:
            self.place = np.arange(votes.n)
            self.mass: Floats = np.ones(votes.n)
            self.of_row, self.voter = votes.place[votes.record_of_row], np.zeros(votes.n, np.int64)
            self.named = np.zeros(votes.n, bool)
            return
        voter = np.unique(votes.voter, return_inverse=True)[1]
        bare = np.setdiff1d(np.arange(votes.n), votes.place)
        nobody = int(voter.max(initial=-1)) + 1 + np.arange(len(bare))
        base = int(voter.max(initial=-1)) + 1 + len(bare)
        key = np.concatenate([votes.place * np.int64(base) + voter, bare * np.int64(base) + nobody])
        cell, at = np.unique(key, return_inverse=True)
        self.place, self.voter = cell // base, cell % base
        self.mass = bin_sums(at, np.concatenate([votes.mass, np.ones(len(bare))]), len(cell))
        self.of_row = at[votes.record_of_row]
        self.named = np.zeros(len(cell), bool)
        self.named[at[: len(voter)]] = votes.voter < votes.named

    def corrections(self, label: Ints, size: int) -> csr_array:
        """Return (size, C) the corrections of the group, summed over the cells of each label; -1: left out."""
        (column, correction), at = self.votes.corrections, label[self.of_row]
        kept = at >= 0
        entries = correction[kept], (at[kept], column[kept])
        return csr_array(entries, shape=(size, self.votes.estimand.n_columns))


def cluster_sums(
    label: Ints, column: Ints, correction: Floats, weight: Floats, size: int
) -> tuple[Floats, Floats, Floats]:
    """Sum verdicts over the clusters of their labels, column by column; return (size,) each.

    That is the sum over clusters of the squared sums of their corrections; the effective number (Kish) of clusters, by
    the weight of their verdicts; and the degrees of freedom (Satterthwaite) of the first.
    """
    place = distinct(label)[1]
    key, cell = distinct(place * np.int64(size) + column)
    column = key % size
    mass, sums = bin_sums(cell, weight, len(key)), bin_sums(cell, correction, len(key))
    total, square = (bin_sums(column, mass**power, size) for power in (1, 2))
    second, fourth = (bin_sums(column, sums**power, size) for power in (2, 4))
    spread = fourth - second**2 / np.maximum(np.bincount(column, minlength=size), 1)
    sure = spread <= 1e-12 * second**2
    return (
        second,
        np.divide(total**2, square, out=np.zeros(size), where=square > 0),
        np.where(sure, np.inf, 2 * second**2 / np.where(sure, 1.0, spread)),
    )


def voter_labels(voter: Ints | None, n_records: int) -> tuple[Ints, int]:
    """Return a voter for each record, unknown ones all different, and how many numbers the known ones take."""
    if voter is None:
        return np.arange(n_records), 0
    known = int(voter.max(initial=-1)) + 1
    return np.where(voter >= 0, voter, known + np.arange(n_records)), known

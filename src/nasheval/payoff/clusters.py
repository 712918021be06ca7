"""Means of Gamma over groups of contexts, and the covariance of those means under clustering.

Contexts are sampled, so a context is a cluster: its Gamma holds all its records. Voters may be clusters too, and whom
an interval speaks for decides (`Speaks`):

* "population": voters are a sample of others like them. Everything a voter brings is related: answers, and the contexts
  the voter came with. So the whole Gamma is clustered, each record owning its share of the plug-in part of its context,
  and the covariance is that of Cameron, Gelbach and Miller (2011), context + voter - (context, voter), raised to that
  of contexts alone wherever it falls below. With few voters Student's t has one degree of freedom less than voters.
* "panel": these very voters, no others. Where each brought contexts of their own, these are drawn voter by voter, and
  the covariance is that within voters.

Where contexts are very few (13 prompts with thousands of votes each) they are taken as fixed, the target is the mean
over just those contexts, and voters are the clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Bools, Floats, Ints, bin_sums, runs
from nasheval.choices import Speaks as Speaks
from nasheval.errors import InputError
from nasheval.feedback.links import BRIDGED, SEEN
from nasheval.notes import Note
from nasheval.payoff.bridging import ELSEWHERE, Tangent, pair_matrix, weakest_link
from nasheval.payoff.estimand import CELLS, Estimand

Cluster = Literal["context", "voter", "both"]
CLUSTERS: tuple[Cluster, ...] = get_args(Cluster)
SPEAKS: tuple[Speaks, ...] = get_args(Speaks)
FEW = 20  # clusters; with fewer, standard errors are themselves uncertain, and voters are taken for a panel


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean Gamma of a group of contexts.

    Args:
        mean: (n_pairs,) the one-step estimate (Eq. payoff-one-step).
        covariance: (n_pairs, n_pairs) of the mean.
        effective: (n_pairs,) effective number (Kish) of clusters that observed the pair.
        freedom: (n_pairs,) degrees of freedom of each standard error (`_Votes.freedom`). 0 or less: the votes say
            nothing on how uncertain that mean is.
        votes: (n_pairs,) verdicts of each pair in the group.
        status: (n_pairs,) seen, bridged, unknown or elsewhere (`nasheval.payoff.bridging`).
        bias: (n_pairs,) how far raised propensities could have moved the mean.
        n_contexts: contexts in the group that have a pseudo-outcome.
        n_clusters: clusters; the smaller number where there are two kinds.
        cluster: by what.
        panel: how many named voters the intervals speak for, and no others; 0 where they speak for the population.
    """

    mean: Floats
    covariance: Floats
    effective: Floats
    freedom: Floats
    votes: Ints
    status: Ints
    bias: Floats
    n_contexts: int
    n_clusters: int
    cluster: Cluster
    panel: int = 0

    @property
    def error(self) -> Floats:
        """(n_pairs,) standard errors."""
        return np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))

    def floored(self, stake: Floats | float = 1.0) -> Moments:
        """Return the same with errors no smaller than unanimous votes leave them.

        A thousand votes without a single upset have no spread, but do not say that there are no upsets. The least
        error is that of Agresti and Coull (1998), two votes for and two against added: 2 sqrt(2) / (votes + 4), for
        means of verdicts in [-1, 1]. It holds where the mean is so near its limit that as many independent votes would
        have a smaller error; elsewhere the spread speaks for itself. For votes count the effective clusters.

        Args:
            stake: (n_pairs,) or a number: the most that a mean can differ from zero, such as the share of contexts at
                which two policies differ.
        """
        votes = np.maximum(self.effective, 1)
        least = stake * 2 * np.sqrt(2) / (votes + 4)
        spread = np.maximum(stake**2 - self.mean**2, 0.0) / votes
        return replace(self, covariance=_at_least(self.covariance, np.where(spread < least**2, least**2, 0.0)))


def group_moments(
    estimand: Estimand, code: Ints, n_groups: int, cluster: Cluster | None = None, speaks: Speaks | None = None
) -> list[Moments]:
    """Return the moments of each group.

    Args:
        code: (n_contexts,) the group of each context, -1 for none.
        cluster: by what, or None to decide (`chosen_cluster`) in each group.
        speaks: for whom, or None to decide in each group: a panel below 20 named voters, else the population.
    """
    if cluster is not None and cluster not in CLUSTERS:
        raise InputError(f"cluster is {cluster!r}; accepted are {', '.join(map(repr, CLUSTERS))}, or None to choose.")
    if speaks is not None and speaks not in SPEAKS:
        raise InputError(f"voters is {speaks!r}; accepted are {', '.join(map(repr, SPEAKS))}, or None to choose.")
    return [_moments(estimand, estimand.used & (code == g), cluster, speaks) for g in range(n_groups)]


def chosen_cluster(n_contexts: int, n_voters: int, speaks: Speaks | None = None) -> Cluster:
    """Return what to cluster by: contexts for a panel of voters; for a population both, or voters if contexts are few.

    Args:
        n_voters: voters known by name.
        speaks: None: for the population where there are 20 voters or more.
    """
    if n_voters < 2 or speaks == "panel" or (speaks is None and n_voters < FEW):
        return "context"
    return "both" if n_contexts >= FEW else "voter"


def _moments(estimand: Estimand, inside: Bools, cluster: Cluster | None, speaks: Speaks | None) -> Moments:
    contexts = np.flatnonzero(inside)
    if not len(contexts):
        raise InputError("A group has no context with a pseudo-outcome; give a group with at least one record.")
    votes = _Votes(estimand, inside)
    by = cluster or chosen_cluster(len(contexts), votes.n_voters, speaks)
    if by != "context" and not votes.n_voters:
        raise InputError(f"cluster is {by!r}, and this log names no voters; use cluster='context'.")
    sums = _Sums(votes, by)
    for chunk, plugin in estimand.plugin(contexts):
        sums.add(chunk, plugin)
    effective, freedom = votes.certainty(by)
    status = np.where((estimand.status == SEEN) & (votes.count == 0), ELSEWHERE, estimand.status)
    return Moments(
        mean=sums.mean,
        covariance=sums.covariance(),
        effective=_bridged(effective, status, estimand),
        freedom=_bridged(freedom, status, estimand),
        votes=votes.count,
        status=status,
        bias=estimand.bias(contexts),
        n_contexts=len(contexts),
        n_clusters={"context": votes.n, "voter": votes.all_voters, "both": min(votes.n, votes.all_voters)}[by],
        cluster=by,
        panel=votes.n_voters if by == "context" else 0,
    )


def cluster_notes(n_clusters: int, cluster: Cluster, panel: int) -> Iterator[Note]:
    """Say what standard errors rest on, and for whom intervals speak; of group payoffs and of contests alike."""
    if n_clusters < FEW:
        yield Note(f"{n_clusters} clusters (by {cluster}): standard errors are rough below {FEW}", "few-clusters")
    if cluster == "voter":
        yield Note("few contexts: they are taken as fixed, with voters as clusters", "fixed-contexts")
    if panel:
        yield Note(
            f"intervals speak for these {panel} voters, not for others like them; voters='population' "
            "(--voters population) widens them to that",
            "panel",
        )


def _bridged(numbers: Floats, status: Ints, estimand: Estimand) -> Floats:
    """Return numbers of effective clusters, or the like, with those of bridged pairs: the weakest link of a path."""
    if estimand.bridge is None:
        return numbers
    K = estimand.log.n_agents
    links = pair_matrix(np.where(status == SEEN, np.maximum(numbers, 0.0), 0.0), K)
    return np.where(status == BRIDGED, weakest_link(links)[np.triu_indices(K, 1)], numbers)


def _raised(covariance: Floats, least: Floats) -> Floats:
    """Return the nearest covariance without negative directions, its variances raised to at least those given."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    if values[0] < 0:
        covariance = (vectors * np.maximum(values, 0)) @ vectors.T
    return _at_least(covariance, least)


def _at_least(covariance: Floats, least: Floats) -> Floats:
    """Return the covariance with its variances raised to at least those given, correlations kept."""
    variance = covariance.diagonal()
    scale = np.sqrt(np.maximum(least, variance) / np.where(variance > 0, variance, 1))
    raised: Floats = covariance * np.outer(scale, scale)
    np.fill_diagonal(raised, np.maximum(least, variance))
    return raised


# -- the verdicts of a group ------------------------------------------------------------------------------------------


class _Votes:
    """The verdicts and records of a group of n contexts.

    `rows` are its verdicts, as rows of the estimand, and `records` its records. Of each record of the log, `voter` is
    who voted (every record without a known voter has its own; those known by name are below `named`), and `mass` how
    much it counts at its context, whose records sum to one. `n_voters` voters of the group are known by name.
    """

    def __init__(self, estimand: Estimand, inside: Bools) -> None:
        log = estimand.log
        self.estimand, self.n = estimand, int(inside.sum())
        self.rows, self.records = np.flatnonzero(inside[estimand.context]), np.flatnonzero(inside[log.context_of])
        self.voter, self.named = voter_labels(log.records.voter, log.n_records)
        total = np.bincount(log.context_of, log.records.weights, log.n_contexts)
        self.mass = log.records.weights / total[log.context_of]
        self.n_voters = int((np.unique(self.voter[self.records]) < self.named).sum())

    @cached_property
    def count(self) -> Ints:
        """(C,) verdicts of each column."""
        return np.bincount(self.estimand.column[self.rows], minlength=self.estimand.n_columns)

    @property
    def own_contexts(self) -> bool:
        """Whether each context of the group has one voter, known by name, and some voters have several contexts."""
        context, voter = self.estimand.log.context_of[self.records], self.voter[self.records]
        cells = np.unique(context.astype(np.int64) * (int(self.voter.max(initial=0)) + 1) + voter)
        each = len(cells) == self.n and bool((voter < self.named).all())
        return each and self.n > self.n_voters

    @cached_property
    def all_voters(self) -> int:
        """Number of voters, those without a name each one of their own."""
        return len(np.unique(self.voter[self.records]))

    def certainty(self, by: Cluster) -> tuple[Floats, Floats]:
        """Return (C,) twice: effective clusters that observed each column, and degrees of freedom of its error.

        A variance is a sum of squares c_i^2 over clusters, and Satterthwaite's degrees of freedom are 2 V^2 / Var(V) of
        it: as many as clusters for normal c_i, more for votes that are all about as surprising, fewer where some count
        for much more. Four times the effective clusters but one are the most. Voters, of whom there may be few, count
        for the effective number less one.
        """
        rows, estimand = self.rows, self.estimand
        labels = {"context": estimand.context[rows], "voter": self.voter[estimand.record[rows]]}
        effective, freedom = [], []
        for kind in labels if by == "both" else (by,):
            values = estimand.column[rows], estimand.correction[rows], estimand.weight[rows]
            _, clusters, satterthwaite = cluster_sums(labels[kind], *values, estimand.n_columns)
            effective.append(clusters)
            freedom.append(np.minimum(satterthwaite, 4 * (clusters - 1)) if kind == "context" else clusters - 1)
        return np.min(effective, axis=0), np.min(freedom, axis=0)


def cluster_sums(
    label: Ints, column: Ints, correction: Floats, weight: Floats, size: int
) -> tuple[Floats, Floats, Floats]:
    """Sum verdicts over the clusters of their labels, column by column; return (size,) each.

    That is the sum over clusters of the squared sums of their corrections; the effective number (Kish) of clusters, by
    the weight of their verdicts; and the degrees of freedom (Satterthwaite) of the first.
    """
    place = np.unique(label, return_inverse=True)[1]
    key, cell = np.unique(place * np.int64(size) + column, return_inverse=True)
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


# -- sums over clusters -----------------------------------------------------------------------------------------------


class _Sums:
    """Sums and cross-products of Gamma over contexts, voters, and both, from one pass over a group's contexts.

    A voter owns the corrections of its records, and of the plug-in part of each context its records' share; where
    contexts are fixed, the corrections alone, less what the context's mean correction would give it.
    """

    def __init__(self, votes: _Votes, by: Cluster) -> None:
        size = votes.estimand.n_columns
        self.votes, self.by, self.n = votes, by, votes.n
        self.total, self.cross = np.zeros(size), np.zeros((size, size))
        self.strata = by == "context" and 0 < votes.n_voters < FEW and votes.own_contexts
        people = votes.named if by != "context" or self.strata else 0
        self.of_voter, self.mass = np.zeros((people, size)), np.zeros(people)
        self.cells, self.leaning, self.square = np.zeros((size, size)), np.zeros(size), 0.0
        self.alone = np.zeros((size, size))

    def add(self, contexts: Ints, plugin: Floats) -> None:
        """Add some contexts, given f(mu) there, (len(contexts), n_pairs)."""
        estimand = self.votes.estimand
        bridge = estimand.bridge
        tangent = None if bridge is None else bridge.at(plugin)
        correction = estimand.corrections[contexts].toarray()
        if tangent is not None and bridge is not None:
            plugin = plugin.copy()
            plugin[:, bridge.pairs] = tangent.values
            correction[:, bridge.pairs] = tangent.moved(np.arange(len(contexts)), correction)
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

    def _of_voters(self, contexts: Ints, tangent: Tangent | None) -> Iterator[tuple[Ints, Ints, Floats, Floats]]:
        """Yield of each (context, voter): place of the context, voter, mass, and (cells, n_pairs) corrections."""
        estimand, log, bridge = self.votes.estimand, self.votes.estimand.log, self.votes.estimand.bridge
        sizes = np.diff(log.context_offsets)[contexts].astype(np.int64)
        records = runs(log.context_offsets[contexts], sizes)
        place = np.repeat(np.arange(len(contexts)), sizes)
        base = int(self.votes.voter.max(initial=0)) + 1
        cell, at = np.unique(place * np.int64(base) + self.votes.voter[records], return_inverse=True)
        mass = bin_sums(at, self.votes.mass[records], len(cell))
        starts = np.searchsorted(estimand.record, [records, records + 1])
        rows, owner = runs(starts[0], starts[1] - starts[0]), np.repeat(at, starts[1] - starts[0])
        shape = len(cell), estimand.n_columns
        sparse = csr_array((estimand.correction[rows], (owner, estimand.column[rows])), shape=shape)
        step = max(1, CELLS // max(1, estimand.n_columns))
        for start in range(0, len(cell), step):
            block = slice(start, start + step)
            own, there = sparse[block].toarray(), cell[block] // base
            if tangent is not None and bridge is not None:
                own[:, bridge.pairs] = tangent.moved(there, own)
            yield there, cell[block] % base, mass[block], own

    def _add_voters(self, voter: Ints, mass: Floats, own: Floats) -> None:
        known = voter < self.votes.named
        np.add.at(self.of_voter, voter[known], own[known])
        self.mass += np.bincount(voter[known], mass[known], len(self.mass))
        self.cells += own[known].T @ own[known]
        self.leaning += mass[known] @ own[known]
        self.square += float(mass[known] @ mass[known])
        self.alone += own[~known].T @ own[~known]

    @property
    def mean(self) -> Floats:
        """(n_pairs,) mean Gamma; that of a bridged pair, which is no mean of votes, within [-1, 1]."""
        mean, bridge = self.total / self.n, self.votes.estimand.bridge
        if bridge is not None:
            mean[bridge.pairs] = np.clip(mean[bridge.pairs], -1.0, 1.0)
        return mean

    def covariance(self) -> Floats:
        """Return the covariance of the mean."""
        n, mean = self.n, self.mean
        voters = self.votes.all_voters
        unbiased = voters / max(voters - 1, 1)
        if self.by == "voter":
            return (self.of_voter.T @ self.of_voter + self.alone) * unbiased / n**2
        if self.strata:
            within = self.cross - (self.of_voter / np.maximum(self.mass, 1)[:, None]).T @ self.of_voter
            return within / (n * max(n - self.votes.n_voters, 1))
        covariance = (self.cross - n * np.outer(mean, mean)) / (n * max(n - 1, 1))
        if self.by == "context":
            return covariance
        between = self._centred(
            self.of_voter.T @ self.of_voter, self.mass @ self.of_voter, float(self.mass @ self.mass)
        )
        cells = self._centred(self.cells, self.leaning, self.square)
        return _raised(covariance + (between * unbiased - cells) / n**2, covariance.diagonal())

    def _centred(self, cross: Floats, leaning: Floats, square: float) -> Floats:
        """Return the cross-products of sums less mass times the mean."""
        outer = np.outer(leaning, self.mean)
        return cross - outer - outer.T + square * np.outer(self.mean, self.mean)

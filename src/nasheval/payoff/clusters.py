"""Means of Gamma over groups of contexts, and the covariance of those means under clustering.

Contexts are sampled, so a context is a cluster: its Gamma holds all its records. Where the same voters answer at many
contexts, their answers are related as well; then the covariance is that of Cameron, Gelbach and Miller (2011),
context + voter - (context, voter), raised to that of contexts alone wherever it falls below. Where contexts are very
few (13 prompts with thousands of votes each) they are taken as fixed, the target is the mean over just those contexts,
and voters are the clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Bools, Floats, Ints
from nasheval.errors import InputError
from nasheval.payoff.pseudo import PseudoOutcomes

Cluster = Literal["context", "voter", "both"]
CLUSTERS: tuple[Cluster, ...] = get_args(Cluster)
FEW = 20  # clusters; with fewer, standard errors are themselves uncertain


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean Gamma of a group of contexts.

    Args:
        mean: (n_pairs,) the one-step estimate (Eq. payoff-one-step).
        covariance: (n_pairs, n_pairs) of the mean.
        freedom: (n_pairs,) degrees of freedom of each standard error: the effective number (Kish) of clusters that
            observed the pair, less one. 0 or less: the votes say nothing on how uncertain that mean is.
        votes: (n_pairs,) verdicts of each pair in the group.
        n_contexts: contexts in the group that have a pseudo-outcome.
        n_clusters: clusters; the smaller number where there are two kinds.
        cluster: by what.
    """

    mean: Floats
    covariance: Floats
    freedom: Floats
    votes: Ints
    n_contexts: int
    n_clusters: int
    cluster: Cluster

    @property
    def error(self) -> Floats:
        """(n_pairs,) standard errors."""
        return np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))

    def of_verdicts(self) -> Moments:
        """Return the same for means of verdicts in [-1, 1], with errors no smaller than votes of one mind leave them.

        A thousand votes without a single upset have no spread, but do not say that there are no upsets. The least
        error is that of Agresti and Coull (1998), two votes for and two against added: 2 sqrt(2) / (votes + 4).
        """
        least = 2 * np.sqrt(2) / (np.maximum(self.freedom, 0) + 5)
        return replace(self, covariance=_at_least(self.covariance, least**2))


def group_moments(pseudo: PseudoOutcomes, code: Ints, n_groups: int, cluster: Cluster | None) -> list[Moments]:
    """Return the moments of each group, from one pass over the contexts.

    Args:
        code: (n_contexts,) the group of each context, -1 for none.
        cluster: by what, or None to decide (`chosen_cluster`) in each group.
    """
    if cluster is not None and cluster not in CLUSTERS:
        raise InputError(f"cluster is {cluster!r}; accepted are {', '.join(map(repr, CLUSTERS))}, or None to choose.")
    size = pseudo.n_pairs
    count, total, cross = np.zeros(n_groups, np.int64), np.zeros((n_groups, size)), np.zeros((n_groups, size, size))
    for contexts, gamma in pseudo.chunks(np.flatnonzero(pseudo.used & (code >= 0))):
        for group in np.unique(code[contexts]):
            part = gamma[code[contexts] == group]
            count[group] += len(part)
            total[group] += part.sum(axis=0)
            cross[group] += part.T @ part
    return [_moments(pseudo, code == g, int(count[g]), total[g], cross[g], cluster) for g in range(n_groups)]


def _moments(
    pseudo: PseudoOutcomes, inside: Bools, n: int, total: Floats, cross: Floats, cluster: Cluster | None
) -> Moments:
    if n == 0:
        raise InputError("A group has no context with a pseudo-outcome; give a group with at least one record.")
    mean = total / n
    votes = _Votes.of(pseudo, inside, n)
    by = cluster or chosen_cluster(n, votes.n_voters)
    if by != "context" and not votes.n_voters:
        raise InputError(f"cluster is {by!r}, and this log names no voters; use cluster='context'.")
    covariance = (cross - n * np.outer(mean, mean)) / (n * max(n - 1, 1))
    if by == "both":
        covariance = _raised(covariance + votes.between_contexts(), covariance.diagonal())
    elif by == "voter":
        covariance = votes.within_contexts()
    freedom, n_clusters = votes.freedom(by)
    return Moments(mean, covariance, freedom, votes.count(), n, n_clusters, by)


def chosen_cluster(n_contexts: int, n_voters: int) -> Cluster:
    """Return what to cluster by: voters count where there are 20 or more, contexts are fixed where there are fewer."""
    if n_voters < FEW:
        return "context"
    return "both" if n_contexts >= FEW else "voter"


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
    found: Floats = covariance * np.outer(scale, scale)
    np.fill_diagonal(found, np.maximum(least, variance))
    return found


@dataclass(frozen=True, eq=False)
class _Votes:
    """The verdicts of a group, each with its share of the group's mean Gamma.

    Args:
        context, voter, pair: (v,) where from; every record without a known voter has a voter of its own.
        part: (v,) correction / n.
        weight: (v,) w |df/du| / e.
        record_context, record_voter, mass: (records,) the same of each record, and how much it counts at its context.
        n: contexts of the group.
        n_voters: voters known by name.
    """

    pseudo: PseudoOutcomes
    context: Ints
    voter: Ints
    pair: Ints
    part: Floats
    weight: Floats
    record_context: Ints
    record_voter: Ints
    mass: Floats
    n: int
    n_voters: int

    @staticmethod
    def of(pseudo: PseudoOutcomes, inside: Bools, n: int) -> _Votes:
        log = pseudo.fit.log
        records = np.flatnonzero(inside[log.context_of])
        rows = np.flatnonzero(inside[pseudo.context])
        voter, n_voters = voter_labels(log.records.voter, log.n_records)
        mass = log.records.weights[records]
        if log.design == "draws":
            mass = mass / np.bincount(log.context_of[records], mass, log.n_contexts)[log.context_of[records]]
        known = np.unique(voter[records])
        return _Votes(
            pseudo, pseudo.context[rows], voter[pseudo.record[rows]], pseudo.pair[rows], pseudo.correction[rows] / n,
            (pseudo.share * np.abs(pseudo.slope))[rows], log.context_of[records], voter[records], mass, n,
            int((known < n_voters).sum()),
        )  # fmt: skip

    def count(self) -> Ints:
        return np.bincount(self.pair, minlength=self.pseudo.n_pairs)

    def between_contexts(self) -> Floats:
        """Return what voters who answer at several contexts add to the covariance: voter - (context, voter)."""
        base = int(self.record_voter.max(initial=0)) + 1
        verdict = self.context.astype(np.int64) * base + self.voter
        record = self.record_context.astype(np.int64) * base + self.record_voter
        centre = np.bincount(self.pair, self.part, self.pseudo.n_pairs) / self.mass.sum()
        return self._crossed(self.voter, self.record_voter, centre) - self._crossed(verdict, record, centre)

    def _crossed(self, label: Ints, record_label: Ints, centre: Floats) -> Floats:
        """Return the cross-products, (n_pairs, n_pairs), of cluster sums of part - mass * centre, never dense."""
        names, place = np.unique(record_label, return_inverse=True)
        mass = np.bincount(place, self.mass, len(names))
        sums = csr_array(
            (self.part, (np.searchsorted(names, label), self.pair)), shape=(len(names), self.pseudo.n_pairs)
        )
        leaning = np.outer(sums.T @ mass, centre)
        found = (sums.T @ sums).toarray() - leaning - leaning.T + (mass @ mass) * np.outer(centre, centre)
        return np.asarray(found * len(names) / max(len(names) - 1, 1))

    def within_contexts(self) -> Floats:
        """Return the covariance where contexts are fixed: cross-products of voters' sums, centred at each context.

        With design "inclusion" whether a menu was asked is random as well; then nothing is centred, on the safe side.
        """
        names, place = np.unique(self.record_voter, return_inverse=True)
        rows = np.searchsorted(names, self.voter)
        sums = csr_array((self.part, (rows, self.pair)), shape=(len(names), self.pseudo.n_pairs)).toarray()
        if self.pseudo.fit.log.design == "draws":
            contexts, column = np.unique(self.record_context, return_inverse=True)
            mass = csr_array((self.mass, (place, column)), shape=(len(names), len(contexts)))
            sums -= mass @ self.pseudo.corrections[contexts].toarray() / self.n
        return np.asarray(sums.T @ sums) * len(names) / max(len(names) - 1, 1)

    def freedom(self, by: Cluster) -> tuple[Floats, int]:
        """Return the effective number of clusters that observed each pair, less one, and the number of clusters."""
        kinds = {"context": (self.context,), "voter": (self.voter,), "both": (self.context, self.voter)}[by]
        effective = [self._effective(label) for label in kinds]
        count = {"context": self.n, "voter": len(np.unique(self.record_voter))}
        count["both"] = min(count.values())
        return np.min(effective, axis=0) - 1, count[by]

    def _effective(self, label: Ints) -> Floats:
        """Return (sum a)^2 / sum a^2 of each pair, over the total weight a of each cluster."""
        place = np.unique(label, return_inverse=True)[1]
        key, cell = np.unique(place * np.int64(self.pseudo.n_pairs) + self.pair, return_inverse=True)
        weight, pair = np.bincount(cell, self.weight, len(key)), key % self.pseudo.n_pairs
        total, square = (np.bincount(pair, weight**power, self.pseudo.n_pairs) for power in (1, 2))
        return np.divide(total**2, square, out=np.zeros(self.pseudo.n_pairs), where=square > 0)


def voter_labels(voter: Ints | None, n_records: int) -> tuple[Ints, int]:
    """Return a voter for each record, unknown ones all different, and how many numbers the known ones take."""
    if voter is None:
        return np.arange(n_records), 0
    known = int(voter.max(initial=-1)) + 1
    return np.where(voter >= 0, voter, known + np.arange(n_records)), known

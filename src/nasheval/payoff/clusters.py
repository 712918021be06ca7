"""Means of Gamma over groups of contexts, and how uncertain they are under clustering.

Contexts are sampled, so a context is a cluster: its Gamma holds all its records. Voters may be clusters too, and whom
an interval speaks for decides (`Speaks`):

* "population": voters are a sample of others like them. Everything a voter brings is related: answers, and the contexts
  the voter came with. So the whole Gamma is clustered, each record owning its share of the plug-in part of its context,
  and the variance is that of Cameron, Gelbach and Miller (2011), context + voter - (context, voter), raised to that
  of contexts alone wherever it falls below. With few voters Student's t has one degree of freedom less than voters.
* "panel": these very voters, no others. Where each brought contexts of their own, these are drawn voter by voter, and
  the variance is that within voters.

Where contexts are very few (13 prompts with thousands of votes each) they are taken as fixed, the target is the mean
over just those contexts, and voters are the clusters.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.choices import Speaks as Speaks
from nasheval.errors import InputError
from nasheval.feedback.links import BRIDGED, SEEN
from nasheval.notes import Note
from nasheval.payoff.adjusted import widened
from nasheval.payoff.bridging import ELSEWHERE, pair_matrix, weakest_link
from nasheval.payoff.estimand import Estimand
from nasheval.payoff.grouped import CLUSTERS, FEW, Cluster, Votes
from nasheval.payoff.variances import factor_rows, spread_of

SPEAKS: tuple[Speaks, ...] = get_args(Speaks)
_NO_SPREAD = 0.05  # of the error that unanimous votes leave: what rounding and regularised models leave of none
_ROWS = 64  # of a factor, the least that draws are worth
_FACTORS = 1 << 27  # numbers in the factors of all groups together, where that leaves enough rows


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean Gamma of a group of contexts.

    Args:
        mean: (n_pairs,) the one-step estimate (Eq. payoff-one-step).
        variance: (n_pairs,) of the mean.
        factor: (H, n_pairs) whose columns have length one, or zero for a mean that moves with no other: normal numbers
            (B, H) times it are draws of (mean - truth) / error (`nasheval.payoff.variances`).
        effective: (n_pairs,) effective number (Kish) of clusters that observed the pair.
        freedom: (n_pairs,) degrees of freedom of each standard error (`Votes.certainty`). 0 or less: the votes say
            nothing on how uncertain that mean is.
        votes: (n_pairs,) verdicts of each pair in the group.
        status: (n_pairs,) seen, bridged, unknown or elsewhere (`nasheval.payoff.bridging`).
        bias: (n_pairs,) how far raised propensities could have moved the mean.
        n_contexts: contexts in the group that have a pseudo-outcome.
        n_clusters: clusters; the smaller number where there are two kinds.
        cluster: by what.
        panel: how many named voters the intervals speak for, and no others; 0 where they speak for the population.
        stake: (n_pairs,) or a number: the most that a mean can differ from zero.
    """

    mean: Floats
    variance: Floats
    factor: Floats
    effective: Floats
    freedom: Floats
    votes: Ints
    status: Ints
    bias: Floats
    n_contexts: int
    n_clusters: int
    cluster: Cluster
    panel: int = 0
    stake: Floats | float = 1.0

    @property
    def error(self) -> Floats:
        """(n_pairs,) standard errors."""
        return np.sqrt(self.variance)

    @property
    def error_about_mean(self) -> Floats:
        """(n_pairs,) standard errors as Student's t is made for: of squares about their mean.

        Ours are squares about the outcome model's value, which with n votes are larger by a share 1 / n if the model is
        right. A share n^-1.25 is taken off, which leaves a little more to pairs of about twenty votes; the power was
        chosen on logs that no figure in the docs is of.
        """
        if self.cluster != "context":
            return self.error
        return np.where(self.status == SEEN, np.sqrt(1 - np.maximum(self.effective, 1) ** -1.25), 1.0) * self.error

    def floored(self, stake: Floats | float = 1.0) -> Moments:
        """Return the same with errors no smaller than unanimous votes leave them.

        A thousand votes without a single upset have no spread, but do not say that there are no upsets. The least
        error is that of Agresti and Coull (1998), two votes for and two against added: 2 sqrt(2) / (votes + 4), for
        means of verdicts in [-1, 1]. It holds where the mean is so near its limit that as many independent votes would
        have a smaller error; elsewhere the spread speaks for itself, unless there is none: a thousand ties do not say
        either that there are no wins. For votes count the effective clusters.

        Args:
            stake: (n_pairs,) or a number: the most that a mean can differ from zero, such as the share of contexts at
                which two policies differ.
        """
        votes = np.maximum(self.effective, 1)
        least = stake * 2 * np.sqrt(2) / (votes + 4)
        spread = np.maximum(stake**2 - self.mean**2, 0.0) / votes
        none = (self.status == SEEN) & (self.variance < (_NO_SPREAD * least) ** 2)
        variance = np.maximum(self.variance, np.where((spread < least**2) | none, least**2, 0.0))
        return replace(self, variance=variance, stake=stake)


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
    rows = _rows(estimand.n_columns, n_groups)
    return [_moments(estimand, estimand.used & (code == g), cluster, speaks, rows) for g in range(n_groups)]


def chosen_cluster(n_contexts: int, n_voters: int, speaks: Speaks | None = None) -> Cluster:
    """Return what to cluster by: contexts for a panel of voters; for a population both, or voters if contexts are few.

    Args:
        n_voters: voters known by name.
        speaks: None: for the population where there are 20 voters or more.
    """
    if n_voters < 2 or speaks == "panel" or (speaks is None and n_voters < FEW):
        return "context"
    return "both" if n_contexts >= FEW else "voter"


def _rows(columns: int, n_groups: int) -> int:
    """Return the rows of each group's factor, fewer for many groups; raise where even few are too many to hold."""
    memory, needed = _memory(), 4 * _ROWS * columns * n_groups
    if needed > memory / 2:
        raise InputError(
            f"The draws of {columns:,} means in {n_groups:,} groups need {needed / 2**30:.2g} GB, and this machine has "
            f"{memory / 2**30:.2g} GB; group by a column of fewer values, or leave agents out (keep_agents)."
        )
    return max(_ROWS, min(factor_rows(columns), _FACTORS // max(1, columns * n_groups)))


def _memory() -> int:
    """Return the bytes of memory of this machine; 16 GB where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 34


def _moments(estimand: Estimand, inside: Bools, cluster: Cluster | None, speaks: Speaks | None, rows: int) -> Moments:
    if not inside.any():
        raise InputError("A group has no context with a pseudo-outcome; give a group with at least one record.")
    votes = Votes(estimand, inside)
    by = cluster or chosen_cluster(votes.n, votes.n_voters, speaks)
    if by != "context" and not votes.n_voters:
        raise InputError(f"cluster is {by!r}, and this log names no voters; use cluster='context'.")
    spread, (effective, freedom) = spread_of(votes, by, rows), votes.certainty(by)
    status = np.where((estimand.status == SEEN) & (votes.count == 0), ELSEWHERE, estimand.status)
    spread = spread if estimand.effects is None else widened(spread, votes, by)
    return Moments(
        mean=spread.mean,
        variance=spread.variance,
        factor=spread.factor,
        effective=_bridged(effective, status, estimand),
        freedom=_bridged(freedom, status, estimand),
        votes=votes.count,
        status=status,
        bias=estimand.bias(votes.contexts),
        n_contexts=votes.n,
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
            f"intervals speak for {'this one voter' if panel == 1 else f'these {panel} voters'}, not for others like "
            f"{'it' if panel == 1 else 'them'}; voters='population' "
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

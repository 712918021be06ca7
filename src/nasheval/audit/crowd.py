"""Every vote beside what the crowd would say: what audits of voters, judges and blocs start from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit

from nasheval.arrays import Bools, Floats, Ints, bin_sums, readonly
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.payoff.stage1 import Stage1

_BINS = 10  # of |mu|, in each of which the share of ties is counted
_MOST = 4.0  # log odds beyond which no vote is foretold: a surer prediction would make a single vote decide
_STEPS = 25  # of Newton's method


@dataclass(frozen=True, eq=False)
class Crowd:
    """The pair verdicts of a log with what a cross-fitted model expects of each; v of them, in the log's order.

    Of a ballot on s > 2 agents only s // 2 pairs are kept, no two of which share an agent, so that a ballot never
    counts as several votes on one agent.

    Args:
        log: the log, whole.
        record: (v,) its record.
        voter: (v,) voter numbers as in the log, -1 where nobody is named.
        j, k: (v,) the agents, j < k.
        z: (v,) -1, 0 or 1: which of the two the vote is for.
        mu: (v,) what the outcome model expects, by a fold that did not hold the vote's context.
        tie: (v,) the chance of a zero verdict, given |mu|.
        logit: (v,) log odds that a decided vote is for j, calibrated.
        by_voter: whether folds hold voters whole, so that mu has seen no vote of the voter it is of.
    """

    log: Feedback
    record: Ints
    voter: Ints
    j: Ints
    k: Ints
    z: Ints
    mu: Floats
    tie: Floats
    logit: Floats
    by_voter: bool

    def __len__(self) -> int:
        return len(self.z)

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the K agents."""
        return self.log.agents

    @cached_property
    def n_voters(self) -> int:
        """How many voter numbers there are; some may have no vote."""
        return 0 if self.log.voters is None else len(self.log.voters)

    @property
    def context(self) -> Ints:
        """(v,) the context of each."""
        return self.log.context_of[self.record]

    @cached_property
    def chance(self) -> Floats:
        """(v,) that a decided vote is for j."""
        return readonly(expit(self.logit))

    @cached_property
    def decided(self) -> Bools:
        """(v,) whether the vote is for one of the two."""
        return readonly(self.z != 0)

    @cached_property
    def named(self) -> Crowd:
        """The votes of voters who are named."""
        return self.at(self.voter >= 0)

    @cached_property
    def votes(self) -> Ints:
        """(n_voters,) records of each voter."""
        voter = self.log.records.voter
        known = np.zeros(0, np.int64) if voter is None else voter[voter >= 0]
        return readonly(np.bincount(known, minlength=self.n_voters))

    def names(self, voters: Ints) -> list[str]:
        """Return the names of some voters."""
        return [] if self.log.voters is None else [str(name) for name in self.log.voters.take(voters).to_pylist()]

    def at(self, rows: Bools | Ints) -> Crowd:
        """Return some of the verdicts."""
        columns = ("record", "voter", "j", "k", "z", "mu", "tie", "logit")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    def sides(self) -> Iterator[tuple[Ints, int]]:
        """Yield each side of every verdict: (v,) its agents, and 1 for j, -1 for k."""
        yield from ((self.j, 1), (self.k, -1))


def crowd_of(stage1: Stage1, *, seed: int = 0) -> Crowd:
    """Return the votes of a fitted model's log beside what the rest would say.

    Args:
        seed: which pairs of a ballot on more than two agents are kept.
    """
    if not isinstance(stage1, Stage1):
        raise InputError(f"stage1 is a {type(stage1).__name__}; accepted is the stage1_ of a fitted model.")
    stage1 = stage1.as_voted
    log, mu = stage1.log, np.asarray(stage1.nuisances.mu, np.float64)  # ballots cut into pairs keep their order
    verdicts = log.verdicts
    rows = _disjoint(log, np.random.default_rng(seed))
    z, mu = np.sign(verdicts.z[rows]).astype(np.int8), mu[rows]
    record = verdicts.record[rows]
    tie = _ties(z, mu)
    voter = log.records.voter
    return Crowd(
        log=log,
        record=record,
        voter=np.full(len(rows), -1, np.int32) if voter is None else voter[record],
        j=verdicts.j[rows].astype(np.int64),
        k=verdicts.k[rows].astype(np.int64),
        z=z,
        mu=mu,
        tie=tie,
        logit=_calibrated(z, mu, tie),
        by_voter=len(log.sole_voters) > 0 and log.n_units == len(np.unique(log.sole_voters)),
    )


def _disjoint(log: Feedback, rng: np.random.Generator) -> Ints:
    """Return the rows of verdicts that are kept: of each record s // 2 pairs at random, no two with an agent in common.

    A Luce ranking's verdicts on disjoint pairs are independent.
    """
    sizes = log.records.sizes.astype(np.int64)
    if not len(sizes) or sizes.max() == 2:
        return np.arange(len(log.verdicts))
    first = np.concatenate([[0], np.cumsum(sizes * (sizes - 1) // 2)])
    kept = []
    for size in np.unique(sizes).tolist():
        records = np.flatnonzero(sizes == size)
        place = rng.permuted(np.tile(np.arange(size), (len(records), 1)), axis=1)
        left, right = np.triu_indices(size, 1)
        partners = place[:, left] // 2 == place[:, right] // 2
        kept.append((first[records][:, None] + np.arange(len(left)))[partners])
    return np.sort(np.concatenate(kept))


def _ties(z: Ints, mu: Floats) -> Floats:
    """Return (v,) the share of zero verdicts among those with about as large a |mu|."""
    if not (z == 0).any():
        return np.zeros(len(z))
    size = np.abs(mu)
    edges = np.unique(np.quantile(size, np.linspace(0, 1, _BINS + 1)[1:-1]))
    place = np.searchsorted(edges, size, side="right")
    count = np.bincount(place, minlength=len(edges) + 1)
    share = (bin_sums(place, (z == 0).astype(float), len(count)) + 0.5) / (count + 1)
    return np.minimum(share[place], 0.98)


def _calibrated(z: Ints, mu: Floats, tie: Floats) -> Floats:
    """Return (v,) log odds for j of decided votes: those of mu, times the factor under which votes are likeliest."""
    raw = 2 * np.arctanh(np.clip(mu / (1 - tie), -0.98, 0.98))
    decided = z != 0
    x, y = raw[decided], (z[decided] > 0).astype(float)
    slope = 1.0
    for _ in range(_STEPS):
        p = expit(slope * x)
        curvature = float((p * (1 - p) * x**2).sum()) + 1e-3
        slope = float(np.clip(slope + ((y - p) @ x - 1e-3 * (slope - 1)) / curvature, 0.0, 3.0))
    return np.clip(slope * raw, -_MOST, _MOST)

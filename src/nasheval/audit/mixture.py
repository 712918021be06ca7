"""Voters as a mixture of blocs: each bloc has a taste, its voters differ from it by degrees.

The votes of voter u say of its taste d, (D,), about c + b'd - d'H d / 2 (their log likelihood around an estimate of d).
In bloc t tastes are normal around m_t with variance s^2 in every direction, the same in all blocs. So a crowd whose
tastes differ by degrees alone is one wide bloc, and several blocs are found only where tastes clump.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, logsumexp

from nasheval.arrays import Bools, Floats, Ints, bin_sums
from nasheval.audit.crowd import Crowd

_PRIOR = 1.0  # variance of the tastes that estimates are shrunk by
_NEWTON = 6
_ROUNDS, _CLOSE = 200, 1e-4  # of EM; gain in log likelihood per voter at which it ends
_LEAST, _MOST = 0.01, 4.0  # of s^2
_STARTS = 3


@dataclass(frozen=True, eq=False)
class Tastes:
    """Votes as quadratics in their voters' tastes; n voters, D directions of taste.

    Args:
        c: (n,) log likelihoods at zero.
        b: (n, D) slopes.
        H: (n, D, D) curvatures.
    """

    c: Floats
    b: Floats
    H: Floats

    def __add__(self, other: Tastes) -> Tastes:
        return Tastes(self.c + other.c, self.b + other.b, self.H + other.H)

    def __len__(self) -> int:
        return len(self.b)

    @cached_property
    def axes(self) -> tuple[Floats, Floats]:
        """(n, D) and (n, D, D) eigenvalues and eigenvectors of H."""
        values, vectors = np.linalg.eigh(self.H)
        return np.maximum(values, 0.0), vectors


@dataclass(frozen=True, eq=False)
class Mixture:
    """Blocs: log shares (T,), tastes (T, D), and the variance of tastes within a bloc."""

    log_share: Floats
    mean: Floats
    variance: float

    def __len__(self) -> int:
        return len(self.mean)

    def evidence(self, tastes: Tastes) -> Floats:
        """Return (n, T) log likelihoods of voters' votes in each bloc, shares counted in."""
        return _Solved.of(tastes, self.variance).evidence(self)

    def chances(self, tastes: Tastes) -> Floats:
        """Return (n, T) the chance of each voter to belong to each bloc."""
        evidence = self.evidence(tastes)
        return np.exp(evidence - logsumexp(evidence, axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Solved:
    """What does not change with the blocs, given s^2.

    Args:
        inverse: (n, D, D) of H + I / s^2.
        trace: (n,) of it.
        log_det: (n,) log det (I + s^2 H).
    """

    tastes: Tastes
    variance: float
    inverse: Floats
    trace: Floats
    log_det: Floats

    @classmethod
    def of(cls, tastes: Tastes, variance: float) -> _Solved:
        values, vectors = tastes.axes
        shrunk = 1 / (values + 1 / variance)
        inverse = (vectors * shrunk[:, None]) @ np.swapaxes(vectors, 1, 2)
        return cls(tastes, variance, inverse, shrunk.sum(axis=1), np.log1p(variance * values).sum(axis=1))

    def evidence(self, mixture: Mixture) -> Floats:
        slope = self.tastes.b[:, None] + mixture.mean / self.variance
        fit = np.einsum("ntd,ntd->nt", slope, self.centres(mixture))
        penalty = (mixture.mean**2).sum(axis=1) / self.variance
        return self.tastes.c[:, None] + (fit - penalty - self.log_det[:, None]) / 2 + mixture.log_share

    def centres(self, mixture: Mixture) -> Floats:
        """Return (n, T, D) the expected taste of each voter in each bloc."""
        slope = self.tastes.b[:, None] + mixture.mean / self.variance
        return slope @ self.inverse


def fit_mixture(tastes: Tastes, T: int, seed: int = 0) -> tuple[Mixture, float]:
    """Return the likeliest of several fits of T blocs by the EM algorithm, and its log likelihood."""
    fits = [_fit(tastes, _start(tastes, T, seed + i)) for i in range(_STARTS if T > 1 else 1)]
    return max(fits, key=lambda fit: fit[1])


def criterion(log_likelihood: float, T: int, n_voters: int, free: int) -> float:
    """Return BIC, higher is better: what T blocs with `free` directions of taste gain over what they cost."""
    return log_likelihood - T * (free + 1) * np.log(max(n_voters, 2)) / 2


def _start(tastes: Tastes, T: int, seed: int) -> Mixture:
    """Return blocs around voters that are far apart (k-means++), and two rounds of k-means."""
    rng, eye = np.random.default_rng(seed), np.eye(tastes.b.shape[1])
    own = np.linalg.solve(tastes.H + eye / _PRIOR, tastes.b[..., None])[..., 0]
    centre = own[rng.integers(len(own))][None]
    while len(centre) < T:
        away = ((own[:, None] - centre) ** 2).sum(axis=2).min(axis=1) + 1e-12
        centre = np.vstack([centre, own[rng.choice(len(own), p=away / away.sum())]])
    for _ in range(5):
        nearest = ((own[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
        centre = np.stack([own[nearest == t].mean(axis=0) if (nearest == t).any() else centre[t] for t in range(T)])
    return Mixture(np.full(T, -np.log(T)), centre if T > 1 else own.mean(axis=0)[None], 0.2)


def _fit(tastes: Tastes, mixture: Mixture) -> tuple[Mixture, float]:
    before, D = -np.inf, tastes.b.shape[1]
    for _ in range(_ROUNDS):
        solved = _Solved.of(tastes, mixture.variance)
        evidence = solved.evidence(mixture)
        total = float(logsumexp(evidence, axis=1).sum())
        if total - before < _CLOSE * len(tastes):
            break
        before = total
        belief = np.exp(evidence - logsumexp(evidence, axis=1, keepdims=True))
        centres = solved.centres(mixture)
        size = belief.sum(axis=0) + 0.5
        mean = np.einsum("nt,ntd->td", belief, centres) / size[:, None]
        rest = np.einsum("nt,ntd->", belief, (centres - mean) ** 2) + solved.trace.sum()
        variance = float(np.clip(rest / (len(tastes) * D), _LEAST, _MOST))
        mixture = Mixture(np.log(size / size.sum()), mean, variance)
    return mixture, before


# -- from votes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Votes:
    """Decided votes as rows of a regression of logits on tastes.

    Args:
        voter: (v,) from 0 to n_voters - 1.
        plus, minus: (v, f) directions of taste that speak for a vote for j, and for k.
        offset: (v,) log odds for j that the crowd gives.
        won: (v,) whether the vote is for j.
        n_voters, D: how many voters and directions.
    """

    voter: Ints
    plus: Ints
    minus: Ints
    offset: Floats
    won: Bools
    n_voters: int
    D: int

    @classmethod
    def of(cls, crowd: Crowd, K: int, voter: Ints, n_voters: int, group: Ints | None = None, groups: int = 0) -> Votes:
        """Return the votes of a crowd on K agents, with tastes that depend on a group of contexts or do not."""
        plus, minus = crowd.j[:, None], crowd.k[:, None]
        if group is not None:
            plus, minus = (np.hstack([side, side + K * (1 + group[:, None])]) for side in (plus, minus))
        return cls(voter, plus, minus, crowd.logit, crowd.z > 0, n_voters, K * (1 + groups))

    def at(self, rows: Bools) -> Votes:
        """Return some of the votes."""
        columns = ("voter", "plus", "minus", "offset", "won")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    def around(self, d: Floats) -> Tastes:
        """Return the quadratics of the votes around tastes d, (n_voters, D)."""
        own, n, D = self.voter[:, None], self.n_voters, self.D
        logit = self.offset + d[own, self.plus].sum(axis=1) - d[own, self.minus].sum(axis=1)
        p = expit(logit)
        rest, curved = self.won - p, p * (1 - p)
        slopes, curves = np.zeros(n * D), np.zeros(n * D * D)
        sides = [(column, 1.0) for column in self.plus.T] + [(column, -1.0) for column in self.minus.T]
        base = self.voter.astype(np.int64) * D
        for one, sign in sides:
            slopes += bin_sums(base + one, sign * rest, n * D)
            for other, second in sides:
                curves += bin_sums((base + one) * D + other, sign * second * curved, n * D * D)
        H, b = curves.reshape(n, D, D), slopes.reshape(n, D)
        said = -np.logaddexp(0.0, np.where(self.won, -logit, logit))
        moved = np.einsum("nde,ne->nd", H, d)
        c = bin_sums(self.voter, said, n) - ((b + moved / 2) * d).sum(axis=1)
        return Tastes(c, b + moved, H)

    def estimates(self) -> Floats:
        """Return (n_voters, D) tastes of each voter alone, shrunk to zero."""
        d, eye = np.zeros((self.n_voters, self.D)), np.eye(self.D) / _PRIOR
        for _ in range(_NEWTON):
            tastes = self.around(d)
            step = np.linalg.solve(tastes.H + eye, tastes.b[..., None])[..., 0] - d
            d = d + np.clip(step, -2.0, 2.0)
        return d


def held_out(votes: Votes, T: int, seed: int) -> Floats:
    """Return (n_voters,) how much better T blocs than one foretell half of each voter's votes from the other, in logs.

    Both halves are foretold; each is worth half.
    """
    half, gain = _halves(votes.voter, np.random.default_rng(seed)), np.zeros(votes.n_voters)
    for side in (half, ~half):
        learn, foretell = votes.at(side), votes.at(~side)
        d = learn.estimates()
        known, new = learn.around(d), foretell.around(d)
        for blocs, sign in ((T, 0.5), (1, -0.5)):
            mixture, _ = fit_mixture(known, blocs, seed)
            both, first = (logsumexp(mixture.evidence(each), axis=1) for each in (known + new, known))
            gain += sign * (both - first)
    return gain


def _halves(voter: Ints, rng: np.random.Generator) -> Bools:
    """Return (v,) a random half of each voter's votes."""
    order = np.lexsort((rng.random(len(voter)), voter))
    count = np.bincount(voter)
    place = np.arange(len(voter)) - np.repeat(np.cumsum(count) - count, count)
    half = np.zeros(len(voter), bool)
    half[order] = (place + rng.integers(2, size=len(count))[voter[order]]) % 2 == 0
    return half

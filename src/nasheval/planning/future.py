"""What the mean payoffs of a group would look like with more votes: drawn from what is known of them today.

A future is a log of `times` as many votes, contexts and voters that were asked and came as those so far did. Of each
pair it draws how many votes it has, from a Poisson law about today's share (shrunk toward that of the other pairs, as
Gamma-Poisson counts are); how large their squared residuals are, today's being shrunk likewise and falling with the
share of them that a better outcome model will explain; how heavy their weights are, which estimated propensities make
too heavy while votes are few; the truth, from today's mean shrunk toward the plug-in; and the mean. What comes out are
`Moments`, so that every rule of today, intervals, decisions and cycles, is asked of a future as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.stats import norm

from nasheval.arrays import Bools, Floats, bin_sums
from nasheval.feedback.links import BRIDGED, SEEN
from nasheval.payoff.bridging import ELSEWHERE
from nasheval.payoff.clusters import Moments
from nasheval.payoff.inference import GroupPayoff
from nasheval.payoff.intervals import critical_value, known_means, limits
from nasheval.payoff.pseudo import PseudoOutcomes

_FEW = 5.0  # degrees of freedom that all pairs together count for, beside those of a pair
_SURE = 10  # degrees of freedom from which on the variance of a pair speaks for itself
EVEN = 4.0  # degrees of freedom per vote at most, as in `nasheval.payoff.grouped`
_FEW_TO_LEARN = 10.0  # votes of a pair, below which its propensities are hardly learned
_SETTLING = 2.0  # power of votes with which weights that estimated propensities got wrong come right
_TINY = 1e-9
_UNKNOWN = 0.3  # deviation of true payoffs where no votes tell any
_MOST = 0.99  # of a payoff: nobody is unanimous for sure


@dataclass(frozen=True, eq=False)
class Pairs:
    """What today's votes say of each pair, (P,) all of it, shrunk toward the other pairs where votes are few.

    Args:
        today: mean payoffs of the group.
        votes: how many of each pair are expected of as many votes again.
        square: mean square of a verdict's residual.
        weight: weight of a verdict, a root of a mean square, times the share of the votes, once there are enough votes
            to learn propensities from: 1 where propensities are the shares.
        excess: how much its square is larger today.
        rest: the part of the variance of the mean that is not of single verdicts: contexts, and voters.
        truth, spread: mean and standard deviation of what the mean payoff may truly be.
        freedom: degrees of freedom of a variance per effective vote, of today's few and of many.
        per_vote: effective votes per vote.
        known: whether propensities are known; else they follow the votes.
        kept: whether a future holds today's votes; else `today` is a guess, and has none.
        fixed: the part of a variance that more votes do not lower: that of voters who stay the same.
        voters: who stay the same; 0: none, others like them come along with the votes.
    """

    today: GroupPayoff
    votes: Floats
    square: Floats
    weight: Floats
    excess: Floats
    rest: Floats
    truth: Floats
    spread: Floats
    freedom: tuple[float, float]
    per_vote: Floats
    known: bool
    kept: bool = True
    fixed: float = 0.0
    voters: int = 0

    @property
    def moments(self) -> Moments:
        """Today's."""
        return self.today.moments

    @property
    def doubt(self) -> float:
        """Relative standard error of a mean width: standard errors rest on few votes, and pairs share contexts."""
        known = known_means(self.moments)
        if not known.any():
            return 0.0
        variance = float(np.mean(2 / np.maximum(self.moments.freedom[known], 1.0)))
        return float(np.sqrt(variance / max(len(self.today.agents) / 2, 1)) / 2)

    @cached_property
    def critical(self) -> tuple[float, int]:
        """The critical value of all pairs together, and how many pairs it is of."""
        seen = known_means(self.moments) & (self.moments.status == SEEN)
        return critical_value([self.moments], self.today.confidence, self.today.seed, only=seen), int(seen.sum())


def pairs_of(pseudo: PseudoOutcomes, payoff: GroupPayoff) -> Pairs:
    """Return what the votes of a group say of each pair."""
    moments, sums = payoff.moments, _Sums.of(pseudo, payoff)
    known = known_means(moments)
    expected, square = _shrunk_counts(sums.count), sums.residual(moments.freedom)
    weight, excess = sums.weights(expected, moments, known=pseudo.fit.is_known)
    noise = square * (weight**2 + excess) / np.maximum(expected, _TINY)  # variance of a mean of so many votes
    truth, spread = _truth(payoff, _plugin(pseudo, payoff.inside), noise, _of_agents(expected, square, payoff))
    return Pairs(
        today=payoff,
        votes=expected,
        square=square,
        weight=weight,
        excess=excess,
        rest=_rest(moments, sums.square / moments.n_contexts**2, known),
        truth=truth,
        spread=spread,
        freedom=_freedom(moments, known, sums.freedom),
        per_vote=np.divide(moments.effective, sums.count, out=np.ones(len(known)), where=sums.count > 0),
        known=pseudo.fit.is_known,
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the verdicts of each pair in a group, (P,) each: one, weight, squares of weight and of correction.

    And `freedom`, degrees of freedom per vote where there are many, if residuals of all pairs are alike.
    """

    count: Floats
    mass: Floats
    heavy: Floats
    square: Floats
    freedom: float

    @classmethod
    def of(cls, pseudo: PseudoOutcomes, payoff: GroupPayoff) -> _Sums:
        """Return them."""
        estimand, P = pseudo.estimand, pseudo.n_pairs
        rows = np.flatnonzero(payoff.inside[estimand.context])
        pair, weight, correction = estimand.column[rows], estimand.weight[rows], estimand.correction[rows]
        count = np.bincount(pair, minlength=P).astype(float)
        mass, heavy, square_sum = (bin_sums(pair, values, P) for values in (weight, weight**2, correction**2))
        square = (correction / np.where(weight > 0, weight, 1.0)) ** 2
        variance = float(square.var()) if len(square) else 0.0
        freedom = float(2 * square.mean() ** 2 / variance) if variance > 0 else EVEN
        return cls(count, mass, heavy, square_sum, min(freedom, EVEN))

    def residual(self, freedom: Floats) -> Floats:
        """Return the mean square of a residual of each pair, shrunk toward that of all where few votes weigh."""
        own = np.divide(self.square, self.heavy, out=np.zeros(len(self.count)), where=self.heavy > 0)
        return _toward_all(own, freedom)

    def weights(self, expected: Floats, moments: Moments, *, known: bool) -> tuple[Floats, Floats]:
        """Return (weight, excess) as `Pairs` has them; those of pairs without any votes are usual.

        Weights of estimated propensities sum to the contexts, but for those of a pair that is not asked everywhere, to
        less. More says that propensities were too small where the pair was asked, and less may be chance.
        """
        n, root = moments.n_contexts, np.sqrt(self.heavy / np.maximum(self.count, 1))
        if known:  # a pair's weight is what it is, however many votes the pair happens to have
            return np.where(self.count > 0, root * expected / n, 1.0), np.zeros(len(root))
        asked, mass = self.mass > 0, np.maximum(self.mass / n, _TINY)
        today: Floats = (root * self.count / n) ** 2
        right = today * (np.minimum(mass + 2 * np.sqrt(self.heavy) / n, 1.0) / mass) ** 2
        settled = _toward_all(right, np.where(asked, moments.freedom, 0.0))
        return np.sqrt(settled), np.where(asked, today - settled, 0.0)


def _toward_all(own: Floats, freedom: Floats) -> Floats:
    """Return what is found of each pair, shrunk toward the mean where it has few degrees of freedom; 1: it has none."""
    pooled = (freedom * own).sum() / freedom.sum() if freedom.sum() > 0 else 1.0
    return np.asarray((freedom * own + _FEW * pooled) / (freedom + _FEW))


def _freedom(moments: Moments, known: Bools, many: float) -> tuple[float, float]:
    """Return the degrees of freedom per effective vote today and later: few votes look more alike than they are."""
    told = known & (moments.effective > 3) & (moments.freedom > 0)
    few = float(1 / np.mean((moments.effective[told] - 1) / moments.freedom[told])) if told.any() else many
    return few, min(few, many)


def _rest(moments: Moments, single: Floats, known: Bools) -> Floats:
    """Return (P,) what of a variance is not of single verdicts; the mean of it where a pair's votes are few."""
    rest, sure = np.maximum(moments.variance - single, 0.0), known & (moments.freedom >= _SURE)
    return np.where(sure, rest, np.mean(rest[sure]) if sure.any() else 0.0)


def _shrunk_counts(count: Floats) -> Floats:
    """Return (P,) expected votes, given counts whose expectations are Gamma distributed, but for pairs never asked.

    A pair without a vote is one that is asked as others are with the chance that so many of these have none by luck.
    """
    asked = count > 0
    if not asked.any():
        return count
    seen, rate = float(count[asked].mean()), float(count[asked].mean())
    for _ in range(50):  # the mean of a Poisson law whose positive counts have this mean
        rate = seen * -np.expm1(-rate)
    lucky = asked.sum() * np.exp(-rate) / max(-np.expm1(-rate), 1e-9)
    none = int((~asked).sum())
    share = min(1.0, lucky / none) if none else 0.0
    among = asked.sum() + share * none
    mean = count.sum() / among
    excess = max((count**2).sum() / among - mean**2 - mean, 0.0)
    shape = mean**2 / excess if excess > 0 else np.inf
    expected = np.full(len(count), mean) if np.isinf(shape) else (count + shape) / (1 + shape / mean)
    return np.asarray(np.where(asked, expected, share * expected))


def _plugin(pseudo: PseudoOutcomes, inside: Bools) -> Floats:
    """Return (P,) the mean plug-in over the contexts of a group, or over some of them."""
    contexts = np.flatnonzero(inside & pseudo.used)
    contexts = contexts[:: max(1, len(contexts) * pseudo.n_pairs // (1 << 22))]
    total = np.zeros(pseudo.n_pairs)
    for _, values in pseudo.estimand.plugin(contexts):
        total += values.sum(axis=0)
    return total / len(contexts)


def _truth(payoff: GroupPayoff, plugin: Floats, variance: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Return (P,) mean and deviation of the true payoffs: the means, shrunk toward the plug-in where votes are few.

    How far truths are from the plug-in is told by the means (Efron and Morris). The plug-in is learned from the same
    votes, and pools them over the pairs of an agent at best: `least` is the variance that this leaves it. So a mean of
    many votes keeps its own error, and one of few has what the plug-in's may be.
    """
    moments = payoff.moments
    known = known_means(moments) & (moments.status == SEEN)
    if not known.any():
        return np.clip(plugin, -_MOST, _MOST), np.full(len(plugin), _UNKNOWN)
    v = np.maximum(moments.variance, variance / 2)[known]
    off, weight = (moments.mean - plugin)[known], 1 / v**2
    apart = max(float((weight * (off**2 - v)).sum() / weight.sum()), 0.0)
    own, prior = np.where(known, np.maximum(moments.variance, variance / 2), np.inf), apart + least
    keep = prior / (prior + own)
    mean = np.where(known, plugin + keep * (moments.mean - plugin), plugin)
    return np.clip(mean, -_MOST, _MOST), np.sqrt(np.minimum(own, prior))


def _of_agents(votes: Floats, square: Floats, payoff: GroupPayoff) -> Floats:
    """Return (P,) the variance of a pair's payoff that all votes of its two agents together leave."""
    j, k = np.triu_indices(len(payoff.agents), 1)
    each = np.bincount(j, votes, len(payoff.agents)) + np.bincount(k, votes, len(payoff.agents))
    return np.asarray(square * (1 / np.maximum(each[j], 1) + 1 / np.maximum(each[k], 1)))


@dataclass(frozen=True, eq=False)
class Futures:
    """What some futures come to, drawn independently of each other.

    Args:
        candidates: (K,) the agents that are there.
        mean: (R, P) estimated mean payoffs.
        low, high: (R, P) ends of the intervals that hold for all pairs of a future together.
    """

    candidates: Bools
    mean: Floats
    low: Floats
    high: Floats


def futures(pairs: Pairs, times: float, count: int, seed: int, *, gain: float = 0.0) -> Futures:
    """Draw futures; those of the same seed share their draws, whatever else is different.

    Args:
        times: how many times as many votes; 1 or more where today's are kept.
        count: how many futures.
        gain: share of the squared residuals that a model of so many votes explains in addition.
    """
    moments = _moments(pairs, times, (count, len(pairs.votes)), np.random.default_rng(seed), gain)
    known = known_means(moments)
    seen, critical = known & (moments.status == SEEN), np.full(len(known), np.inf)
    share, of = pairs.critical
    tail = norm.sf(share) * of if of else (1 - pairs.today.confidence) / 2
    for these, together in ((known & ~seen, known), (seen, seen)):  # as in `GroupPayoff.interval`
        told = together.reshape(count, -1).sum(axis=1)
        level = norm.isf(np.minimum(tail / np.maximum(told, 1), (1 - pairs.today.confidence) / 2))
        critical[these] = np.repeat(level, len(pairs.votes))[these]
    low, high = limits(moments, critical)
    ends = (np.clip(each, -1, 1).reshape(count, -1) for each in (low, high))
    return Futures(pairs.today.present, moments.mean.reshape(count, -1), *ends)


def _moments(pairs: Pairs, times: float, shape: tuple[int, int], rng: np.random.Generator, gain: float) -> Moments:
    """Return the moments of futures, all of them in one row."""
    today, draws = pairs.moments, [rng.standard_normal(shape) for _ in range(2)]
    kept = 1 / times if pairs.kept else 0.0  # the share of the votes that are today's
    truth = np.clip(pairs.truth + pairs.spread * draws[0], -_MOST, _MOST)
    expected = np.maximum(pairs.votes * times, _TINY)
    settled = ((pairs.votes + _FEW_TO_LEARN) / (expected + _FEW_TO_LEARN)) ** _SETTLING
    square = pairs.square * (1 - gain) * (pairs.weight**2 + pairs.excess * settled)
    constant = pairs.rest / times + pairs.fixed
    noise = (square / expected + constant) / max(1 - kept, 1e-9)
    old = np.where(known_means(today) & (today.status == SEEN), today.mean, truth)
    mean = kept * old + (1 - kept) * (truth + np.sqrt(noise) * draws[1])
    count = today.votes + rng.poisson(pairs.votes * times * (1 - kept), shape)
    effective = pairs.per_vote * count
    few, many = pairs.freedom
    each = 1 / (kept / few + (1 - kept) / many)
    freedom = np.minimum(each * (effective - 1), today.n_contexts * times - 1)
    if pairs.voters:
        effective, freedom = np.minimum(effective, pairs.voters), np.minimum(freedom, pairs.voters - 1.0)
    half = np.maximum(freedom, 1) / 2
    share = count / expected**2 if pairs.known else 1 / np.maximum(count, 1)
    variance = square * share * rng.gamma(half) / half + constant
    columns = np.broadcast_to(today.bias, shape), np.broadcast_to(today.status, shape)
    bridged = known_means(today) & (today.status == BRIDGED) & (count == 0)  # their errors are those of scores
    if bridged.any():
        moved = np.sqrt(today.variance * max(1 - 1 / times, 0.0)) * draws[1]
        mean = np.where(bridged, today.mean + moved, mean)
        variance, effective = np.where(bridged, today.variance / times, variance), np.where(bridged, 1.0, effective)
        freedom = np.where(bridged, np.minimum(today.freedom * times, today.n_contexts * times - 1), freedom)
    told = (count > 0) | bridged
    return replace(
        today,
        mean=mean.ravel(),
        variance=np.where(told, variance, 0.0).ravel(),
        effective=effective.ravel(),
        freedom=np.where(told, freedom, 0.0).ravel(),
        votes=count.ravel(),
        bias=columns[0].ravel(),
        status=np.where(count > 0, SEEN, np.where(columns[1] == SEEN, ELSEWHERE, columns[1])).ravel(),
    ).floored()

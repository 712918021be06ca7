"""Intervals for several means together: the multiplier bootstrap, with Student's t where clusters are few.

Given the data, the Gaussian multiplier bootstrap of means, sum_i xi_i (value_i - mean) / n, is exactly normal. Its
draws are normal numbers times the factor of `nasheval.payoff.variances`, so that clusters of any kind enter alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm, t

from nasheval.arrays import Bools, Floats, Ints, as_number
from nasheval.errors import InputError
from nasheval.feedback.links import SEEN
from nasheval.payoff.clusters import Moments
from nasheval.payoff.estimand import CELLS

_DRAWS = 10_000  # for signs, with few means
_LEAST_DRAWS = 2_000  # with many
_NUMBERS = 1 << 23  # in all draws, unless that is too few draws
_LEAST_GIVEN, _MOST_GIVEN = 400, 10_000  # draws for critical values, each given one mean
_CACHED = 1 << 16  # numbers that stay in the processor's cache
_CLOSE, _TINY = 1e-4, 1e-12  # how close a critical value is found; the least chance
_WIDEST = 1e9  # standard errors: no interval is wider
_REACH = np.linspace(0.0, 6.5, 131)  # normal values between which Student's t is interpolated
_FREEDOM = np.logspace(-1, 6, 225)  # degrees of freedom likewise


def known_means(moments: Moments) -> Bools:
    """Return (means,) those of which the votes tell how uncertain they are."""
    return (moments.freedom > 0) & (moments.error > 0)


def draws_for(means: int) -> int:
    """Return how many draws the signs of so many means rest on.

    The quantile of a largest statistic of thousands varies little: of 2,000 draws by 0.02 or less.
    """
    return int(np.clip(_NUMBERS // max(means, 1), _LEAST_DRAWS, _DRAWS))


def studentised_draws(
    moments: Moments, draws: int, rng: np.random.Generator, *, only: Bools | None = None, most: int = CELLS
) -> Iterator[Floats]:
    """Yield (some draws, known means) bootstrap draws of (mean - truth) / error, each standard normal, until enough.

    Args:
        only: (means,) which of the known means; None: all.
        most: draws yielded at a time.
    """
    yield from _drawn(_reduced(moments, only), draws, rng, most)


def _reduced(moments: Moments, only: Bools | None) -> Floats:
    """Return the factor of some means, with no more rows than twice the means."""
    factor = moments.factor[:, known_means(moments) if only is None else only]
    if len(factor) >= 2 * factor.shape[1]:  # draws of a few means take as many normal numbers, not one for each row
        factor = np.asarray(np.linalg.qr(factor, mode="r"))
    return factor


def _drawn(factor: Floats, draws: int, rng: np.random.Generator, most: int = CELLS) -> Iterator[Floats]:
    alone = ~factor.any(axis=0)  # moves with no other mean, and has an error by its floor alone
    step = min(most, max(1, CELLS // max(1, *factor.shape)))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        normal = rng.standard_normal((size, len(factor)), np.float64).astype(factor.dtype) @ factor
        if alone.any():
            normal[:, alone] = rng.standard_normal((size, int(alone.sum())))
        yield normal


def critical_value(family: Sequence[Moments], confidence: float, seed: int, *, only: Bools | None = None) -> float:
    """Return the quantile of the largest |mean - truth| / error over all known means, on the normal scale.

    Args:
        family: sets of means, drawn independently of each other. Where they are not independent (groups of contexts
            that share voters), the value is on the safe side, by the Gaussian correlation inequality.
        only: (means,) which of the known means of each set; None: all.
    """
    rng, error = np.random.default_rng(seed), 1 - confidence
    factors = [_reduced(moments, only) for moments in family]
    sets = [_Largest.of(factor, rng) for factor in factors if factor.shape[1]]
    total = sum(one.normal.shape[1] for one in sets)
    if total <= 1:
        return float(norm.isf(error / 2)) if total else float("inf")

    def excess(c: float) -> float:
        return float(np.log1p(-np.prod([1 - one.beyond(c) for one in sets]).clip(0, 1 - _TINY)) - np.log(error))

    ends = norm.isf([error / 2, error / (2 * total)])  # of one mean alone, and of means of which no two go beyond
    low, high = (excess(c) for c in ends)
    return float(ends[0] if low <= 0 else ends[1] if high >= 0 else brentq(excess, *ends, xtol=_CLOSE))


@dataclass(frozen=True, eq=False)
class _Largest:
    """How likely the largest of m standard normal means Z is to go beyond c, from few draws (Adler, Blanchet and Liu).

    P(max |Z| > c) is the sum over the means p of P(|Z_p| > c) times the mean of 1 / N given that, with N the number of
    means beyond c. Given |Z_p| > c, N hardly varies where draws of the largest itself are beyond c once in a hundred.

    Args:
        normal: (B, m) draws.
        along: (B, m) how far each mean moves with the mean p of its draw; p takes its turn among all.
        at: (B,) p.
        tail: (B,) in (0, 1): where beyond c it is put.
    """

    normal: Floats
    along: Floats
    at: Ints
    tail: Floats

    @classmethod
    def of(cls, factor: Floats, rng: np.random.Generator) -> _Largest:
        """Return it, given the factor of the draws, (H, m)."""
        means = factor.shape[1]
        draws = int(np.clip(_NUMBERS // (8 * means), _LEAST_GIVEN, _MOST_GIVEN))
        at = ((np.arange(draws) + rng.random()) * means / draws).astype(np.int64)
        normal = np.concatenate(list(_drawn(factor, draws, rng)))
        along = factor[:, at].T @ factor
        along[np.arange(draws), at] = 1.0
        return cls(normal, along, at, 1 - rng.random(draws))

    def beyond(self, c: float) -> float:
        """Return P(max |Z| > c)."""
        draws, means = self.normal.shape
        tail = norm.sf(c)
        move = (norm.isf(self.tail * tail) - self.normal[np.arange(draws), self.at]).astype(self.normal.dtype)[:, None]
        step, count = max(1, _CACHED // means), np.empty(draws)
        for start in range(0, draws, step):
            rows = slice(start, start + step)
            moved = self.along[rows] * move[rows]
            moved += self.normal[rows]
            count[rows] = np.count_nonzero(np.abs(moved, out=moved) > c, axis=1)
        return float(min(1.0, 2 * means * tail * np.mean(1 / np.maximum(count, 1))))  # p itself may round to c


def limits(moments: Moments, c: Floats | float, *, alone: bool = False) -> tuple[Floats, Floats]:
    """Return (means,) the lower and the upper end of each interval; infinite where the votes cannot tell.

    Every interval of the package is made here. It holds the values t that two tests both allow, and by what raised
    propensities could have moved the mean on either side of them:

    * Wald's, |mean - t| <= c error, with the error as it was found;
    * near the limit the score test too, |mean - t| <= c error(t), with the error as it would be were t true:
      error(t)^2 = error^2 + w (mean^2 - t^2) / votes. With w = 1 that is Wilson's interval (1927) for votes of +-1,
      error^2 at the mean being no less than such votes have: of two upsets in seventy votes, a mean farther out has a
      smaller error. w goes from 0 for a mean of zero to 1 at the limit, as 1 - (1 - mean^2)^3, because elsewhere the
      error does not follow from the mean. A mean beyond the limit, or of a pair never compared, has Wald's alone.

    Args:
        c: critical value of the normal law, a number or (means,); Student's t stands in for it where clusters are few.
        alone: whether each interval speaks for itself, and takes `Moments.error_about_mean`. Where all hold together,
            what is rarest decides, and there is nothing to shorten.
    """
    known, mean = known_means(moments), moments.mean
    error = moments.error_about_mean if alone else moments.error
    critical = np.full(len(mean), np.inf)
    critical[known] = student(np.broadcast_to(c, mean.shape)[known], moments.freedom[known])
    half = np.where(known, error, 1.0) * critical
    low, high = mean - half, mean + half
    inside = np.asarray(known & (moments.status == SEEN) & (np.abs(mean) < moments.stake))
    votes, at = np.maximum(moments.effective, 1)[inside], mean[inside]
    stake = np.broadcast_to(moments.stake, mean.shape)[inside]
    variance = np.maximum(error[inside] ** 2, (stake**2 - at**2) / votes)
    square = critical[inside] ** 2
    share = (1 - (1 - (at / stake) ** 2) ** 3) * square / votes
    root = np.sqrt((share * at) ** 2 + (1 + share) * square * variance)
    low[inside] = np.maximum(low[inside], (at - root) / (1 + share))
    high[inside] = np.minimum(high[inside], (at + root) / (1 + share))
    return low - moments.bias, high + moments.bias


def student(c: Floats, freedom: Floats) -> Floats:
    """Return values of Student's t at the level of normal ones, (..., means) and (means,)."""
    quantile = t.isf(norm.sf(np.abs(c)), np.broadcast_to(np.minimum(freedom, 1e6), c.shape))
    return np.asarray(np.sign(c) * np.minimum(quantile, _WIDEST))


def student_draws(normal: Floats, freedom: Floats) -> Floats:
    """Return the same for many draws, (draws, means), by interpolation of log(t / z): to 1% where |t| is below 20."""
    place = np.interp(np.log(freedom), np.log(_FREEDOM), np.arange(len(_FREEDOM)))
    low = np.minimum(place.astype(np.int64), len(_FREEDOM) - 2)
    share, ratio = (place - low)[:, None].astype(np.float32), _student_ratio()
    lines = ((1 - share) * ratio[low] + share * ratio[low + 1]).ravel()  # of each mean, at the normal values
    along = np.minimum(np.abs(normal) / _REACH[1], len(_REACH) - 1.001)
    knot = along.astype(np.int32)
    along -= knot
    knot += np.arange(len(freedom), dtype=np.int32) * len(_REACH)
    start = lines[knot]
    return np.asarray(normal * np.exp(start + along * (lines[knot + 1] - start)), np.float64)


@cache
def _student_ratio() -> Floats:
    """Return log(t / z) at the degrees of freedom and normal values of the grid."""
    z = _REACH[1:]
    quantile = np.minimum(t.isf(norm.sf(z)[None], _FREEDOM[:, None]), 1e30)
    at_zero = norm.pdf(0) / t.pdf(0, _FREEDOM)[:, None]  # the slope of t in z there
    return np.log(np.concatenate([at_zero, quantile / z], axis=1)).astype(np.float32)


def normal_scale(ratio: Floats, freedom: Floats) -> Floats:
    """Return normal values at the level of values of Student's t, (means,) both."""
    return np.asarray(np.sign(ratio) * norm.isf(t.sf(np.abs(ratio), np.minimum(freedom, 1e6))))


def checked_level(confidence: float) -> float:
    """Return a confidence, checked."""
    if not 0 < as_number(confidence) < 1:
        raise InputError(f"confidence is {confidence!r}; accepted is a number between 0 and 1, such as 0.95.")
    return confidence

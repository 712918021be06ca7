"""Intervals for several means together: the multiplier bootstrap, with Student's t where clusters are few.

Given the data, the Gaussian multiplier bootstrap of means, sum_i xi_i (value_i - mean) / n, is exactly normal. Its
draws are normal numbers times the factor of `nasheval.payoff.variances`, so that clusters of any kind enter alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from scipy.stats import norm, t

from nasheval.arrays import Bools, Floats, as_number
from nasheval.errors import InputError
from nasheval.feedback.links import SEEN
from nasheval.payoff.clusters import Moments
from nasheval.payoff.estimand import CELLS

_DRAWS = 10_000  # for critical values and signs, with few means
_LEAST_DRAWS = 2_000  # with many
_NUMBERS = 1 << 23  # in all draws, unless that is too few draws
_REACH = np.linspace(0.0, 6.5, 131)  # normal values between which Student's t is interpolated
_FREEDOM = np.logspace(-1, 6, 225)  # degrees of freedom likewise


def known_means(moments: Moments) -> Bools:
    """Return (means,) those of which the votes tell how uncertain they are."""
    return (moments.freedom > 0) & (moments.error > 0)


def draws_for(means: int) -> int:
    """Return how many draws critical values and signs of so many means rest on.

    The quantile of a largest statistic of thousands varies little: of 2,000 draws by 0.02 or less.
    """
    return int(np.clip(_NUMBERS // max(means, 1), _LEAST_DRAWS, _DRAWS))


def studentised_draws(
    moments: Moments, draws: int, rng: np.random.Generator, *, only: Bools | None = None
) -> Iterator[Floats]:
    """Yield (some draws, known means) bootstrap draws of (mean - truth) / error, each standard normal, until enough.

    Args:
        only: (means,) which of the known means; None: all.
    """
    factor = moments.factor[:, known_means(moments) if only is None else only]
    if len(factor) >= 2 * factor.shape[1]:  # draws of a few means take as many normal numbers, not one for each row
        factor = np.asarray(np.linalg.qr(factor, mode="r"))
    alone = ~factor.any(axis=0)  # moves with no other mean, and has an error by its floor alone
    step = max(1, CELLS // max(1, *factor.shape))
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
    counts = [int((known_means(moments) if only is None else only).sum()) for moments in family]
    if sum(counts) <= 1:
        return float(norm.ppf((1 + confidence) / 2)) if sum(counts) else float("inf")
    draws = draws_for(max(counts))
    rng, largest = np.random.default_rng(seed), np.zeros(draws)
    for moments, count in zip(family, counts, strict=True):
        if count:
            blocks = studentised_draws(moments, draws, rng, only=only)
            np.maximum(largest, np.concatenate([np.abs(block).max(axis=1) for block in blocks]), out=largest)
    return float(np.quantile(largest, confidence))


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
    return np.asarray(np.sign(c) * quantile)


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

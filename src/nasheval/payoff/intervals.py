"""Intervals for several means together: the multiplier bootstrap, with Student's t where clusters are few.

Given the data, the Gaussian multiplier bootstrap of means, sum_i xi_i (value_i - mean) / n, is exactly normal with the
covariance of `nasheval.payoff.clusters`, so its draws are taken from that normal: the same law, in one pass, and
clusters of any kind enter alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm, t

from nasheval.arrays import Bools, Floats
from nasheval.errors import InputError
from nasheval.payoff.clusters import Moments

_DRAWS = 10_000  # for critical values


def known_means(moments: Moments) -> Bools:
    """Return (means,) those of which the votes tell how uncertain they are."""
    return (moments.freedom > 0) & (moments.error > 0)


def studentised_draws(moments: Moments, draws: int, rng: np.random.Generator, *, only: Bools | None = None) -> Floats:
    """Return (draws, known means) bootstrap draws of (mean - truth) / error, each standard normal.

    Args:
        only: (means,) which of the known means; None: all.
    """
    known = known_means(moments) if only is None else only
    error = moments.error[known]
    correlation = moments.covariance[np.ix_(known, known)] / np.outer(error, error)
    values, vectors = np.linalg.eigh(correlation)
    factor = vectors * np.sqrt(np.maximum(values, 0))
    return np.asarray(rng.standard_normal((draws, len(factor))) @ factor.T)


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
    rng, largest = np.random.default_rng(seed), np.zeros(_DRAWS)
    for moments, count in zip(family, counts, strict=True):
        if count:
            np.maximum(largest, np.abs(studentised_draws(moments, _DRAWS, rng, only=only)).max(axis=1), out=largest)
    return float(np.quantile(largest, confidence))


def half_widths(moments: Moments, c: Floats | float) -> Floats:
    """Return (means,) half the width of each interval; infinite where the votes cannot tell.

    An interval reaches from the mean by a critical value of Student's t times the standard error, and by what raised
    propensities could have moved the mean. Every interval of the package is made here.

    Args:
        c: critical value of the normal law, a number or (means,).
    """
    known, half = known_means(moments), np.full(len(moments.mean), np.inf)
    critical = np.broadcast_to(c, half.shape)[known]
    half[known] = moments.error[known] * student(critical, moments.freedom[known]) + moments.bias[known]
    return half


def student(c: Floats, freedom: Floats) -> Floats:
    """Return values of Student's t at the level of normal ones, (..., means) and (means,)."""
    quantile = t.isf(norm.sf(np.abs(c)), np.broadcast_to(np.minimum(freedom, 1e6), c.shape))
    return np.asarray(np.sign(c) * quantile)


def normal_scale(ratio: Floats, freedom: Floats) -> Floats:
    """Return normal values at the level of values of Student's t, (means,) both."""
    return np.asarray(np.sign(ratio) * norm.isf(t.sf(np.abs(ratio), np.minimum(freedom, 1e6))))


def checked_level(confidence: float) -> float:
    """Return a confidence, checked."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence!r}; accepted is a number between 0 and 1, such as 0.95.")
    return confidence

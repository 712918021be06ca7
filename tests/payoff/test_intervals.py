"""Limits of intervals: by brute force, by hand, and how often they cover, worked out exactly for votes of +-1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm, t

from nasheval.feedback.links import BRIDGED
from nasheval.payoff import intervals
from nasheval.payoff.clusters import Moments
from nasheval.payoff.intervals import critical_value, limits, studentised_draws

Z = norm.ppf(0.975)


def moments(mean, variance, votes, freedom, *, status=0, bias=0.0, stake=1.0):
    mean, variance, votes, freedom = (np.atleast_1d(np.asarray(x, float)) for x in (mean, variance, votes, freedom))
    size = len(mean)
    return Moments(mean, variance, np.zeros((1, size)), votes, freedom, votes.astype(int), np.full(size, status),
                   np.full(size, bias), 1000, 1000, "context", stake=stake)  # fmt: skip


@given(
    st.floats(-1.3, 1.3),
    st.floats(1e-4, 1.0),
    st.floats(1.5, 500.0),
    st.floats(1.0, 500.0),
    st.floats(0.5, 4.5),
    st.floats(0.1, 1.0),
    st.booleans(),
)
def test_an_interval_holds_what_both_tests_allow(mean, variance, votes, freedom, c, stake, alone):
    low, high = (end[0] for end in limits(moments(mean, variance, votes, freedom, stake=stake), c, alone=alone))
    mirrored = limits(moments(-mean, variance, votes, freedom, stake=stake), c, alone=alone)
    critical, variance = t.isf(norm.sf(c), freedom), variance * (1 - votes**-1.25 if alone else 1)
    grid = np.linspace(mean - 1.2 * critical * np.sqrt(variance), mean + 1.2 * critical * np.sqrt(variance), 4001)
    allowed = np.abs(mean - grid) <= critical * np.sqrt(variance)
    if abs(mean) < stake:
        weight = 1 - (1 - (mean / stake) ** 2) ** 3
        there = max(variance, (stake**2 - mean**2) / votes) + weight * (mean**2 - grid**2) / votes
        allowed &= (mean - grid) ** 2 <= critical**2 * there
    step = grid[1] - grid[0]
    assert grid[allowed].min() == pytest.approx(low, abs=1.01 * step)
    assert grid[allowed].max() == pytest.approx(high, abs=1.01 * step)
    assert (mirrored[0][0], mirrored[1][0]) == pytest.approx((-high, -low))


def test_near_the_limit_votes_have_the_interval_of_wilson_away_from_zero():
    """A few upsets in many votes, by the formula of the textbook."""
    n, won = 4000, 3992
    share = won / n
    mean = 2 * share - 1
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    low, high = limits(moments(mean, (1 - mean**2) / n, n, np.inf), Z, alone=True)
    assert high[0] == pytest.approx(2 * (centre + half) - 1, abs=1e-7)
    assert low[0] == pytest.approx(mean - Z * np.sqrt((1 - mean**2) / n), abs=1e-6)


def test_pairs_never_compared_and_means_beyond_the_limit_have_walds_interval():
    for mean, status, error in ((0.5, BRIDGED, 0.1), (1.1, 0, 0.1 * np.sqrt(1 - 10**-1.25))):
        low, high = limits(moments(mean, 0.01, 10, np.inf, status=status, bias=0.05), Z, alone=True)
        assert (low[0], high[0]) == pytest.approx((mean - error * Z - 0.05, mean + error * Z + 0.05))


def test_many_votes_leave_walds_interval():
    low, high = limits(moments(0.3, 1e-6, 1e6, np.inf), Z)
    assert (low[0], high[0]) == pytest.approx((0.3 - 1e-3 * Z, 0.3 + 1e-3 * Z), abs=2e-6)


def exact_coverage(n, truth, learned):
    """Chance that n votes of +-1 with mean `truth` cover it, where the outcome model has learned so much of it."""
    wins = np.arange(n + 1)
    mean = 2 * wins / n - 1
    mu = learned * truth
    squares, fourth = (wins * (1 - mu) ** p + (n - wins) * (1 + mu) ** p for p in (2, 4))
    spread = np.maximum(fourth - squares**2 / n, 1e-12)
    found = moments(mean, squares / n**2, np.full(n + 1, n), np.minimum(2 * squares**2 / spread, 4 * (n - 1))).floored()
    low, high = limits(found, Z, alone=True)
    chance = binom.pmf(wins, n, (1 + truth) / 2)
    return chance[(low <= truth) & (truth <= high)].sum()


@pytest.mark.parametrize(
    ("sizes", "truths", "learned"),
    [((40, 101), (0.93, 0.956), 0.8), ((40, 101), (0.93, 0.956), 1.0), ((6, 30), (-0.6, 0.6), 0.0),
     ((6, 30), (-0.6, 0.6), 0.5), ((6, 30), (-0.6, 0.6), 1.0), ((30, 60), (0.0, 0.9), 0.8)],
)  # fmt: skip
def test_coverage_of_few_and_of_nearly_unanimous_votes_is_as_said(sizes, truths, learned):
    """Over numbers of votes and truths, as they come in a log: no single one of them, since counts are discrete."""
    covered = [exact_coverage(n, truth, learned) for n in range(*sizes, 3) for truth in np.linspace(*truths, 25)[1:-1]]
    assert 0.93 < np.mean(covered) < 0.97


def test_draws_of_a_few_means_have_the_correlations_of_all_their_clusters():
    rng = np.random.default_rng(3)
    factor = rng.normal(size=(500, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 1.0]])
    factor /= np.sqrt((factor**2).sum(axis=0))
    found = replace(moments([0.1] * 3, [0.01] * 3, [50] * 3, [49] * 3), factor=factor)
    draws = np.concatenate(list(studentised_draws(found, 40_000, rng)))
    assert draws.shape == (40_000, 3)
    np.testing.assert_allclose(np.cov(draws.T), factor.T @ factor, atol=0.03)


# -- critical values --------------------------------------------------------------------------------------------------


def factored(factor):
    """Moments of as many means as the factor has columns, each of which is scaled to length one."""
    length, size = np.sqrt((factor**2).sum(axis=0)), factor.shape[1]
    found = moments([0.1] * size, [0.01] * size, [50] * size, [49] * size)
    return replace(found, factor=factor / np.where(length > 0, length, 1.0))


def slowly(family, confidence, draws=60_000):
    """The literal form: the quantile of the largest statistic over very many draws."""
    rng, largest = np.random.default_rng(7), np.zeros(draws)
    for one in family:
        largest = np.maximum(
            largest, np.concatenate([np.abs(d).max(axis=1) for d in studentised_draws(one, draws, rng)])
        )
    return np.quantile(largest, confidence)


def differences(K):
    """Leads of K agents over each other, each with a share of its own."""
    j, k = np.triu_indices(K, 1)
    signs = (np.arange(K)[:, None] == j) * 1.0 - (np.arange(K)[:, None] == k)
    return np.concatenate([signs, 0.5 * np.eye(len(j))])


FACTORS = {
    "two": np.array([[1.0, 0.6], [0.0, 0.8]]),
    "one behind all": np.concatenate([3 * np.ones((1, 60)), np.eye(60)]),
    "half of them one": np.concatenate([np.eye(60)[:30], np.eye(60)[[30] * 30].cumsum(axis=1) > 0]),
    "differences": differences(12),
    "some that move with no other": np.concatenate([differences(5), np.zeros((15, 20))], axis=1),
}


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("name", FACTORS)
def test_critical_values_are_those_of_very_many_draws(name, confidence):
    found = factored(FACTORS[name])
    for dtype in (np.float64, np.float32):
        one = replace(found, factor=found.factor.astype(dtype))
        assert critical_value([one], confidence, 0) == pytest.approx(slowly([found], confidence), abs=0.04)


@settings(deadline=None, max_examples=15)
@given(st.integers(2, 200), st.floats(0.5, 0.999))
def test_critical_values_of_independent_means_are_exact(size, confidence):
    exact = norm.isf((1 - confidence ** (1 / size)) / 2)
    assert critical_value([factored(np.eye(size))], confidence, 3) == pytest.approx(exact, abs=0.02)


def test_critical_values_of_a_family_are_those_of_all_its_draws():
    family = [factored(FACTORS["one behind all"]), factored(differences(8)), factored(np.eye(1))]
    assert critical_value(family, 0.95, 0) == pytest.approx(slowly(family, 0.95), abs=0.04)
    assert critical_value(family, 0.95, 0) == critical_value(family, 0.95, 0)
    assert critical_value(family, 0.99, 0) > critical_value(family, 0.95, 0) > critical_value(family[:1], 0.95, 0)


def test_one_mean_has_the_normal_value_and_none_has_none():
    one = factored(np.ones((3, 1)))
    assert critical_value([one], 0.95, 0) == pytest.approx(Z, abs=1e-12)
    assert critical_value([one], 0.95, 0, only=np.zeros(1, bool)) == np.inf
    same = factored(np.ones((3, 40)))
    assert critical_value([same], 0.95, 0) == pytest.approx(Z, abs=0.01)


def test_many_means_take_few_draws(monkeypatch):
    drawn, plain = [], intervals._drawn
    monkeypatch.setattr(
        intervals, "_drawn", lambda factor, draws, *more: drawn.append(draws) or plain(factor, draws, *more)
    )
    found = factored(np.random.default_rng(0).normal(size=(40, 1225)))
    values = [critical_value([found], 0.99, seed) for seed in range(4)]
    assert drawn == [855] * 4
    assert np.ptp(values) < 0.03

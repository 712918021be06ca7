"""Strengths of the correction: shrinking by empirical Bayes, variances by hand, and what is chosen from known ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nasheval.payoff.strengths import HeldOut, shrunk

ALL = np.ones(12, bool)


def held_out(slopes, n=4000, size=0.3, noise=1.0, seed=0, share=0.4, folds=4):
    """h of a given size, and corrections slope * h + noise, observed for a share of contexts and pairs."""
    rng = np.random.default_rng(seed)
    dense = size * rng.normal(size=(n, len(slopes)))
    context, pair = np.nonzero(rng.random(dense.shape) < share)
    h = dense[context, pair]
    correction = (np.array(slopes)[pair] * h + noise * rng.normal(size=len(h))) / share
    fold = rng.integers(folds, size=n)
    return HeldOut(context, pair, correction, h, np.arange(n), dense, np.ones(n, bool), fold)


# -- shrinking --------------------------------------------------------------------------------------------------------


@given(arrays(float, 12, elements=st.floats(-3, 4)), arrays(float, 12, elements=st.floats(1e-4, 9)), st.floats(0, 1))
def test_strengths_lie_between_the_raw_and_the_common_one(raw, variance, common):
    strengths = shrunk(raw, variance, common, ALL)
    low, high = np.minimum(np.clip(raw, 0, 1), common), np.maximum(np.clip(raw, 0, 1), common)
    assert (strengths >= low - 1e-12).all()
    assert (strengths <= high + 1e-12).all()


@given(arrays(float, 12, elements=st.floats(0, 1)), st.floats(0, 1))
def test_without_scatter_beyond_chance_all_keep_the_common_strength(raw, common):
    variance = np.full(12, max(1e-9, float(((raw - common) ** 2).mean())))
    np.testing.assert_allclose(shrunk(raw, variance, common, ALL), common, atol=1e-9)


def test_sure_strengths_are_kept_and_unknown_ones_are_common():
    raw = np.array([0.1, 0.9, np.nan, 0.5, 2.0, -1.0])
    strengths = shrunk(raw, np.full(6, 1e-8), 0.3, np.ones(6, bool))
    np.testing.assert_allclose(strengths, [0.1, 0.9, 0.3, 0.5, 1.0, 0.0], atol=1e-6)
    rest = np.array([True, False, True, True, True, True])
    assert shrunk(raw, np.full(6, 1e-8), 0.3, rest)[1] == 0.3


def test_the_prior_variance_is_recovered():
    """Shrinking by the true prior variance is the posterior mean, which no other linear shrinking beats."""
    rng = np.random.default_rng(0)
    true = rng.normal(0.5, 0.1, 4000)
    variance = rng.uniform(0.01, 0.04, 4000)
    raw = true + np.sqrt(variance) * rng.normal(size=4000)
    strengths = shrunk(raw, variance, 0.5, np.ones(4000, bool))
    departed = (raw - 0.5) ** 2 > variance
    posterior = np.clip(0.5 + 0.01 / (0.01 + variance) * (raw - 0.5), 0, 1)
    np.testing.assert_allclose(strengths[departed], posterior[departed], atol=0.06)
    assert ((strengths - true) ** 2).mean() < 0.75 * ((np.clip(raw, 0, 1) - true) ** 2).mean()


def chosen(held, moved):
    return held.choose(moved, "shared", 10)


# -- choosing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("without", [None, 2])
def test_variances_by_hand(without):
    held = held_out([0.0, 0.5, 1.0], n=300)
    kept = held.fold != (-1 if without is None else without)
    raws, variances = held.moments(without)[2:]
    for p in range(3):
        hc, h = np.zeros(300), held.dense[:, p]
        mine = held.pair == p
        hc[held.context[mine]] = held.h[mine] * held.correction[mine]
        raw = hc[kept].sum() / (h[kept] ** 2).sum()
        left = (hc - raw * h**2)[kept]
        assert raws[p] == pytest.approx(raw)
        assert variances[p] == pytest.approx((left**2).sum() / (h[kept] ** 2).sum() ** 2)


def test_variances_are_those_of_repeated_logs():
    raw, variance = zip(
        *(held_out([0.5], 400, seed=s).moments()[2:] for s in range(300)),
        strict=True,
    )
    assert np.var(raw) == pytest.approx(np.mean(variance), rel=0.25)


def test_different_strengths_are_told_apart():
    true = np.array([0.0] * 6 + [1.0] * 6)
    choice = chosen(held_out(true), np.zeros(12, bool))
    assert 0.3 < choice.strength < 0.7
    assert np.abs(np.array(choice.per_pair) - true).max() < 0.35
    assert choice.pairs_gain > choice.gain


def test_equal_strengths_are_not():
    departed = sum(
        len(set(chosen(held_out([0.6] * 12, 800, seed=s), np.zeros(12, bool)).per_pair)) > 1 for s in range(20)
    )
    assert departed <= 3


def test_noise_has_strength_zero():
    nonzero = sum(any(chosen(held_out([0.0] * 12, 800, seed=s), np.zeros(12, bool)).per_pair) for s in range(20))
    assert nonzero <= 9  # a gain of more than one standard error comes by chance in about a sixth of logs


def test_a_moved_pair_has_its_raw_strength_or_a_half_and_leaves_the_others_alone():
    true = np.array([0.9, 0.0] + [0.0] * 10)
    moved = np.arange(12) < 2
    for seed in range(5):
        held = held_out(true, seed=seed)
        choice, raw = chosen(held, moved), held.moments()[2]
        np.testing.assert_allclose(choice.per_pair[:2], np.clip(raw[:2], 0.5, 1))
        same = chosen(held_out(np.where(moved, 0.4, true), seed=seed), moved)
        assert same.strength == pytest.approx(choice.strength, abs=1e-12)


def test_pairs_that_few_contexts_saw_keep_the_common_strength():
    held = held_out([1.0, 1.0, 0.0], n=2000)
    few = (held.pair != 2) | (held.context < 30)
    rare = HeldOut(
        held.context[few], held.pair[few], held.correction[few], held.h[few], held.sampled, held.dense, held.used,
        held.fold,
    )  # fmt: skip
    assert np.isnan(rare.moments()[2][2])
    choice = chosen(rare, np.zeros(3, bool))
    assert choice.per_pair[2] == choice.strength

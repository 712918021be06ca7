"""Duels of latent voters as ratios: the margins of `voters_margins`, and the same bits in NumPy as compiled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval.nuisance.voters_compiled  # noqa: F401 (from here on the compiled form answers)
from nasheval.nuisance.voters_duels import Electorate, Pairs, _centred, _centred_in_numpy
from nasheval.nuisance.voters_margins import duel, tie_weights


def _electorate(rng, *, folds=2, members=2, n=3, voters=3, agents=6, scale=2.0):
    u = rng.normal(0, scale, (folds, members, n, voters, agents)).astype(np.float32)
    weight = rng.dirichlet(np.ones(members * voters), folds).astype(np.float32).reshape(folds, members, voters)
    lean = rng.normal(0, 1, u.shape[:-1]).astype(np.float32)
    tie = rng.normal(0, 1, (folds, members, 2)).astype(np.float32)
    return u, Electorate.of(u.copy(), weight, lean, tie)


def _pairs(rng, agents, *, all_of_them):
    left, right = np.triu_indices(agents, 1)
    kept = np.ones(len(left), bool) if all_of_them else rng.random(len(left)) < 0.6
    kept[0] = True
    return Pairs(np.arange(int(kept.sum())), left[kept], right[kept])


def _asked(electorate, bad=True):
    ties = np.moveaxis(electorate.tie, -1, 0)[..., None, None] + np.stack(
        [electorate.lean, np.zeros_like(electorate.lean)]
    )
    nu, log_bad = tie_weights(ties[: 2 if bad else 1])
    return ties, nu, np.exp(np.minimum(log_bad - electorate.middle, 80.0)) if bad else np.zeros_like(nu)


@pytest.mark.parametrize("scale", [0.0, 1.0, 15.0])
@pytest.mark.parametrize("all_of_them", [True, False])
def test_margins_are_those_of_one_duel_after_the_other(scale, all_of_them):
    rng = np.random.default_rng(3)
    u, electorate = _electorate(rng, scale=scale)
    pairs = _pairs(rng, u.shape[-1], all_of_them=all_of_them)
    ties, nu, bad = _asked(electorate)
    expected = np.zeros((u.shape[2], len(pairs.column)))
    for f, m, v in np.ndindex(*electorate.weight.shape):
        for i, (j, k) in enumerate(zip(pairs.left, pairs.right, strict=True)):
            two = u[f, m][:, v, [j, k]].T[:, None].astype(np.float64)
            margin = duel(two, ties[:, f, m, None, :, v].astype(np.float64))[0, 0]
            expected[:, i] += electorate.weight[f, m, v] * margin
    np.testing.assert_allclose(electorate.duels(pairs, nu, bad), expected, atol=2e-5 if scale > 2 else 3e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.booleans(), st.sampled_from([0.1, 3.0, 60.0]))
def test_numpy_and_compiled_code_give_the_same_bits(seed, agents, all_of_them, scale):
    rng = np.random.default_rng(seed)
    _, electorate = _electorate(rng, n=1, agents=agents, scale=scale)
    pairs = _pairs(rng, agents, all_of_them=all_of_them)
    _, nu, bad = _asked(electorate, bad=bool(seed % 2))
    compiled, numpy = electorate.duels(pairs, nu, bad), electorate._in_numpy(pairs, nu, bad)
    assert np.isfinite(numpy).all()
    assert compiled.tobytes() == numpy.tobytes()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.sampled_from([0.1, 3.0, 200.0, np.inf]), st.booleans())
def test_middles_and_halves_are_the_same_bits_compiled(seed, agents, scale, in_order):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(3, 2, agents + 1)).astype(np.float32)
    if scale == np.inf:
        u[0, 0, rng.integers(agents)] = rng.choice([np.inf, -np.inf, np.nan])
    else:
        u *= np.float32(scale)
    u = u[..., :-1].copy() if in_order else u[..., :-1]
    with np.errstate(invalid="ignore"):
        expected, middles = _centred_in_numpy(u.copy())
        halves, middle = _centred(u)
    np.testing.assert_array_equal(halves, expected)  # no number is equal to no number
    np.testing.assert_array_equal(middle, middles)


def test_a_context_does_not_depend_on_those_beside_it():
    rng = np.random.default_rng(0)
    u, electorate = _electorate(rng, n=40)
    pairs = _pairs(rng, u.shape[-1], all_of_them=True)
    _, nu, bad = _asked(electorate)
    whole = electorate.duels(pairs, nu, bad)
    one = Electorate.of(u[:, :, 7:8].copy(), electorate.weight, electorate.lean[:, :, 7:8], electorate.tie)
    np.testing.assert_array_equal(one.duels(pairs, nu[:, :, 7:8], bad[:, :, 7:8])[0], whole[7])


def test_utilities_however_far_apart_give_margins():
    u = np.array([0.0, 500.0, -500.0, 499.0], np.float32).reshape(1, 1, 1, 1, 4)
    electorate = Electorate.of(
        u.copy(), *(np.ones(shape, np.float32) for shape in ((1, 1, 1), (1, 1, 1, 1), (1, 1, 0)))
    )
    nothing = np.zeros((1, 1, 1, 1), np.float32)
    pairs = _pairs(np.random.default_rng(0), 4, all_of_them=True)
    margins = electorate.duels(pairs, nothing, nothing)[0]
    np.testing.assert_allclose(margins[[0, 1, 3]], [-1.0, 1.0, 1.0])
    assert np.isfinite(margins).all()


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 1.0])
def test_runs_cover_the_pairs_in_order(share):
    rng = np.random.default_rng(5)
    left, right = np.triu_indices(40, 1)
    kept = np.flatnonzero(rng.random(len(left)) < share)
    pairs = Pairs(np.arange(len(kept)), left[kept], right[kept])
    covered = [(first + i, left, right + i) for first, left, right, size in pairs.runs.tolist() for i in range(size)]
    assert [place for place, _, _ in covered] == list(range(len(covered)))  # end to end
    asked = [covered[place] for place in pairs.place]
    assert asked == list(zip(pairs.place.tolist(), pairs.left.tolist(), pairs.right.tolist(), strict=True))
    assert len(pairs.runs) < 45 if share > 0.5 else len(pairs.runs) <= len(kept)
    assert share < 1 or len(covered) == len(kept)


def test_filled_gaps_change_no_bit():
    rng = np.random.default_rng(2)
    _, electorate = _electorate(rng, n=3, agents=30)
    _, nu, bad = _asked(electorate)
    whole, some = (_pairs(rng, 30, all_of_them=answer) for answer in (True, False))
    both = electorate.duels(whole, nu, bad), electorate.duels(some, nu, bad)
    place = {pair: i for i, pair in enumerate(zip(whole.left.tolist(), whole.right.tolist(), strict=True))}
    same = [place[pair] for pair in zip(some.left.tolist(), some.right.tolist(), strict=True)]
    np.testing.assert_array_equal(both[0][:, same], both[1])

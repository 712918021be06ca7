"""Blocs of voters, and the mixture behind them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp
from sklearn.metrics import adjusted_rand_score

import nasheval as ne
from nasheval.audit.blocs import _projections, blocs
from nasheval.audit.latent import LatentType, _matched, latent_types
from nasheval.audit.mixture import Mixture, Tastes, Votes, _halves, fit_mixture, held_out

from .crowds import fitted, world


def votes_of(rng, voters=4, n=80, D=3, groups=0):
    j = rng.integers(D, size=n)
    k = (j + rng.integers(1, D, n)) % D
    plus, minus = j[:, None], k[:, None]
    if groups:
        at = rng.integers(groups, size=n)[:, None]
        plus, minus = (np.hstack([side, side + D * (1 + at)]) for side in (plus, minus))
    return Votes(
        rng.integers(voters, size=n), plus, minus, rng.normal(size=n), rng.random(n) < 0.5, voters, D * (1 + groups)
    )


def log_likelihood(votes, d):
    total = np.zeros(votes.n_voters)
    for r, u in enumerate(votes.voter):
        logit = votes.offset[r] + d[u, votes.plus[r]].sum() - d[u, votes.minus[r]].sum()
        total[u] += np.log(expit(logit if votes.won[r] else -logit))
    return total


@pytest.mark.parametrize("groups", [0, 2])
def test_quadratics_touch_the_likelihood(groups):
    rng = np.random.default_rng(0)
    votes = votes_of(rng, groups=groups)
    d = rng.normal(0, 0.5, (votes.n_voters, votes.D))
    tastes = votes.around(d)

    def value(at):
        return tastes.c + (tastes.b * at).sum(axis=1) - np.einsum("nd,nde,ne->n", at, tastes.H, at) / 2

    np.testing.assert_allclose(value(d), log_likelihood(votes, d), atol=1e-9)
    for direction in range(votes.D):
        step = np.zeros(votes.D)
        step[direction] = 1e-4
        up, down, here = (log_likelihood(votes, d + side * step) for side in (1, -1, 0))
        np.testing.assert_allclose((value(d + step) - value(d - step)) / 2e-4, (up - down) / 2e-4, atol=1e-5)
        curvature = (up + down - 2 * here) / 1e-8
        np.testing.assert_allclose(-tastes.H[:, direction, direction], curvature, atol=1e-3)


def test_estimates_are_where_the_slope_is_zero():
    votes = votes_of(np.random.default_rng(1))
    d = votes.estimates()
    tastes = votes.around(d)
    np.testing.assert_allclose(tastes.b - np.einsum("nde,ne->nd", tastes.H, d), d, atol=1e-6)  # prior of variance one


def test_evidence_is_the_integral_over_tastes():
    c, b, H, mean, variance = -1.3, 0.7, 2.1, 0.4, 0.3
    tastes = Tastes(np.array([c]), np.array([[b]]), np.array([[[H]]]))

    def density(d):
        return np.exp(c + b * d - H * d**2 / 2 - (d - mean) ** 2 / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    expected = np.log(quad(density, -12, 12, points=[mean])[0])
    found = Mixture(np.zeros(1), np.array([[mean]]), variance).evidence(tastes)
    assert found[0, 0] == pytest.approx(expected)


def test_em_never_loses_likelihood_and_finds_clumps():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 40)
    d = np.where(truth[:, None] == 0, [1.0, -1.0], [-1.0, 1.0]) + rng.normal(0, 0.2, (80, 2))
    H = np.tile(8 * np.eye(2), (80, 1, 1))
    b = np.einsum("nde,ne->nd", H, d + rng.normal(0, 8**-0.5, (80, 2)))
    tastes = Tastes(np.zeros(80), b, H)
    one, two = (fit_mixture(tastes, T) for T in (1, 2))
    assert two[1] > one[1] + 20
    assert adjusted_rand_score(truth, two[0].chances(tastes).argmax(axis=1)) > 0.9
    assert two[1] == pytest.approx(float(logsumexp(two[0].evidence(tastes), axis=1).sum()), abs=0.5)
    assert one[0].variance > 4 * two[0].variance


def test_halves_split_each_voter():
    voter = np.random.default_rng(0).integers(9, size=200)
    half = _halves(voter, np.random.default_rng(1))
    first, second = (np.bincount(voter[side], minlength=9) for side in (half, ~half))
    assert np.abs(first - second).max() <= 1


def test_one_bloc_gains_nothing_over_one():
    votes = votes_of(np.random.default_rng(2), voters=12, n=400)
    assert not held_out(votes, 1, 0).any()


@pytest.mark.parametrize("seed", [0, 1])
def test_three_planted_blocs_are_recovered(seed):
    simulated, stage1 = world("blocs", seed)
    found = blocs(stage1)
    truth = [simulated.bloc[name] for name in found.voters]
    assert len(found) == 3
    assert adjusted_rand_score(truth, found.bloc) >= 0.8
    assert found.gain > 10
    assert sum(found.sizes) == 60
    assert (np.diff(found.sizes) <= 0).all()
    assert found.lines()[0].startswith("60 voters fall into 3 blocs")
    assert "favours" in found.lines()[1]
    tables = found.listings()
    assert all(len(row) == len(t.names) + len(t.numbers) for t in tables for row in t.rows)
    assert len(found.charts()) == 3
    assert json.loads(json.dumps(found.to_dict()))["agents"] == list(stage1.agents)


@pytest.mark.parametrize("name", ["no blocs", "no blocs, varied"])
def test_no_bloc_is_found_where_there_is_none(name):
    for seed in range(3):
        found = blocs(world(name, seed)[1])
        assert len(found) == 1
        assert "one bloc" in found.lines()[0]
        assert found.charts() == []
        assert not found.taste.any()


def test_tastes_that_depend_on_the_language_are_said_to():
    rng = np.random.default_rng(0)
    n, K = 9000, 4
    voter, german = rng.integers(60, size=n), rng.random(n) < 0.5
    first = rng.integers(K, size=n)
    second = (first + rng.integers(1, K, n)) % K
    taste = np.where((voter % 2 == 0) & german, 1.5, 0.0)
    won = rng.random(n) < expit(taste * ((first == 1) * 1.0 - (second == 1)))
    names = np.array(list("abcd"))
    columns = {"model_a": names[first], "model_b": names[second], "winner": np.where(won, "model_a", "model_b")}
    table = pd.DataFrame({**columns, "language": np.where(german, "de", "en"), "v": voter.astype(str)})
    found = blocs(fitted(ne.read_votes(table, context=["language"], voter="v", design="draws")))
    assert len(found) == 2
    assert adjusted_rand_score([int(name) % 2 for name in found.voters], found.bloc) > 0.9
    assert found.column == "language"
    assert any("favours b" in line and "where language is de" in line for line in found.lines())
    assert not any("favours b where language is en" in line for line in found.lines())


def test_projections_centre_tastes_at_each_value():
    project = _projections(3, np.array([0.25, 0.75]))
    common, one, two = np.array([1.0, 2.0, 6.0]), np.array([1.0, 0, 0]), np.array([0, 0, 4.0])
    at = project @ np.concatenate([common, one, two])
    np.testing.assert_allclose(at.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(at[1], common + one - (common + one).mean())
    np.testing.assert_allclose(at[0], 0.25 * at[1] + 0.75 * at[2])


def test_a_careless_bloc_is_said_to_agree_less():
    found = blocs(world("blocs", 1)[1])
    strength = -np.linspace(-1, 1, 8)
    taste = np.stack([strength, -strength])[:, None] + 0.05 * np.cos(np.arange(8))
    changes = {"agents": tuple("abcdefgh"), "strength": strength, "taste": taste, "error": np.ones((2, 1, 8))}
    known = replace(found, **changes, chance=np.ones((60, 2)) / 2, places=("",), column="")
    assert known.describe(0).endswith("on the whole it agrees more with the crowd than the others do.")
    assert known.describe(1).endswith("on the whole it agrees less with the crowd than the others do.")
    other = replace(known, strength=np.cos(3 * np.arange(8)))
    assert "on the whole" not in other.describe(0)


def test_of_many_agents_the_most_frequent_have_a_taste():
    simulated, stage1 = world("loyal", 0, planters=0, agents=60, honest=40, votes=4000)
    found = blocs(stage1)
    assert len(found.agents) == 41
    assert found.agents[-1] == "all others"
    assert len(found.voters) == 40
    assert set(found.agents[:-1]) < set(simulated.log.agents)


def test_few_or_unnamed_voters_are_said():
    assert "blocs are looked for among 10" in blocs(world("judges", 0, votes=1000)[1]).lines()[0]
    votes = pd.DataFrame({"model_a": "a", "model_b": "b", "winner": ["model_a", "model_b"] * 20, "x": range(40)})
    found = blocs(fitted(ne.read_votes(votes, context=["x"])))
    assert "names no voters" in found.lines()[0]
    assert found.listings() == found.charts() == found.to_dict()["blocs"] == []


def test_latent_voters_are_matched_across_folds():
    taste = np.array([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]])
    share = np.array([0.5, 0.3, 0.2])
    tastes, shares = _matched([(taste, share), (taste[[2, 1, 0]], share[[2, 1, 0]])])
    np.testing.assert_allclose(tastes[0], tastes[1])
    np.testing.assert_allclose(shares[0], shares[1])
    said = LatentType(("a", "b"), 0.4, np.array([0.9, -0.9]), 0.95).sentence()
    assert said == "A latent voter of the model, 40% of its electorate, favours a (+0.9) and disfavours b (-0.9)."


@pytest.mark.slow
def test_latent_voters_of_a_fitted_model_are_named():
    simulated, _ = world("blocs", 0)
    types = latent_types(fitted(simulated.log, outcome="voters"))
    for one in types:
        assert 0 < one.share < 1
        assert one.alike >= 0.8
    assert latent_types(world("blocs", 0)[1]) == ()

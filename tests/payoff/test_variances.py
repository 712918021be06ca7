"""Variances pair by pair and draws from a factor, against the dense covariance of all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from nasheval.errors import InputError
from nasheval.payoff import clusters, sampling, variances
from nasheval.payoff.clusters import Moments, group_moments
from nasheval.payoff.cycles import find_cycles
from nasheval.payoff.grouped import Votes
from nasheval.payoff.inference import group_payoff
from nasheval.payoff.intervals import critical_value, student, student_draws, studentised_draws
from nasheval.payoff.pseudo import pseudo_outcomes

from .dense import covariance_of, dense_moments
from .nuisances import arbitrary_fit, duel_fit, duel_log, linear_margins, ragged_log
from .test_clusters import own_contexts, pseudo_of


def moments_of(pseudo, cluster, inside=None):
    code = np.zeros(pseudo.n_contexts, int) if inside is None else inside.astype(int) - 1
    return group_moments(pseudo.estimand, code, 1, cluster)[0]


def without_names(log, share=0.4, seed=0):
    """The same log with some voters unknown."""
    from dataclasses import replace

    hidden = np.random.default_rng(seed).random(log.n_records) < share
    records = replace(log.records, voter=np.where(hidden, -1, log.records.voter))
    return replace(log, records=records)


@pytest.mark.parametrize("design", ["inclusion", "draws"])
@pytest.mark.parametrize("unseen", ["tie", "model"])
@pytest.mark.parametrize("cluster", ["context", "voter", "both"])
@pytest.mark.parametrize("named", [True, False])
def test_means_and_variances_are_those_of_the_dense_form(design, unseen, cluster, named):
    log, x = ragged_log(70, design=design, seed=3)
    pseudo = pseudo_outcomes(arbitrary_fit(log if named else without_names(log), x), unseen=unseen)
    inside = pseudo.used & (x[:, 0] > -1)
    mean, covariance, *raw = dense_moments(pseudo.estimand, inside, cluster)
    found = moments_of(pseudo, cluster, inside)
    np.testing.assert_allclose(found.mean, mean, atol=1e-10)
    if cluster != "both":
        np.testing.assert_allclose(covariance_of(found), covariance, atol=1e-10)
    else:
        alone = dense_moments(pseudo.estimand, inside, "context")[1].diagonal()
        np.testing.assert_allclose(found.variance, np.maximum(raw[0].diagonal(), alone), atol=1e-10)


def test_strata_are_those_of_the_dense_form():
    log, x = own_contexts(7, 9)
    pseudo = pseudo_of(log, x)
    _, covariance = dense_moments(pseudo.estimand, pseudo.used, "context")
    np.testing.assert_allclose(covariance_of(moments_of(pseudo, None)), covariance, atol=1e-10)


def crossed(n=200, voters=25, seed=0, each=3, effect=0.4):
    centre, slope = linear_margins(6)
    log, x = duel_log(np.random.default_rng(seed), n, centre, slope, K=6, voters=voters, effect=effect, one=True,
                      each=each)  # fmt: skip
    return pseudo_outcomes(duel_fit(log, x, centre, slope, one=True))


@pytest.mark.parametrize("each", [1, 3])
def test_two_way_draws_have_nearly_the_correlations_of_the_dense_form(each):
    """The dense form is made definite by clipping eigenvalues; draws never were anything else."""
    pseudo = crossed(each=each, n=600)
    found = moments_of(pseudo, "both")
    raised, raw = dense_moments(pseudo.estimand, pseudo.used, "both")[1:]
    scale = np.sqrt(np.outer(raw.diagonal(), raw.diagonal()))
    correlation = found.factor.T @ found.factor
    away = np.abs(correlation - raw / scale)[np.triu_indices(15, 1)]
    assert away.max() < (1e-2 if each == 1 else 0.15)
    dense = critical_value([as_moments(found, raised)], 0.95, 1)
    assert critical_value([found], 0.95, 0) == pytest.approx(dense, abs=0.05)


def as_moments(like, covariance):
    """Moments whose draws have a covariance as it is."""
    from dataclasses import replace

    error = np.sqrt(covariance.diagonal())
    values, vectors = np.linalg.eigh(covariance / np.outer(error, error))
    return replace(like, variance=error**2, factor=(vectors * np.sqrt(np.maximum(values, 0))).T)


@pytest.mark.parametrize("cluster", ["context", "both"])
def test_simultaneous_intervals_agree_with_the_dense_form(cluster):
    pseudo = crossed(n=500, effect=0.2)
    group = group_payoff(pseudo, cluster=cluster)
    covariance = dense_moments(pseudo.estimand, pseudo.used, cluster)[1]
    dense = critical_value([as_moments(group.moments, covariance)], 0.95, 5)
    assert critical_value([group.moments], 0.95, 0) == pytest.approx(dense, abs=0.05)


# -- samples of contexts ----------------------------------------------------------------------------------------------


@pytest.fixture
def small_samples(monkeypatch):
    monkeypatch.setattr(sampling, "ALL", 100)
    monkeypatch.setattr(sampling, "_PILOT", 100)
    monkeypatch.setattr(sampling, "_LEAST", 100)


@pytest.mark.parametrize("cluster", ["context", "both"])
def test_a_sample_of_contexts_is_enough(cluster, small_samples, monkeypatch):
    pseudo = crossed(n=4000, each=1, voters=40)
    asked = []
    plugin = pseudo.estimand.plugin

    def counted(contexts):
        asked.append(len(contexts))
        return plugin(contexts)

    object.__setattr__(pseudo.estimand, "plugin", counted)
    found = moments_of(pseudo, cluster)
    assert sum(asked) < 1500  # of 4,000
    mean, _, *raw = dense_moments(pseudo.estimand, pseudo.used, cluster)
    alone = dense_moments(pseudo.estimand, pseudo.used, "context")[1].diagonal()
    exact = np.maximum(raw[0].diagonal(), alone) if raw else alone
    np.testing.assert_allclose(found.variance / exact, 1, atol=0.08)
    assert np.mean(found.variance / exact) == pytest.approx(1.005, abs=0.02)
    assert np.abs(found.mean - mean).max() < 4 * np.sqrt(0.01 * exact.max())


def test_the_monte_carlo_variance_of_a_sample_is_added_and_is_right(small_samples, monkeypatch):
    """Over many samples of one log, means spread by what was added to their variance."""
    monkeypatch.setattr(sampling, "_SHARE", 10.0)  # samples of 100
    pseudo = crossed(n=2000, each=1)
    exact = dense_moments(pseudo.estimand, pseudo.used, "context")[1].diagonal()
    means, added = [], []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(np.random, "default_rng", lambda *_, rng=rng: rng)
        found = moments_of(pseudo, "context")
        means.append(found.mean)
        added.append(found.variance - exact)
    spread = np.var(means, axis=0, ddof=1).mean()
    assert 0.8 < np.mean(added) / spread < 1.25


def test_bridged_pairs_of_a_sample_have_honest_errors(small_samples, monkeypatch):
    """Corrections move the bridge by its slope at each sampled context, and by that at mean payoffs elsewhere."""
    log, x = ragged_log(600, seed=5)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x))
    bridged = pseudo.estimand.bridge.pairs
    assert len(bridged)
    mean, covariance = dense_moments(pseudo.estimand, pseudo.used, "context")
    monkeypatch.setattr(sampling, "_SCORES", 150 * 5**3)
    found = moments_of(pseudo, "context")
    error = np.sqrt(covariance.diagonal())
    assert (found.error[bridged] > error[bridged] * 0.9).all()
    assert (np.abs(found.mean - mean)[bridged] < 4 * found.error[bridged]).all()
    assert (found.error[bridged] < error[bridged] * 3).all()


# -- the factor -------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), rows=st.sampled_from([3, 20, 10_000]),
       cluster=st.sampled_from(["context", "voter", "both"]),
       design=st.sampled_from(["draws", "inclusion"]))  # fmt: skip
def test_columns_of_a_factor_have_length_one_and_variances_do_not_depend_on_its_rows(seed, rows, cluster, design):
    log, x = ragged_log(30, seed=seed, design=design)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x))
    votes = Votes(pseudo.estimand, pseudo.used)
    spread, full = variances.spread_of(votes, cluster, rows), variances.spread_of(votes, cluster, 10_000)
    length = np.linalg.norm(spread.factor, axis=0)
    assert ((np.abs(length - 1) < 1e-9) | (length == 0)).all()
    np.testing.assert_array_equal(spread.variance, full.variance)
    assert len(spread.factor) <= 2 * rows
    assert (spread.variance >= 0).all()
    if cluster == "both":
        assert (spread.variance >= variances.spread_of(votes, "context", 5).variance - 1e-12).all()


def test_random_sums_of_clusters_keep_correlations():
    pseudo = crossed(n=4000, each=1)
    votes = Votes(pseudo.estimand, pseudo.used)
    few, many = (variances.spread_of(votes, "context", rows).factor for rows in (1000, 4000))
    assert len(few) == 1000
    away = np.abs(few.T @ few - many.T @ many)
    assert away.max() < 6 / np.sqrt(1000)


def test_draws_of_a_mean_without_spread_are_independent_and_normal():
    two = Moments(np.array([0.5, 1.0]), np.array([0.01, 0.02]), np.array([[1.0, 0.0]]), np.full(2, 50.0),
                  np.full(2, 49.0), np.full(2, 50), np.zeros(2, int), np.zeros(2), 50, 50, "context")  # fmt: skip
    draws = np.concatenate(list(studentised_draws(two, 4000, np.random.default_rng(0))))
    assert draws.shape == (4000, 2)
    np.testing.assert_allclose(np.cov(draws.T), np.eye(2), atol=0.08)


def test_more_than_a_machine_holds_is_refused_with_the_number(monkeypatch):
    pseudo = crossed(n=60)
    monkeypatch.setattr(clusters, "_memory", lambda: 1 << 20)
    code = np.arange(60) % 30
    assert len(group_moments(pseudo.estimand, code, 30, "context")) == 30
    monkeypatch.setattr(clusters, "_memory", lambda: 1 << 10)
    with pytest.raises(InputError, match=r"15 means in 30 groups need 0\.00011 GB, and this machine has 9\.5e-07"):
        group_moments(pseudo.estimand, code, 30, "context")


# -- Student's t, games and cycles of many ----------------------------------------------------------------------------


def test_students_t_of_draws_is_interpolated():
    rng = np.random.default_rng(0)
    z, freedom = rng.standard_normal((500, 40)), np.exp(rng.uniform(np.log(0.5), np.log(1e7), 40))
    exact = student(z, freedom)
    found = student_draws(z, freedom)
    near = np.abs(exact) < 20
    assert np.abs(found / exact - 1)[near].max() < 0.01
    assert (np.abs(found[~near]) > 19).all()
    np.testing.assert_allclose(student_draws(np.array([[0.0, norm.ppf(0.975)]]), np.array([3.0, 3.0])),
                               [[0.0, 3.182446]], rtol=5e-3)  # fmt: skip


def test_cycles_among_many_agents_are_found_without_trying_all_paths():
    """A ladder of 300, of which three at the top make a ring and four at the bottom a longer one."""
    order = np.triu(np.ones((300, 300), bool), 1)
    order[0, 2], order[2, 0] = False, True
    ring = [296, 297, 298, 299]
    order[np.ix_(ring, ring)] = np.roll(np.eye(4, dtype=bool), 1, axis=1)
    assert find_cycles(order) == [(0, 1, 2), (296, 297, 298, 299)]


def test_games_of_many_agents_are_drawn_less_often(monkeypatch):
    monkeypatch.setattr("nasheval.payoff.inference._DRAWN", 36 * 250)
    few, many = crossed(n=100), group_payoff(crossed(n=100), draws=120)
    assert sum(map(len, group_payoff(few)._games())) == 250
    assert sum(map(len, many._games())) == 120
    monkeypatch.setattr("nasheval.payoff.inference._DRAWN", 1)
    assert sum(map(len, group_payoff(few)._games())) == 200

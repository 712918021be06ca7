"""Covariances of mean payoffs by hand: panels of voters, voters with contexts of their own, unanimous votes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from nasheval.errors import InputError
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.payoff.clusters import Moments, chosen_cluster, cluster_notes, group_moments
from nasheval.payoff.grouped import FEW
from nasheval.payoff.inference import group_payoff
from nasheval.payoff.pseudo import pseudo_outcomes

from .dense import covariance_of
from .nuisances import Given, arbitrary_fit, duel_fit, features, ragged_log


def own_contexts(voters, each, *, between=1.0, seed=0, repeats=1, unknown=0):
    """Duels of a and b by voters who bring contexts of their own, near a place of theirs; x is all that matters.

    Args:
        between: share of the variance of x that is between voters.
        repeats: votes per context.
        unknown: contexts whose voter is unknown.
    """
    rng = np.random.default_rng(seed)
    n = voters * each + unknown
    who = np.concatenate([np.repeat(np.arange(voters), each), np.full(unknown, -1)])
    x = np.sqrt(between) * rng.normal(size=max(voters, 1))[who] + np.sqrt(1 - between) * rng.normal(size=n)
    context_of = np.repeat(np.arange(n), repeats)
    first = rng.random(len(context_of)) < (1 + np.tanh(x)[context_of]) / 2
    log = Feedback.from_partitions(
        pa.table({"x": x}),
        [partition.duel("a", "b", "a" if won else "b") for won in first],
        agents=["a", "b"],
        context_of=context_of.tolist(),
        voter=[None if who[i] < 0 else f"v{who[i]}" for i in context_of],
        design="draws",
    )
    return log, x[:, None]


def pseudo_of(log, x, share=0.7):
    from nasheval.nuisance.crossfit import NuisanceFit, make_folds

    mu = Given(lambda x, fold: share * np.tanh(x[:, :1]))
    e = Given(lambda x, fold: np.ones((len(x), 1)))
    return pseudo_outcomes(NuisanceFit(log, features(x), make_folds(log, 2), mu, e))


def moments_of(pseudo, cluster=None, speaks=None):
    return group_moments(pseudo.estimand, np.zeros(pseudo.n_contexts, int), 1, cluster, speaks)[0]


def gamma_and_voter(log, pseudo):
    rows = np.flatnonzero(pseudo.used)
    return pseudo.dense(rows), log.records.voter[log.context_offsets[rows]]


# -- whom intervals speak for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("voters", "repeats"), [(3, 1), (19, 2)])
def test_a_panel_with_contexts_of_their_own_is_a_stratified_sample(voters, repeats):
    """Contexts are drawn voter by voter: the covariance is that within voters, with n - V degrees of freedom."""
    log, x = own_contexts(voters, 12, repeats=repeats)
    pseudo = pseudo_of(log, x)
    gamma, voter = gamma_and_voter(log, pseudo)
    within = np.zeros((1, 1))
    for v in range(voters):
        apart = gamma[voter == v] - gamma[voter == v].mean(axis=0)
        within += apart.T @ apart
    found = moments_of(pseudo)
    np.testing.assert_allclose(covariance_of(found), within / (len(gamma) * (len(gamma) - voters)), rtol=1e-9)
    assert found.cluster == "context"
    assert found.panel == voters
    np.testing.assert_allclose(found.mean, gamma.mean(axis=0))


def test_a_panel_that_shares_contexts_is_clustered_by_context():
    log, x = ragged_log(60)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x), unseen="tie")
    gamma = pseudo.dense(np.flatnonzero(pseudo.used))
    found = moments_of(pseudo)
    np.testing.assert_allclose(covariance_of(found), np.cov(gamma.T) / len(gamma), atol=1e-13)
    assert found.panel == 6


def test_unknown_among_a_panel_make_no_strata():
    log, x = own_contexts(3, 12, unknown=4)
    pseudo = pseudo_of(log, x)
    gamma = pseudo.dense(np.flatnonzero(pseudo.used))
    np.testing.assert_allclose(moments_of(pseudo).variance[0], gamma.var(ddof=1) / len(gamma))


@pytest.mark.parametrize("between", [0.0, 0.9])
def test_with_contexts_of_their_own_two_ways_are_one_way_by_voter(between):
    """Every context has one voter, so that contexts cancel against (context, voter), but for n / (n - 1)."""
    V, each = 30, 5
    log, x = own_contexts(V, each, between=between)
    pseudo = pseudo_of(log, x)
    gamma, voter = gamma_and_voter(log, pseudo)
    n, apart = len(gamma), gamma - gamma.mean(axis=0)
    of_voter = np.stack([apart[voter == v].sum(axis=0) for v in range(V)])
    one_way = of_voter.T @ of_voter * V / (V - 1) / n**2
    by_context = apart.T @ apart / (n * (n - 1))
    found = moments_of(pseudo)
    assert found.cluster == "both"
    assert found.panel == 0
    left = apart.T @ apart / (n**2 * (n - 1))  # what n / (n - 1) leaves of the contexts
    np.testing.assert_allclose(covariance_of(found), np.maximum(one_way + left, by_context), rtol=1e-9)
    if between:
        assert found.error[0] > 1.2 * np.sqrt(by_context[0, 0])  # the plug-in part is clustered too


def test_by_voter_the_errors_are_the_spread_of_means_over_new_voters():
    """Nine tenths of the variance of contexts lie between voters: 25 voters bring 20 contexts each."""
    means, errors, by_context = [], [], []
    for seed in range(60):
        log, x = own_contexts(25, 20, between=0.9, seed=seed)
        pseudo = pseudo_of(log, x)
        found = moments_of(pseudo)
        means.append(found.mean[0])
        errors.append(found.error[0])
        by_context.append(moments_of(pseudo, "context").error[0])
    spread = np.std(means, ddof=1)
    assert 0.75 < np.mean(errors) / spread < 1.3
    assert np.mean(by_context) / spread < 0.6


def test_degrees_of_freedom_are_one_less_than_voters():
    log, x = own_contexts(30, 5)
    found = moments_of(pseudo_of(log, x))
    assert found.freedom[0] == pytest.approx(29)
    few, y = own_contexts(8, 5)
    assert moments_of(pseudo_of(few, y), speaks="population").freedom[0] == pytest.approx(7)
    assert moments_of(pseudo_of(few, y)).effective[0] == pytest.approx(40)
    assert moments_of(pseudo_of(few, y)).freedom[0] <= 39


def test_who_is_spoken_for_may_be_said():
    assert FEW == 20
    for n_voters, speaks, expected in (
        (19, None, "context"), (20, None, "both"), (19, "population", "both"), (200, "panel", "context"),
        (1, "population", "context"), (0, None, "context"),
    ):  # fmt: skip
        assert chosen_cluster(100, n_voters, speaks) == expected
    assert chosen_cluster(12, 30) == "voter"
    assert chosen_cluster(12, 8, "population") == "voter"
    log, x = own_contexts(8, 10)
    pseudo = pseudo_of(log, x)
    panel, population = (group_payoff(pseudo, voters=how) for how in ("panel", "population"))
    assert population.error[0, 1] > panel.error[0, 1]
    assert "intervals speak for these 8 voters, not for others like them" in " ".join(panel.notes)
    assert "voters='population' (--voters population)" in " ".join(panel.notes)
    [alone] = cluster_notes(100, "context", 1)
    assert alone.startswith("intervals speak for this one voter, not for others like it; voters=")
    assert not any("speak for these" in note for note in population.notes)
    assert (panel.moments.panel, population.moments.panel) == (8, 0)
    with pytest.raises(InputError, match="voters is 'people'; accepted are 'panel', 'population', or None to choose"):
        group_payoff(pseudo, voters="people")


def test_the_population_of_nobody_is_that_of_contexts():
    log, x = own_contexts(0, 1, unknown=40)
    found = moments_of(pseudo_of(log, x), speaks="population")
    assert found.cluster == "context"
    assert found.panel == 0


# -- unanimous votes --------------------------------------------------------------------------------------------------


def plain_moments(mean, error, votes, **more):
    mean, error = np.array(mean), np.array(error)
    votes = np.array(votes, float)
    return Moments(mean, error**2, np.eye(len(mean)), votes, votes - 1, votes, np.zeros(len(mean), int),
                   np.zeros(len(mean)), 50, 50, "context", **more)  # fmt: skip


def test_the_floor_by_hand():
    found = plain_moments([1.0, 0.2, -0.99, 0.0], [0.0, 0.0, 0.5, 0.1], [96, 96, 96, 4]).floored()
    least = 2 * np.sqrt(2) / 100
    assert found.error[0] == pytest.approx(least)
    assert found.error[1] == pytest.approx(least)  # no spread at all, wherever the mean is
    assert found.error[2] == 0.5  # never smaller than it was
    assert found.error[3] == pytest.approx(0.1)


def test_a_floor_is_scaled_by_what_is_at_stake():
    """Policies that differ at a tenth of the contexts, and there always to the same side."""
    found = plain_moments([0.1], [0.0], [96]).floored(np.array([0.1]))
    assert found.error[0] == pytest.approx(0.1 * 2 * np.sqrt(2) / 100)
    assert plain_moments([0.1], [0.01], [96]).floored().error[0] == 0.01  # elsewhere the spread speaks for itself


def test_floors_keep_correlations():
    raw = plain_moments([1.0, 0.999], [0.01, 0.02], [10, 20])
    raw = replace(raw, factor=np.array([[1.0, 0.5], [0.0, np.sqrt(0.75)]]))
    found = raw.floored()
    correlation = covariance_of(found)[0, 1] / np.prod(found.error)
    assert (found.error > raw.error).all()
    assert correlation == pytest.approx(0.5)


@pytest.mark.parametrize("votes", [10, 42, 400])
def test_unanimous_votes_cover_what_they_may_hide(votes):
    """Agresti and Coull: with as many votes without an upset, a true margin of 1 - 3 / votes is not excluded."""
    log = Feedback.from_partitions(np.zeros((votes, 1)), [partition.duel("a", "b", "a")] * votes, agents=["a", "b"])
    pseudo = pseudo_outcomes(duel_fit(log, np.zeros((votes, 1)), np.array([1.0]), np.array([0.0]), one=True))
    group = group_payoff(pseudo)
    assert group.lower[0, 1] < 1 - 3 / votes
    assert group.lower[0, 1] > 1 - 20 / votes

"""The paper's theory in numbers: orthogonality, the exact bias lemma, double robustness."""

from __future__ import annotations

import numpy as np
import pytest

from nasheval.feedback.world import SyntheticWorld
from nasheval.payoff.aggregation import aggregation_of
from nasheval.payoff.aggregators import Cubic, Mean, Weighted
from nasheval.payoff.pseudo import pseudo_outcomes

from .nuisances import true_fit

AGGREGATORS = {"mean": Mean(), "weighted": Weighted(lambda menu: 1.0 + ("a0" in menu)), "cubic": Cubic(1.5)}


def truth(modality, n=200):
    """World, log, and mu0 (n, P) and e0 (n, P) at its contexts, by column."""
    world = SyntheticWorld(seed=5)
    log = world.feedback(modality, n=n)
    X = world.contexts(n)
    mu0 = world.outcome(X, modality).values
    return world, log, X, mu0, np.broadcast_to(world.propensity(X)[:, None], mu0.shape)


def population(made, mu, e, mu0, e0):
    """E_0[Gamma(eta) | x], (n, n_pairs), from the closed form in the proof of orthogonality (Eq. Gclosed)."""
    terms = made.derivative(mu) * e0 / e * (mu0 - mu)
    found = made.aggregate(mu)
    for column, pair in enumerate(made.pair):
        found[:, pair] += terms[:, column]
    return found


def directions(x, width, seed=1):
    """A smooth direction h = (h_mu, h_e), (n, P) each."""
    rng = np.random.default_rng(seed)
    return (np.sin(x @ rng.normal(size=(x.shape[1], width)) * 3) * scale for scale in (0.5, 0.05))


@pytest.mark.parametrize("modality", ["pairwise", "ranking", "winner"])
@pytest.mark.parametrize("which", AGGREGATORS)
def test_the_debiased_payoff_is_true_at_the_truth_and_flat_around_it(modality, which):
    _, log, X, mu0, e0 = truth(modality)
    made = aggregation_of(log, AGGREGATORS[which])
    A = made.aggregate(mu0)
    np.testing.assert_allclose(population(made, mu0, e0, mu0, e0), A, atol=1e-14)
    h_mu, h_e = directions(X, mu0.shape[1])
    steps = np.array([0.2, 0.1, 0.05, 0.025])
    off = [np.abs(population(made, mu0 + t * h_mu, e0 + t * h_e, mu0, e0) - A).mean() for t in steps]
    slope = np.polyfit(np.log(steps), np.log(off), 1)[0]
    assert 1.85 < slope < 2.15  # the remainder is O(t^2)
    t = 1e-5
    both = [population(made, mu0 + s * h_mu, e0 + s * h_e, mu0, e0) for s in (t, -t)]
    assert np.abs((both[0] - both[1]) / (2 * t)).max() < 1e-4  # the first derivative is zero
    plug = np.abs((made.aggregate(mu0 + t * h_mu) - made.aggregate(mu0 - t * h_mu)) / (2 * t)).mean()
    assert plug > 0.05  # that of the plug-in is not


@pytest.mark.parametrize("which", AGGREGATORS)
def test_the_exact_bias_lemma(which):
    _, log, X, mu0, e0 = truth("winner")
    made = aggregation_of(log, AGGREGATORS[which])
    h_mu, h_e = directions(X, mu0.shape[1])
    mu, e = np.clip(mu0 + h_mu, -1, 1), e0 + h_e
    slope, change = made.derivative(mu), mu - mu0
    products, first = np.zeros((2, len(X), made.n_pairs))
    for column, pair in enumerate(made.pair):
        products[:, pair] += slope[:, column] * ((e - e0) / e * change)[:, column]
        first[:, pair] += slope[:, column] * -change[:, column]
    remainder = made.aggregate(mu0) - made.aggregate(mu) - first
    bias = population(made, mu, e, mu0, e0) - made.aggregate(mu0)
    np.testing.assert_allclose(bias, -remainder + products, atol=1e-13)
    assert (np.abs(remainder).max() < 1e-13) == made.linear


@pytest.mark.parametrize("modality", ["pairwise", "ranking", "winner"])
def test_a_linear_aggregator_is_right_where_either_nuisance_is(modality):
    _, log, X, mu0, e0 = truth(modality)
    h_mu, h_e = directions(X, mu0.shape[1])
    for aggregator in (Mean(), Weighted(lambda menu: 1.0 + ("a0" in menu)), Cubic(0)):
        made = aggregation_of(log, aggregator)
        A = made.aggregate(mu0)
        np.testing.assert_allclose(population(made, mu0, e0 + h_e, mu0, e0), A, atol=1e-13)
        np.testing.assert_allclose(population(made, mu0 + h_mu, e0, mu0, e0), A, atol=1e-13)
        assert np.abs(population(made, mu0 + h_mu, e0 + h_e, mu0, e0) - A).max() > 1e-3


@pytest.mark.parametrize("selection", ["inclusion", "one"])
@pytest.mark.parametrize("aggregator", [Mean(), Cubic(1.5)])
def test_observed_pseudo_outcomes_have_the_population_mean(selection, aggregator):
    world, n = SyntheticWorld(seed=5), 6000
    log = world.feedback("ranking", n=n, selection=selection)
    X = world.contexts(n)
    mu0 = world.outcome(X, "ranking").values
    rng = np.random.default_rng(2)
    B = rng.normal(size=(X.shape[1], mu0.shape[1]))
    fit = true_fit(
        world, log, "ranking", selection=selection, mu=lambda x, fold: np.sin(x @ B), e=lambda x, fold: wrong(x)
    )

    def wrong(x):
        e = world.propensity(x, "ranking", selection=selection)
        e = np.repeat(e[:, None], len(log.menus), axis=1) if e.ndim == 1 else e
        return e * (1 + 0.3 * np.sin(4 * x[:, :1]))

    e0 = world.propensity(X, "ranking", selection=selection)
    e0 = np.repeat(e0[:, None], len(log.menus), axis=1) if e0.ndim == 1 else e0
    column = log.menus.columns.menu
    pseudo = pseudo_outcomes(fit, aggregator)
    expected = population(pseudo.aggregation, np.sin(X @ B), wrong(X)[:, column], mu0, e0[:, column])
    off = pseudo.dense(np.arange(n)) - expected
    assert (np.abs(off.mean(axis=0)) < 4 * off.std(axis=0) / np.sqrt(n)).all()

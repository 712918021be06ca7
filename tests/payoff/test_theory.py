"""The paper's theory in numbers: orthogonality, the exact bias lemma, double robustness."""

from __future__ import annotations

import numpy as np
import pytest

from nasheval.feedback.world import SyntheticWorld
from nasheval.payoff.aggregators import Cubic, Mean, Weighted, aggregation_of
from nasheval.payoff.pseudo import pseudo_outcomes

from .nuisances import population_log, true_fit

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
    found = made.aggregate(mu).copy()
    for column, pair in enumerate(made.pair):
        found[:, pair] += terms[:, column]
    return found


def directions(x, width, seed=1):
    """A smooth direction h = (h_mu, h_e), (n, P) each."""
    rng = np.random.default_rng(seed)
    return (np.sin(x @ rng.normal(size=(x.shape[1], width)) * 3) * scale for scale in (0.5, 0.05))


@pytest.mark.parametrize("modality", ["pairwise", "ranking", "winner"])
@pytest.mark.parametrize("which", AGGREGATORS)
def test_gamma_of_a_whole_population_is_the_closed_form(modality, which):
    """What the rest of this file says of the closed form, it says of the package: its Gamma is that in expectation."""
    world, n = SyntheticWorld(seed=5), 25
    log, X = population_log(world, modality, n), world.contexts(n)
    mu0 = world.outcome(X, modality).values
    e0 = np.broadcast_to(world.propensity(X)[:, None], mu0.shape)
    menu = log.menus.columns.menu
    first = np.unique(menu, return_index=True)[1]  # a column of each menu: e has one value per menu
    rng = np.random.default_rng(1)
    B, C = rng.normal(size=(5, mu0.shape[1])), rng.normal(size=(5, len(first)))

    def gamma(t):
        return pseudo_outcomes(
            true_fit(
                world,
                log,
                modality,
                mu=lambda x, fold: world.outcome(x, modality).values + t * np.sin(3 * x @ B),
                e=lambda x, fold: world.propensity(x)[:, None] + t * 0.1 * np.sin(3 * x @ C),
            ),
            AGGREGATORS[which],
        )

    j, k = np.triu_indices(5, 1)
    at_truth = gamma(0.0)
    if which == "mean":
        exact = world.payoff(X, modality)[:, j, k]
        np.testing.assert_allclose(at_truth.dense(np.arange(n)), exact, atol=1e-12)
    for t in (0.0, 0.3, -0.3):
        mu, e = mu0 + t * np.sin(3 * X @ B), e0 + t * 0.1 * np.sin(3 * X @ C)[:, menu]
        expected = population(at_truth.aggregation, mu, e, mu0, e0)
        np.testing.assert_allclose(gamma(t).dense(np.arange(n)), expected, atol=1e-12)


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


# -- logs as they are drawn -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["inclusion", "one"])
def drawn(request):
    """A log of rankings, its true nuisances (n, P) and (n, M), and wrong ones as functions of contexts."""
    world, n = SyntheticWorld(seed=5), 6000
    log = world.feedback("ranking", n=n, selection=request.param)
    X, menus = world.contexts(n), len(log.menus)
    B = np.random.default_rng(2).normal(size=(X.shape[1], len(log.menus.columns)))

    def mu0(x, fold=0):
        return world.outcome(x, "ranking").values

    def e0(x, fold=0):
        e = world.propensity(x, "ranking", selection=request.param)
        return np.repeat(e[:, None], menus, axis=1) if e.ndim == 1 else e

    def mu(x, fold=0):
        return np.sin(x @ B)

    def e(x, fold=0):
        return e0(x) * (0.6 + 0.2 * np.sin(4 * x[:, :1]))

    def gamma(aggregator, mu, e):
        return pseudo_outcomes(true_fit(world, log, "ranking", selection=request.param, mu=mu, e=e), aggregator)

    return log, X, (mu0, e0), (mu, e), gamma


def scores(values):
    """Mean over its standard error, column by column."""
    return values.mean(axis=0) / (values.std(axis=0) / np.sqrt(len(values)))


@pytest.mark.parametrize("which", AGGREGATORS)
def test_the_exact_bias_lemma_to_monte_carlo_error(drawn, which):
    """E[Gamma] - A is -R_f + sum df/du (Delta e / e) Delta mu: both terms are needed, and with both nothing is left."""
    log, X, (mu0, e0), (mu, e), gamma = drawn
    pseudo, column = gamma(AGGREGATORS[which], mu, e), log.menus.columns.menu
    made, change = pseudo.aggregation, mu(X) - mu0(X)
    slope, relative = made.derivative(mu(X)), ((e(X) - e0(X)) / e(X))[:, column]
    products, first = np.zeros((2, len(X), made.n_pairs))
    for c, pair in enumerate(made.pair):
        products[:, pair] += slope[:, c] * relative[:, c] * change[:, c]
        first[:, pair] += slope[:, c] * -change[:, c]
    remainder = made.aggregate(mu0(X)) - made.aggregate(mu(X)) - first
    bias = pseudo.dense(np.arange(len(X))) - made.aggregate(mu0(X))
    assert np.abs(scores(bias - (products - remainder))).max() < 4
    assert np.abs(scores(bias + remainder)).max() > 6  # without the products
    if not made.linear:
        assert np.abs(scores(bias - products)).max() > 6  # without the remainder


def test_a_linear_aggregator_is_right_where_either_nuisance_is_to_monte_carlo_error(drawn):
    _, X, (mu0, e0), (mu, e), gamma = drawn
    rows = np.arange(len(X))
    A = gamma(Mean(), mu0, e0).aggregation.aggregate(mu0(X))
    assert np.abs(scores(gamma(Mean(), mu0, e).dense(rows) - A)).max() < 4
    assert np.abs(scores(gamma(Mean(), mu, e0).dense(rows) - A)).max() < 4
    assert np.abs(scores(gamma(Mean(), mu, e).dense(rows) - A)).max() > 6
    assert np.abs(scores(gamma(Mean(), mu, e0).plugin(rows) - A)).max() > 6

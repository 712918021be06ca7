"""Means at equal style: against influence functions written out, and finite differences in beta."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nasheval.errors import InputError
from nasheval.nuisance.style import fit_style
from nasheval.payoff.adjusted import equalised, name_of, surface_of
from nasheval.payoff.aggregators import Mean
from nasheval.payoff.clusters import group_moments
from nasheval.payoff.inference import group_payoff
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.scoring.contrasts import against_agents, head_to_head, responses
from tests.nuisance.test_style import duels, fitted


def noisy(n=500, seed=0, **options):
    """Nuisances of a log whose verdicts are drawn, wins or losses, around those of `duels`."""
    log, x, truth = duels(n=n, seed=seed, **options)
    rng = np.random.default_rng(seed)
    z = log.verdicts.z
    won = rng.random(n) < (1 + z) / 2
    block = np.stack([~won, won], axis=1).ravel().astype(np.int8)
    return fitted(replace(log, records=log.records.replace(block=block, grade=None)), x, truth)


def both(n=500, seed=0, curved=False, **options):
    fit = noisy(n, seed, **options)
    voted, style = pseudo_outcomes(fit), fit_style(fit, "style")
    if curved != style.curved:
        style = replace(style, curved=curved)
    return voted, equalised(voted, style)


def gamma(pseudo):
    return pseudo.dense(np.arange(pseudo.n_contexts))


def test_gamma_is_that_as_voted_less_what_style_explains():
    voted, equal = both()
    style, log = equal.style, voted.fit.log
    d = log.records.style[::2].astype(float) - log.records.style[1::2]
    adjusted = np.zeros((log.n_contexts, voted.n_pairs))
    for fold in range(3):
        rows = voted.fit.fold == fold
        mu = voted.plugin(np.flatnonzero(rows))
        m = style.models.surface(voted.fit.X[rows], style.beta, fold)
        adjusted[rows] = mu - m
    at = np.arange(log.n_contexts), voted.pair
    adjusted[at] += voted.share * (log.verdicts.z - d @ style.beta - adjusted[at])  # Z - beta'd in the place of Z
    np.testing.assert_allclose(gamma(equal), adjusted, atol=1e-6)


@pytest.mark.parametrize("group", [slice(None), slice(0, 200)])
def test_slopes_in_beta_are_finite_differences(group):
    voted, equal = both()
    contexts, step = np.arange(500)[group], 1e-4
    found = equal.estimand.effects.slope(contexts)
    for s in range(2):
        moved = [
            gamma(equalised(voted, replace(equal.style, beta=equal.style.beta + sign * step * np.eye(2)[s])))[contexts]
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(found[:, s], (moved[0] - moved[1]).mean(axis=0) / (2 * step), atol=1e-6)


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("group", [slice(None), slice(0, 200)])
def test_variances_are_those_of_the_influence_function(group, curved):
    _, equal = both(curved=curved)
    inside = np.zeros(500, bool)
    inside[group] = True
    size = int(inside.sum())
    [moments] = group_moments(equal.estimand, inside.astype(int) - 1, 1)
    own = np.zeros((500, equal.n_pairs))
    own[inside] = (gamma(equal)[inside] - gamma(equal)[inside].mean(axis=0)) / size
    score = equal.style.score  # one vote at each context
    slope = equal.estimand.effects.slope(np.flatnonzero(inside))
    influence = own + score @ slope.T
    np.testing.assert_allclose(moments.variance, (influence**2).sum(axis=0), rtol=0.02)
    alone = (own**2).sum(axis=0)
    assert (moments.variance > 1.005 * alone).any()  # what style is worth is uncertain too
    drawn = moments.factor.T @ moments.factor
    exact = influence.T @ influence / np.sqrt(np.outer(*[(influence**2).sum(axis=0)] * 2))
    np.testing.assert_allclose(drawn, exact, atol=0.05)


def test_voters_are_clusters_of_what_style_is_worth():
    fit = noisy()
    voter = np.repeat(np.arange(25), 20)
    log = replace(fit.log, records=fit.log.records.replace(voter=voter.astype(np.int32)), voters=None)
    fit = replace(fit, log=log)
    equal = equalised(pseudo_outcomes(fit), fit_style(fit, "style"))
    [moments] = group_moments(equal.estimand, np.zeros(500, int), 1, "both")
    own = (gamma(equal) - gamma(equal).mean(axis=0)) / 500 + equal.style.score @ equal.estimand.effects.slope(
        np.arange(500)
    ).T
    summed = np.stack([own[voter == one].sum(axis=0) for one in range(25)])
    by_voter = 25 / 24 * (summed**2).sum(axis=0)
    np.testing.assert_allclose(moments.variance, np.maximum(by_voter, (own**2).sum(axis=0)), rtol=0.25)


def test_values_of_policies_move_with_beta_as_payoffs_do():
    voted, equal = both()
    lotteries, step = np.random.default_rng(1).dirichlet(np.ones(4), (2, 500)), 1e-4
    contexts = np.arange(500)

    def means(pseudo):
        response, _ = responses(pseudo, lotteries)
        values = head_to_head(pseudo, lotteries, response), against_agents(pseudo, lotteries[0], response[0])
        totals = []
        for one in values:
            mean = np.concatenate([chunk for _, chunk in one.estimand.plugin(contexts)]).mean(axis=0)
            totals.append(mean + np.bincount(one.estimand.column, one.estimand.correction, len(mean)) / 500)
        return totals, values

    _, values = means(equal)
    for s in range(2):
        styles = [replace(equal.style, beta=equal.style.beta + sign * step * np.eye(2)[s]) for sign in (1, -1)]
        high, low = (means(equalised(voted, style))[0] for style in styles)
        for place, one in enumerate(values):
            exact = (high[place] - low[place]) / (2 * step)
            np.testing.assert_allclose(one.estimand.effects.slope(contexts)[:, s], exact, atol=1e-6)


def test_the_surface_is_what_folds_say_on_average():
    _, equal = both()
    surface, style = surface_of(equal.style), equal.style
    average = np.mean([style.models.surface(equal.fit.X, style.beta, fold) for fold in range(3)], axis=0)
    np.testing.assert_allclose(surface.predict(equal.fit.X), average, atol=1e-5)
    mu = np.full(average.shape, 0.2)
    np.testing.assert_allclose(surface.equal(mu, average), mu - average)


def test_without_an_effect_both_estimands_agree():
    voted, equal = both(n=2000, effect=np.zeros(2))
    first, second = group_payoff(voted), group_payoff(equal)
    assert np.abs(first.estimate - second.estimate).max() < 0.06
    assert (first.estimand, second.estimand) == ("as voted", "at equal style")


def test_names_of_estimands():
    _, equal = both()
    assert name_of(None) == "as voted"
    assert name_of(replace(equal.style, names=())) == "as voted"
    assert name_of(replace(equal.style, names=("position",))) == "at equal position"


def test_a_mean_of_several_menus_that_is_not_linear_is_refused():
    voted, equal = both()
    bent = replace(voted.aggregation, pair=np.concatenate([voted.aggregation.pair] * 2))

    class Bent(Mean):
        linear = False

    with pytest.raises(InputError, match="needs an aggregator that is linear"):
        equalised(replace(voted, aggregation=replace(bent, aggregator=Bent())), equal.style)

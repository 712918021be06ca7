"""Gamma of ballots cut into pairs, against its formula ballot by ballot."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.strata import Marginal
from nasheval.payoff.aggregators import AsAsked, as_asked
from nasheval.payoff.inference import group_payoff
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.stage1 import fit_stage1

from .algorithm1 import verdict
from .nuisances import arbitrary_fit, ragged_log


def ballots(n=600, K=8, size=4, seed=0):
    """Rankings of random menus by one law; every pair's E[Z] is tanh of half the difference of utilities."""
    rng = np.random.default_rng(seed)
    u = np.linspace(1.0, -1.0, K)
    menus = np.stack([rng.permutation(K)[:size] for _ in range(n)])
    place = np.argsort(np.argsort(-(u[menus] + rng.gumbel(size=menus.shape)), axis=1), axis=1)
    records = Records.build(sizes=np.full(n, size), agent=menus.ravel(), rank=place.ravel())
    log = Feedback.from_records(records, agents=[f"m{j}" for j in range(K)], context_of=np.arange(n))
    return log, np.tanh((u[:, None] - u[None, :]) / 2)


@pytest.mark.parametrize("seed", [0, 1])
def test_gamma_by_hand(seed):
    """mu + sum over ballots with the pair of w / pairs of the ballot (Z - mu) / (e_pair W), W the context's weight."""
    whole, x = ragged_log(30, seed=seed)
    log, aggregator = as_asked(whole, AsAsked())
    assert log.ballots is whole
    fit = arbitrary_fit(log, x)
    pseudo = pseudo_outcomes(fit, aggregator)
    number = {pair: place for place, pair in enumerate(combinations(range(5), 2))}
    of_pair = {int(pair): column for column, pair in enumerate(log.menus.columns.pair)}
    records = whole.records
    for i in np.flatnonzero(pseudo.used):
        fold = int(fit.fold[i])
        mu = fit.outcome_models.predict(fit.X[[i]], fold)[0]
        e = np.maximum(fit.propensity_models.predict(fit.X[[i]], fold)[0], fit.floors)
        here = range(whole.context_offsets[i], whole.context_offsets[i + 1])
        total = sum(float(records.weights[r]) for r in here)
        expected = np.zeros(10)
        for pair, column in of_pair.items():
            expected[pair] = mu[column]
        for r in here:
            entries = slice(records.offsets[r], records.offsets[r + 1])
            members = [int(agent) for agent in records.agent[entries]]
            blocks = [[] for _ in range(int(records.block[entries].max()) + 1)]
            for agent, block in zip(members, records.block[entries], strict=True):
                blocks[block].append(agent)
            pairs = list(combinations(sorted(members), 2))
            for j, k in pairs:
                column = of_pair[number[j, k]]
                share = float(records.weights[r]) / len(pairs)
                expected[number[j, k]] += share * (verdict(blocks, j, k) - mu[column]) / e[column] / total
        np.testing.assert_allclose(pseudo.dense(np.array([i]))[0], expected, atol=1e-12)


def test_the_one_step_mean_is_the_plain_mean_of_each_pair():
    """With shares as propensities and no context, debiasing gives the mean verdict wherever both were shown."""
    log, _ = ballots(3000)
    stage1 = fit_stage1(
        log, outcome=Intercept(), propensity=Marginal(), second_stage="none", aggregator=AsAsked(), folds=5
    )
    assert stage1.log is log
    assert stage1.nuisances.log.ballots is log
    verdicts = log.verdicts
    plain = np.zeros((8, 8))
    for j, k in combinations(range(8), 2):
        here = (verdicts.j == j) & (verdicts.k == k)
        plain[j, k], plain[k, j] = verdicts.z[here].mean(), -verdicts.z[here].mean()
    np.testing.assert_allclose(group_payoff(stage1.pseudo).estimate, plain, atol=0.01)


def test_intervals_of_rankings_on_rare_menus_cover():
    """A ballot is one cluster: its six pairs are not taken for six votes."""
    inside, width = [], []
    j, k = np.triu_indices(8, 1)
    for seed in range(25):
        log, truth = ballots(300, seed=seed)
        stage1 = fit_stage1(log, outcome=Intercept(), propensity=Marginal(), second_stage="none", folds=2)
        group = group_payoff(stage1.pseudo)
        assert group.moments.n_clusters == 300
        low, high = group.interval(simultaneous=False)
        inside.append(((low <= truth) & (truth <= high))[j, k].mean())
        width.append((high - low)[j, k].mean())
    assert 0.92 <= np.mean(inside) <= 0.98  # 28 pairs of 25 logs
    assert np.mean(width) < 0.75  # about 64 ballots per pair: 2 x 1.96 x 0.95 / 8 is 0.47


def test_a_known_propensity_of_ballots_does_not_tell_that_of_pairs():
    log = ballots(60)[0]
    known = replace(log, records=replace(log.records, propensity=np.full(60, 0.1)))
    with pytest.raises(InputError, match=r"does not tell those of its pairs; use aggregator=Mean\(\)"):
        fit_stage1(known, outcome=Intercept(), propensity="known", aggregator=AsAsked(), folds=2)

"""Held-out scores: against a literal loop, by hand, by properties, and against a known truth."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.learners import Features
from nasheval.payoff.aggregators import Cubic, Mean
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.scoring.contests import most_at_stake
from nasheval.scoring.contrasts import against_agents, head_to_head
from nasheval.scoring.heldout import score

from .logs import (
    ABCDE,
    Given,
    arbitrary_fit,
    best_response,
    duel_pseudo,
    duels,
    ragged_log,
    random_lotteries,
    soft,
    true_payoff,
    worst_response,
)
from .oracle import literal_gamma

DESIGNS = ["inclusion", "draws"]

# -- against a literal loop -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("cubic", [False, True])
def test_values_and_errors_are_those_of_a_literal_loop(design, cubic):
    log, x = ragged_log(design=design, seed=2)
    fit = arbitrary_fit(log, x)
    lotteries = random_lotteries(40, 5, 3)
    gamma = literal_gamma(fit, cubic)
    contexts = sorted({i for i, _, _ in gamma})

    def values(a, b):
        return np.array([sum(a[i, j] * b[i, k] * gamma[i, j, k] for j in range(5) for k in range(5) if j != k)
                         for i in contexts])  # fmt: skip

    pseudo = pseudo_outcomes(fit, Cubic(1.0) if cubic else Mean(), unseen="tie")
    found = score(pseudo, lotteries, cluster="context").overall
    assert found.n_contexts == len(contexts) == (40 if design == "inclusion" else len(set(log.context_of.tolist())))
    for p, a in enumerate(lotteries.values()):
        for q, b in enumerate(lotteries.values()):
            if p != q:
                each = values(a, b)
                assert found.value[p, q] == pytest.approx(each.mean(), abs=1e-8)
                assert found.error[p, q] == pytest.approx(each.std(ddof=1) / np.sqrt(len(each)), abs=1e-8)
        for j in range(5):
            each = values(np.broadcast_to(np.eye(5)[j], (40, 5)), a)
            assert found.against[p, j] == pytest.approx(each.mean(), abs=1e-8)
            assert found.against_error[p, j] == pytest.approx(each.std(ddof=1) / np.sqrt(len(each)), abs=1e-8)


# -- by hand ----------------------------------------------------------------------------------------------------------


def by_hand():
    """Three contexts, agents a and b; a > b asked at two of them with e = 1/2, and the model says mu = 0.2."""
    said = [partition.duel("a", "b", "a"), partition.duel("a", "b", "b")]
    x = np.arange(3.0)[:, None]
    log = Feedback.from_partitions(x, said, agents=["a", "b"], context_of=[0, 1], design="inclusion")
    mu, e = Given(lambda x, fold: np.full((len(x), 1), 0.2)), Given(lambda x, fold: np.full((len(x), 1), 0.5))
    return pseudo_outcomes(NuisanceFit(log, Features(x, x), make_folds(log, 2), mu, e))


def test_the_case_worked_by_hand():
    # Gamma_ab = 0.2 + (1 - 0.2) / 0.5 = 1.8 at x = 0; 0.2 + (-1 - 0.2) / 0.5 = -2.2 at 1; 0.2 at 2, where nobody asked.
    # one plays (1, 0), (1, 0), (1/2, 1/2); two plays (0, 1), (1/2, 1/2), (0, 1): W_ab = 1, 1/2, 1/2.
    lotteries = {"one": np.array([[1, 0], [1, 0], [0.5, 0.5]]), "two": np.array([[0, 1], [0.5, 0.5], [0, 1]])}
    found = score(by_hand(), lotteries, costs={"a": 3, "b": 1})
    each = np.array([1.8, -1.1, 0.1])
    assert found.value[0, 1] == pytest.approx(each.mean())
    error = np.sqrt(((each - each.mean()) ** 2).sum() / 2 / 3)
    assert found.overall.error[0, 1] == pytest.approx(error)
    # Two verdicts bear on it, with weights 2 and 1: Kish's number is 9 / 5.
    assert found.overall.effective[0, 1] == pytest.approx(1.8)
    assert (found.lower[0, 1], found.upper[0, 1]) == pytest.approx((-1.0, 1.0), abs=1e-6)
    wide = score(by_hand(), lotteries, confidence=0.1)
    # The verdicts correct by 1.6 and -1.2: 2 V^2 / Var(V) is more than the contexts less one, 2. Above the mean the
    # score test allows less than Wald's, with w = 1 - (1 - (mean / stake)^2)^3 of (mean^2 - t^2) 5 / 9; at stake is at
    # most what the lotteries differ by, (1 + 3/4 + 3/4) / 3.
    reach = error * t.ppf(0.55, 2)
    assert wide.lower[0, 1] == pytest.approx(each.mean() - reach)
    mean, up = each.mean(), wide.upper[0, 1]
    w = 1 - (1 - (mean / (5 / 6)) ** 2) ** 3
    assert up < mean + reach
    assert (up - mean) ** 2 == pytest.approx(reach**2 + t.ppf(0.55, 2) ** 2 * w * (mean**2 - up**2) * 5 / 9)
    # b alone against "two": -Gamma_ab (0, 1/2, 0); against "one": -Gamma_ab (1, 1, 1/2).
    assert found.overall.against[1] == pytest.approx([np.mean([1.8, -1.1, 0.2]), np.mean([0, 1.1, 0])])
    assert found.overall.against[0] == pytest.approx([np.mean([0, 0, 0.1]), np.mean([-1.8, 2.2, -0.1])])
    assert found.overall.worst_opponent == ("b", "b")
    assert found.spending.mean == pytest.approx([(3 + 3 + 2) / 3, (1 + 2 + 1) / 3])
    assert found.spending.upper[1] == pytest.approx(4 / 3 + t.ppf(0.975, 2) * np.sqrt(1 / 3 / 3))
    assert found.verdict == "No significant difference between one and two: 0.267 [-1.000, 1.000]."


def test_policies_that_agree_everywhere_are_said_to():
    alone = np.array([[1.0, 0.0]] * 3)
    found = score(by_hand(), {"one": alone, "two": alone.copy(), "three": 1 - alone})
    assert found.value[0, 1] == found.lower[0, 1] == found.upper[0, 1] == 0
    assert found.compare("one", "two") == "one and two agree at every context"
    assert found.overall.against[0, 0] == found.overall.against_upper[0, 0] == 0  # a against a
    assert found.best is None


def test_what_is_at_stake_is_bounded_by_how_much_policies_differ():
    # The divergence of Bernoulli(0) from Bernoulli(u) is -log(1 - u), so u = 1 - slack^(1 / n).
    np.testing.assert_allclose(most_at_stake(np.zeros(1), 100, 0.01), 1 - 0.01**0.01)
    np.testing.assert_array_equal(most_at_stake(np.array([0.3, 1.0]), np.inf, 0.01), [0.3, 1.0])
    rng = np.random.default_rng(0)
    share = (rng.random((4000, 50)) < 0.1).mean(axis=1)  # the 0.1 of which 50 contexts are a sample
    assert 0.5e-3 < (most_at_stake(share, 50, 0.05) < 0.1).mean() < 0.05
    log, x = duels(rng, 2000)
    one = best_response(x)
    two = one.copy()
    two[7] = worst_response(x)[7]  # they differ at one context of 2,000
    found = score(duel_pseudo(log, x), {"one": one, "two": two})
    assert found.overall.effective[0, 1] <= 2
    assert found.upper[0, 1] == pytest.approx(most_at_stake(np.array([1 / 2000]), 2000, 1e-3)[0])
    assert found.upper[0, 1] < 0.01
    assert "No significant difference" in found.verdict


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), K=st.integers(2, 6))
def test_no_payoff_takes_a_value_beyond_its_reach(seed, K):
    rng = np.random.default_rng(seed)
    said = [partition.duel("a", "b", "a")] * 30
    log = Feedback.from_partitions(rng.normal(size=(30, 1)), said, agents=list("abcdef"[:K]))
    pseudo = pseudo_outcomes(arbitrary_fit(log, rng.normal(size=(30, 1))))
    lotteries = np.stack(list(random_lotteries(30, K, 3, seed).values()))
    A = np.triu(rng.choice([-1.0, 1.0], (500, K, K)), 1)
    A -= A.transpose(0, 2, 1)
    response = np.zeros(lotteries.shape)
    pairs = head_to_head(pseudo, lotteries, response).reach
    for c, (p, q) in enumerate([(0, 1), (0, 2), (1, 2)]):
        value = np.einsum("nj,gjk,nk->gn", lotteries[p], A, lotteries[q])
        assert (np.abs(value).max(axis=0) <= pairs[:, c] + 1e-12).all()
    single = against_agents(pseudo, lotteries[0], response[0]).reach
    value = np.einsum("gjk,nk->gnj", A, lotteries[0])
    assert (np.abs(value).max(axis=0) <= single + 1e-12).all()


def test_pairs_that_no_menu_holds_widen_the_interval():
    log, x = ragged_log(design="draws", seed=2)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x))  # b, c and d never meet e
    n = log.n_contexts
    mixed = np.tile([0, 0.4, 0, 0, 0.6], (n, 1))
    lotteries = {"b": np.tile(np.eye(5)[1], (n, 1)), "mixed": mixed, "a": np.tile(np.eye(5)[0], (n, 1))}
    found = score(pseudo, lotteries).overall
    assert found.untold[0, 1] == pytest.approx(0.6)  # |1 * 0.6 - 0 * 0|
    assert found.untold[2, 1] == found.untold[0, 2] == 0
    assert found.upper[0, 1] - found.value[0, 1] >= 0.6
    assert any("never compares" in note for note in found.notes())
    # e against b, alone everywhere, is not told at all, whatever the votes on a say.
    assert (found.against_lower[0, 4], found.against_upper[0, 4]) == (-1, 1)


# -- properties -------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), design=st.sampled_from(DESIGNS), cluster=st.sampled_from(["context", "both"]))
def test_values_are_antisymmetric_and_swap_with_the_policies(seed, design, cluster):
    log, x = ragged_log(30, seed=seed, design=design)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x))
    lotteries = random_lotteries(30, 5, 3, seed=seed)
    found = score(pseudo, lotteries, cluster=cluster).overall
    np.testing.assert_array_equal(found.value, -found.value.T)
    np.testing.assert_array_equal(found.lower, -found.upper.T)
    np.testing.assert_array_equal(found.value.diagonal(), 0.0)
    assert (found.lower <= np.clip(found.value, -1, 1)).all()
    assert (found.worst_lower <= found.worst_upper).all()
    assert (found.worst_lower <= np.clip(found.worst, -1, 1)).all()
    swapped = score(pseudo, dict(reversed(lotteries.items())), cluster=cluster).overall
    np.testing.assert_allclose(swapped.value[::-1, ::-1], found.value, atol=1e-12)
    np.testing.assert_allclose(swapped.error[::-1, ::-1], found.error, atol=1e-12)


@pytest.mark.parametrize("design", DESIGNS)
def test_the_order_of_records_and_agents_does_not_matter(design):
    log, x = ragged_log(design=design, seed=4)
    rng, e = np.random.default_rng(0), Given(lambda x, fold: np.full((len(x), len(log.menus)), 0.4))
    lotteries = {"one": soft(x, 1, 5), "two": soft(x, 2, 5)}
    order = [3, 1, 4, 0, 2]
    shuffled = rng.permutation(log.n_records)
    other = Feedback.from_records(
        log.records.take(shuffled).with_agents(np.argsort(order)), agents=[log.agents[j] for j in order],
        contexts=log.contexts, context_of=log.context_of[shuffled], voters=log.voters, design=design,
    )  # fmt: skip

    def fitted(log):
        return pseudo_outcomes(NuisanceFit(log, Features(x, x), make_folds(log, 3), Given(tilted(log)), e))

    one = score(fitted(log), lotteries, cluster="both").overall
    two = score(fitted(other), {name: pi[:, order] for name, pi in lotteries.items()}, cluster="both").overall
    np.testing.assert_allclose(two.value, one.value, atol=1e-12)
    np.testing.assert_allclose(two.error, one.error, atol=1e-12)
    np.testing.assert_allclose(two.against, one.against[:, order], atol=1e-12)
    np.testing.assert_allclose(two.against_error, one.against_error[:, order], atol=1e-12)


def tilted(log):
    """An outcome model that gives a pair the same margin whatever the order of the agents."""
    strength = {agent: 0.1 * place for place, agent in enumerate(ABCDE)}
    columns = log.menus.columns
    margin = np.array([strength[log.agents[j]] - strength[log.agents[k]]
                       for j, k in zip(columns.j, columns.k, strict=True)])  # fmt: skip
    return lambda x, fold: np.tanh(x[:, :1] * margin)


@pytest.mark.parametrize(
    ("unseen", "clusters"), [("tie", ("context", "both", "voter")), ("model", ("context", "voter"))]
)
def test_single_agents_as_policies_score_as_mean_payoffs_do(unseen, clusters):
    """With "both" bridged pairs take part in making the covariance of all pairs definite, so that is left out."""
    from nasheval.payoff.clusters import group_moments
    from nasheval.payoff.inference import GroupPayoff

    log, x = ragged_log(80, design="inclusion", seed=5)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x), unseen=unseen)
    alone = {name: np.tile(np.eye(5)[j], (80, 1)) for j, name in enumerate(ABCDE)}
    for cluster in clusters:
        found = score(pseudo, alone, cluster=cluster).overall
        moments = group_moments(pseudo.estimand, np.zeros(80, int), 1, cluster)[0].floored()
        mean = GroupPayoff("all", log.agents, np.ones(80, bool), moments)
        held = ~np.isinf(mean.error) & (mean.status == 0)  # an interval of a bridged pair is no interval of a policy
        np.testing.assert_allclose(found.value, mean.estimate, atol=1e-12)
        np.testing.assert_allclose(found.error[held], mean.error[held], atol=1e-12)
        np.testing.assert_allclose(found.lower[held], mean.lower[held], atol=1e-9)
        np.testing.assert_allclose(found.against, -found.value, atol=1e-12)


def test_groups_are_scored_as_if_alone_but_for_holding_together():
    log, x = ragged_log(120, design="inclusion", seed=6)
    fit = arbitrary_fit(log, x)
    pseudo = pseudo_outcomes(fit, unseen="tie")
    lotteries = random_lotteries(120, 5, 2)
    found = score(pseudo, lotteries, by="side", cluster="context")
    assert [g.name for g in found.groups] in (["left", "right"], ["right", "left"])
    assert found.groups[0].n_contexts >= found.groups[1].n_contexts
    for group in found.groups:
        inside = np.array(log.contexts["side"].to_pylist()) == group.name
        assert group.n_contexts == inside.sum()
        gamma = pseudo.dense(np.flatnonzero(inside))
        j, k = np.triu_indices(5, 1)
        a, b = (pi[inside] for pi in lotteries.values())
        each = ((a[:, j] * b[:, k] - a[:, k] * b[:, j]) * gamma).sum(axis=1)
        assert group.value[0, 1] == pytest.approx(each.mean())
        assert group.error[0, 1] == pytest.approx(each.std(ddof=1) / np.sqrt(len(each)))
        # Two independent intervals that hold together are wider than one alone.
        freedom = group.effective[0, 1] - 1
        assert group.upper[0, 1] - each.mean() > group.error[0, 1] * t.ppf(0.975, freedom) * 1.02
    whole = found.overall.value[0, 1]
    assert whole == pytest.approx(sum(g.value[0, 1] * g.n_contexts for g in found.groups) / 120)


# -- recovery ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("wrong", ["nothing", "outcome", "propensity"])
def test_it_is_unbiased_if_either_nuisance_is_right_and_its_intervals_cover(draws, wrong):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (100_000, 2))
    target = (best_response(x) * true_payoff(x).mean(axis=2)).sum() / len(x)
    bad = {
        "outcome": {"mu": lambda x, fold: np.zeros((len(x), 6))},
        "propensity": {"e": lambda x, fold: np.full((len(x), 6), 0.6 - 0.3 * (x[:, :1] > 0))},
    }.get(wrong, {})
    estimates, covered = [], []
    for _ in range(60):
        log, x = duels(rng, 250, draws=draws)
        lotteries = {"one": best_response(x), "uniform": np.full((250, 4), 0.25)}
        found = score(duel_pseudo(log, x, draws=draws, **bad), lotteries).overall
        estimates.append(found.value[0, 1])
        covered.append(found.lower[0, 1] <= target <= found.upper[0, 1])
    error = np.std(estimates, ddof=1) / np.sqrt(60)
    assert target > 8 * error  # so the plug-in alone, which is 0 where mu is, would be far off
    assert abs(np.mean(estimates) - target) < 3.5 * error
    assert 0.87 <= np.mean(covered) <= 1.0


def test_intervals_shrink_with_the_root_of_the_contexts():
    rng = np.random.default_rng(2)
    widths = []
    for n in (400, 1600, 6400):
        log, x = duels(rng, n)
        found = score(duel_pseudo(log, x), {"one": soft(x, 1), "two": soft(x, 5)}).overall
        widths.append(found.upper[0, 1] - found.lower[0, 1])
    np.testing.assert_allclose([widths[0] / widths[1], widths[1] / widths[2]], 2.0, rtol=0.15)


def test_the_worst_opponent_is_found_and_its_interval_covers():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (200_000, 2))
    exact = np.einsum("njk,nk->j", true_payoff(x), soft(x, 1)) / len(x)
    exploitability = np.einsum("njk,nk->nj", true_payoff(x), soft(x, 1)).max(axis=1).mean()
    inside = below = 0
    for _ in range(60):
        log, x = duels(rng, 200)
        found = score(duel_pseudo(log, x), {"one": soft(x, 1)}).overall
        inside += found.worst_lower[0] <= exact.max() <= found.worst_upper[0]
        below += found.worst_lower[0] <= exploitability
    assert inside >= 54
    assert below >= 57
    log, x = duels(rng, 20_000)
    found = score(duel_pseudo(log, x), {"one": soft(x, 1)}).overall
    assert found.worst_opponent == ("abcd"[exact.argmax()],)
    assert found.worst[0] == pytest.approx(exact.max(), abs=0.03)


def test_voters_who_lean_make_wider_intervals():
    rng = np.random.default_rng(4)
    estimates, both, alone = [], [], []
    for _ in range(30):
        log, x = duels(rng, 400, voters=30, lean=0.6)
        pseudo, lotteries = duel_pseudo(log, x), {"one": np.tile([1.0, 0, 0, 0], (400, 1)), "two": soft(x, 5)}
        found = score(pseudo, lotteries).overall
        estimates.append(found.value[0, 1])
        both.append(found.error[0, 1])
        alone.append(score(pseudo, lotteries, cluster="context").overall.error[0, 1])
    spread = np.std(estimates, ddof=1)
    assert 0.8 < np.mean(both) / spread < 1.3
    assert np.mean(alone) < 0.9 * np.mean(both)


# -- the verdict ------------------------------------------------------------------------------------------------------


def test_the_better_policy_is_told():
    log, x = duels(np.random.default_rng(5), 1500)
    pseudo = duel_pseudo(log, x)
    found = score(pseudo, {"bad": worst_response(x), "good": best_response(x), "uniform": np.full((1500, 4), 0.25)})
    assert found.best == "good"
    assert found.beats.tolist() == [[False, False, False], [True, False, True], [True, False, False]]
    assert found.verdict.startswith("good is best; its closest rival: good beats uniform by 0.")
    assert found.compare("bad", "good") == found.compare("good", "bad")
    close = score(
        pseudo, {"a": best_response(x), "b": np.where(x[:, :1] > 0.98, 0.25, best_response(x)), "c": worst_response(x)}
    )
    assert close.best is None
    assert close.verdict == "No policy beats all others; beaten by none: a, b."
    assert any("effective" in note for note in close.notes)
    assert score(pseudo, {"a": best_response(x)}).verdict.startswith("a is alone")


def test_results_are_plain_data_and_print():
    log, x = ragged_log(60, design="draws", seed=8)
    lotteries = {"[bold]": soft(x, 1, 5), "other": soft(x, 2, 5)}
    found = score(pseudo_outcomes(arbitrary_fit(log, x)), lotteries, by="side", costs=dict.fromkeys(ABCDE, 2.0))
    told = json.loads(json.dumps(found.to_dict()))
    assert told["policies"] == ["[bold]", "other"]
    assert np.shape(told["overall"]["against"]) == (2, 5)
    assert told["spending"]["mean"] == pytest.approx([2, 2])
    assert len(told["groups"]) == 2
    for words in ("[bold]", "Head to head", "Worst single opponent", "By side", "have no record and are left out"):
        assert words in str(found)

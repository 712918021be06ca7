"""Held-out scores: against a literal loop, by hand, by properties, and against a known truth."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from nasheval.errors import InputError
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.payoff.aggregators import Cubic, Mean
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.stage1 import fit_stage1
from nasheval.scoring.evaluate import evaluate, lotteries_of
from nasheval.scoring.heldout import score

from .logs import (
    ABCDE,
    Fixed,
    Given,
    arbitrary_fit,
    duel_pseudo,
    duels,
    ragged_log,
    random_lotteries,
    soft,
    true_payoff,
)

DESIGNS = ["inclusion", "draws"]

# -- the oracle: Eq. payoff-pseudo-outcome and Eq. eval-game-value, one record and one pair at a time -----------------


def literal_gamma(fit, cubic):
    """Return {(i, j, k): Gamma_jk(O_i)} of every context that has a pseudo-outcome."""
    log, found = fit.log, {}
    columns = list(zip(log.menus.columns.menu, log.menus.columns.j, log.menus.columns.k, strict=True))
    for i in range(log.n_contexts):
        records = [r for r in range(log.n_records) if log.context_of[r] == i]
        if log.design == "draws" and not records:
            continue
        fold = fit.fold[i]
        mu = fit.outcome_models.predict(fit.X[np.array([i])], fold)[0]
        e = fit.propensity_models.predict(fit.X[np.array([i])], fold)[0]
        total = sum(log.records.weights[r] for r in records)
        for j in range(log.n_agents):
            for k in range(j + 1, log.n_agents):
                mine = [c for c, (_, a, b) in enumerate(columns) if (a, b) == (j, k)]
                value, slopes = f_jk(mu[mine], cubic)
                for r in records:
                    for c, slope in zip(mine, slopes, strict=True):
                        if columns[c][0] != log.menus.of_record[r]:
                            continue
                        share = log.records.weights[r] / max(e[columns[c][0]], fit.lowest)
                        share /= total if log.design == "draws" else 1.0
                        value += share * slope * (verdict(log, r, j, k) - mu[c])
                found[i, j, k], found[i, k, j] = value, -value
    return found


def f_jk(mu, cubic):
    """f and its derivatives, by bisection and finite differences for the cubic: link(y) = mean of link(mu)."""
    if not len(mu):
        return 0.0, []
    if not cubic:
        return mu.mean(), np.full(len(mu), 1 / len(mu))

    def value(at):
        target, low, high = np.mean(at + at**3), -1.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if middle + middle**3 < target else (low, middle)
        return low

    step = 1e-5
    return value(mu), [(value(mu + step * d) - value(mu - step * d)) / (2 * step) for d in np.eye(len(mu))]


def verdict(log, r, j, k):
    entries = slice(log.records.offsets[r], log.records.offsets[r + 1])
    block = dict(zip(log.records.agent[entries].tolist(), log.records.block[entries].tolist(), strict=True))
    return np.sign(block[k] - block[j])


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

    found = score(pseudo_outcomes(fit, Cubic(1.0) if cubic else Mean()), lotteries, cluster="context").overall
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
    # Two verdicts bear on it, with weights 2 and 1: Kish's number is 9 / 5, one less is the freedom of Student's t.
    assert found.overall.effective[0, 1] == pytest.approx(1.8)
    assert (found.lower[0, 1], found.upper[0, 1]) == (-1.0, 1.0)
    wide = score(by_hand(), lotteries, confidence=0.1)
    assert wide.upper[0, 1] == pytest.approx(each.mean() + error * t.ppf(0.55, 0.8))
    # b alone against "two": -Gamma_ab (0, 1/2, 0); against "one": -Gamma_ab (1, 1, 1/2).
    assert found.overall.against[1] == pytest.approx([np.mean([1.8, -1.1, 0.2]), np.mean([0, 1.1, 0])])
    assert found.overall.against[0] == pytest.approx([np.mean([0, 0, 0.1]), np.mean([-1.8, 2.2, -0.1])])
    assert found.overall.worst_opponent == ("b", "b")
    assert found.spending.mean == pytest.approx([(3 + 3 + 2) / 3, (1 + 2 + 1) / 3])
    assert found.spending.upper[1] == pytest.approx(4 / 3 + t.ppf(0.975, 2) * np.sqrt(1 / 3 / 3))
    assert found.verdict == "one and two are not told apart: 0.267 [-1.000, 1.000]."


def test_policies_that_agree_everywhere_are_said_to():
    alone = np.array([[1.0, 0.0]] * 3)
    found = score(by_hand(), {"one": alone, "two": alone.copy(), "three": 1 - alone})
    assert found.value[0, 1] == found.lower[0, 1] == found.upper[0, 1] == 0
    assert found.compare("one", "two") == "one and two agree at every context"
    assert found.overall.against[0, 0] == found.overall.against_upper[0, 0] == 0  # a against a
    assert found.best is None


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


def test_single_agents_as_policies_score_as_mean_payoffs_do():
    from nasheval.payoff.inference import group_payoff

    log, x = ragged_log(80, design="inclusion", seed=5)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x))
    alone = {name: np.tile(np.eye(5)[j], (80, 1)) for j, name in enumerate(ABCDE)}
    for cluster in ("context", "both", "voter"):
        found = score(pseudo, alone, cluster=cluster).overall
        mean = group_payoff(pseudo, cluster=cluster)
        held = ~np.isinf(mean.error)
        np.testing.assert_allclose(found.value, mean.estimate, atol=1e-12)
        np.testing.assert_allclose(found.error[held], mean.error[held], atol=1e-12)
        np.testing.assert_allclose(found.lower[held], mean.lower[held], atol=1e-9)
        np.testing.assert_allclose(found.against, -found.value, atol=1e-12)


def test_groups_are_scored_as_if_alone_but_for_holding_together():
    log, x = ragged_log(120, design="inclusion", seed=6)
    fit = arbitrary_fit(log, x)
    pseudo = pseudo_outcomes(fit)
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


def best_response(x):
    return np.eye(4)[true_payoff(x).mean(axis=2).argmax(axis=1)]


def worst_response(x):
    return np.eye(4)[true_payoff(x).mean(axis=2).argmin(axis=1)]


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


# -- from policies and logs -------------------------------------------------------------------------------------------

FAST = {"outcome": Intercept(), "folds": 2, "verbose": False}


def test_policies_are_aligned_by_name():
    log, _ = duels(np.random.default_rng(6), 300)
    plain = Fixed("abcd", lambda x: soft(x, 1))
    turned = Fixed("dbca", lambda x: soft(x, 1)[:, [3, 1, 2, 0]])
    few = Fixed("cb", lambda x: soft(x, 3, 2))
    found = evaluate({"plain": plain, "turned": turned, "few": few}, log, propensity="marginal", **FAST)
    assert found.compare("plain", "turned") == "plain and turned agree at every context"
    assert found.value[0, 2] == found.value[1, 2] != 0
    np.testing.assert_array_equal(lotteries_of("few", few, log)[:, [0, 3]], 0.0)


class Constant:
    """A learner that plays what won most often; it notes the Stage 1 it was given."""

    def __init__(self):
        self.seen = []

    def fit(self, stage1):
        self.seen.append(stage1)
        best = int(stage1.payoffs(stage1.log.contexts).mean(axis=(0, 2)).argmax())
        return Fixed(stage1.agents, lambda x: np.tile(np.eye(4)[best], (len(x), 1)))


def test_unfitted_policies_share_one_stage1_of_the_training_log():
    train, _ = duels(np.random.default_rng(7), 300)
    test, _ = duels(np.random.default_rng(8), 300)
    one, two = Constant(), Constant()
    policies = {"one": one, "two": two, "fixed": Fixed("abcd", lambda x: soft(x, 1))}
    found = evaluate(policies, test, train=train, propensity="marginal", **FAST)
    assert one.seen == two.seen
    assert one.seen[0].log is train
    assert found.value[0, 1] == 0
    stage1 = fit_stage1(train, outcome=Intercept(), propensity="marginal", folds=2, effort=Effort())
    again = evaluate(policies, test, train=stage1, propensity="marginal", **FAST)
    assert one.seen[1] is stage1
    np.testing.assert_allclose(again.value, found.value)


def test_it_does_the_same_again():
    log, _ = duels(np.random.default_rng(9), 300)
    policies = {"one": Fixed("abcd", lambda x: soft(x, 1)), "two": Fixed("abcd", lambda x: soft(x, 2))}
    one, two = (evaluate(policies, log, by="side", **FAST).to_dict() for _ in range(2))
    assert one == two


def test_a_handful_of_contexts_says_little_and_says_so():
    log, _ = duels(np.random.default_rng(10), 4)
    policies = {"one": Fixed("abcd", best_response), "two": Fixed("abcd", worst_response)}
    found = evaluate(policies, log, outcome=Intercept(), propensity="marginal", verbose=False)
    assert found.best is None
    assert any("rough below 20" in note for note in found.notes)
    assert any("fewer than 30 effective votes" in note for note in found.notes)


def test_what_cannot_be_evaluated_is_refused():
    log, _ = duels(np.random.default_rng(11), 60)
    good = Fixed("abcd", lambda x: soft(x, 1))

    def refused(message, policies, test=log, **more):
        with pytest.raises(InputError, match=message):
            evaluate(policies, test, **{**FAST, "propensity": "marginal", **more})

    refused("at least one policy", {})
    refused("accepted is something with agents", {"bt": "bt"})
    refused("bt: not fitted, and train is None", {"bt": Constant()})
    refused("the same log", {"bt": Constant()}, train=log)
    refused("plays 'z', which the test log never names", {"bt": Fixed("abz", lambda x: soft(x, 1, 3))})
    refused(r"shape \(60, 3\)", {"bt": Fixed("abcd", lambda x: soft(x, 1, 3))})
    refused("do not sum to 1", {"bt": Fixed("abcd", lambda x: 2 * soft(x, 1))})
    refused("no context column", {"bt": good}, by="language")
    refused("confidence is 95", {"bt": good}, confidence=95)
    refused("cluster is 'judge'", {"bt": good}, cluster="judge")
    refused("no records", {"bt": good}, log.keep_records(np.zeros(log.n_records, bool)))
    refused("says nothing of 'b', 'c', 'd'", {"bt": good}, costs={"a": 1})
    refused("is 'price', no context column", {"bt": good}, costs=dict.fromkeys("abcd", "price"))
    refused("accepted is a finite number", {"bt": good}, costs=dict.fromkeys("abcd", "side"))
    refused("accepted is a finite number", {"bt": good}, costs=dict.fromkeys("abcd", float("nan")))
    refused("costs is list", {"bt": good}, costs=[1, 2, 3, 4])


def test_costs_may_be_context_columns():
    log, x = duels(np.random.default_rng(12), 200)
    policies = {"one": Fixed("abcd", lambda x: soft(x, 1))}
    found = evaluate(policies, log, costs={"a": "x0", "b": 1.0, "c": "x1", "d": 0}, propensity="marginal", **FAST)
    each = (soft(x, 1) * np.stack([x[:, 0], np.ones(200), x[:, 1], np.zeros(200)], axis=1)).sum(axis=1)
    assert found.spending.mean == pytest.approx([each.mean()])
    assert found.spending.error == pytest.approx([each.std(ddof=1) / np.sqrt(200)])

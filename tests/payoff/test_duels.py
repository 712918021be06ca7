"""Games of duels, row by row and in one call, have the bits of whole games; other games are not asked for that way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nasheval as ne
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.game.by_rows import grow_by_rows
from nasheval.game.checks import games_of
from nasheval.game.costs import LinearCost
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import lotteries, solve
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.voters_duels import Electorate
from nasheval.payoff.duel_game import duel_lottery
from nasheval.payoff.duels import DuelGames
from nasheval.payoff.stage1 import fit_stage1
from nasheval.payoff.strengths import Strength
from nasheval.payoff.surfaces import Boosting, fit_pairs, fit_shared
from nasheval.policy import exact
from nasheval.policy.exact import ExactPolicy
from nasheval.policy.learned import LearnedPolicy
from nasheval.policy.router import Router

from .test_bridging import VOTERS, duels

ALL = {(0, 1): 60, (0, 2): 60, (1, 2): 60, (0, 3): 60, (1, 3): 60, (2, 3): 60}
UP = np.ones(4, bool)
STAR = {(0, 1): 60, (0, 2): 60, (0, 3): 60}
APART = {(0, 1): 60, (2, 3): 60}  # nothing connects the two pairs


def fitted(counts, **options):
    return fit_stage1(duels(counts, 4), **{"outcome": VOTERS, "second_stage": "none", "folds": 2, **options})


def corrected(stage1, known):
    """The game with a shared correction of some pairs, large enough that payoffs are cut off at one."""
    rng, X = np.random.default_rng(1), Features.of(stage1.encoder, stage1.log.contexts)
    labels = rng.normal(size=(len(X), 6)) + 2 * np.sign(X.network[:, :1])
    surface = fit_shared(X, labels, known, Boosting(trees=30, leaves=12, least=5, rate=0.3), 4)
    strength = Strength(0.5, 0.0, 0.0, 0.5, "shared", 30, per_pair=tuple(np.where(known, rng.uniform(0.3, 1, 6), 0)))
    payoff = replace(stage1.payoff, surface=surface, strength=strength)
    return replace(stage1, payoff=payoff)


def apart(stage1):
    """The game with a correction per pair, two of which are trees."""
    X = Features.of(stage1.encoder, stage1.log.contexts)
    labels = 2 * np.sign(X.network[:, :1]) * np.array([1.0, 0, 1, 0, 0, 1])
    surface = fit_pairs(
        X, labels, np.array([True, False, True, False, False, True]), Boosting(trees=5, least=5), Effort()
    )
    strength = Strength(0.7, 0.0, 0.0, 0.7, "per-pair", 5)
    return replace(stage1, payoff=replace(stage1.payoff, surface=surface, strength=strength))


def forms():
    whole = fitted(ALL)
    some = np.array([True, False, True, True, False, True])
    return {
        "plug-in": whole,
        "bridged": fitted(STAR),
        "ties for unseen pairs": fitted(STAR, unseen="tie"),
        "unknown pairs": fitted(APART),
        "corrected": corrected(whole, some),
        "corrected everywhere": corrected(whole, np.ones(6, bool)),
        "corrected pair by pair": apart(whole),
        "bridged and corrected": corrected(fitted(STAR), np.array([True, True, True, False, False, False])),
    }


@pytest.mark.parametrize("form", forms())
def test_rows_have_the_bits_of_the_whole_game(form):
    stage1 = forms()[form]
    assert DuelGames.of(stage1.payoff).have_rows == (form != "corrected pair by pair")
    if form == "corrected pair by pair":  # its models are asked one by one
        return
    X = Features.of(stage1.encoder, stage1.log.contexts)
    games, rows = stage1.payoff.predict(X), DuelGames.of(stage1.payoff).at(X)
    context, agent = (each.ravel() for each in np.meshgrid(np.arange(len(X)), np.arange(4), indexing="ij"))
    np.testing.assert_array_equal(rows(context, agent), games[context, agent])
    order = np.random.default_rng(0).permutation(len(context))[:50]  # any of them, in any order
    np.testing.assert_array_equal(rows(context[order], agent[order]), games[context[order], agent[order]])
    if "corrected" in form:
        assert (np.abs(games) == 1).any()
        assert not np.array_equal(games, fitted(ALL).payoff.predict(X))


def test_games_whose_pairs_are_made_together_have_no_rows():
    ballots = [partition.ranking(np.random.default_rng(i).permutation(list("abcd")).tolist()) for i in range(60)]
    rankings = Feedback.from_partitions([{"x": float(i)} for i in range(60)], ballots, agents=list("abcd"))
    top = [partition.top(b, "abcd") for b in "abcd" * 15]
    tops = Feedback.from_partitions([{"x": float(i)} for i in range(60)], top, agents=list("abcd"))
    others = [
        fitted(ALL, outcome=Intercept()),
        fitted(ALL, second_stage="shared", boosting=Boosting(trees=3, least=5)),
        fit_stage1(tops, outcome=VOTERS, second_stage="none", folds=2),
    ]
    assert [DuelGames.of(stage1.payoff) for stage1 in others] == [None] * 3
    for log in (rankings, tops):
        stage1 = fit_stage1(log, outcome=VOTERS, second_stage="none", folds=2)
        rows, X = DuelGames.of(stage1.payoff), Features.of(stage1.encoder, log.contexts)
        if rows is not None:  # an order of agents does not depend on who else was there
            contexts = np.arange(len(X))
            for agent in range(4):
                row = rows.at(X)(contexts, np.full(len(X), agent))
                np.testing.assert_array_equal(row, stage1.payoff.predict(X)[:, agent])


@pytest.mark.parametrize("form", forms())
def test_one_context_has_the_lottery_of_its_game(form):
    stage1 = forms()[form]
    X, answers = Features.of(stage1.encoder, stage1.log.contexts), []
    for row in range(40):
        one = X[row : row + 1]
        games = np.repeat(games_of(stage1.payoff.predict_pairs(one), 4), 2, axis=0)
        for rho in (0.0, 1e-3, 0.3):
            answer = DuelGames.of(stage1.payoff).lottery(one, rho)
            if answer is not None:
                answers.append(answer)
                expected = lotteries(games, L2(rho), np.ones(4, bool))[0]
                np.testing.assert_array_equal(answer[0], expected)
                np.testing.assert_array_equal(ExactPolicy(L2(rho)).fit(stage1).lotteries(one, L2(rho), UP)[0], expected)
    assert len(answers) >= 80  # without a regulariser, equal answers are left to others


@pytest.mark.parametrize("form", forms())
def test_lotteries_are_those_of_the_games(form, monkeypatch):
    monkeypatch.setattr(exact, "PIVOT_UP_TO", 3)
    stage1, asked = forms()[form], []
    contexts = stage1.log.contexts
    monkeypatch.setattr(DuelGames, "lotteries", spied(DuelGames.lotteries, asked))
    for rho in (1e-3, 0.3):
        found = ExactPolicy(L2(rho)).fit(stage1).predict_proba(contexts)
        whole = solve(stage1.payoffs(contexts), regularizer=L2(rho)).strategy
        np.testing.assert_allclose(found, whole, atol=1e-14)  # so few agents are pivoted, which rounds otherwise
        one = ExactPolicy(L2(rho)).fit(stage1).predict_proba(contexts.slice(3, 1))
        np.testing.assert_allclose(one[0], found[3], atol=1e-4)
    assert len(asked) == (0 if form == "corrected pair by pair" else 4)
    monkeypatch.setattr(exact, "PIVOT_UP_TO", 2)
    some = ExactPolicy(L2(0.1)).fit(stage1).predict_proba(contexts, agents=["a", "c", "d"])
    up = np.array([True, False, True, True])
    whole = solve(stage1.payoffs(contexts), regularizer=L2(0.1), available=up).strategy
    np.testing.assert_allclose(some, whole, atol=1e-14)
    assert len(asked) == (0 if form == "corrected pair by pair" else 5)


def tasted(stage1, seed=0):
    """The same with voters whose utilities depend on the context a lot, several of them playing."""
    rng, models = np.random.default_rng(seed), stage1.payoff.plugin.outcome_models
    parameters = {name: values.copy() for name, values in models.parameters.items()}
    for name in ("head", "taste", "pooled"):
        parameters[name] = rng.normal(size=parameters[name].shape).astype(np.float32)
    voters = replace(models, parameters=parameters)
    bridge = stage1.payoff.bridge
    bridge = bridge if bridge is None else replace(bridge, models=voters)
    plugin = replace(stage1.payoff.plugin, outcome_models=voters)
    return replace(stage1, payoff=replace(stage1.payoff, plugin=plugin, bridge=bridge))


@pytest.mark.parametrize("form", forms())
@pytest.mark.parametrize("rho", [1e-3, 0.3, 3.0])
def test_games_that_are_left_open_have_the_bits_of_their_rows(form, rho, monkeypatch):
    """Which neighbours of a context are left open changes nothing: nothing is worked out at another height."""
    stage1 = tasted(forms()[form])
    if not DuelGames.of(stage1.payoff).have_rows:
        return
    X = Features.of(stage1.encoder, stage1.log.contexts)[:120]
    duels, some = DuelGames.of(stage1.payoff), np.arange(0, 120, 3)
    games = duels.at(X)
    for agent in range(4):
        rows = games(some, np.full(len(some), agent))
        np.testing.assert_array_equal(games.whole(some)[:, agent], rows)
    np.testing.assert_array_equal(games.whole(np.arange(120)), stage1.payoff.predict(X))
    expected = solve(stage1.payoff.predict(X), regularizer=L2(rho)).strategy
    np.testing.assert_allclose(duels.lotteries(X, L2(rho), UP), expected, atol=1e-14)
    monkeypatch.setattr("nasheval.payoff.duels._WHOLE", 16 * 7)  # seven at a time
    monkeypatch.setattr("nasheval.game.by_rows._FEW", 1)
    np.testing.assert_allclose(duels.lotteries(X, L2(rho), UP), expected, atol=1e-14)


def test_a_whole_number_as_rho_compiles_nothing():
    stage1 = fitted(ALL)
    X = Features.of(stage1.encoder, stage1.log.contexts)
    known = []
    for rho in (1.0, 1):
        DuelGames.of(stage1.payoff).lottery(X[:1], rho)
        DuelGames.of(stage1.payoff).lotteries(X, L2(rho), UP)
        known.append([len(kernel.signatures) for kernel in (duel_lottery, grow_by_rows)])
    assert known[0] == known[1]


def test_favourites_are_up_whatever_others_are():
    s = np.ones((1, 1, 3, 1, 4), np.float32)
    s[..., 1], s[..., 3] = 2.0, np.inf
    weight, zero = np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 3, 1), np.float32)
    electorate = Electorate(s, zero, weight, zero, zero[0])
    assert electorate.favourites(np.array([True, True, True, False])).tolist() == [1, 1, 1]
    assert electorate.favourites(np.array([True, False, True, False])).tolist() == [0, 0, 0]
    assert electorate.favourites(np.array([False, False, False, True])).tolist() == [3, 3, 3]


def test_a_router_of_a_learned_policy_loads_no_games(monkeypatch):
    made = []
    monkeypatch.setattr(exact.ExactEquilibria, "whole", spied(exact.ExactEquilibria.whole, made))
    policy = LearnedPolicy(epochs=1).fit(fitted(ALL))
    Router(policy).ready()
    assert not made


def test_a_router_is_ready_for_games_that_many_play(monkeypatch):
    """Rows are all that most contexts take; what the others take is loaded beforehand too."""
    monkeypatch.setattr(exact, "PIVOT_UP_TO", 3)
    made = []
    monkeypatch.setattr(exact.ExactEquilibria, "whole", spied(exact.ExactEquilibria.whole, made))
    policy = ExactPolicy(L2(1e-3)).fit(corrected(fitted(ALL), np.ones(6, bool)))
    Router(policy).ready()
    assert made


def test_other_games_are_made_as_a_whole(monkeypatch):
    """Costs, budgets, entropy, no regulariser, a large one, and few agents up."""
    monkeypatch.setattr(exact, "PIVOT_UP_TO", 3)
    stage1, asked = fitted(ALL), []
    monkeypatch.setattr(DuelGames, "lotteries", spied(DuelGames.lotteries, asked))
    costs = dict(zip("abcd", (1.0, 2.0, 3.0, 4.0), strict=True))
    for policy in (
        ExactPolicy(Entropy(0.1)),
        ExactPolicy(L2(0.0)),
        ExactPolicy(L2(9.0)),
        ExactPolicy(LinearCost(L2(0.1), np.arange(4.0))),
        ExactPolicy(costs=costs, cost_weight=0.1),
        ExactPolicy(costs=costs, budget=2.0),
    ):
        policy.fit(stage1).predict_proba(stage1.log.contexts)
    few = ExactPolicy().fit(stage1).predict_proba(stage1.log.contexts, agents=["a", "c"])
    assert not asked
    assert (few[:, [1, 3]] == 0).all()


def test_a_model_of_many_agents_answers_by_rows(tmp_path):
    """From a log of 60 agents to lotteries, in a loaded model and its router too."""
    rng = np.random.default_rng(0)
    names = [f"m{a:02d}" for a in range(60)]
    skill, x = rng.normal(size=60), rng.normal(size=3000)
    j, k = np.array([rng.choice(60, 2, replace=False) for _ in range(3000)]).T
    wins = rng.random(3000) < 1 / (1 + np.exp(skill[k] - skill[j] - x * np.sign(skill[j] - skill[k])))
    votes = [
        {"model_a": names[a], "model_b": names[b], "winner": "model_a" if won else "model_b", "x": value}
        for a, b, won, value in zip(j, k, wins, x, strict=True)
    ]
    log = ne.read_votes(votes, context=["x"])
    model = ne.NashEval(outcome=VOTERS, verbose=False, folds=2).fit(log)
    model.save(tmp_path / "model")
    contexts = [{"x": float(value)} for value in np.linspace(-2, 2, 70)]
    expected = solve(model.payoff(contexts)).strategy
    loaded = ne.load(tmp_path / "model")
    found = loaded.predict_proba(contexts)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    router = loaded.router()
    for context in contexts[::10]:
        np.testing.assert_array_equal(router(context), loaded.predict_proba([context])[0])


def spied(method, calls):
    def spy(self, *arguments):
        calls.append(arguments)
        return method(self, *arguments)

    return spy

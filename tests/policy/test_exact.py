"""The exact policy: games by hand, the solver as oracle, costs in the user's units, agents that are down."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.errors import InputError
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import solve
from nasheval.payoff.stage1 import fit_stage1
from nasheval.policy import base
from nasheval.policy.base import Policy, PolicyLearner
from nasheval.policy.exact import ExactPolicy

from .hand import NAMES, antisymmetric, random_games
from .worlds import of_function

RPS = np.array([[0.0, 1, -1], [-1, 0, 1], [1, -1, 0]])  # a beats b beats c beats a


def of_games(games, **columns):
    """Stage 1 whose context i has the i-th game."""
    table = pa.table({"i": np.arange(len(games), dtype=float), **columns})
    return of_function(lambda x: np.asarray(games)[np.asarray(x)[:, 0].astype(int)], len(games[0]), table)


def lotteries(stage1, agents=None, **options):
    return ExactPolicy(**options).fit(stage1).predict_proba(stage1.log.contexts, agents=agents)


def test_rock_paper_scissors_with_one_of_them_down():
    stage1 = of_games([RPS])
    assert lotteries(stage1) == pytest.approx(np.full((1, 3), 1 / 3))
    assert lotteries(stage1, agents=["a", "b"]).tolist() == [[1, 0, 0]]
    assert lotteries(stage1, agents=["c", "b"]).tolist() == [[0, 1, 0]]
    assert lotteries(stage1, agents=["c"]).tolist() == [[0, 0, 1]]


def test_two_agents_with_costs_by_hand():
    # a beats b by 1/2; with rho = 1 its share is 1/2 + (1/2 - price) / 2, and its scaled cost is 1, that of b is 0
    stage1 = of_games([antisymmetric([[0, 0.5], [0, 0]])])
    given = {"regularizer": L2(1.0), "costs": {"b": 10.0, "a": 30.0}}
    assert lotteries(stage1, **given)[0] == pytest.approx([0.75, 0.25])
    assert lotteries(stage1, **given, cost_weight=0.2)[0] == pytest.approx([0.65, 0.35])
    # a budget of 22 leaves a share of 0.6 for a
    assert lotteries(stage1, **given, budget=22.0)[0] == pytest.approx([0.6, 0.4])
    assert lotteries(stage1, **given, budget=10.0)[0] == pytest.approx([0, 1], abs=1e-9)


def test_the_price_of_an_agent_does_not_depend_on_who_else_is_up():
    # the scaled costs are 0.5, 0, 1 over all three agents, and would be 1, 0 over the first two
    stage1 = of_games([antisymmetric([[0, 0.5, 0], [0, 0, 0], [0, 0, 0]])])
    given = {"regularizer": L2(1.0), "costs": {"a": 5, "b": 0, "c": 10}, "cost_weight": 0.4}
    assert lotteries(stage1, agents=["a", "b"], **given)[0] == pytest.approx([0.65, 0.35, 0])


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(0, 1000), st.data())
def test_lotteries_are_equilibria_among_those_that_are_up(K, seed, data):
    games = random_games(3, K, seed)
    up = sorted(data.draw(st.sets(st.integers(0, K - 1), min_size=1)))
    names = data.draw(st.permutations([NAMES[k] for k in up]))
    pi = lotteries(of_games(games), agents=names, regularizer=L2(0.01))
    assert (pi[:, np.setdiff1d(range(K), up)] == 0).all()
    inside = solve(games[:, up][:, :, up], regularizer=L2(0.01)).strategy
    assert pi[:, up] == pytest.approx(inside, abs=1e-9)


@pytest.mark.parametrize("regularizer", [L2(1e-3), L2(0.0), Entropy(0.1), Entropy(0.1, [0.1, 0.2, 0.3, 0.4])])
@pytest.mark.parametrize("budget", [None, 1.5, SoftBudget(1.5, 0.1, 1.0, 0.2)])
def test_costs_that_vary_by_context_are_columns(regularizer, budget, monkeypatch):
    monkeypatch.setattr(base, "CELLS", 2 * 16)  # two contexts at a time
    games, costs = random_games(8, 4), np.random.default_rng(0).uniform(1, 3, (8, 4))
    costs[:, 1] = 1.0
    stage1 = of_games(games, a=costs[:, 0], **{"cost of c": costs[:, 2]}, d=costs[:, 3])
    given = {"regularizer": regularizer, "cost_weight": 0.1, "budget": budget}
    pi = lotteries(stage1, costs={"a": "a", "b": 1, "c": "cost of c", "d": "d"}, **given)
    assert pi == pytest.approx(solve(games, costs=costs, **given).strategy, abs=1e-8)
    if budget == 1.5:
        assert ((pi * costs).sum(axis=1) <= 1.5 + 1e-9).all()


def test_batches_do_not_matter(monkeypatch):
    stage1 = of_games(random_games(10, 3))
    whole = lotteries(stage1)
    monkeypatch.setattr(base, "CELLS", 1)
    assert (lotteries(stage1) == whole).all()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"costs": {"a": 1, "b": 2}}, "has none for 'c'"),
        ({"costs": {"a": 1, "b": 2, "c": "price"}}, "column 'price'.*'i', 'gaps'"),
        ({"costs": {"a": 1, "b": 2, "c": "gaps"}}, "'gaps'.*missing.*context 1"),
        ({"costs": {"a": 1, "b": 2, "c": 3}, "cost_weight": -1}, "cost_weight"),
        ({"costs": {"a": 1, "b": 2, "c": 3}, "budget": 0.5}, "0.5.*cheapest agent costs 1"),
        ({"cost_weight": 1.0}, "none were given"),
        ({"budget": 1.0}, "none were given"),
    ],
)
def test_what_cannot_be_played_is_refused_when_fitted(options, told):
    stage1 = of_games(random_games(2, 3), gaps=[1.0, None])
    with pytest.raises(InputError, match=told):
        ExactPolicy(**options).fit(stage1)


def test_agents_that_nobody_can_pay_for_are_refused():
    policy = ExactPolicy(costs={"a": 1, "b": 2, "c": 3}, budget=1.5).fit(of_games([RPS]))
    with pytest.raises(InputError):
        policy.predict_proba([{"i": 0.0}], agents=["b", "c"])
    with pytest.raises(InputError, match="'z'"):
        policy.predict_proba([{"i": 0.0}], agents=["z"])


def test_on_a_fitted_stage_1():
    world = ne.SyntheticWorld(seed=70)
    stage1 = fit_stage1(world.feedback("pairwise", n=200), outcome="lightgbm", second_stage="none", folds=2)
    learner = ExactPolicy()
    policy = learner.fit(stage1)
    assert isinstance(learner, PolicyLearner)
    assert isinstance(policy, Policy)
    test = np.asarray(world.test_contexts(50))
    assert policy.predict_proba(test) == pytest.approx(solve(stage1.payoffs(test)).strategy)
    assert policy.predict_proba(test[:0]).shape == (0, 5)

"""Bradley-Terry scores, Borda, BT-Reg and BT-cost: by hand, against literal programs, and against each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from nasheval.errors import ConvergenceError, InputError
from nasheval.game import scores
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.scores import best_of, fit_scores
from nasheval.game.solver import solve
from nasheval.policy import bradley_terry
from nasheval.policy.baselines import Borda, BradleyTerry, BudgetedBT, RegularizedBT
from nasheval.policy.bradley_terry import bt_scores, spend_best

from .hand import antisymmetric, coarse_games, contexts_of, of_games, random_games

KAPPA = 1e-4


def objective(s, B):
    """Eq. syn-bt-projection, term by term."""
    K, total = len(B), 0.0
    for j in range(K):
        for k in range(j + 1, K):
            total += np.log1p(np.exp(s[j] - s[k])) - (1 + B[j, k]) / 2 * (s[j] - s[k])
    return total / (K * (K - 1) / 2) + KAPPA / 2 * np.sum(np.square(s))


# -- scores -----------------------------------------------------------------------------------------------------------


def test_two_agents_by_hand():
    # the derivative in s_1 = -s_2 = d / 2 is (tanh(d / 2) - b) / 2 + kappa d / 2; it vanishes at d = 1 for this b
    b = np.tanh(0.5) + KAPPA
    assert bt_scores(antisymmetric([[[0, b], [0, 0]]])) == pytest.approx(np.array([[0.5, -0.5]]), abs=1e-8)


def test_three_agents_by_hand():
    # scores (1, 0, -1) need row sums tanh(1/2) + tanh(1) + 6 kappa, 0 and minus the first; any B with those will do
    r = np.tanh(0.5) + np.tanh(1) + 6 * KAPPA
    for cycle in (0.0, 0.3):
        B = antisymmetric([[[0, r / 2 + cycle, r / 2 - cycle], [0, 0, r / 2 + cycle], [0, 0, 0]]])
        assert bt_scores(B)[0] == pytest.approx([1, 0, -1], abs=1e-6)


@pytest.mark.parametrize("K", [2, 3, 5, 8])
def test_scores_minimise_the_printed_objective(K):
    games = random_games(6, K, seed=K)
    for B, s in zip(games, bt_scores(games), strict=True):
        found = minimize(objective, np.zeros(K), args=(B,), method="BFGS", options={"gtol": 1e-7})
        assert s == pytest.approx(found.x, abs=1e-4)
        assert objective(s, B) <= found.fun + 1e-12


@settings(max_examples=40)
@given(coarse_games())
def test_the_gradient_is_below_a_billionth(B):
    s, K = bt_scores(B[None])[0], len(B)
    pairs = K * (K - 1) / 2
    win = 1 / (1 + np.exp(s[None, :] - s[:, None]))
    slope = (win - (1 + B) / 2).sum(axis=1) / pairs + KAPPA * s  # the diagonal is zero: 1/2 - 1/2
    assert np.abs(slope).max() <= 1.001e-9


def test_certain_verdicts_have_finite_scores():
    s = bt_scores(np.sign(np.subtract.outer(np.arange(6.0)[::-1], np.arange(6.0)[::-1]))[None])[0]
    assert np.isfinite(s).all()
    assert (np.diff(s) < -1).all()


def test_many_problems_in_chunks_are_those_alone(monkeypatch):
    games = random_games(50, 4)
    together = bt_scores(games)
    monkeypatch.setattr(scores, "_CELLS", 16 * 7)
    assert bt_scores(games) == pytest.approx(together, abs=1e-12)
    assert bt_scores(games[:0]).shape == (0, 4)
    assert bt_scores(np.zeros((3, 1, 1))).tolist() == [[0], [0], [0]]


def test_scores_that_do_not_settle_are_not_handed_out(monkeypatch):
    monkeypatch.setattr(scores, "_STEPS", 1)
    with pytest.raises(ConvergenceError, match="did not settle within 1 Newton steps"):
        fit_scores(np.array([[0.9, -0.9]]), 1 - np.eye(2), ridge=KAPPA)


def test_of_equal_values_the_first_is_best():
    assert best_of(np.array([[0, 1, 1], [2, 1, 2], [0, 0.5 - 1e-12, 0.5]])).argmax(axis=1).tolist() == [1, 0, 1]


# -- Bradley-Terry and Borda ------------------------------------------------------------------------------------------


def test_bradley_terry_looks_at_the_payoff_it_is_told():
    a_first, b_first = antisymmetric([[[0, 0.5], [0, 0]]]), antisymmetric([[[0, -0.5], [0, 0]]])
    stage1 = of_games(debiased=a_first, plug_in=b_first)
    at = contexts_of(a_first)
    assert BradleyTerry().fit(stage1).predict_proba(at).tolist() == [[0, 1]]
    assert BradleyTerry(payoff="debiased").fit(stage1).predict_proba(at).tolist() == [[1, 0]]
    assert Borda().fit(stage1).predict_proba(at).tolist() == [[1, 0]]
    assert Borda(payoff="plug-in").fit(stage1).predict_proba(at).tolist() == [[0, 1]]


def test_borda_by_hand():
    # mean margins of a: (-0.2 + 0.9) / 2 = 0.35; of b: (0.2 + 0.4) / 2 = 0.3, though b beats both others
    B = antisymmetric([[[0, -0.2, 0.9], [0, 0, 0.4], [0, 0, 0]]])
    at = contexts_of(B)
    for learner in (Borda(), BradleyTerry(payoff="debiased")):
        policy = learner.fit(of_games(B))
        assert policy.predict_proba(at).tolist() == [[1, 0, 0]]
        assert policy.predict_proba(at, agents=["a", "b"]).tolist() == [[0, 1, 0]]
        assert policy.predict_proba(at, agents=["c"]).tolist() == [[0, 0, 1]]


@settings(max_examples=80)
@given(coarse_games(), st.data())
def test_bradley_terry_and_borda_order_alike(B, data):
    rows = B.sum(axis=1)
    s = bt_scores(B[None])[0]
    assert (np.sign(np.round(s[:, None] - s, 9)) == np.sign(rows[:, None] - rows)).all()
    stage1, at = of_games(B[None]), contexts_of(B[None])
    up = data.draw(st.lists(st.sampled_from(stage1.agents), min_size=1, unique=True))
    one, other = (learner.fit(stage1) for learner in (BradleyTerry(payoff="debiased"), Borda()))
    assert one.predict_proba(at, agents=up).tolist() == other.predict_proba(at, agents=up).tolist()


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(InputError, match="payoff is 'oracle'; accepted are 'plug-in' and 'debiased'"):
        BradleyTerry(payoff="oracle")
    with pytest.raises(InputError, match="the policy knows"):
        Borda().fit(of_games(random_games(1, 3))).predict_proba(contexts_of([0]), agents=["z"])


# -- BT-Reg -----------------------------------------------------------------------------------------------------------


def test_regularised_bt_by_hand():
    # the game is tanh(1/2) = g; with rho = 1 the weights differ by g / rho
    b, g = np.tanh(0.5) + KAPPA, np.tanh(0.5)
    B = antisymmetric([[[0, b], [0, 0]]])
    policy = RegularizedBT(regularizer=L2(1.0)).fit(of_games(B))
    assert policy.predict_proba(contexts_of(B))[0] == pytest.approx([(1 + g) / 2, (1 - g) / 2], abs=1e-8)


def test_a_reference_lottery_is_kept_among_those_up():
    games = np.zeros((1, 3, 3))
    policy = RegularizedBT(regularizer=Entropy(1.0, [0.5, 0.3, 0.2])).fit(of_games(games))
    assert policy.predict_proba(contexts_of(games))[0] == pytest.approx([0.5, 0.3, 0.2])
    assert policy.predict_proba(contexts_of(games), agents=["a", "b"])[0] == pytest.approx([0.625, 0.375, 0])


def test_regularised_bt_solves_the_game_of_its_scores_among_those_up():
    games = random_games(20, 5)
    policy, at, up = RegularizedBT().fit(of_games(np.zeros_like(games), plug_in=games)), contexts_of(games), [0, 2, 3]
    s = bt_scores(games[:, up][:, :, up])
    span = 2 / (1 + np.exp(s[:, None, :] - s[:, :, None])) - 1
    found = policy.predict_proba(at, agents=["a", "c", "d"])
    assert found[:, up] == pytest.approx(solve((span - span.swapaxes(1, 2)) / 2).strategy, abs=1e-9)
    assert found[:, [1, 4]].max() == 0


# -- BT-cost ----------------------------------------------------------------------------------------------------------


def test_a_budget_between_two_agents_mixes_them():
    # b is better and costs 3, a costs 1: half of each spends 2
    B = antisymmetric([[[0, -0.5], [0, 0]]])
    stage1, at = of_games(B), contexts_of(B)
    assert BudgetedBT(costs={"b": 3, "a": 1}, budget=2.0).fit(stage1).predict_proba(at)[0] == pytest.approx([0.5, 0.5])
    assert BudgetedBT(costs=[1, 3], budget=1.0).fit(stage1).predict_proba(at).tolist() == [[1, 0]]
    assert BudgetedBT(costs=[1, 3], budget=9.0).fit(stage1).predict_proba(at).tolist() == [[0, 1]]


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(0, 1000), st.floats(0, 1), st.booleans())
def test_budgets_agree_with_highs(K, seed, share, coarse):
    rng = np.random.default_rng(seed)
    costs, value = (rng.integers(0, 4, (2, K)) if coarse else rng.uniform(0, 5, (2, K))).astype(float)
    budget = costs.min() + share * np.ptp(costs)
    pi = spend_best(value[None], costs[None], budget)[0]
    found = linprog(-value, A_ub=costs[None], b_ub=[budget], A_eq=np.ones((1, K)), b_eq=[1.0], method="highs")
    assert pi.min() >= 0
    assert pi.sum() == pytest.approx(1)
    assert costs @ pi <= budget + 1e-12
    assert value @ pi == pytest.approx(-found.fun, abs=1e-8)


def test_the_win_rate_is_that_against_a_uniform_opponent():
    games = random_games(30, 4, seed=3)
    costs, budget = np.array([1.0, 2, 4, 8]), 3.0
    s = bt_scores(games)
    rate = (1 / (1 + np.exp(s[:, None, :] - s[:, :, None]))).mean(axis=2)
    policy = BudgetedBT(costs=costs, budget=budget).fit(of_games(games))
    assert policy.predict_proba(contexts_of(games)) == pytest.approx(spend_best(rate, np.tile(costs, (30, 1)), budget))


def test_a_budget_that_buys_nobody_is_an_error():
    games = random_games(1, 3)
    with pytest.raises(InputError, match=r"budget is 0\.5, and at some context the cheapest agent that is up costs 1:"):
        BudgetedBT(costs=[1, 2, 3], budget=0.5).fit(of_games(games))
    policy = BudgetedBT(costs=[1, 2, 3], budget=1.5).fit(of_games(games))
    with pytest.raises(InputError, match="cheapest agent that is up costs 2"):
        policy.predict_proba(contexts_of(games), agents=["b", "c"])
    for budget in (np.nan, np.inf):
        with pytest.raises(InputError, match="no lottery costs as little"):
            BudgetedBT(costs=[1, 2, 3], budget=budget).fit(of_games(games))
    with pytest.raises(InputError, match="costs is None"):
        BudgetedBT(costs=None, budget=1).fit(of_games(games))


def test_costs_may_vary_by_context():
    # b is better everywhere and costs 1 and 3 there; a costs 1: with 2 to spend, b alone and then half of each
    games = np.repeat(antisymmetric([[[0, -0.5], [0, 0]]]), 2, axis=0)
    stage1, at = of_games(games), contexts_of(games).append_column("price", pa.array([1.0, 3.0]))
    stage1.log.contexts = at
    policy = BudgetedBT(costs={"a": 1, "b": "price"}, budget=2.0).fit(stage1)
    assert policy.predict_proba(at) == pytest.approx(np.array([[0, 1], [0.5, 0.5]]))
    assert policy.predict_proba(at.slice(1), agents=["a"]).tolist() == [[1, 0]]
    with pytest.raises(InputError, match="cheapest agent that is up costs 3"):
        policy.predict_proba(at, agents=["b"])
    with pytest.raises(InputError, match="column 'price'"):
        policy.predict_proba(contexts_of(games))


def test_many_budgets_in_chunks_are_those_alone(monkeypatch):
    rng = np.random.default_rng(0)
    value, costs = rng.uniform(size=(2, 20, 4))
    whole = spend_best(value, costs, 0.9)
    monkeypatch.setattr(bradley_terry, "_CELLS", 16 * 3)
    assert (spend_best(value, costs, 0.9) == whole).all()


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ({"a": 1, "b": 2}, "has none for 'c'"),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, "names 'd', no agent"),
        ([1, 2], "3 finite numbers, one per agent"),
        ([1, 2, np.nan], "3 finite numbers, one per agent"),
        (["cheap", 2, 3], "something that is not a number"),
    ],
)
def test_costs_that_do_not_fit_the_agents_are_refused(costs, said):
    with pytest.raises(InputError, match=said):
        BudgetedBT(costs=costs, budget=5).fit(of_games(random_games(1, 3)))

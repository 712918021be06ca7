"""Hard and soft budgets against quadratic programs through Clarabel, and by their own conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nasheval.errors import ConvergenceError, InputError
from nasheval.game import quadratic
from nasheval.game.costs import SoftBudget
from nasheval.game.gaps import gap
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import solve

from .games import RPS, integer_games, random_games
from .test_quadratic import games

REGULARIZERS = [L2(0.0), L2(1e-3), L2(0.1), Entropy(0.05)]


def by_quadratic_program(A: np.ndarray, rho: float, costs: np.ndarray, budget: float) -> np.ndarray:
    """Minimise the gap over the budgeted simplex, its inner maximum written as a minimum by duality.

    G(pi) = rho/2 ||pi||^2 + min {nu + mu C + rho/2 ||v||^2 : rho v >= A pi - nu - mu c, v >= 0, mu >= 0}.
    """
    clarabel = pytest.importorskip("clarabel")
    K = len(A)
    P = np.diag(np.r_[np.full(2 * K, rho), 0, 0])
    q = np.r_[np.zeros(2 * K), 1, budget]
    rows = np.block(
        [
            [np.ones(K), np.zeros(K + 2)],
            [costs, np.zeros(K + 2)],
            [-np.eye(K), np.zeros((K, K + 2))],
            [np.zeros((K, K)), -np.eye(K), np.zeros((K, 2))],
            [np.zeros(2 * K + 1), -1.0],
            [A, -rho * np.eye(K), -np.ones((K, 1)), -costs[:, None]],
        ]
    )
    target = np.r_[1, budget, np.zeros(3 * K + 1)]
    return _clarabel(clarabel, P, q, rows, target)[:K]


def least_norm_by_quadratic_program(A: np.ndarray, costs: np.ndarray, budget: float) -> np.ndarray:
    """Minimise ||pi||^2 over the pi within the budget that nobody within the budget exploits."""
    clarabel = pytest.importorskip("clarabel")
    K = len(A)
    P = np.diag(np.r_[np.ones(K), 0, 0])
    rows = np.block(
        [
            [np.ones(K), 0, 0],
            [costs, 0, 0],
            [-np.eye(K), np.zeros((K, 2))],
            [np.zeros(K + 1), -1.0],
            [np.zeros(K), 1, budget],
            [A, -np.ones((K, 1)), -costs[:, None]],
        ]
    )
    return _clarabel(clarabel, P, np.zeros(K + 2), rows, np.r_[1, budget, np.zeros(2 * K + 2)])[:K]


def _clarabel(clarabel, P: np.ndarray, q: np.ndarray, rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-13
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(len(rows) - 1)]
    solver = clarabel.DefaultSolver(sparse.csc_matrix(P), q, sparse.csc_matrix(rows), target, cones, options)
    return np.array(solver.solve().x)


@pytest.mark.parametrize("rho", [1e-2, 0.1, 1.0])
@pytest.mark.parametrize("K", [2, 4, 8, 20])
def test_hard_budgets_agree_with_a_quadratic_program(rho: float, K: int) -> None:
    rng = np.random.default_rng(K)
    for A in random_games(8, K, seed=K):
        costs = rng.uniform(0, 1, K)
        budget = float(np.quantile(costs, 0.3))
        found = solve(A, regularizer=L2(rho), costs=costs, budget=budget)
        np.testing.assert_allclose(found.strategy, by_quadratic_program(A, rho, costs, budget), atol=1e-7)


@pytest.mark.parametrize("K", [2, 3, 5, 8])
def test_hard_budgets_without_regulariser_take_the_least_norm(K: int) -> None:
    rng = np.random.default_rng(K)
    for A in [*random_games(6, K, seed=K), *integer_games(6, K, seed=K)]:
        costs = rng.integers(0, 4, K).astype(float)
        budget = float(costs.min() + 0.4 * np.ptp(costs) + 0.05)
        pi = solve(A, regularizer=L2(0.0), costs=costs, budget=budget).strategy
        np.testing.assert_allclose(pi, least_norm_by_quadratic_program(A, costs, budget), atol=1e-5)


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
@pytest.mark.parametrize("K", [3, 10, 45])
def test_hard_budgets_are_kept_and_paid_for(regularizer: L2 | Entropy, K: int) -> None:
    rng = np.random.default_rng(0)
    A, costs = random_games(20, K), rng.uniform(1, 5, (20, K))
    budget = float(costs.min(-1).max() + 0.1)
    found = solve(A, regularizer=regularizer, costs=costs, budget=budget)
    spend = (costs * found.strategy).sum(-1)
    assert spend.max() <= budget + 1e-12
    assert np.abs(found.price * (budget - spend)).max() < 1e-10
    assert np.abs(found.gap).max() < 1e-10
    assert found.kkt.max() < 1e-10
    assert (found.price > 0).any()


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_nobody_within_the_budget_does_better(regularizer: L2 | Entropy) -> None:
    A, costs, budget = random_games(10, 6), np.arange(6.0), 1.5
    found = solve(A, regularizer=regularizer, costs=costs, budget=budget)
    for q in np.random.default_rng(0).dirichlet(np.full(6, 0.3), 500):
        if q @ costs <= budget:
            against = np.einsum("j,njk,nk->n", q, A, found.strategy)
            excess = against - regularizer.value(q) + regularizer.value(found.strategy)
            assert excess.max() <= 1e-9


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_a_budget_nobody_exceeds_changes_nothing(regularizer: L2 | Entropy) -> None:
    A, costs = random_games(20, 6), np.arange(6.0)
    found = solve(A, regularizer=regularizer, costs=costs, budget=5.0)
    np.testing.assert_allclose(found.strategy, solve(A, regularizer=regularizer).strategy, atol=1e-12)
    np.testing.assert_array_equal(found.price, 0)


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_a_budget_for_the_cheapest_only_is_the_game_among_them(regularizer: L2 | Entropy) -> None:
    A, costs = random_games(20, 6), np.array([2.0, 1, 1, 3, 1, 2])
    found = solve(A, regularizer=regularizer, costs=costs, budget=1.0)
    among = [1, 2, 4]
    inner = regularizer if isinstance(regularizer, L2) else Entropy(regularizer.tau)
    expected = solve(A[:, among][:, :, among], regularizer=inner).strategy
    np.testing.assert_allclose(found.strategy[:, among], expected, atol=1e-12)
    np.testing.assert_array_equal(found.strategy[:, [0, 3, 5]], 0)
    assert found.kkt.max() < 1e-10


def test_without_regulariser_two_lotteries_are_mixed_to_meet_the_budget() -> None:
    # The dear agent beats the cheap one, so both players want it: at half its cost, it is played half the time.
    found = solve([[0, 1], [-1, 0]], regularizer=L2(0.0), costs=[2, 0], budget=1.0)
    np.testing.assert_allclose(found.strategy, [0.5, 0.5], atol=1e-14)
    assert found.price == pytest.approx(0.5)  # 1 payoff buys 2 of cost


def test_rock_paper_scissors_with_a_dear_rock() -> None:
    found = solve(RPS, regularizer=L2(0.0), costs=[1, 0, 0], budget=0.2)
    assert found.strategy @ [1, 0, 0] == pytest.approx(0.2, abs=1e-13)
    assert found.gap == pytest.approx(0, abs=1e-13)


def test_a_budget_and_a_cost_weight_together() -> None:
    A, costs = random_games(30, 5), np.array([0.0, 1, 2, 3, 4])
    both = solve(A, costs=costs, cost_weight=0.3, budget=1.0)
    prices = 0.3 * costs / 4
    shifted = A - prices[:, None] + prices[None]
    np.testing.assert_allclose(both.strategy, solve(shifted, costs=costs, budget=1.0).strategy, atol=1e-12)
    assert np.abs(both.gap).max() < 1e-12


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
@pytest.mark.parametrize("soft", [SoftBudget(2.0, 0.1, 2.0, 0.3), SoftBudget(1.5, 0.0, 100.0, 1e-2)], ids=str)
def test_soft_budgets_set_the_price_they_charge(regularizer: L2 | Entropy, soft: SoftBudget) -> None:
    A, costs = random_games(15, 6), np.random.default_rng(0).uniform(1, 3, (15, 6))
    found = solve(A, regularizer=regularizer, costs=costs, budget=soft)
    assert np.abs(found.gap).max() < 1e-10
    spend = (costs * found.strategy).sum(-1)
    np.testing.assert_allclose(found.price, soft.derivative(spend), rtol=1e-12)
    prices = found.price[:, None] * costs
    at_that_price = A - prices[:, :, None] + prices[:, None, :]
    assert np.abs(gap(found.strategy, at_that_price, regularizer=regularizer)).max() < 1e-9


def test_a_soft_budget_without_penalty_is_a_linear_price() -> None:
    A, costs = random_games(20, 5), np.arange(5.0)
    for regularizer in REGULARIZERS:
        soft = solve(A, regularizer=regularizer, costs=costs, budget=SoftBudget(1.0, 0.2, 0.0, 1.0))
        linear = solve(A, regularizer=regularizer, costs=costs, cost_weight=0.8)
        np.testing.assert_allclose(soft.strategy, linear.strategy, atol=1e-12)


def test_a_steep_soft_budget_comes_near_the_hard_one() -> None:
    A, costs = random_games(20, 5), np.arange(5.0)
    hard = solve(A, regularizer=L2(0.1), costs=costs, budget=1.0).strategy
    soft = solve(A, regularizer=L2(0.1), costs=costs, budget=SoftBudget(1.0, 0.0, 100.0, 1e-4)).strategy
    np.testing.assert_allclose(soft, hard, atol=0.01)


def test_the_soft_budget_does_not_overflow() -> None:
    soft = SoftBudget(1.0, 0.5, 2.0, 1e-3)
    spend = np.array([-1e6, 0.0, 1.0, 1e6])
    np.testing.assert_allclose(soft.derivative(spend), [0.5, 0.5, 1.5, 2.5])
    np.testing.assert_allclose(soft.value(spend), [-5e5, 0, 0.5 + 2e-3 * np.log(2), 5e5 + 2 * (1e6 - 1)])


@settings(max_examples=50, deadline=None)
@given(games(), st.data())
def test_any_game_under_any_budget_is_certified(A: np.ndarray, data: st.DataObject) -> None:
    costs = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(A), max_size=len(A))), float)
    budget = costs.min() + data.draw(st.sampled_from([0, 1e-9, 0.5, 1, 2]))
    found = solve(A, regularizer=data.draw(st.sampled_from(REGULARIZERS)), costs=costs, budget=budget)
    assert found.strategy @ costs <= budget + 1e-10
    assert abs(found.gap) < 1e-9


@pytest.mark.parametrize("room", [1e-3, 1e-6, 1e-9, 1e-11])
def test_hardly_any_money_beyond_the_cheapest_agent(room: float) -> None:
    # Only agent 3 beats agent 1, the free one: all the money goes there, 2/3 payoff a unit of cost.
    A = np.array([[0, 0, 1, 2], [0, 0, 2, -2], [-1, -2, 0, 1], [-2, 2, -1, 0]])
    found = solve(A, regularizer=L2(0.0), costs=[3, 0, 2, 3], budget=room)
    np.testing.assert_allclose(found.strategy, [0, 1 - room / 3, 0, room / 3], rtol=1e-5, atol=1e-15)
    assert found.price == pytest.approx(2 / 3, rel=1e-6)


def test_a_lottery_that_overspends_is_never_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    free = solve(random_games(3, 4), regularizer=L2(0.1)).strategy
    monkeypatch.setattr(quadratic, "budgeted_equilibria", lambda *_: (free, np.zeros(3, int), np.zeros(3)))
    with pytest.raises(ConvergenceError, match="gap of -"):
        solve(random_games(3, 4), regularizer=L2(0.1), costs=[1, 2, 3, 4], budget=1.1)


def test_a_budget_below_every_cost_is_an_error() -> None:
    with pytest.raises(InputError, match="cheapest agent costs 2"):
        solve(random_games(2, 3), costs=[[1, 2, 3], [4, 3, 2]], budget=1.5)


@pytest.mark.parametrize("wrong", [(np.nan, 0, 1, 1), (1, -1, 1, 1), (1, 0, -1, 1), (1, 0, 1, 0)])
def test_a_soft_budget_has_sensible_numbers(wrong: tuple[float, float, float, float]) -> None:
    with pytest.raises(InputError, match="price and penalty at least 0, and width above 0"):
        SoftBudget(*wrong)

"""Solving among the agents that are up, against the games that are left when the others are taken out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.game.costs import ConvexCost, HardBudget, LinearCost, SoftBudget
from nasheval.game.regularizers import L2, Entropy, Regularizer
from nasheval.game.solver import solve

from .games import RPS, integer_games, random_games, with_dominated
from .test_quadratic import games

N, K = 24, 6
RNG = np.random.default_rng(0)
A = np.concatenate([random_games(N // 2, K), integer_games(N // 2, K)])
COSTS = RNG.uniform(1, 4, (N, K))
REFERENCE = RNG.dirichlet(np.full(K, 3.0), N)
UP = RNG.random((N, K)) < 0.6
UP[np.arange(N), RNG.integers(0, K, N)] = True
DEAREST_CHEAPEST = float(np.where(UP, COSTS, np.inf).min(-1).max())


def left(omega: Regularizer, g: int, up: np.ndarray) -> Regularizer:
    """Return the regulariser of game g with the agents that are down cut out, written anew for each kind."""
    match omega:
        case Entropy(reference=reference) if reference is not None:
            kept = np.broadcast_to(reference, (N, K))[g, up]
            return Entropy(omega.tau, kept / kept.sum())
        case LinearCost():
            return LinearCost(left(omega.base, g, up), np.broadcast_to(omega.costs, (N, K))[g, up])
        case ConvexCost():
            return ConvexCost(left(omega.base, g, up), np.broadcast_to(omega.costs, (N, K))[g, up], omega.disutility)
        case HardBudget():
            return HardBudget(left(omega.base, g, up), np.broadcast_to(omega.costs, (N, K))[g, up], omega.limit)
    return omega


OMEGAS: dict[str, Regularizer] = {
    "L2": L2(1e-2),
    "no regulariser": L2(0.0),
    "entropy": Entropy(0.1),
    "entropy to a reference": Entropy(0.1, REFERENCE[0]),
    "entropy to references": Entropy(0.1, REFERENCE),
    "linear cost": LinearCost(L2(1e-2), COSTS),
    "soft budget": ConvexCost(L2(1e-2), COSTS, SoftBudget(2.0, 0.1, 1.0, 0.2)),
    "soft budget, entropy, prices": ConvexCost(
        LinearCost(Entropy(0.1, REFERENCE), 0.1 * COSTS[0]), COSTS[0], SoftBudget(2.0, 0.1, 1.0, 0.2)
    ),
    "hard budget": HardBudget(L2(1e-2), COSTS, DEAREST_CHEAPEST + 0.2),
    "hard budget, no regulariser": HardBudget(L2(0.0), COSTS, DEAREST_CHEAPEST + 0.2),
    "hard budget, entropy": HardBudget(Entropy(0.1, REFERENCE), COSTS, DEAREST_CHEAPEST + 0.2),
    "hard budget for the cheapest only": HardBudget(L2(1e-2), COSTS, DEAREST_CHEAPEST),
}


@pytest.mark.parametrize("name", OMEGAS)
def test_the_answer_is_that_of_the_game_that_is_left(name: str) -> None:
    found = solve(A, regularizer=OMEGAS[name], available=UP)
    np.testing.assert_array_equal(found.strategy[~UP], 0)
    for g, up in enumerate(UP):
        alone = solve(A[g][np.ix_(up, up)], regularizer=left(OMEGAS[name], g, up))
        np.testing.assert_allclose(found.strategy[g, up], alone.strategy, atol=1e-9)
        assert (found.price is None) == (alone.price is None)
        if found.price is not None:
            assert found.price[g] == pytest.approx(float(alone.price), abs=1e-9)
    assert np.abs(found.gap).max() < 1e-10
    assert found.kkt.max() < 1e-10
    assert found.iterations.shape == (N,)


@settings(max_examples=50, deadline=None)
@given(games(), st.data())
def test_any_game_among_any_agents_is_solved(game: np.ndarray, data: st.DataObject) -> None:
    up = np.array(data.draw(st.lists(st.booleans(), min_size=len(game), max_size=len(game))))
    up[data.draw(st.integers(0, len(game) - 1))] = True
    costs = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(game), max_size=len(game))), float)
    budget = costs[up].min() + data.draw(st.sampled_from([0, 0.5, 1, 4]))
    rho = data.draw(st.sampled_from([0.0, 1e-3, 0.1]))
    found = solve(game, regularizer=L2(rho), costs=costs, budget=budget, available=up)
    alone = solve(game[np.ix_(up, up)], regularizer=L2(rho), costs=costs[up], budget=budget)
    np.testing.assert_array_equal(found.strategy[~up], 0)
    np.testing.assert_array_equal(found.strategy[up], alone.strategy)
    assert found.gap == alone.gap


def test_one_mask_for_all_games_and_one_game_alone() -> None:
    up = np.array([True, False, True, True, False, True])
    whole = solve(A, available=up)
    np.testing.assert_array_equal(whole.strategy, solve(A, available=np.tile(up, (N, 1))).strategy)
    one = solve(A[3], available=up)
    np.testing.assert_array_equal(one.strategy, whole.strategy[3])
    assert np.ndim(one.gap) == 0


def test_with_all_agents_up_nothing_changes() -> None:
    np.testing.assert_array_equal(solve(A, available=np.ones(K, bool)).strategy, solve(A).strategy)


def test_by_hand_rock_paper_scissors_without_rock() -> None:
    found = solve(with_dominated(RPS), regularizer=L2(0.0), available=np.array([False, True, True, True]))
    np.testing.assert_array_equal(found.strategy, [0, 1, 0, 0])  # agent 1 beats agent 2


def test_the_price_of_an_agent_does_not_depend_on_which_others_are_up() -> None:
    costs, up = np.array([0.0, 1, 2, 3, 4, 10]), np.array([True, True, True, True, True, False])
    found = solve(A, costs=costs, cost_weight=2.0, available=up)
    prices = 2.0 * costs[:5] / 10
    alone = solve(A[:, :5, :5] - prices[:, None] + prices[None])
    np.testing.assert_allclose(found.strategy[:, :5], alone.strategy, atol=1e-12)


def test_no_agent_up_is_an_error_that_names_the_game() -> None:
    up = np.ones((N, K), bool)
    up[7] = False
    with pytest.raises(InputError, match="No agent is available in game 7"):
        solve(A, available=up)


def test_no_agent_up_within_the_budget_is_an_error_that_names_the_game() -> None:
    up = np.ones((N, K), bool)
    up[5] = [False, False, True, True, False, False]
    with pytest.raises(InputError, match=r"No agent available in game 5 fits the budget 1.5: .* costs 3"):
        solve(A, costs=np.arange(1.0, K + 1), budget=1.5, available=up)


@pytest.mark.parametrize("wrong", [np.ones(K - 1, bool), np.ones((N + 1, K), bool), np.ones(K), np.arange(K)])
def test_a_mask_says_yes_or_no_of_every_agent(wrong: np.ndarray) -> None:
    with pytest.raises(InputError, match="True where the agent is available"):
        solve(A, available=wrong)


def test_no_games_at_all() -> None:
    assert solve(np.zeros((0, 4, 4)), available=np.array([True, False, True, False])).strategy.shape == (0, 4)

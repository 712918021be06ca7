"""Degenerate games first: there other solvers fail."""

from __future__ import annotations

import numpy as np
import pytest

from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import Solution, solve

from .games import DEGENERATE, RPS, cyclic, integer_games, random_games, tournament, with_clone, with_dominated

STRENGTHS = (0.0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 100.0)


def certified(solution: Solution, A: np.ndarray) -> bool:
    size = max(1.0, np.abs(A).max())
    pi = solution.strategy
    lottery = np.all(pi >= 0) and np.all(np.abs(pi.sum(-1) - 1) < 1e-12)
    return bool(lottery and np.all(np.abs(solution.gap) < 1e-10 * size) and np.all(solution.kkt < 1e-10 * size))


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("rho", STRENGTHS)
def test_the_l2_game_is_certified(name: str, rho: float) -> None:
    assert certified(solve(DEGENERATE[name], regularizer=L2(rho)), DEGENERATE[name])


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("tau", [1e-3, 1.0])
def test_the_entropy_game_is_certified(name: str, tau: float) -> None:
    A = np.asarray(DEGENERATE[name], float)
    A = A / max(1.0, np.abs(A).max())
    assert certified(solve(A, regularizer=Entropy(tau)), A)


@pytest.mark.parametrize("name", [name for name in DEGENERATE if len(DEGENERATE[name]) < 40])
@pytest.mark.parametrize("rho", [0.0, 1e-3])
def test_budgets_are_certified(name: str, rho: float) -> None:
    A = np.asarray(DEGENERATE[name], float)
    A = A / max(1.0, np.abs(A).max())
    costs = np.arange(len(A)) // 2
    for budget in (0.0, 0.25, 1.0, 100.0, SoftBudget(0.5, 0.1, 2.0, 0.1)):
        assert certified(solve(A, regularizer=L2(rho), costs=costs, budget=budget), A)


@pytest.mark.parametrize("rho", [0.0, 1e-6, 1e-3])
@pytest.mark.parametrize("K", [4, 9, 20])
@pytest.mark.parametrize("most", [1, 3])
def test_batches_of_small_integer_games_are_certified(rho: float, K: int, most: int) -> None:
    A = integer_games(300, K, most, seed=K)
    assert certified(solve(A, regularizer=L2(rho)), A)


@pytest.mark.parametrize("broken_by", [1e-16, 1e-13, 1e-11, 1e-9, 1e-7])
def test_ties_broken_by_a_hair_are_certified(broken_by: float) -> None:
    A = integer_games(200, 8, seed=8) + broken_by * random_games(200, 8)
    assert certified(solve(A, regularizer=L2(0.0)), A)
    assert certified(solve(A, regularizer=L2(1e-6)), A)


def test_all_ties_give_the_uniform_lottery() -> None:
    for rho in STRENGTHS:
        np.testing.assert_allclose(solve(np.zeros((7, 7)), regularizer=L2(rho)).strategy, 1 / 7, atol=1e-15)


def test_one_agent_gets_everything() -> None:
    for regularizer in (L2(0.0), L2(1.0), Entropy(0.1)):
        assert solve(np.zeros((1, 1)), regularizer=regularizer).strategy == [1.0]


def test_two_agents_by_hand() -> None:
    # rho pi - A pi is equal for both: pi_1 - pi_2 = a / rho, unless that exceeds 1.
    A = np.array([[0, 0.3], [-0.3, 0]])
    np.testing.assert_allclose(solve(A, regularizer=L2(0.5)).strategy, [0.8, 0.2], atol=1e-15)
    np.testing.assert_array_equal(solve(A, regularizer=L2(0.2)).strategy, [1, 0])
    np.testing.assert_array_equal(solve(A, regularizer=L2(0.0)).strategy, [1, 0])


def test_the_papers_cycle_of_three_raters_gives_the_uniform_lottery() -> None:
    orders = ([0, 1, 2], [1, 2, 0], [2, 0, 1])
    A = np.mean([np.sign(np.subtract.outer(np.argsort(o), np.argsort(o))).T for o in orders], axis=0)
    np.testing.assert_allclose(A, RPS / 3)
    for regularizer in (L2(0.0), L2(1e-3), L2(1.0), Entropy(1e-3)):
        np.testing.assert_allclose(solve(A, regularizer=regularizer).strategy, 1 / 3, atol=1e-14)


@pytest.mark.parametrize("K", [3, 9, 51])
def test_a_regular_tournament_gives_the_uniform_lottery(K: int) -> None:
    for rho in STRENGTHS:
        np.testing.assert_allclose(solve(cyclic(K), regularizer=L2(rho)).strategy, 1 / K, atol=1e-13)


def test_tournaments_have_odd_supports() -> None:
    """Laffond, Laslier and Le Breton: the one maximal lottery of a tournament has an odd support."""
    for seed in range(40):
        pi = solve(tournament(8 + seed % 2, seed), regularizer=L2(0.0)).strategy
        assert np.count_nonzero(pi) % 2 == 1


def test_a_dominated_agent_gets_exactly_nothing() -> None:
    for rho in (0.0, 1e-9, 1e-3):
        assert solve(with_dominated(RPS), regularizer=L2(rho)).strategy[3] == 0


def test_clones_share_alike() -> None:
    for regularizer in (L2(0.0), L2(1e-3), Entropy(0.1)):
        pi = solve(with_clone(random_games(1, 6)[0], 2), regularizer=regularizer).strategy
        assert pi[2] == pytest.approx(pi[6], abs=1e-12)


def test_float32_is_solved_in_double_precision() -> None:
    A = random_games(5, 6).astype(np.float32)
    for regularizer in (L2(0.0), L2(1e-3), Entropy(0.1)):
        single, double = solve(A, regularizer=regularizer), solve(A.astype(float), regularizer=regularizer)
        assert single.strategy.dtype == np.float64
        np.testing.assert_array_equal(single.strategy, double.strategy)


@pytest.mark.parametrize("factor", [1e-12, 1e-3, 1e3, 1e12])
def test_without_regulariser_the_scale_does_not_matter(factor: float) -> None:
    A = integer_games(50, 7, most=2, seed=1)
    one, other = solve(A, regularizer=L2(0.0)), solve(factor * A, regularizer=L2(0.0))
    np.testing.assert_allclose(one.strategy, other.strategy, atol=1e-9)


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_scaling_payoffs_and_strength_together_changes_nothing(factor: float) -> None:
    A = random_games(50, 7)
    one, other = solve(A, regularizer=L2(0.1)), solve(factor * A, regularizer=L2(0.1 * factor))
    np.testing.assert_allclose(one.strategy, other.strategy, atol=1e-12)
    np.testing.assert_allclose(
        solve(A, regularizer=Entropy(0.1)).strategy,
        solve(factor * A, regularizer=Entropy(0.1 * factor)).strategy,
        atol=1e-12,
    )


def test_equal_costs_change_nothing() -> None:
    A, costs = random_games(30, 5), np.full(5, 3.0)
    for regularizer in (L2(0.0), L2(1e-3), Entropy(0.1)):
        free = solve(A, regularizer=regularizer).strategy
        for terms in ({"cost_weight": 2.0}, {"budget": 3.0}, {"budget": SoftBudget(2.0, 1.0, 5.0, 0.1)}):
            np.testing.assert_allclose(
                solve(A, regularizer=regularizer, costs=costs, **terms).strategy, free, atol=1e-12
            )


def test_no_games_at_all() -> None:
    empty = solve(np.zeros((0, 4, 4)))
    assert empty.strategy.shape == (0, 4)
    assert empty.gap.shape == empty.kkt.shape == empty.iterations.shape == (0,)

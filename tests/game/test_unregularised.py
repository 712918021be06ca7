"""Maximal lotteries: value, least norm, instability."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from nasheval.game.gaps import gap
from nasheval.game.regularizers import L2
from nasheval.game.solver import solve

from .games import (
    RPS,
    integer_games,
    least_norm_by_brute_force,
    random_games,
    value_by_linear_program,
)
from .test_quadratic import games

FREE = L2(0.0)


def is_maximal(pi: np.ndarray, A: np.ndarray, within: float = 1e-9) -> bool:
    return bool((A @ pi).max() <= within)


@pytest.mark.parametrize("K", [2, 3, 5, 9, 30])
def test_the_value_is_that_of_the_linear_program(K: int) -> None:
    for A in [*random_games(5, K), *integer_games(5, K)]:
        value, other = value_by_linear_program(A)
        pi = solve(A, regularizer=FREE).strategy
        assert value == pytest.approx(0, abs=1e-9)
        assert (pi @ A).min() == pytest.approx(value, abs=1e-9)
        assert pi @ pi <= other @ other + 1e-9


@pytest.mark.parametrize("K", [2, 3, 4, 5])
@pytest.mark.parametrize("most", [1, 2])
def test_the_lottery_is_the_one_of_least_norm(K: int, most: int) -> None:
    A = integer_games(25 if K < 5 else 6, K, most, seed=10 * K + most)
    found = solve(A, regularizer=FREE).strategy
    for pi, game in zip(found, A, strict=True):
        np.testing.assert_allclose(pi, least_norm_by_brute_force(game), atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(games(largest=4, hair=False))
def test_the_lottery_is_the_one_of_least_norm_in_any_game(A: np.ndarray) -> None:
    pi = solve(A, regularizer=FREE).strategy
    assert is_maximal(pi, A)
    np.testing.assert_allclose(pi, least_norm_by_brute_force(A), atol=1e-9)


def test_it_is_the_limit_of_a_vanishing_strength() -> None:
    A = integer_games(100, 6, seed=3)
    near = solve(A, regularizer=L2(1e-9)).strategy
    np.testing.assert_allclose(solve(A, regularizer=FREE).strategy, near, atol=1e-6)


def test_it_is_unstable_where_the_regularised_is_not() -> None:
    """The example of App. unregularized-instability."""
    for epsilon in (1e-3, 1e-6, 1e-9, 1e-12):
        up, down = epsilon * np.array([[0, 1], [-1, 0]]), -epsilon * np.array([[0, 1], [-1, 0]])
        free = solve(up, regularizer=FREE).strategy - solve(down, regularizer=FREE).strategy
        assert np.linalg.norm(free) == pytest.approx(np.sqrt(2))
        damped = solve(up, regularizer=L2(1.0)).strategy - solve(down, regularizer=L2(1.0)).strategy
        assert np.linalg.norm(damped) <= 2 * epsilon + 1e-15


def test_several_lotteries_of_two_cycles_that_tie() -> None:
    A = np.block([[RPS, np.zeros((3, 3))], [np.zeros((3, 3)), RPS]])
    np.testing.assert_allclose(solve(A, regularizer=FREE).strategy, 1 / 6, atol=1e-12)


def test_the_gap_without_regulariser_is_exploitability() -> None:
    A, pi = random_games(40, 6), np.random.default_rng(0).dirichlet(np.ones(6), 40)
    np.testing.assert_allclose(gap(pi, A, regularizer=FREE), np.einsum("njk,nk->nj", A, pi).max(-1), atol=1e-15)


def test_a_zero_pivot_is_not_taken_for_an_answer() -> None:
    """Whole numbers can make a pivot exactly zero; the NaN that follows must not pass for a certified lottery."""
    A = np.triu(np.random.default_rng(0).integers(-5, 6, (1200, 15, 15))[46], 1).astype(float)
    A -= A.T
    pi = solve(A, regularizer=FREE).strategy
    assert is_maximal(pi, A)
    np.testing.assert_allclose(pi, solve(7 * A, regularizer=FREE).strategy, atol=1e-9)

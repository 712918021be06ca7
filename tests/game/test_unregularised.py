"""Maximal lotteries: value, least norm, and the axioms of social choice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from nasheval.game import L2, gap, solve

from .games import (
    RPS,
    integer_games,
    least_norm_by_brute_force,
    random_games,
    tournament,
    value_by_linear_program,
    with_clone,
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


def test_a_condorcet_winner_gets_everything() -> None:
    for seed in range(50):
        A = random_games(1, 6, seed)[0]
        A[2], A[:, 2] = np.abs(A[2]), -np.abs(A[2])
        np.testing.assert_array_equal(solve(A, regularizer=FREE).strategy, np.eye(6)[2])


def test_clones_do_not_change_what_others_get() -> None:
    for seed in range(30):
        A = tournament(7, seed)  # has one maximal lottery only
        pi, cloned = solve(A, regularizer=FREE).strategy, solve(with_clone(A, 3), regularizer=FREE).strategy
        np.testing.assert_allclose(np.delete(cloned, [3, 7]), np.delete(pi, 3), atol=1e-12)
        assert cloned[3] + cloned[7] == pytest.approx(pi[3], abs=1e-12)


def test_composition_multiplies_lotteries() -> None:
    """An agent replaced by a game of its own: its weight is shared out as that game would share."""
    for seed in range(30):
        outer, inner = tournament(5, seed), random_games(1, 3, seed)[0]
        order = [0, 0, 0, 1, 2, 3, 4]
        A = outer[np.ix_(order, order)]
        A[:3, :3] = inner
        whole, part = solve(A, regularizer=FREE).strategy, solve(inner, regularizer=FREE).strategy
        pi = solve(outer, regularizer=FREE).strategy
        np.testing.assert_allclose(whole, np.r_[pi[0] * part, pi[1:]], atol=1e-9)


def test_populations_that_agree_agree_together() -> None:
    """A lottery maximal for two populations is maximal for their union."""
    rng = np.random.default_rng(0)
    for seed in range(30):
        A = integer_games(1, 6, seed=seed)[0].astype(float)
        pi = solve(A, regularizer=FREE).strategy
        on = np.flatnonzero(pi)
        other = A.copy()  # another population with the same maximal lottery: its support is left alone
        off = np.setdiff1d(np.arange(6), on)
        noise = rng.uniform(0, 1, (len(on), len(off)))
        other[np.ix_(on, off)] += noise
        other[np.ix_(off, on)] -= noise.T
        assert is_maximal(pi, other)
        for share in (0.2, 0.5, 0.9):
            union = share * A + (1 - share) * other
            assert is_maximal(pi, union)
            assert is_maximal(solve(union, regularizer=FREE).strategy, union)


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

"""The entropy game: damped Newton against its own first-order conditions, a plain iteration and its limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import ConvergenceError, InputError
from nasheval.game.gaps import gap
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import solve

from .games import random_games
from .test_quadratic import games


def by_mirror_descent(A: np.ndarray, tau: float, reference: np.ndarray, steps: int = 20_000) -> np.ndarray:
    """Iterate log pi towards log reference + A pi / tau with small steps."""
    u, step = np.log(reference), 0.5 * tau**2 / (tau**2 + 1)
    for _ in range(steps):
        pi = np.exp(u - u.max())
        pi /= pi.sum()
        u = (1 - step) * u + step * (np.log(reference) + A @ pi / tau)
    return pi


@pytest.mark.parametrize("K", [2, 5, 30, 100])
@pytest.mark.parametrize("tau", [1.0, 0.1, 1e-2, 1e-3])
def test_random_games_are_certified(K: int, tau: float) -> None:
    found = solve(random_games(10, K), regularizer=Entropy(tau))
    assert np.abs(found.gap).max() < 1e-12
    assert found.kkt.max() < 1e-10
    np.testing.assert_allclose(found.strategy.sum(-1), 1, atol=1e-14)


def test_games_on_which_a_fast_fall_of_tau_loses_the_way_are_solved() -> None:
    A = random_games(20_000, 3)
    found = solve(A, regularizer=Entropy(1e-5))
    assert found.iterations.max() > 500  # some took the slower one
    assert found.kkt.max() < 1e-9


@settings(max_examples=60, deadline=None)
@given(games(), st.sampled_from([1e-3, 0.05, 1.0]), st.integers(0, 10**6))
def test_any_game_is_certified(A: np.ndarray, tau: float, seed: int) -> None:
    reference = np.random.default_rng(seed).dirichlet(np.ones(len(A))) + 1e-3
    found = solve(A, regularizer=Entropy(tau, reference / reference.sum()))
    assert abs(found.gap) < 1e-12
    assert found.kkt < 1e-10


@pytest.mark.parametrize("tau", [0.2, 1.0])
def test_a_plain_iteration_agrees(tau: float) -> None:
    reference = np.array([0.5, 0.2, 0.2, 0.1])
    for A in random_games(3, 4):
        pi = solve(A, regularizer=Entropy(tau, reference)).strategy
        np.testing.assert_allclose(pi, by_mirror_descent(A, tau, reference), atol=1e-10)


def test_no_payoff_gives_the_reference() -> None:
    reference = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    found = solve(np.zeros((2, 3, 3)), regularizer=Entropy(0.1, reference))
    np.testing.assert_allclose(found.strategy, reference, atol=1e-15)


def test_a_weak_entropy_comes_near_the_maximal_lottery() -> None:
    A = random_games(40, 6)
    found = solve(A, regularizer=Entropy(1e-4))
    exploitability = gap(found.strategy, A, regularizer=L2(0.0))
    assert exploitability.max() <= 1e-4 * np.log(6) + 1e-12
    assert (found.strategy < 1e-200).any()  # far below where a logarithm of the weight could be taken


def test_the_equilibrium_is_stable_in_the_one_norm() -> None:
    """Prop. stability with the 1-norm, in which the entropy is tau-strongly convex."""
    A, B = random_games(100, 5), random_games(100, 5, seed=1)
    B = 0.9 * A + 0.1 * B
    one, other = (solve(game, regularizer=Entropy(0.3)).strategy for game in (A, B))
    bound = np.abs(np.einsum("njk,nk->nj", A - B, other)).max(-1) / 0.3
    assert (np.abs(one - other).sum(-1) <= bound + 1e-12).all()


def test_the_gap_bounds_the_error() -> None:
    A, pi = random_games(100, 5), np.random.default_rng(0).dirichlet(np.ones(5), 100)
    star = solve(A, regularizer=Entropy(0.3)).strategy
    gaps = gap(pi, A, regularizer=Entropy(0.3))
    assert (gaps >= 0.15 * np.abs(pi - star).sum(-1) ** 2).all()


def test_an_impossible_strength_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ConvergenceError, match="tau = 1e-18 is too small for payoffs of"):
        solve(random_games(3, 8), regularizer=Entropy(1e-18))


@pytest.mark.parametrize("reference", [[0.5, 0.5, 0.0], [0.5, 0.6], [[[1.0]]], [0.2, 0.2]])
def test_a_reference_is_a_lottery_of_full_support(reference: list[float]) -> None:
    with pytest.raises(InputError, match="reference of Entropy is a lottery"):
        Entropy(0.1, reference)


def test_a_reference_of_another_size_is_an_error() -> None:
    with pytest.raises(InputError, match=r"reference of Entropy has shape \(2,\)"):
        solve(random_games(4, 3), regularizer=Entropy(0.1, [0.5, 0.5]))

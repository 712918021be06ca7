"""The L2 game against support enumeration, and the theorems of the paper's appendix as properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import ConvergenceError
from nasheval.game import quadratic
from nasheval.game.gaps import gap
from nasheval.game.regularizers import L2
from nasheval.game.solver import solve

from .games import RPS, antisymmetric, enumerate_supports, integer_games, random_games, with_dominated

quick = settings(max_examples=60, deadline=None)


@st.composite
def games(draw: st.DrawFn, largest: int = 7, hair: bool = True) -> np.ndarray:
    """Small games of every kind: smooth, integer, sparse, and if `hair` with ties broken by a hair."""
    K = draw(st.integers(1, largest))
    kinds = [st.integers(-64, 64).map(lambda i: i / 64), st.integers(-2, 2).map(float)]
    if hair:
        kinds += [st.floats(-1, 1, width=16), st.sampled_from([-1.0, -1e-6, 0.0, 1e-6, 1e-12, 1.0])]
    values = draw(st.lists(draw(st.sampled_from(kinds)), min_size=K * K, max_size=K * K))
    return antisymmetric(np.array(values).reshape(K, K))


@pytest.mark.parametrize("K", range(1, 9))
@pytest.mark.parametrize("rho", [1e-3, 0.1, 2.0])
def test_support_enumeration_agrees(K: int, rho: float) -> None:
    A = np.concatenate([random_games(200, K, seed=K), integer_games(60, K, seed=K)])
    np.testing.assert_allclose(solve(A, regularizer=L2(rho)).strategy, enumerate_supports(A, rho), atol=1e-9)


@quick
@given(games(largest=8), st.sampled_from([1e-3, 1e-2, 0.5]))
def test_support_enumeration_agrees_on_any_game(A: np.ndarray, rho: float) -> None:
    expected = enumerate_supports(A[None], rho)[0]
    np.testing.assert_allclose(solve(A, regularizer=L2(rho)).strategy, expected, atol=1e-9)


@pytest.mark.parametrize("K", [10, 25, 60])
def test_pivoting_and_the_interior_method_agree(K: int) -> None:
    A = random_games(30, K)
    strength = np.full(len(A), 1e-3)
    pivoted, _, certified = quadratic._by_pivoting(A, K, strength)
    inside, _, sure = quadratic._by_interior(A, K, strength)
    assert sure.all()
    assert certified.mean() > 0.9
    np.testing.assert_allclose(pivoted[certified], inside[certified], atol=1e-12)


@pytest.mark.parametrize("K", [50, 100, 200])
@pytest.mark.parametrize("rho", [0.0, 1e-3, 0.1])
def test_large_games_are_certified(K: int, rho: float) -> None:
    found = solve(random_games(4, K), regularizer=L2(rho))
    assert found.gap.max() < 1e-12
    assert found.kkt.max() < 1e-12
    assert found.iterations.max() < (900 if K == 50 else 60)  # pivots, or interior steps
    assert (found.strategy == 0).any(-1).all()


def test_a_batch_is_its_games_one_by_one() -> None:
    A = random_games(20, 6)
    batch = solve(A)
    for g, one in enumerate(map(solve, A)):
        assert one.strategy.shape == (6,)
        assert np.ndim(one.gap) == np.ndim(one.kkt) == np.ndim(one.iterations) == 0
        np.testing.assert_array_equal(one.strategy, batch.strategy[g])
        assert one.iterations == batch.iterations[g]


def test_a_batch_large_enough_for_threads_is_its_parts() -> None:
    A = random_games(20_000, 5)
    np.testing.assert_array_equal(solve(A).strategy[:100], solve(A[:100]).strategy)


def test_the_order_of_agents_does_not_matter() -> None:
    A = np.concatenate([random_games(50, 7), integer_games(50, 7)])
    order = np.random.default_rng(0).permutation(7)
    for rho in (0.0, 1e-3):
        one, other = solve(A, regularizer=L2(rho)), solve(A[:, order][:, :, order], regularizer=L2(rho))
        np.testing.assert_allclose(one.strategy[:, order], other.strategy, atol=1e-9)


def test_weights_off_the_support_are_exactly_zero() -> None:
    pi = solve(random_games(500, 9)).strategy
    assert ((pi == 0) | (pi > 1e-9)).all()
    assert (pi == 0).any()


@quick
@given(games(), games(), st.sampled_from([1e-3, 0.1]))
def test_the_equilibrium_is_stable(A: np.ndarray, B: np.ndarray, rho: float) -> None:
    """Prop. stability: ||pi - pi'|| <= ||(A - A') pi'|| / kappa <= ||A - A'|| / kappa."""
    K = min(len(A), len(B))
    A, B = A[:K, :K], B[:K, :K]
    one, other = solve(A, regularizer=L2(rho)).strategy, solve(B, regularizer=L2(rho)).strategy
    moved = np.linalg.norm(one - other)
    first = np.linalg.norm((A - B) @ other) / rho
    assert moved <= first + 1e-9
    assert first <= np.linalg.norm(A - B, 2) / rho + 1e-9


@quick
@given(games(), st.sampled_from([1e-3, 0.1]), st.integers(0, 10**6))
def test_the_gap_bounds_the_error(A: np.ndarray, rho: float, seed: int) -> None:
    """Eq. gap-to-equilibrium: G >= kappa / 2 ||pi - pi*||^2, and so G >= 0."""
    pi = np.random.default_rng(seed).dirichlet(np.ones(len(A)))
    star = solve(A, regularizer=L2(rho)).strategy
    assert gap(pi, A, regularizer=L2(rho)) >= rho / 2 * np.sum((pi - star) ** 2) - 1e-12


def test_linear_costs_are_a_shift_of_the_payoffs() -> None:
    """Against the first-order conditions with the costs written out."""
    A, costs = random_games(200, 6), np.random.default_rng(1).uniform(1, 9, (200, 6))
    found = solve(A, costs=costs, cost_weight=0.7)
    scaled = (costs - costs.min(-1, keepdims=True)) / np.ptp(costs, axis=-1, keepdims=True)
    loss = 1e-3 * found.strategy + 0.7 * scaled - np.einsum("njk,nk->nj", A, found.strategy)
    loss -= np.where(found.strategy > 0, loss, np.inf).min(-1, keepdims=True)
    assert loss.min() > -1e-12
    assert np.abs(loss[found.strategy > 0]).max() < 1e-12
    assert found.gap.max() < 1e-12


def test_a_large_cost_weight_leaves_the_cheapest() -> None:
    pi = solve(random_games(50, 5), costs=[3, 1, 2, 5, 4], cost_weight=20.0).strategy
    np.testing.assert_array_equal(pi, np.tile([0, 1, 0, 0, 0], (50, 1)))


def test_a_support_that_rounding_misled_is_mended() -> None:
    """With rho = 1e-6 this game has an agent of weight 3e-13, which the tableau cannot see."""
    A = integer_games(1, 9, most=2, seed=5)[0]
    found = solve(A, regularizer=L2(1e-6))
    assert found.kkt < 1e-12


def test_what_cannot_be_certified_is_an_error_that_names_the_game(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quadratic, "residual", lambda *_: np.inf)
    A = np.stack([with_dominated(RPS), np.zeros((4, 4)), with_dominated(RPS)])
    with pytest.raises(ConvergenceError, match="Game 1 could not be solved"):
        solve(A, regularizer=L2(0.0))

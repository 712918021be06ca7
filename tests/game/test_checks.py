"""What callers may give, and what they are told when it cannot be used."""

from __future__ import annotations

import numpy as np
import pytest

from nasheval.errors import ConvergenceError, InputError, NashEvalError
from nasheval.game.costs import LinearCost
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import solve

from .games import random_games


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4), (0, 0), (2, 2, 3, 3)])
def test_payoffs_are_square(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"payoffs are \(K, K\), or \(n, K, K\)"):
        solve(np.zeros(shape))


def test_payoffs_are_antisymmetric_and_the_worst_pair_is_named() -> None:
    A = random_games(4, 5)
    A[1, 0, 2] += 1e-3
    A[2, 1, 3] += 0.5
    message = r"in game 2, A\[1, 3\] = .* and A\[3, 1\] = .*within 1e-09"
    with pytest.raises(InputError, match=message):
        solve(A)


def test_win_rates_are_told_apart_from_margins() -> None:
    with pytest.raises(InputError, match=r"P - P\.T"):
        solve(np.full((3, 3), 0.5))


def test_rounding_in_single_precision_is_forgiven_and_taken_out() -> None:
    A = random_games(3, 5).astype(np.float32)
    A[0, 1, 2] += np.float32(4e-7)
    found = solve(A)
    assert found.kkt.max() < 1e-12
    with pytest.raises(InputError, match="antisymmetric"):
        solve(A.astype(np.float64))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_payoffs_are_finite(wrong: float) -> None:
    A = random_games(3, 4)
    A[1, 2, 0] = wrong
    with pytest.raises(InputError, match=r"in game 1 at \(2, 0\)"):
        solve(A)


def test_integers_and_lists_are_payoffs_too() -> None:
    assert solve([[0, 1], [-1, 0]]).strategy[0] == 1
    with pytest.raises(InputError, match="payoffs are real numbers"):
        solve(np.zeros((2, 2), complex))


def test_what_is_given_is_left_alone() -> None:
    A = random_games(3, 4)
    before = A.copy()
    solve(A, costs=[1, 2, 3, 4], budget=1.5)
    np.testing.assert_array_equal(A, before)
    A.flags.writeable = False
    solve(A)
    solve(A[:, ::-1, ::-1])


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4), (1, 3, 4), ()])
def test_costs_fit_the_games(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"with 3 games of 4 agents it is \(4,\) or \(3, 4\)"):
        solve(random_games(3, 4), costs=np.ones(shape), cost_weight=1.0)


def test_costs_are_finite() -> None:
    with pytest.raises(InputError, match="every agent needs a finite cost"):
        solve(random_games(3, 2), costs=[1, np.nan], cost_weight=1.0)


@pytest.mark.parametrize("weight", [-0.1, np.nan, np.inf])
def test_the_weight_of_costs_is_not_negative(weight: float) -> None:
    with pytest.raises(InputError, match="cost_weight is a finite number at least 0"):
        solve(random_games(3, 2), costs=[1, 2], cost_weight=weight)


@pytest.mark.parametrize("terms", [{"cost_weight": 0.5}, {"budget": 1.0}])
def test_costs_are_needed_for_what_speaks_of_them(terms: dict[str, float]) -> None:
    with pytest.raises(InputError, match="none were given"):
        solve(random_games(3, 2), **terms)


def test_costs_alone_change_nothing() -> None:
    A = random_games(3, 4)
    np.testing.assert_array_equal(solve(A, costs=[1, 2, 3, 4]).strategy, solve(A).strategy)


def test_a_regulariser_of_ones_own_cannot_be_solved() -> None:
    class Mine(L2):
        pass

    class Other:
        kappa = 1.0

    assert solve(random_games(2, 3), regularizer=Mine(0.1)).gap.max() < 1e-12
    with pytest.raises(InputError, match="cannot be solved: give L2 or Entropy"):
        solve(random_games(2, 3), regularizer=LinearCost(Other(), np.ones(3)))


def test_the_error_of_a_solver_is_ours_and_a_builtin_too() -> None:
    assert issubclass(ConvergenceError, NashEvalError)
    assert issubclass(ConvergenceError, RuntimeError)
    assert not issubclass(ConvergenceError, InputError)


def test_solutions_are_frozen_and_say_how_it_went() -> None:
    found = solve(random_games(3, 4), regularizer=Entropy(0.1))
    assert found.iterations.dtype == np.int64
    assert found.price is None
    with pytest.raises(AttributeError):
        found.gap = 0

"""One game in NumPy: bit for bit what the compiled solvers say, in a process that has not loaded them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval.game.quadratic as quadratic
from nasheval.game.checks import games_of, payoffs
from nasheval.game.regularizers import L2
from nasheval.game.single import PIVOT_UP_TO, equilibrium
from nasheval.game.solver import lotteries, lottery, solve

from .games import DEGENERATE, random_games


def _same(A: np.ndarray, rho: float) -> bool:
    """Check that both forms agree to the last bit; return whether NumPy certified its answer."""
    answer = equilibrium(A, rho)
    if answer is None:
        return False
    x, steps = quadratic.equilibria(A[None].copy(), rho, np.arange(1))
    assert x[0].tobytes() == answer[0].tobytes()
    assert steps[0] == answer[1]
    return True


@pytest.mark.parametrize("rho", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("K", [1, 2, 3, 8, 20, PIVOT_UP_TO])
def test_random_games_have_the_same_bits(K, rho):
    for A in random_games(6, K):
        for scale in (1.0, 1e-4, 1e3):
            assert _same(A * scale, rho)


@pytest.mark.parametrize("name", [name for name, A in DEGENERATE.items() if len(A) <= PIVOT_UP_TO])
def test_degenerate_games_have_the_same_bits_or_are_left_to_the_others(name):
    A = np.asarray(DEGENERATE[name], float)
    certified = [_same(A, rho) for rho in (0.0, 1e-3)]
    assert certified[1]


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 7), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-3, 1.0]), st.integers(1, 4))
def test_any_game_has_the_same_bits(K, seed, rho, levels):
    margins = np.random.default_rng(seed).integers(-levels, levels + 1, (K, K)) / levels
    _same(np.triu(margins, 1) - np.triu(margins, 1).T, rho)


def test_games_of_pairs_are_antisymmetric_and_have_no_negative_zeros():
    pairs = np.array([[0.0, -0.5, 1.0], [0.25, 0.0, -1.0]])
    A = games_of(pairs, 3)
    assert (-A.swapaxes(1, 2) == A).all()
    np.testing.assert_array_equal(A[:, [0, 0, 1], [1, 2, 2]], pairs)
    assert not np.signbit(A[A == 0]).any()


def test_lotteries_of_trusted_games_are_those_of_solve():
    A, up = random_games(5, 6), np.array([True, True, False, True, True, False])
    for among in (up, np.ones(6, bool)):
        np.testing.assert_array_equal(lotteries(A, L2(), among), solve(A, available=among).strategy)


def test_payoffs_that_may_not_be_written_to_are_copied():
    A = random_games(2, 4)
    A.flags.writeable = False
    assert payoffs(A)[0].flags.writeable


_ALONE = """
import sys, numpy as np
from nasheval.game.checks import games_of
from nasheval.game.solver import solve
A = games_of(np.random.default_rng(0).uniform(-1, 1, (1, 190)), 20)
found = solve(A)
assert "numba" not in sys.modules and "scipy" not in sys.modules
assert abs(float(found.gap[0])) < 1e-12
import nasheval.game.quadratic
again = solve(A)
assert "numba" in sys.modules
assert again.strategy.tobytes() == found.strategy.tobytes() and again.iterations == found.iterations
np.testing.assert_allclose([again.gap, again.kkt], [found.gap, found.kkt], atol=1e-14)
assert games_of(np.random.default_rng(0).uniform(-1, 1, (1, 190)), 20).tobytes() == A.tobytes()
"""


def test_one_game_needs_no_compiler():
    subprocess.run([sys.executable, "-W", "error", "-c", _ALONE], check=True)


def test_arrays_of_any_kind_take_one_specialisation():
    from nasheval.game.pivoting import pivot_games

    A = random_games(3, 5)
    solve(A)
    before = len(pivot_games.signatures)
    frozen = A.copy()
    frozen.flags.writeable = False
    for games in (frozen, np.asfortranarray(A), A[::-1], A.astype(np.float32)):
        solve(games)
    assert len(pivot_games.signatures) == before


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(monkeypatch):
    import nasheval.game.compiled as module

    asked = []

    def njit(function, **options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("no locator available")
        return function

    monkeypatch.setattr(module, "_njit", njit)
    assert module.compiled(len) is len
    assert [bool(options.get("cache")) for options in asked] == [True, False]
    assert asked[1]["error_model"] == "numpy"


# -- one compiled call ------------------------------------------------------------------------------------------------


def _pairs(A: np.ndarray) -> np.ndarray:
    return A[np.triu_indices(len(A), 1)][None].copy()


def _as_of_many(A: np.ndarray, rho: float) -> bool:
    """Check that one call says what the solver of many says, to the last bit; return whether it answered."""
    answer = lottery(_pairs(A), len(A), rho)
    if answer is None:
        return False
    twice = lotteries(games_of(np.repeat(_pairs(A), 2, axis=0), len(A)), L2(rho), np.ones(len(A), bool))
    assert answer.shape == (1, len(A))
    assert answer[0].tobytes() == twice[0].tobytes() == twice[1].tobytes()
    return True


@pytest.mark.parametrize("rho", [0.0, 1e-3, 0.1, 1])
@pytest.mark.parametrize("K", [2, 3, 8, 20, PIVOT_UP_TO])
def test_one_call_has_the_bits_of_many_games(K, rho):
    for A in random_games(6, K):
        assert _as_of_many(A / np.abs(A).max(), rho)


@pytest.mark.parametrize("name", [name for name, A in DEGENERATE.items() if len(A) <= PIVOT_UP_TO])
def test_one_call_answers_degenerate_games_as_many_or_not_at_all(name):
    for rho in (0.0, 1e-3):
        _as_of_many(np.asarray(DEGENERATE[name], float), rho)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 7), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-3, 1.0]), st.floats(1e-6, 1e6))
def test_games_of_any_scale_have_the_same_bits(K, seed, rho, scale):
    A = np.random.default_rng(seed).normal(size=(K, K))
    A = (A - A.T) / np.abs(A - A.T).max() * scale
    assert _as_of_many(A, rho)


def test_large_games_and_one_agent_are_left_to_the_solver_of_many():
    assert lottery(np.empty((1, 0)), 1, 1e-3) is None
    large = PIVOT_UP_TO + 1
    assert lottery(np.ones((1, large * (large - 1) // 2)), large, 1e-3) is None

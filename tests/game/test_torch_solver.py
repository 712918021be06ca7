"""Batches of L2 games by PyTorch, on the processor, against `solve`; a device runs the same operations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.game import solver
from nasheval.game.costs import SoftBudget
from nasheval.game.gaps import composed, gap
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import solve

from .games import DEGENERATE, antisymmetric, integer_games, random_games, with_clone
from .test_quadratic import games

torch = pytest.importorskip("torch")
from nasheval.game import torch_solver  # noqa: E402 (imports torch)

quick = settings(max_examples=80, deadline=None)


def solved(A, omega=None, up=None):
    A = np.array(A, float)
    K = A.shape[-1]
    answers = torch_solver.lotteries(
        torch.from_numpy(A.reshape(-1, K, K)), omega or L2(1e-3), np.ones(K, bool) if up is None else up
    )
    return answers if A.ndim == 3 else answers[0]


def arena(n, K, voters=5, seed=0):
    """Games of a few voters with utilities: small supports among many agents."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, voters, K)) + rng.normal(size=(n, 1, K))
    return np.tanh((u[..., :, None] - u[..., None, :]) / 2).mean(1)


@pytest.fixture
def alone(monkeypatch):
    """Nothing may go to the processor's solver."""

    def refuse(*arguments):
        raise AssertionError("a game was handed on")

    monkeypatch.setattr(solver, "lotteries", refuse)


@pytest.mark.parametrize("K", [1, 2, 3, 8, 16, 17, 40, 90])
@pytest.mark.parametrize("rho", [1e-3, 0.1, 2.0])
def test_it_answers_as_solve_does(alone, K, rho):
    A = np.concatenate([arena(40, K), random_games(20 if K < 40 else 0, K)])
    np.testing.assert_allclose(solved(A, L2(rho)), solve(A, regularizer=L2(rho)).strategy, atol=1e-12)


@pytest.mark.parametrize("rho", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_games(name, rho):
    A = np.asarray(DEGENERATE[name], float)
    np.testing.assert_allclose(solved(A, L2(rho)), solve(A, regularizer=L2(rho)).strategy, atol=1e-9)


@quick
@given(st.lists(games(), min_size=1, max_size=6), st.sampled_from([1e-3, 1e-2, 0.5]), st.data())
def test_any_batch_with_costs_and_agents_that_are_down(several, rho, data):
    K = max(len(A) for A in several)
    batch = np.zeros((len(several), K, K))
    for g, A in enumerate(several):  # the agents that are filled up with tie with all
        batch[g, : len(A), : len(A)] = A
    per_game = data.draw(st.booleans())
    shape = (len(batch), K) if per_game else (K,)
    drawn = data.draw(st.lists(st.integers(0, 9), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    costs, weight = np.array(drawn, float).reshape(shape), data.draw(st.sampled_from([0.0, 0.2]))
    up = np.array(data.draw(st.lists(st.booleans(), min_size=K, max_size=K).filter(any)))
    found = solved(batch, composed(L2(rho), costs, weight, None, len(batch), K), up)
    priced = {"regularizer": L2(rho), "costs": costs, "cost_weight": weight}
    np.testing.assert_allclose(found, solve(batch, **priced, available=up).strategy, atol=1e-9)
    assert (found[:, ~up] == 0).all()
    assert (found >= 0).all()
    assert found.sum(-1) == pytest.approx(1)


@quick
@given(st.integers(0, 2**32 - 1), st.integers(17, 60))
def test_the_order_of_agents_and_their_clones_change_nothing(seed, K):
    rng = np.random.default_rng(seed)
    A = arena(1, K, seed=seed)[0]
    order = rng.permutation(K)
    first = solved(A)
    np.testing.assert_allclose(solved(A[np.ix_(order, order)]), first[order], atol=1e-12)
    agent = int(first.argmax())
    cloned = solved(with_clone(A, agent))
    assert cloned[agent] == pytest.approx(cloned[-1], abs=1e-12)
    assert gap(cloned, with_clone(A, agent), regularizer=L2(1e-3)) < 1e-12


def test_who_is_left_out_at_first_is_found(alone):
    # The last three beat each other in a circle and all others by a hair; the first twenty beat the next by far.
    K = 40
    upper = np.zeros((K, K))
    upper[:37, 37:], upper[:20, 20:37] = -0.01, 1
    upper[37, 38] = upper[38, 39] = 1
    upper[37, 39] = -1
    A = antisymmetric(upper)
    assert set(np.argsort(A.sum(-1))[-16:]).isdisjoint({37, 38, 39})
    assert solved(A)[37:] == pytest.approx(1 / 3)


def test_what_is_not_certified_is_solved_by_the_processor(monkeypatch):
    A, handed = integer_games(30, 9), []
    equilibria, lotteries = torch_solver.equilibria, solver.lotteries

    def doubting(games, rho):
        x, certified = equilibria(games, rho)
        certified[::3] = False
        return x * certified[:, None], certified

    def counting(games, omega, up):
        handed.append(len(games))
        return lotteries(games, omega, up)

    monkeypatch.setattr(torch_solver, "equilibria", doubting)
    monkeypatch.setattr(solver, "lotteries", counting)
    costs = np.random.default_rng(0).integers(0, 5, (30, 9)).astype(float)
    up = np.arange(9) != 4
    found = solved(A, composed(L2(0.1), costs, 0.3, None, 30, 9), up)
    expected = solve(A, regularizer=L2(0.1), costs=costs, cost_weight=0.3, available=up).strategy
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert len(handed) == 1
    assert handed[0] >= 10


@pytest.mark.parametrize(
    "options", [{"budget": 1.0}, {"budget": SoftBudget(1.0, 0.1, 1.0, 0.2)}, {"regularizer": Entropy(0.1)}]
)
def test_other_games_are_solved_by_the_processor(options):
    A, costs = random_games(5, 4), np.arange(4.0)
    options = {"regularizer": L2(0.1), "costs": costs, "cost_weight": 0.1, "budget": None, **options}
    found = solved(A, composed(*options.values(), 5, 4))
    np.testing.assert_array_equal(found, solve(A, **options).strategy)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_card_answers_the_same():
    A = np.concatenate([arena(500, 50), random_games(100, 50)])
    there = torch_solver.lotteries(torch.from_numpy(A).cuda(), L2(1e-3), np.ones(50, bool))
    np.testing.assert_allclose(there, solve(A, regularizer=L2(1e-3)).strategy, atol=1e-11)

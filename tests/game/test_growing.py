"""Games of many agents: few candidates must find what the interior method finds among all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.game import quadratic
from nasheval.game.gaps import gap
from nasheval.game.growing import grow
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.single import PIVOT_UP_TO, tidied
from nasheval.game.solver import lotteries, solve

from .games import RPS, antisymmetric, cyclic, integer_games, random_games, tournament, with_clone

FEW = PIVOT_UP_TO + 15  # agents: more than are pivoted


def ladders(n: int, K: int, noise: float, seed: int = 0) -> np.ndarray:
    """Agents of different strength, and noise that makes cycles among them."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(size=K)
    lead = np.tanh(strength[:, None] - strength) + noise * rng.normal(size=(n, K, K))
    return antisymmetric(np.clip(lead, -1, 1))


def among_all(A: np.ndarray, rho: float) -> np.ndarray:
    """The lotteries by the interior method alone, as `solve` hands them out."""
    x, _, certified = quadratic._by_interior(A, A.shape[1], np.full(len(A), rho))
    assert certified.all()
    return np.stack([tidied(one) for one in x])


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.5, 1.0, 1.5])
def test_few_candidates_find_the_lottery_of_all(noise: float, rho: float) -> None:
    A = ladders(12, FEW, noise)
    found, _, certified = quadratic._by_growing(A, FEW, np.full(len(A), rho))
    assert certified.mean() > 0.8
    np.testing.assert_array_equal([tidied(one) for one in found[certified]], among_all(A, rho)[certified])
    whole = solve(A, regularizer=L2(rho))
    np.testing.assert_array_equal(whole.strategy, among_all(A, rho))
    assert max(whole.gap.max(), whole.kkt.max()) < 1e-12
    assert gap(whole.strategy, A, regularizer=L2(rho)).max() < 1e-12


def test_more_candidates_than_are_pivoted_are_solved_by_the_interior_method() -> None:
    A = ladders(2, 300, 1.2)
    found, _, certified = quadratic._by_growing(A, 300, np.full(2, 1e-3))
    assert certified.all()
    np.testing.assert_array_equal([tidied(one) for one in found], among_all(A, 1e-3))


def test_games_in_which_many_play_are_left_to_the_interior_method_soon() -> None:
    A = random_games(6, 120)
    _, steps, certified = quadratic._by_growing(A, 120, np.full(6, 1e-3))
    assert not certified.any()
    assert steps.max() < 60  # pivots in games of at most 21 agents
    np.testing.assert_array_equal(solve(A).strategy, among_all(A, 1e-3))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-3, 0.5]), st.sampled_from([ladders, "integer", "tied"]))
def test_any_large_game_is_solved(seed: int, rho: float, kind: Callable[..., np.ndarray] | str) -> None:
    rng = np.random.default_rng(seed)
    K = int(rng.integers(PIVOT_UP_TO + 1, 90))
    if kind == "integer":
        A = integer_games(1, K, most=2, seed=seed)[0]
    elif kind == "tied":  # the best are clones of few, and lead the others
        few = integer_games(1, 5, seed=seed)[0]
        A = np.kron(np.ones((K // 5, K // 5)), few)
        K = len(A)
        A += np.subtract.outer(*2 * [-1.0 * (np.arange(K) // 20)])
    else:
        A = ladders(1, K, rng.uniform(0, 2), seed)[0]
    one = solve(A, regularizer=L2(rho))
    size = max(1.0, np.abs(A).max())
    assert one.gap / size < 1e-9
    payoff = A @ one.strategy - rho * one.strategy
    assert payoff.max() - payoff @ one.strategy < 1e-9 * size  # nobody, of all agents, would win
    order = rng.permutation(K)
    other = solve(A[np.ix_(order, order)], regularizer=L2(rho)).strategy
    np.testing.assert_allclose(one.strategy[order], other, atol=1e-8 if rho else 1e-6)


def test_without_regulariser_the_answer_is_that_of_the_interior_method() -> None:
    one = ladders(1, FEW, 0.3)[0]
    cycle = np.kron(np.eye(1), RPS)
    tied = np.zeros((FEW, FEW))
    tied[:3, :3], tied[:3, 3:], tied[3:, :3] = cycle, 0.5, -0.5
    games = [one, tied, with_clone(one, int(solve(one).strategy.argmax())), np.zeros((FEW, FEW)), cyclic(FEW + 1),
             tournament(FEW)]  # fmt: skip
    for A in games:
        np.testing.assert_allclose(solve(A, regularizer=L2(0.0)).strategy, among_all(A[None], 0.0)[0], atol=1e-10)


def test_a_game_does_not_depend_on_its_batch() -> None:
    A = ladders(60, FEW, 0.8)
    batch = solve(A)
    for g in (0, 7, 59):
        np.testing.assert_array_equal(solve(A[g]).strategy, batch.strategy[g])
        assert solve(A[g]).iterations == batch.iterations[g]
    np.testing.assert_array_equal(solve(A[5:19]).strategy, batch.strategy[5:19])
    np.testing.assert_array_equal(lotteries(A, L2(), np.ones(FEW, bool)), batch.strategy)


def test_costs_budgets_and_masks_go_the_same_way() -> None:
    A, rng = ladders(4, FEW, 0.5), np.random.default_rng(1)
    costs, up = rng.uniform(1, 5, FEW), rng.random((4, FEW)) < 0.9
    cheaper = A - 0.3 * np.subtract.outer(*2 * [(costs - costs.min()) / np.ptp(costs)])
    np.testing.assert_allclose(solve(A, costs=costs, cost_weight=0.3).strategy, among_all(cheaper, 1e-3), atol=1e-12)
    limited = solve(A, costs=costs, budget=2.0)
    assert (limited.strategy @ costs).max() < 2 + 1e-9
    assert gap(limited.strategy, A, costs=costs, budget=2.0).max() < 1e-9
    for same in (up, np.broadcast_to(up[0], up.shape)):
        found = solve(A, available=same).strategy
        assert (found[~same] == 0).all()
        for g in range(4):
            rest = among_all(np.ascontiguousarray(A[g][np.ix_(same[g], same[g])])[None], 1e-3)[0]
            np.testing.assert_array_equal(found[g, same[g]], rest)
    assert solve(A, regularizer=Entropy(0.1)).gap.max() < 1e-9


def test_nobody_looks_through_the_whole_game() -> None:
    """Rows of agents that no lottery held are not read: NaN there changes nothing."""
    A = ladders(1, 300, 0.1)[0]
    room = np.empty(150 * 150), np.empty(55 * 55), np.empty(150), np.empty(300)
    on, inside, spoiled = np.zeros(150, np.int64), np.empty(300, bool), np.full_like(A, np.nan)
    grow(A, 1e-3, 150, inside, on, *room)
    assert len(np.unique(on)) < 40
    spoiled[on] = A[on]
    again = np.empty(300, bool)
    grow(spoiled, 1e-3, 150, again, on, *room)
    np.testing.assert_array_equal(inside, again)
    assert inside.any()

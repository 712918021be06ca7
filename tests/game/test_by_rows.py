"""Games of which rows are asked for: the lotteries of the whole games, and few rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.game.by_rows import lotteries_by_rows
from nasheval.game.regularizers import L2
from nasheval.game.single import PIVOT_UP_TO
from nasheval.game.solver import solve

from .games import antisymmetric, cyclic, random_games, tournament
from .test_growing import ladders

FEW = PIVOT_UP_TO + 15


def by_rows(A: np.ndarray, rho: float, first: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, int]:
    """The lotteries, which are certified, and how many rows were asked for: first those of the best on average."""
    asked: list[tuple[int, int]] = []

    def ask(games: np.ndarray, agents: np.ndarray) -> np.ndarray:
        asked.extend(zip(games.tolist(), agents.tolist(), strict=True))
        return A[games, agents]

    first = A.sum(axis=2).argmax(axis=1) if first is None else first
    x, certified = lotteries_by_rows(ask, first, A.shape[1], rho)
    assert len(set(asked)) == len(asked)
    return x, certified, len(asked)


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 2.0])
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_lotteries_are_those_of_the_whole_games(noise: float, rho: float) -> None:
    A = ladders(12, FEW, noise)
    x, certified, asked = by_rows(A, rho)
    assert certified.mean() >= (0.7 if rho < 1 else 0)  # a large rho makes many play
    np.testing.assert_array_equal(x[certified], solve(A, regularizer=L2(rho)).strategy[certified])
    assert asked <= 12 * 8


def test_the_best_agent_alone_is_seen_at_one_row() -> None:
    A = ladders(5, 300, 0.0)
    x, certified, asked = by_rows(A, 1e-3)
    assert certified.all()
    assert asked == 5
    np.testing.assert_array_equal(x.argmax(axis=1), A.sum(axis=2).argmax(axis=1))


def test_a_game_is_left_after_one_row_where_many_would_win() -> None:
    A = ladders(3, FEW, 0.1)
    worst = A.sum(axis=2).argmin(axis=1)
    _, certified, asked = by_rows(A, 1e-3, worst)
    assert not certified.any()
    assert asked == 3
    assert by_rows(random_games(4, 120), 1e-3)[2] <= 4 * 2


def test_games_that_many_play_or_of_another_scale_stay_open() -> None:
    for A in (random_games(4, 120), 1e-2 * ladders(4, FEW, 0.1), np.zeros((2, FEW, FEW)), cyclic(FEW)[None]):
        assert not by_rows(A, 1e-3)[1].any()
    assert by_rows(np.stack([ladders(1, FEW, 0.1)[0], tournament(FEW)]), 1e-3)[1].tolist() == [True, False]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 0.5]), st.sampled_from(["ladder", "whole numbers", "clones"]))
def test_what_is_certified_is_the_equilibrium(seed: int, rho: float, kind: str) -> None:
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 90))
    A = ladders(3, K, rng.uniform(0, 1.5), seed)
    if kind == "whole numbers":
        A = antisymmetric(np.sign(np.round(A)))
    elif kind == "clones":
        A = np.repeat(np.repeat(A[:, : K // 2 + 1, : K // 2 + 1], 2, axis=1), 2, axis=2)
    x, certified, _ = by_rows(A, rho, rng.integers(0, A.shape[1], 3))
    whole = solve(A, regularizer=L2(rho)).strategy
    np.testing.assert_allclose(x[certified], whole[certified], atol=1e-9)
    for g in np.flatnonzero(certified):
        payoff = A[g] @ x[g] - rho * x[g]
        assert payoff.max() - payoff @ x[g] < 1e-9
        assert abs(x[g].sum() - 1) < 1e-12
        assert x[g].min() >= 0

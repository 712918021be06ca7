"""The axioms of social choice that maximal lotteries meet, as properties of any game.

Games whose margins are odd integers have one maximal lottery only (Laffond, Laslier and Le Breton), and everyone
outside its support loses: there the axioms fix the lottery itself. Elsewhere they speak of membership.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.game.gaps import gap
from nasheval.game.regularizers import L2
from nasheval.game.solver import solve

from .games import antisymmetric, with_clone
from .test_quadratic import games

FREE = L2(0.0)
quick = settings(max_examples=60, deadline=None)


def lottery(A: np.ndarray) -> np.ndarray:
    return solve(A, regularizer=FREE).strategy


@st.composite
def odd_games(draw: st.DrawFn, largest: int = 7, least: int = 1) -> np.ndarray:
    """Games whose margins are odd integers."""
    K = draw(st.integers(least, largest))
    values = draw(st.lists(st.sampled_from([-5.0, -3, -1, 1, 3, 5]), min_size=K * K, max_size=K * K))
    return antisymmetric(np.array(values).reshape(K, K))


@quick
@given(games(), st.integers(0, 6), st.sampled_from([1e-6, 0.3, 4.0]))
def test_a_condorcet_winner_gets_everything(A: np.ndarray, agent: int, least: float) -> None:
    winner = agent % len(A)
    margins = np.abs(A[winner]) + least
    A[winner], A[:, winner] = margins, -margins
    A[winner, winner] = 0
    np.testing.assert_array_equal(lottery(A), np.eye(len(A))[winner])


@quick
@given(games(hair=False), st.sampled_from([1e-7, 1e-6, 0.3, 4.0]))
def test_an_agent_that_loses_to_all_gets_nothing_and_changes_nothing(A: np.ndarray, by: float) -> None:
    K = len(A)
    larger = np.pad(A, ((0, 1), (0, 1)))
    larger[:K, K], larger[K, :K] = by, -by
    pi = lottery(larger)
    assert pi[K] == 0
    np.testing.assert_allclose(pi[:K], lottery(A), atol=1e-7)


@quick
@given(odd_games(), st.integers(0, 6))
def test_a_clone_takes_from_its_twin_only(A: np.ndarray, agent: int) -> None:
    agent %= len(A)
    pi, cloned = lottery(A), lottery(with_clone(A, agent))
    np.testing.assert_allclose(np.delete(cloned, [agent, len(A)]), np.delete(pi, agent), atol=1e-9)
    assert cloned[agent] == pytest.approx(pi[agent] / 2, abs=1e-9)  # alike, as the least norm has it
    assert cloned[-1] == pytest.approx(pi[agent] / 2, abs=1e-9)


@quick
@given(odd_games(largest=5), odd_games(largest=4))
def test_composition_multiplies_lotteries(outer: np.ndarray, inner: np.ndarray) -> None:
    """An agent replaced by a game of its own: its weight is shared out as that game would share."""
    m, order = len(inner), [0] * len(inner) + list(range(1, len(outer)))
    A = outer[np.ix_(order, order)]
    A[:m, :m] = inner
    pi = lottery(outer)
    np.testing.assert_allclose(lottery(A), np.r_[pi[0] * lottery(inner), pi[1:]], atol=1e-9)


def rival(A: np.ndarray, pi: np.ndarray, data: st.DataObject) -> np.ndarray:
    """Return another population to whom pi is maximal: alike among supporters, who lose to nobody else."""
    numbers = st.lists(st.integers(0, 3), min_size=A.size, max_size=A.size)
    ahead, anything = (np.array(data.draw(numbers), float).reshape(A.shape) for _ in range(2))
    on = pi > 0
    B = np.where(np.outer(on, on), data.draw(st.sampled_from([0.0, 0.5, 2.0])) * A, antisymmetric(anything - 1))
    B = np.where(np.outer(on, ~on), ahead, B)
    return np.where(np.outer(~on, on), -ahead.T, B)


@quick
@given(games(hair=False), st.data(), st.sampled_from([0.2, 0.5, 0.9]))
def test_a_lottery_maximal_for_two_populations_is_so_for_their_union(
    A: np.ndarray, data: st.DataObject, share: float
) -> None:
    pi = lottery(A)
    B = rival(A, pi, data)
    union = share * A + (1 - share) * B
    for population in (A, B, union):
        assert gap(pi, population, regularizer=FREE) < 1e-9
        assert lottery(population) @ lottery(population) <= pi @ pi + 1e-9  # pi is one of them, ours has the least norm


@quick
@given(odd_games(least=2), st.data(), st.sampled_from([0.2, 0.5, 0.9]))
def test_two_populations_with_one_lottery_in_common_settle_on_it(
    A: np.ndarray, data: st.DataObject, share: float
) -> None:
    pi = lottery(A)
    np.testing.assert_allclose(lottery(share * A + (1 - share) * rival(A, pi, data)), pi, atol=1e-9)

"""Which pair to ask: floors, hand-worked cases, and that no other shares make the error of contenders smaller."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nasheval as ne
from nasheval.planning.asking import against, asking, contenders


def games(rng, n, K):
    A = rng.uniform(-1, 1, (n, K, K))
    return (A - A.transpose(0, 2, 1)) / 2


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    K=st.integers(2, 9),
    floor=st.floats(0, 1),
    lottery=hnp.arrays(float, (3, 9), elements=st.floats(0, 1)),
)
def test_rows_sum_to_one_and_every_pair_keeps_its_floor(seed, K, floor, lottery):
    rng = np.random.default_rng(seed)
    pi = lottery[:, :K] + 1e-9
    pi /= pi.sum(axis=1, keepdims=True)
    up = rng.random((3, K)) < 0.7
    up[:, :2] = True
    error = rng.choice([0.0, 0.1, np.inf], (K, K))
    chance = asking(pi, payoff=games(rng, 3, K), error=error, floor=floor, available=up)
    j, k = np.triu_indices(K, 1)
    able = up[:, j] & up[:, k]
    assert np.allclose(chance.sum(axis=1), 1)
    assert (chance[~able] == 0).all()
    share = floor / able.sum(axis=1, keepdims=True)
    assert (chance + 1e-12 >= np.where(able, share, 0)).all()


def test_a_floor_of_one_is_uniform_and_two_agents_are_always_asked():
    assert np.allclose(asking(np.array([0.5, 0.5, 0.0]), floor=1), 1 / 3)
    assert asking(np.array([1.0, 0.0])).tolist() == [[1.0]]


def test_an_agent_that_surely_loses_is_asked_at_the_floor_alone():
    A = np.array([[0.0, 0.0, 0.5], [0.0, 0.0, 0.5], [-0.5, -0.5, 0.0]])
    chance = asking(np.array([0.5, 0.5, 0.0]), payoff=A, error=np.full((3, 3), 0.01), floor=0.3)
    assert np.allclose(chance, [[0.1 + 0.7, 0.1, 0.1]])


def test_an_agent_that_nobody_knows_is_a_contender():
    A = np.array([[[0.0, 0.9], [-0.9, 0.0]]])
    assert contenders(np.array([[1.0, 0.0]]), A, np.array([0.1, np.inf])).tolist() == [[1.0, 1.0]]
    assert contenders(np.array([[1.0, 0.0]]), A, np.array([0.1, 0.1]))[0, 1] < 1e-12
    assert contenders(np.array([[1.0, 0.0]]), A, np.array([0.0, 0.0])).tolist() == [[1.0, 0.0]]


def test_a_chance_of_contending_is_that_of_a_normal_error():
    A = np.array([[[0.0, 0.196], [-0.196, 0.0]]])
    assert contenders(np.array([[1.0, 0.0]]), A, np.array([0.1, 0.1]))[0, 1] == pytest.approx(0.05, abs=1e-3)


def test_errors_against_a_lottery_add_up_by_the_squares_of_its_shares():
    error = np.array([[0.0, 0.3, 0.4], [0.3, 0.0, 0.2], [0.4, 0.2, 0.0]])
    assert against(np.array([[0.5, 0.5, 0.0]]), error)[0] == pytest.approx([0.15, 0.15, np.sqrt(0.04 + 0.01)])
    error[2, 0] = error[0, 2] = np.inf
    assert against(np.array([[0.5, 0.5, 0.0]]), error)[0, 2] == np.inf
    assert np.isfinite(against(np.array([[0.0, 1.0, 0.0]]), error)).all()


@pytest.mark.parametrize("seed", range(5))
def test_no_other_shares_make_the_error_of_contenders_smaller(seed):
    rng, K = np.random.default_rng(seed), 5
    A, pi = games(rng, 1, K), rng.dirichlet(np.ones(K))[None]
    doubt = rng.uniform(0.05, 0.5, (1, K))
    near = contenders(pi, A, doubt)
    smooth = pi / 2 + near / near.sum() / 2
    j, k = np.triu_indices(K, 1)

    def loss(q):
        verdict = np.maximum(1 - A[0, j, k] ** 2, 0.05)
        return ((near[0, j] * smooth[0, k] ** 2 + near[0, k] * smooth[0, j] ** 2) * verdict / q).sum()

    best = asking(pi, payoff=A, doubt=doubt, floor=0.0)[0]
    others = [(1 - 0.01) * best + 0.01 * rng.dirichlet(np.ones(len(best))) for _ in range(50)]
    assert min(map(loss, others)) >= loss(best) * (1 - 1e-9)


def test_three_hundred_agents_are_one_small_answer():
    K = 300
    chance = asking(np.r_[1.0, np.zeros(K - 1)], payoff=np.zeros((K, K)), error=np.ones((K, K)))
    assert chance.shape == (1, K * (K - 1) // 2)
    assert chance.sum() == pytest.approx(1)


@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan"), "0.2", True])
def test_a_floor_beyond_its_range_is_refused(floor):
    with pytest.raises(ne.InputError, match="accepted is a number from 0 to 1"):
        asking(np.array([1.0, 0.0]), floor=floor)


def test_one_agent_leaves_nobody_to_compare():
    with pytest.raises(ne.InputError, match="two or more"):
        asking(np.array([1.0, 0.0]), available=np.array([True, False]))

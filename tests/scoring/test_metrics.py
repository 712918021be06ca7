"""Metrics against loops, worked cases and properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.scoring import metrics

CYCLE = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]]) / 3


def random_games(n, K, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.uniform(-1, 1, (n, K, K)), 1)
    return upper - upper.transpose(0, 2, 1), rng.dirichlet(np.ones(K), n), rng.dirichlet(np.ones(K), n)


def test_the_papers_cycle():
    assert metrics.exploitability(CYCLE, [1 / 3, 1 / 3, 1 / 3]) == pytest.approx(0)
    assert metrics.exploitability(CYCLE, [1, 0, 0]) == pytest.approx(1 / 3)
    assert metrics.game_value([0, 0, 1], [1, 0, 0], CYCLE) == pytest.approx(1 / 3)


def test_support_f1_by_hand():
    pi, ref = [[0.5, 0.5, 0], [1, 0, 0]], [[1, 0, 0], [0, 0.5, 0.5]]
    np.testing.assert_allclose(metrics.support_f1(pi, ref, reduce=False), [2 / 3, 0])
    assert metrics.support_f1([0.9995, 0.0005], [1, 0]) == 1
    assert metrics.support_f1([0.9995, 0.0005], [1, 0], tau=1e-4) == pytest.approx(2 / 3)


def test_strict_win_rate_counts_ties_and_itself_as_nothing():
    W = np.array([[0, 0.6], [0.1, 0]])
    assert metrics.strict_win_rate([1, 0], W) == pytest.approx(0.3)
    assert metrics.strict_win_rate([0.5, 0.5], W) == pytest.approx((0.6 + 0.1) / 4)


def test_expected_cost():
    assert metrics.expected_cost([[1, 0], [0.5, 0.5]], [2, 4]) == pytest.approx(2.5)
    np.testing.assert_allclose(metrics.expected_cost([[1, 0], [0.5, 0.5]], [[2, 4], [0, 1]], reduce=False), [2, 0.5])


@given(st.integers(1, 6), st.integers(0, 1000))
def test_against_loops(K, seed):
    A, pi, q = random_games(4, K, seed)
    best = [max(sum(A[i, j, k] * pi[i, k] for k in range(K)) for j in range(K)) for i in range(4)]
    value = [sum(pi[i, j] * A[i, j, k] * q[i, k] for j in range(K) for k in range(K)) for i in range(4)]
    np.testing.assert_allclose(metrics.exploitability(A, pi, reduce=False), best, atol=1e-12)
    np.testing.assert_allclose(metrics.game_value(pi, q, A, reduce=False), value, atol=1e-12)


@given(st.integers(2, 6), st.integers(0, 1000))
def test_properties(K, seed):
    A, pi, q = random_games(5, K, seed)
    assert (metrics.exploitability(A, pi, reduce=False) >= -1e-12).all()
    assert metrics.game_value(pi, q, A) == pytest.approx(-metrics.game_value(q, pi, A))
    assert metrics.game_value(q, pi, A) <= metrics.exploitability(A, pi) + 1e-12
    assert metrics.support_f1(pi, pi) == 1
    assert metrics.support_f1(pi, q) == metrics.support_f1(q, pi)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: metrics.exploitability([[0, 1]], [1, 0]),
            "A payoff has shape (1, 2); accepted are (K, K) and (n, K, K).",
        ),
        (
            lambda: metrics.exploitability(CYCLE, [1, 0]),
            "The arguments speak of 3 and 2 agents; they must agree.",
        ),
        (
            lambda: metrics.support_f1([0.5, 0.4], [1, 0]),
            "A lottery, shape (2,), has negative entries or does not sum to 1; give (K,) or (n, K).",
        ),
        (
            lambda: metrics.support_f1([[1, 0]] * 2, [[1, 0]] * 3),
            "The arguments speak of 2 and 3 contexts; they must agree.",
        ),
        (
            lambda: metrics.expected_cost([1, 0], {"a": 1}),
            "costs is {'a': 1}; accepted is an array of numbers.",
        ),
    ],
)
def test_malformed_arguments(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message

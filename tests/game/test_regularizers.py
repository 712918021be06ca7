"""Regularisers alone: gradients, best responses, strong convexity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.game.costs import ConvexCost, HardBudget, LinearCost, SoftBudget, crossing
from nasheval.game.regularizers import L2, Entropy, Regularizer, project

K = 5
COSTS = np.array([0.5, 1.0, 2.0, 0.0, 3.0])
ALL: dict[str, Regularizer] = {
    "L2": L2(0.3),
    "no regulariser": L2(0.0),
    "entropy": Entropy(0.2),
    "entropy to a reference": Entropy(0.2, [0.1, 0.2, 0.3, 0.3, 0.1]),
    "linear": LinearCost(L2(0.3), COSTS),
    "soft": ConvexCost(L2(0.3), COSTS, SoftBudget(1.0, 0.1, 2.0, 0.2)),
    "soft, no regulariser": ConvexCost(L2(0.0), COSTS, SoftBudget(1.0, 0.1, 2.0, 0.2)),
    "soft on linear on entropy": ConvexCost(
        LinearCost(Entropy(0.2), COSTS[::-1].copy()), COSTS, SoftBudget(1.0, 0.1, 2.0, 0.2)
    ),
    "hard": HardBudget(L2(0.3), COSTS, 0.7),
    "hard, no regulariser": HardBudget(L2(0.0), COSTS, 0.7),
    "hard, entropy": HardBudget(Entropy(0.2), COSTS, 0.7),
    "hard, tight": HardBudget(L2(0.3), COSTS, 0.0),
}
LOTTERIES = np.random.default_rng(0).dirichlet(np.ones(K), 300)


def allowed(omega: Regularizer, q: np.ndarray) -> np.ndarray:
    return (q @ COSTS <= omega.limit + 1e-12) if isinstance(omega, HardBudget) else np.ones(len(q), bool)


@pytest.mark.parametrize("name", ALL)
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    omega, pi, step = ALL[name], LOTTERIES[:20], 1e-6
    numeric = [(omega.value(pi + step * e) - omega.value(pi - step * e)) / (2 * step) for e in np.eye(K)]
    np.testing.assert_allclose(omega.gradient(pi), np.transpose(numeric), atol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_the_best_response_is_best(name: str) -> None:
    omega = ALL[name]
    others = np.concatenate([LOTTERIES, np.eye(K), 0.02 * LOTTERIES + 0.98 * np.eye(K)[3]])
    others = others[allowed(omega, others)]
    for payoff in np.random.default_rng(1).normal(size=(20, K)):
        q = omega.best_response(payoff)
        assert q.shape == (K,)
        assert q.min() >= 0
        assert q.sum() == pytest.approx(1, abs=1e-12)
        assert allowed(omega, q[None])[0]
        assert (others @ payoff - omega.value(others) <= q @ payoff - omega.value(q) + 1e-10).all()


@pytest.mark.parametrize("name", ALL)
def test_strong_convexity_has_the_modulus_stated(name: str) -> None:
    """Eq. strong-convexity."""
    omega, p, q = ALL[name], LOTTERIES[:150], LOTTERIES[150:]
    linear = omega.value(p) + (omega.gradient(p) * (q - p)).sum(-1)
    assert (omega.value(q) >= linear + omega.kappa / 2 * ((q - p) ** 2).sum(-1) - 1e-12).all()


@pytest.mark.parametrize("name", ALL)
def test_batches_are_their_parts(name: str) -> None:
    omega = ALL[name]
    pi = LOTTERIES[:6].reshape(2, 3, K)
    for method in (omega.value, omega.gradient, omega.best_response):
        np.testing.assert_allclose(method(pi)[1, 2], method(pi[1, 2]), atol=1e-12)


def test_costs_of_each_game_follow_its_rows() -> None:
    costs = np.random.default_rng(0).uniform(0, 1, (4, K))
    reference = np.random.default_rng(1).dirichlet(np.ones(K), 4)
    payoff = np.random.default_rng(2).normal(size=(4, K))
    for omega in (
        LinearCost(Entropy(0.2, reference), costs),
        ConvexCost(Entropy(0.2, reference), costs, SoftBudget(0.3, 0.0, 2.0, 0.1)),
        HardBudget(LinearCost(L2(0.1), costs), costs, float(costs.min(-1).max())),
    ):
        whole = omega.best_response(payoff)
        rows = np.array([2, 0])
        np.testing.assert_allclose(omega.at(rows).best_response(payoff[rows]), whole[rows], atol=1e-12)
        np.testing.assert_allclose(omega.at(rows).value(whole[rows]), omega.value(whole)[rows], atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8))
def test_projection_is_the_nearest_point(v: list[float]) -> None:
    point = project(np.array(v))
    assert point.min() >= 0
    assert point.sum() == pytest.approx(1, abs=1e-12)
    slack = np.array(v) - point  # constant on the support, and not larger elsewhere
    assert np.abs(slack[point > 0] - slack.max()).max() < 1e-9


def test_ties_share_the_response_where_nothing_regularises() -> None:
    np.testing.assert_array_equal(L2(0.0).best_response(np.array([1.0, 3, 3, 2])), [0, 0.5, 0.5, 0])


@pytest.mark.parametrize("rho", [-1e-9, np.nan, np.inf])
def test_a_strength_is_a_finite_number(rho: float) -> None:
    with pytest.raises(InputError, match="rho, is a finite number at least 0"):
        L2(rho)
    with pytest.raises(InputError, match="tau, is a finite number above 0"):
        Entropy(rho)


def test_the_search_finds_crossings_of_every_kind() -> None:
    roots = np.array([0.3, 0.0, 1.0, 0.5, 0.7])

    def f(p: np.ndarray, rows: np.ndarray) -> np.ndarray:
        smooth = np.array(
            [roots[r] - x if r != 4 else (1.0 if x < 0.7 else -1.0) for x, r in zip(p, rows, strict=True)]
        )
        return np.where(rows == 3, (roots[rows] - p) ** 3, smooth)

    low, high = crossing(f, np.zeros(5), np.ones(5), 1e-16)
    np.testing.assert_allclose(low, roots, atol=1e-5)
    np.testing.assert_allclose(high, roots, atol=1e-5)
    assert low[4] < 0.7 <= high[4]  # a jump stays between the ends


def test_a_hard_budget_below_every_cost_is_an_error() -> None:
    with pytest.raises(InputError, match=r"as little as the budget 0.1: the cheapest agent costs 0.5"):
        HardBudget(L2(0.3), np.array([[0.0, 1.0], [0.5, 2.0]]), 0.1)

"""Aggregators: their defining properties, the cubic link, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.payoff.aggregators import Aggregation, Cubic, Mean, Weighted, aggregation_of

from .nuisances import ragged_log

unit = st.floats(-1, 1, allow_subnormal=False)
alphas = st.one_of(st.just(0.0), st.floats(1e-12, 1e6), st.floats(1e-320, 1e-300))


@given(y=unit, alpha=alphas)
def test_the_cubic_link_is_inverted_exactly(y, alpha):
    f = Cubic(alpha)
    u = float(f.inverse(np.array(y)))
    assert -1 - 1e-12 <= u <= 1 + 1e-12
    assert float(f.link(np.array(u))) == pytest.approx(y, abs=1e-14, rel=1e-13)
    assert float(f.inverse(f.link(np.array(y)))) == pytest.approx(y, abs=1e-9 if alpha > 1e3 else 1e-13)


@given(y=unit, alpha=st.floats(1e-300, 1e-8))
def test_the_cubic_link_is_stable_as_alpha_vanishes(y, alpha):
    exact = y + alpha * (y - y**3)  # the root to first order in alpha
    assert float(Cubic(alpha).inverse(np.array(y))) == pytest.approx(exact, abs=1e-15)


@st.composite
def margins(draw):
    m = draw(st.integers(1, 6))
    u = np.array(draw(st.lists(st.lists(unit, min_size=m, max_size=m), min_size=1, max_size=5)))
    weights = np.array(draw(st.lists(st.floats(0.01, 1), min_size=m, max_size=m)))
    return u, weights / weights.sum()


def of_one_pair(f, weights):
    """f and df/du of one pair in menus of some weights."""
    made = Aggregation(f, np.zeros(len(weights), int), weights, 2)
    return lambda u: made.aggregate(u)[:, 0], made.derivative


@given(margins(), st.floats(0, 100), unit)
def test_aggregators_are_odd_idempotent_monotone_and_in_range(given_margins, alpha, level):
    u, weights = given_margins
    for f in (Mean(), Cubic(alpha)):
        value, derivative = of_one_pair(f, weights)
        np.testing.assert_allclose(value(-u), -value(u), atol=1e-15)
        np.testing.assert_allclose(value(np.full((1, len(weights)), level)), level, atol=1e-12)
        assert (value(u) <= u.max(axis=1) + 1e-12).all()
        assert (value(u) >= u.min(axis=1) - 1e-12).all()
        assert (derivative(u) > 0).all()


@given(margins(), st.floats(0, 10))
def test_derivatives_agree_with_finite_differences(given_margins, alpha):
    u, weights = given_margins
    for f in (Mean(), Cubic(alpha)):
        value, derivative = of_one_pair(f, weights)
        for m in range(len(weights)):
            step = np.zeros(len(weights))
            step[m] = 1e-6
            slope = (value(u + step) - value(u - step)) / 2e-6
            np.testing.assert_allclose(derivative(u)[:, m], slope, atol=1e-6)


def columns_of(made, mu):
    """f and df/du pair by pair, by the formulas of the appendix."""
    f, value, slope = made.aggregator, np.zeros((len(mu), made.n_pairs)), np.zeros(mu.shape)
    for pair in np.unique(made.pair):
        at = np.flatnonzero(made.pair == pair)
        value[:, pair] = f.inverse(f.link(mu[:, at]) @ made.weight[at])
        slope[:, at] = made.weight[at] * f.slope(mu[:, at]) / f.slope(value[:, pair])[:, None]
    return value, slope


@pytest.mark.parametrize(
    "aggregator", [Mean(), Weighted(lambda menu: len(menu)), Cubic(0.7), Cubic(2.0, lambda menu: 1.0 + ("a" in menu))]
)
def test_columns_are_summed_by_pair(aggregator):
    log, _ = ragged_log()
    made = aggregation_of(log, aggregator)
    mu = np.random.default_rng(1).uniform(-1, 1, (7, len(made.pair)))
    value, slope = columns_of(made, mu)
    np.testing.assert_allclose(made.aggregate(mu), value, atol=1e-14)
    np.testing.assert_allclose(made.derivative(mu), slope, atol=1e-14)
    np.testing.assert_allclose(np.bincount(made.pair, made.weight, made.n_pairs)[made.covered], 1.0)
    total = np.array([[np.abs(row)[made.pair == p].sum() for p in made.pair] for row in slope])
    np.testing.assert_allclose(made.spread(slope), total, atol=1e-14)


def test_alpha_zero_is_linear_exactly():
    log, _ = ragged_log()
    mu = np.random.default_rng(1).uniform(-1, 1, (7, len(log.menus.columns)))
    cubic, mean = aggregation_of(log, Cubic(0)), aggregation_of(log, Mean())
    assert cubic.linear
    np.testing.assert_array_equal(cubic.aggregate(mu), mean.aggregate(mu))
    np.testing.assert_array_equal(cubic.derivative(mu), mean.derivative(mu))


def test_one_menu_a_pair_is_the_identity():
    duels = [partition.duel("a", "b", "a"), partition.duel("a", "c", "tie")]
    log = Feedback.from_partitions(np.zeros((2, 1)), duels, agents=["a", "b", "c"])
    mu = np.array([[0.3, -0.7]])
    for aggregator in (Mean(), Cubic(3.0)):
        made = aggregation_of(log, aggregator)
        np.testing.assert_array_equal(made.aggregate(mu), [[0.3, -0.7, 0.0]])
        np.testing.assert_array_equal(made.covered, [True, True, False])
        np.testing.assert_allclose(made.derivative(mu), 1.0)


def test_a_log_without_records_covers_nothing():
    log = Feedback.from_partitions(np.zeros((2, 1)), [], agents=["a", "b"], context_of=[])
    made = aggregation_of(log, Cubic(1.0))
    assert not made.covered.any()
    np.testing.assert_array_equal(made.aggregate(np.zeros((3, 0))), np.zeros((3, 1)))
    assert made.derivative(np.zeros((3, 0))).shape == (3, 0)


def triples():
    said = [partition.ranking(list("abc")), partition.ranking(list("bcd")), partition.ranking(list("acd")),
            partition.ranking(list("abd"))]  # fmt: skip
    return Feedback.from_partitions(np.zeros((4, 1)), said, agents=list("abcd"))


def test_weights_are_normalised_over_the_menus_of_a_pair():
    log = triples()
    made = aggregation_of(
        log, Weighted({("c", "b", "a"): 3, frozenset("abd"): 1.0, ("b", "c", "d"): 1, ("a", "c", "d"): 1})
    )
    columns = {(m, p): w for m, p, w in zip(log.menus.columns.menu, made.pair, made.weight, strict=True)}
    assert columns[0, 0] == 0.75  # {a, b, c}, pair (a, b); the other menu of that pair is {a, b, d}
    assert columns[1, 0] == 0.25


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Weighted({("a", "b"): 1.0}), "has a positive weight and no record"),
        (lambda: Weighted({("a", "b", "c"): 1.0}), "3 pairs have no menu of positive weight"),
        (lambda: Weighted({("a", "b", "x"): 1.0}), "weights names x, no agent"),
        (lambda: Weighted({("a", "b", "c"): -1.0}), "is -1.0; accepted is a number of 0 or more"),
        (lambda: Weighted({("a", "b", "c"): float("nan")}), "is nan"),
        (lambda: Weighted({("a", "b", "c"): True}), "is True"),
        (lambda: Weighted({("a", "b"): 1.0, ("b", "a"): 2.0}), "twice"),
        (lambda: Weighted({"ab": 1.0}), "has the key 'ab'"),
        (lambda: Weighted({("a", "a"): 1.0}), "has the key"),
        (lambda: Weighted([1.0]), "weights is list"),
        (lambda: Weighted(lambda menu: -1.0), "is -1.0"),
        (lambda: Weighted(lambda menu: 0.0), "6 pairs have no menu"),
        (lambda: Weighted(lambda menu: None), "is None"),
        (lambda: Cubic(-0.5), "alpha is -0.5"),
        (lambda: Cubic(float("inf")), "alpha is inf"),
        (lambda: Cubic("x"), "alpha is 'x'"),
        (lambda: Cubic(1.0, {"ab": 1.0}), "has the key 'ab'"),
    ],
)
def test_what_is_no_weight_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        aggregation_of(triples(), make())


def test_zero_weight_on_a_menu_without_records_is_fine():
    weights = {("a", "b"): 0.0, **{tuple(m): 1.0 for m in ("abc", "bcd", "acd", "abd")}}
    assert aggregation_of(triples(), Weighted(weights)).covered.all()

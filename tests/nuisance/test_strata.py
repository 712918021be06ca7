"""Shares within strata, against hand computation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma, poisson

from nasheval.contexts.encoder import ContextEncoder
from nasheval.nuisance import cuts as cuts_module
from nasheval.nuisance.cuts import cuts
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.strata import Shrinkage, Strata, _table, menu_shares

from .selection import drawn_log, duel_log


def test_cuts_of_columns():
    values = {
        "few": [1.0, 2.0, 1.0, 2.0] * 25,
        "many": np.arange(100.0),
        "word": list("uvuw") * 25,
        "same": [3.0] * 100,
    }
    log = duel_log([(0, 1)] * 100, 2, values)
    X = Features.of(ContextEncoder.fit(log.contexts), log.contexts)
    found = {(cut.name, cut.size): cut for cut in cuts(log, X, (4,))}
    assert set(found) == {("few", 3), ("many", 5), ("word", 4)}
    assert np.bincount(found["many", 5].codes(X)).tolist() == [25, 25, 25, 25]
    assert found["few", 3].codes(X)[:4].tolist() == [0, 1, 0, 1]
    rows = np.array([7, 3, 99, 3])
    assert all((cut.codes(X, rows) == cut.codes(X)[rows]).all() for cut in found.values())
    elsewhere = Features(np.full((1, 4), np.nan, np.float32), X.network[:1], X.categorical, X.names)
    assert [cut.codes(elsewhere)[0] for cut in found.values()] == [cut.size - 1 for cut in found.values()]


def test_quantiles_of_many_contexts_are_those_of_some(monkeypatch):
    log = duel_log([(0, 1)] * 1_000, 2, {"many": np.arange(1_000.0)})
    X = Features.of(ContextEncoder.fit(log.contexts), log.contexts)
    (whole,) = cuts(log, X, (4,))
    monkeypatch.setattr(cuts_module, "_MOST_CONTEXTS", 100)
    (some,) = cuts(log, X, (4,))
    assert some.edges == pytest.approx(whole.edges, abs=10.0)
    assert not np.array_equal(some.edges, whole.edges)


def test_even_shrinkage_by_hand():
    """Strata u: ab, ab, ac; v: ac. Overall (2.5, 2.5) / 5."""
    log = duel_log([(0, 1), (0, 1), (0, 2), (0, 2)], 3, {"g": list("uuuv")})
    code = np.array([0, 0, 0, 1])
    table = _table(log, np.ones(4, bool), [(2, code, Shrinkage(4.0))])
    assert menu_shares(log, np.ones(4, bool)) == pytest.approx([0.5, 0.5])
    assert table == pytest.approx(np.array([[(2 + 2) / 7, (1 + 2) / 7], [2 / 5, (1 + 2) / 5]]))
    twice = _table(log, np.ones(4, bool), [(2, code, Shrinkage(4.0)), (2, 1 - code, Shrinkage(1.0))])
    assert twice[1] == pytest.approx([(2 + table[0, 0]) / 4, (1 + table[0, 1]) / 4])  # u, 1
    assert twice[0] == pytest.approx(table[0])  # u, 0: no record


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 40), st.floats(0.2, 40), st.floats(0.01, 0.9), st.floats(0.5, 8))
def test_menu_by_menu_the_ratio_is_a_posterior_mean(count, expected, chance, shape):
    """By integration over a grid of lambda."""
    grid = np.linspace(1e-4, 400, 400_001)
    density = gamma.pdf(grid, shape, scale=1 / shape) * poisson.pmf(count, grid * expected)
    step = grid[1] - grid[0]
    slab, mean = chance * density.sum() * step, chance * (grid * density).sum() * step
    spike = (1 - chance) * poisson.pmf(count, expected)
    ratio = Shrinkage(None, chance, shape).posterior(np.array(float(count)), np.array(expected))
    assert ratio == pytest.approx((spike + mean) / (spike + slab), rel=2e-2)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 30), min_size=3, max_size=3), st.sampled_from([Shrinkage(5.0), Shrinkage(None, 0.1, 2.0)]))
def test_shares_sum_to_one(count, how):
    shares = how.shares(np.array([count]), np.array([[0.2, 0.3, 0.5]]))
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0).all()


def test_the_column_that_matters_is_chosen():
    log, X, _ = drawn_log(12, 4000, "pairs", seed=2)
    models = Strata().fit(log, X, np.arange(2)[:, None] != np.arange(4000) % 2, Effort())
    assert models.columns == ("language",)
    rows = np.arange(50)
    assert models.cells(X, 1, rows, rows) == pytest.approx(models.predict(X[rows], 1)[rows, rows])


def test_where_nothing_matters_the_shares_remain():
    log, X, _ = drawn_log(6, 3000, "random")
    train = np.ones((1, 3000), bool)
    models = Strata().fit(log, X, train, Effort())
    assert models.columns == ()
    assert models.predict(X[:2], 0) == pytest.approx(np.tile(menu_shares(log, train[0]), (2, 1)), rel=1e-5)

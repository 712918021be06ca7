"""The softmax over agents: its gradient, and what it can represent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from nasheval.nuisance import softmax as module
from nasheval.nuisance import softmax_counts
from nasheval.nuisance.learners import Effort
from nasheval.nuisance.softmax import AgentSoftmax
from nasheval.nuisance.softmax_counts import Menus, Slopes
from nasheval.nuisance.strata import StrataModels, menu_shares

from .selection import drawn_log, relative_error


@pytest.fixture(autouse=True)
def _one_thread():
    """As under `BestPropensity`: for matrices this small threads cost more than they bring."""
    with threadpool_limits(1, "blas"):
        yield


def base_of(log, train):
    return StrataModels(((),) * len(train), tuple(menu_shares(log, seen)[None].astype(np.float32) for seen in train))


def small_counts(seed, rows=12):
    """Draws of menus of two or three of four agents, some rows the same."""
    rng = np.random.default_rng(seed)
    members = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 0]], np.float32)
    draws = module._Draws(
        rng.integers(0, 2, (rows, 3)).astype(np.float32), rng.integers(0, 2, rows), rng.integers(0, 5, rows),
        rng.uniform(0.5, 2, rows), np.arange(rows),
    )  # fmt: skip
    slopes = Slopes(*(rng.normal(size=size).astype(np.float32) for size in ((3, 4), (3, 2), (4, 2))))
    return draws, members, rng.normal(size=(2, 5)).astype(np.float32), slopes


@pytest.mark.parametrize("chunk", [5, 1 << 19])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000))
def test_the_loss_is_written_out(chunk, seed):
    """-sum of w log p over records, with logits summed agent by agent and pair by pair."""
    draws, menus, offset, slopes = small_counts(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax_counts, "_CHUNK_CELLS", chunk)
        loss = draws.counts(Menus(menus), offset).loss(slopes)[0]
    expected = 0.0
    for x, stratum, menu, weight in zip(draws.phi, draws.stratum, draws.menu, draws.weight, strict=True):
        logits = []
        for m, row in enumerate(menus):
            agents = np.flatnonzero(row)
            single = sum(x @ slopes.theta[:, j] for j in agents)
            pairs = [slopes.v[j] * slopes.v[k] for i, j in enumerate(agents) for k in agents[i + 1 :]]
            logits.append(offset[stratum, m] + single + (x @ slopes.w) @ np.sum(pairs, axis=0))
        logits = np.array(logits, float)
        expected -= weight * (logits[menu] - np.log(np.exp(logits).sum()))
    assert loss == pytest.approx(expected, rel=1e-4)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1000))
def test_the_gradient_is_that_of_the_loss(seed):
    draws, menus, offset, slopes = small_counts(seed)
    counts = draws.counts(Menus(menus), offset)
    gradient, flat = module._flat(counts.loss(slopes)[1]), module._flat(slopes)
    for place in range(len(flat)):
        step = np.zeros_like(flat)
        step[place] = 1e-2
        up, down = (counts.loss(module._shaped(flat + sign * step, slopes))[0] for sign in (1, -1))
        assert gradient[place] == pytest.approx((up - down) / 2e-2, rel=2e-2, abs=2e-2)


@pytest.mark.parametrize("kind", ["clique", "u-shape"])
def test_what_is_made_of_agents_is_recovered(kind):
    """Six agents that meet more often in one language are one pair term; ends of a number are bins of it."""
    log, X, true = drawn_log(10, 5000, kind)
    train = np.ones((1, 5000), bool)
    models = AgentSoftmax(base_of(log, train)).fit(log, X, train, Effort())
    e = models.predict(X, 0)
    assert e.sum(axis=1) == pytest.approx(1, abs=1e-5)
    shares = np.tile(menu_shares(log, train[0]), (5000, 1))
    assert relative_error(e, true) < 0.4 * relative_error(shares, true)
    assert (models.slopes[0].w.shape[1] > 0) or kind == "u-shape"


def test_many_records_are_fitted_in_two_goes(monkeypatch):
    """A first fit on a sample, which more records then improve."""
    log, X, true = drawn_log(10, 5000, "u-shape")
    train = np.ones((1, 5000), bool)
    monkeypatch.setattr(module, "_FEWEST", 10)
    monkeypatch.setattr(module, "_FIRST_CELLS", 45 * 600)
    errors = []
    for cells in (45 * 600, 1 << 25):
        monkeypatch.setattr(module, "_LAST_CELLS", cells)
        e = AgentSoftmax(base_of(log, train)).fit(log, X, train, Effort()).predict(X, 0)
        errors.append(relative_error(e, true))
    assert errors[1] < 0.8 * errors[0]


def test_few_menus_take_no_more_rows_times_features_than_many(monkeypatch):
    """Records divided by few menus alone would be gigabytes of features at a million votes."""
    log, X, _ = drawn_log(4, 5000, "u-shape")
    train, sizes, draws = np.ones((1, 5000), bool), [], module._draws

    def counted(*args):
        made = draws(*args)
        sizes.append(made.phi.size)
        return made

    monkeypatch.setattr(module, "_draws", counted)
    monkeypatch.setattr(module, "_FEWEST", 10)
    monkeypatch.setattr(module, "_LAST_CELLS", 30_000)
    AgentSoftmax(base_of(log, train)).fit(log, X, train, Effort())
    assert max(sizes) <= 30_000
    assert max(sizes) > 20_000


def pair_counts(seed, rows=30, K=5, scale=1.0):
    """Draws of pairs at some strata, one pair asked in two forms, some rows the same."""
    rng = np.random.default_rng(seed)
    left, right = np.triu_indices(K, 1)
    members = np.zeros((len(left) + 1, K), np.float32)
    for m, agents in enumerate([*zip(left, right, strict=True), (0, 1)]):
        members[m, agents] = 1.0
    phi = np.hstack([rng.integers(0, 2, (rows, 2)), rng.random((rows, 8)) < 0.1]).astype(np.float32)
    draws = module._Draws(
        phi, rng.integers(0, 3, rows), rng.integers(0, len(members), rows), rng.uniform(0.5, 2, rows), np.arange(rows)
    )
    theta = (scale * rng.normal(size=(10, K))).astype(np.float32)
    slopes = Slopes(theta, np.zeros((10, 0), np.float32), np.zeros((K, 0), np.float32))
    return draws.counts(Menus(members), rng.normal(size=(3, len(members))).astype(np.float32)), slopes


@pytest.mark.parametrize("scale", [1.0, 100.0])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000))
def test_the_loss_of_pairs_is_that_of_menus(scale, seed):
    """The quadratic form against every pair on its own; scores that lie far apart are left to the latter."""
    counts, slopes = pair_counts(seed, scale=scale)
    score = counts.columns.times(slopes.theta)
    np.testing.assert_allclose(score, counts.phi @ slopes.theta, rtol=1e-4, atol=1e-4 * scale)
    by_pairs, by_menus = counts._by_pairs(score), counts._by_menus(score, slopes.v)
    assert by_pairs is not None or scale > 1
    loss, gradient = counts.loss(slopes)
    assert loss == pytest.approx(by_menus[0], rel=1e-4, abs=1e-3 * scale)
    np.testing.assert_allclose(gradient.theta, counts.phi.T @ by_menus[1], rtol=1e-3, atol=1e-3)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1000))
def test_sums_over_pairs_are_shares(seed):
    counts, slopes = pair_counts(seed)
    sums = softmax_counts.pair_sums(counts.columns.times(slopes.theta), counts.stratum, counts.base)
    assert sums.share.sum(axis=1) == pytest.approx(2, rel=1e-5)  # two agents in each pair
    assert (sums.share >= 0).all()
    assert (sums.share <= 1 + 1e-5).all()
    assert (np.diff(counts.stratum) >= 0).all()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1000), st.sampled_from([1.0, 1e30]))
def test_rows_that_are_the_same_are_one(seed, size):
    """Also where numbers are so large that their mixtures are equal though they are not."""
    rows = np.random.default_rng(seed).integers(0, 2, (40, 5)).astype(np.float32)
    rows[:, 0] = size
    first, place = softmax_counts.distinct(rows)
    np.testing.assert_array_equal(rows[first][place], rows)
    assert len(first) == len(np.unique(rows, axis=0))


def test_cells_are_those_of_all_menus(monkeypatch):
    log, X, _ = drawn_log(10, 1500, "u-shape")
    train = np.ones((1, 1500), bool)
    models = AgentSoftmax(base_of(log, train)).fit(log, X, train, Effort())
    monkeypatch.setattr(module, "_ROWS", 100)
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 1500, 700), rng.integers(0, len(log.menus), 700)
    assert models.penalty is not None
    np.testing.assert_allclose(models.cells(X, 0, rows, columns), models.predict(X[rows], 0)[np.arange(700), columns],
                               rtol=1e-4)  # fmt: skip

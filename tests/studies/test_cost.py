"""Lotteries at the same cost, and who is on the frontier."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import nasheval as ne
from studies.harness.rows import Rows
from studies.paper import cost
from studies.paper.contest import MAXIMAL, OURS, PRINTED

PRICES = np.array([1.0, 2.0, 5.0])


def everywhere(*pi):
    return np.tile(pi, (4, 1))


def test_a_mixture_spends_what_is_asked():
    curve = [everywhere(0, 0, 1), everywhere(0, 1, 0), everywhere(1, 0, 0)]
    for budget in (1.0, 1.3, 2.0, 3.5, 5.0):
        assert ne.metrics.expected_cost(cost.mixture(curve, PRICES, budget), PRICES) == pytest.approx(budget)
    assert cost.mixture(curve, PRICES, 3.5)[0] == pytest.approx([0, 0.5, 0.5])
    assert cost.mixture(curve[:2], PRICES, 0.5) == pytest.approx(curve[1])  # its cheapest
    assert cost.mixture(curve[1:], PRICES, 9.0) == pytest.approx(curve[1])  # its dearest


def test_the_papers_grids():
    assert len(cost.WEIGHTS) == 24
    assert cost.WEIGHTS[12] == pytest.approx(0.3)
    prices = np.array([1.0, 2.15, 2.37, 3.01, 4.44, 5.02, 6.13, 10.0])
    assert len(cost.budgets(prices)) == 31 + 6  # both ends are prices already
    assert cost.budgets(prices)[[0, -1]].tolist() == [1.0, 10.0]


def test_spending_falls_as_cost_weighs_more():
    rng = np.random.default_rng(0)
    games = rng.uniform(-1, 1, (50, 3, 3))
    games -= games.transpose(0, 2, 1)
    spent = [ne.metrics.expected_cost(cost.priced(games, PRICES, weight), PRICES) for weight in cost.WEIGHTS]
    assert (np.diff(spent) <= 1e-9).all()
    assert spent[-1] == pytest.approx(1.0)


def data_of(games):
    return cost.Priced(None, pa.table({}), games, (games > 0).astype(float), PRICES)


def test_methods_are_compared_at_the_same_cost():
    games = np.tile(np.array([[0.0, -1, -1], [1, 0, -1], [1, 1, 0]]), (4, 1, 1))  # dearer is better
    cheap, dear = [everywhere(1, 0, 0)], [everywhere(0, 1, 0), everywhere(0, 0, 1)]
    rows = Rows(list(cost.compared(data_of(games), {OURS: dear, MAXIMAL: cheap}, np.array([2.0, 3.5]))))
    ours, other = (rows.where(method=method, at=3.5) for method in (OURS, MAXIMAL))
    assert ours.mean("loss") == pytest.approx(0.5)
    assert ours.mean("win") == pytest.approx((1 + 2) / 2 / 3)
    assert other.mean("loss") == pytest.approx(1)
    assert other.mean("loss_ahead") == pytest.approx(0.5)
    assert other.mean("win_ahead") == pytest.approx(-0.5)


def row(method, at, loss, win, seed=0):
    ahead = {"loss": loss, "loss_ahead": loss - 0.3, "loss_ahead_se": 0.01}
    return {"data": "d", "seed": seed, "method": method, "at": at, **ahead, "win": win, "win_ahead": win - 0.5,
            "win_ahead_se": 0.02}  # fmt: skip


@pytest.mark.parametrize(("loss", "win", "holds"), [(0.31, 0.51, (True, True)), (0.29, 0.53, (False, False))])
def test_bars_are_met_or_missed(monkeypatch, loss, win, holds):
    monkeypatch.setattr(cost, "STEPS", 4)
    told = {OURS: (0.3, 0.5), PRINTED: (0.4, 0.4), MAXIMAL: (0.5, 0.4)}
    places = [(at, told | {MAXIMAL: (loss, win)} if at == 3.0 else told) for at in (1.0, 2.0, 3.0, 4.0)]
    rows = Rows([row(method, at, *values) for at, here in places for method, values in here.items()])
    frontier, rate, paper = cost.claims(rows)
    assert (frontier.holds, rate.holds) == holds
    assert frontier.seen.startswith("at 4 of 4" if holds[0] else "at 3 of 4")
    assert paper.source == "paper"

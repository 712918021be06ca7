"""Menus are drawn with the very probability that is written down."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.planning.menus import draw_menus, draw_pairs, drawn_contexts, tasks_of


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), K=st.integers(3, 6), size=st.integers(2, 4))
def test_the_chances_of_all_menus_sum_to_one(seed, K, size):
    size = min(size, K)
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(K * (K - 1) // 2))
    n = 400
    menu, chance = draw_menus(np.tile(q, (n, 1)), np.ones((n, K), bool), size, rng)
    index = {pair: p for p, pair in enumerate(combinations(range(K), 2))}
    exact = {
        one: sum(q[index[pair]] for pair in combinations(one, 2)) / comb(K - 2, size - 2)
        for one in combinations(range(K), size)
    }
    assert sum(exact.values()) == pytest.approx(1)
    assert chance == pytest.approx([exact[tuple(sorted(row))] for row in menu.tolist()])


def test_menus_come_as_often_as_they_say_and_in_every_order():
    rng, n = np.random.default_rng(0), 40_000
    q = np.array([0.5, 0.3, 0.2])
    menu, chance = draw_menus(np.tile(q, (n, 1)), np.ones((n, 3), bool), 2, rng)
    for pair, share in zip(combinations(range(3), 2), q, strict=True):
        both = [(menu == order).all(axis=1) for order in (pair, pair[::-1])]
        assert (both[0] | both[1]).mean() == pytest.approx(share, abs=0.01)
        assert both[0].sum() / (both[0] | both[1]).sum() == pytest.approx(0.5, abs=0.02)
        assert chance[both[0]] == pytest.approx(share)


def test_agents_that_are_not_up_are_in_no_menu():
    rng, n = np.random.default_rng(1), 500
    able = np.tile([True, False, True, True], (n, 1))
    q = np.array([0, 0.4, 0.3, 0, 0, 0.3])
    menu, chance = draw_menus(np.tile(q, (n, 1)), able, 3, rng)
    assert 1 not in menu
    assert chance == pytest.approx(1.0)  # there is but one menu of three


def test_the_last_pair_is_drawn_where_rounding_leaves_a_rest():
    q = np.full((1, 3), 1 / 3) * (1 - 1e-16)

    class Last:
        def random(self, n):
            return np.full(n, 1 - 1e-17)

    assert draw_pairs(q, Last())[0] == 2


def test_contexts_come_evenly():
    pool = pa.table({"x": [1, 2, 3]})
    drawn = drawn_contexts(pool, 7, np.random.default_rng(0))["x"].to_pylist()
    assert sorted(drawn.count(x) for x in (1, 2, 3)) == [2, 2, 3]


def test_tasks_with_votes_filled_in_are_a_log(tmp_path):
    rng, n = np.random.default_rng(2), 300
    contexts = pa.table({"language": rng.choice(["en", "fi"], n)})
    q = np.tile([0.6, 0.3, 0.1], (n, 1))
    menu, chance = draw_menus(q, np.ones((n, 3), bool), 2, rng)
    tasks = tasks_of(contexts, menu, chance, ("a", "b", "c"), 0.2, 2.0)
    tasks.write(tmp_path / "tasks.parquet")
    votes = pa.parquet.read_table(tmp_path / "tasks.parquet")
    place = votes.column_names.index("winner")
    votes = votes.set_column(place, "winner", pa.array(rng.choice(["model_a", "model_b", "tie"], n)))
    log = ne.read_votes(votes, context=["language"], propensity="propensity", design="draws")
    assert log.n_records == n == len(tasks)
    assert log.agents == ("a", "b", "c")
    assert np.allclose(np.sort(log.records.propensity), np.sort(tasks.propensity))


def test_larger_menus_filled_in_are_rankings():
    rng, n = np.random.default_rng(3), 60
    menu, chance = draw_menus(np.full((n, 6), 1 / 6), np.ones((n, 4), bool), 3, rng)
    tasks = tasks_of(pa.table({"x": np.arange(n) % 7}), menu, chance, ("a", "b", "c", "d"), 0.2, 6.0)
    assert len(tasks) == n
    rank = np.concatenate([rng.permutation(3) + 1 for _ in range(n)])
    place = tasks.table.column_names.index("rank")
    table = tasks.table.set_column(place, "rank", pa.array(rank))
    columns = {"ballot": "task", "agent": "agent", "rank": "rank", "propensity": "propensity"}
    log = ne.read_rankings(table, context=["x"], design="draws", **columns)
    assert log.n_records == n
    assert np.allclose(log.records.propensity, 1 / 4)


def test_columns_that_tasks_need_are_not_the_contexts():
    with pytest.raises(ne.InputError, match="columns named winner"):
        tasks_of(pa.table({"winner": ["x"]}), np.array([[0, 1]]), np.ones(1), ("a", "b"), 0.2, 1.0)

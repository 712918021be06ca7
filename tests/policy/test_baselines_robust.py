"""The robust maximal lottery: by hand, against every vertex of the ball, and at the ends of its radius."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from nasheval.errors import ConvergenceError, InputError
from nasheval.game.regularizers import L2
from nasheval.game.solver import solve
from nasheval.policy import robust
from nasheval.policy.baselines import RobustMaximalLottery
from nasheval.policy.robust import group_margins, groups_of, primary_radius, robust_lottery

from .hand import antisymmetric, duels, of_log, random_games

RADII = (0, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1)


def vertices(weights, radius):
    """Every mixture that is worst for some order of the groups: weight moves from the front to the last."""
    found = []
    for order in permutations(range(len(weights))):
        w, left = np.array(weights, float), radius
        for g in order[:-1]:
            moved = min(w[g], left)
            w[g], w[order[-1]], left = w[g] - moved, w[order[-1]] + moved, left - moved
        found.append(w)
    return np.array(found)


def worst(pi, matrices, weights, radius):
    mixtures = np.einsum("vg,gjk->vjk", vertices(weights, radius), matrices)
    return float(np.einsum("j,vjk->vk", pi, mixtures).min())


def by_vertices(matrices, weights, radius):
    """max v with pi M_w >= v for the matrix M_w of every vertex w."""
    K = matrices.shape[1]
    games = np.einsum("vg,gjk->vjk", vertices(weights, radius), matrices).transpose(0, 2, 1).reshape(-1, K)
    found = linprog(
        np.r_[np.zeros(K), -1.0], A_ub=np.c_[-games, np.ones(len(games))], b_ub=np.zeros(len(games)),
        A_eq=np.r_[np.ones(K), 0.0][None], b_eq=[1.0], bounds=[(0, None)] * K + [(None, None)], method="highs",
    )  # fmt: skip
    return -found.fun


def test_two_groups_that_disagree_by_hand():
    # group 0 (weight 3/4): a wins by 1; group 1 (1/4): b wins by 1. At radius t, a leads by 1/2 - 2 t at worst: up to
    # t = 1/4 a alone is safe; beyond, p of a loses p (2 t - 1/2) to b in one mixture and 1 - p in that of the other end
    matrices = np.array([antisymmetric([[0, 1], [0, 0]]), antisymmetric([[0, -1], [0, 0]])])
    weights = np.array([0.75, 0.25])
    for radius, lottery, value in (
        (0, [1, 0], 0),
        (0.2, [1, 0], 0),
        (0.5, [2 / 3, 1 / 3], -1 / 3),
        (1, [0.5, 0.5], -0.5),
    ):
        pi, least = robust_lottery(matrices, weights, radius)
        assert pi == pytest.approx(lottery, abs=1e-9)
        assert least == pytest.approx(value, abs=1e-9)


@settings(max_examples=60)
@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 10_000),
    st.sampled_from([0, 0.025, 0.1, 0.4, 0.8, 1]),
    st.booleans(),
)
def test_the_value_is_that_over_all_vertices_of_the_ball(G, K, seed, radius, coarse):
    rng = np.random.default_rng(seed)
    matrices = random_games(G, K, seed)
    matrices = np.sign(matrices) * (np.abs(matrices) > 0.3) if coarse else matrices
    weights = rng.dirichlet(np.ones(G))
    pi, value = robust_lottery(matrices, weights, radius)
    assert pi.min() >= 0
    assert pi.sum() == pytest.approx(1)
    assert value == pytest.approx(by_vertices(matrices, weights, radius), abs=1e-8)
    assert worst(pi, matrices, weights, radius) == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_radius_zero_is_the_lottery_of_the_weighted_matrix(seed):
    matrices, weights = random_games(3, 5, seed), np.array([0.5, 0.3, 0.2])
    pi, value = robust_lottery(matrices, weights, 0.0)
    mean = np.einsum("g,gjk->jk", weights, matrices)
    assert value == pytest.approx(0, abs=1e-9)
    assert pi == pytest.approx(solve(mean, regularizer=L2(0.0)).strategy, abs=1e-7)


def test_radius_one_is_the_game_of_the_worst_group():
    matrices = random_games(4, 4, seed=2)
    pi, value = robust_lottery(matrices, np.array([0.7, 0.1, 0.1, 0.1]), 1.0)
    assert value == pytest.approx(np.einsum("j,gjk->gk", pi, matrices).min(), abs=1e-9)
    even, same = robust_lottery(matrices, np.ones(4) / 4, 1.0)
    assert same == pytest.approx(value, abs=1e-9)  # whatever the observed mixture
    assert np.einsum("j,gjk->gk", even, matrices).min() == pytest.approx(value, abs=1e-9)


def test_a_larger_radius_is_never_safer():
    matrices, weights = random_games(4, 5, seed=1), np.array([0.4, 0.3, 0.2, 0.1])
    values = [robust_lottery(matrices, weights, t)[1] for t in RADII]
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] < values[0] - 0.01


def test_the_primary_radius_by_hand():
    # 4 groups and 100 contexts: sqrt(4/100) + sqrt(2/100 log 40) = 0.2 + 0.27162
    assert primary_radius(4, 100) == pytest.approx(0.2 + np.sqrt(0.02 * 3.6888794541), rel=1e-9)
    assert primary_radius(4, 5) == 1


# -- from a log -------------------------------------------------------------------------------------------------------


def grouped():
    """x: a over b 3 to 0 and b over c once; y: b over a once; a context without a record, of a group of its own."""
    said = [("a", "b", "a")] * 3 + [("b", "c", "b"), ("a", "b", "b")]
    contexts = {"field": ["x", "x", "x", None, "z", "y"], "size": [1.0, 2, 3, 4, 5, 6]}
    return duels(said, agents=list("abc"), contexts=contexts, context_of=[0, 1, 2, 3, 5])


def test_groups_are_the_values_of_a_column():
    policy = RobustMaximalLottery("field", radius=0.0).fit(of_log(grouped()))
    group, names = groups_of(grouped(), "field")
    assert names == ("x", "y", "(missing)")
    assert group.tolist() == [0, 0, 0, 2, -1, 1]
    expected = [[[0, 1, 0], [0, 0, 0]], [[0, -1, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 1]]]
    assert group_margins(grouped(), group, 3) == pytest.approx(
        np.array([antisymmetric([*rows, [0, 0, 0]]) for rows in expected])
    )
    # the weighted matrix: a over b by 0.4, b over c by 0.2
    assert (policy.lottery() @ antisymmetric([[0, 0.4, 0], [0, 0, 0.2], [0, 0, 0]])).min() >= -1e-9
    assert policy.lottery(["b", "c"]).tolist() == [0, 1, 0]
    worst = RobustMaximalLottery("field", radius=1.0).fit(of_log(grouped()))
    assert (RobustMaximalLottery("field").fit(of_log(grouped())).lottery() == worst.lottery()).all()  # five say little


def test_groups_by_numbers_and_by_categories():
    log = grouped()
    assert groups_of(log, "size")[1] == ("1", "2", "3", "4", "6")
    coded = log.contexts["field"].dictionary_encode()
    said = [("a", "b", "a")] * 6
    again = duels(said, contexts=pa.table({"field": coded}), context_of=range(6))
    assert groups_of(again, "field")[1] == ("x", "z", "y", "(missing)")


def test_what_cannot_be_grouped_is_refused():
    with pytest.raises(InputError, match="groups='topic' is no context column; this log has field, size"):
        RobustMaximalLottery("topic").fit(of_log(grouped()))
    with pytest.raises(InputError, match=r"radius is 1\.5"):
        RobustMaximalLottery("field", radius=1.5)
    many = duels([("a", "b", "a")] * 201)
    with pytest.raises(InputError, match="has 201 values at contexts with a record; accepted are 1 to 200"):
        RobustMaximalLottery("i").fit(of_log(many))


def test_a_program_that_fails_is_not_handed_out(monkeypatch):
    class Failed:
        status, message = 4, "Numerical difficulties."

    monkeypatch.setattr(robust, "linprog", lambda *given, **more: Failed())
    with pytest.raises(ConvergenceError, match="Numerical difficulties"):
        robust_lottery(random_games(2, 3), np.ones(2) / 2, 0.1)

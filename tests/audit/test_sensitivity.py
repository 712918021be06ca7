"""Bounds under unmeasured selection, and how strong it must be to change who wins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from nasheval.audit.sensitivity import Box, find_sensitivity, least_strength, payoff_bounds
from nasheval.audit.tilt import Tilts
from nasheval.errors import InputError
from nasheval.game.regularizers import L2
from nasheval.payoff.inference import group_payoff
from studies.benchmarks.sensitivity import World, drawn, one_run, strength_of

from .worlds import duels, model_of, plain_stage1

UPPER = np.triu_indices(3, 1)


def test_the_worst_of_two_votes_worked_by_hand():
    # a wins 3 of 4, e = 1/2, strength 2. The model says even (mu = 0), so that the top third of verdicts is all wins
    # and the quantile is 1: D is 0 of a win, (1/2 - 1)(-1 - 1) = 1 of a loss, and a quarter are losses. Below, the
    # other way.
    stage1 = plain_stage1([("a", "b")] * 3 + [("b", "a")], e=0.5, design="inclusion")
    group = group_payoff(stage1.pseudo)
    below, above = Tilts.of(stage1.pseudo).widths(group.inside, 2.0)
    assert above == pytest.approx([0.5 * (0.25 * (0.5 - 1) * (-1 - 1))])
    assert below == pytest.approx([0.5 * (0.75 * (0.5 - 1) * (-1 - 1))])


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 12), st.floats(1.05, 6), st.floats(0.05, 0.9))
def test_bounds_are_no_narrower_than_the_linear_program(wins, losses, strength, e):
    """The oracle: the largest weighted mean over weights between their limits that are one per context on average."""
    stage1 = plain_stage1([("a", "b")] * wins + [("b", "a")] * losses, e=e, design="inclusion")
    group, n = group_payoff(stage1.pseudo), wins + losses
    z, odds = np.repeat([1.0, -1.0], [wins, losses]), 1 / e - 1
    limits = [(1 + odds / strength, 1 + odds * strength)] * n
    best = linprog(-z, A_eq=np.ones((1, n)), b_eq=[n / e], bounds=limits)
    truth = -best.fun * e / n
    mean = z.mean()  # of the votes, were all weights 1 / e
    _, above = Tilts.of(stage1.pseudo).widths(group.inside, strength)
    assert mean + above[0] >= truth - 1e-9
    assert above[0] <= (strength - 1) * (1 - e) * 2


def test_bounds_are_sharp_at_the_right_quantile():
    wins, losses, strength, e = 90, 10, 3.0, 0.25
    stage1 = plain_stage1([("a", "b")] * wins + [("b", "a")] * losses, e=e, design="inclusion")
    z, odds = np.repeat([1.0, -1.0], [wins, losses]), 1 / e - 1
    limits = [(1 + odds / strength, 1 + odds * strength)] * 100
    best = linprog(-z, A_eq=np.ones((1, 100)), b_eq=[100 / e], bounds=limits)
    _, above = Tilts.of(stage1.pseudo).widths(np.ones(100, bool), strength)
    assert z.mean() + above[0] == pytest.approx(-best.fun * e / 100)


def test_no_selection_is_the_interval_and_bounds_grow_with_strength():
    stage1 = model_of(duels(n=500, agents=3)).stage1_
    group = group_payoff(stage1.pseudo)
    low, high = payoff_bounds(stage1, group, 1.0)
    assert low == pytest.approx(group.lower, abs=1e-9)
    assert high == pytest.approx(group.upper, abs=1e-9)
    ends = [payoff_bounds(stage1, group, strength, confidence=None) for strength in (1.0, 1.3, 2.0, 4.0)]
    for (low, high), (lower, higher) in pairwise(ends):
        assert (lower <= low + 0.02).all()
        assert (higher >= high - 0.02).all()
    assert payoff_bounds(stage1, group, 2.0)[0] == pytest.approx(-payoff_bounds(stage1, group, 2.0)[1].T)


def test_a_strength_below_one_is_refused():
    stage1 = model_of(duels(n=60, agents=3)).stage1_
    with pytest.raises(InputError, match="1 is no unmeasured selection"):
        payoff_bounds(stage1, group_payoff(stage1.pseudo), 0.5)


def test_the_number_is_that_at_which_the_lead_is_gone():
    stage1 = model_of(duels(n=2000, agents=3, gap=0.6)).stage1_
    group = group_payoff(stage1.pseudo)
    [found] = find_sensitivity(stage1, [group], L2()).groups
    assert found.winners == ("m00",)
    low, _ = payoff_bounds(stage1, group, found.strength * 1.02, confidence=None)
    assert low[0, 1:].min() < 1e-3
    low, _ = payoff_bounds(stage1, group, found.strength * 0.95, confidence=None)
    assert low[0, 1:].min() > 0
    assert 1 <= found.with_chance <= found.strength


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.01, 0.3))
def test_where_a_box_is_said_to_change_nothing_no_game_in_it_does(seed, width):
    """Random games between the bounds, solved: a winner that beats all others is safe exactly as said."""
    stage1 = model_of(duels(n=400, agents=4, seed=seed, gap=0.6)).stage1_
    box = Box(group_payoff(stage1.pseudo), L2())
    payoff = box.start.payoff[box.pairs]
    low, high = payoff - width, payoff + width
    rng = np.random.default_rng(seed)
    games = box._solved(rng.uniform(low, high, (40, len(payoff))))
    moved = any((game.winners != box.start.winners).any() for game in games)
    if box.start.winners.sum() == 1:
        assert box.changed(low, high) or not moved


def test_bisection_finds_the_least_strength():
    stage1 = model_of(duels(n=800, agents=3, gap=0.5)).stage1_
    box = Box(group_payoff(stage1.pseudo), L2())
    payoff = box.start.payoff[box.pairs]
    least, change = least_strength(box, lambda s: (payoff - (s - 1) / 10, payoff + (s - 1) / 10))
    lead = np.sort(box.start.payoff[box.start.winners.argmax()])[1]
    assert least == pytest.approx(1 + 10 * lead, rel=0.05)
    assert change.endswith("enters")


def test_known_propensities_are_beyond_doubt():
    world = drawn(np.random.default_rng(0), World(3, 200, 1.5, 0.5))[0]
    import nasheval as ne

    log = ne.read_votes(world.append_column("e", [[1 / 3] * 200]), context=["x"], propensity="e", design="draws")
    found = model_of(log, propensity="known").audit(parts=["sensitivity"])
    assert found.sensitivity.known
    assert "known by design" in found.lines()[0]
    low, high = found.payoff_bounds(5.0)
    assert (high - low).max() < 1


def test_two_agents_leave_nothing_to_select():
    log = duels(n=200, agents=2)
    [found] = model_of(log).audit(parts=["sensitivity"]).sensitivity.groups
    assert found.strength is None
    assert "whatever hidden trait" in str(found)


@pytest.mark.parametrize("agents", [3, 6])
def test_strengths_of_worlds_are_what_they_say(agents):
    world = World(agents, 400, 2.0, 0.5)
    votes, truth, strength = drawn(np.random.default_rng(0), world)
    assert strength == pytest.approx(2.0, rel=1e-3)
    assert len(truth) == agents * (agents - 1) // 2
    assert votes.num_rows == 400
    e = np.full((1, 4), 0.25)
    assert strength_of(e, np.array([[0.5, -0.5, 0.5, -0.5]]), 0.5) == pytest.approx((0.25 / 0.75) / (0.125 / 0.875))


def test_bounds_hold_where_a_hidden_trait_of_known_strength_is_at_work():
    found = np.array([one_run(World(3, 800, 2.0, 0.5), seed) for seed in range(12)])
    assert found[:, 1].sum() >= 11  # the bounds; intervals that know of no trait miss in most logs
    assert found[:, 3].sum() <= 6
    assert found[:, 2].mean() < 1.5  # not everything

"""Plans without a log, against what can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import nasheval as ne


def test_one_pair_of_equals_needs_what_the_textbook_says():
    [curve] = ne.plan(agents=2, margins=0.0, goal="width=0.1").curves
    assert curve.needed == pytest.approx((2 * norm.isf(0.025) / 0.1) ** 2, rel=0.06)  # rounded up to two digits
    assert curve.today == 0
    assert curve.least <= curve.needed <= curve.most


def test_a_known_margin_makes_votes_less_noisy():
    [curve] = ne.plan(agents=2, margins=0.6, goal="width=0.1").curves
    assert curve.needed == pytest.approx((1 - 0.36) * (2 * norm.isf(0.025) / 0.1) ** 2, rel=0.04)


def test_a_lead_of_two_agents_has_the_power_of_a_z_test():
    plan = ne.plan(agents=2, margins=0.2, goal="leader=0")
    z = norm.isf(0.025) + norm.ppf(0.8)
    assert plan.curves[0].needed == pytest.approx((1 - 0.04) * (z / 0.2) ** 2, rel=0.15)


def test_widths_of_many_pairs_grow_with_the_pairs_and_their_number():
    [few], [many] = (ne.plan(agents=K, margins=0.0, goal="width=0.2").curves for K in (5, 20))
    for K, curve in ((5, few), (20, many)):
        pairs = K * (K - 1) // 2
        bonferroni = pairs * (2 * norm.isf(0.025 / pairs) / 0.2) ** 2
        assert curve.needed == pytest.approx(bonferroni, rel=0.06)


def test_a_few_voters_of_many_tell_no_more_however_often_they_vote():
    [curve] = ne.plan(agents=2, voters=20, margins=0.0, goal="width=0.1").curves
    assert curve.needed is None
    assert curve.value[-1] > 0.2
    panel = ne.plan(agents=2, voters=5, margins=0.0, goal="width=0.1")
    assert panel.curves[0].needed is not None  # these five voters, and no others


def test_a_cycle_is_told_from_a_guess():
    [curve] = ne.plan(agents=3, margins=0.3, goal="cycle").curves
    assert curve.agents == ("a1", "a2", "a3")
    assert 300 < curve.needed < 1500


def test_margins_may_be_payoffs():
    A = np.array([[0, 0.5, 0.4], [-0.5, 0, 0.1], [-0.4, -0.1, 0]])
    [curve] = ne.plan(agents=3, margins=A, goal="leader=0").curves
    [even] = ne.plan(agents=3, margins=0.4, goal="leader=0").curves
    assert 0.5 * even.needed < curve.needed < 1.5 * even.needed


def test_a_tie_is_never_broken_and_the_plan_says_so():
    plan = ne.plan(agents=2, margins=0.0, goal=["leader=0", "leader=0.1"])
    tie, margin = plan.curves
    assert tie.needed is None
    assert "No number of votes looked at is likely (80%)" in plan.lines()[0]
    assert margin.needed is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "nothing to plan from"),
        ({"agents": 1}, "agents=1"),
        ({"agents": 2.5}, "agents=2.5"),
        ({"agents": 3, "margins": 1.0}, "accepted is a number from 0 to below 1"),
        ({"agents": 3, "margins": np.ones((3, 3))}, "accepted is a number from 0 to below 1"),
        ({"agents": 3, "voters": 0}, "voters=0"),
        ({"agents": 3, "voters": "panel"}, "how many voters"),
        ({"agents": 3, "power": 1.0}, "power=1.0"),
        ({"agents": 3, "goal": "with=0.1"}, "accepted are 'width=0.1'"),
        ({"agents": 3, "goal": "width=0"}, "between 0 and 2"),
        ({"agents": 3, "goal": "leader=2"}, "from 0 to below 1"),
        ({"agents": 3, "goal": "cycle=a1>a2"}, "three or more different agents"),
        ({"agents": 3, "goal": []}, "accepted are 'width=0.1'"),
        ({"agents": 3, "confidence": 1.2}, "confidence"),
    ],
)
def test_what_cannot_be_planned_is_said(options, said):
    with pytest.raises(ne.InputError, match=said):
        ne.plan(**options)


def test_a_guess_has_no_menus():
    with pytest.raises(ne.InputError, match="is of a guess"):
        ne.plan(agents=3, goal="width=0.5").menus(10)

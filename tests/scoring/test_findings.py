"""What the report says of groups whose winners differ: "clearly" only where their own intervals say so."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from nasheval.scoring.report.findings import findings
from nasheval.scoring.report.views import GroupView, Payoffs, Preferences

AGENTS = ("ada", "bert", "cleo")
KNOWN = {"only_a_ladder": False, "unseen": "model"}


def view(
    name: str, margins: dict[tuple[int, int], tuple[float, float]], winners: tuple[int, ...], *, drawn: bool = True
) -> GroupView:
    """A group in which pair (j, k) has the interval margins[j, k], and no edge unless that is off zero."""
    order = (*winners, *(a for a in range(3) if a not in winners))
    pairs = list(combinations(order, 2))
    ends = [margins[p] if p in margins else (-margins[p[::-1]][1], -margins[p[::-1]][0]) for p in pairs]
    edges = [(j, k, (low + high) / 2) for (j, k), (low, high) in zip(pairs, ends, strict=True) if low > 0]
    edges += [(k, j, -(low + high) / 2) for (j, k), (low, high) in zip(pairs, ends, strict=True) if high < 0]
    low, high = zip(*ends, strict=True)
    middle = tuple((one + other) / 2 for one, other in ends)
    three = (0.0, 0.0, 0.0)
    return GroupView(
        column="" if name == "all" else "lang",
        name=name,
        contexts=100,
        order=order,
        winners=winners,
        tied=winners,
        lottery=tuple(1 / len(winners) * (a in winners) for a in range(3)),
        lower=three,
        upper=three,
        frequency=tuple(0.95 if a in winners else 0.05 for a in range(3)),
        won=(None,) * 3,
        rating=(None,) * 3,
        rating_error=(None,) * 3,
        votes=three,
        bridged=(0, 0, 0),
        payoffs=Payoffs(order, middle, low, high, (10,) * 3, (0,) * 3, (None,) * 3, (None,) * 3),
        preferences=Preferences(order, tuple(edges), (), 0) if drawn else Preferences((), (), (), 0),
        notes=(),
    )


ADA_WINS = {(0, 1): (0.1, 0.3), (0, 2): (0.2, 0.4), (1, 2): (0.1, 0.3)}
CYCLE = {(0, 1): (0.1, 0.3), (1, 2): (0.1, 0.3), (2, 0): (0.1, 0.3)}
ALL = view("all", ADA_WINS, (0,))
ALL_IN_ENGLISH = view("en", ADA_WINS, (0,))


def sentence(whole: GroupView, *groups: GroupView) -> str:
    [found] = [text for text in findings(AGENTS, [whole, *groups], [], None, 0.95, KNOWN) if text.startswith("By ")]
    return found


def test_a_bridged_pair_sets_no_groups_apart() -> None:
    other = view("de", ADA_WINS | {(0, 1): (-0.3, -0.1)}, (1,), drawn=False)
    assert "clearly" in sentence(ALL, other)
    bridged = replace(other, payoffs=replace(other.payoffs, status=(1,) * 3))
    assert "clearly" not in sentence(ALL, bridged)


@pytest.mark.parametrize("drawn", [True, False])
def test_a_margin_whose_interval_holds_zero_is_not_clear(drawn: bool) -> None:
    """As seen: bert leads in one group by 0.048, with the interval [-0.066, 0.163] around it."""
    close = view("de", ADA_WINS | {(0, 1): (-0.163, 0.066)}, (1,), drawn=drawn)
    expected = (
        "By lang: 1 of 2 groups has other winners than all contexts together, not significant at 95%, such as de: bert."
    )
    assert sentence(ALL, close, view("en", ADA_WINS, (0,))) == expected


@pytest.mark.parametrize("drawn", [True, False])
def test_a_winner_who_is_certainly_beaten_in_the_group_is_clear(drawn: bool) -> None:
    beaten = view("de", ADA_WINS | {(0, 1): (-0.3, -0.1)}, (1,), drawn=drawn)
    close = view("pl", ADA_WINS | {(0, 2): (-0.1, 0.05)}, (2,), drawn=drawn)
    only = "By lang: 1 of 2 groups has clearly other winners than all contexts together, such as de: bert."
    assert sentence(ALL, beaten, view("en", ADA_WINS, (0,))) == only
    assert sentence(ALL, beaten, close) == f"{only[:-1]}; 1 more has other winners, not significant at 95%."


def test_the_same_winners_are_no_others_even_on_a_cycle() -> None:
    whole, group = view("all", CYCLE, (0, 1, 2)), view("de", CYCLE, (0, 1, 2))
    assert sentence(whole, group) == "By lang: no group has other winners than all contexts together."


def test_a_cycle_in_the_group_alone_is_clear() -> None:
    assert "1 of 1 groups has clearly other winners" in sentence(ALL, view("de", CYCLE, (0, 1, 2)))


def test_an_edge_between_two_who_win_in_both_tells_nothing_of_a_third() -> None:
    whole = view("all", CYCLE, (0, 1))
    group = view("de", CYCLE | {(1, 2): (-0.1, 0.2), (2, 0): (-0.1, 0.3)}, (0, 1, 2))
    assert "not significant" in sentence(whole, group)


def test_findings_say_that_only_the_largest_groups_are_shown() -> None:
    def said(group: GroupView) -> str:
        found = findings(AGENTS, [ALL, ALL_IN_ENGLISH, group], [], None, 0.95, KNOWN, cut={"lang"})
        return next(text for text in found if text.startswith("By "))

    assert said(view("de", ADA_WINS, (1,))).startswith("By lang: 1 of the 2 largest groups has other winners than all")
    assert said(ALL_IN_ENGLISH) == (
        "By lang (its 2 largest groups): no group has other winners than all contexts together."
    )

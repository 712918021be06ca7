"""What stands out, one sentence per finding."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from nasheval.arrays import pair_index
from nasheval.feedback.links import SEEN, UNKNOWN
from nasheval.scoring.heldout import Evaluation
from nasheval.scoring.report.frontier import FrontierPoint
from nasheval.scoring.report.views import GroupView

_NEAR = 0.02  # exploitability that is still called about as good
_ONLY_A_LADDER = (
    "These votes can only tell a ladder: the comparisons form a tree without a loop, so that no cycle of preferences "
    "can be seen, whether there is one or not."
)


def findings(
    agents: tuple[str, ...],
    views: Sequence[GroupView],
    frontier: Sequence[FrontierPoint],
    evaluation: Evaluation | None,
    confidence: float,
    facts: Mapping[str, Any],
    cut: Collection[str] = (),
) -> tuple[str, ...]:
    """Say what stands out on the page.

    Args:
        views: the group of all contexts first.
        evaluation: on a held-out log.
        facts: from `facts_of`.
        cut: columns of which only the largest groups are shown.
    """
    whole = views[0]
    return (
        _winners(agents, whole),
        *_not_connected(agents, whole),
        *_never_met(agents, whole, facts["unseen"]),
        *_ladder(agents, whole),
        *_context_by_context(agents, whole),
        *_by_column(agents, views, confidence, cut),
        _ONLY_A_LADDER if facts["only_a_ladder"] else _cycles(agents, whole, views, confidence),
        *_saving(frontier),
        *([] if evaluation is None else [f"On the held-out log: {evaluation.verdict}"]),
    )


def _winners(agents: tuple[str, ...], whole: GroupView) -> str:
    if len(whole.winners) == 1:
        [best] = whole.winners
        steady = f"it is among the winners in {whole.frequency[best]:.0%} of bootstrap draws"
        return f"Over all contexts taken together, {agents[best]} is the only winner; {steady}."
    shares = [f"{agents[a]} {whole.lottery[a]:.2f}" for a in whole.winners]
    return f"Over all contexts taken together no agent beats all others; the winning lottery is {listed(shares)}."


def _not_connected(agents: tuple[str, ...], whole: GroupView) -> Iterator[str]:
    """Say which winners win only because no vote tells them apart."""
    apart = [
        f"{agents[a]} and {agents[b]}"
        for (a, b), status in zip(combinations(whole.payoffs.agents, 2), whole.payoffs.status, strict=True)
        if status == UNKNOWN and {a, b} <= set(whole.winners)
    ]
    if apart:
        yield f"Nothing connects {listed(apart, 3)}: no vote tells which is better, so both stay among the winners."


def _never_met(agents: tuple[str, ...], whole: GroupView, unseen: str) -> Iterator[str]:
    """Say which winners rest on payoffs of pairs never compared."""
    rivals = len(whole.order) - 1
    some = [
        f"{agents[a]} with {whole.bridged[a]:,} of its {rivals:,} rivals" for a in whole.winners if whole.bridged[a]
    ]
    if some:
        were = "was" if len(some) == 1 else "were"
        how = "bridged through other agents" if unseen == "model" else "given as 0, a tie"
        yield f"Never compared {were} {listed(some, 3)}: those payoffs are {how}."


def _ladder(agents: tuple[str, ...], whole: GroupView) -> Iterator[str]:
    rated = [(rating, a) for a, rating in enumerate(whole.rating) if rating is not None]
    if rated and max(rated)[1] not in whole.winners:
        yield f"{agents[max(rated)[1]]} has the highest rating and is not among the winners."


def _context_by_context(agents: tuple[str, ...], whole: GroupView) -> Iterator[str]:
    often = sorted(((share, -a) for a, share in enumerate(whole.won) if share), reverse=True)
    if often:
        shares = [f"{agents[-a]} at {share:.0%}" for share, a in often[:3]]
        yield f"Context by context, the most frequent winners are {listed(shares)} of contexts."


def _by_column(
    agents: tuple[str, ...], views: Sequence[GroupView], confidence: float, cut: Collection[str]
) -> Iterator[str]:
    same = []
    for column in dict.fromkeys(view.column for view in views[1:]):
        groups = [view for view in views if view.column == column]
        other = [view for view in groups if set(view.winners) != set(views[0].winners)]
        clear = [view for view in other if _clearly_others(view, views[0])]
        if not other:
            same.append(f"{column} (its {len(groups)} largest groups)" if column in cut else column)
            continue
        most = max(clear or other, key=lambda view: view.contexts)
        example = f"such as {most.name}: {listed([agents[a] for a in most.winners])}"
        unsure, rest = f"not significant at {confidence:.0%}", len(other) - len(clear)
        if not clear:
            count = _count(rest, groups, column in cut)
            yield f"By {column}: {count} other winners than all contexts together, {unsure}, {example}."
            continue
        more = f"; {rest} more {_have(rest)} other winners, {unsure}" if rest else ""
        count = _count(len(clear), groups, column in cut)
        yield f"By {column}: {count} clearly other winners than all contexts together, {example}{more}."
    if same:
        yield f"By {listed(same)}: no group has other winners than all contexts together."


def _count(some: int, groups: Sequence[GroupView], cut: bool = False) -> str:
    return f"{some} of {f'the {len(groups)} largest' if cut else len(groups)} groups {_have(some)}"


def _have(some: int) -> str:
    return "has" if some == 1 else "have"


def _clearly_others(view: GroupView, whole: GroupView) -> bool:
    """Tell whether a winner of the group certainly beats a winner overall in the group.

    Two agents that win in both may be on one cycle, in which each beats another: that sets no two groups apart.
    """
    return any(
        _certainly_beats(view, ours, theirs)
        for ours in view.winners
        for theirs in whole.winners
        if ours not in whole.winners or theirs not in view.winners
    )


def _certainly_beats(view: GroupView, first: int, second: int) -> bool:
    """Tell whether votes say that one agent beats another; of agents that the group does not show, no."""
    if {first, second} <= set(view.preferences.agents):
        return any(edge[:2] == (first, second) for edge in view.preferences.edges)
    place = {agent: a for a, agent in enumerate(view.payoffs.agents)}
    if first == second or not {first, second} <= set(place):
        return False
    low, high = sorted((place[first], place[second]))
    pair = int(pair_index(np.array(low), np.array(high), len(place)))
    if view.payoffs.status[pair] != SEEN:
        return False
    return view.payoffs.low[pair] > 0 if place[first] == low else view.payoffs.high[pair] < 0


def _cycles(agents: tuple[str, ...], whole: GroupView, views: Sequence[GroupView], confidence: float) -> str:
    some = sum(1 for view in views[1:] if view.preferences.n_cycles)
    groups = f" {_count(some, views[1:])} one." if some else ""
    cycles, held = whole.preferences.cycles, whole.preferences.n_cycles
    if not held:
        nor = f", nor in any of {len(views) - 1} groups" if len(views) > 1 and not some else ""
        return f"No cycle of preferences holds at {confidence:.0%} confidence over all contexts{nor}.{groups}"
    first = " beats ".join(agents[a] for a in (*cycles[0], cycles[0][0]))
    count = "1 cycle holds" if held == 1 else f"{held:,} cycles hold"
    return f"{count} at {confidence:.0%} confidence over all contexts: {first}. No rating can express that.{groups}"


def _saving(frontier: Sequence[FrontierPoint]) -> Iterator[str]:
    prices = [point for point in frontier if point.kind == "price"]
    if not prices or prices[0].cost <= 0:
        return
    free = prices[0]
    near = [point for point in prices if point.exploitability <= free.exploitability + _NEAR]
    cheapest = min(near, key=lambda point: point.cost)
    saved = 1 - cheapest.cost / free.cost
    if saved >= 0.01:
        yield (
            f"At a cost weight of {cheapest.cost_weight:g}, expected cost falls by {saved:.0%} for an estimated "
            f"exploitability of {cheapest.exploitability:.3f}."
        )


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return "a", "a and b", or "a, b and c", cut short after a few."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))

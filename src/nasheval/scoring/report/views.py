"""Groups of contexts as a report shows them: standings, payoffs, certain preferences, cycles."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Bools
from nasheval.feedback.groups import Groups
from nasheval.feedback.links import SEEN
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import Regularizer
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.cycles import as_cycles, find_cycles
from nasheval.payoff.inference import GroupPayoff
from nasheval.policy.choosing import WINNER
from nasheval.scoring.leaderboard import Standing, in_group
from nasheval.scoring.report.frontier import Games

MOST_GROUPS = 30  # of a column, those with most contexts
SHOWN = 20  # agents in a payoff matrix
DRAWN = 12  # agents in a preference graph
MOST_CYCLES = 30

Numbers = tuple[float, ...]
Gaps = tuple[float | None, ...]  # None where votes do not tell


@dataclass(frozen=True)
class Payoffs:
    """Mean payoffs of the pairs of S agents, in the order of `pair_index`, (S (S - 1) / 2,) each.

    Args:
        agents: (S,).
        estimate: payoff of the first agent of a pair over the second.
        low, high: the ends of simultaneous intervals.
        votes: verdicts of the pair.
        status: 0 seen, 1 bridged, 2 unknown, 3 elsewhere, as in `nasheval.payoff.bridging.STATUS_NAMES`.
        allowed_low, allowed_high: what any transitive voters allow (`GroupPayoff.allowed`); None for seen pairs.
    """

    agents: tuple[int, ...]
    estimate: Numbers
    low: Numbers
    high: Numbers
    votes: tuple[int, ...]
    status: tuple[int, ...]
    allowed_low: Gaps
    allowed_high: Gaps


@dataclass(frozen=True)
class Preferences:
    """Certain preferences and the cycles they make.

    Args:
        agents: those that are drawn.
        edges: (winner, loser, estimate) of the certain preferences among them.
        cycles: the clearest cycles, each agent beating the next.
        n_cycles: how many there are.
    """

    agents: tuple[int, ...]
    edges: tuple[tuple[int, int, float], ...]
    cycles: tuple[tuple[int, ...], ...]
    n_cycles: int


@dataclass(frozen=True)
class GroupView:
    """One group of contexts, with numbers of all K agents; those without a vote in it are no candidates there.

    Args:
        column: the context column of the group; "" for all contexts.
        name: its value there.
        contexts: contexts with a pseudo-outcome.
        order: the agents with a vote in the group, best first, as in the leaderboard; no table shows the others.
        winners: agents in the winner set of the group's mean payoffs.
        tied: the agents that the group's votes do not tell apart from its leader, as in `tie_groups`.
        lottery, lower, upper, frequency, rating, rating_error, votes, bridged: (K,) as in `Standing`.
        tool_score: (K,) by the rule of the tool that wrote the log, None where it gives none.
        won: (K,) share of the group's contexts at which the agent is in the winner set; None where none of them was
            solved.
        payoffs: of the first agents in `order`.
        preferences: what is certain.
        notes: what to know before trusting the intervals.
    """

    column: str
    name: str
    contexts: int
    order: tuple[int, ...]
    winners: tuple[int, ...]
    tied: tuple[int, ...]
    lottery: Numbers
    lower: Numbers
    upper: Numbers
    frequency: Numbers
    won: Gaps
    rating: Gaps
    rating_error: Gaps
    votes: Numbers
    bridged: tuple[int, ...]
    payoffs: Payoffs
    preferences: Preferences
    notes: tuple[str, ...]
    tool_score: Gaps = ()


def rounded(values: Iterable[float], digits: int = 4) -> tuple[Any, ...]:
    """Return numbers, rounded and without negative zeros; None where one is not finite."""
    return tuple(round(float(value), digits) + 0.0 if np.isfinite(value) else None for value in values)


def largest(groups: Groups, used: Bools) -> Groups:
    """Keep the groups with most used contexts: numbers in their order, other values by their number of contexts."""
    code, names = groups.code, groups.names
    count = np.bincount(code[used & (code >= 0)], minlength=len(names))
    kept = np.argsort(-count, kind="stable")[:MOST_GROUPS]
    with suppress(ValueError):
        kept = kept[np.argsort([float(names[g]) for g in kept], kind="stable")]
    number = np.full(len(names) + 1, -1)  # the last is for contexts of no group
    number[kept] = np.arange(len(kept))
    return Groups(groups.column, number[code], tuple(names[g] for g in kept))


def view_of(
    log: Feedback, column: str, payoff: GroupPayoff, tied: Bools, games: Games, regularizer: Regularizer
) -> GroupView:
    """Return one group of a column, "" for all contexts, as the page shows it, given its tie group, (K,)."""
    standing = {log.agents.index(row.agent): row for row in in_group(log, payoff, tied, regularizer)}
    order = tuple(standing)
    nothing = (0.0, 0.0, 0.0, 0.0, False, np.nan, np.nan, 0.0, 0, False)
    absent = Standing(payoff.name, "", *nothing, payoff.moments.n_contexts)  # which no table shows
    rows = [standing.get(a, absent) for a in range(log.n_agents)]
    here = games.lotteries[payoff.inside[games.rows]] > WINNER
    return GroupView(
        column=column,
        name=payoff.name,
        contexts=payoff.moments.n_contexts,
        order=order,
        winners=tuple(a for a in order if rows[a].in_support),
        tied=tuple(a for a in order if rows[a].tied),
        lottery=rounded(row.lottery for row in rows),
        lower=rounded(row.lower for row in rows),
        upper=rounded(row.upper for row in rows),
        frequency=rounded(row.frequency for row in rows),
        won=rounded(here.mean(axis=0) if len(here) else np.full(log.n_agents, np.nan)),
        rating=rounded((row.rating for row in rows), 1),
        rating_error=rounded((row.rating_error for row in rows), 1),
        tool_score=rounded(row.tool_score for row in rows),
        votes=rounded((row.votes for row in rows), 1),
        bridged=tuple(row.bridged for row in rows),
        payoffs=_payoffs(payoff, order[:SHOWN]),
        preferences=_preferences(payoff, order),
        notes=payoff.notes,
    )


def _payoffs(payoff: GroupPayoff, agents: tuple[int, ...]) -> Payoffs:
    first, second = np.triu_indices(len(agents), 1)
    place = np.array(agents, int)[first], np.array(agents, int)[second]
    status = payoff.status[place]
    allowed = [np.where(status == SEEN, np.nan, bound[place]) for bound in payoff.allowed]
    return Payoffs(
        agents=agents,
        estimate=rounded(payoff.estimate[place]),
        low=rounded(payoff.lower[place]),
        high=rounded(payoff.upper[place]),
        votes=tuple(pair_matrix(payoff.moments.votes, len(payoff.agents))[place].astype(int).tolist()),
        status=tuple(status.tolist()),
        allowed_low=rounded(allowed[0]),
        allowed_high=rounded(allowed[1]),
    )


def _preferences(payoff: GroupPayoff, order: tuple[int, ...]) -> Preferences:
    beats, number = payoff.beats(), {agent: a for a, agent in enumerate(payoff.agents)}
    named = as_cycles(find_cycles(beats), payoff.agents, payoff.estimate, payoff.error)
    cycles = [tuple(number[agent] for agent in cycle.agents) for cycle in named]
    drawn = _drawn(order, cycles)
    edges = [(a, b, rounded([payoff.estimate[a, b]])[0]) for a in drawn for b in drawn if beats[a, b]]
    return Preferences(drawn, tuple(edges), tuple(cycles[:MOST_CYCLES]), len(cycles))


def _drawn(order: tuple[int, ...], cycles: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the agents of as many of the clearest cycles as fit, filled up with those at the top, in order."""
    chosen: set[int] = set()
    for cycle in cycles:
        if len(chosen | set(cycle)) <= DRAWN:
            chosen |= set(cycle)
    chosen |= set([a for a in order if a not in chosen][: DRAWN - len(chosen)])
    return tuple(a for a in order if a in chosen)

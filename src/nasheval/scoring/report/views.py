"""Groups of contexts as a report shows them: standings, payoffs, certain preferences, cycles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Ints
from nasheval.feedback.groups import Groups, groups_by
from nasheval.feedback.links import SEEN
from nasheval.game.regularizers import Regularizer
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.clusters import Speaks
from nasheval.payoff.cycles import as_cycles, find_cycles
from nasheval.payoff.inference import GroupPayoff, group_payoff, group_payoffs
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.scoring.leaderboard import Standing, standings
from nasheval.scoring.report.data import GroupView, Payoffs, Preferences
from nasheval.scoring.report.numbers import gappy, rounded

MOST_GROUPS = 30  # of a column, those with most contexts
SHOWN = 20  # agents in a payoff matrix
DRAWN = 12  # agents in a preference graph
MOST_CYCLES = 30


@dataclass(frozen=True)
class Solved:
    """Who wins at contexts that were solved one by one.

    Args:
        rows: (m,) the contexts.
        winners: (m, K) who is in the winner set there.
    """

    rows: Ints
    winners: Bools


@dataclass(frozen=True)
class How:
    """How groups are looked at: regulariser of the game, confidence, draws of the bootstrap, their seed, for whom."""

    regularizer: Regularizer
    confidence: float
    draws: int
    seed: int
    voters: Speaks | None = None

    def of_groups(self) -> dict[str, Any]:
        """Return what `group_payoffs` takes."""
        return {name: getattr(self, name) for name in ("confidence", "draws", "seed", "voters")}


def whole_view(pseudo: PseudoOutcomes, solved: Solved, how: How) -> GroupView:
    """Return the group of all contexts."""
    return _view(pseudo, "", group_payoff(pseudo, **how.of_groups()), solved, how)


def column_views(pseudo: PseudoOutcomes, column: str, solved: Solved, how: How) -> Iterator[GroupView]:
    """Yield the groups of a column: numbers in their order, other values by their number of contexts."""
    groups = _largest(groups_by(pseudo.fit.log, column, pseudo.used), pseudo.used)
    for payoff in group_payoffs(pseudo, groups, **how.of_groups()):
        yield _view(pseudo, column, payoff, solved, how)


def n_groups(pseudo: PseudoOutcomes, column: str) -> int:
    """Return how many groups a column has, those beyond `MOST_GROUPS` too."""
    return len(groups_by(pseudo.fit.log, column, pseudo.used))


def _largest(groups: Groups, used: Bools) -> Groups:
    """Keep the groups with most contexts, in the order they are shown in."""
    code, names = groups.code, groups.names
    count = np.bincount(code[used & (code >= 0)], minlength=len(names))
    kept = np.argsort(-count, kind="stable")[:MOST_GROUPS]
    kept = kept[_order([names[g] for g in kept])]
    number = np.full(len(names) + 1, -1)  # the last is for contexts of no group
    number[kept] = np.arange(len(kept))
    return Groups(groups.column, number[code], tuple(names[g] for g in kept))


def _order(names: list[str]) -> Ints:
    """Return numbers ascending, and other names as they are."""
    try:
        return np.argsort([float(name) for name in names], kind="stable")
    except ValueError:
        return np.arange(len(names))


def _view(pseudo: PseudoOutcomes, column: str, payoff: GroupPayoff, solved: Solved, how: How) -> GroupView:
    log = pseudo.fit.log.whole
    found = list(standings(log, [payoff], how.regularizer))
    order = tuple(log.agents.index(row.agent) for row in found)
    standing = dict(zip(order, found, strict=True))
    rows = [standing.get(a) or _absent(payoff.name, agent) for a, agent in enumerate(log.agents)]
    here = solved.winners[payoff.inside[solved.rows]]
    return GroupView(
        column=column,
        name=payoff.name,
        contexts=payoff.moments.n_contexts,
        order=order,
        winners=tuple(a for a in order if rows[a].in_support),
        lottery=rounded(row.lottery for row in rows),
        lower=rounded(row.lower for row in rows),
        upper=rounded(row.upper for row in rows),
        frequency=rounded(row.frequency for row in rows),
        won=gappy(here.mean(axis=0) if len(here) else np.full(log.n_agents, np.nan)),
        rating=gappy((row.rating for row in rows), 1),
        rating_error=gappy((row.rating_error for row in rows), 1),
        votes=rounded((row.votes for row in rows), 1),
        bridged=tuple(row.bridged for row in rows),
        payoffs=_payoffs(payoff, order[:SHOWN]),
        preferences=_preferences(payoff, order),
        notes=payoff.notes,
    )


def _absent(group: str, agent: str) -> Standing:
    """Return the standing of an agent without a vote in the group, which no table shows."""
    nan = float("nan")
    return Standing(group, agent, 0.0, 0.0, 0.0, 0.0, False, nan, nan, 0.0, 0)


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
        allowed_low=gappy(allowed[0]),
        allowed_high=gappy(allowed[1]),
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

"""What votes are for: a width of intervals, a leader told apart, a cycle that is certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, as_number, pair_index
from nasheval.errors import Argument, InputError
from nasheval.game.checks import games_of
from nasheval.game.regularizers import L2
from nasheval.game.solver import lotteries
from nasheval.planning.future import Futures, Pairs
from nasheval.scoring.decision import MARGIN, rivals_of

WIDTH = 0.1  # that is asked for where nothing is said
_ACCEPTED = "'width=0.1', 'leader', 'leader=0.02' (that margin), 'cycle', 'cycle=a>b>c', or a list of them"


class Goal(Protocol):
    """Something that votes may reach."""

    @property
    def name(self) -> str:
        """As it is typed."""

    @property
    def is_chance(self) -> bool:
        """Whether a future reaches it or not; else `values` are widths."""

    def values(self, found: Futures, agents: tuple[str, ...]) -> Floats:
        """Return (R,) the mean width in each future, or 1 where it reaches the goal and 0 where not."""


@dataclass(frozen=True)
class Width:
    """Intervals that are no wider than so much, on average over the pairs of agents that are there."""

    target: float = WIDTH
    is_chance = False

    @property
    def name(self) -> str:
        """As it is typed."""
        return f"width={self.target:g}"

    def values(self, found: Futures, agents: tuple[str, ...]) -> Floats:
        """Return (R,) the mean width in each future."""
        inside = pairs_among(found.candidates)
        return np.asarray((found.high - found.low)[:, inside].mean(axis=1))


@dataclass(frozen=True)
class Leader:
    """A leader that is shown to be at most a margin worse than any other agent: the rule of `decide`."""

    margin: float = MARGIN
    is_chance = True

    @property
    def name(self) -> str:
        """As it is typed."""
        return "leader" if self.margin == MARGIN else f"leader={self.margin:g}"

    def values(self, found: Futures, agents: tuple[str, ...]) -> Floats:
        """Return (R,) whether the leader of each future is told apart."""
        leaders, lower, _ = _leads(found, len(agents))
        rivals = [
            rivals_of(found.candidates, each, int(a), self.margin) for each, a in zip(lower, leaders, strict=True)
        ]
        return np.array([float(not len(each)) for each in rivals])

    def beaten(self, found: Futures, agents: tuple[str, ...]) -> float:
        """Return the share of futures in which some agent certainly beats the leader, so that none is best."""
        _, _, upper = _leads(found, len(agents))
        return float((upper < 0).any(axis=1).mean())


def _leads(found: Futures, K: int) -> tuple[Ints, Floats, Floats]:
    """Return (R,) the leader of each future, and (R, K) lower and upper limits of what it wins over each agent."""
    lottery = lotteries(games_of(np.clip(found.mean, -1, 1), K), L2(), found.candidates)
    leaders = lottery.round(6).argmax(axis=1)
    low, high = (games_of(each, K)[np.arange(len(leaders)), leaders] for each in (found.low, found.high))
    after = np.arange(K) > leaders[:, None]  # of a pair (j, leader) the ends change places, and are negated
    return leaders, np.where(after, low, high), np.where(after, high, low)


@dataclass(frozen=True)
class CycleGoal:
    """A cycle all of whose edges are certain together; without agents, none is likely."""

    agents: tuple[str, ...] = ()
    is_chance = True

    @property
    def name(self) -> str:
        """As it is typed."""
        return "cycle" if not self.agents else f"cycle={'>'.join(self.agents)}"

    def values(self, found: Futures, agents: tuple[str, ...]) -> Floats:
        """Return (R,) whether every agent of the cycle certainly beats the next."""
        held = np.full(len(found.low), bool(self.agents))
        places = [agents.index(agent) for agent in self.agents]
        for a, b in zip(places, (*places[1:], *places[:1]), strict=True):
            p = int(pair_index(np.asarray(min(a, b)), np.asarray(max(a, b)), len(agents)))
            held &= (found.low[:, p] if a < b else -found.high[:, p]) > 0
        return held.astype(float)


def pairs_among(candidates: Bools) -> Bools:
    """Return (P,) the pairs of candidates; all pairs where there are fewer than two."""
    j, k = np.triu_indices(len(candidates), 1)
    return np.asarray(candidates[j] & candidates[k] if candidates.sum() > 1 else np.ones(len(j), bool))


def goals_of(goal: str | Sequence[str] | None, pairs: Pairs, margin: float = MARGIN) -> list[Goal]:
    """Return the goals behind their names; None: a width of 0.1, the leader, and a cycle where one is likely."""
    if goal is None:
        found = likely_cycle(pairs)
        return [Width(), Leader(margin), *([CycleGoal(found)] if found else [])]
    names = [goal] if isinstance(goal, str) or not isinstance(goal, Sequence) else list(goal)
    if not names:
        raise InputError(Argument("goal", names), f"; accepted are {_ACCEPTED}.")
    return [_goal(name, pairs, margin) for name in names]


def _goal(text: str, pairs: Pairs, margin: float) -> Goal:
    kind, equals, value = str(text).partition("=")
    kind, value = kind.strip(), value.strip()
    if kind == "width":
        target = _number(value) if equals else WIDTH
        if 0 < target < 2:
            return Width(target)
        raise InputError(Argument("goal", text), "; accepted is a width between 0 and 2, such as 'width=0.1'.")
    if kind == "leader":
        margin = _number(value) if equals else margin
        if 0 <= margin < 1:
            return Leader(margin)
        raise InputError(Argument("goal", text), "; accepted is a margin from 0 to below 1, such as 'leader=0.05'.")
    if kind == "cycle":
        return CycleGoal(_named(text, value, pairs) if equals else likely_cycle(pairs))
    raise InputError(Argument("goal", text), f"; accepted are {_ACCEPTED}.")


def _number(text: str) -> float:
    try:
        return as_number(float(text))
    except ValueError:
        return float("nan")


def _named(text: str, value: str, pairs: Pairs) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(">"))
    names = names[:-1] if len(names) > 3 and names[0] == names[-1] else names
    unknown = [name for name in names if name not in pairs.today.agents]
    if unknown or len(names) < 3 or len(set(names)) < len(names):
        raise InputError(
            Argument("goal", text), f"; accepted are three or more different agents of the log, each beating the next, "
            f"such as 'cycle={'>'.join(pairs.today.agents[:3])}'.",
        )  # fmt: skip
    return names


def likely_cycle(pairs: Pairs) -> tuple[str, ...]:
    """Return the three agents that most likely make a cycle: the least clear of its edges is clearest; () for none."""
    K, agents = len(pairs.today.agents), pairs.today.agents
    deviation = np.sqrt(pairs.square * pairs.weight**2 / np.maximum(pairs.votes, 1e-9))  # by what a vote of it is worth
    clear = games_of(np.divide(pairs.truth, deviation, out=np.zeros(len(deviation)), where=deviation > 0)[None], K)[0]
    there: Bools = pairs.today.present
    clear = np.where(there[:, None] & there[None, :], clear, 0.0)
    best = 0.0
    found: tuple[str, ...] = ()
    for a in range(K):
        least = np.minimum(np.minimum(clear[a][:, None], clear), clear[:, a][None, :])
        b, c = np.unravel_index(int(least.argmax()), least.shape)
        if least[b, c] > best:
            best, found = float(least[b, c]), (agents[a], agents[b], agents[c])
    return found

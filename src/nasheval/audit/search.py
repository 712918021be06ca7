"""The fewest votes, or voters, whose removal changes a winner set: a search with the models of nuisances as they are.

For every agent that might enter or leave, items are ranked by how much the agent's margin moves when one goes. Where
one agent beats all others that is linear, and the first items in that order are the fewest. Where several share the
lottery the game is solved again as items go, and the order with it. Leaderboards of ratings are searched alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Protocol

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.audit.margins import Margin

_DIRECTIONS = 6  # agents whose entering or leaving is followed to the end
_STEPS = 40  # times that a game is solved anew on the way
_BOLD = 0.6  # share of the items still needed that go before it is
_FURTHER = 1.5  # of the items needed, how many are put in order: a refit may need more
_SMALL, _TRIED_OF_MANY = 200, 200  # items of a small log, and how many sets are tried in others
_FEW, _POOL, _TRIED = 5, 18, 2000  # a set so small: all smaller ones of the pool are tried, up to so many


class Standings(Protocol):
    """Who wins, by whatever rule."""

    @property
    def winners(self) -> Bools:
        """(K,) who is in the winner set."""


class Board(Protocol):
    """What a search asks of a leaderboard: who wins without some votes, and what each vote does about it."""

    def without(self, gone: Bools) -> Standings:
        """Return who wins without some votes, (n_votes,)."""

    def margins(self, standings: Standings) -> list[Margin]:
        """Return how far each agent is from entering or leaving."""

    def effects(self, margin: Margin, gone: Bools, items: Items) -> Floats:
        """Return (items,) how much a margin moves, to first order, when each goes beside the votes gone."""

    def deserted(self, items: Items) -> Sequence[tuple[int, Ints]]:
        """Return agents that have few items, with these: without them the agent is no candidate."""


@dataclass(frozen=True, eq=False)
class Items:
    """What can be taken out.

    Args:
        of_vote: (n_votes,) the item of each vote, -1 for votes that cannot go.
        size: number of items.
    """

    of_vote: Ints
    size: int

    def gone(self, chosen: Ints) -> Bools:
        """Return (n_votes,) which votes go with some items."""
        out = np.zeros(self.size + 1, bool)  # the last is for votes of no item
        out[chosen] = True
        out[-1] = False
        return np.asarray(out[self.of_vote])


@dataclass(frozen=True, eq=False)
class Route:
    """Items in the order in which they go, towards one change.

    Args:
        agent, change: what the change is about.
        order: (L,) items.
        needed: how many of them are predicted to change the winner set; 0: all of them do not.
    """

    agent: int
    change: str
    order: Ints
    needed: int


def routes(board: Board, items: Items) -> list[Route]:
    """Return ways to change the winner set, the shortest first, each with more items in order than are needed."""
    nobody = np.zeros(len(items.of_vote), bool)
    start = board.without(nobody)
    known = [(_needed(m.value, board.effects(m, nobody, items)), m) for m in board.margins(start)]
    known.sort(key=lambda one: one[0])
    found = [_followed(board, items, start, margin) for _, margin in known[:_DIRECTIONS]]
    for agent, few in board.deserted(items):
        if start.winners[agent] and 0 < len(few) <= min(_POOL, items.size - 1) and changes(board, items, start, few):
            found.append(Route(agent, "leaves", few, len(few)))
    return sorted((route for route in found if route.needed), key=lambda route: route.needed)


def _needed(value: float, effect: Floats) -> float:
    """Return how many items take a margin below zero, to first order; where not even all do, more than there are."""
    gain = -np.cumsum(np.sort(effect[effect < 0]))
    if len(gain) and gain[-1] > value:
        return float(np.searchsorted(gain, value) + 1)
    return len(effect) * (1.0 + value / (gain[-1] if len(gain) else 1e-300))


def _followed(board: Board, items: Items, start: Standings, margin: Margin) -> Route:
    """Return the route of one change: items go by their effect, and the game is solved anew on the way."""
    order: Ints = np.zeros(0, np.int64)
    needed, most = 0, items.size - 1  # without all of them nobody wins
    for _ in range(_STEPS):
        ranked, effect = _ranked(board, items, margin, order)
        need = _needed(margin.value, effect)
        if needed or not len(ranked):
            break
        need = min(need, max(1.0, len(ranked) / 2)) if need > len(ranked) else need
        take = min(max(1, int(_BOLD * need)) if need > 3 else 1, most - len(order))
        if take < 1:
            break
        order = np.concatenate([order, ranked[:take]])
        now = board.without(items.gone(order))
        if (now.winners != start.winners).any():
            needed = _fewest_first(board, items, start, order)
            continue
        again = [m for m in board.margins(now) if (m.agent, m.change) == (margin.agent, margin.change)]
        if not again:
            break
        margin = again[0]
    if needed:
        order = _shortened(board, items, start, order[:needed], ranked)
        needed = len(order)
        rest = ranked[~np.isin(ranked, order)]
        order = np.concatenate([order, rest[: max(4, int((_FURTHER - 1) * needed))]])[:most]
    return Route(margin.agent, margin.change, order, needed)


def _ranked(board: Board, items: Items, margin: Margin, order: Ints) -> tuple[Ints, Floats]:
    """Return items that bring a margin down, the strongest first, and (items,) their effects."""
    effect = board.effects(margin, items.gone(order), items)
    effect[order] = 0.0
    strong = np.flatnonzero(effect < 0)
    return strong[np.argsort(effect[strong], kind="stable")], effect


def _fewest_first(board: Board, items: Items, start: Standings, order: Ints) -> int:
    """Return the least length at which the first items change the winner set, by bisection; all of them do."""
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        if changes(board, items, start, order[:middle]):
            high = middle
        else:
            low = middle
    return high


def _shortened(board: Board, items: Items, start: Standings, order: Ints, ranked: Ints) -> Ints:
    """Return items without those that are not needed; of few, the smallest set among the strongest items."""
    kept = order
    for one in order[::-1][:40] if len(order) > 1 else ():
        less = kept[kept != one]
        if len(less) and changes(board, items, start, less):
            kept = less
    pool = np.concatenate([kept, ranked[~np.isin(ranked, kept)]])[:_POOL]
    tried = _TRIED if items.size <= _SMALL else _TRIED_OF_MANY
    for size in range(1, len(kept) if len(kept) <= _FEW else 0):
        if comb(len(pool), size) > tried:
            break
        for chosen in combinations(pool, size):
            if changes(board, items, start, np.array(chosen)):
                return np.array(chosen)
    return kept


def changes(board: Board, items: Items, start: Standings, chosen: Ints) -> bool:
    """Whether the winner set is predicted to change without some items."""
    return bool((board.without(items.gone(chosen)).winners != start.winners).any())

"""Ordered partitions: what one voter said about one menu, in every form of the paper's Table modalities.

Each function takes a raw answer and returns a `Partition`, best block first. A zero verdict (two agents in one block)
keeps its reason, because "I find them equal", "both are bad" and "I was never asked" are different facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from nasheval.errors import InputError

__all__ = ["Partition", "Zero", "best_worst", "duel", "ranking", "scores", "top", "weak", "winner"]


class Zero(IntEnum):
    """Why two agents share a block."""

    DECIDED = 0  # they do not: only pair verdicts use this one
    TIE = 1  # declared equal
    BOTH_BAD = 2  # a duel in which both were refused
    CENSORED = 3  # their order was never asked
    LAST = 4  # ties are declared, except in the last block: its agents were left unranked


_REASONS = tuple(reason for reason in Zero if reason is not Zero.DECIDED)


@dataclass(frozen=True, slots=True)
class Partition:
    """An ordered partition of a menu (the paper's Y_m).

    Args:
        blocks: agents, best block first.
        zero: what it means that two agents share a block.
    """

    blocks: tuple[tuple[Hashable, ...], ...]
    zero: Zero = Zero.TIE

    def __post_init__(self) -> None:
        agents = self.menu
        if any(not block for block in self.blocks):
            raise InputError(
                f"{self._said()} holds an empty block; every block needs at least one agent: leave it out."
            )
        if len(agents) < 2:
            raise InputError(f"{self._said()} compares fewer than two agents; a menu needs two or more.")
        twice = [agent for agent, count in Counter(agents).items() if count > 1]
        if twice:
            raise InputError(f"{self._said()} names {twice[0]!r} more than once; an agent stands in exactly one block.")
        if self.zero not in _REASONS:
            raise InputError(
                f"{self._said()} has the zero code {self.zero!r}; accepted are TIE, BOTH_BAD, CENSORED, LAST."
            )
        sizes = [len(block) for block in self.blocks]
        if self.zero == Zero.CENSORED and len(sizes) > 2 and not (len(sizes) == 3 and sizes[0] == sizes[2] == 1):
            raise InputError(
                f"{self._said()} has the zero code CENSORED; accepted with it are chosen > rest (`top`) and best > "
                "middle > worst (`best_worst`). Where only the last block was left unranked, use LAST."
            )

    @property
    def menu(self) -> tuple[Hashable, ...]:
        """The agents that were compared."""
        return tuple(agent for block in self.blocks for agent in block)

    def _said(self) -> str:
        said = " > ".join("{" + ", ".join(map(str, block)) + "}" for block in self.blocks)
        return f"The partition {said or 'without blocks'}"


def duel(first: Hashable, second: Hashable, winner: Hashable) -> Partition:
    """Return a pairwise duel; `winner` is one of the two agents, "tie" or "both_bad"."""
    if winner in (first, second):
        loser = second if winner == first else first
        return Partition(((winner,), (loser,)))
    if winner not in ("tie", "both_bad"):
        raise InputError(
            f"The winner of a duel between {first!r} and {second!r} is {winner!r}; "
            f"accepted are {first!r}, {second!r}, 'tie' and 'both_bad'."
        )
    return Partition(((first, second),), Zero.TIE if winner == "tie" else Zero.BOTH_BAD)


def ranking(agents: Sequence[Hashable]) -> Partition:
    """Return a full ranking without ties, best first."""
    return Partition(tuple((agent,) for agent in agents))


def weak(blocks: Iterable[Iterable[Hashable]]) -> Partition:
    """Return a weak ranking: blocks of declared equals, best block first."""
    blocks = tuple(blocks)
    if any(isinstance(block, str) for block in blocks):
        raise InputError("A block is a sequence of agents: write (('a',), ('b',)), not ('a', 'b').")
    return Partition(tuple(tuple(block) for block in blocks))


def top(chosen: Iterable[Hashable], menu: Iterable[Hashable]) -> Partition:
    """Return a top-r choice: the order inside the chosen ones and inside the rest was never asked."""
    chosen, menu = tuple(chosen), tuple(menu)
    _require_inside(chosen, menu)
    rest = tuple(agent for agent in menu if agent not in chosen)
    if not rest:
        raise InputError(f"All of the menu {_listed(menu)} was chosen, which compares nothing; leave some agent out.")
    return Partition((chosen, rest), Zero.CENSORED if len(menu) > 2 else Zero.TIE)  # the best of two is a plain duel


def winner(best: Hashable, menu: Iterable[Hashable]) -> Partition:
    """Return a winner-of-subset answer: only the best of the menu is known."""
    return top((best,), menu)


def best_worst(best: Hashable, worst: Hashable, menu: Iterable[Hashable]) -> Partition:
    """Return a best-worst answer: the order inside the middle was never asked."""
    menu = tuple(menu)
    _require_inside((best, worst), menu)
    middle = tuple(agent for agent in menu if agent not in (best, worst))
    blocks = ((best,), middle, (worst,)) if middle else ((best,), (worst,))
    return Partition(blocks, Zero.CENSORED if len(middle) > 1 else Zero.TIE)


def scores(values: Mapping[Hashable, float]) -> Partition:
    """Return the order of cardinal scores, one for each agent, higher is better; equal scores share a block."""
    blocks: dict[float, list[Hashable]] = {}
    for agent, value in values.items():
        blocks.setdefault(_score(agent, value), []).append(agent)
    return weak(blocks[score] for score in sorted(blocks, reverse=True))


def _score(agent: Hashable, value: float) -> float:
    """Return the score as a plain float."""
    try:
        score = float(value)
    except (TypeError, ValueError, OverflowError):
        score = float("nan")
    if score != score:
        raise InputError(f"The score of {agent!r} is not a number; leave the agent out or give a finite score.")
    return score


def _require_inside(chosen: tuple[Hashable, ...], menu: tuple[Hashable, ...]) -> None:
    if twice := [agent for agent, count in Counter(menu).items() if count > 1]:
        raise InputError(f"The menu {_listed(menu)} names {twice[0]!r} more than once; name each agent once.")
    if unknown := [agent for agent in chosen if agent not in menu]:
        raise InputError(f"{unknown[0]!r} is not in the menu {_listed(menu)}; choose among those, or add it there.")


def _listed(menu: tuple[Hashable, ...]) -> str:
    return "{" + ", ".join(map(str, menu)) + "}"

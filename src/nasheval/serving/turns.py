"""Which agent is asked next: drawn from the lottery, and after failures from the lottery over the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from nasheval.policy.choosing import WINNER

Lottery = Mapping[str, float]
Solve = Callable[[Sequence[str]], Awaitable[Lottery]]
Draw = Callable[[], float]


@dataclass(frozen=True)
class Turn:
    """An agent to ask.

    Args:
        agent: its name.
        propensity: with which it is asked, given who failed before.
    """

    agent: str
    propensity: float


class Turns:
    """Draws agents one after another, without those that failed.

    The lottery over the rest is the same lottery, renormalised: drawing from it after a failure is the same as drawing
    again and again until an agent answers, so with S failed, agent k serves with probability pi_k / (1 - pi_S). Where
    next to nothing is left of it, because all its winners failed, the game among the rest is solved anew.

    Args:
        agents: those that may be asked.
        solve: from agents to their lottery.
        draw: returns a number in [0, 1); None: always the most probable agent is taken.
        first: whose turn comes first without a draw, such as the agent of a session.
    """

    def __init__(self, agents: Sequence[str], solve: Solve, draw: Draw | None, first: Turn | None = None) -> None:
        self._rest, self._solve, self._draw, self._first = list(agents), solve, draw, first
        self._lottery: Lottery = {}

    async def next(self) -> Turn | None:
        """Return the next agent to ask; None where nobody is left."""
        if (first := self._first) is not None and first.agent in self._rest:
            self._first = None
            self._rest.remove(first.agent)
            return first
        if not self._rest:
            return None
        if self._mass() <= WINNER:
            self._lottery = await self._solve(self._rest)
        shares = {agent: self._lottery.get(agent, 0.0) for agent in self._rest}
        total = sum(shares.values())
        agent = max(shares, key=shares.__getitem__) if self._draw is None else _drawn(shares, self._draw())
        self._rest.remove(agent)
        return Turn(agent, 1.0 if self._draw is None else shares[agent] / total)

    def _mass(self) -> float:
        return sum(self._lottery.get(agent, 0.0) for agent in self._rest)


def _drawn(shares: Lottery, share: float) -> str:
    """Return the agent at a share of the whole; one without a share is never drawn."""
    played = [(agent, weight) for agent, weight in shares.items() if weight > 0]
    at = share * sum(weight for _, weight in played)
    for agent, weight in played:
        at -= weight
        if at < 0:
            return agent
    return played[-1][0]

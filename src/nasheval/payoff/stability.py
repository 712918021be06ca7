"""The equilibrium of a group's mean payoffs, and how far it moves when these move within their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.payoff.drawing import listing
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, eq=False)
class Stability:
    """The equilibrium of a group's mean payoffs, and how far it moves when these move within their uncertainty.

    The range is that of the bootstrap draws, and no confidence interval: where an agent enters or leaves the support,
    the lottery is no smooth function of the payoffs and the bootstrap is not valid.

    Args:
        agents: names of the K agents.
        lottery: (K,) the equilibrium.
        lower, upper: (K,) range of each agent's probability over the draws, at `confidence`, and the equilibrium's own.
        frequency: (K,) share of draws in which the agent is in the winner set.
        winners: (K,) whether it is in the winner set of the equilibrium.
        confidence: share of draws inside the range.
    """

    agents: tuple[str, ...]
    lottery: Floats
    lower: Floats
    upper: Floats
    frequency: Floats
    winners: Bools
    confidence: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the agents, those most often among the winners first."""
        title = f"Equilibrium, with the range of {self.confidence:.0%} of bootstrap draws"
        columns = (self.lottery, self.lower, self.upper)
        order = np.lexsort((-self.lottery, -self.frequency))
        rows = ((self.agents[a], *(f"{c[a]:.3f}" for c in columns), f"{self.frequency[a]:.1%}") for a in order)
        yield listing(title, ("agent",), ("lottery", "lower", "upper", "among winners"), rows, len(order))

    def __str__(self) -> str:
        return plain(self)

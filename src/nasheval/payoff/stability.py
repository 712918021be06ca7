"""How far a group's equilibrium moves when its mean payoffs move within their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Bools, Floats

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from nasheval.game.regularizers import Regularizer


@dataclass(frozen=True, eq=False)
class Stability:
    """The equilibrium of a group's mean payoffs, and its stability range.

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        columns = ("lottery", "lower", "upper", "frequency", "winners")
        plain = {name: getattr(self, name).tolist() for name in columns}
        return {"agents": list(self.agents), **plain, "confidence": self.confidence}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the agents, those most often among the winners first."""
        from nasheval.payoff.drawing import agent_table

        title = f"Equilibrium, with the range of {self.confidence:.0%} of bootstrap draws"
        columns = {"lottery": self.lottery, "lower": self.lower, "upper": self.upper}
        yield agent_table(title, self.agents, columns, self.frequency)

    def __str__(self) -> str:
        from nasheval.payoff.drawing import plain

        return plain(self)


def measure_stability(
    agents: tuple[str, ...],
    estimate: Floats,
    games: Floats,
    present: Bools,
    regularizer: Regularizer | None,
    threshold: float,
    confidence: float,
) -> Stability:
    """Solve the estimated game, (K, K), and the drawn ones, (draws, K, K), among the agents that are present, (K,)."""
    from nasheval.game.regularizers import L2
    from nasheval.game.solver import solve

    omega = regularizer or L2(1e-3)
    lottery = solve(np.clip(estimate, -1, 1), regularizer=omega, available=present).strategy
    drawn = solve(games, regularizer=omega, available=present).strategy
    lower, upper = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    lower, upper = np.minimum(lower, lottery), np.maximum(upper, lottery)
    frequency = (drawn > threshold).mean(axis=0)
    return Stability(agents, lottery, lower, upper, frequency, lottery > threshold, confidence)

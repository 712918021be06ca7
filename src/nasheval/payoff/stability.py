"""The equilibrium of a group's mean payoffs, and how far it moves when these move within their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.payoff.drawing import listing
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from nasheval.game.regularizers import Regularizer

_FEW = 48  # agents; games of no more are solved as they are
_MANY = 1 / 8  # share of the agents in a lottery from which on growing from a few takes longer
_TOLERANCE = 1e-10  # what an agent left out may win over those left in: rounding


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


def lotteries(games: Floats, regularizer: Regularizer, present: Bools, start: Bools | None = None) -> Floats:
    """Return (n, K) the equilibria of games (n, K, K) among the agents present, (K,).

    Under L2 few agents are ever in a lottery. So games of many agents are solved among a few, who are joined by the one
    that would win most against each lottery, until nobody left out would: those are the equilibria of the whole games.
    The first game, solved as it is, tells whether few are enough; where votes are few, half of all agents may be in.

    Args:
        start: (K,) the agents to begin with; None: those of the best mean payoffs.
    """
    from nasheval.game.regularizers import L2
    from nasheval.game.solver import solve

    agents = np.flatnonzero(present)
    if len(agents) <= _FEW or not isinstance(regularizer, L2) or not regularizer.rho:  # else there may be several
        return solve(games, regularizer=regularizer, available=present).strategy
    first = solve(games[:1], regularizer=regularizer, available=present).strategy
    if len(games) == 1:
        return first
    if (first > 0).sum() > len(agents) * _MANY:
        return np.concatenate([first, solve(games[1:], regularizer=regularizer, available=present).strategy])
    chosen, open_, found = _first_few(games, agents, start), np.arange(len(games)), np.zeros(games.shape[:2])
    while len(open_):
        few = np.flatnonzero(chosen)
        if len(few) > len(agents) // 2:  # together they need too many
            halves = np.array_split(open_, 2)
            found[open_] = np.concatenate([lotteries(games[half], regularizer, present, start) for half in halves])
            break
        strategy = solve(games[open_[:, None, None], few[:, None], few], regularizer=regularizer).strategy
        found[open_] = 0.0
        found[open_[:, None], few] = strategy
        payoff = np.einsum("njk,nk->nj", games[open_][:, :, few], strategy)
        level = (payoff[:, few] - regularizer.gradient(strategy)).max(axis=1)
        payoff[:, ~present | chosen] = -np.inf
        wins = payoff.max(axis=1) > level + _TOLERANCE
        chosen[payoff[wins].argmax(axis=1)] = True
        open_ = open_[wins]
    return found


def _first_few(games: Floats, agents: Ints, start: Bools | None) -> Bools:
    """Return (K,) the agents to begin with: those given, and the dozen of the best mean payoffs."""
    chosen = np.zeros(games.shape[1], bool) if start is None else start.copy()
    mean = games.mean(axis=(0, 2))
    chosen[agents[np.argsort(-mean[agents], kind="stable")[: _FEW // 4]]] = True
    return chosen

"""How far a game is from another winner set, agent by agent, and which payoffs bring it closer.

The equilibrium pi of a game A with winners W has D pi + 1 price = A pi on W, with D the curvature of the regulariser.
An agent b outside comes in once its payoff against pi exceeds the price; an agent a inside goes once pi_a is nothing.
Both margins are smooth in A while W stays the same, and their slopes follow from one bordered linear system.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.game.regularizers import Entropy, Regularizer
from nasheval.game.solver import lotteries
from nasheval.policy.choosing import WINNER


@dataclass(frozen=True, eq=False)
class Game:
    """A group's game and who wins it.

    Args:
        payoff: (K, K) mean payoffs, in [-1, 1].
        present: (K,) the candidates.
        lottery: (K,) the equilibrium among them.
    """

    payoff: Floats
    present: Bools
    lottery: Floats

    @property
    def winners(self) -> Bools:
        """(K,) who is in the winner set."""
        return self.lottery > WINNER


def game_of(estimate: Floats, present: Bools, omega: Regularizer) -> Game:
    """Return the game of mean payoffs (K, K) among the agents that are present."""
    payoff = np.clip(estimate, -1.0, 1.0)
    if not present.any():
        return Game(payoff, present, np.zeros(len(payoff)))
    return Game(payoff, present, lotteries(payoff[None], omega, present)[0])


@dataclass(frozen=True, eq=False)
class Margin:
    """How far one agent is from entering or leaving the winner set.

    Args:
        agent: its number.
        change: "enters" or "leaves".
        value: above 0 as long as it has not.
        slope: (n_pairs,) of the value in the payoffs of pairs j < k; on a ladder, (K,) in scores.
    """

    agent: int
    change: Literal["enters", "leaves"]
    value: float
    slope: Floats


def margins(game: Game, omega: Regularizer) -> list[Margin]:
    """Return the margins of all candidates that could change the winner set alone."""
    base = omega
    while (inner := getattr(base, "base", None)) is not None:
        base = inner
    pi, A = game.lottery, game.payoff
    inside = np.flatnonzero(game.present & (pi > 0)) if isinstance(base, Entropy) else np.flatnonzero(game.winners)
    if not len(inside):
        return []
    bend = base.tau / pi[inside] if isinstance(base, Entropy) else np.full(len(inside), base.kappa)
    inverse = _inverse(A[np.ix_(inside, inside)], bend)
    price = float(np.mean(A[inside] @ pi - bend * pi[inside]))
    low = game.winners
    found = [_leaving(a, i, game, inside, inverse) for i, a in enumerate(inside) if low[a] and low.sum() > 1]
    if isinstance(base, Entropy):
        rising = [_rising(b, i, game, inside, inverse) for i, b in enumerate(inside) if not low[b]]
        return found + rising
    outside = np.flatnonzero(game.present & ~low)
    return found + [_entering(b, game, inside, inverse, price, base.kappa) for b in outside]


def _inverse(A: Floats, bend: Floats) -> Floats:
    """Return the inverse of the bordered system, (k + 1, k + 1)."""
    k = len(A)
    system = np.zeros((k + 1, k + 1))
    system[:k, :k] = A - np.diag(bend)
    system[:k, k], system[k, :k] = -1.0, 1.0
    return np.asarray(np.linalg.pinv(system) if np.linalg.cond(system) > 1e12 else np.linalg.inv(system))


def _leaving(agent: np.integer[Any], place: int, game: Game, inside: Ints, inverse: Floats) -> Margin:
    slope = _slope(inside, -inverse[place, :-1], game)
    return Margin(int(agent), "leaves", float(game.lottery[agent] - WINNER), slope)


def _rising(agent: np.integer[Any], place: int, game: Game, inside: Ints, inverse: Floats) -> Margin:
    slope = _slope(inside, inverse[place, :-1], game)
    return Margin(int(agent), "enters", float(WINNER - game.lottery[agent]), slope)


def _entering(agent: np.integer[Any], game: Game, inside: Ints, inverse: Floats, price: float, kappa: float) -> Margin:
    row = game.payoff[agent, inside]
    weight = -(np.append(-row, 1.0) @ inverse)[:-1]
    slope = _slope(np.append(inside, agent), np.append(weight, -1.0), game)
    return Margin(int(agent), "enters", price - float(row @ game.lottery[inside]) + kappa * WINNER, slope)


def _slope(rows: Ints, weight: Floats, game: Game) -> Floats:
    """Return (n_pairs,) the slope of weight . (dA pi)[rows] in the payoffs of pairs."""
    K = len(game.lottery)
    matrix = np.zeros((K, K))
    matrix[rows] = np.outer(weight, np.where(game.winners | (game.lottery > 0), game.lottery, 0.0))
    j, k = np.triu_indices(K, 1)
    return np.asarray(matrix[j, k] - matrix[k, j])

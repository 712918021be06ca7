"""A(x) where voters say every pair: a whole game in one compiled call, or some agents against all.

Voters say of two agents what they say, whoever else there is; so the payoffs of one agent cost one in K of those of
all. Everything here has the bits that `PayoffModel.predict` gives.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.engine import one_thread
from nasheval.feedback.links import BRIDGED
from nasheval.game.checks import games_of
from nasheval.game.regularizers import L2
from nasheval.game.solver import lotteries
from nasheval.nuisance.learners import Features
from nasheval.nuisance.voters_duels import Electorate, Pairs
from nasheval.payoff.bridging import VoterBridge
from nasheval.payoff.surfaces import SharedSurface

if TYPE_CHECKING:
    from nasheval.nuisance.voters import VoterModels
    from nasheval.nuisance.voters_probes import Block, Probes
    from nasheval.payoff.second_stage import PayoffModel

_CELLS = 1 << 21  # utilities held at a time
_CONTEXTS = 64, 1024  # at a time, at least and at most
_WHOLE = 1 << 22  # payoffs of games that are made as a whole, held at a time
_NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class DuelGames:
    """A payoff model whose pairs are all duels of voters, with or without a correction.

    Args:
        payoff: the model.
        voters: those who say its pairs.
        block: how they are asked.
        alive: (K, K) the pairs that have a payoff; the others are 0.
    """

    payoff: PayoffModel
    voters: VoterModels
    block: Block
    alive: Bools

    @staticmethod
    def of(payoff: PayoffModel) -> DuelGames | None:
        """Return a payoff model as this; None where its pairs are not all duels, or are changed together."""
        from nasheval.nuisance.voters import VoterModels

        plugin, bridge = payoff.plugin, payoff.bridge
        if plugin is None or not isinstance(voters := plugin.outcome_models, VoterModels):
            return None
        if payoff.style is not None or payoff.added is not None or plugin.aggregation.single is None:
            return None
        blocks = [_duels(voters, voters.probes)]
        if isinstance(bridge, VoterBridge) and bridge.models is voters:
            blocks.append(_duels(voters, bridge.probes))
        elif bridge is not None:
            return None
        [first, *others] = blocks
        if first is None or any(block is None or block.question != first.question for block in others):
            return None
        if not np.array_equal(voters.probes.menus.columns.pair, plugin.aggregation.pair):
            return None
        alive = payoff.covered if bridge is None else payoff.covered | (payoff.status == BRIDGED)
        square = np.zeros((payoff.n_agents, payoff.n_agents), bool)
        square[np.triu_indices(payoff.n_agents, 1)] = alive
        return DuelGames(payoff, voters, first, square | square.T)

    def lottery(self, X: Features, rho: float) -> Floats | None:
        """Return the lottery (1, K) of the L2 game at one context; None where it is not certified."""
        from nasheval.payoff.duel_game import duel_lottery

        one = self.at(X)
        correction = _NONE if self.payoff.surface is None else self.payoff.correction(X)[0]
        voters = one.voters
        x, certified = duel_lottery(voters.s, one.nu, one.bad, voters.weight, self.alive, correction, float(rho))
        return x if certified else None

    @cached_property
    def pairs(self) -> Pairs:
        """The pairs that have a payoff, numbered by `pair_index`."""
        j, k = np.triu_indices(len(self.alive), 1)
        column = np.flatnonzero(self.alive[j, k])
        return Pairs(column, j[column], k[column])

    # -- row by row ---------------------------------------------------------------------------------------------------

    @property
    def have_rows(self) -> bool:
        """Whether single rows can be asked for: there is no correction, or a shared one that will not grow any more."""
        surface = self.payoff.surface
        return surface is None or (isinstance(surface, SharedSurface) and surface.is_grown)

    @property
    def step(self) -> int:
        """How many contexts to ask about at a time: a power of two."""
        cells = self.voters.shape.outputs * len(self.voters.n_voters) * self.voters.parameters["pooled"].shape[1]
        least, most = _CONTEXTS
        return max(least, min(most, 1 << (max(1, _CELLS // cells).bit_length() - 1)))

    def lotteries(self, X: Features, omega: L2, up: Bools) -> Floats:
        """Return (n, K) lotteries of games among the agents up, (K,); those that many agents play are made as a whole.

        Args:
            omega: its rho is above 0.
        """
        from nasheval.game.by_rows import lotteries_by_rows

        games, agents, answers = self.at(X), np.flatnonzero(up), np.zeros((len(X), len(up)))
        ask = games if up.all() else lambda contexts, named: games(contexts, agents[named])[:, up]
        first = np.searchsorted(agents, games.voters.favourites(up))
        answers[:, up], certified = lotteries_by_rows(ask, first, len(agents), float(omega.rho))
        left, step = np.flatnonzero(~certified), max(1, _WHOLE // len(up) ** 2)
        for start in range(0, len(left), step):
            rows = left[start : start + step]
            answers[rows] = lotteries(games.whole(rows), omega, up)
        return answers

    def at(self, X: Features) -> GameRows:
        """Return the games at n contexts."""
        folds = range(len(self.voters.n_voters))
        with one_thread() if len(X) > 1 else nullcontext():  # one context is not shared out
            electorate = self.voters.electorate(X, folds)
        return GameRows(self, X, electorate, *self.voters.tie_weights(electorate, folds, self.block))


@dataclass(frozen=True, eq=False)
class GameRows:
    """The games at n contexts, row by row.

    Args:
        games: of which model.
        X: the contexts.
        voters: the voters there.
        nu, bad: their weights of ties and of both-bad answers.
    """

    games: DuelGames
    X: Features
    voters: Electorate
    nu: Floats
    bad: Floats

    def __call__(self, contexts: Ints, agents: Ints) -> Floats:
        """Return (m, K) the payoffs of agents[i] against every agent, at contexts[i]."""
        payoff = self.games.payoff
        rows = self.voters.of_agents(contexts, agents, self.nu, self.bad)
        rows /= len(self.voters.s)
        np.minimum(np.maximum(rows, -1.0, out=rows), 1.0, out=rows)
        if isinstance(payoff.surface, SharedSurface):
            row, other, pair, values = payoff.surface.of_agents(self.X, contexts, agents)
            values *= payoff.strengths[pair]
            values += rows[row, other]
            rows[row, other] = np.minimum(np.maximum(values, -1.0, out=values), 1.0, out=values)
        np.copyto(rows, 0.0, where=~self.games.alive[agents])
        return rows

    def whole(self, contexts: Ints) -> Floats:
        """Return (m, K, K) the games at some of the contexts, with the bits of their rows."""
        payoff, pairs, voters = self.games.payoff, self.games.pairs, self.voters
        s, middle, lean, nu, bad = (
            values[:, :, contexts] for values in (voters.s, voters.middle, voters.lean, self.nu, self.bad)
        )
        payoffs = np.zeros((len(contexts), len(payoff.status)))
        total = Electorate(s, middle, voters.weight, lean, voters.tie).duels(pairs, nu, bad)
        total /= len(voters.s)
        payoffs[:, pairs.column] = np.minimum(np.maximum(total, -1.0, out=total), 1.0, out=total)
        if payoff.surface is not None:
            payoffs[:, pairs.column] += payoff.correction(self.X[contexts])[:, pairs.column]
            np.minimum(np.maximum(payoffs, -1.0, out=payoffs), 1.0, out=payoffs)
        return games_of(payoffs, payoff.n_agents)


def _duels(voters: VoterModels, probes: Probes) -> Block | None:
    """Return the one block of duels that makes all columns; None where there are others."""
    return probes.blocks[0] if voters.are_duels(probes) else None

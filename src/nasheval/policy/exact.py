"""`ExactPolicy`: solve the estimated game at each context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.table import as_table
from nasheval.game.checks import games_of
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.single import PIVOT_UP_TO, UNIT, solvers_are_loaded
from nasheval.game.solver import lotteries, lottery
from nasheval.nuisance.learners import Effort, Features
from nasheval.payoff.on_card import card_rows, games_on_card
from nasheval.payoff.second_stage import PayoffModel
from nasheval.policy.base import available, chunk_of
from nasheval.policy.terms import AnyCosts, Terms

if TYPE_CHECKING:
    from nasheval.payoff.duels import DuelGames
    from nasheval.payoff.stage1 import Stage1


@dataclass(frozen=True, eq=False)
class ExactPolicy:
    """The equilibrium of the estimated game at each context (Eq. contextual-equilibrium), certified by its gap.

    Args:
        regularizer: L2(rho) or Entropy(tau).
        costs: {agent: cost}, or {agent: context column that holds it}, in your units.
        cost_weight: weight of costs scaled to [0, 1] over all agents (Eq. routerbench-cost-regularizer).
        budget: the most a lottery may cost in expectation at a context, in your units; or a SoftBudget.
    """

    regularizer: Regularizer = L2()  # noqa: RUF009 (frozen)
    costs: AnyCosts | None = None
    cost_weight: float = 0.0
    budget: float | SoftBudget | None = None

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> ExactEquilibria:
        """Return the policy; nothing is learned beyond Stage 1, but costs and budget are checked on its contexts."""
        terms = Terms(self.regularizer, self.costs, self.cost_weight, self.budget)
        terms.omega(terms.costs_at(stage1.agents, stage1.log.contexts), stage1.log.n_contexts, len(stage1.agents))
        device = "cpu" if effort is None else effort.device
        return ExactEquilibria(stage1.agents, stage1.encoder, stage1.payoff, terms, device)


@dataclass(frozen=True, eq=False)
class ExactEquilibria:
    """Solves the estimated game at each context that it is asked about.

    Args:
        agents: names of the K agents.
        encoder: contexts -> features.
        payoff: A(x).
        terms: regulariser, costs and budget.
        device: "cpu", or else many contexts are answered by a GPU, where there is one.
    """

    agents: tuple[str, ...]
    encoder: ContextEncoder
    payoff: PayoffModel
    terms: Terms
    device: str = "cpu"

    @cached_property
    def duels(self) -> DuelGames | None:
        """The same games, faster where voters say every pair; None elsewhere."""
        from nasheval.payoff.duels import DuelGames

        return DuelGames.of(self.payoff)

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return (n, K) lotteries; `agents` are the available ones, and the game is solved among them."""
        up, table = available(self.agents, agents), as_table(contexts)
        X = Features.of(self.encoder, contexts)
        return self.lotteries(X, self.terms.omega(self.terms.costs_at(self.agents, table), len(X), len(up)), up)

    def lotteries(self, X: Features, omega: Regularizer, up: Bools) -> Floats:
        """Return (n, K) lotteries at encoded contexts.

        Args:
            omega: regulariser of these n games, with costs and budget.
            up: (K,) the available agents.
        """
        if len(X) == 1 and isinstance(omega, L2) and up.all() and len(up) <= PIVOT_UP_TO:
            return self._one(X, omega, up)
        duels, first = self._by_rows(omega, up), 0
        answers, step = np.empty((len(X), len(up))), chunk_of(len(up)) if duels is None else duels.step
        for part in card_rows(self.device, len(X), len(up)):
            own, first = omega.at(np.arange(part.start, part.stop)), part.stop
            answers[part] = self._on_card(X[part], own, up)
        for start in range(first, len(X), step):
            rows = np.arange(start, min(start + step, len(X)))
            chunk = X if len(rows) == len(X) else X[rows]
            if duels is None or not isinstance(omega, L2):
                answers[rows] = self.whole(chunk, omega.at(rows), up)
            else:
                answers[rows] = duels.lotteries(chunk, omega, up)
        return answers

    def _one(self, X: Features, omega: L2, up: Bools) -> Floats:
        """Return the lottery (1, K) at one context, in as few calls as can be."""
        duels = self.duels if solvers_are_loaded() else None
        if duels is not None and (answer := duels.lottery(X, omega.rho)) is not None:
            return answer
        pairs = self.payoff.predict_pairs(X)
        answer = lottery(pairs, len(up), omega.rho) if duels is None else None
        return lotteries(games_of(pairs, len(up)), omega, up) if answer is None else answer

    def _by_rows(self, omega: Regularizer, up: Bools) -> DuelGames | None:
        """Return the games row by row, where lotteries of this kind need no more and agents are many."""
        if not isinstance(omega, L2) or not 0 < omega.rho <= UNIT[1] or up.sum() <= PIVOT_UP_TO:
            return None
        duels = self.duels
        return duels if duels is not None and duels.have_rows else None

    def whole(self, X: Features, omega: Regularizer, up: Bools) -> Floats:
        """Return (n, K) lotteries of games whose pairs are all worked out."""
        return lotteries(self.payoff.predict(X), omega, up)

    def _on_card(self, X: Features, omega: Regularizer, up: Bools) -> Floats:
        from nasheval.game import torch_solver

        return torch_solver.lotteries(games_on_card(self.payoff, X), omega, up)

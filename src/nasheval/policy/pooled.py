"""The maximal lottery of verdicts pooled over all contexts (appendix "Baselines")."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nasheval.arrays import Bools, Floats, readonly
from nasheval.feedback.base import Log
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Regularizer
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.rules import Costs, Everywhere, costs_in_order


def pooled_margins(log: Log) -> Floats:
    """Return the mean verdict of each pair over a whole log, (K, K) (Eq. pooled-payoff); a pair never met is a tie."""
    return readonly(np.nan_to_num(log.pair_counts.margin, nan=0.0) + 0.0)  # no negative zeros


@dataclass(frozen=True, eq=False)
class PooledLottery(Everywhere):
    """The equilibrium of one matrix, played at every context; solved again among the agents that are up.

    Args:
        agents: names of the K agents.
        matrix: (K, K) pooled margins.
        regularizer, cost_weight, budget: as for `nasheval.game.solve`.
        costs: (K,), or None.
    """

    agents: tuple[str, ...]
    matrix: Floats
    regularizer: Regularizer
    costs: Floats | None = None
    cost_weight: float = 0.0
    budget: float | SoftBudget | None = None

    def among(self, up: Bools) -> Floats:
        """Return the equilibrium (k,) of the game among the k agents that are up, (K,)."""
        from nasheval.game.solver import solve

        pi: Floats = solve(
            self.matrix,
            regularizer=self.regularizer,
            costs=self.costs,
            cost_weight=self.cost_weight,
            budget=self.budget,
            available=up,
        ).strategy
        return pi[up]


@dataclass(frozen=True, eq=False)
class MaximalLottery:
    """The equilibrium of the verdicts pooled over all contexts (Eq. pooled-payoff); pairs that never met are ties.

    Args:
        regularizer: the default is NashEval's, so that a comparison differs by the context alone. L2(rho=0) gives the
            maximal lottery itself: of several, the one of least norm.
        costs: {agent: cost}, or costs in the order of the agents.
        cost_weight: beta of Eq. routerbench-cost-regularizer, on costs scaled to [0, 1] over all agents.
        budget: the most the lottery may cost in expectation, or a SoftBudget.
    """

    regularizer: Regularizer = field(default_factory=L2)
    costs: Costs | None = None
    cost_weight: float = 0.0
    budget: float | SoftBudget | None = None

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> PooledLottery:
        """Return the policy; of Stage 1 only the log is used."""
        costs = None if self.costs is None else costs_in_order(self.costs, stage1.agents)
        matrix = pooled_margins(stage1.log)
        made = PooledLottery(stage1.agents, matrix, self.regularizer, costs, self.cost_weight, self.budget)
        made.lottery()  # a budget that buys nobody speaks up now
        return made

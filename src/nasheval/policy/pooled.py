"""Small baselines that play the same lottery at every context (appendix "Baselines")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nasheval.arrays import Floats, readonly
from nasheval.feedback.log import Feedback
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.scores import best_of
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import Constant
from nasheval.policy.terms import Costs, costs_in_order


@dataclass(frozen=True)
class Uniform:
    """The uniform lottery over the available agents."""

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Constant:
        """Return the policy."""
        return Constant(stage1.agents, lambda up: np.full(int(up.sum()), 1 / int(up.sum())))


@dataclass(frozen=True)
class BestSingle:
    """The one agent with the largest debiased payoff, averaged over the contexts of the log and the other agents.

    The average over contexts is the mean of the pseudo-outcomes (Eq. payoff-pseudo-outcome), so that a pair counts
    alike wherever it was asked often and wherever it was asked rarely; a pair that no menu holds counts as a tie. The
    other agents are those available. Equal ones: by the order of the agents.
    """

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Constant:
        """Return the policy."""
        payoff = mean_payoff(stage1)
        return Constant(
            stage1.agents, lambda up: best_of(payoff[np.ix_(up, up)].mean(axis=1)[None])[0].astype(np.float64)
        )


def mean_payoff(stage1: Stage1) -> Floats:
    """Return (K, K) the mean pseudo-outcome of each pair over the contexts of the log."""
    total, count = np.zeros(stage1.pseudo.n_pairs), 0
    for contexts, gamma in stage1.pseudo.chunks():
        total, count = total + gamma.sum(axis=0), count + len(contexts)
    K = len(stage1.agents)
    mean, (j, k) = np.zeros((K, K)), np.triu_indices(K, 1)
    mean[j, k] = total / max(count, 1)
    return mean - mean.T


# -- the maximal lottery ----------------------------------------------------------------------------------------------


def pooled_margins(log: Feedback) -> Floats:
    """Return the mean verdict of each pair over a whole log, (K, K) (Eq. pooled-payoff); a pair never met is a tie."""
    return readonly(np.nan_to_num(log.pair_counts.margin, nan=0.0) + 0.0)  # no negative zeros


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

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Constant:
        """Return the policy; of Stage 1 only the log is used."""
        from nasheval.game.solver import solve

        costs = None if self.costs is None else costs_in_order(self.costs, stage1.agents)
        terms: dict[str, Any] = {"regularizer": self.regularizer, "costs": costs}
        terms |= {"cost_weight": self.cost_weight, "budget": self.budget}
        margins = pooled_margins(stage1.log)
        policy = Constant(stage1.agents, lambda up: solve(margins, available=up, **terms).strategy[up])
        policy.lottery()  # a budget that buys nobody speaks up now
        return policy

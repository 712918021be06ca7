"""Bradley-Terry under a budget (BT-cost): the best expected win rate that the money of a context can buy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.errors import InputError
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.bradley_terry import RIDGE, bt_scores, check_ridge
from nasheval.policy.rules import Contextual, Costs, PayoffName, check_payoff, costs_in_order
from nasheval.policy.scores import best_of

_CELLS = 1 << 22  # numbers held for one chunk of contexts


@dataclass(frozen=True, eq=False)
class BudgetedBT:
    """The lottery of largest fitted win rate against a uniform opponent, within the budget (Eq. routerbench-bt-cost).

    With one constraint beside the simplex a solution mixes at most two agents, one within the budget and one beyond, so
    the linear program of every context is solved by trying all of those. Equal ones: a single agent before a mixture,
    then by the order of the agents.

    Args:
        costs: {agent: cost}, or costs in the order of the agents, in your units.
        budget: C, the most a lottery may cost in expectation at a context, in the same units.
        payoff: which estimate of A(x) the scores are fitted to: "plug-in" or "debiased".
        ridge: kappa_BT of Eq. syn-bt-projection.
    """

    costs: Costs
    budget: float
    payoff: PayoffName = "plug-in"
    ridge: float = RIDGE

    def __post_init__(self) -> None:
        check_payoff(self.payoff)
        check_ridge(self.ridge)

    def fit(self, stage1: Stage1) -> Contextual:
        """Return the policy."""
        costs = costs_in_order(self.costs, stage1.agents)
        affordable(costs, self.budget)  # speak up now rather than at the first context

        def choose(B: Floats, up: Bools) -> Floats:
            s = bt_scores(B, ridge=self.ridge)
            rate = (1 + np.tanh((s[:, :, None] - s[:, None, :]) / 2)).mean(axis=2) / 2
            return spend_best(rate, costs[up], self.budget)

        return Contextual.of(stage1, self.payoff, choose)


def spend_best(value: Floats, costs: Floats, budget: float) -> Floats:
    """Return the lotteries (n, K) that maximise value . pi subject to costs . pi <= budget.

    Args:
        value: (n, K).
        costs: (K,).
    """
    options = affordable(costs, budget)
    found, step = np.empty(value.shape), max(1, _CELLS // len(options))
    for start in range(0, len(value), step):
        rows = slice(start, start + step)
        found[rows] = options[best_of(value[rows] @ options.T).argmax(axis=1)]
    return found


def affordable(costs: Floats, budget: float) -> Floats:
    """Return the vertices (m, K) of the lotteries with costs . pi <= budget: single agents first, then mixtures."""
    if not costs.min() <= budget < np.inf:
        raise InputError(
            f"The budget is {budget!r} and the cheapest agent costs {costs.min():.9g}: no lottery costs as little. "
            "Give a budget that buys at least one of the agents that are up."
        )
    cheap, dear = np.flatnonzero(costs <= budget), np.flatnonzero(costs > budget)
    j, k = (side.ravel() for side in np.meshgrid(cheap, dear, indexing="ij"))
    share = (budget - costs[j]) / (costs[k] - costs[j])
    one, K = np.eye(len(costs)), len(costs)
    mixed = (1 - share)[:, None] * one[j] + share[:, None] * one[k]
    return np.concatenate([one[cheap], mixed[share > 0].reshape(-1, K)])

"""Bradley-Terry under a budget (BT-cost): the best expected win rate that the money of a context can buy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Floats
from nasheval.errors import InputError
from nasheval.feedback.links import SEEN
from nasheval.game.regularizers import L2
from nasheval.game.scores import best_of
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.bradley_terry import RIDGE, bt_scores, check_ridge
from nasheval.policy.rules import Contextual, PayoffName, check_payoff
from nasheval.policy.terms import AnyCosts, Terms

_CELLS = 1 << 20  # numbers in one (rows, K, K) array


@dataclass(frozen=True, eq=False)
class BudgetedBT:
    """The lottery of largest fitted win rate against a uniform opponent, within the budget (Eq. routerbench-bt-cost).

    With one constraint beside the simplex a solution mixes at most two agents, one within the budget and one beyond, so
    the linear program of every context is solved by trying all of those. Equal ones: a single agent before a mixture,
    then by the order of the agents. The opponent is uniform over the agents that are up.

    Args:
        costs: {agent: cost}, or {agent: context column that holds it}, or costs in the order of the agents.
        budget: C, the most a lottery may cost in expectation at a context, in the same units.
        payoff: which estimate of A(x) the scores are fitted to: "plug-in" or "debiased".
        ridge: kappa_BT of Eq. syn-bt-projection.
    """

    costs: AnyCosts
    budget: float
    payoff: PayoffName = "plug-in"
    ridge: float = RIDGE

    def __post_init__(self) -> None:
        check_payoff(self.payoff)
        check_ridge(self.ridge)

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Contextual:
        """Return the policy; costs and budget are checked on the contexts of the log."""
        agents = stage1.agents
        _require_one(self._costs(agents, stage1.log.contexts), self.budget)

        seen = stage1.status == SEEN

        def choose(B: Floats, up: Bools, contexts: pa.Table) -> Floats:
            s = bt_scores(B, ridge=self.ridge, seen=seen[up][:, up])
            rate = (1 + np.tanh((s[:, :, None] - s[:, None, :]) / 2)).mean(axis=2) / 2
            return spend_best(rate, self._costs(agents, contexts)[:, up], self.budget)

        return Contextual.of(stage1, self.payoff, choose)

    def _costs(self, agents: tuple[str, ...], contexts: pa.Table) -> Floats:
        """Return what each agent costs at each context, (n, K)."""
        costs = Terms(L2(), self.costs).costs_at(agents, contexts)
        if costs is None:
            raise InputError("costs is None; give {agent: cost}, in the units of the budget.")
        return np.broadcast_to(costs, (contexts.num_rows, len(agents)))


def spend_best(value: Floats, costs: Floats, budget: float) -> Floats:
    """Return the lotteries (n, K) that maximise value . pi subject to costs . pi <= budget.

    Args:
        value: (n, K).
        costs: (n, K).
    """
    _require_one(costs, budget)
    n, K = value.shape
    found, step = np.empty((n, K)), max(1, _CELLS // (K * K))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        found[rows] = _spent(value[rows], costs[rows], budget)
    return found


def _spent(value: Floats, costs: Floats, budget: float) -> Floats:
    n, K = value.shape
    within, gap = costs <= budget, costs[:, None, :] - costs[:, :, None]
    crosses = within[:, :, None] & ~within[:, None, :]  # j within the budget, k beyond
    share = np.divide(budget - costs[:, :, None], gap, out=np.zeros((n, K, K)), where=crosses)  # of k, beside j
    mixed = np.where(crosses, (1 - share) * value[:, :, None] + share * value[:, None, :], -np.inf)
    options = np.concatenate([np.where(within, value, -np.inf), mixed.reshape(n, K * K)], axis=1)
    best, every = best_of(options).argmax(axis=1), np.arange(n)
    j, k = np.where(best < K, best, (best - K) // K), np.where(best < K, best, (best - K) % K)
    pi = np.zeros((n, K))
    pi[every, j] = 1 - share[every, j, k]  # a single agent has j = k, where the share is 0
    pi[every, k] += share[every, j, k]
    return pi


def _require_one(costs: Floats, budget: float) -> None:
    """Raise unless the budget buys some agent at every context."""
    cheapest = float(costs.min(axis=1).max(initial=-np.inf))
    if not cheapest <= budget < np.inf:
        raise InputError(
            f"The budget is {budget!r}, and at some context the cheapest agent that is up costs {cheapest:.9g}: no "
            "lottery costs as little. Give a budget that buys at least one agent everywhere."
        )

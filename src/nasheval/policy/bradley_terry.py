"""Contextual Bradley-Terry and Borda: score the agents at each context, take the best (appendix "Baselines").

Scores are fitted among the available agents, to the pairs that were compared. Equal scores: by the order of the agents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Floats, n_pairs
from nasheval.errors import InputError
from nasheval.feedback.links import SEEN
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.scores import best_of, fit_scores, score_margins
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import Contextual, Rule
from nasheval.policy.terms import AnyCosts, Terms

PayoffName = Literal["plug-in", "debiased"]
RIDGE = 1e-4  # the paper's kappa_BT
_CELLS = 1 << 20  # numbers in one (rows, K, K) array


def bt_scores(B: Floats, seen: Bools | None = None) -> Floats:
    """Return the Bradley-Terry scores (n, K) of margins B (n, K, K) (Eq. syn-bt-projection).

    Args:
        seen: (K, K) the pairs to fit to, those that were compared; None: all.
    """
    K = B.shape[-1]
    if K == 1:
        return np.zeros(B.shape[:2])
    meetings = (1 - np.eye(K)) / n_pairs(K) * (1 if seen is None else seen)
    return fit_scores((B * meetings).sum(axis=2), meetings, ridge=RIDGE)


@dataclass(frozen=True)
class BradleyTerry:
    """The agent of the largest Bradley-Terry score at each context: BT-Plug-in and BT-debiased of the paper.

    Args:
        payoff: which estimate of A(x) the scores are fitted to: "plug-in" or "debiased".
    """

    payoff: PayoffName = "plug-in"

    def __post_init__(self) -> None:
        _check(self.payoff)

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Contextual:
        """Return the policy."""
        return _by_scores(stage1, self.payoff, lambda s, up, contexts: best_of(s).astype(float))


@dataclass(frozen=True)
class Borda:
    """The agent of the largest mean margin against the others at each context.

    With payoff "debiased" it is the same policy as BradleyTerry(payoff="debiased"): scores and row sums order alike.

    Args:
        payoff: which estimate of A(x): "debiased" or "plug-in".
    """

    payoff: PayoffName = "debiased"

    def __post_init__(self) -> None:
        _check(self.payoff)

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Contextual:
        """Return the policy."""

        def rule(B: Floats, up: Bools, contexts: pa.Table) -> Floats:
            return best_of(B.sum(axis=2) / max(B.shape[2] - 1, 1)).astype(float)

        return _contextual(stage1, self.payoff, rule)


@dataclass(frozen=True)
class RegularizedBT:
    """The regularised equilibrium of the game that plug-in Bradley-Terry scores span (BT-Reg, Eq. syn-bt-game).

    Args:
        regularizer: of the game; give it the one that NashEval is compared with.
    """

    regularizer: Regularizer = field(default_factory=L2)

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Contextual:
        """Return the policy."""

        def solved(s: Floats, up: Bools, contexts: pa.Table) -> Floats:
            from nasheval.game.solver import solve

            omega = self.regularizer.among(np.tile(np.flatnonzero(up), (len(s), 1)))
            return solve(score_margins(s), regularizer=omega).strategy

        return _by_scores(stage1, "plug-in", solved)


@dataclass(frozen=True, eq=False)
class BudgetedBT:
    """The lottery of largest fitted win rate against a uniform opponent, within the budget (Eq. routerbench-bt-cost).

    Scores are fitted to the plug-in payoffs. With one constraint beside the simplex a solution mixes at most two
    agents, one within the budget and one beyond, so the linear program of every context is solved by trying all of
    those. Equal ones: a single agent before a mixture, then by the order of the agents. The opponent is uniform over
    the available agents.

    Args:
        costs: {agent: cost}, or {agent: context column that holds it}, or costs in the order of the agents.
        budget: C, the most a lottery may cost in expectation at a context, in the same units.
    """

    costs: AnyCosts
    budget: float

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Contextual:
        """Return the policy; costs and budget are checked on the contexts of the log."""
        agents = stage1.agents
        _require_one(self._costs(agents, stage1.log.contexts), self.budget)

        def choose(s: Floats, up: Bools, contexts: pa.Table) -> Floats:
            rate = (1 + score_margins(s)).mean(axis=2) / 2
            return spend_best(rate, self._costs(agents, contexts)[:, up], self.budget)

        return _by_scores(stage1, "plug-in", choose)

    def _costs(self, agents: tuple[str, ...], contexts: pa.Table) -> Floats:
        """Return what each agent costs at each context, (n, K)."""
        costs = Terms(L2(), self.costs).costs_at(agents, contexts)
        if costs is None:
            raise InputError("costs is None; give {agent: cost}, in the units of the budget.")
        return np.broadcast_to(costs, (contexts.num_rows, len(agents)))


def _check(payoff: str) -> None:
    if payoff not in get_args(PayoffName):
        raise InputError(f"payoff is {payoff!r}; accepted are 'plug-in' and 'debiased'.")


def _contextual(stage1: Stage1, payoff: PayoffName, rule: Rule) -> Contextual:
    model = stage1.plug_in if payoff == "plug-in" else stage1.payoff
    return Contextual(stage1.agents, stage1.encoder, model, rule)


def _by_scores(stage1: Stage1, payoff: PayoffName, choose: Rule) -> Contextual:
    """Return the policy that chooses lotteries (n, k) by the scores (n, k) of the available agents."""
    seen = stage1.status == SEEN

    def rule(B: Floats, up: Bools, contexts: pa.Table) -> Floats:
        return choose(bt_scores(B, seen[up][:, up]), up, contexts)

    return _contextual(stage1, payoff, rule)


def spend_best(value: Floats, costs: Floats, budget: float) -> Floats:
    """Return the lotteries (n, K) that maximise value . pi subject to costs . pi <= budget.

    Args:
        value: (n, K).
        costs: (n, K).
    """
    _require_one(costs, budget)
    n, K = value.shape
    lotteries, step = np.empty((n, K)), max(1, _CELLS // (K * K))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        lotteries[rows] = _spent(value[rows], costs[rows], budget)
    return lotteries


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

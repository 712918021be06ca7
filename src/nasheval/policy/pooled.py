"""Small baselines that play the same lottery at every context (appendix "Baselines")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.special import softmax

from nasheval.arrays import Bools, Floats, readonly
from nasheval.errors import ConvergenceError
from nasheval.feedback.log import Feedback
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.scores import best_of
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import Constant
from nasheval.policy.terms import Costs, costs_in_order

_LONG = {"maxiter": 100_000, "maxfun": 1_000_000, "maxcor": 50, "ftol": 0.0, "gtol": 1e-11}
_NEAR = 1e-6  # what an opponent may win against the answer, on the scale of the matrix


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


# -- Nash averaging ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NashAveraging:
    """Nash averaging (Balduzzi et al., 2018), for orientation: the maximum-entropy equilibrium of pooled log-odds.

    These are log((w_jk + 1/2) / (w_kj + 1/2)) with w_jk the votes that j won over k, a tie being half a win for each;
    the half vote keeps them finite, and a pair that never met is 0.
    """

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Constant:
        """Return the policy; of Stage 1 only the log is used."""
        log_odds = pooled_log_odds(stage1.log)
        return Constant(stage1.agents, lambda up: most_even_equilibrium(log_odds[np.ix_(up, up)]))


def pooled_log_odds(log: Feedback) -> Floats:
    """Return the log-odds of winning of each pair, (K, K), half a vote added to both sides."""
    won = np.log(log.pair_counts.wins + log.pair_counts.ties / 2 + 0.5)
    return readonly(won - won.T)


def most_even_equilibrium(A: Floats) -> Floats:
    """Return the equilibrium (K,) of largest entropy of the zero-sum game A (K, K), antisymmetric.

    All equilibria are the lotteries with A p <= 0. Among agents that some equilibrium plays, the one of largest entropy
    is p proportional to exp(A y), where y >= 0 minimises log sum exp(A y); y may be negative for agents that some
    equilibrium plays, since no equilibrium loses or wins against those.
    """
    A = A / max(float(np.abs(A).max(initial=0.0)), 1e-300)
    played = _ever_played(A)
    rows = A[played]
    bounds = [(None, None) if some else (0.0, None) for some in played]

    def spread(y: Floats) -> tuple[float, Floats]:
        logits = rows @ y
        p = softmax(logits)
        return float(logits.max() + np.log(np.exp(logits - logits.max()).sum())), p @ rows

    least = minimize(spread, np.zeros(len(A)), jac=True, method="L-BFGS-B", bounds=bounds, options=_LONG)
    pi = np.zeros(len(A))
    pi[played] = softmax(rows @ least.x)
    if not (A @ pi).max() <= _NEAR:
        raise ConvergenceError(
            f"Nash averaging did not settle: an opponent wins {(A @ pi).max():.2g}. Please report it."
        )
    return pi


def _ever_played(A: Floats) -> Bools:
    """Return (K,) which agents some equilibrium plays.

    There is an equilibrium p in which every agent has either p > 0 or a loss -A p > 0 (Tucker); the one in which the
    smaller of those sums is as large as can be tells them apart.
    """
    K = len(A)
    one = np.ones((K, 1))
    program = linprog(
        np.r_[np.zeros(K), -1.0],
        A_ub=np.block([[A, 0 * one], [A - np.eye(K), one]]),
        b_ub=np.zeros(2 * K),
        A_eq=np.r_[np.ones(K), 0.0][None],
        b_eq=[1.0],
        method="highs",
    )
    if program.status != 0:
        raise ConvergenceError(f"HiGHS could not find an equilibrium: {program.message}")
    p: Floats = program.x[:K]
    return p > -(A @ p)

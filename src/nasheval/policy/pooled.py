"""Baselines that play the same lottery at every context, among them the familiar ladder of Bradley-Terry ratings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from nasheval.arrays import Bools, Floats, readonly
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.scores import best_of, fit_scores, score_hessian
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import Constant
from nasheval.policy.terms import Costs, costs_in_order

ELO = 400 / np.log(10)  # points per unit of log-odds: 400 points are odds of ten to one
_MEAN = 1000.0  # of the ratings
RIDGE = 1e-6  # in votes: far too little to move a rating that votes determine, enough to keep the others finite


@dataclass(frozen=True, eq=False)
class Ratings:
    """Bradley-Terry ratings of K agents; a tie is half a win, and pairs whose order was not asked are left out.

    Args:
        agents: names of the K agents.
        score: (K,) log-odds scale, mean 0: j beats k with probability 1 / (1 + exp(score_k - score_j)).
        rating: (K,) the same on the Elo scale, 400 points for odds of ten to one.
        error: (K,) standard errors of `rating`, as the distance to the mean rating. They are robust to a wrong model
            (sandwich) and to what the votes of one context have in common. Infinite where `determined` is not.
        votes: (K,) weight of the comparisons of each agent.
        determined: (K,) who belongs to the largest set of agents in which wins and ties lead from each to each. The
            mean is theirs. The rating of any other agent, such as one that never lost, is due to the ridge alone.
    """

    agents: tuple[str, ...]
    score: Floats
    rating: Floats
    error: Floats
    votes: Floats
    determined: Bools


def ratings(log: Feedback, *, ridge: float = RIDGE) -> Ratings:
    """Fit one Bradley-Terry rating per agent to all votes of a log, by maximum likelihood.

    Args:
        ridge: weight of ||score||^2 / 2 in the likelihood, in votes.
    """
    if not 0 < ridge < np.inf:
        raise InputError(f"ridge is {ridge!r}; accepted is a finite number above 0, such as {RIDGE:g}.")
    counts = log.pair_counts
    won = counts.wins + counts.ties / 2
    meetings = won + won.T
    lead = (won - won.T).sum(axis=1)
    exact = 1e-9 * max(1.0, 1e-4 * float(meetings.sum(axis=1).max(initial=0.0)))  # sums of many votes round
    score, known = fit_scores(lead[None], meetings, ridge=ridge, tolerance=exact)[0], _determined(won)
    score = score - score[known].mean()
    error = np.where(known, _errors(log, score, meetings, ridge, known), np.inf)
    votes = meetings.sum(axis=1)
    return Ratings(log.agents, *map(readonly, (score, _MEAN + ELO * score, ELO * error, votes, known)))


def _determined(won: Floats) -> Bools:
    """Return (K,) the largest strongly connected set, given the votes (K, K) that each won over each."""
    label = connected_components(csr_array(won > 0), connection="strong")[1]
    return label == np.bincount(label).argmax()


def _errors(log: Feedback, score: Floats, meetings: Floats, ridge: float, known: Bools) -> Floats:
    """Return the sandwich standard errors (K,) of scores less the mean score of those known, clustered by context."""
    verdicts, K = log.verdicts, len(score)
    asked = np.flatnonzero(verdicts.zero != Zero.CENSORED)
    j, k, record = verdicts.j[asked].astype(np.int64), verdicts.k[asked].astype(np.int64), verdicts.record[asked]
    half = np.tanh((score[j] - score[k]) / 2)
    surprise = log.records.weights[record] * (verdicts.z[asked] - half) / 2
    rows = np.tile(log.context_of[record], 2)
    cells = (np.concatenate([surprise, -surprise]), (rows, np.concatenate([j, k])))
    slopes = csr_array(cells, shape=(log.n_contexts, K))
    meat = (slopes.T @ slopes).toarray()
    bread = np.linalg.inv(score_hessian(score[None], meetings, ridge)[0])
    less_mean = (np.eye(K) - known / known.sum()) @ bread
    return np.sqrt(np.maximum(np.einsum("ja,ab,jb->j", less_mean, meat, less_mean), 0.0))


@dataclass(frozen=True)
class PooledBT:
    """The agent at the top of the familiar ladder: count-weighted Bradley-Terry over all contexts.

    Of the available agents it is the best rated, by all votes; equal ratings by the order of the agents.
    """

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Constant:
        """Return the policy; of Stage 1 only the log is used."""
        score = ratings(stage1.log).score
        return Constant(stage1.agents, lambda up: best_of(score[up][None])[0].astype(np.float64))


# -- points of reference ----------------------------------------------------------------------------------------------


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

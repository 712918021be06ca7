"""The familiar ladder: one Bradley-Terry rating per agent, from votes pooled over all contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from nasheval.arrays import Bools, Floats, readonly
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.game.scores import best_of, fit_scores, score_hessian
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import Constant

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

"""What voters' tastes for single agents are like, and who votes for one agent whatever it meets.

A cell is a voter and an agent: the voter's decided votes on that agent. An honest voter's taste d adds to the log odds
that the crowd gives each vote; how d is spread is estimated from all cells of the agent (a mixture over a grid, by the
EM algorithm), so that a minority taste is part of the crowd. Loyal voters vote for the agent, or against it, whatever
the log odds are. Both are fitted together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from nasheval.arrays import Bools, Floats, Ints, bin_sums
from nasheval.audit.crowd import Crowd

GRID = np.linspace(-2.0, 2.0, 17)  # honest tastes, in log odds: up to seven of eight votes against an equal
LOYAL = np.array([0.97, 0.997])  # shares of votes that follow the loyalty, each as likely
_ROUNDS = 200  # of EM
_SHRINK = 30.0  # cells of all agents together that each agent's tastes are mixed with
_SPARSE = 0.5  # loyal voters that are taken off each count: fewer than that is nobody
_LEAST = 0.5  # loyal voters, for and against all agents together, that are always allowed for


@dataclass(frozen=True, eq=False)
class Tastes:
    """The cells of a log and what EM made of them.

    Args:
        voter, agent: (c,) of each cell.
        votes, wins: (c,) decided votes, and those for the agent.
        expected: (c,) votes for the agent that the crowd would give.
        honest: (c,) log likelihood of the cell under honest tastes.
        factor: (c, 2) how many times likelier, in logs, the cell is under loyalty for and against the agent.
        belief: (c, 2) the chance of either, by all cells.
        loyal: (K, 2) voters loyal for and against each agent.
        weight: (K, grid) how honest tastes for each agent are spread.
    """

    voter: Ints
    agent: Ints
    votes: Ints
    wins: Ints
    expected: Floats
    honest: Floats
    factor: Floats
    belief: Floats
    loyal: Floats
    weight: Floats

    @property
    def spread(self) -> Floats:
        """(K,) mean square of honest tastes."""
        return self.weight @ GRID**2

    def odds(self, n_voters: int) -> Floats:
        """Return (c, 2) log odds of loyalty against honesty, the share of the loyal being that among other voters."""
        others = np.maximum(self.loyal[self.agent] - self.belief, _LEAST / self.loyal.size)
        return np.log(others / max(n_voters, 1)) + self.factor


def fit_tastes(crowd: Crowd) -> Tastes:
    """Fit honest tastes and shares of loyal voters to the decided votes of named voters."""
    crowd, K = crowd.named.at(crowd.named.decided), len(crowd.agents)
    agent = np.concatenate([side for side, _ in crowd.sides()])
    sign = np.repeat([1, -1], len(crowd))
    key = np.concatenate([crowd.voter, crowd.voter]).astype(np.int64) * K + agent
    cells, cell = np.unique(key, return_inverse=True)
    logit = sign * np.tile(crowd.logit, 2)
    won = sign * np.tile(crowd.z, 2) > 0
    size = len(cells)
    votes, wins = np.bincount(cell, minlength=size), np.bincount(cell[won], minlength=size)
    likelihood = _likelihoods(cell, logit, won, size)
    loyal = [_loyal(*counts) for counts in ((wins, votes - wins), (votes - wins, wins))]
    n_voters = len(np.unique(crowd.voter))
    weight, belief, count = _em(cells % K, np.column_stack([likelihood, *loyal]), K, n_voters)
    honest = logsumexp(likelihood + np.log(weight)[cells % K], axis=1) if size else np.zeros(0)
    return Tastes(
        voter=cells // K,
        agent=cells % K,
        votes=votes,
        wins=wins,
        expected=bin_sums(cell, 1 / (1 + np.exp(-logit)), size),
        honest=honest,
        factor=np.column_stack(loyal) - honest[:, None],
        belief=belief,
        loyal=count,
        weight=weight,
    )


def _likelihoods(cell: Ints, logit: Floats, won: Bools, size: int) -> Floats:
    """Return (cells, grid) log likelihoods of each taste."""
    signed = np.where(won, 1.0, -1.0)
    return np.column_stack([bin_sums(cell, -np.logaddexp(0.0, -signed * (logit + taste)), size) for taste in GRID])


def _loyal(kept: Ints, broken: Ints) -> Floats:
    """Return (cells,) log likelihoods of votes that follow a loyalty, and of others that do not."""
    each = kept[:, None] * np.log(LOYAL) + broken[:, None] * np.log(1 - LOYAL)
    return np.asarray(logsumexp(each, axis=1) - np.log(len(LOYAL)))


def _em(agent: Ints, likelihood: Floats, K: int, n_voters: int) -> tuple[Floats, Floats, Floats]:
    """Return (K, grid) weights of honest tastes, (c, 2) the chance that each cell is loyal, and (K, 2) their sums."""
    density = np.exp(likelihood - likelihood.max(axis=1, keepdims=True)) if len(agent) else likelihood
    start = np.exp(-((GRID / 0.4) ** 2) / 2) + 1e-3
    weight, share = np.tile(start / start.sum(), (K, 1)), np.full((K, 2), 0.01)
    for _ in range(_ROUNDS):
        joint = density * np.hstack([weight * (1 - share.sum(axis=1, keepdims=True)), share])[agent]
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        count = np.stack([bin_sums(agent, column, K) for column in joint.T], axis=1)
        honest, before = count[:, : len(GRID)], share
        pooled = honest.sum(axis=0) + 1e-3
        weight = honest + _SHRINK * pooled / pooled.sum()
        weight /= weight.sum(axis=1, keepdims=True)
        share = np.clip((count[:, len(GRID) :] - _SPARSE) / max(n_voters, 1), 0.0, 0.4)
        if np.abs(share - before).max(initial=0.0) < 1e-5:
            break
    return weight, joint[:, len(GRID) :], count[:, len(GRID) :]

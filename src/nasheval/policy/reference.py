"""Points of reference: any agent alike, and the one agent that does best on average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, readonly
from nasheval.game.scores import best_of
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.rules import Everywhere


@dataclass(frozen=True)
class EvenLottery(Everywhere):
    """The uniform lottery over the agents that are up.

    Args:
        agents: names of the K agents.
    """

    agents: tuple[str, ...]

    def among(self, up: Bools) -> Floats:
        """Return the same weight for each of the k agents that are up, (k,)."""
        return np.full(int(up.sum()), 1 / int(up.sum()))


@dataclass(frozen=True)
class Uniform:
    """The uniform lottery."""

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> EvenLottery:
        """Return the policy."""
        return EvenLottery(stage1.agents)


@dataclass(frozen=True, eq=False)
class OneAgent(Everywhere):
    """The agent of the largest mean payoff against the others that are up; equal ones by the order of the agents.

    Args:
        agents: names of the K agents.
        payoff: (K, K) mean debiased payoff over the contexts of the log.
    """

    agents: tuple[str, ...]
    payoff: Floats

    def among(self, up: Bools) -> Floats:
        """Return all weight on one of the k agents that are up, (k,)."""
        return np.asarray(best_of(self.payoff[np.ix_(up, up)].mean(axis=1)[None])[0], float)


@dataclass(frozen=True)
class BestSingle:
    """The one agent with the largest debiased payoff, averaged over the contexts of the log and the other agents.

    The average over contexts is the mean of the pseudo-outcomes (Eq. payoff-pseudo-outcome), so that a pair counts
    alike wherever it was asked often and wherever it was asked rarely; a pair that no menu holds counts as a tie.
    """

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> OneAgent:
        """Return the policy."""
        total, count = np.zeros(stage1.pseudo.n_pairs), 0
        for contexts, gamma in stage1.pseudo.chunks():
            total, count = total + gamma.sum(axis=0), count + len(contexts)
        K = len(stage1.agents)
        mean, (j, k) = np.zeros((K, K)), np.triu_indices(K, 1)
        mean[j, k] = total / max(count, 1)
        return OneAgent(stage1.agents, readonly(mean - mean.T))

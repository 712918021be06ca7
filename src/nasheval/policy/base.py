"""What a policy is: something that gives a lottery over agents at each context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.errors import InputError
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1


@runtime_checkable
class Policy(Protocol):
    """A fitted policy."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the K agents, the columns of every lottery."""
        ...

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return (n, K) lotteries, rows sum to one.

        Args:
            contexts: n contexts: a DataFrame, records, or the array the log was built with.
            agents: those that are up; the others get zero. None: all.
        """
        ...


@runtime_checkable
class PolicyLearner(Protocol):
    """An unfitted policy: a baseline with its settings."""

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Policy:
        """Return the policy that a log with its nuisances and estimated game gives.

        Args:
            effort: seed, cores, device and progress, for a policy that takes long; None: those of `Effort()`.
        """
        ...


def those_up(names: tuple[str, ...], agents: Sequence[str] | None) -> Bools:
    """Return (K,) which agents are up, checked."""
    if agents is None:
        return np.ones(len(names), bool)
    if isinstance(agents, str) or not len(agents):
        raise InputError(f"agents is {agents!r}; accepted is a list of at least one name out of {', '.join(names)}.")
    for agent in agents:
        if agent not in names:
            raise InputError(f"agents holds {agent!r}, which the policy does not know; it knows {', '.join(names)}.")
    return np.isin(np.array(names), list(agents))

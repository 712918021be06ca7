"""What policies spend at the contexts of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from scipy.stats import t

from nasheval.arrays import Bools, Floats
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import L2
from nasheval.policy.terms import AnyCosts, Terms
from nasheval.scoring.metrics import expected_cost

Costs: TypeAlias = AnyCosts


@dataclass(frozen=True, eq=False)
class Spending:
    """Expected cost of P policies, in the user's units, with an interval for each policy alone.

    Args:
        mean, error, lower, upper: (P,) over the contexts that are scored.
    """

    mean: Floats
    error: Floats
    lower: Floats
    upper: Floats

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {name: getattr(self, name).tolist() for name in ("mean", "error", "lower", "upper")}


def measure_spending(lotteries: Floats, costs: Floats, used: Bools, confidence: float) -> Spending:
    """Return what policies spend, (P, n, K) lotteries at costs (K,) or (n, K), over the contexts that are used, (n,).

    Contexts are the sample, and with a single one there is no telling how far its cost is from others'.
    """
    spent = np.stack([expected_cost(lottery, costs, reduce=False)[used] for lottery in lotteries])
    n = spent.shape[1]
    mean = spent.mean(axis=1)
    error = spent.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(spent), np.inf)
    half = error * t.ppf((1 + confidence) / 2, max(n - 1, 1))
    return Spending(mean, error, mean - half, mean + half)


def costs_of(log: Feedback, costs: Costs) -> Floats:
    """Return the costs of the log's agents, (K,), or (n_contexts, K) where some depend on the context.

    Args:
        costs: {agent: cost}, {agent: context column that holds it}, or costs in the order of the agents.
    """
    return cast(Floats, Terms(L2(), costs).costs_at(log.agents, log.contexts))  # None without costs only

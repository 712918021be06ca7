"""What policies spend at the contexts of a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from scipy.stats import t

from nasheval.arrays import Bools, Floats
from nasheval.errors import InputError
from nasheval.feedback.base import Log, column_list
from nasheval.scoring.metrics import expected_cost

Costs: TypeAlias = Mapping[str, float | str]


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


def costs_of(log: Log, costs: Costs) -> Floats:
    """Return the costs of the log's agents, (K,), or (n_contexts, K) where some depend on the context.

    Args:
        costs: {agent: cost}, or {agent: context column that holds it}.
    """
    if not isinstance(costs, Mapping):
        raise InputError(
            f"costs is {type(costs).__name__}; accepted is {{agent: cost}} or {{agent: name of a context column}}."
        )
    missing = [agent for agent in log.agents if agent not in costs]
    if missing:
        raise InputError(f"costs says nothing of {', '.join(map(repr, missing))}; give a cost for every agent.")
    found = [_cost(log, agent, costs[agent]) for agent in log.agents]
    if any(isinstance(cost, str) for cost in costs.values()):
        return np.stack([np.broadcast_to(column, (log.n_contexts,)) for column in found], axis=1)
    return np.array(found, np.float64)


def _cost(log: Log, agent: str, cost: Any) -> Any:
    """Return one agent's cost, a number or (n_contexts,) of them, checked."""
    if isinstance(cost, str) and cost not in log.contexts.column_names:
        raise InputError(
            f"The cost of {agent!r} is {cost!r}, no context column; this log has {column_list(log.contexts)}."
        )
    try:
        column = log.contexts[cost].cast(pa.float64()).to_numpy() if isinstance(cost, str) else cost
        values = np.asarray(column, np.float64)
    except (TypeError, ValueError, pa.ArrowException):
        values = np.array(np.nan)
    if not np.isfinite(values).all() or (values.ndim and not isinstance(cost, str)):
        raise InputError(f"The cost of {agent!r} is {cost!r}; accepted is a finite number, or a column of them.")
    return values

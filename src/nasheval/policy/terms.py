"""What a game is played under, beside its payoffs: regulariser, costs and budget, in the user's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from nasheval.arrays import Floats
from nasheval.contexts.table import as_table
from nasheval.contexts.values import numbers
from nasheval.errors import Argument, InputError
from nasheval.game.costs import ConvexCost, HardBudget, LinearCost, SoftBudget
from nasheval.game.gaps import composed
from nasheval.game.regularizers import L2, Entropy, Regularizer

Costs: TypeAlias = "Mapping[str, float] | ArrayLike"  # {agent: cost}, or costs in the order of the agents
# The same, or {agent: the context column that holds its cost}.
AnyCosts: TypeAlias = "Mapping[str, float | str] | ArrayLike"


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of the game at every context.

    Args:
        regularizer: L2(rho) or Entropy(tau).
        costs: what each agent costs, in the user's units: {agent: number}, or {agent: context column} where some cost
            varies by context.
        cost_weight: weight of costs scaled to [0, 1] over all agents (Eq. routerbench-cost-regularizer).
        budget: the most a lottery may cost in expectation at a context (Eq. hard-budget-equilibrium), or a SoftBudget.
    """

    regularizer: Regularizer
    costs: AnyCosts | None = None
    cost_weight: float = 0.0
    budget: float | SoftBudget | None = None

    def __post_init__(self) -> None:
        if isinstance(self.regularizer, type) or not hasattr(self.regularizer, "best_response"):
            raise InputError(f"regularizer is {self.regularizer!r:.60}; accepted are L2(rho) and Entropy(tau).")

    def costs_at(self, agents: tuple[str, ...], contexts: object) -> Floats | None:
        """Return what the K agents cost: (K,), or (n, K) where cost varies by context; None without costs."""
        if self.costs is None:
            return None
        named = self.costs if isinstance(self.costs, Mapping) else {}
        columns = {agent: cost for agent, cost in named.items() if isinstance(cost, str)}
        if not columns:
            return costs_in_order(self.costs, agents)  # type: ignore[arg-type]  # no strings are left in it
        fixed = costs_in_order({a: 0.0 if a in columns else float(c) for a, c in named.items()}, agents)
        table = as_table(contexts)
        costs = np.tile(fixed, (table.num_rows, 1))
        for agent, column in columns.items():
            costs[:, agents.index(agent)] = _column(table, agent, column)
        return costs

    def omega(self, costs: Floats | None, n: int, K: int) -> Regularizer:
        """Return the regulariser of n games of K agents, with costs as `costs_at` gives them."""
        if costs is None and (self.cost_weight or self.budget is not None):
            raise InputError("Cost weights and budgets need costs; none were given: fit with ", Argument("costs"), ".")
        return composed(self.regularizer, costs, self.cost_weight, self.budget, n, K)


def strengthened(omega: Regularizer, strength: float) -> Regularizer:
    """Return the regulariser with a strength of at least `strength`."""
    match omega:
        case L2():
            return L2(max(omega.rho, strength))
        case Entropy():
            return replace(omega, tau=max(omega.tau, strength))
        case LinearCost() | ConvexCost() | HardBudget():
            return replace(omega, base=strengthened(omega.base, strength))
    return omega


def costs_in_order(costs: Costs, agents: tuple[str, ...]) -> Floats:
    """Return the cost of each agent, (K,), from {agent: cost} or costs in the order of the agents."""
    if isinstance(costs, Mapping):
        unknown, missing = [a for a in costs if a not in agents], [a for a in agents if a not in costs]
        if unknown or missing:
            wrong = f"names {unknown[0]!r}, no agent" if unknown else f"has none for {missing[0]!r}"
            raise InputError(f"costs {wrong}; give one for each of {', '.join(agents)}.")
        costs = [costs[agent] for agent in agents]
    try:
        each = np.asarray(costs, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"costs holds something that is not a number: {costs!r}.") from None
    accepted = f"accepted are {len(agents)} finite numbers, one per agent"
    if each.shape != (len(agents),):
        raise InputError(f"costs has shape {each.shape}; {accepted}.")
    for agent, cost in zip(agents, each, strict=True):
        if not np.isfinite(cost):
            raise InputError(f"costs says {cost} for {agent!r}; {accepted}.")
    return each


def _column(table: pa.Table, agent: str, column: str) -> Floats:
    if column not in table.column_names:
        raise InputError(
            f"costs says that column {column!r} holds what {agent!r} costs; the contexts have "
            f"{', '.join(map(repr, table.column_names)) or 'no columns'}. Add it, or give a number."
        )
    values = np.asarray(numbers(column, table[column]), float)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(f"Column {column!r}, what {agent!r} costs, is missing or infinite at context {row}.")
    return values

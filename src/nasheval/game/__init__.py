"""The preference game alone: regularisers, exact equilibria, the gap function, budgets. It knows nothing of data."""

from __future__ import annotations

from nasheval.game.costs import ConvexCost, Disutility, HardBudget, LinearCost, SoftBudget
from nasheval.game.gaps import gap
from nasheval.game.regularizers import L2, Entropy, Regularizer
from nasheval.game.solver import Solution, solve

__all__ = [
    "L2",
    "ConvexCost",
    "Disutility",
    "Entropy",
    "HardBudget",
    "LinearCost",
    "Regularizer",
    "SoftBudget",
    "Solution",
    "gap",
    "solve",
]

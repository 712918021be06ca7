"""Cost against exploitability on estimated games, as the price of cost rises."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Floats
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.solver import solve
from nasheval.scoring.metrics import expected_cost, exploitability
from nasheval.scoring.report.data import FrontierPoint

WEIGHTS = (0.0, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0, 1.5, 2.0)


def cost_frontier(
    A: Floats,
    costs: Floats,
    agents: tuple[str, ...],
    *,
    regularizer: Regularizer = L2(),  # noqa: B008 (frozen)
    weights: tuple[float, ...] = WEIGHTS,
    policy: Floats | None = None,
) -> tuple[FrontierPoint, ...]:
    """Return what equilibria at rising cost weights, single agents and a policy cost and lose.

    Exploitability is that of the games given (Eq. eval-exploitability). On estimated games it says what the best
    opponent would win if the estimates were the truth, and the equilibrium without a price has almost none by
    construction.

    Args:
        A: (n, K, K) payoffs at n contexts.
        costs: (K,) or (n, K), in the user's units.
        agents: names of the K agents.
        regularizer: of the game.
        weights: of costs scaled to [0, 1] (Eq. routerbench-cost-regularizer).
        policy: (n, K) lotteries of a policy to show beside them.
    """

    def point(name: str, kind: str, lotteries: Floats, weight: float | None = None) -> FrontierPoint:
        spent, lost = expected_cost(lotteries, costs), exploitability(A, lotteries)
        return FrontierPoint(name, kind, weight, float(f"{spent:.6g}"), round(max(lost, 0.0), 5))

    n, K = A.shape[:2]
    priced = [solve(A, regularizer=regularizer, costs=costs, cost_weight=weight).strategy for weight in weights]
    return (
        *(point(f"cost weight {weight:g}", "price", pi, weight) for weight, pi in zip(weights, priced, strict=True)),
        *(point(agent, "agent", np.tile(np.eye(K)[k], (n, 1))) for k, agent in enumerate(agents)),
        *([] if policy is None else [point("this model", "policy", policy)]),
    )

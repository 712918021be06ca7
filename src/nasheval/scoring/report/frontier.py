"""Estimated games at the contexts of a log: who wins them, and what is lost as the price of cost rises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nasheval.arrays import Floats, Ints
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.solver import solve
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import Policy
from nasheval.scoring.metrics import expected_cost, exploitability

_CELLS = 1 << 24  # payoffs at contexts that are solved one by one; of more contexts an even sample is
_FRONTIER_CELLS = 1 << 21  # the same for the frontier, which solves each game over and over
WEIGHTS = (0.0, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class FrontierPoint:
    """What a way of choosing agents costs, and what the best opponent wins from it on the estimated games.

    Args:
        name: of the agent, or what else it is.
        kind: "price" (the equilibrium at a cost weight), "agent" (always that one) or "policy" (the model's own).
        cost_weight: of a "price".
        cost: mean over contexts, in the user's units.
        exploitability: mean over contexts, on the estimated payoffs.
    """

    name: str
    kind: str
    cost_weight: float | None
    cost: float
    exploitability: float


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


@dataclass(frozen=True, eq=False)
class Games:
    """The estimated games at m contexts of the log, and the lotteries played there.

    Args:
        agents: names of the K agents.
        rows: (m,) the contexts.
        A: (m, K, K).
        lotteries: (m, K).
    """

    agents: tuple[str, ...]
    rows: Ints
    A: Floats
    lotteries: Floats

    @staticmethod
    def of(stage1: Stage1, policy: Policy | None, regularizer: Regularizer) -> Games:
        """Solve the games of all contexts with a pseudo-outcome, or of an even sample where they are too many."""
        used = np.flatnonzero(stage1.pseudo.used)
        rows = used[:: _thinning(len(used), len(stage1.agents), _CELLS)]
        A = stage1.payoff.predict(stage1.nuisances.X[rows])
        if policy is None:
            return Games(stage1.agents, rows, A, solve(A, regularizer=regularizer).strategy)
        table = stage1.log.contexts  # without columns it would forget its rows
        contexts = table.take(pa.array(rows)) if table.num_columns else np.zeros((len(rows), 0))
        played = policy.predict_proba(contexts)
        return Games(stage1.agents, rows, A, played[:, [policy.agents.index(agent) for agent in stage1.agents]])

    @property
    def frontier_thinning(self) -> int:
        """One game of so many is in the frontier."""
        return _thinning(len(self.rows), len(self.agents), _FRONTIER_CELLS)

    def frontier(self, costs: Floats, regularizer: Regularizer, with_policy: bool) -> tuple[FrontierPoint, ...]:
        """Return the frontier, given the costs (K,), or (n_contexts, K) of the log."""
        thin = self.frontier_thinning
        prices = costs if costs.ndim == 1 else costs[self.rows[::thin]]
        played = self.lotteries[::thin] if with_policy else None
        return cost_frontier(self.A[::thin], prices, self.agents, regularizer=regularizer, policy=played)


def _thinning(n: int, K: int, cells: int) -> int:
    return max(1, -(-n * K * K // cells))

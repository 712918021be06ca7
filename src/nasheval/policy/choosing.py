"""From lotteries to agents: the winner set, one winner by a utility, or a draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.contexts.table import as_table
from nasheval.errors import InputError

WINNER = 1e-3  # a winner has more weight than this (appendix "training details")


def winner_sets(lotteries: Floats, agents: Sequence[str]) -> list[list[str]]:
    """Return the winner set at each of n contexts, by name, in the order of the K agents."""
    return [[agent for agent, won in zip(agents, row, strict=True) if won] for row in _winners(lotteries)]


def choose(
    lotteries: Floats,
    agents: Sequence[str],
    contexts: object,
    *,
    utility: Callable[[str, Any], float] | None = None,
    seed: int | None = None,
) -> list[str]:
    """Return one agent for each of n contexts, by name.

    Without utility or seed it is the one with the most weight. Equal ones: the first in the order of the agents.

    Args:
        lotteries: (n, K).
        agents: names of the K agents.
        contexts: the n contexts.
        utility: picks the best agent of the winner set: U(k, x), a function of an agent's name and a context (a record,
            {column: value}), asked about winners only (section "Orthogonal equilibrium learning", "select a
            deterministic winner").
        seed: draw from the lottery instead.
    """
    if utility is not None and seed is not None:
        raise InputError("utility and seed were both given: one picks a winner, the other draws from the lottery.")
    if utility is not None and not callable(utility):
        raise InputError(f"utility is {utility!r}; accepted is a function of an agent's name and a context, or None.")
    if seed is not None:
        upto = np.cumsum(lotteries, axis=1)
        draw = np.random.default_rng(seed).random((len(lotteries), 1)) * upto[:, -1:]  # below the total
        picked = (upto <= draw).sum(axis=1)
    else:
        picked = (lotteries if utility is None else _worth(utility, agents, contexts, lotteries)).argmax(axis=1)
    return [agents[k] for k in picked]


def _winners(lotteries: Floats) -> Bools:
    """Return which agents are winners, (n, K); some always are, even of a thousand alike."""
    return lotteries > min(WINNER, 0.5 / lotteries.shape[1])


def _worth(utility: Callable[[str, Any], float], agents: Sequence[str], contexts: object, lotteries: Floats) -> Floats:
    """Return (n, K) what the winners are worth, minus infinity for the others."""
    worth, records = np.full(lotteries.shape, -np.inf), as_table(contexts).to_pylist()
    for i, k in np.argwhere(_winners(lotteries)):
        worth[i, k] = utility(agents[k], records[i])
        if not np.isfinite(worth[i, k]):
            raise InputError(f"utility is {worth[i, k]} for {agents[k]!r} at context {i}; give a finite number.")
    return worth

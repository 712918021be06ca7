"""From lotteries to agents: the winner set, one winner by a utility, or a draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nasheval.arrays import Bools, Floats, Ints
from nasheval.contexts.table import as_table
from nasheval.errors import InputError

WINNER = 1e-3  # a winner has more weight than this (appendix "training details")
# U(k, x): a function of an agent's name and a context (a record, {column: value}), or an (n, K) array.
Utility: TypeAlias = "Callable[[str, Any], float] | ArrayLike"


def winner_sets(lotteries: ArrayLike, agents: Sequence[str]) -> list[list[str]]:
    """Return the winner set at each of n contexts, by name, in the order of the K agents."""
    inside = _winners(_checked(lotteries, agents))
    return [[agent for agent, won in zip(agents, row, strict=True) if won] for row in inside]


def choose(
    lotteries: ArrayLike,
    agents: Sequence[str],
    utility: Utility | None = None,
    *,
    contexts: object = None,
    seed: int | np.random.Generator | None = None,
) -> list[str]:
    """Return one agent for each of n contexts, by name.

    Without utility or seed it is the one with the most weight. Equal ones: the first in the order of the agents.

    Args:
        lotteries: (n, K).
        agents: names of the K agents.
        utility: picks the best agent of the winner set: a callable(agent, context), asked about winners only, or an
            (n, K) array (section "Orthogonal equilibrium learning", "select a deterministic winner").
        contexts: the n contexts that a callable is asked about; it gets each as a record, {column: value}.
        seed: draw from the lottery instead.
    """
    if utility is not None and seed is not None:
        raise InputError("utility and seed were both given: one picks a winner, the other draws from the lottery.")
    pi = _checked(lotteries, agents)
    if seed is not None:
        picked = _drawn(pi, seed)
    elif utility is None:
        picked = pi.argmax(axis=1)
    else:
        inside = _winners(pi)
        worth = _asked(utility, agents, contexts, inside) if callable(utility) else _given(utility, inside)
        picked = np.where(inside, worth, -np.inf).argmax(axis=1)
    return [agents[k] for k in picked]


def _winners(pi: Floats) -> Bools:
    """Return which agents are winners, (n, K); some always are, even of a thousand alike."""
    return pi > min(WINNER, 0.5 / pi.shape[1])


def _drawn(pi: Floats, seed: int | np.random.Generator) -> Ints:
    """Return the number of one agent drawn from each lottery (n, K), (n,)."""
    upto = np.cumsum(pi, axis=1)
    draw = np.random.default_rng(seed).random((len(pi), 1)) * upto[:, -1:]  # below the total, which may miss 1
    return (upto <= draw).sum(axis=1)


def _asked(utility: Callable[[str, Any], float], agents: Sequence[str], contexts: object, inside: Bools) -> Floats:
    if contexts is None:
        raise InputError("utility is a function of an agent and a context; give contexts too.")
    records = as_table(contexts).to_pylist()
    if len(records) != len(inside):
        raise InputError(f"There are {len(records)} contexts and {len(inside)} lotteries; give one for each.")
    worth = np.full(inside.shape, -np.inf)
    for i, k in np.argwhere(inside):
        worth[i, k] = utility(agents[k], records[i])
    return _finite(worth, inside)


def _given(utility: ArrayLike, inside: Bools) -> Floats:
    worth = np.asarray(utility, float)
    if worth.shape not in (inside.shape, inside.shape[1:]):
        raise InputError(f"utility has shape {worth.shape}; accepted is {inside.shape}, or one number per agent.")
    return _finite(np.broadcast_to(worth, inside.shape), inside)


def _finite(worth: Floats, inside: Bools) -> Floats:
    if not np.isfinite(worth[inside]).all():
        raise InputError("utility is not a finite number for some winner; give one for every agent that may win.")
    return worth


def _checked(lotteries: ArrayLike, agents: Sequence[str]) -> Floats:
    pi = np.asarray(lotteries, float)
    if pi.ndim != 2 or not (pi >= -1e-9).all() or not np.allclose(pi.sum(axis=1), 1, atol=1e-6):
        raise InputError(f"lotteries has shape {pi.shape}; accepted is (n, K), no entry negative, rows summing to 1.")
    if pi.shape[1] != len(agents):
        raise InputError(f"lotteries has {pi.shape[1]} columns for {len(agents)} agents; give one per agent.")
    return pi

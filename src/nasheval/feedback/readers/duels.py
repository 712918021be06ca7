"""Duels in columns: the records of two-agent menus, sorted by construction."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Array, Ints, int_dtype
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.labels import BOTH_BAD, FIRST, SECOND
from nasheval.feedback.records import Records


def duel_records(first: Ints, second: Ints, outcome: Ints, *, n_agents: int, **columns: Array | None) -> Records:
    """Return one record per row.

    Args:
        first, second: (n,) agent numbers in the order shown; never the same agent.
        outcome: (n,) FIRST, SECOND, TIE or BOTH_BAD.
        columns: propensity, weight, voter, time.
    """
    kind, n = int_dtype(max(n_agents - 1, 0)), len(first)
    swapped = first > second
    agent, block, shown = np.empty((n, 2), kind), np.empty((n, 2), np.int8), np.empty((n, 2), np.int8)
    np.minimum(first, second, out=agent[:, 0], casting="unsafe")
    np.maximum(first, second, out=agent[:, 1], casting="unsafe")
    lower_won, higher_won = np.where(swapped, SECOND, FIRST), np.where(swapped, FIRST, SECOND)
    block[:, 0], block[:, 1] = outcome == higher_won, outcome == lower_won
    shown[:, 0], shown[:, 1] = swapped, ~swapped
    return Records(
        offsets=np.arange(0, 2 * n + 1, 2, dtype=np.int32 if 2 * n < 2**31 else np.int64),
        agent=agent.ravel(),
        block=block.ravel(),
        zero=np.where(outcome == BOTH_BAD, Zero.BOTH_BAD, Zero.TIE).astype(np.int8),
        shown=shown.ravel(),
        **columns,
    )

"""The one-dimensional search behind budgets: where a decreasing function of a price crosses zero, batched."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nasheval.arrays import Floats, Ints

_LIMIT = 200
RAISES = 30  # times that a price may be multiplied by 4 to find one that is high enough
_ALIKE = 1e-15  # relative width at which the two ends are the same price


def crossing(f: Callable[[Floats, Ints], Floats], low: Floats, high: Floats, near: float) -> tuple[Floats, Floats]:
    """Narrow [low, high], each (n,), around where f crosses zero, until they meet or f jumps between them.

    Args:
        f: f(p, rows) gives the values (m,) at prices p (m,) of the problems rows (m,); decreasing in p.
        near: a value of f this near to zero is zero.
    """
    rows = np.arange(len(low))
    low, high = low.copy(), high.copy()
    above, below = f(low, rows), f(high, rows)
    high = np.where(above <= near, low, high)
    low = np.where((below > near) & (above > near), high, low)
    last = np.zeros(len(low))
    for step in range(_LIMIT):
        rows = np.flatnonzero(high - low > _ALIKE * np.maximum(np.abs(low), np.abs(high)))
        if not len(rows):
            break
        p = _between(low[rows], high[rows], above[rows], below[rows], halve=step % 3 == 2)
        value = f(p, rows)
        up, zero = value > 0, np.abs(value) <= near
        # Illinois: an end that stays twice in a row counts half, so that the other end moves as well.
        below[rows] = np.where(up, np.where(last[rows] > 0, below[rows] / 2, below[rows]), value)
        above[rows] = np.where(up, value, np.where(last[rows] < 0, above[rows] / 2, above[rows]))
        last[rows] = np.where(up, 1, -1)
        low[rows] = np.where(up | zero, p, low[rows])
        high[rows] = np.where(~up | zero, p, high[rows])
    return low, high


def raised(f: Callable[[Floats, Ints], Floats], high: Floats, near: float) -> Floats:
    """Return high (n,), multiplied until f is no longer above `near` there."""
    high = high.copy()
    rows = np.arange(len(high))
    for _ in range(RAISES):
        rows = rows[f(high[rows], rows) > near]
        if not len(rows):
            break
        high[rows] *= 4
    return high


def _between(low: Floats, high: Floats, above: Floats, below: Floats, *, halve: bool) -> Floats:
    middle = (low + high) / 2
    if halve:
        return middle
    p = low + (high - low) * above / np.maximum(above - below, 1e-300)
    return np.where((p > low) & (p < high), p, middle)

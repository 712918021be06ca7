"""Numbers as a page needs them: rounded, and None where there is none."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

DIGITS = 4


def rounded(values: Iterable[float], digits: int = DIGITS) -> tuple[float, ...]:
    """Return finite numbers, rounded; no negative zeros."""
    return tuple(round(float(value), digits) + 0.0 for value in values)


def gappy(values: Iterable[float], digits: int = DIGITS) -> tuple[float | None, ...]:
    """Return numbers, rounded, and None where one is not finite."""
    return tuple(round(float(value), digits) + 0.0 if np.isfinite(value) else None for value in values)

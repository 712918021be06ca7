"""How often something happened, and how sure that is."""

from __future__ import annotations

from scipy.stats import binomtest


def exact_interval(hits: int, trials: int) -> tuple[float, float]:
    """Return the exact binomial 99% interval."""
    interval = binomtest(hits, trials).proportion_ci(0.99, method="exact")
    return float(interval.low), float(interval.high)

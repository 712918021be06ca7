"""What speaks for the estimates and what against them, as a report shows it."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Floats
from nasheval.nuisance.nuisance_diagnostics import Calibration, NuisanceDiagnostics
from nasheval.scoring.report.data import Bins, Histogram, ThinPair, Trust
from nasheval.scoring.report.numbers import gappy, rounded

_BINS = 24
_THINNEST = 10


def trust_of(found: NuisanceDiagnostics, raw: Floats, warnings: tuple[str, ...]) -> Trust:
    """Return the diagnostics of nuisances.

    Args:
        raw: (n_records,) propensities before the floor.
        warnings: in words.
    """
    r2, r2_within, log_loss, smallest = gappy((found.r2, found.r2_within, found.log_loss, found.smallest), 6)
    return Trust(
        verdicts=found.n_verdicts,
        r2=r2,
        r2_within=r2_within,
        log_loss=log_loss,
        outcome=_bins(found.outcome),
        propensity=None if found.propensity is None else _bins(found.propensity),
        overlap=log_histogram(raw),
        smallest=smallest,
        floor=float(f"{found.floor:.6g}"),
        clipped_share=round(found.clipped_share, 6),
        propensity_model=None if found.choice is None else str(found.choice),
        propensity_check=None if found.check is None else f"{found.check}; {found.check.n_tests} tests together",
        effective=log_histogram(found.effective),
        thinnest=_thinnest(found),
        warnings=warnings,
    )


def log_histogram(values: Floats, bins: int = _BINS) -> Histogram:
    """Count values in bins even in their logarithm; zeros, if any, have a first bin of their own that starts at 0."""
    above, zeros = values[values > 0], int((values <= 0).sum())
    edges, count = np.zeros(1), np.zeros(0, int)
    if len(above):
        low, high = float(above.min()), float(above.max())
        steps = bins if high > low * (1 + 1e-9) else 1
        wide = (low, high) if steps > 1 else (low / 1.1, high * 1.1)
        edges = np.geomspace(*wide, steps + 1)
        place = np.clip(np.searchsorted(edges, above, side="right") - 1, 0, steps - 1)
        count = np.bincount(place, minlength=steps)
    if zeros:
        edges, count = np.concatenate([[0.0], edges]), np.concatenate([[zeros], count])
    return Histogram(tuple(float(f"{edge:.6g}") for edge in edges), tuple(int(c) for c in count))


def _bins(found: Calibration) -> Bins:
    digits = 6
    return Bins(
        rounded(found.predicted, digits),
        rounded(found.observed, digits),
        rounded(found.error, digits),
        tuple(int(count) for count in found.count),
    )


def _thinnest(found: NuisanceDiagnostics) -> tuple[ThinPair, ...]:
    j, k = np.triu_indices(len(found.agents), 1)
    order = np.argsort(found.effective, kind="stable")[:_THINNEST]
    return tuple(
        ThinPair(int(j[p]), int(k[p]), int(found.votes[p]), round(float(found.effective[p]), 1)) for p in order
    )

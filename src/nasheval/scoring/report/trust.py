"""What speaks for the estimates and what against them, as a report shows it."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Floats
from nasheval.nuisance.diagnostics import Calibration, NuisanceDiagnostics
from nasheval.scoring.report.data import Bins, Histogram, ThinPair, Trust
from nasheval.scoring.report.numbers import gappy, rounded

_BINS = 24
_THINNEST = 10


def trust_of(diagnostics: NuisanceDiagnostics, raw: Floats, warnings: tuple[str, ...]) -> Trust:
    """Return the diagnostics of nuisances.

    Args:
        raw: (n_records,) propensities before the floor.
        warnings: in words.
    """
    d = diagnostics
    r2, r2_within, log_loss, smallest = gappy((d.r2, d.r2_within, d.log_loss, d.smallest), 6)
    return Trust(
        verdicts=d.n_verdicts,
        r2=r2,
        r2_within=r2_within,
        log_loss=log_loss,
        outcome=_bins(d.outcome),
        propensity=None if d.propensity is None else _bins(d.propensity),
        overlap=log_histogram(raw),
        smallest=smallest,
        floor=float(f"{d.floor:.6g}"),
        clipped_share=round(d.clipped_share, 6),
        propensity_model=None if d.choice is None else str(d.choice),
        propensity_check=None if d.check is None else f"{d.check}; {d.check.n_tests} tests together",
        effective=log_histogram(d.effective),
        thinnest=_thinnest(d),
        warnings=warnings,
    )


def log_histogram(values: Floats) -> Histogram:
    """Count values in bins even in their logarithm; zeros, if any, have a first bin of their own that starts at 0."""
    above, zeros = values[values > 0], int((values <= 0).sum())
    edges, count = np.zeros(1), np.zeros(0, int)
    if len(above):
        low, high = float(above.min()), float(above.max())
        steps = _BINS if high > low * (1 + 1e-9) else 1
        wide = (low, high) if steps > 1 else (low / 1.1, high * 1.1)
        edges = np.geomspace(*wide, steps + 1)
        place = np.clip(np.searchsorted(edges, above, side="right") - 1, 0, steps - 1)
        count = np.bincount(place, minlength=steps)
    if zeros:
        edges, count = np.concatenate([[0.0], edges]), np.concatenate([[zeros], count])
    return Histogram(tuple(float(f"{edge:.6g}") for edge in edges), tuple(count.astype(int).tolist()))


def _bins(calibration: Calibration) -> Bins:
    predicted, observed, error = (rounded(getattr(calibration, name), 6) for name in ("predicted", "observed", "error"))
    return Bins(predicted, observed, error, tuple(calibration.count.tolist()))


def _thinnest(diagnostics: NuisanceDiagnostics) -> tuple[ThinPair, ...]:
    first, second = np.triu_indices(len(diagnostics.agents), 1)
    order = np.argsort(diagnostics.effective, kind="stable")[:_THINNEST]
    votes, effective = diagnostics.votes.tolist(), diagnostics.effective.tolist()
    return tuple(ThinPair(int(first[p]), int(second[p]), votes[p], round(effective[p], 1)) for p in order)

"""What a report shows beside its groups, as values of JSON: the size of the log, diagnostics, held-out comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from nasheval.arrays import Floats, n_pairs
from nasheval.feedback.coverage import Coverage
from nasheval.nuisance.nuisance_diagnostics import Calibration, NuisanceDiagnostics
from nasheval.scoring.contests import Contest
from nasheval.scoring.heldout import Evaluation
from nasheval.scoring.report.views import rounded

_FACTS = (
    "contexts", "records", "voters", "menus", "pairs_seen", "pairs", "pairs_bridged", "pairs_unknown", "only_a_ladder",
    "unseen", "design", "design_reason",
)  # fmt: skip
_BINS = 24
_THINNEST = 10


def facts_of(coverage: Coverage, unseen: str) -> dict[str, Any]:
    """Return how large the log is, given what was made of pairs never compared."""
    known = {**coverage.to_dict(), "pairs": n_pairs(len(coverage.agents)), "unseen": unseen}
    return {name: known[name] for name in _FACTS}


# -- what speaks for the estimates and what against them --------------------------------------------------------------


def trust_of(diagnostics: NuisanceDiagnostics, raw: Floats, warnings: list[str]) -> dict[str, Any]:
    """Return the diagnostics of nuisances; None stands for a number that cannot be told.

    Args:
        raw: (n_records,) propensities before the floor.
        warnings: in words.
    """
    d = diagnostics
    r2, r2_within, log_loss, smallest = rounded((d.r2, d.r2_within, d.log_loss, d.smallest), 6)
    return {
        "verdicts": d.n_verdicts,
        "r2": r2,
        "r2_within": r2_within,
        "log_loss": log_loss,
        "outcome": _bins(d.outcome),
        "propensity": None if d.propensity is None else _bins(d.propensity),
        "overlap": log_histogram(raw),
        "smallest": smallest,
        "floor": float(f"{d.floor:.6g}"),
        "clipped_share": round(d.clipped_share, 6),
        "propensity_model": None if d.choice is None else str(d.choice),
        "propensity_check": None if d.check is None else f"{d.check}; {d.check.n_tests} tests together",
        "effective": log_histogram(d.effective),
        "thinnest": _thinnest(d),
        "warnings": warnings,
    }


def log_histogram(values: Floats) -> dict[str, list[Any]]:
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
    return {"edges": [float(f"{edge:.6g}") for edge in edges], "count": count.tolist()}


def _bins(calibration: Calibration) -> dict[str, Any]:
    means = {name: rounded(getattr(calibration, name), 6) for name in ("predicted", "observed", "error")}
    return {**means, "count": calibration.count.tolist()}


def _thinnest(diagnostics: NuisanceDiagnostics) -> list[dict[str, Any]]:
    """Return the pairs whose votes, weighted, count least."""
    first, second = np.triu_indices(len(diagnostics.agents), 1)
    order = np.argsort(diagnostics.effective, kind="stable")[:_THINNEST]
    columns = first, second, diagnostics.votes, diagnostics.effective.round(1)
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    return [dict(zip(("first", "second", "votes", "effective"), row, strict=True)) for row in rows]


# -- audits and plans -------------------------------------------------------------------------------------------------


class Part(Protocol):
    """What a caller adds to a report: the outside of `nasheval.audit.section.Section`."""

    @property
    def title(self) -> str:
        """A few words."""

    def lines(self) -> list[str]:
        """Return sentences, the most important first."""

    def listings(self) -> Sequence[Any]:
        """Return tables, each with title, names, numbers and rows of text."""

    def charts(self) -> Sequence[Any]:
        """Return bars, each with title, labels, values, lower, upper and marked."""


def part_of(part: Part) -> dict[str, Any]:
    """Return what a caller adds as values of JSON."""
    return {
        "title": str(part.title),
        "lines": [str(line) for line in part.lines()],
        "listings": [
            {
                "title": str(one.title),
                "names": [str(name) for name in one.names],
                "numbers": [str(name) for name in one.numbers],
                "rows": [[str(cell) for cell in row] for row in one.rows],
            }
            for one in part.listings()
        ],
        "charts": [
            {
                "title": str(one.title),
                "labels": [str(label) for label in one.labels],
                **{name: rounded(getattr(one, name), 6) for name in ("values", "lower", "upper")},
                "marked": [bool(mark) for mark in one.marked],
            }
            for one in part.charts()
        ],
    }


# -- held-out comparisons ---------------------------------------------------------------------------------------------


def held_out_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return how P policies did on a held-out log: over all contexts first, then over groups."""
    return {
        "policies": evaluation.policies,
        "confidence": evaluation.confidence,
        "verdict": evaluation.verdict,
        "at_every_look": evaluation.planned is not None,
        "by": evaluation.by,
        "contests": [_round_robin(contest) for contest in (evaluation.overall, *evaluation.groups)],
        "cost": None if evaluation.spending is None else rounded(evaluation.spending.mean, 8),
        "notes": evaluation.notes,
    }


def _round_robin(contest: Contest) -> dict[str, Any]:
    """Return what each row wins against each column, and what the best single agent wins against each policy."""
    return {
        "name": contest.name,
        "contexts": contest.n_contexts,
        **{name: [rounded(row) for row in getattr(contest, name)] for name in ("value", "lower", "upper")},
        "same": (contest.error == 0).tolist(),
        "opponent": contest.worst_opponent,
        **{name: rounded(getattr(contest, name)) for name in ("worst", "worst_lower", "worst_upper")},
    }

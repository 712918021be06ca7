"""The report: one self-contained page on a fitted model. `gather` what it shows, `render` it, `write_report` it."""

from __future__ import annotations

from nasheval.scoring.report.gathering import ReportData, gather, gather_model
from nasheval.scoring.report.rendering import render, write_report

__all__ = ["ReportData", "gather", "gather_model", "render", "write_report"]

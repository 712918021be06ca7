"""What a reader saw, and what was wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nasheval.errors import ReadError


@dataclass(frozen=True)
class ReadReport:
    """What a reader saw: kept with the log, shown by `nasheval check`.

    Args:
        source: the file or object.
        kind: what it was taken to be.
        rows: rows read.
        used: rows that became records.
        roles: which column plays which role.
        labels: how many rows carry each raw label, and what it was taken to mean.
        dropped: rows left out because the user asked for it, by reason.
        problems: rows that were left out because something is wrong with them.
    """

    source: str
    kind: str
    rows: int
    used: int
    roles: dict[str, str] = field(default_factory=dict)
    labels: dict[str, tuple[str, int]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    problems: tuple[ReadError, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        labels = {label: {"meaning": meaning, "rows": rows} for label, (meaning, rows) in self.labels.items()}
        return {**vars(self), "labels": labels, "problems": [str(problem) for problem in self.problems]}

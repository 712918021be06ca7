"""What a reader saw, and what was wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from nasheval.errors import Argument, ReadError, Text, pieces


@dataclass(frozen=True)
class Problem:
    """Something wrong with some rows; the arguments are those of `ReadError`."""

    what: str
    rows: tuple[int, ...]
    total: int
    column: str | None = None
    accepted: str = ""
    fix: Text = ""

    def line(self, source: str) -> str:
        """Return the problem on one line."""
        return str(self.error(source)).partition("\n")[0]

    def error(self, source: str, *, others: int = 0) -> ReadError:
        """Return the problem as an error."""
        fix = (*pieces(self.fix), ", or ") if self.fix else ()
        fix += ("pass ", Argument("on_error", "skip"), " to leave such rows out")
        if others:
            fix += (f". {others} other kind{'s' if others > 1 else ''} of problem: `nasheval check` lists them all",)
        return ReadError(
            self.what,
            source=source,
            column=self.column,
            rows=self.rows,
            total=self.total,
            accepted=self.accepted,
            fix=fix,
        )


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
    problems: tuple[Problem, ...] = ()

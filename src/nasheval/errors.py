"""Every error the package raises on purpose.

    NashEvalError
    ├── InputError            an argument or a value that cannot be used (also a ValueError)
    │   └── ReadError         a file or table that cannot be understood; carries where and why
    │       └── ModelFileError    a saved model that is damaged, edited or of a newer format
    ├── MissingExtraError     a feature whose optional dependency is not installed (also an ImportError)
    └── ConvergenceError      a solver that did not converge (also a RuntimeError)

A message says what was found and where, what is accepted, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


class NashEvalError(Exception):
    """Base of every error the package raises on purpose."""


class InputError(NashEvalError, ValueError):
    """An argument or a value that cannot be used."""


class ReadError(InputError):
    """A file or table that cannot be understood.

    Args:
        what: what was found, as a clause without a full stop.
        source: the file or object that was read.
        column: the column concerned, if one is.
        rows: the first row numbers concerned, counted from 1 without the header.
        total: how many rows are concerned in all.
        accepted: what would have been accepted.
        fix: what to do about it.
    """

    def __init__(
        self,
        what: str,
        *,
        source: str,
        column: str | None = None,
        rows: tuple[int, ...] = (),
        total: int = 0,
        accepted: str = "",
        fix: str = "",
    ) -> None:
        self.what, self.source, self.column, self.rows = what, source, column, rows
        self.total = max(total, len(rows))
        self.accepted, self.fix = accepted, fix
        super().__init__(str(self))

    def __reduce__(self) -> tuple[Callable[[str], ReadError], tuple[str]]:  # so that it crosses process boundaries
        names = ("source", "column", "rows", "total", "accepted", "fix")
        return partial(type(self), **{name: getattr(self, name) for name in names}), (self.what,)

    def __str__(self) -> str:
        lines = [f"{self.source}{self._where()}: {self.what}."]
        if self.accepted:
            lines.append(f"  Accepted: {self.accepted}.")
        if self.fix:
            lines.append(f"  To do: {self.fix}.")
        return "\n".join(lines)

    def _where(self) -> str:
        parts = []
        if self.column:
            parts.append(f"column {self.column!r}")
        if self.rows:
            noun = "row" if self.total == 1 else "rows"
            more = f" and {self.total - len(self.rows):,} more" if self.total > len(self.rows) else ""
            parts.append(f"{noun} {', '.join(map(str, self.rows))}{more}")
        return f", {', '.join(parts)}" if parts else ""


class ModelFileError(ReadError):
    """A saved model that is damaged, edited, incomplete, or of a newer format; arguments as for `ReadError`."""


class MissingExtraError(NashEvalError, ImportError):
    """A feature whose optional dependency is not installed.

    Args:
        package: the package that is missing.
        extra: the extra of nasheval that installs it.
        purpose: what it is needed for.
    """

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        self.package, self.extra, self.purpose = package, extra, purpose
        super().__init__(f"{purpose} needs the package {package!r}. Install it with: pip install 'nasheval[{extra}]'")

    def __reduce__(self) -> tuple[Callable[[str], MissingExtraError], tuple[str]]:
        return partial(type(self), extra=self.extra, purpose=self.purpose), (self.package,)


class ConvergenceError(NashEvalError, RuntimeError):
    """A solver that did not converge; what it has is never handed out."""

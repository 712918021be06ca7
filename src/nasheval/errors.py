"""Every error the package raises on purpose.

    NashEvalError
    ├── InputError            an argument or a value that cannot be used (also a ValueError)
    │   ├── NotFittedError    a model asked before it was fitted (also scikit-learn's; in `nasheval.estimator`)
    │   └── ReadError         a file or table that cannot be understood; carries where and why
    │       └── ModelFileError    a saved model that is damaged, edited or of a newer format
    ├── MissingExtraError     a feature whose optional dependency is not installed (also an ImportError)
    └── ConvergenceError      a solver that did not converge (also a RuntimeError)

A message says what was given and where, what is accepted, and what to do. Where it names an argument to give, it
holds an `Argument`, so that Python is told `unseen='model'` and the command line `--unseen model`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Argument:
    """An argument that a message names: `unseen='model'` in Python, `--unseen model` on the command line.

    Args:
        name: of the argument.
        value: what to give; without it, the message names the argument alone, as in `winner=`.
        flag: what the command line says where name and value do not; with it and no value, Python says just the name.
    """

    name: str
    value: object = ...
    flag: str = ""

    def __str__(self) -> str:
        if self.value is ...:
            return self.name if self.flag else f"{self.name}="
        if isinstance(self.value, Mapping):
            pairs = (f"{key!r}: {'...' if value is ... else repr(value)}" for key, value in self.value.items())
            return f"{self.name}={{{', '.join(pairs)}}}"
        return f"{self.name}={self.value!r}"

    def as_flag(self) -> str:
        """Return the same in the words of the command line."""
        flag = self.flag or f"--{self.name.replace('_', '-')}"
        if self.flag or self.value is ... or self.value is True:
            return flag
        if isinstance(self.value, Mapping):
            pairs = (f"{key or ''}={'...' if value is ... else value}" for key, value in self.value.items())
            return f"{flag} '{','.join(pairs)}'"
        return f"{flag} {','.join(self.value) if isinstance(self.value, list) else self.value}"


Text = str | tuple[str | Argument, ...]


class NashEvalError(Exception):
    """Base of every error the package raises on purpose; made of the pieces of its message, text and `Argument`s."""

    def message(self, spelling: Callable[[Argument], str] = str) -> str:
        """Return the message, with arguments spelled as in Python or as `Argument.as_flag` has them."""
        return "".join(spelling(piece) if isinstance(piece, Argument) else str(piece) for piece in self.args)

    def __str__(self) -> str:
        return self.message()


class InputError(NashEvalError, ValueError):
    """An argument or a value that cannot be used."""


class ReadError(InputError):
    """A file or table that cannot be understood.

    Args:
        what: what is wrong, as a clause without a full stop.
        source: the file or object that was read.
        column: the column concerned, if one is.
        rows: the first row numbers concerned, counted from 1 without the header.
        total: how many rows are concerned in all.
        accepted: what would have been accepted.
        fix: what to do about it.

    What, accepted and fix may be tuples of text and `Argument`s.
    """

    def __init__(
        self,
        what: Text,
        *,
        source: str,
        column: str | None = None,
        rows: tuple[int, ...] = (),
        total: int = 0,
        accepted: Text = "",
        fix: Text = "",
    ) -> None:
        self.what, self.source, self.column, self.rows = what, source, column, rows
        self.total = max(total, len(rows))
        self.accepted, self.fix = accepted, fix
        message = [f"{source}{self._where()}: ", *pieces(what), "."]
        if accepted:
            message += ["\n  Accepted: ", *pieces(accepted), "."]
        if fix:
            message += ["\n  To do: ", *pieces(fix), "."]
        super().__init__(*message)

    def __reduce__(self) -> tuple[Callable[[Text], ReadError], tuple[Text]]:  # so that it crosses process boundaries
        names = ("source", "column", "rows", "total", "accepted", "fix")
        return partial(type(self), **{name: getattr(self, name) for name in names}), (self.what,)

    def _where(self) -> str:
        where = f", column {self.column!r}" if self.column else ""
        if self.rows:
            noun = "row" if self.total == 1 else "rows"
            more = f" and {self.total - len(self.rows):,} more" if self.total > len(self.rows) else ""
            where += f", {noun} {', '.join(map(str, self.rows))}{more}"
        return where


def pieces(text: Text) -> tuple[str | Argument, ...]:
    """Return the pieces that a text is made of."""
    return (text,) if isinstance(text, str) else text


def one_line(error: BaseException) -> str:
    """Return an exception's message on one line, without its final full stop; its name where it has none."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


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

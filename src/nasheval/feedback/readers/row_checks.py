"""Row checks that every reader shares: find all that is wrong, then raise it or leave it out and say so."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from nasheval.arrays import Array, Bools, Ints
from nasheval.choices import OnError as OnError
from nasheval.errors import Argument, InputError, ReadError, Text, pieces

COUNTED = 10_000  # values that a message looks through; beyond that it gives no counts
_SHOWN_ROWS = 5
# The files that a table was read from: the name of each, how many of its rows come before, and how many are there.
Files: TypeAlias = tuple[tuple[str, int, int], ...]


class RowChecks:
    """Collects the bad rows of one table.

    Args:
        source: name of the file or object, for messages.
        n_rows: rows of the table.
        on_error: "raise" or "skip".
        files: those that the rows come from, in order; messages name the first one that is concerned.
    """

    def __init__(self, source: str, n_rows: int, on_error: OnError, files: Files = ()) -> None:
        if on_error not in ("raise", "skip"):
            raise InputError(f"on_error is {on_error!r}; accepted are 'raise' and 'skip'.")
        self.source, self.on_error, self.files = source, on_error, files
        self.bad = np.zeros(n_rows, bool)
        self.unwanted = np.zeros(n_rows, bool)
        self.faulty = np.zeros(n_rows, bool)  # bad, or would be if the user wanted them
        self.problems: list[ReadError] = []
        self.dropped: dict[str, int] = {}
        self.numbers: Ints | None = None  # of the rows in their files, counted from 1, where rows were made of others
        self.called: Mapping[str, str] = {}  # the fields of the files that columns were made of

    def reject(self, rows: Bools, what: str, *, column: str | None = None, accepted: str = "", fix: Text = "") -> None:
        """Mark rows as bad, with the reason; rows the user does not want are let be."""
        self.faulty |= rows
        rows = rows & ~self.unwanted
        if rows.any():
            file, first, elsewhere = self.located(np.flatnonzero(rows))
            what += ", in other files too" if elsewhere else ""
            skip = ("pass ", Argument("on_error", "skip"), " to leave such rows out")
            fix = (*pieces(fix), ", or ", *skip) if fix else skip
            total, column = self._count(np.flatnonzero(rows)), self.named(column)
            self.problems.append(
                ReadError(what, source=file, column=column, rows=first, total=total, accepted=accepted, fix=fix)
            )
            self.bad |= rows

    def named(self, column: str | None) -> str | None:
        """Return what messages call a column: the fields of the file that it was made of."""
        return self.called.get(column, column) if column else None

    def _count(self, rows: Ints) -> int:
        """Return how many rows of files some rows were made of."""
        if self.numbers is None:
            return len(rows)
        file = np.searchsorted(np.cumsum([count for *_, count in self.files]), rows, side="right")
        return len(np.unique(np.stack([file, self.numbers[rows]]), axis=1).T)

    def located(self, rows: Ints) -> tuple[str, tuple[int, ...], bool]:
        """Return the file of the first of some rows, the first few there, counted from 1, and whether others follow."""
        files = self.files or ((self.source, 0, len(self.bad)),)
        ends = np.cumsum([count for *_, count in files])
        place = int(np.searchsorted(ends, rows[0], side="right"))
        file, before, count = files[place]
        inside = rows[rows < ends[place]]
        numbers = inside - (ends[place] - count) + before + 1 if self.numbers is None else self.numbers[inside]
        shown = tuple(dict.fromkeys(map(int, numbers)))[:_SHOWN_ROWS]
        return file, shown, len(inside) < len(rows)

    def reject_values(
        self, rows: Bools, column: pa.ChunkedArray, rest: str, *, name: str, accepted: str = "", fix: Text = ""
    ) -> None:
        """Mark rows as bad because of what stands in a column there: "found ..." and the rest of the sentence."""
        if rows.any():
            self.reject(rows, f"found {raw_values(column, rows)}{rest}", column=name, accepted=accepted, fix=fix)

    def leave_out(self, rows: Bools, reason: str) -> None:
        """Leave rows out because the user asked for it."""
        rows = rows & ~self.unwanted
        if rows.any():
            self.dropped[reason] = self.dropped.get(reason, 0) + int(rows.sum())
            self.unwanted |= rows

    def settle(self) -> Bools:
        """Raise the first problem, or say what is skipped; return (n_rows,) the rows to keep."""
        if self.problems and self.on_error == "raise":
            first, others = self.problems[0], len(self.problems) - 1
            more = f". {others} other kind{'s' if others > 1 else ''} of problem: `nasheval check` lists them all"
            raise ReadError(**{**vars(first), "fix": (*first.fix, more)}) if others else first
        for problem in self.problems:
            print("skipped:", str(problem).split("\n")[0], file=sys.stderr)
        return ~(self.bad | self.unwanted)

    def nothing_left(self, *, of: str, accepted: str) -> ReadError:
        """Return the error for a table of which every row or ballot was left out, with the reasons."""
        reasons = [f"{reason} ({count:,})" for reason, count in self.dropped.items()]
        reasons += [f"{problem.what} ({problem.total:,})" for problem in self.problems]
        return ReadError(
            f"no usable {of} is left: {'; '.join(reasons)}",
            source=self.source,
            accepted=accepted,
            fix="mend the rows, or ask for fewer of them to be left out",
        )


def shown_values(values: Sequence[object] | Array, *, most: int = 4) -> str:
    """Return the most frequent of some values with their counts, for a message; None is "nothing"."""
    counts = Counter(map(_shown, values[:COUNTED])).most_common()
    complete = len(values) <= COUNTED
    listed = [text + (f" ({count:,}x)" if count > 1 and complete else "") for text, count in counts[:most]]
    more = f" and {len(counts) - most} more" if complete else " and others"
    return ", ".join(listed) + (more if len(counts) > most else "")


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return repr(short(value)) if isinstance(value, str) else short(str(value))


def raw_values(column: pa.ChunkedArray, rows: Bools) -> str:
    """Return what stands in some rows of a column, most frequent first, for a message."""
    few = np.flatnonzero(rows)[: COUNTED + 1]
    try:
        return shown_values([_as_python(value) for value in column.take(pa.array(few))])
    except pa.ArrowException:  # a type that Arrow can hold but not pick from
        return f"values of type {short(str(column.type), 60)}"


def _as_python(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (ValueError, OverflowError):  # a date that Python's own types cannot hold
        return value.cast(pa.int64()) if value.is_valid else None


def short(text: str, width: int = 40) -> str:
    """Return the beginning of a text that may be too long for a message."""
    return text if len(text) <= width else text[: width - 3] + "..."


def nearest(name: object, names: Sequence[str]) -> list[str]:
    """Return the one of some names that a misspelt one is closest to, or nothing."""
    return get_close_matches(str(name), names, n=1, cutoff=0.6)


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return the first of some names, for a message."""
    return (", ".join(map(repr, names[:most])) or "none") + (", ..." if len(names) > most else "")


def refuse_repeats(names: Sequence[str], source: str, noun: str) -> None:
    """Raise where two of some names are the same."""
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ReadError(
            f"two {noun}s are called {twice[0]!r}",
            source=source,
            accepted=f"a name of its own for each {noun}",
            fix="rename one of them",
        )


def several(names: object, argument: str) -> list[str]:
    """Return an argument that lists names; a single string is not such a list."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"{argument} is {names!r}; accepted is a list of names, such as {argument}=['x', 'y'].")
    return [str(name) for name in names]

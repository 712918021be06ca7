"""Columns of raw values -> numbers, times and names, with the rows that are none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from nasheval.arrays import Array, Bools, Floats, Ints
from nasheval.contexts.table import decoded, is_number, is_string
from nasheval.errors import Argument, ReadError
from nasheval.feedback.arrow_columns import coded
from nasheval.feedback.readers.row_checks import RowChecks, short

_TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6}
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
NEARLY_ALL = 0.9  # of the values that are not missing
_MISSING = pa.array(pa_csv.ConvertOptions().null_values, pa.large_string())
_KINDS = (  # what values are called, how they are written, and the types they can have, narrowest first
    ("numbers", NUMBER, [pa.int64(), pa.float64()]),
    ("true and false", r"(?i)^\s*(true|false)\s*$", [pa.bool_()]),
)


def to_numbers(column: pa.ChunkedArray) -> tuple[Floats, Bools]:
    """Return (values, is_number): float64 with NaN where the row holds no finite number."""
    column = decoded(column)
    if is_string(column.type):
        column = column.cast(pa.large_string())
        looks = pc.fill_null(pc.match_substring_regex(column, NUMBER), False)
        trimmed = pc.utf8_trim_whitespace(pc.if_else(looks, column, None))
        column = pc.cast(pc.replace_substring_regex(trimmed, r"^\+", ""), pa.float64())
    elif not is_number(column.type):
        return np.full(len(column), np.nan), np.zeros(len(column), bool)
    values = np.asarray(pc.cast(column, pa.float64(), safe=False).combine_chunks().fill_null(np.nan), np.float64)
    return values, np.isfinite(values)


def to_times(column: pa.ChunkedArray) -> tuple[Floats, Bools]:
    """Return (seconds, is_time) of timestamps, dates, numbers, or text such as 2025-04-17T10:00:00."""
    column = decoded(column)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    elif is_string(column.type):
        stamps = _as_timestamp(column)
        column = stamps if stamps.null_count < len(stamps) else column  # numbers in text are seconds
    if not pa.types.is_timestamp(column.type):
        return to_numbers(column)
    unit, ticks = column.type.unit, pc.cast(column, pa.int64())
    if unit == "ns":  # a float holds microseconds since 1970 exactly, but not nanoseconds
        unit, ticks = "us", pc.divide(ticks, 1000)
    values = np.asarray(pc.cast(ticks, pa.float64(), safe=False).combine_chunks().fill_null(np.nan)) / _TICKS[unit]
    return values, np.isfinite(values)


def _as_timestamp(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return pc.cast(column, pa.timestamp("us"))
    except pa.ArrowException:
        stamps = [_one_timestamp(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(stamps, pa.timestamp("us"))])


def _one_timestamp(text: str | None) -> object:
    from datetime import UTC, datetime

    try:
        stamp = datetime.fromisoformat(str(text))
        return stamp.astimezone(UTC).replace(tzinfo=None) if stamp.tzinfo else stamp
    except (ValueError, OverflowError):  # a zone can push the year 1 or 9999 over the edge
        return None


def numeric_column(
    checks: RowChecks,
    column: pa.ChunkedArray,
    name: str,
    *,
    role: str,
    accepted: str,
    low: float = -np.inf,
    high: float = np.inf,
) -> Floats:
    """Return a column of numbers in (low, high], rejecting every row that holds anything else."""
    values, is_number = to_numbers(column)
    bad = ~is_number | ~(values > low) | ~(values <= high)
    checks.reject_values(bad, column, f" as {role}", name=name, accepted=accepted, fix=f"correct the {role}")
    return values


def time_column(checks: RowChecks, column: pa.ChunkedArray, name: str) -> Floats:
    """Return a column of times in seconds; a null is an unknown time."""
    values, is_time = to_times(column)
    bad = ~is_time & ~is_null(column)
    accepted = "timestamps, seconds, or text such as 2025-04-17T10:00:00"
    checks.reject_values(bad, column, " as time", name=name, accepted=accepted, fix="correct the time")
    return values


def names_in(table: pa.Table, name: str, source: str) -> pa.DictionaryArray:
    """Return a column of names or ids as text; raise where its type has no plain text form."""
    kind = table[name].type
    try:
        return coded(table[name])
    except pa.ArrowException:
        raise ReadError(
            f"a column of names or ids cannot be of type {short(str(kind), 60)}",
            source=source,
            column=name,
            accepted="text or numbers",
            fix="convert the column to text, or name another one",
        ) from None


def agents_in(columns: Sequence[pa.DictionaryArray]) -> tuple[list[str], list[Ints]]:
    """Return the names in some columns, sorted, and per column (n,) the place of each row's name, -1 where it has none.

    Spaces around a name do not count, and a blank is none.
    """
    names = sorted({name.strip() for column in columns for name in column.dictionary.to_pylist()} - {""})
    number = {name: i for i, name in enumerate(names)}
    places = []
    for column in columns:
        codes = [number.get(name.strip(), -1) for name in column.dictionary.to_pylist()]
        places.append(np.array([*codes, -1], np.int32)[np.asarray(column.indices.fill_null(len(codes)))])
    return names, places


def refuse_no_agent(checks: RowChecks, agent: Ints, name: str) -> None:
    """Reject rows without an agent, -1 in (n,) agent numbers."""
    accepted = "the name of an agent in every row"
    checks.reject(agent < 0, "there is no agent", column=name, accepted=accepted, fix="fill in the name")


def is_null(column: pa.ChunkedArray) -> Array:
    """Return (n,) where a column holds nothing."""
    return np.asarray(pc.is_null(column).combine_chunks())


# -- columns of files without types -----------------------------------------------------------------------------------


def refuse_unknown(checks: RowChecks, column: pa.ChunkedArray, name: str, *, origin: str = "") -> pa.ChunkedArray:
    """Return text that is nearly all of one kind as that kind, rejecting the rows that are not; else as it is.

    CSV does not say what a column holds, and one "12x" among ten thousand numbers would make all of them text. Where
    nearly all values are of one kind, the others are errors, unless the user says that the column is categorical.

    Args:
        column: (n,) a context column of a file without types.
        name: its name.
        origin: the second file it was joined from, if it was.
    """
    if not is_string(column.type):
        return column
    codes = pc.dictionary_encode(column.cast(pa.large_string()).combine_chunks())
    rows, texts = np.asarray(codes.indices.fill_null(len(codes.dictionary))), codes.dictionary
    count = np.bincount(rows, minlength=len(texts) + 1)[:-1]
    missing = _flags(pc.is_in(pc.utf8_trim_whitespace(texts), _MISSING))
    accepted = f"as in at least {NEARLY_ALL:.0%} of the rows, or nothing where a value is missing"
    for noun, pattern, types in _KINDS:
        fits = _flags(pc.match_substring_regex(texts, pattern))
        n_fitting, n_strange = int(count[fits].sum()), int(count[~fits & ~missing].sum())
        if n_fitting and n_fitting >= NEARLY_ALL * (n_fitting + n_strange):
            strange = np.append(~fits & ~missing, False)[rows]
            checks.reject_values(
                strange,
                column,
                f" in a column of {noun}" + (f" of {origin}" if origin else ""),
                name=name,
                accepted=f"{noun}, {accepted}",
                fix=("correct the value, or name the column in ", Argument("categorical"), " if it holds categories"),
            )
            return pa.chunked_array([_parsed(texts, fits, types).take(codes.indices)])
    return column


def _flags(values: pa.Array) -> Bools:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)


def _parsed(texts: pa.Array, fits: Bools, types: list[pa.DataType]) -> pa.Array:
    """Return the texts that fit in the narrowest type that holds them all, null for the others."""
    plain = pc.replace_substring_regex(pc.utf8_trim_whitespace(pc.if_else(pa.array(fits), texts, None)), r"^\+", "")
    try:
        return plain.cast(types[0])
    except pa.ArrowInvalid:
        return plain.cast(types[-1])

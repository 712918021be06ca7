"""The values of one column, parsed as numbers, truth values or categories; a fault names its column and rows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import nasheval.compute as pc
from nasheval.contexts.table import Column, decoded, is_date, is_number, is_string
from nasheval.contexts.vectors import is_vector
from nasheval.errors import Argument, ReadError

Floats: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.int64]

LARGEST = float(np.finfo(np.float32).max)
_DAY = 86_400e6  # microseconds


def detect_kind(name: str, column: Column) -> str:
    """Read a column's kind off its Arrow type."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return "boolean"
    # A column of nothing but nulls has no type of its own; as a number it costs one constant feature.
    if is_number(kind) or pa.types.is_null(kind):
        return "numeric"
    if is_date(kind):
        return "date"
    if is_string(kind) or pa.types.is_dictionary(kind):
        return "categorical"
    if is_vector(kind):
        return "vector"
    raise ReadError(
        f"values of type {kind}",
        source="contexts",
        column=name,
        accepted="numbers, booleans, dates, strings, dictionary (categorical) columns and lists of numbers",
        fix=("convert the column to one of these, or leave it out of ", Argument("context")),
    )


def numbers(name: str, column: Column) -> Floats:
    """Parse a column as numbers, (n,) with NaN where missing; an infinite one is an error that names its rows."""
    values = _floats(_cast(name, column, pa.float64(), "a number"))
    # float32 is what every model gets: a number it cannot hold would turn into infinity there.
    wild = np.flatnonzero(np.abs(values) > LARGEST)
    if wild.size:
        raise ReadError(
            f"{float(values[wild[0]])!r} is not a finite number that 32 bits can hold",
            source="contexts",
            column=name,
            rows=_first_rows(wild),
            total=int(wild.size),
            accepted=f"finite numbers up to {LARGEST:.2g}, null where missing",
            fix="replace it by null or clip it",
        )
    return values


def days(name: str, column: Column) -> Floats:
    """Parse dates, times, or text such as 2025-04-17 as days since 1970 (in UTC), (n,) with NaN where missing."""
    column = decoded(column)
    if not (is_date(column.type) or is_string(column.type) or pa.types.is_null(column.type)):
        raise _wrong_type(name, column, "a date")
    try:
        stamps = column.cast(pa.timestamp("us"), safe=False)
    except pa.ArrowInvalid:  # text may name its zone
        stamps = _cast(name, column, pa.timestamp("us", "UTC"), "a date")
    return _floats(stamps.cast(pa.int64())) / _DAY


def truths(name: str, column: Column) -> Floats:
    """Parse booleans, the numbers 0 and 1, or strings that spell them as (n,) 0 and 1 with NaN where missing."""
    if not is_number(decoded(column).type):
        return _floats(_cast(name, column, pa.bool_(), "a truth value"))
    values = numbers(name, column)
    wrong = np.flatnonzero(~np.isin(values, (0, 1)) & ~np.isnan(values))
    if wrong.size:
        raise _not_a(name, float(values[wrong[0]]), wrong, "a truth value")
    return values


def levels_of(name: str, column: Column) -> pa.DictionaryArray:
    """Parse a column as categories, (n,) dictionary-encoded strings; numbers become their shortest spelling."""
    column = decoded(column)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    try:
        strings = column.cast(pa.large_string())
        encoded = (strings.combine_chunks() if isinstance(strings, pa.ChunkedArray) else strings).dictionary_encode()
        encoded.dictionary.validate(full=True)
    except pa.ArrowException as error:
        raise _wrong_type(name, column, "categories") from error
    return encoded


def _floats(column: Column) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _cast(name: str, column: Column, target: pa.DataType, noun: str) -> Column:
    column = decoded(column)
    kind = column.type
    if not (is_string(kind) or is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise _wrong_type(name, column, noun)
    try:
        return column.cast(target, safe=False)
    except pa.ArrowInvalid as error:
        rows = _unreadable(column, target)
        raise _not_a(name, column[int(rows[0])].as_py(), rows, noun) from error


def _unreadable(column: Column, target: pa.DataType) -> Rows:
    """Find the rows that cannot be cast; a loop, but only on the way to an error, since Arrow does not say which."""

    def fails(scalar: Any) -> bool:
        try:
            scalar.cast(target)
        except pa.ArrowInvalid:
            return True
        return False

    return np.flatnonzero([fails(scalar) for scalar in column])


def _not_a(name: str, value: object, rows: Rows, noun: str) -> ReadError:
    accepted = {
        "a number": "numbers", "a truth value": "true and false, or 1 and 0", "a date": "dates such as 2025-04-17"
    }[noun]  # fmt: skip
    return ReadError(
        f"{str(value)[:60]!r} is not {noun}",
        source="contexts",
        column=name,
        rows=_first_rows(rows),
        total=int(rows.size),
        accepted=f"{accepted}, null where missing",
        fix=("correct the values, or fit with ", Argument("categorical", [name])),
    )


def _wrong_type(name: str, column: Column, noun: str) -> ReadError:
    return ReadError(f"values of type {column.type} in place of {noun}", source="contexts", column=name)


def _first_rows(rows: Rows) -> tuple[int, ...]:
    return tuple(int(row) + 1 for row in rows[:3])

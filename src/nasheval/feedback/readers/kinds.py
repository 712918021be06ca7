"""Columns of a file without types: numbers and truth values with a few strangers among them.

CSV does not say what a column holds, and one "12x" among ten thousand numbers would make all of them text. Where
nearly all values are of one kind, those that are not are errors, unless the user says that the column is categorical.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from nasheval.arrays import Bools
from nasheval.contexts.table import is_string
from nasheval.errors import Argument
from nasheval.feedback.readers.parsing import NUMBER
from nasheval.feedback.readers.row_checks import RowChecks

NEARLY_ALL = 0.9  # of the values that are not missing
_MISSING = pa.array(pa_csv.ConvertOptions().null_values, pa.large_string())


@dataclass(frozen=True)
class _Kind:
    """What values are called, how they are written, and the types they can have, narrowest first."""

    noun: str
    pattern: str
    types: tuple[pa.DataType, ...]


_KINDS = (
    _Kind("numbers", NUMBER, (pa.int64(), pa.float64())),
    _Kind("true and false", r"(?i)^\s*(true|false)\s*$", (pa.bool_(),)),
)


def refuse_strangers(checks: RowChecks, column: pa.ChunkedArray, name: str, *, origin: str = "") -> pa.ChunkedArray:
    """Return text that is nearly all of one kind as that kind, rejecting the rows that are not; else as it is.

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
    for kind in _KINDS:
        fits = _flags(pc.match_substring_regex(texts, kind.pattern))
        n_fitting, n_strange = int(count[fits].sum()), int(count[~fits & ~missing].sum())
        if n_fitting and n_fitting >= NEARLY_ALL * (n_fitting + n_strange):
            strange = np.append(~fits & ~missing, False)[rows]
            checks.reject_values(
                strange,
                column,
                f" in a column of {kind.noun}" + (f" of {origin}" if origin else ""),
                name=name,
                accepted=f"{kind.noun}, {accepted}",
                fix=("correct the value, or name the column in ", Argument("categorical"), " if it holds categories"),
            )
            return pa.chunked_array([_parsed(texts, fits, kind).take(codes.indices)])
    return column


def _flags(values: pa.Array) -> Bools:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)


def _parsed(texts: pa.Array, fits: Bools, kind: _Kind) -> pa.Array:
    """Return the texts that fit in the narrowest type that holds them all, null for the others."""
    plain = pc.replace_substring_regex(pc.utf8_trim_whitespace(pc.if_else(pa.array(fits), texts, None)), r"^\+", "")
    for narrow in kind.types[:-1]:
        try:
            return plain.cast(narrow)
        except pa.ArrowInvalid:
            continue
    return plain.cast(kind.types[-1])

"""Columns of a table, read as plain text or checked for what no log may hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Bools
from nasheval.contexts.table import decoded


def one_line(error: BaseException) -> str:
    """Return an exception's message on one line, without its final full stop; its name where it has none."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def column_list(table: pa.Table) -> str:
    """Return the names of a table's columns, for a message."""
    return ", ".join(table.column_names) or "no columns"


def coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column as one dictionary of distinct strings and the int32 code of each row (null stays null)."""
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
        joined = column.combine_chunks()
        if isinstance(joined, pa.DictionaryArray) and not joined.dictionary.null_count:
            names = joined.dictionary.cast(pa.string())
            if len(pc.unique(names)) == len(names):
                return pa.DictionaryArray.from_arrays(joined.indices.cast(pa.int32()), names)
        column = decoded(column)
    column = column if pa.types.is_string(column.type) else column.cast(pa.string())
    codes = pc.dictionary_encode(column.combine_chunks())
    return codes if isinstance(codes, pa.DictionaryArray) else codes.combine_chunks()


def not_finite(column: pa.ChunkedArray) -> Bools:
    """Return (n,) where a numeric column holds NaN or infinity (a null is a missing value, not one of them)."""
    column = decoded(column)
    if not pa.types.is_floating(column.type):
        return np.zeros(len(column), bool)
    return np.asarray(pc.fill_null(pc.invert(pc.is_finite(column)), False).combine_chunks())

"""Columns of contexts and of voters: as plain text, checked for what no log may hold, and joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

import nasheval.compute as pc
from nasheval.arrays import Bools, Ints
from nasheval.contexts.table import decoded
from nasheval.errors import InputError, one_line


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


def refuse_not_finite(contexts: pa.Table) -> None:
    """Raise where a numeric context column holds NaN or infinity."""
    for name in contexts.column_names:
        bad = not_finite(contexts[name])
        if bad.any():
            row = int(bad.argmax())
            raise InputError(
                f"The context column {name!r} holds {contexts[name][row]} in row {row}; "
                "accepted are finite numbers, or null where a value is missing."
            )


def joined_voters(voters: Sequence[pa.Array | None]) -> tuple[pa.Array | None, list[Ints]]:
    """Return the voters of all logs once, and for each log where its voters stand among them."""
    named = [pa.array([], pa.string()) if names is None else names for names in voters]
    if all(names is None for names in voters):
        return None, [np.zeros(0, np.int32) for _ in voters]
    every = pc.unique(pa.concat_arrays([names.cast(pa.string()) for names in named]))
    return every, [np.asarray(pc.index_in(names.cast(pa.string()), every)) for names in named]


def joined_contexts(tables: list[pa.Table]) -> pa.Table:
    """Return the contexts of all logs in one table."""
    if not all(table.num_columns for table in tables):
        if any(table.num_columns for table in tables):
            raise InputError(
                "Some of the logs have context columns and others have none; read them with the same columns."
            )
        return tables[0]
    plain = [pa.table({name: decoded(table[name]) for name in table.column_names}) for table in tables]
    try:  # dictionaries are spelled out: those of two files need not agree
        return pa.concat_tables(plain, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"The context columns do not fit together: {one_line(error)}.") from None

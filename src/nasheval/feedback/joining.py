"""Voters and contexts of several logs, one after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Ints
from nasheval.contexts.table import decoded
from nasheval.errors import InputError
from nasheval.feedback.arrow_columns import one_line


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

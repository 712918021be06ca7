"""Logs one after another, their agents and voters aligned by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Ints, offsets_of
from nasheval.errors import InputError
from nasheval.feedback.base import Log
from nasheval.feedback.records import Records
from nasheval.feedback.tables import one_line


def joined(logs: Sequence[Log]) -> dict[str, Any]:
    """Return the fields of the log that holds all the logs, one after another."""
    if not logs:
        raise InputError("There is nothing to concatenate; give at least one log.")
    agents = list(dict.fromkeys(name for log in logs for name in log.agents))
    number = {name: i for i, name in enumerate(agents)}
    voters, shifts = _joined_voters(logs)
    parts = []
    for log, shift in zip(logs, shifts, strict=True):
        part = log.records.with_agents(np.array([number[name] for name in log.agents], np.int64))
        voter = None if part.voter is None else np.append(shift, np.int32(-1))[part.voter]  # -1 stays -1
        parts.append(part.replace(voter=voter))
    designs, texts = {log.given_design for log in logs}, {log.text for log in logs}
    return {
        "agents": tuple(agents),
        "contexts": _stack([log.contexts for log in logs]),
        "context_offsets": offsets_of(np.concatenate([np.diff(log.context_offsets) for log in logs])),
        "records": Records.concat(parts),
        "voters": voters,
        "text": texts.pop() if len(texts) == 1 else None,
        "given_design": designs.pop() if len(designs) == 1 else None,
    }


def _joined_voters(logs: Sequence[Log]) -> tuple[pa.Array | None, list[Ints]]:
    """Return all voters once, and for each log where its voters stand among them."""
    named = [log.voters if log.voters is not None else pa.array([], pa.string()) for log in logs]
    if all(log.voters is None for log in logs):
        return None, [np.zeros(0, np.int32) for _ in logs]
    every = pc.unique(pa.concat_arrays([names.cast(pa.string()) for names in named]))
    return every, [np.asarray(pc.index_in(names.cast(pa.string()), every)) for names in named]


def _stack(tables: list[pa.Table]) -> pa.Table:
    if not all(table.num_columns for table in tables):
        if any(table.num_columns for table in tables):
            raise InputError(
                "Some of the logs have context columns and others have none; read them with the same columns."
            )
        return tables[0]
    decoded = [_decoded(table) for table in tables]
    try:
        return pa.concat_tables(decoded, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"The context columns do not fit together: {one_line(error)}.") from None


def _decoded(table: pa.Table) -> pa.Table:
    """Return the table with dictionary columns spelled out: dictionaries of two files need not agree."""
    columns = {
        name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns)

"""A log as one Arrow table or Parquet file."""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from typing import Any, TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nasheval.arrays import Array, Ints, int_dtype
from nasheval.contexts.table import as_table, is_list
from nasheval.errors import InputError, ReadError
from nasheval.feedback.arrow_columns import one_line
from nasheval.feedback.assemble import refuse_not_finite
from nasheval.feedback.design import DesignName
from nasheval.feedback.records import Records
from nasheval.files import parse_json, whole_file

COLUMN = "_records"
FORMAT = 1
_KEY = b"nasheval.feedback"
_Log = TypeVar("_Log")


def to_arrow(
    records: Records,
    *,
    agents: tuple[str, ...],
    contexts: pa.Table,
    context_offsets: Ints,
    voters: pa.Array | None,
    text: str | None,
    design: DesignName | None,
) -> pa.Table:
    """Return one row per context: its columns, and its records as a list of structs in `_records`."""
    if COLUMN in contexts.column_names:
        raise InputError(f"A context column is called {COLUMN!r}, the name under which records are stored; rename it.")
    # Types follow from what the log holds, not from how it came about, so that equal logs are equal tables.
    named, placed = int_dtype(max(len(agents) - 1, 0)), int_dtype(int(records.sizes.max(initial=1)))
    columns = {"agents": _runs(records, records.agent, named), "blocks": _runs(records, records.block, placed)}
    columns["zero"] = pa.array(records.zero)
    if records.shown is not None:
        columns["shown"] = _runs(records, records.shown, placed)
    for name in ("propensity", "weight"):
        if (values := getattr(records, name)) is not None:
            columns[name] = pa.array(values)
    if records.time is not None:
        columns["time"] = pa.array(records.time, mask=np.isnan(records.time))
    if records.voter is not None and voters is not None:
        columns["voter"] = voters.take(pa.array(records.voter, mask=records.voter < 0)).cast(pa.string())
    nested = _list(context_offsets, pa.StructArray.from_arrays(list(columns.values()), list(columns)))
    about = {"format": FORMAT, "agents": agents, "text": text, "design": design}
    fields = {name: contexts[name] for name in contexts.column_names}
    return pa.table({**fields, COLUMN: nested}).replace_schema_metadata({_KEY: json.dumps(about)})


def _runs(records: Records, values: Ints, dtype: np.dtype[Any]) -> pa.Array:
    return _list(records.offsets, pa.array(values.astype(dtype, copy=False)))


def _list(offsets: Ints, values: pa.Array) -> pa.Array:
    if offsets.dtype == np.int64:
        return pa.LargeListArray.from_arrays(pa.array(offsets), values)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def from_arrow(table: pa.Table, make: Callable[..., _Log], *, source: str = "the Arrow table") -> _Log:
    """Return the log that `to_arrow` wrote, checked as any other input.

    Args:
        make: `Feedback.from_records`, or whatever else takes the same arguments.
    """
    about = _about(table, source)
    try:
        table.validate(full=True)
        contexts = as_table(table.drop_columns([COLUMN]).replace_schema_metadata(None))
        refuse_not_finite(contexts)
        nested = table[COLUMN].combine_chunks()
        sizes, inner = _lists(COLUMN, nested, pa.types.is_struct)
        columns = {field.name: inner.field(i) for i, field in enumerate(inner.type)}
        voters, voter = _voters(columns.get("voter"))
        records = Records.build(voter=voter, **_entries(columns), **_per_record(columns))
        return make(
            records,
            agents=about["agents"],
            contexts=contexts,
            context_of=np.repeat(np.arange(len(sizes)), sizes),
            n_contexts=len(sizes),
            voters=voters,
            text=about["text"],
            design=about["design"],
        )
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise ReadError(
            f"the stored log is damaged ({one_line(error)})",
            source=source,
            accepted="what Feedback.to_arrow or to_parquet wrote",
            fix="write the log again from its source",
        ) from None


def _about(table: pa.Table, source: str) -> dict[str, Any]:
    """Return the log's own description out of the table's metadata."""
    raw = (table.schema.metadata or {}).get(_KEY)
    if raw is None or COLUMN not in table.column_names:
        raise ReadError(
            "this is not a log written by Feedback.to_arrow or to_parquet",
            source=source,
            fix="read votes with ne.read_votes, rankings with ne.read_rankings, scores with ne.read_scores",
        )
    try:
        about = parse_json(raw)
        version, agents, text = about["format"], about["agents"], about["text"]
        names = isinstance(agents, list) and all(isinstance(agent, str) for agent in agents)
        design_known = about["design"] in (None, *get_args(DesignName))
        sound = isinstance(version, int) and version > 0 and names and isinstance(text, str | None) and design_known
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise ReadError("the description of the stored log is damaged", source=source, fix="write the log again")
    if version > FORMAT:
        raise ReadError(
            f"the log has format {version}, newer than {FORMAT}", source=source, fix="upgrade nasheval to read it"
        )
    return dict(about)


_Kind = Callable[[pa.DataType], bool]


def _column(name: str, column: pa.Array | None, kind: _Kind, *, nulls: bool = False) -> pa.Array:
    """Return the column if it is there, of the right type, and without nulls."""
    if column is None:
        raise ValueError(f"{name!r} is missing")
    if not kind(column.type):
        raise ValueError(f"{name!r} holds {column.type}")
    if column.null_count and not nulls:
        raise ValueError(f"{name!r} holds a null")
    return column


def _lists(name: str, column: pa.Array | None, kind: _Kind) -> tuple[Ints, pa.Array]:
    """Return the lengths of a column of lists, and what the lists hold."""
    lists = _column(name, column, is_list)
    return np.asarray(pc.list_value_length(lists)), _column(name, lists.flatten(), kind)


def _entries(columns: dict[str, pa.Array]) -> dict[str, Ints]:
    """Return sizes, agent, rank and, where it is told, shown."""
    sizes, agent = _lists("agents", columns.get("agents"), pa.types.is_integer)
    entries = {"sizes": sizes, "agent": np.asarray(agent.cast(pa.int64()) if pa.types.is_uint64(agent.type) else agent)}
    for name, argument in (("blocks", "rank"), ("shown", "shown")):
        if name in columns or name == "blocks":
            lengths, values = _lists(name, columns.get(name), pa.types.is_integer)
            if not np.array_equal(lengths, sizes):
                raise ValueError(f"{name!r} and 'agents' differ in length")
            entries[argument] = np.asarray(values)
    if entries["rank"].min(initial=0) < 0:
        raise ValueError("'blocks' holds a negative number")
    return entries


def _per_record(columns: dict[str, pa.Array]) -> dict[str, Array]:
    per_record = {"zero": np.asarray(_column("zero", columns.get("zero"), pa.types.is_integer))}
    for name in ("propensity", "weight", "time"):
        if name in columns:
            per_record[name] = np.asarray(_column(name, columns[name], pa.types.is_floating, nulls=name == "time"))
    return per_record


def _voters(names: pa.Array | None) -> tuple[pa.Array | None, Ints | None]:
    if names is None:
        return None, None
    names = _column("voter", names, pa.types.is_string, nulls=True)
    codes = pc.dictionary_encode(names)
    return codes.dictionary, np.asarray(pc.fill_null(codes.indices, -1))


def to_parquet(table: pa.Table, path: str | PathLike[str]) -> None:
    """Write a table to one Parquet file, whole or not at all."""
    with whole_file(path) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def from_parquet(path: str | PathLike[str], make: Callable[..., _Log]) -> _Log:
    """Return the log that `to_parquet` wrote."""
    try:
        # One file: the logs of a folder may number their agents differently.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ReadError(
            f"this is not a readable Parquet file ({one_line(error)})",
            source=str(path),
            fix="check the path, or write the log again with Feedback.to_parquet",
        ) from None
    return from_arrow(table, make, source=str(path))

"""A log as one Arrow table: the form in which a saved model keeps it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pyarrow as pa

import nasheval.compute as pc
from nasheval.arrays import Array, Ints, int_dtype
from nasheval.contexts.table import as_table, is_list
from nasheval.contexts.vectors import uniform_vectors
from nasheval.errors import InputError, one_line
from nasheval.feedback.arrow_columns import refuse_not_finite
from nasheval.feedback.coverage import Origin
from nasheval.feedback.design import DesignName
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.files import parse_json

COLUMN = "_records"
FORMAT = 3  # 1: without grades; 2: without style
_STYLE = "style."  # before the name of each column of style
_KEY = b"nasheval.feedback"


def to_arrow(log: Feedback) -> pa.Table:
    """Return one row per context: its columns, and its records as a list of structs in `_records`."""
    if COLUMN in log.contexts.column_names:
        raise InputError(f"A context column is called {COLUMN!r}, the name under which records are stored; rename it.")
    records = log.records
    # Types follow from what the log holds, not from how it came about, so that equal logs are equal tables.
    named, placed = int_dtype(max(log.n_agents - 1, 0)), int_dtype(int(records.sizes.max(initial=1)))
    columns = {"agents": _runs(records, records.agent, named), "blocks": _runs(records, records.block, placed)}
    columns["zero"] = pa.array(records.zero)
    if records.shown is not None:
        columns["shown"] = _runs(records, records.shown, placed)
    for place, name in enumerate(log.style):
        assert records.style is not None
        style = np.ascontiguousarray(records.style[:, place])
        columns[_STYLE + name] = _list(records.offsets, pa.array(style, mask=np.isnan(style)))
    for name in ("propensity", "weight", "grade"):
        if (values := getattr(records, name)) is not None:
            columns[name] = pa.array(values)
    if records.time is not None:
        columns["time"] = pa.array(records.time, mask=np.isnan(records.time))
    if records.voter is not None and log.voters is not None:
        columns["voter"] = log.voters.take(pa.array(records.voter, mask=records.voter < 0)).cast(pa.string())
    nested = _list(log.context_offsets, pa.StructArray.from_arrays(list(columns.values()), list(columns)))
    design = None if log.given_design is None else log.given_design.name
    version = FORMAT if log.style else 1 if records.grade is None else 2
    about = {"format": version, "agents": log.agents, "text": log.text, "design": design}
    if log.origin is not None:
        about["origin"] = {"tool": log.origin.tool, "means": dict(log.origin.means)}
    fields = {name: log.contexts[name] for name in log.contexts.column_names}
    return pa.table({**fields, COLUMN: nested}).replace_schema_metadata({_KEY: json.dumps(about)})


def _runs(records: Records, values: Ints, dtype: np.dtype[Any]) -> pa.Array:
    return _list(records.offsets, pa.array(values.astype(dtype, copy=False)))


def _list(offsets: Ints, values: pa.Array) -> pa.Array:
    if offsets.dtype == np.int64:
        return pa.LargeListArray.from_arrays(pa.array(offsets), values)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def from_arrow(table: pa.Table) -> Feedback:
    """Return the log that `to_arrow` wrote, checked as any other input; raises a ValueError for anything else."""
    about = _about(table)
    try:
        table.validate(full=True)
        contexts = as_table(table.drop_columns([COLUMN]).replace_schema_metadata(None))
        refuse_not_finite(contexts)
        contexts = uniform_vectors(contexts)
        sizes, inner = _lists(COLUMN, table[COLUMN].combine_chunks(), pa.types.is_struct)
        columns = {field.name: inner.field(i) for i, field in enumerate(inner.type)}
        voters, voter = _voters(columns.get("voter"))
        return Feedback.from_records(
            Records.build(voter=voter, **_entries(columns), **_per_record(columns)),
            contexts=contexts,
            context_of=np.repeat(np.arange(len(sizes)), sizes),
            n_contexts=len(sizes),
            voters=voters,
            origin=_origin(about.get("origin")),
            style=tuple(name.removeprefix(_STYLE) for name in columns if name.startswith(_STYLE)),
            **{name: about[name] for name in ("agents", "text", "design")},
        )
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"the stored log is damaged ({one_line(error)})") from None


def _about(table: pa.Table) -> dict[str, Any]:
    """Return the log's own description out of the table's metadata."""
    raw = (table.schema.metadata or {}).get(_KEY)
    if raw is None or COLUMN not in table.column_names:
        raise ValueError("this is not a stored log")
    try:
        about = parse_json(raw)
        version, agents, text = about["format"], about["agents"], about["text"]
        names = isinstance(agents, list) and all(isinstance(agent, str) for agent in agents)
        design_known = about["design"] in (None, *get_args(DesignName))
        sound = isinstance(version, int) and version > 0 and names and _is_text(text) and design_known
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise ValueError("the description of the stored log is damaged")
    if version > FORMAT:
        raise ValueError(f"the log has format {version}, newer than {FORMAT}; upgrade nasheval to read it")
    return about


def _origin(about: Any) -> Origin | None:
    if about is None:
        return None
    tool, means = about["tool"], about["means"]
    if not isinstance(tool, str) or not all(isinstance(value, int | float) for value in means.values()):
        raise ValueError("the tool that wrote the log is damaged")
    return Origin(tool, means)


def _is_text(text: object) -> bool:
    return isinstance(text, str | None) or (isinstance(text, list) and all(isinstance(name, str) for name in text))


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


def _lists(name: str, column: pa.Array | None, kind: _Kind, *, nulls: bool = False) -> tuple[Ints, pa.Array]:
    """Return the lengths of a column of lists, and what the lists hold."""
    lists = _column(name, column, is_list)
    return np.asarray(pc.list_value_length(lists)), _column(name, lists.flatten(), kind, nulls=nulls)


def _entries(columns: dict[str, pa.Array]) -> dict[str, Array]:
    """Return sizes, agent, rank and, where they are known, shown and style."""
    sizes, agent = _lists("agents", columns.get("agents"), pa.types.is_integer)
    entries: dict[str, Array] = {
        "sizes": sizes,
        "agent": np.asarray(agent.cast(pa.int64()) if pa.types.is_uint64(agent.type) else agent),
    }
    for name, argument in (("blocks", "rank"), ("shown", "shown")):
        if name in columns or name == "blocks":
            lengths, values = _lists(name, columns.get(name), pa.types.is_integer)
            if not np.array_equal(lengths, sizes):
                raise ValueError(f"{name!r} and 'agents' differ in length")
            entries[argument] = np.asarray(values)
    named = [name for name in columns if name.startswith(_STYLE)]
    styles = [_lists(name, columns[name], pa.types.is_floating, nulls=True) for name in named]
    if any(not np.array_equal(lengths, sizes) for lengths, _ in styles):
        raise ValueError("style and 'agents' differ in length")
    if styles:
        entries["style"] = np.stack([np.asarray(values) for _, values in styles], axis=1)
    if entries["rank"].min(initial=0) < 0:
        raise ValueError("'blocks' holds a negative number")
    return entries


def _per_record(columns: dict[str, pa.Array]) -> dict[str, Array]:
    per_record = {"zero": np.asarray(_column("zero", columns.get("zero"), pa.types.is_integer))}
    for name in ("propensity", "weight", "time", "grade"):
        if name in columns:
            per_record[name] = np.asarray(_column(name, columns[name], pa.types.is_floating, nulls=name == "time"))
    return per_record


def _voters(names: pa.Array | None) -> tuple[pa.Array | None, Ints | None]:
    if names is None:
        return None, None
    names = _column("voter", names, pa.types.is_string, nulls=True)
    codes = pc.dictionary_encode(names)
    return codes.dictionary, np.asarray(pc.fill_null(codes.indices, -1))

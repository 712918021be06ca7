"""Rows -> contexts: by an id, by the same prompt, else one context per row; and columns joined from a second file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Ints
from nasheval.contexts.table import is_string
from nasheval.contexts.vectors import VECTORS_ACCEPTED, as_bytes, is_vector, parse_vectors
from nasheval.errors import InputError, ReadError
from nasheval.feedback.arrow_columns import coded, not_finite
from nasheval.feedback.readers.arena import TAGS, tag_paths
from nasheval.feedback.readers.parsing import is_null, names_in
from nasheval.feedback.readers.row_checks import RowChecks, listed, short
from nasheval.feedback.readers.sources import Source, open_source


def refuse_bad_contexts(checks: RowChecks, table: pa.Table) -> None:
    """Reject rows whose numeric context is NaN or infinite, and columns that are no context at all."""
    for name in table.column_names:
        column = table[name]
        if not _is_plain(column.type):
            leaves = [*tag_paths(column.type)] if name == TAGS else []
            plain = f"name its leaves instead: {listed(leaves)}" if leaves else "flatten it into plain columns first"
            raise ReadError(
                f"a context column cannot be of type {short(str(column.type), 60)}",
                source=checks.source,
                column=name,
                accepted="numbers, booleans, text, categories, dates or lists of numbers",
                fix=f"leave the column out of the context, or {plain}",
            )
        checks.reject_values(
            not_finite(column),
            column,
            " in a numeric context",
            name=name,
            accepted="finite numbers, or nothing where a value is missing",
            fix="correct the value, or make it null where it is missing",
        )


def uniform_vectors(checks: RowChecks, table: pa.Table) -> pa.Table:
    """Return a table whose lists of numbers are of one length; rows with other ones, or NaN inside, are rejected."""
    for place, each in enumerate(table.schema):
        if not is_vector(each.type):
            continue
        parsed = parse_vectors(table[place])
        if parsed.bad.any():
            fix = "correct the vector, or leave the column out of the context"
            checks.reject(parsed.bad, parsed.why, column=each.name, accepted=VECTORS_ACCEPTED, fix=fix)
        table = table.set_column(place, each.name, parsed.column)
    return table


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    kinds = ("boolean", "integer", "floating", "decimal", "null", "date", "timestamp")
    return is_string(kind) or is_vector(kind) or any(getattr(pa.types, f"is_{name}")(kind) for name in kinds)


def uniform_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text, also in categories, as large strings: what a file is stored as must not tell logs apart."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return column.cast(pa.large_string()) if is_string(kind) else column


def refuse_id_disagreement(checks: RowChecks, table: pa.Table, ids: pa.DictionaryArray, id_name: str) -> None:
    """Reject rows that share a context id with an earlier row but not its context."""
    checks.reject(
        is_null(pa.chunked_array([ids])),
        "there is no context id",
        column=id_name,
        accepted="an id in every row",
        fix="fill in the id",
    )
    _, first, place = np.unique(codes_of(ids), return_index=True, return_inverse=True)
    for name in table.column_names:
        values = codes_of(table[name])
        checks.reject(
            values != values[first[place]],
            f"the value differs from that of an earlier row with the same {id_name!r}",
            column=name,
            accepted="one value per context id",
            fix=f"correct the value, leave {name!r} out of the context, or leave out context_id",
        )


def group_rows(
    table: pa.Table, n_rows: int, *, ids: pa.DictionaryArray | None, text: str | None
) -> tuple[pa.Table, Ints]:
    """Make one context of the rows that share an id, or a prompt with all its covariates; else one of each row.

    Returns one row per context, and (n_rows,) the context of each row.
    """
    if ids is None and text is None:
        return table, np.arange(n_rows, dtype=np.int32)
    if ids is not None:
        key = codes_of(ids)
    else:
        key, missing = codes_of(table[text]), is_null(table[text])
        key[missing] = key.max(initial=0) + 1 + np.arange(int(missing.sum()))  # an unknown prompt is like no other
        key = joint_codes([key, *(codes_of(table[name]) for name in table.column_names if name != text)])
    of_row, first = by_appearance(key)
    return table.take(pa.array(first)) if table.num_columns else table, of_row


def by_appearance(key: Ints) -> tuple[Ints, Ints]:
    """Return (n,) the number of each row's value, values in order of appearance; and the first row of each value."""
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number[place.ravel()], first[order]


def codes_of(column: pa.ChunkedArray | pa.DictionaryArray) -> Ints:
    """Return (n,) equal numbers for equal values; every null is one value of its own kind."""
    if pa.types.is_dictionary(column.type):
        indices = column.indices if isinstance(column, pa.DictionaryArray) else coded(column).indices
        return np.asarray(indices.fill_null(-1)).astype(np.int64) + 1
    joined = column.combine_chunks()
    if is_vector(joined.type):
        joined = as_bytes(joined)
    encoded = pc.dictionary_encode(joined, null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64)


def joint_codes(columns: Iterable[Ints]) -> Ints:
    """Return (n,) equal numbers for rows that are equal in every column of codes."""
    key, *others = columns
    for values in others:
        key = np.unique(key * (int(values.max(initial=0)) + 1) + values, return_inverse=True)[1].ravel()
    return key


# -- a second file ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Join:
    """Columns that come from a second table.

    Args:
        source: the second table.
        left: key column in the log.
        right: key column in the second table.
    """

    source: Source
    left: str
    right: str


def open_join(join: Any) -> Join | None:
    """Read `join=(table, "key")` or `join=(table, "left key", "right key")`."""
    if join is None:
        return None
    if not isinstance(join, tuple | list) or len(join) not in (2, 3):
        raise InputError(
            "join takes (table, key), or (table, key in the log, key in the table); the table may be a path: "
            "join=('prompts.parquet', 'prompt_id')."
        )
    opened = Join(open_source(join[0], name="the joined table"), str(join[1]), str(join[-1]))
    opened.source.need("join", opened.right)
    return opened


def joined_columns(
    checks: RowChecks, join: Join, table: pa.Table, columns: list[str], *, text: Iterable[str] = ()
) -> pa.Table:
    """Return columns of the second table, one row for each row of the log; those in `text` come as strings."""
    other, _ = join.source.read([join.right, *columns], text=[join.right, *text])
    theirs, mine = names_in(other, join.right, join.source.label), names_in(table, join.left, checks.source)
    rows = np.asarray(theirs.indices.fill_null(-1))
    seen = np.bincount(rows[rows >= 0], minlength=len(theirs.dictionary))
    if (seen > 1).any():
        raise ReadError(
            f"the key {theirs.dictionary[int(seen.argmax())].as_py()!r} stands in {int(seen.max()):,} rows",
            source=join.source.label,
            column=join.right,
            rows=tuple(int(row) + 1 for row in np.flatnonzero(rows == int(seen.argmax()))[:5]),
            total=int(seen.max()),
            accepted="each key once",
            fix="join on a column that is unique there",
        )
    row_of = np.full(len(theirs.dictionary) + 1, -1)
    row_of[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    at = np.asarray(pc.index_in(mine.dictionary, theirs.dictionary).fill_null(len(theirs.dictionary)))
    place = np.append(row_of[at], -1)[np.asarray(mine.indices.fill_null(len(mine.dictionary)))]
    checks.reject_values(
        place < 0,
        table[join.left],
        f", which is not a key of {join.source.label}",
        name=join.left,
        accepted=f"keys that stand in its column {join.right!r}",
        fix="add the missing rows there",
    )
    wide = pa.table({name: uniform_text(other[name]) for name in columns})  # repeated text outgrows 32-bit offsets
    return wide.take(pa.array(np.maximum(place, 0)))

"""What a format of another tool is: how its files are told, and how their rows become those that the readers take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Array, Floats, Ints
from nasheval.contexts.table import decoded, is_list
from nasheval.errors import ReadError, one_line
from nasheval.feedback.readers.parsing import to_numbers
from nasheval.feedback.readers.row_checks import short
from nasheval.feedback.readers.sources import Piece, Source, open_source, table_source
from nasheval.feedback.readers.text_files import Record

Kind = Literal["votes", "rankings", "scores", "partitions", "questions"]
ROW = "#row"  # among columns that a format makes: the place of the row that each is made of
Columns: TypeAlias = dict[str, Any]  # arrays of one length
Whole: TypeAlias = Callable[[pa.Table, str, str], tuple[pa.Table, dict[str, int]]]


@dataclass(frozen=True)
class Format:
    """A kind of file that some tool writes.

    Args:
        name: what people call it.
        kind: the reader that takes what is made of it; "questions" are the prompts that such a file refers to.
        marks: columns, or keys of JSON objects, that tell it from others; those after a "!" must not be there.
        example: one row of such a file.
        options: arguments of the reader, in place of its own defaults; those that name a column hold where it exists.
        made: columns that it makes.
        needs: columns they are made of, where they are there.
        columns: (table of those, name of the file) -> the made ones; `ROW` where they are not one per row.
        records: (objects, file) -> rows with the made columns and `ROW`, and what was left out, in place of `columns`:
            for JSON whose nested values differ from object to object.
        quick: table -> what `records` makes of its rows, as columns; None where its columns are of other types.
        by_path: whether names of agents stand in that of the file, so that a table in memory has none.
        tells: whether some JSON objects with these marks are of this format, where the marks do not tell.
        whole: (all rows of all files together, their source, the score to take) -> what is made of them, and what was
            left out.
    """

    name: str
    kind: Kind
    marks: tuple[str, ...]
    example: str
    options: Mapping[str, Any]
    made: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    columns: Callable[[pa.Table, str], Columns] | None = None
    records: Callable[[list[Record], Path, str], tuple[list[Record], dict[str, int]]] | None = None
    quick: Callable[[pa.Table], tuple[pa.Table, dict[str, int]] | None] | None = None
    by_path: bool = False
    tells: Callable[[list[Record]], bool] | None = None
    whole: Whole | None = None

    def fits(self, names: Iterable[str], head: Sequence[Record]) -> bool:
        """Tell whether a file with these columns, and these first objects where it is JSON, is of this format."""
        if (self.records and not head) or not self.marked(names):
            return False
        return self.tells is None or not head or self.tells(list(head))

    def marked(self, names: Iterable[str]) -> bool:
        """Tell whether its marks are among some names."""
        there = set(names)
        return all(bool(matching(mark.removeprefix("!"), there)) != mark.startswith("!") for mark in self.marks)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern with * fits; without one, the name itself where it is there."""
    return [name for name in names if (fnmatchcase(name, pattern) if "*" in pattern else name == pattern)]


def converted(source: Source, format: Format, score: str) -> Source:
    """Return a source with the columns that a format makes of each row, beside those that it has.

    Args:
        score: of several columns that hold scores, the one to take.
    """
    if format.columns is None:
        return replace(source, make=format.name)
    make = format.columns
    needs = [name for pattern in format.needs for name in _needed(source, pattern, score)]
    others = [name for pattern in format.needs for name in matching(pattern, source.names) if name not in needs]

    def fetch(columns: list[str], text: set[str], skip: int) -> Iterator[Piece]:
        raw = [name for name in columns if name not in (*format.made, ROW)]
        before: dict[str, int] = {}
        for file, table in source.pieces([*needs, *raw], text=text | set(needs)):
            made = _made(make, pa.table({name: decoded(table[name]) for name in needs}), file, format)
            row = np.asarray(made.pop(ROW, np.arange(table.num_rows)))
            made |= {name: table[name].take(pa.array(row)) for name in raw}
            made[ROW] = pa.array(row + 1 + before.get(file, 0))
            before[file] = before.get(file, 0) + table.num_rows
            yield file, pa.table({name: made[name] for name in columns})

    added = [pa.field(name, pa.null()) for name in (*format.made, ROW)]  # types are known once they are made
    fields = [field for field in source.schema if field.name not in (*format.made, ROW)]
    return replace(
        source,
        schema=pa.schema([*fields, *added]),
        fetch=fetch,
        rows=None,
        make=format.name,
        numbers=ROW,
        aside={**source.aside, **({f"other scores ({', '.join(others)})": len(others)} if others else {})},
    )


def _made(make: Callable[[pa.Table, str], Columns], table: pa.Table, file: str, format: Format) -> Columns:
    try:
        return make(table, file)
    except pa.ArrowException as error:
        kinds = ", ".join(f"{field.name}: {short(str(field.type))}" for field in table.schema)
        raise ReadError(
            f"this looks like {format.name}, but its columns hold something else ({one_line(error)}; {kinds})",
            source=file,
            accepted=f"rows such as {format.example}",
            fix="check that this is the file you meant",
        ) from None


def _needed(source: Source, pattern: str, score: str) -> list[str]:
    names = matching(pattern, source.names)
    if score and names and "*" in pattern:
        names = [name for name in names if name in (score, pattern.replace("*", score))]
        source.need("score", *([] if names else [score]))
    return names[:1]


def from_records(rows: list[Record], file: Path, format: Format, metric: str) -> Source:
    """Return the rows that a format makes of JSON objects."""
    assert format.records is not None
    made, aside = format.records(rows, file, metric)
    names = dict.fromkeys([*format.made, *(name for row in made for name in row)])
    table = pa.table({name: _column([row.get(name) for row in made]) for name in names})
    return _made_source(table, aside, file, format)


def from_table(table: pa.Table | None, file: Path, format: Format, metric: str) -> Source | None:
    """Return the rows that a format of JSON objects makes of a table, one object per row, all at once; None: cannot."""
    made = None if table is None or format.quick is None else format.quick(table)
    return None if made is None else _made_source(*made, file, format)


def _made_source(made: pa.Table, aside: dict[str, int], file: Path, format: Format) -> Source:
    if not made.num_rows:
        what = "; ".join(f"{reason} ({count:,})" for reason, count in aside.items()) or "no row of that kind is in it"
        raise ReadError(
            f"this looks like {format.name}, but no row can be made of it: {what}",
            source=str(file),
            accepted=f"rows such as {format.example}",
            fix="check that this is the file you meant",
        )
    return replace(table_source(made, str(file)), files=(file,), make=format.name, numbers=ROW, aside=aside)


def _column(values: list[Any]) -> pa.Array:
    """Return values as an array; as text where they are nested, or have no common type."""
    try:
        made = pa.array(values)
        if not pa.types.is_nested(made.type):
            return made
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    return pa.array([None if value is None else str(value) for value in values])


def settled(source: Source, format: Format, score: str = "") -> Source:
    """Return what a format makes of all rows together, where it does that."""
    if format.whole is None:
        return source
    table, files = source.read([*format.made, ROW])
    made, aside = format.whole(table, source.label, score)
    return replace(
        open_source(made, name=source.label),
        files=source.files,
        make=format.name,
        numbers=ROW if len(files) == 1 and ROW in made.column_names else "",
        aside={**source.aside, **aside},
    )


# -- columns ----------------------------------------------------------------------------------------------------------


def texts(table: pa.Table, *names: str) -> pa.ChunkedArray:
    """Return the first of some columns that is there, as text; nulls where none is."""
    for name in names:
        if name in table.column_names:
            return table[name].cast(pa.large_string())
    return pa.chunked_array([pa.nulls(table.num_rows, pa.large_string())])


def spliced(*columns: pa.ChunkedArray, by: str = "/") -> pa.ChunkedArray:
    """Return columns of text spliced into one."""
    return pc.binary_join_element_wise(*columns, pa.scalar(by, pa.large_string()))


def numbers(table: pa.Table, name: str) -> Floats:
    """Return a column as numbers, NaN where there is none."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    column = table[name]
    return to_numbers(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column)[0]


def listed_values(table: pa.Table, name: str, file: str, *path: str) -> tuple[pa.Array, Ints, Ints]:
    """Return (values, row, place) of a column of lists: what stands in each list, one after the other.

    Args:
        path: fields that lead to the value inside each item of a list.
    """
    column = table[name].combine_chunks()
    kind = column.type
    inner: Any = kind.value_type if is_list(kind) else kind
    fits = is_list(kind)
    for step in path if fits and not pa.types.is_null(inner) else ():
        fits = fits and pa.types.is_struct(inner) and inner.get_field_index(step) >= 0
        inner = inner.field(step).type if fits else inner
    if not fits:
        shape = f"lists of objects with {'.'.join(path)!r}" if path else "lists"
        raise ReadError(
            f"found values of type {short(str(kind), 60)}",
            source=file,
            column=name,
            accepted=shape,
            fix="check that this is the file you meant",
        )
    row = np.asarray(pc.list_parent_indices(column)).astype(np.int64)
    values = pc.list_flatten(column)
    if not pa.types.is_null(values.type):
        values = pc.struct_field(values, list(path)) if path else values
    place = np.arange(len(row)) - np.searchsorted(row, row)
    return values, row, place


def item(lists: pa.Array, place: int) -> pa.Array:
    """Return (n,) what stands at a place of each list; null where it is shorter."""
    row = np.asarray(pc.list_parent_indices(lists))
    there = np.flatnonzero(np.arange(len(row)) - np.searchsorted(row, row) == place)
    at = np.full(len(lists), -1)
    at[row[there]] = there
    return pc.list_flatten(lists).take(pa.array(at, mask=at < 0))


def chosen(flags: Array, one: Any, other: Any) -> Any:
    """Return `one` where flags hold, else `other`: text, or columns of text."""
    return pc.if_else(pa.chunked_array([pa.array(np.asarray(flags, bool))]), one, other)

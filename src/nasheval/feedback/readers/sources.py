"""Files and objects of any make, opened so that only the columns asked for are read."""

from __future__ import annotations

import dataclasses
import glob
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nasheval.contexts.table import as_table, decoded, is_hugging_face, is_list
from nasheval.errors import Argument, InputError, ReadError, one_line
from nasheval.feedback.readers.own_fields import OwnFields
from nasheval.feedback.readers.parquet_files import parquet_batches
from nasheval.feedback.readers.row_checks import Files, listed, nearest, refuse_repeats
from nasheval.feedback.readers.text_files import UNREADABLE, open_csv, read_json

ACCEPTED = ".parquet, .csv, .tsv, .jsonl, .json, .arrow or .feather (the text formats also with .gz)"


# Some rows of a file, and the name of that file; (columns, text columns, rows to skip) -> all of them.
Piece: TypeAlias = tuple[str, pa.Table]
Fetch: TypeAlias = Callable[[list[str], set[str], int], Iterable[Piece]]


@dataclass(frozen=True)
class Source:
    """Something with columns that can be read.

    Args:
        label: how messages call it.
        schema: names and types, types as far as known before reading.
        fetch: (columns, text columns, rows to skip) -> pieces; text columns are never taken for numbers.
        untyped: whether the file does not say what a column holds, as CSV does not.
        rows: how many there are, where that is known before reading; else no rows can be skipped.
        files: those that are read.
        make: what wrote it, where that is known.
        numbers: the column that holds the number of each row in its file, where rows were made of others.
        aside: what was left out before there were rows, in words.
        own: what its fields are, where a known tool wrote them.
    """

    label: str
    schema: pa.Schema
    fetch: Fetch
    untyped: bool = False
    rows: int | None = None
    files: tuple[Path, ...] = ()
    make: str = ""
    numbers: str = ""
    aside: Mapping[str, int] = dataclasses.field(default_factory=dict)
    own: OwnFields = dataclasses.field(default_factory=OwnFields)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    def pieces(self, columns: Iterable[str], *, text: Iterable[str] = (), skip: int = 0) -> Iterator[Piece]:
        """Yield some columns piece by piece; those in `text` come as strings, whatever they look like.

        Args:
            skip: rows to leave out at the beginning.
        """
        known, empty = self.rows is not None, True
        left = 0 if known else skip
        for file, table in self.fetch(list(dict.fromkeys(columns)), set(text), skip if known else 0):
            empty = empty and not table.num_rows
            rest = table.slice(left)
            left = max(0, left - table.num_rows)
            if rest.num_rows:
                yield file, _sound(rest, file)
        if empty and not skip:
            raise ReadError(
                "there are no rows",
                source=self.label,
                accepted="a table with at least one row",
                fix="check that this is the file or table you meant",
            )

    def read(self, columns: Iterable[str], *, text: Iterable[str] = ()) -> tuple[pa.Table, Files]:
        """Return some columns whole, and the files they come from; `text` as in `pieces`."""
        [(table, files)] = gathered(self.pieces(columns, text=text), sys.maxsize, self.label)
        pa.default_memory_pool().release_unused()  # what decoding took
        return table, files

    def need(self, role: str, *columns: str, also: Sequence[str] = ()) -> None:
        """Raise where a column that an argument (`role`; "": a model) names is neither here nor in `also`."""
        names = [*self.names, *also]
        for column in columns:
            if column not in names:
                model, bring = f"the model needs the column {column!r}", ("add it, or bring it with ", Argument("join"))
                hint = f"did you mean {near[0]!r}? P" if (near := nearest(column, names)) else "p"
                raise ReadError(
                    (f"there is no column {column!r} for ", Argument(role)) if role else model,
                    source=self.label,
                    accepted=f"its columns, {listed(names)}",
                    fix=(f"{hint}ass one of its columns as ", Argument(role)) if role else bring,
                )

    def where(self, column: str, values: Iterable[str], *, other: bool = False) -> Source:
        """Return the rows whose column spells one of some values, or none of them (`other`)."""
        wanted = pa.array(list(values), pa.large_string())

        def fetch(columns: list[str], text: set[str], skip: int) -> Iterator[Piece]:
            extra = set() if column in columns else {column}
            for file, table in self.fetch([*columns, *extra], text | extra, skip):
                inside = pc.is_in(decoded(table[column]).cast(pa.large_string()), value_set=wanted)
                yield file + chosen, table.filter(pc.invert(inside) if other else inside).select(columns)

        chosen = f" where {column}{'!=' if other else '='}{'|'.join(wanted.to_pylist())}"
        return replace(self, label=self.label + chosen, fetch=fetch, rows=None)


def gathered(pieces: Iterable[Piece], size: int, label: str) -> Iterator[tuple[pa.Table, Files]]:
    """Yield the rows of pieces as tables of `size` rows, the last one shorter, with the files they come from."""
    held: list[pa.Table] = []
    files: dict[str, int] = {}
    before: dict[str, int] = {}
    left = size

    def block() -> tuple[pa.Table, Files]:
        return joined(held, label), tuple((file, before[file], count) for file, count in files.items())

    for file, table in pieces:
        while table.num_rows:
            held.append(table.slice(0, left))
            count, table = held[-1].num_rows, table.slice(left)
            files[file], before[file], left = files.get(file, 0) + count, before.get(file, 0), left - count
            if not left:
                yield block()
                before[file] += files[file]
                held, files, left = [], {}, size
    if held:
        yield block()


def joined(tables: Sequence[pa.Table], label: str) -> pa.Table:
    """Return the pieces of a source as one table, none of it copied."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ReadError(
            f"the files do not fit together ({one_line(error)})",
            source=label,
            accepted="one type per column in all files",
            fix="give the column the same type in every file",
        ) from None


def _sound(table: pa.Table, source: str) -> pa.Table:
    """Return a table whose columns are whole, without wrappers; else raise."""
    for name in table.column_names:
        try:
            table[name].validate(full=True)
        except pa.ArrowException as error:
            raise ReadError(
                f"this column is damaged ({one_line(error)})",
                source=source,
                column=name,
                accepted="whole columns; text in UTF-8",
                fix="write the file again from its origin",
            ) from None
    return pa.table({name: _unwrapped(table[name]) for name in table.column_names})


def _unwrapped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without the wrappers (extension types, runs of equal values) that Arrow cannot compute with."""
    while isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column


def open_source(data: Any, *, name: str = "the table") -> Source:
    """Open a path (a file, a folder, a glob) or a table of any make.

    Args:
        data: what to open; a Source is returned as it is.
        name: what messages call it, where it is no file.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, str | PathLike):
        path = os.fsdecode(data)
        return together([open_file(file) for file in list_files(path)], path)
    if is_hugging_face(data):
        return _with_leaves(_open_hugging_face(data, name))
    try:
        return _with_leaves(table_source(as_table(data, name=name), name))
    except ReadError:
        raise
    except InputError as error:
        what = str(error).replace("Accepted: ", "Accepted: a path, a Hugging Face dataset, ")
        raise InputError(what) from None


def table_source(table: pa.Table, label: str) -> Source:
    """Return a table that is in memory as a source."""

    def fetch(columns: list[str], text: set[str], skip: int) -> list[Piece]:
        return [(label, table.select(columns).slice(skip))]

    return Source(label, table.schema, fetch, rows=table.num_rows)


def _open_hugging_face(data: Any, name: str) -> Source:
    def fetch(columns: list[str], text: set[str], skip: int) -> list[Piece]:
        return [(name, data.select_columns(columns).with_format("arrow")[skip:])]

    return Source(name, data.features.arrow_schema, fetch, rows=len(data))


def open_file(file: Path) -> Source:
    """Open one file by its ending."""
    opened = replace(_FORMATS[suffix_of(file)](file), files=(file,))
    refuse_repeats(opened.names, opened.label, "column")
    return _with_leaves(opened)


def together(opened: Sequence[Source], label: str) -> Source:
    """Return several files as one source; columns that nobody asks for need not be in all of them."""
    if len(opened) == 1:
        return opened[0]

    def fetch(columns: list[str], text: set[str], skip: int) -> Iterator[Piece]:
        for one in opened:
            _refuse_other_columns(one, opened, columns)
        types = joined([one.schema.empty_table().select(columns) for one in opened], label).schema
        for one in opened:
            inside = 0 if one.rows is None else min(skip, one.rows)
            skip -= inside
            for file, table in one.fetch(columns, text, inside) if one.rows != inside else ():
                yield file, _typed(table, types)

    counts = [one.rows for one in opened]
    aside = Counter[str]()
    for one in opened:
        aside.update(one.aside)
    return Source(
        label,
        pa.schema({field.name: field for one in reversed(opened) for field in one.schema}.values()),
        fetch,
        untyped=any(one.untyped for one in opened),
        rows=None if None in counts else sum(count or 0 for count in counts),
        files=tuple(file for one in opened for file in one.files),
        make=opened[0].make,
        numbers=opened[0].numbers,
        aside=aside,
    )


def _refuse_other_columns(one: Source, opened: Sequence[Source], columns: list[str]) -> None:
    missing = [name for name in columns if name not in one.names]
    if missing:
        holder = next(other for other in opened if missing[0] in other.names)
        raise ReadError(
            f"its columns differ from those of {holder.label}, and one that is used, {missing[0]!r}, is missing",
            source=one.label,
            accepted="files that all have the columns that are used",
            fix="read the files one by one and join the logs with Feedback.concat",
        )


def _with_leaves(source: Source) -> Source:
    """Return a source whose nested fields are columns too, called by their paths: `scores.gpt-4`."""
    leaves = {".".join(path): path for field in source.schema for path in _paths(field.type, (field.name,))}
    for name in source.names:
        leaves.pop(name, None)
    if not leaves:
        return source

    def fetch(columns: list[str], text: set[str], skip: int) -> Iterable[Piece]:
        roots = [leaves[name][0] if name in leaves else name for name in columns]
        pieces = source.fetch(list(dict.fromkeys(roots)), text, skip)
        if not leaves.keys() & set(columns):
            return pieces
        return ((file, _picked(table, columns, leaves)) for file, table in pieces)

    added = [pa.field(name, _leaf_type(source.schema, path)) for name, path in leaves.items()]
    return replace(source, schema=pa.schema([*source.schema, *added]), fetch=fetch)


def _paths(kind: pa.DataType, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the paths to the plain values inside a nested type; a name that stands twice names neither."""
    if not pa.types.is_struct(kind):
        return [path] if len(path) > 1 else []
    named = [field for field in kind if kind.get_field_index(field.name) >= 0]
    return [leaf for field in named for leaf in _paths(field.type, (*path, field.name))]


def _leaf_type(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind


def _picked(table: pa.Table, columns: list[str], leaves: Mapping[str, tuple[str, ...]]) -> pa.Table:
    inner = {name: pc.struct_field(table[path[0]], path[1:]) for name, path in leaves.items() if name in columns}
    return pa.table({name: inner[name] if name in inner else table[name] for name in columns})


def _typed(table: pa.Table, types: pa.Schema) -> pa.Table:
    """Return a piece of one file with the types that its columns have in all files; text may stay a dictionary."""
    for place, name in enumerate(table.column_names):
        kind, wanted = table.schema.field(name).type, types.field(name).type
        if kind != wanted and not pa.types.is_dictionary(kind) and not pa.types.is_null(wanted):
            table = table.set_column(place, name, table[name].cast(wanted))
    return table


def list_files(path: str) -> list[Path]:
    """Return the files that a path, a folder or a glob names, sorted."""
    if "\0" in path or not path.strip():
        what = "a path cannot hold a NUL character" if path.strip() else "the path is empty"
        raise ReadError(what, source=repr(path), accepted="the path of a file or folder", fix="check the path")
    here = Path(path)
    try:
        if here.is_dir():
            files = sorted(p for p in here.rglob("*") if p.is_file() and _is_data(p.relative_to(here)))
        elif here.is_file():
            files = [here]
        else:
            files = sorted(Path(name) for name in glob.glob(path, recursive=True) if Path(name).is_file())
    except (OSError, ValueError) as error:
        raise ReadError(
            f"the path cannot be used ({one_line(error)})",
            source=path,
            accepted="the path of a file or folder that may be read",
            fix="check the path",
        ) from None
    if not files:
        what = "no file in this folder can be read" if here.is_dir() else "there is no such file"
        accepted = f"{ACCEPTED}; a folder of them, or a glob"
        raise ReadError(what, source=path, accepted=accepted, fix="check the path")
    strange = [file for file in files if suffix_of(file) not in _FORMATS]
    if strange:
        ending = f"a file that ends in {strange[0].suffix!r}" if strange[0].suffix else "a file without an ending"
        raise ReadError(
            f"{ending} cannot be read",
            source=str(strange[0]),
            accepted=ACCEPTED,
            fix="rename or convert the file, or load it yourself and pass the table",
        )
    return files


def _is_data(inside: Path) -> bool:
    """Tell data from what programs leave beside it: .ipynb_checkpoints, _SUCCESS, ._votes.csv."""
    return suffix_of(inside) in _FORMATS and not any(part.startswith((".", "_")) for part in inside.parts)


def suffix_of(file: Path) -> str:
    """Return the ending of a file, with that of what was compressed."""
    suffix = file.suffix.lower()
    return Path(file.stem).suffix.lower() + suffix if suffix == ".gz" else suffix


# -- formats ----------------------------------------------------------------------------------------------------------


def _parquet(file: Path) -> Source:
    with _readable(file, "Parquet"):
        schema, rows = _decoded(pq.read_schema(file)), pq.read_metadata(file).num_rows

    def fetch(columns: list[str], text: set[str], skip: int) -> Iterator[Piece]:
        with _readable(file, "Parquet"):
            for table in parquet_batches(file, schema, columns, text, skip):
                yield str(file), table

    return Source(str(file), schema, fetch, rows=rows)


def _arrow(file: Path) -> Source:
    from pyarrow import feather

    with _readable(file, "Arrow"):
        table = feather.read_table(file, memory_map=True)
        _decoded(table.schema)
    return table_source(table, str(file))


def _csv(file: Path) -> Source:
    names, read = open_csv(file, delimiter="\t" if ".tsv" in suffix_of(file) else ",")

    def fetch(columns: list[str], text: set[str], skip: int) -> list[Piece]:
        return [(str(file), read(columns, text))]

    return Source(str(file), pa.schema([(name, pa.null()) for name in names]), fetch, untyped=True)


def _json(file: Path) -> Source:
    return table_source(read_json(file), str(file))


@contextmanager
def _readable(file: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        raise ReadError(
            f"this is not a readable {kind} file ({one_line(error)})",
            source=str(file),
            accepted=f"a whole {kind} file",
            fix="check that the file is whole and has the right ending",
        ) from None


def _decoded(fields: Any) -> Any:
    """Return a schema once all its names, nested ones too, are known to be text: Arrow raises where one is not."""
    for field in fields:
        kind, _ = field.type, field.name
        while is_list(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind):
            _decoded(kind)
    return fields


_FORMATS: dict[str, Callable[[Path], Source]] = {
    **dict.fromkeys((".parquet", ".pq"), _parquet),
    **dict.fromkeys((".arrow", ".feather"), _arrow),
    **dict.fromkeys((".csv", ".tsv", ".csv.gz", ".tsv.gz"), _csv),
    **dict.fromkeys((".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz"), _json),
}

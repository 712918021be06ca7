"""Files and objects of any make, opened so that only the columns asked for are read."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nasheval.contexts.table import as_table, decoded, is_list, is_string
from nasheval.errors import Argument, InputError, ReadError, one_line
from nasheval.feedback.readers.row_checks import listed, nearest, refuse_repeats
from nasheval.feedback.readers.text_files import UNREADABLE, open_csv, read_json

ACCEPTED = ".parquet, .csv, .tsv, .jsonl, .json, .arrow or .feather (the text formats also with .gz)"


@dataclass(frozen=True)
class Source:
    """Something with columns that can be read.

    Args:
        label: how messages call it.
        schema: names and types, types as far as known before reading.
        fetch: (columns, text columns) -> Table; text columns are never taken for numbers.
        untyped: whether the file does not say what a column holds, as CSV does not.
    """

    label: str
    schema: pa.Schema
    fetch: Callable[[list[str], set[str]], pa.Table]
    untyped: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    def read(self, columns: Iterable[str], *, text: Iterable[str] = ()) -> pa.Table:
        """Read some columns; those in `text` come as strings, whatever they look like."""
        table = self.fetch(list(dict.fromkeys(columns)), set(text))
        if not table.num_rows:
            raise ReadError(
                "there are no rows",
                source=self.label,
                accepted="a table with at least one row",
                fix="check that this is the file or table you meant",
            )
        for name in table.column_names:
            try:
                table[name].validate(full=True)
            except pa.ArrowException as error:
                raise ReadError(
                    f"this column is damaged ({one_line(error)})",
                    source=self.label,
                    column=name,
                    accepted="whole columns; text in UTF-8",
                    fix="write the file again from its origin",
                ) from None
        return pa.table({name: _unwrapped(table[name]) for name in table.column_names})

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

        def fetch(columns: list[str], text: set[str]) -> pa.Table:
            extra = set() if column in columns else {column}
            table = self.fetch([*columns, *extra], text | extra)
            inside = pc.is_in(decoded(table[column]).cast(pa.large_string()), value_set=wanted)
            return table.filter(pc.invert(inside) if other else inside).select(columns)

        sign = "!=" if other else "="
        label = f"{self.label} where {column}{sign}{'|'.join(wanted.to_pylist())}"
        return replace(self, label=label, fetch=fetch)


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
        return _open_files(os.fsdecode(data))
    if hasattr(data, "with_format") and hasattr(data, "column_names"):
        return _open_hugging_face(data, name)
    try:
        return _table_source(as_table(data, name=name), name)
    except ReadError:
        raise
    except InputError as error:
        what = str(error).replace("Accepted: ", "Accepted: a path, a Hugging Face dataset, ")
        raise InputError(what) from None


def _table_source(table: pa.Table, label: str) -> Source:
    return Source(label, table.schema, lambda columns, text: table.select(columns))


def _open_hugging_face(data: Any, name: str) -> Source:
    if isinstance(data, dict):
        splits = ", ".join(map(repr, data)) or "no splits"
        example = f"data[{next(iter(data))!r}]" if data else "data['train']"
        raise InputError(f"This is a dictionary of datasets with {splits}; pass one of them, such as {example}.")
    if not hasattr(data, "__len__"):
        raise InputError(
            "This dataset is a stream, which has no length; load it without streaming=True, or collect it into a table."
        )

    def fetch(columns: list[str], text: set[str]) -> pa.Table:
        return data.select_columns(columns).with_format("arrow")[:]

    return Source(name, data.features.arrow_schema, fetch)


def _open_files(path: str) -> Source:
    files = _files(path)
    opened = [_FORMATS[_suffix(file)](file) for file in files]
    for one in opened:
        refuse_repeats(one.names, one.label, "column")
    if len(opened) == 1:
        return opened[0]
    first = opened[0]
    for other in opened[1:]:
        if set(other.names) != set(first.names):
            odd = sorted(set(other.names) ^ set(first.names))[0]
            raise ReadError(
                f"its columns differ from those of {first.label} (column {odd!r} is in only one of them)",
                source=other.label,
                accepted="files with the same columns",
                fix="read the files one by one and join the logs with Feedback.concat",
            )

    def fetch(columns: list[str], text: set[str]) -> pa.Table:
        try:
            return pa.concat_tables([one.fetch(columns, text) for one in opened], promote_options="permissive")
        except pa.ArrowException as error:
            raise ReadError(
                f"the files do not fit together ({one_line(error)})",
                source=path,
                accepted="one type per column in all files",
                fix="give the column the same type in every file",
            ) from None

    return Source(path, first.schema, fetch, untyped=any(one.untyped for one in opened))


def _files(path: str) -> list[Path]:
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
    strange = [file for file in files if _suffix(file) not in _FORMATS]
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
    return _suffix(inside) in _FORMATS and not any(part.startswith((".", "_")) for part in inside.parts)


def _suffix(file: Path) -> str:
    suffix = file.suffix.lower()
    return Path(file.stem).suffix.lower() + suffix if suffix == ".gz" else suffix


# -- formats ----------------------------------------------------------------------------------------------------------


def _parquet(file: Path) -> Source:
    schema = _guarded(file, "Parquet", lambda: _decoded(pq.read_schema(file)))

    def fetch(columns: list[str], text: set[str]) -> pa.Table:
        # Agent names repeat millions of times: read as a dictionary they cost a few bytes per row.
        coded = [name for name in columns if name in text and is_string(schema.field(name).type)]
        return _guarded(
            file, "Parquet", lambda: pq.read_table(file, columns=columns, read_dictionary=coded, partitioning=None)
        )

    return Source(str(file), schema, fetch)


def _arrow(file: Path) -> Source:
    from pyarrow import feather

    table = _guarded(file, "Arrow", lambda: feather.read_table(file, memory_map=True))
    _guarded(file, "Arrow", lambda: _decoded(table.schema))
    return _table_source(table, str(file))


def _csv(file: Path) -> Source:
    names, fetch = open_csv(file, delimiter="\t" if ".tsv" in _suffix(file) else ",")
    return Source(str(file), pa.schema([(name, pa.null()) for name in names]), fetch, untyped=True)


def _json(file: Path) -> Source:
    return _table_source(read_json(file), str(file))


def _guarded(file: Path, kind: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
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

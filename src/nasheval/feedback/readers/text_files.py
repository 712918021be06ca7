"""The text formats, CSV and JSON, with errors that name the row."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from nasheval.arrays import Array, Ints
from nasheval.contexts.table import as_table, is_list
from nasheval.errors import InputError, ReadError, one_line
from nasheval.feedback.readers.row_checks import short

Record: TypeAlias = dict[str, Any]  # one JSON object
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, EOFError, OverflowError, MemoryError)
_UTF8 = "text in UTF-8"
_OTHER_DELIMITERS = (
    (";", "semicolons", "save the file with commas, or as .tsv with tabs"),
    ("\t", "tabs", "give the file the ending .tsv"),
    (",", "commas", "give the file the ending .csv"),
)
_SNIFFED = 1 << 20  # bytes that tell text from other files
_BLOCK = 1 << 30  # bytes of JSON parsed at a time: Arrow counts them in 32 bits, and a line may be long
_HEAD = 1 << 22  # bytes of a JSON file that are looked at to tell who wrote it
_FIRST = 50  # and lines
_OBJECTS = 'a list of objects, such as [{"model_a": "x", "model_b": "y", "winner": "tie"}]'
_DEEP = 500  # levels of nesting; Arrow's parser runs out of stack at some thousands


def _opened(file: Path, size: int | None = None) -> bytes:
    try:
        with pa.input_stream(str(file), compression="detect") as stream:
            return bytes(stream.read() if size is None else stream.read(size))
    except UNREADABLE as error:
        raise ReadError(
            f"the file cannot be read ({one_line(error)})",
            source=str(file),
            accepted="a whole file of the kind that its ending says",
            fix="check that the file is whole, may be read, and has the right ending",
        ) from None


def _refuse_no_text(file: Path, head: bytes, accepted: str) -> str:
    """Return the beginning of a file as text, or raise where it is none."""
    if not head.strip():
        fix = "check that this is the file you meant"
        raise ReadError("the file is empty", source=str(file), accepted=accepted, fix=fix)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _not_utf8(file, "this text is in UTF-16")
    text = head.decode("utf-8-sig", errors="replace")
    if "\0" in text or text.count("\ufffd") > max(4, len(text) // 100):
        if all(sign >= 32 or sign in b"\t\n\r\f" for sign in head):
            raise _not_utf8(file, "this text is not in UTF-8; it may be in Latin-1")
        raise ReadError(
            "this is a binary file, not text",
            source=str(file),
            accepted=_UTF8,
            fix="give the file its true ending, or save it as UTF-8",
        )
    return text


def _not_utf8(file: Path, what: str, column: str | None = None, rows: tuple[int, ...] = ()) -> ReadError:
    fix = "save the file as UTF-8" + (" (a spreadsheet calls it 'CSV UTF-8')" if ".csv" in file.suffixes else "")
    return ReadError(what, source=str(file), column=column, rows=rows, accepted=_UTF8, fix=fix)


# -- CSV --------------------------------------------------------------------------------------------------------------


def open_csv(file: Path, *, delimiter: str) -> tuple[list[str], Callable[[list[str], set[str]], pa.Table]]:
    """Return the names in the header, and (columns, text columns) -> Table."""
    text = _refuse_no_text(file, _opened(file, _SNIFFED), "a header line and at least one row")
    try:
        names = next(row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row)
    except (csv.Error, StopIteration) as error:
        raise ReadError(
            f"the header line cannot be read ({one_line(error)})",
            source=str(file),
            accepted="a first line with the names of the columns",
            fix="check the quotes in the first line",
        ) from None
    for other, word, fix in _OTHER_DELIMITERS:
        if len(names) == 1 and other != delimiter and other in names[0]:
            what = f"the columns are separated by {word}, not by {'tabs' if delimiter == chr(9) else 'commas'}"
            raise ReadError(what, source=str(file), accepted="commas in .csv, tabs in .tsv", fix=fix)
    return names, partial(_read_csv, file, names, delimiter)


def _read_csv(file: Path, names: list[str], delimiter: str, columns: list[str], text: set[str]) -> pa.Table:
    types = dict.fromkeys(text & set(columns), pa.string())
    read = partial(_parsed, file, delimiter, pa_csv.ConvertOptions(include_columns=columns, column_types=types))
    try:
        table = read(use_threads=True)
    except UNREADABLE:
        try:
            table = read(use_threads=False)  # only then does the message count rows
        except UNREADABLE as error:
            raise _csv_error(file, names, one_line(error)) from None
    for place, column in enumerate(table.columns):
        name = table.column_names[place]
        if pa.types.is_binary(column.type):
            raise _not_utf8(file, "some of this text is not in UTF-8", name)
        if pa.types.is_string(column.type):  # where nothing is written a value is missing: CSV cannot say it otherwise
            table = table.set_column(place, name, pc.if_else(pc.equal(column, ""), None, column))
    return table


def _parsed(file: Path, delimiter: str, convert: pa_csv.ConvertOptions, *, use_threads: bool) -> pa.Table:
    with pa.input_stream(str(file), compression="detect") as stream:
        return pa_csv.read_csv(
            stream,
            read_options=pa_csv.ReadOptions(block_size=1 << 24, use_threads=use_threads),
            parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=convert,
        )


def _csv_error(file: Path, names: list[str], message: str) -> ReadError:
    place, row = re.search(r"column #(\d+)", message), re.search(r"Row #(\d+): ", message)
    column = names[int(place[1])] if place and int(place[1]) < len(names) else None
    rows = (int(row[1]) - 1,) if row else ()  # Arrow counts the header
    what = message[row.end() :] if row else message
    if "UTF8" in what:
        return _not_utf8(file, "this text is not in UTF-8", column, rows)
    return ReadError(
        f"the row does not parse ({what.removeprefix('CSV parse error: ')})",
        source=str(file),
        column=column,
        rows=rows,
        accepted="rows with as many values as the header has names",
        fix="mend that row, and quote values that hold the delimiter or a quote",
    )


# -- JSON -------------------------------------------------------------------------------------------------------------


def read_json(file: Path) -> pa.Table:
    """Return one JSON object per line, or a list of them, as a table."""
    raw = _json_text(file)
    if _is_list(raw):
        return _as_columns(file, _json_list(file, raw))
    _refuse_odd_lines(file, raw)
    try:
        table = _arrow_lines(raw)
    except UNREADABLE as error:
        table = _irregular(file, raw, one_line(error))
    if _miscounted(table):
        table = _as_columns(file, _json_lines(file, raw))
    if table.num_rows == 1 and table.num_columns and all(pa.types.is_struct(kind) for kind in table.schema.types):
        raise ReadError(
            "this is a table stored column by column",
            source=str(file),
            accepted="one JSON object per row",
            fix="write it by rows, as with to_json(..., orient='records', lines=True) in pandas",
        )
    return table


def read_records(file: Path) -> list[Record]:
    """Return one JSON object per line, or a list of them, as they are."""
    raw = _json_text(file)
    if _is_list(raw):
        rows = _json_list(file, raw)
        odd = [place for place, row in enumerate(rows, start=1) if not isinstance(row, dict)]
        if odd:
            raise _bad_line(file, odd[0], f"found {short(json.dumps(rows[odd[0] - 1]))}, which is no object")
        return rows
    _refuse_odd_lines(file, raw)
    return _json_lines(file, raw)


def read_document(file: Path) -> Any:
    """Return the one value that a JSON file holds."""
    try:
        return json.loads(_json_text(file))
    except (ValueError, RecursionError) as error:
        fix, what = "check that the file is whole", f"the JSON does not parse ({one_line(error)})"
        raise ReadError(what, source=str(file), accepted="one JSON value", fix=fix) from None


def read_lines(file: Path) -> pa.Table | None:
    """Return one JSON object per line as a table; None where it is a list, or Arrow cannot read it."""
    raw = _json_text(file)
    if _is_list(raw):
        return None
    _refuse_odd_lines(file, raw)
    try:
        table = _arrow_lines(raw)
        return None if _miscounted(table) else table
    except UNREADABLE:
        return None


def _arrow_lines(raw: bytes) -> pa.Table:
    block = pa_json.ReadOptions(block_size=min(len(raw) + 1, _BLOCK))
    return pa_json.read_json(pa.BufferReader(raw), read_options=block)


def _miscounted(table: pa.Table) -> bool:
    """Tell whether Arrow took lists that begin with nulls, before it knew what they hold, for others than they are."""
    for kind, column in zip(table.schema.types, table.columns, strict=True):
        if is_list(kind) and pa.types.is_null(kind.value_type):
            return True
        try:
            if pa.types.is_nested(kind):
                column.validate(full=True)
        except pa.ArrowException:
            return True
    return False


def first_records(file: Path) -> list[Record]:
    """Return some of the first objects of a JSON file, nothing where they cannot be read: they tell who wrote it."""
    try:
        for size in (_HEAD, None):
            raw = _opened(file, size).removeprefix(b"\xef\xbb\xbf").lstrip()
            if found := _first_of_list(raw) if _is_list(raw) else _first_lines(raw, whole=len(raw) < _HEAD):
                return found
    except (ReadError, RecursionError):
        return []
    return []


def is_json(file: Path) -> bool:
    """Tell whether a file is JSON of whatever kind: one value, or one per line."""
    raw = _opened(file).removeprefix(b"\xef\xbb\xbf")
    return _is_value(raw) or (bool(raw.strip()) and all(_is_value(line) for line in io.BytesIO(raw) if line.strip()))


def _is_value(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _first_of_list(raw: bytes) -> list[Record]:
    try:
        text = raw.decode("utf-8", "replace")
        first, _ = json.JSONDecoder().raw_decode(text, re.compile(r"\s*").match(text, 1).end())  # type: ignore[union-attr]
    except ValueError:  # cut, or broken
        return []
    return [first] if isinstance(first, dict) else []


def _first_lines(raw: bytes, *, whole: bool) -> list[Record]:
    lines = raw.splitlines()[: None if whole else -1][:_FIRST]
    try:
        rows = [json.loads(line) for line in lines if line.strip()]
    except ValueError:
        return []
    return rows if all(isinstance(row, dict) for row in rows) else []


def _is_list(raw: bytes) -> bool:
    return raw[:_SNIFFED].lstrip()[:1] == b"["


def _json_text(file: Path) -> bytes:
    raw = _opened(file).removeprefix(b"\xef\xbb\xbf")
    _refuse_no_text(file, raw[:_SNIFFED], "one JSON object per line, or a list of them")
    try:
        ends = pa.py_buffer(np.array([0, len(raw)], np.int64))
        pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(raw)).validate(full=True)
    except pa.ArrowException:
        raise _not_utf8(file, "this text is not in UTF-8") from None
    return raw


def _irregular(file: Path, raw: bytes, message: str) -> pa.Table:
    """Return lines that Arrow cannot read because a nested value changes its type, or a number is NaN; else raise."""
    if "changed from" in message or "Invalid value" in message:
        try:
            return _as_columns(file, _json_lines(file, raw))
        except ReadError:
            pass
    raise _json_error(file, message)


def _json_lines(file: Path, raw: bytes) -> list[Record]:
    rows: list[Record] = []
    for line in io.BytesIO(raw):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise _bad_line(file, len(rows) + 1, f"the line does not parse ({one_line(error)})") from None
    return rows


def _refuse_odd_lines(file: Path, raw: bytes) -> None:
    """Raise for a line that is no object of its own, or is nested so deeply that Arrow's parser would crash."""
    row = 0
    for line in io.BytesIO(raw):
        line = line.strip()
        row += bool(line)
        if line and not (line.startswith(b"{") and line.endswith(b"}")):
            text = short(line.decode("utf-8", "replace"))
            raise _bad_line(
                file, row, f"{text!r} is not a whole JSON object", "mend that line: each object stands on one"
            )
        if line.count(b"{") + line.count(b"[") > _DEEP and _too_deep(line):
            raise _bad_line(file, row, f"the values are nested more than {_DEEP} levels deep")


def _bad_line(file: Path, row: int, what: str, fix: str = "mend that line", column: str | None = None) -> ReadError:
    return ReadError(
        what,
        source=str(file),
        column=column,
        rows=(row,) if row else (),
        accepted='one JSON object per line, such as {"model_a": "x", "model_b": "y", "winner": "tie"}; each key with '
        "one type throughout",
        fix=fix,
    )


def _too_deep(text: bytes) -> bool:
    """Tell whether brackets outside strings are nested too deeply."""
    raw = np.frombuffer(text, np.uint8)
    places = np.flatnonzero((raw | 0x20 == ord("{")) | (raw | 0x20 == ord("}")))  # [ and ] are { and } but for that bit
    places = places[np.searchsorted(_quotes(raw), places) % 2 == 0]
    opened = raw[places] | 0x20 == ord("{")
    return bool(np.cumsum(np.where(opened, 1, -1), dtype=np.int32).max(initial=0) > _DEEP)


def _quotes(raw: Array) -> Ints:
    """Return the places of the quotes that begin and end strings: not those after an odd number of backslashes."""
    quotes, slashes = np.flatnonzero(raw == ord('"')), np.flatnonzero(raw == ord("\\"))
    if not len(slashes):
        return quotes
    runs = slashes[np.diff(slashes, prepend=-2) != 1]  # where backslashes in a row begin
    last = slashes[np.searchsorted(slashes, quotes) - 1]
    begin = runs[np.searchsorted(runs, quotes) - 1]
    return quotes[(last != quotes - 1) | ((quotes - begin) % 2 == 0)]


def _json_error(file: Path, message: str) -> ReadError:
    reason = message.removeprefix("JSON parse error: ")
    row = re.search(r" in row (\d+)$", reason)
    reason = reason[: row.start()].rstrip(".") if row else reason
    about = re.match(r"Column\(/([^/)]+)[^)]*\) (.*)", reason)
    if about is None:
        what = f"the line does not parse ({reason})"
    else:
        what = "the key stands there twice" if "twice" in about[2] else f"the type {about[2]}"
    return _bad_line(file, int(row[1]) + 1 if row else 0, what, column=about[1] if about else None)


def _json_list(file: Path, raw: bytes) -> list[Any]:
    try:
        if _too_deep(raw):  # Python's own limit may have been raised
            raise RecursionError(f"nested more than {_DEEP} levels deep")
        rows: list[Any] = json.loads(raw)
    except (ValueError, RecursionError) as error:
        fix = "check that the file is whole"
        raise ReadError(
            f"the JSON does not parse ({one_line(error)})", source=str(file), accepted=_OBJECTS, fix=fix
        ) from None
    if not rows:
        raise ReadError(
            "the list is empty", source=str(file), accepted=_OBJECTS, fix="check that this is the file you meant"
        )
    return rows


def _as_columns(file: Path, rows: list[Any]) -> pa.Table:
    """Return objects as a table; a key whose values are nested, and of different types, is kept as JSON text."""
    try:
        return as_table(rows, name="the list")
    except ReadError as error:
        if not error.rows and any(isinstance(row.get(error.column), list | dict) for row in rows):
            return _as_columns(file, [_with_text(row, str(error.column)) for row in rows])
        rows_of = error.rows or _odd_row(rows, error.column)
        accepted = _OBJECTS + "; each key with one type throughout"
        raise ReadError(
            error.what, source=str(file), column=error.column, rows=rows_of, accepted=accepted, fix="mend that object"
        ) from None
    except InputError as error:
        raise ReadError(
            f"this is no list of objects ({one_line(error)})", source=str(file), accepted=_OBJECTS, fix="mend the list"
        ) from None


def _with_text(row: Record, key: str) -> Record:
    value = row.get(key)
    return row if value is None or isinstance(value, str) else {**row, key: json.dumps(value, ensure_ascii=False)}


def _odd_row(rows: list[dict[str, object]], column: str | None) -> tuple[int, ...]:
    """Return the first row whose value is of another type than the first one, counted from 1."""
    kinds = [type(row.get(str(column))) for row in rows]
    first = next((kind for kind in kinds if kind is not type(None)), type(None))
    return tuple(place for place, kind in enumerate(kinds, start=1) if kind not in (first, type(None)))[:1]

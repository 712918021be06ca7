"""Whatever a caller holds its contexts in -> one pyarrow Table, or one array of strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from nasheval.errors import InputError, ReadError

Column: TypeAlias = "pa.Array | pa.ChunkedArray"

ACCEPTED_TABLES = "a pyarrow Table, a pandas or polars DataFrame, a list of dict records, or an (n, d) array of numbers"
ACCEPTED_TEXTS = "a list, a pyarrow array, or a pandas or polars Series of strings"


def as_table(data: object, *, name: str = "contexts") -> pa.Table:
    """Turn contexts in any accepted form into a pyarrow Table with distinct column names.

    Args:
        data: a pyarrow Table or RecordBatch, any eager DataFrame narwhals knows (its index is ignored), a Hugging
            Face dataset, a list of dict records (a key absent from a record is missing), or an (n, d) array, named x0
            to x{d-1}.
        name: what messages call it.
    """
    table = _convert(data, name)
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise InputError(f"{name}: more than one column is named {twice[0]!r}. Rename or drop all but one of them.")
    return table


def as_strings(texts: object, *, name: str = "texts") -> pa.LargeStringArray:
    """Turn texts in any accepted form into one contiguous array of strings.

    Args:
        texts: n strings or nulls: a sequence, a pyarrow or numpy array, or a Series narwhals knows.
        name: what messages call them.
    """
    if isinstance(texts, str | bytes | Mapping):
        raise InputError(f"{name}: a single {type(texts).__name__}. Accepted: {ACCEPTED_TEXTS}. Put it in a list.")
    try:
        if isinstance(texts, list | tuple | np.ndarray):
            array = pa.array(texts, from_pandas=True)
        elif isinstance(texts, pa.Array | pa.ChunkedArray):
            array = texts
        else:
            import narwhals as nw

            array = nw.from_native(texts, series_only=True).to_arrow()  # type: ignore[call-overload]
        if not holds_text(array.type):
            raise TypeError(f"an array of {array.type}")
        strings = decoded(array).cast(pa.large_string())
        strings.validate(full=True)  # files can hold strings that are not valid UTF-8, which nothing later expects
        return strings.combine_chunks() if isinstance(strings, pa.ChunkedArray) else strings
    except (pa.ArrowException, TypeError, ValueError) as error:
        what = f"{type(texts).__name__} with something that is not a string"
        raise InputError(f"{name}: {what}. Accepted: {ACCEPTED_TEXTS}, null where missing.") from error


def _convert(data: object, name: str) -> pa.Table:
    if isinstance(data, pa.Table):
        return _without_views(data)
    if isinstance(data, pa.RecordBatch):
        return _without_views(pa.Table.from_batches([data]))
    if isinstance(data, np.ndarray):
        return _from_array(data, name)
    if is_hugging_face(data):
        return _without_views(data.with_format("arrow")[:])  # type: ignore[attr-defined]
    if isinstance(data, Mapping):
        raise InputError(f"{name}: a single mapping. Accepted: {ACCEPTED_TABLES}. Put one record in a list: [record].")
    if isinstance(data, list | tuple):
        return _from_records(data, name)
    return _from_frame(data, name)


def is_hugging_face(data: Any) -> bool:
    """Tell whether something is a dataset of Hugging Face's; several of them, or a stream, are an InputError."""
    if not (hasattr(data, "with_format") and hasattr(data, "column_names")):
        return False
    if isinstance(data, dict):
        splits = ", ".join(map(repr, data)) or "no splits"
        example = f"data[{next(iter(data))!r}]" if data else "data['train']"
        raise InputError(f"This is a dictionary of datasets with {splits}; pass one of them, such as {example}.")
    if not hasattr(data, "__len__"):
        raise InputError(
            "This dataset is a stream, which has no length; load it without streaming=True, or collect it into a table."
        )
    return True


def _without_views(table: pa.Table) -> pa.Table:
    """Return a table whose string views are strings: pyarrow cannot pick rows of a view."""
    for place, column in enumerate(table.schema):
        if pa.types.is_string_view(column.type):
            table = table.set_column(place, column.name, table[place].cast(pa.large_string()))
    return table


def _from_array(array: np.ndarray[Any, Any], name: str) -> pa.Table:
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{name}: an array of shape {array.shape} and type {array.dtype}. Accepted: {ACCEPTED_TABLES}."
        )
    if array.shape[1] == 0:
        return pa.table({"": pa.nulls(len(array))}).select([])
    columns = np.ascontiguousarray(array.T, dtype=np.bool_ if array.dtype == np.bool_ else np.float64)
    return pa.table({f"x{i}": pa.array(column) for i, column in enumerate(columns)})


def _from_records(records: Sequence[Any], name: str) -> pa.Table:
    for row, record in enumerate(records, start=1):
        if not isinstance(record, Mapping):
            raise ReadError(
                f"a record of type {type(record).__name__}",
                source=name,
                rows=(row,),
                accepted=ACCEPTED_TABLES,
                fix="convert it first",
            )
    keys = dict.fromkeys(key for record in records for key in record)
    columns = [_converted(str(key), partial(pa.array, [record.get(key) for record in records]), name) for key in keys]
    return _assemble(columns, [str(key) for key in keys], name)


def _from_frame(data: object, name: str) -> pa.Table:
    import narwhals as nw  # takes a tenth of a second, which tables of other makes do not need

    try:
        frame = nw.from_native(data, eager_only=True)  # type: ignore[call-overload]
    except TypeError as error:
        hint = " Call collect() first." if hasattr(data, "collect") else ""
        raise InputError(f"{name}: {type(data).__name__}. Accepted: {ACCEPTED_TABLES}.{hint}") from error
    except nw.exceptions.NarwhalsError as error:
        raise InputError(
            f"{name}: a DataFrame that cannot be read ({' '.join(str(error).split())}). Accepted: {ACCEPTED_TABLES}."
        ) from error
    # Column by column, so that a pandas index does not slip in as a feature and a fault can be given its column.
    columns = [_converted(str(series.name), series.to_arrow, name) for series in frame.iter_columns()]
    return _assemble(columns, [str(column) for column in frame.columns], name)


def _assemble(columns: list[Any], names: list[str], name: str) -> pa.Table:
    try:
        return pa.table(columns, names=names)
    except UnicodeError as error:
        raise InputError(f"{name}: a column name that is not valid Unicode. Rename it.") from error


def _converted(column: str, convert: Callable[[], Column], name: str) -> Column:
    try:
        return convert()
    except UnicodeError as error:
        raise ReadError(
            f"text that is not valid Unicode ({error})",
            source=name,
            column=column,
            accepted="whole characters",
            fix="remove the half of a character",
        ) from error
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ReadError(
            f"values that have no common type ({error})",
            source=name,
            column=column,
            accepted="numbers, booleans or strings, one kind per column, null where missing",
            fix="convert it first",
        ) from error


def is_string(kind: pa.DataType) -> bool:
    """Tell whether an Arrow type is one of its string types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Tell whether an Arrow type is one of its numeric types."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_date(kind: pa.DataType) -> bool:
    """Tell whether an Arrow type is one of its dates, or of dates with a time."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_list(kind: pa.DataType) -> bool:
    """Tell whether an Arrow type is one of its types of lists of any length."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def decoded(column: Column) -> Column:
    """Return a column with its dictionary, if it has one, spelled out."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def holds_text(kind: pa.DataType) -> bool:
    """Tell whether an array of an Arrow type can be read as strings or nulls without guessing."""
    return is_string(kind.value_type if pa.types.is_dictionary(kind) else kind) or bool(pa.types.is_null(kind))


def count_rows(contexts: object) -> int:
    """Return the number of contexts; a table without columns does not know it, but what it was made from may."""
    if isinstance(contexts, Sized) and not isinstance(contexts, Mapping | str | pa.Table):
        return len(contexts)
    return int(as_table(contexts).num_rows)


def one_row(context: object) -> Any:
    """Return a table of one context, given as a record, a vector, or a table or array of one row."""
    if isinstance(context, Mapping):
        context = [context]
    elif isinstance(context, np.ndarray) and context.ndim == 1:
        context = context[None]
    table = as_table(context)
    if table.num_rows != 1:
        raise InputError(f"{table.num_rows} contexts were given; give one.")
    return table

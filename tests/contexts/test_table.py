from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nasheval.contexts.table import ACCEPTED_TABLES, as_table
from nasheval.errors import InputError

ACCEPTED = f"Accepted: {ACCEPTED_TABLES}."


def test_records_may_leave_keys_out() -> None:
    assert as_table([{"a": 1}, {"b": "x"}]).to_pydict() == {"a": [1, None], "b": [None, "x"]}


def test_the_index_of_a_data_frame_is_no_column() -> None:
    frame = pd.DataFrame({"a": [1, 2], 3: ["x", None]}, index=pd.Index([7, 8], name="id"))
    assert as_table(frame).to_pydict() == {"a": [1, 2], "3": ["x", None]}


def test_arrays_of_any_number_type_are_read() -> None:
    for dtype in (np.float16, np.float32, np.longdouble, np.int8, np.uint64):
        assert as_table(np.ones((1, 2), dtype=dtype)).to_pydict() == {"x0": [1.0], "x1": [1.0]}
    assert as_table(np.ones((1, 1), dtype=bool)).to_pydict() == {"x0": [True]}


TWO_KINDS = (
    "contexts, column 'a': values that have no common type "
    "(Could not convert 'x' with type str: tried to convert to int64).\n  Accepted: "
)
BAD = {
    "number": (5, f"contexts: int. {ACCEPTED}"),
    "none": (None, f"contexts: NoneType. {ACCEPTED}"),
    "string": ("a.csv", f"contexts: str. {ACCEPTED}"),
    "lazy": (pl.LazyFrame({"a": [1]}), f"contexts: LazyFrame. {ACCEPTED} Call collect() first."),
    "one record": ({"a": 1}, f"contexts: a single mapping. {ACCEPTED} Put one record in a list: [record]."),
    "list of numbers": ([1, 2], f"contexts, row 1: a record of type int.\n  {ACCEPTED}\n  To do: convert it first."),
    "one vector": (np.zeros(3), f"contexts: an array of shape (3,) and type float64. {ACCEPTED}"),
    "complex": (np.zeros((1, 1), dtype=complex), f"contexts: an array of shape (1, 1) and type complex128. {ACCEPTED}"),
    "same name": (
        pa.table([[1], [2]], names=["a", "a"]),
        "contexts: more than one column is named 'a'. Rename or drop all but one of them.",
    ),
    "same name once spelled out": (
        [{1: "x", "1": "y"}],
        "contexts: more than one column is named '1'. Rename or drop all but one of them.",
    ),
    "mixed records": (
        [{"a": 1}, {"a": "x"}],
        TWO_KINDS
        + "numbers, booleans or strings, one kind per column, null where missing.\n  To do: convert it first.",
    ),
    "mixed frame": (
        pd.DataFrame({"a": pd.Series([1, "x"], dtype=object)}),
        TWO_KINDS
        + "numbers, booleans or strings, one kind per column, null where missing.\n  To do: convert it first.",
    ),
    "half a character": ([{"\ud800": 1}], "contexts: a column name that is not valid Unicode. Rename it."),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_table_is_refused(case: str) -> None:
    data, message = BAD[case]
    with pytest.raises(InputError) as caught:
        as_table(data)
    assert str(caught.value) == message


@pytest.mark.parametrize("case", BAD)
def test_messages_call_the_data_by_its_name(case: str) -> None:
    data, message = BAD[case]
    with pytest.raises(InputError) as caught:
        as_table(data, name="the joined table")
    assert str(caught.value) == message.replace("contexts", "the joined table", 1)


def test_a_frame_with_one_name_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"^contexts: a DataFrame that cannot be read \(.*'a'.*\)\. Accepted"):
        as_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_string_views_become_strings_whose_rows_can_be_picked():
    table = as_table(pa.table({"l": pa.array(["a", None, "c"], pa.string_view()), "n": [1, 2, 3]}))
    assert table.take(pa.array([2, 1]))["l"].to_pylist() == ["c", None]
    assert table["n"].to_pylist() == [1, 2, 3]

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.contexts.table import is_string
from nasheval.errors import InputError
from nasheval.feedback.arrow_columns import coded, not_finite, one_line
from nasheval.feedback.log import refuse_not_finite

from .oracle import quick


@pytest.mark.parametrize(
    ("said", "expected"), [("a\n  b.", "a b"), ("plain", "plain"), ("dots...", "dots"), ("", "ValueError")]
)
def test_one_line(said: str, expected: str) -> None:
    assert one_line(ValueError(said)) == expected


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_nan_and_infinity_are_not_finite_and_null_is_neither(kind: pa.DataType) -> None:
    values = np.array([1.0, np.nan, np.inf, -np.inf, 0.0]).astype(kind.to_pandas_dtype())
    column = pa.chunked_array([pa.array(values), pa.array([None], kind)])
    assert not_finite(column).tolist() == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    "column",
    [[1, 2], ["nan", "inf"], [True, None], [None, None], []],
    ids=["whole", "words", "flags", "nulls", "empty"],
)
def test_only_floats_can_be_not_finite(column: list[object]) -> None:
    assert not_finite(pa.chunked_array([pa.array(column)])).tolist() == [False] * len(column)


def test_no_chunks_at_all() -> None:
    assert not_finite(pa.chunked_array([], pa.float64())).tolist() == []
    assert len(coded(pa.chunked_array([], pa.string()))) == 0
    assert len(coded(pa.chunked_array([], pa.dictionary(pa.int8(), pa.string())))) == 0


def test_the_first_bad_row_is_named() -> None:
    table = pa.table({"fine": [1.0, None, 2.0], "bad": [0.0, 1.0, float("inf")]})
    with pytest.raises(InputError) as error:
        refuse_not_finite(table)
    assert str(error.value) == (
        "The context column 'bad' holds inf in row 2; accepted are finite numbers, or null where a value is missing."
    )


@quick
@given(st.lists(st.lists(st.sampled_from(["a", "b", "", None])), min_size=1), st.booleans())
def test_codes_spell_the_column(chunks: list[list[str | None]], already_coded: bool) -> None:
    arrays = [pa.array(chunk, pa.string()) for chunk in chunks]
    column = pa.chunked_array([array.dictionary_encode() for array in arrays] if already_coded else arrays)
    found = coded(column)
    assert found.to_pylist() == [value for chunk in chunks for value in chunk]
    assert len(set(found.dictionary.to_pylist())) == len(found.dictionary)
    assert found.type == pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.chunked_array([[3, 1, None]]), ["3", "1", None]),
        (pa.chunked_array([[True, False]]), ["true", "false"]),
        (pa.chunked_array([pa.array(["a"], pa.large_string())]), ["a"]),
        (pa.chunked_array([pa.array(["a"], pa.string_view())]), ["a"]),
        (pa.chunked_array([pa.nulls(2)]), [None, None]),
        (pa.chunked_array([pa.array([7, 8, 7]).dictionary_encode()]), ["7", "8", "7"]),
        (pa.chunked_array([pl.Series(["a", None, "b"], dtype=pl.Categorical).to_arrow()]), ["a", None, "b"]),
        (pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.uint8()), ["a", None])]), ["a", None]),
        (pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0, 1]), ["a", "a"])]), ["a", "a"]),
    ],
    ids=["whole", "flags", "large", "view", "null", "coded numbers", "polars", "null level", "one level twice"],
)
def test_columns_of_any_type_become_codes_of_distinct_strings(
    column: pa.ChunkedArray, expected: list[str | None]
) -> None:
    found = coded(column)
    assert found.to_pylist() == expected
    assert found.type == pa.dictionary(pa.int32(), pa.string())
    names = found.dictionary.to_pylist()
    assert None not in names
    assert len(set(names)) == len(names)


def test_the_string_types() -> None:
    assert [is_string(kind) for kind in (pa.string(), pa.large_string(), pa.string_view())] == [True] * 3
    assert [is_string(kind) for kind in (pa.int8(), pa.binary(), pa.null())] == [False] * 3

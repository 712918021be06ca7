from __future__ import annotations

import importlib.util
import time
from datetime import date, datetime
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval import arrays
from nasheval.contexts import ContextEncoder, TextEncoder, columns, encoder, text
from nasheval.errors import InputError, ReadError

NAN = float("nan")
TABLE = pa.table(
    {
        "age": [20.0, 40.0, None, 60.0],
        "votes": [1, 2, 3, 4],
        "code": [True, False, None, True],
        "lang": ["en", "pl", "en", None],
    }
)

levels = st.none() | st.sampled_from(["a", "b", "c", "", "ż", "other", "missing"])
numbers = st.none() | st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, 1e-30, 3e38, -3e38])
rows = st.fixed_dictionaries(
    {"x": numbers, "y": st.none() | st.integers(-5, 5), "f": st.none() | st.booleans(), "g": levels}
)


def as_table(records: list[dict[str, object]]) -> pa.Table:
    schema = pa.schema([("x", pa.float64()), ("y", pa.int64()), ("f", pa.bool_()), ("g", pa.string())])
    return pa.Table.from_pylist(records, schema=schema)


def test_trees_get_raw_numbers_and_ordinal_levels() -> None:
    encoder = ContextEncoder.fit(TABLE)
    expected = np.array([[20, 1, 1, 0], [40, 2, 0, 1], [NAN, 3, NAN, 0], [60, 4, 1, 3]], dtype=np.float32)
    assert encoder.feature_names("trees") == ("age", "votes", "code", "lang")
    assert encoder.categorical_features == (3,)
    np.testing.assert_array_equal(encoder.encode(TABLE), expected)


def test_networks_get_standardised_numbers_and_one_hot_levels() -> None:
    encoder = ContextEncoder.fit(TABLE)
    X = encoder.encode(TABLE, form="network")
    age, votes = np.sqrt(1.5), np.array([-3, -1, 1, 3]) / np.sqrt(5)
    expected = [
        [-age, 0, votes[0], 1, 0, 1, 0, 0],
        [0, 0, votes[1], 0, 0, 0, 1, 0],
        [0, 1, votes[2], 2 / 3, 1, 1, 0, 0],
        [age, 0, votes[3], 1, 0, 0, 0, 1],
    ]
    names = ("age", "age:missing", "votes", "code", "code:missing", "lang=en", "lang=pl", "lang:missing")
    assert encoder.feature_names("network") == names
    assert X.dtype == np.float32
    np.testing.assert_allclose(X, np.array(expected), rtol=1e-6)


def test_a_level_never_seen_is_other_for_trees_and_nothing_for_networks() -> None:
    encoder = ContextEncoder.fit(pa.table({"lang": ["en", "en", "pl"]}))
    new = pa.table({"lang": ["fr", None, "pl"]})
    assert encoder.encode(new).ravel().tolist() == [2, 3, 1]
    assert encoder.encode(new, form="network").tolist() == [[0, 0], [0, 0], [0, 1]]


def test_levels_beyond_the_most_are_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    column = ["a"] * 5 + ["b"] * 4 + ["c", "d"] + ["b"]
    monkeypatch.setattr(columns, "MAX_LEVELS", 2)
    encoder = ContextEncoder.fit(pa.table({"g": column}))
    assert encoder.feature_names("network") == ("g=a", "g=b", "g:other")
    new = pa.table({"g": ["a", "b", "c", "never seen", None]})
    assert encoder.encode(new).ravel().tolist() == [0, 1, 2, 2, 3]
    assert encoder.encode(new, form="network").tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]]


def test_levels_are_ordered_by_frequency_then_by_name() -> None:
    encoder = ContextEncoder.fit(pa.table({"g": ["z", "b", "z", "a"]}))
    assert encoder.columns[0].levels == ("z", "a", "b")


def test_a_level_called_other_or_missing_keeps_its_own_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_LEVELS", 2)
    encoder = ContextEncoder.fit(pa.table({"g": ["other", "other", "missing", "missing", "x", None]}))
    assert encoder.feature_names("network") == ("g=missing", "g=other", "g:other", "g:missing")


def test_constant_and_empty_columns_do_not_divide_by_zero() -> None:
    table = pa.table({"same": [0.1] * 3, "tiny": [0.0, 5e-324, 0.0], "none": pa.nulls(3), "nan": [NAN] * 3})
    X = ContextEncoder.fit(table).encode(table, form="network")
    assert X.tolist() == [[0, 0, 0, 1, 0, 1]] * 3


def test_a_wild_value_stays_finite_for_networks() -> None:
    encoder = ContextEncoder.fit(pa.table({"x": [0.0, 1e-30]}))
    assert encoder.encode(pa.table({"x": [3e38, -3e38]}), form="network").ravel().tolist() == [1e4, -1e4]


def test_missing_values_that_training_did_not_have_are_filled() -> None:
    encoder = ContextEncoder.fit(pa.table({"x": [1.0, 3.0], "f": [True, False]}))
    missing = pa.table({"x": pa.nulls(1), "f": pa.nulls(1)})
    assert encoder.encode(missing, form="network").tolist() == [[0, 0.5]]
    assert np.isnan(encoder.encode(missing)).all()


@pytest.mark.parametrize("form", ["trees", "network"])
def test_every_kind_of_table_encodes_alike(form: str) -> None:
    frame = TABLE.to_pandas()
    encoder = ContextEncoder.fit(TABLE)
    expected = encoder.encode(TABLE, form=form)
    for same in (
        frame,
        frame.set_index("votes", drop=False),
        pl.from_arrow(TABLE),
        TABLE.to_pylist(),
        TABLE.to_batches()[0],
    ):
        np.testing.assert_array_equal(encoder.encode(same, form=form), expected)
        assert ContextEncoder.fit(same) == encoder


def test_categorical_columns_of_pandas_and_polars_are_categories() -> None:
    expected = ContextEncoder.fit(pa.table({"g": ["u", "v", "u"]}))
    assert ContextEncoder.fit(pd.DataFrame({"g": pd.Categorical(["u", "v", "u"])})) == expected
    assert ContextEncoder.fit(pl.DataFrame({"g": pl.Series(["u", "v", "u"], dtype=pl.Categorical)})) == expected


def test_arrays_are_named_by_position() -> None:
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    encoder = ContextEncoder.fit(X)
    assert encoder.feature_names() == ("x0", "x1")
    np.testing.assert_array_equal(encoder.encode(X), X)
    assert ContextEncoder.fit(np.empty((3, 0))).encode(np.empty((2, 0))).shape == (2, 0)


def test_columns_that_were_not_fitted_are_ignored() -> None:
    encoder = ContextEncoder.fit(TABLE.select(["votes"]))
    assert encoder.encode(TABLE).ravel().tolist() == [1, 2, 3, 4]


def test_numbers_for_a_category_do_not_care_whether_they_are_integers() -> None:
    encoder = ContextEncoder.fit(pa.table({"n": ["1", "2", "1"]}))
    assert encoder.encode(pa.table({"n": [2.0, NAN, 1.0]})).ravel().tolist() == [1, 3, 0]


def test_no_rows_encode_to_no_rows() -> None:
    encoder = ContextEncoder.fit(TABLE)
    assert encoder.encode(TABLE.slice(0, 0), form="network").shape == (0, 8)
    assert encoder.encode([]).shape == (0, 4)


def test_text_vectors_come_last_in_both_forms() -> None:
    pytest.importorskip("wordllama")
    table = pa.table({"n": [1, 2], "prompt": ["Write a sonnet", None]})
    encoder = ContextEncoder.fit(table, text="prompt")
    vectors = TextEncoder().encode(["Write a sonnet"])[0]
    for form in ("trees", "network"):
        X = encoder.encode(table, form=form)
        assert encoder.feature_names(form) == ("n", *(f"text_{i}" for i in range(64)))
        np.testing.assert_array_equal(X[:, 1:], [vectors, np.zeros(64)])
        np.testing.assert_array_equal(encoder.encode(table, form=form, vectors=encoder.embed(table)), X)
    assert ContextEncoder.from_json(encoder.to_json()) == encoder


def test_an_encoder_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ContextEncoder.fit(TABLE).text = "lang"  # type: ignore[misc]


def test_agrees_with_scikit_learn_on_training_data() -> None:
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    rng = np.random.default_rng(0)
    numeric = np.column_stack([rng.normal(1e3, 5, 500), rng.integers(0, 9, 500), np.full(500, 7.0)])
    category = rng.choice(["a", "b", "c", "d"], 500)
    table = pa.table({"x": numeric[:, 0], "y": numeric[:, 1], "z": numeric[:, 2], "g": category})
    encoder = ContextEncoder.fit(table)
    X = dict(zip(encoder.feature_names("network"), encoder.encode(table, form="network").T, strict=True))
    scaled = preprocessing.StandardScaler().fit_transform(numeric)
    np.testing.assert_allclose(np.column_stack([X["x"], X["y"], X["z"]]), scaled, atol=1e-5)
    one_hot = preprocessing.OneHotEncoder(sparse_output=False).fit(category[:, None])
    ours = np.column_stack([X[f"g={level}"] for level in one_hot.categories_[0]])
    np.testing.assert_array_equal(ours, one_hot.transform(category[:, None]))


@given(st.lists(rows, min_size=1, max_size=12), st.lists(rows, max_size=12), st.sampled_from([1, 2, 50]))
@settings(deadline=None, max_examples=60)
def test_round_trip_finite_and_independent_of_row_order(
    train: list[dict[str, object]], new: list[dict[str, object]], max_levels: int
) -> None:
    with mock.patch.object(columns, "MAX_LEVELS", max_levels):
        encoder = ContextEncoder.fit(as_table(2 * train))
    again = ContextEncoder.from_json(encoder.to_json())
    assert again == encoder
    order = np.random.default_rng(0).permutation(len(new))
    for form in ("trees", "network"):
        X = encoder.encode(as_table(new), form=form)
        assert X.shape == (len(new), len(encoder.feature_names(form)))
        assert again.encode(as_table(new), form=form).tobytes() == X.tobytes()
        shuffled = as_table([new[i] for i in order])
        np.testing.assert_array_equal(encoder.encode(shuffled, form=form), X[order])
    assert np.isfinite(encoder.encode(as_table(new), form="network")).all()


@given(st.lists(rows, min_size=1, max_size=12))
@settings(deadline=None, max_examples=50)
def test_fitting_does_not_depend_on_row_order(train: list[dict[str, object]]) -> None:
    with mock.patch.object(columns, "MAX_LEVELS", 2):
        there, back = (ContextEncoder.fit(as_table(2 * t)) for t in (train, train[::-1]))
    assert there.feature_names("network") == back.feature_names("network")
    for form in ("trees", "network"):
        np.testing.assert_allclose(
            there.encode(as_table(train), form=form), back.encode(as_table(train), form=form), atol=1e-6
        )


@given(st.lists(rows, min_size=1, max_size=12), levels)
@settings(deadline=None, max_examples=50)
def test_one_category_is_at_most_one_feature(train: list[dict[str, object]], level: str | None) -> None:
    with mock.patch.object(columns, "MAX_LEVELS", 2):
        encoder = ContextEncoder.fit(as_table(2 * train).select(["g"]))
    new = pa.table({"g": pa.array([level], pa.string())})
    hot = encoder.encode(new, form="network").sum()
    seen = {record["g"] for record in train}
    assert hot == (1 if level in seen or (level is not None and len(seen - {None}) > 2) else 0)
    assert encoder.encode(new)[0, 0] <= len(encoder.columns[0].to_dict()["levels"]) + 1


def test_rows_are_not_encoded_one_by_one() -> None:
    n, rng = 200_000, np.random.default_rng(0)
    words = np.array(["en", "pl", "ru", "zh", "de"])
    table = pa.table(
        {
            "a": rng.normal(size=n),
            "b": rng.integers(0, 9, n),
            "c": rng.random(n) < 0.5,
            "d": words[rng.integers(0, 5, n)],
        }
    )
    encoder = ContextEncoder.fit(table)
    start = time.process_time()
    encoder.encode(table), encoder.encode(table, form="network")
    assert time.process_time() - start < 1  # 0.1 when written; a Python loop over the rows takes several


FITS = {
    "no rows": ({"table": TABLE.slice(0, 0)}, "contexts: no rows. Fit needs at least one."),
    "unknown text": (
        {"text": "prompt"},
        "contexts: no column 'prompt'. Given: 'age', 'votes', 'code', 'lang'. Expected: 'prompt'. "
        "Add what is missing; a column of nulls is accepted.",
    ),
    "text of numbers": (
        {"text": "votes"},
        "contexts, column 'votes': values of type int64.\n  Accepted: strings to embed.",
    ),
    "encoder without text": (
        {"text_encoder": TextEncoder()},
        "contexts: text_encoder= was given without text=. Name the text column with text=.",
    ),
    "infinity": (
        {"table": pa.table({"x": [1.0, float("inf"), 2.0, -float("inf")]})},
        "contexts, column 'x', rows 2, 4: inf is not a finite number that 32 bits can hold.\n"
        "  Accepted: finite numbers up to 3.4e+38, null where missing.\n  To do: replace it by null or clip it.",
    ),
    "too large": (
        {"table": pa.table({"x": [1e39]})},
        "contexts, column 'x', row 1: 1e+39 is not a finite number that 32 bits can hold.\n"
        "  Accepted: finite numbers up to 3.4e+38, null where missing.\n  To do: replace it by null or clip it.",
    ),
    "list column": (
        {"table": pa.table({"x": [["1"], ["2"]]})},
        "contexts, column 'x': values of type list<item: string>.\n"
        "  Accepted: numbers, booleans, dates, strings, dictionary (categorical) columns and lists of numbers.\n"
        "  To do: convert the column to one of these, or leave it out of context=.",
    ),
    "identifier": (
        {"table": pa.table({"id": [f"row {i}" for i in range(60)]})},
        "contexts, column 'id': 60 different values in 60 rows, too many for a category.\n"
        "  Accepted: strings that repeat, or at most 50 different ones.\n"
        "  To do: leave it out of context=, or name it with text=.",
    ),
    "same feature twice": (
        {"table": pa.table({"a": ["b", "b"], "a=b": [1, 2]})},
        "contexts: 2 features would be named 'a=b'. Rename one of their columns.",
    ),
    "not UTF-8": (
        {"table": pa.table({"g": pa.array([b"\xff"]).view(pa.string())})},
        "contexts, column 'g': values of type string in place of categories.",
    ),
}


@pytest.mark.parametrize("case", FITS)
def test_what_cannot_be_fitted_is_refused(case: str) -> None:
    arguments, message = FITS[case]
    with pytest.raises(InputError) as caught:
        ContextEncoder.fit(**{"table": TABLE, **arguments})
    assert str(caught.value) == message


ENCODES = {
    "missing column": (
        {"table": [{"age": 1.0, "code": True}]},
        "contexts: no column 'votes', 'lang'. Given: 'age', 'code'. Expected: 'age', 'votes', 'code', 'lang'. "
        "Add what is missing; a column of nulls is accepted.",
    ),
    "an array for a table": (
        {"table": np.zeros((1, 4))},
        "contexts: no column 'age', 'votes', 'code', 'lang'. Given: 'x0', 'x1', 'x2', 'x3'. "
        "Expected: 'age', 'votes', 'code', 'lang'. Add what is missing; a column of nulls is accepted.",
    ),
    "string for a number": (
        {"table": TABLE.set_column(0, "age", pa.array(["20", "old", "1", None]))},
        "contexts, column 'age', row 2: 'old' is not a number.\n  Accepted: numbers, null where missing.\n"
        "  To do: correct the values, or fit with categorical=['age'].",
    ),
    "string for a truth value": (
        {"table": TABLE.set_column(2, "code", pa.array(["yes", "no", "true", None]))},
        "contexts, column 'code', rows 1, 2: 'yes' is not a truth value.\n"
        "  Accepted: true and false, or 1 and 0, null where missing.\n"
        "  To do: correct the values, or fit with categorical=['code'].",
    ),
    "infinity": (
        {"table": TABLE.set_column(0, "age", pa.array([1.0, 1.0, -float("inf"), 1.0]))},
        "contexts, column 'age', row 3: -inf is not a finite number that 32 bits can hold.\n"
        "  Accepted: finite numbers up to 3.4e+38, null where missing.\n  To do: replace it by null or clip it.",
    ),
    "form": ({"form": "forest"}, "contexts: form='forest'. Accepted: 'trees' or 'network'."),
}


@pytest.mark.parametrize("case", ENCODES)
def test_what_cannot_be_encoded_is_refused(case: str) -> None:
    arguments, message = ENCODES[case]
    encoder = ContextEncoder.fit(TABLE)
    with pytest.raises(InputError) as caught:
        encoder.encode(**{"table": TABLE, **arguments})
    assert str(caught.value) == message


@pytest.mark.parametrize("form", ["trees", "network"])
def test_blocks_of_rows_and_mapped_files_do_not_matter(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"x": [1.0, None, 3.0, -2.0, 8.0], "c": ["a", "b", None, "a", "z"], "b": [True, None, False, True, True]}
    rows = pa.table({**table, "said": ["one", "two", "one", None, "three"]})
    fitted = ContextEncoder.fit(rows[:4], text="said")
    whole = fitted.encode(rows, form=form)
    monkeypatch.setattr(encoder, "_ROWS", 2)
    monkeypatch.setattr(text, "_ROWS", 2)
    monkeypatch.setattr(arrays, "MAPPED", 0)
    mapped = fitted.encode(rows, form=form)
    assert mapped.base is not None
    assert mapped.tobytes() == whole.tobytes()


def test_a_bad_row_is_counted_from_the_first_of_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = ContextEncoder.fit(pa.table({"x": [1.0, 2.0]}))
    monkeypatch.setattr(encoder, "_ROWS", 2)
    with pytest.raises(InputError, match="column 'x', rows 4, 5: 1e\\+300 is not a finite number"):
        fitted.encode(pa.table({"x": [1.0, 2.0, 3.0, 1e300, 1e300]}))


# -- dates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [
        pa.array([date(2024, 1, 1), date(2024, 1, 3), None]),
        pa.array([date(2024, 1, 1), date(2024, 1, 3), None], pa.date64()),
        pa.array([datetime(2024, 1, 1), datetime(2024, 1, 3), None], pa.timestamp("ns")),
        pa.array([datetime(2024, 1, 1), datetime(2024, 1, 3), None], pa.timestamp("s", "UTC")),
    ],
)
def test_a_date_is_the_number_of_its_days(told):
    encoder = ContextEncoder.fit(pa.table({"day": told}))
    assert encoder.columns[0].kind == "date"
    days = [(date(2024, 1, day) - date(1970, 1, 1)).days for day in (1, 3)]
    as_numbers = ContextEncoder.fit(pa.table({"day": pa.array([*map(float, days), None])}))
    for form in ("trees", "network"):
        expected = as_numbers.encode(pa.table({"day": pa.array([*map(float, days), None])}), form=form)
        np.testing.assert_array_equal(encoder.encode(pa.table({"day": told}), form=form), expected)
    assert ContextEncoder.from_json(encoder.to_json()) == encoder


def test_dates_may_come_as_text_later():
    encoder = ContextEncoder.fit(pa.table({"day": pa.array([date(2024, 1, 1), date(2024, 1, 3)])}))
    told = [{"day": "2024-01-02"}, {"day": "2024-01-02T12:00:00"}, {"day": None}]
    first = encoder.encode([{"day": date(2024, 1, 2)}])[0, 0]
    np.testing.assert_array_equal(encoder.encode(told)[:, 0], [first, first + 0.5, np.nan])
    assert encoder.encode([{"day": "2024-01-02T06:00:00+06:00"}])[0, 0] == first
    with pytest.raises(ReadError, match=r"row 1: 'soon' is not a date\.\n.*dates such as 2025-04-17"):
        encoder.encode([{"day": "soon"}])
    with pytest.raises(ReadError, match="double in place of a date"):
        encoder.encode([{"day": 3.0}])


@pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="wordllama is not installed")
def test_one_context_with_texts_is_encoded_as_in_a_table() -> None:
    table = pa.table({"prompt": ["write a poem", "", None, "雨の詩"], "x": [1.0, 2.0, None, 4.0]})
    for names in (["prompt"], ["prompt", "x"]):
        fitted = ContextEncoder.fit(table.select(names), text="prompt")
        for context in table.select(names).to_pylist():
            one = fitted.encode_one(context)
            assert one is not None
            for form, features in zip(("trees", "network"), one, strict=True):
                assert features.tobytes() == fitted.encode([context], form=form).tobytes()
        assert fitted.encode_one({"prompt": "\ud800", "x": 1.0}) is None  # half of a character
        assert fitted.encode_one({"prompt": 3, "x": 1.0}) is None

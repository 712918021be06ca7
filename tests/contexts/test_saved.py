from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.contexts import ContextEncoder
from nasheval.errors import InputError

TABLE = pa.table({"x": [0.1, 0.2, None], "f": [True, None, False], "g": ["ż", "中", None], "t": ["one", "two", None]})
ENCODER = ContextEncoder.fit(TABLE, text="t")
SAVED = ENCODER.to_json()
FIX = " Save the encoder again with to_json()."

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def edited(path: list[Any], value: object) -> str:
    document = json.loads(SAVED)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(document)


def test_what_is_written_is_plain_and_stable() -> None:
    table = pa.table({"x": [1.0, 3.0], "g": ["en", None]})
    assert json.loads(ContextEncoder.fit(table).to_json()) == {
        "format": "nasheval.contexts",
        "version": 1,
        "columns": [
            {"kind": "numeric", "name": "x", "mean": 2.0, "scale": 1.0, "missing": False},
            {"kind": "categorical", "name": "g", "levels": ["en"], "pooled": False, "missing": True},
        ],
        "text": None,
        "text_encoder": None,
    }


BAD = {
    "empty": ("", "saved encoder: not valid JSON (Expecting value: line 1 column 1 (char 0))." + FIX),
    "foreign": ('{"a": 1}', 'saved encoder: JSON without "format": "nasheval.contexts".' + FIX),
    "list": ("[]", "saved encoder: JSON that holds list in place of an object." + FIX),
    "future": (edited(["version"], 2), "saved encoder: version 2. This release reads version 1." + FIX),
    "true for one": (edited(["version"], True), "saved encoder: version True. This release reads version 1." + FIX),
    "deep": ("[" * 100_000, "saved encoder: not valid JSON (nested too deeply)." + FIX),
    "nan": ('{"format": NaN}', "saved encoder: not valid JSON (NaN is not JSON)." + FIX),
    "extra key": (
        edited(["run"], "rm"),
        "saved encoder: top level has an unknown key 'run'." + FIX,
    ),
    "half a text": (
        edited(["text"], None),
        "saved encoder: top level: 'text' and 'text_encoder' must both be there or both be null." + FIX,
    ),
    "columns": (edited(["columns"], {}), "saved encoder: 'columns' in top level is dict." + FIX),
    "kind": (
        edited(["columns", 0, "kind"], "pickle"),
        "saved encoder: column 1: its kind is not one of 'numeric', 'date', 'boolean', 'categorical', 'vector'." + FIX,
    ),
    "kind list": (
        edited(["columns", 0, "kind"], []),
        "saved encoder: column 1: its kind is not one of 'numeric', 'date', 'boolean', 'categorical', 'vector'." + FIX,
    ),
    "mean": (edited(["columns", 0, "mean"], "0"), "saved encoder: 'mean' in column 1 is str." + FIX),
    "scale": (edited(["columns", 0, "scale"], 0.0), "saved encoder: column 1: 'scale' is not positive." + FIX),
    "share": (edited(["columns", 1, "share"], 1.5), "saved encoder: column 2: 'share' is outside [0, 1]." + FIX),
    "levels": (
        edited(["columns", 2, "levels"], ["a", 1]),
        "saved encoder: column 3, 'levels' holds something other than strings." + FIX,
    ),
    "same level": (
        edited(["columns", 2, "levels"], ["a", "a"]),
        "saved encoder: column 3, 'levels' holds the same string twice." + FIX,
    ),
    "same column": (
        edited(["columns", 1, "name"], "x"),
        "contexts: 2 features would be named 'x'. Rename one of their columns.",
    ),
    "text encoder": (
        edited(["text_encoder", "cache"], "/"),
        "saved encoder: 'text_encoder' has an unknown key 'cache'." + FIX,
    ),
    "huge dim": (
        edited(["text_encoder", "dim"], 10**12),
        "text encoder: dim=1000000000000. Accepted: a whole number from 1 to 16,384.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_saved_encoder_is_refused(case: str) -> None:
    saved, message = BAD[case]
    with pytest.raises(InputError) as caught:
        ContextEncoder.from_json(saved)
    assert str(caught.value) == message


def test_an_infinite_number_is_refused() -> None:
    saved = edited(["columns", 0, "mean"], 12345.0).replace("12345.0", "1e999")
    with pytest.raises(InputError, match="1e999 is too large"):
        ContextEncoder.from_json(saved)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InputError, match=r"not valid JSON .*surrogates not allowed"):
        ContextEncoder.from_json(edited(["columns", 2, "levels"], ["\ud800"]))


@pytest.mark.parametrize("kept", range(0, len(SAVED) - 1, 7))
def test_a_truncated_file_is_refused(kept: int) -> None:
    with pytest.raises(InputError):
        ContextEncoder.from_json(SAVED[:kept])


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_nothing_but_an_input_error_escapes(data: st.DataObject) -> None:
    paths = [["columns"], ["text"], ["text_encoder"], ["version"], ["columns", 0], ["columns", 2, "levels"]]
    paths += [["columns", i, key] for i, key in ((0, "name"), (0, "mean"), (1, "share"), (1, "missing"), (2, "pooled"))]
    saved = edited(data.draw(st.sampled_from(paths)), data.draw(json_values))
    try:
        encoder = ContextEncoder.from_json(saved)
    except InputError:
        return
    assert ContextEncoder.from_json(encoder.to_json()) == encoder


@given(st.text())
@settings(deadline=None)
def test_junk_is_refused(junk: str) -> None:
    with pytest.raises(InputError):
        ContextEncoder.from_json(junk)

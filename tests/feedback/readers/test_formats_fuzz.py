"""Whatever stands in a field of a tool's file, the answer is a log or an error of ours."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.errors import NashEvalError

from . import test_formats as files
from .test_formats import write

JSON = {
    name: rows
    for name, rows in vars(files).items()
    if name.isupper() and isinstance(rows, list) and rows and isinstance(rows[0], dict)
}
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 3) | st.sampled_from(["", "x", "model_a", "é\ud7ff"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abAB"), inner, max_size=2)
)


def places(value, path=()):
    """All paths to values inside JSON."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, one in inner for place in places(one, (*path, key))]


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("as_list", [False, True], ids=["lines", "list"])
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_in_any_place(name, as_list, here, data):
    rows = copy.deepcopy(JSON[name])
    *outer, last = data.draw(st.sampled_from(places(rows)))
    place = rows
    for step in outer:
        place = place[step]
    place[last] = data.draw(VALUES)
    text = json.dumps(rows) if as_list else "\n".join(json.dumps(row) for row in rows)
    path = write(here, {"log.json" if as_list else "log.jsonl": text})
    with contextlib.suppress(NashEvalError):
        assert ne.read(path).n_records >= 1

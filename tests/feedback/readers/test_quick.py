"""Formats that are read all rows at once, against the same read object by object."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.feedback.readers.arenas import FASTCHAT
from nasheval.feedback.readers.formats import from_records, from_table
from nasheval.feedback.readers.text_files import _DEEP, _too_deep, read_lines, read_records

names = st.sampled_from(["x", "y", "### Model A: x", "<h3>Model B: y</h3>\n", "### Model A: ", "", "Model A", None])
words = st.one_of(st.none(), st.text(max_size=3))
messages = st.lists(st.tuples(st.just("USER"), words).map(list), max_size=3)
states = st.fixed_dictionaries(
    {"model_name": st.sampled_from(["x", "y", "z", "", None]), "messages": st.one_of(st.none(), messages)},
    optional={"offset": st.one_of(st.none(), st.integers(-1, 3)), "conv_id": st.text(max_size=2)},
)
lines = st.fixed_dictionaries(
    {
        "tstamp": st.floats(0, 1e9),
        "type": st.sampled_from(["leftvote", "bothbadvote", "chat", "share", "x"]),
    },
    optional={
        "models": st.one_of(st.none(), st.lists(names, max_size=3)),
        "states": st.one_of(st.none(), st.lists(states, max_size=3)),
        "ip": st.one_of(st.none(), st.sampled_from(["1.2.3.4", "5.6.7.8"])),
    },
)
WHOLE = {
    "tstamp": 1.5,
    "type": "rightvote",
    "models": ["", "y"],
    "states": [{"model_name": "z", "messages": [["USER", "Why?"]], "offset": 0}, {"model_name": "y", "messages": []}],
    "ip": "1.2.3.4",
}


@settings(max_examples=100, deadline=None)
@given(st.lists(lines, max_size=8))
def test_fastchat_logs_are_the_same_either_way(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("log") / "log.jsonl"
    file.write_text("\n".join(map(json.dumps, [WHOLE, *rows])), encoding="utf-8")
    quick, slow = from_table(read_lines(file), file, FASTCHAT, ""), from_records(read_records(file), file, FASTCHAT, "")
    assume(quick is not None)  # some lists begin with nulls, which Arrow misreads
    assert quick.aside == slow.aside
    wanted = slow.read(slow.names)[0].to_pydict()
    found = quick.read(quick.names)[0].to_pydict()
    assert found == {name: wanted[name] for name in found}
    assert {name for name, values in wanted.items() if any(v is not None for v in values)} <= {*found}


@pytest.mark.parametrize("heading", ["{}", "### Model A: {}", "<h3>Model A: {}</h3>\n"])
def test_votes_whose_models_and_states_differ_are_refused(heading, tmp_path):
    file = tmp_path / "log.jsonl"
    rows = [{**WHOLE, "models": [heading.format(name), "y"]} for name in "zxz"]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(ne.ReadError, match=r"row 2: unknown label 'rightvote: models and states differ'"):
        ne.read(str(file))
    assert ne.read(str(file), on_error="skip").agents == ("y", "z")


@pytest.mark.parametrize(
    "odd",
    [
        {"states": [{"model_name": "x", "messages": [["USER", ["Why?", ["picture"]]]]}, {"model_name": "y"}]},
        {"states": [{"model_name": 7, "messages": []}, {"model_name": "y"}]},
        {"models": [1, 2]},
        {"type": 5},
    ],
)
def test_fastchat_logs_of_other_types_are_read_object_by_object(odd, tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join(map(json.dumps, [WHOLE, WHOLE | odd, WHOLE])), encoding="utf-8")
    assert from_table(read_lines(file), file, FASTCHAT, "") is None
    assert ne.read(str(file), on_error="skip").n_records >= 2


def test_rows_are_named_by_their_place_in_the_file(tmp_path):
    rows = [{"tstamp": 1.0, "type": "chat"}, WHOLE, {**WHOLE, "type": "other"}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(ne.ReadError, match=r"row 3"):
        ne.read(str(tmp_path / "log.jsonl"))


# -- how deep ---------------------------------------------------------------------------------------------------------


def depth(text):
    """The deepest bracket outside strings, sign by sign."""
    deepest = level = 0
    inside = escaped = False
    for sign in text:
        if inside:
            inside = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
        elif sign == '"':
            inside = True
        else:
            level += (sign in "[{") - (sign in "]}")
            deepest = max(deepest, level)
    return deepest


@given(
    st.recursive(
        st.one_of(st.none(), st.text(alphabet='a"\\[]{}', max_size=8)),
        lambda one: st.one_of(st.lists(one, max_size=3), st.dictionaries(st.text(alphabet='"\\[', max_size=3), one)),
    )
)
def test_depth_does_not_count_brackets_in_strings(value):
    text = json.dumps(value)
    for more in range(_DEEP - depth(text) - 1, _DEEP - depth(text) + 3):
        assert _too_deep(("[" * more + text + "]" * more).encode()) == (more + depth(text) > _DEEP)

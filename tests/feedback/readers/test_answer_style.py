"""The style of answers: counted as Python counts it, from every place in which files keep it."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest

import nasheval as ne
from nasheval.errors import ReadError
from nasheval.feedback.readers.answer_style import measured

TEXTS = [
    "plain",
    "# Head\ntext\n## Second\n- one\n- two\n1. three\n**bold** and __too__",
    "```\n# no header\n- no item\n**no bold**\n```\nafter **one**",
    "",
    "日本語\n* punkt\n + plus\n10) zehn\n#no header\n** not bold **x",
    "open ```\n# code to the end",
]


def by_hand(text):
    """Characters, headers, list items and bold stretches, line by line."""
    prose = re.sub(r"```.*?(?:```|\Z)", "", text, flags=re.S)
    lines = prose.split("\n")
    headers = sum(bool(re.match(r" {0,3}#{1,6} ", line)) for line in lines)
    items = sum(bool(re.match(r"[ \t]*(?:[-*+]|\d{1,9}[.)]) ", line)) for line in lines)
    return [len(text), headers, items, len(re.findall(r"\*\*[^*\n]+\*\*|__[^_\n]+__", prose))]


def test_text_is_counted_as_by_hand():
    found = measured(pa.chunked_array([pa.array([*TEXTS, None])]))
    np.testing.assert_array_equal(found[:-1], [by_hand(text) for text in TEXTS])
    assert np.isnan(found[-1]).all()


def test_the_turns_of_the_assistant_are_summed():
    def turn(role, text):
        return {"role": role, "content": text}

    talks = [
        [turn("user", "# not counted"), turn("assistant", TEXTS[1]), turn("user", "x"), turn("assistant", TEXTS[2])],
        [turn("user", "nobody answers")],
        None,
    ]
    found = measured(pa.chunked_array([pa.array(talks)]))
    np.testing.assert_array_equal(found[0], np.add(by_hand(TEXTS[1]), by_hand(TEXTS[2])))
    assert np.isnan(found[1:]).all()


def test_parts_of_a_turn_are_one_text():
    part = [{"type": "text", "text": "**a**"}, {"type": "text", "text": "- b"}]
    found = measured(pa.chunked_array([pa.array([[{"role": "assistant", "content": part}]])]))
    assert found.tolist() == [by_hand("**a**\n- b")]


def test_columns_of_another_kind_say_nothing():
    assert np.isnan(measured(pa.chunked_array([pa.array([1, 2])]))).all()


def votes(**columns):
    """Four votes, the second with its agents in the other order."""
    agents = {
        "model_a": ["x", "y", "x", "x"],
        "model_b": ["y", "x", "y", "z"],
        "winner": ["model_a", "tie", "model_b", "model_a"],
    }
    return pa.table({**agents, **columns})


def style_of(log):
    """(records, agents in order of name, columns), counts again."""
    return 2 ** log.records.style.reshape(log.n_records, 2, -1) - 1


@pytest.mark.parametrize("ends", [("response_a", "response_b"), ("output_1", "output_2"), ("answer_a", "answer_b")])
def test_answers_are_found_by_their_names(ends):
    log = ne.read_votes(votes(**{ends[0]: TEXTS[:4], ends[1]: TEXTS[2:]}))
    assert log.style == ("length", "headers", "lists", "bold")
    first, second = ([by_hand(text) for text in part] for part in (TEXTS[:4], TEXTS[2:]))
    first[1], second[1] = second[1], first[1]  # y stood first there, and x is the first by name
    np.testing.assert_allclose(style_of(log), np.stack([first, second], axis=1), rtol=1e-5, atol=1e-5)
    assert log.report.roles["style"] == ", ".join(ends)


def test_lists_in_json_have_lines():
    text = "- one\n- two"
    columns = {side: [json.dumps([text])] * 4 for side in ("response_a", "response_b")}
    assert (style_of(ne.read_votes(votes(**columns)))[:, :, 2] == 2).all()


def test_counts_of_arena_files_come_before_their_text():
    about = {
        **{f"sum_assistant_{side}_tokens": tokens for side, tokens in (("a", 10), ("b", 31))},
        **{f"header_count_{side}": {"h1": 1, "h2": 2, "h3": None} for side in "ab"},
        **{f"list_count_{side}": {"ordered": 1, "unordered": 0} for side in "ab"},
        **{f"bold_count_{side}": {"**": 4, "__": 1} for side in "ab"},
    }
    table = votes(conv_metadata=[about, about, None, about], response_a=TEXTS[:4], response_b=TEXTS[:4])
    found = style_of(ne.read_votes(table))
    np.testing.assert_allclose(found[0], [[10, 3, 1, 5], [31, 3, 1, 5]], rtol=1e-5)
    np.testing.assert_allclose(found[1, :, 0], [31, 10], rtol=1e-5)
    assert np.isnan(found[2]).all()


def test_columns_can_be_named():
    table = votes(length_a=[1, 3, 7, 0], length_b=[0, 1, 3, 7], tone_1=[-1.0, 0, 1, 2], tone_2=[0.5, 0, None, 2])
    log = ne.read_votes(table, style=["length", "tone"])
    assert log.style == ("length", "tone")
    shaped = log.records.style.reshape(4, 2, 2)
    np.testing.assert_allclose(shaped[:, :, 0], [[1, 0], [1, 2], [3, 2], [0, 3]])
    np.testing.assert_allclose(shaped[:, :, 1], [[-1, 0.5], [0, 0], [1, np.nan], [2, 2]])
    again = ne.read_votes(table, style={"words": ("length_a", "length_b")})
    np.testing.assert_array_equal(again.records.style[:, 0], log.records.style[:, 0])


def test_style_can_be_left_out_and_must_be_there_if_named():
    table = votes(response_a=TEXTS[:4], response_b=TEXTS[:4])
    assert ne.read_votes(table, style=None).style == ()
    assert ne.read_votes(votes()).style == ()
    with pytest.raises(ReadError, match="no column 'words_a'"):
        ne.read_votes(table, style="words")
    with pytest.raises(ne.NashEvalError, match="a meaning of its own"):
        ne.read_votes(votes(position_a=[1] * 4, position_b=[1] * 4), style="position")

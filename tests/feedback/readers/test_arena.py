"""The LMArena releases: columns found by themselves, prompts and category tags out of nested values."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from nasheval.errors import ReadError
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.arena import SCHEMAS, detect_schema, first_of_json_lists, prompts, tag_paths
from nasheval.feedback.readers.votes import read_votes
from tests.feedback.oracle import equal_logs


def part(text, kind="text"):
    image = None if kind == "text" else "data"
    return {"type": kind, "text": text, "image": image, "mimeType": None if kind == "text" else "image/png"}


def turn(role, *parts):
    return {"role": role, "content": list(parts)}


def said(role, text):
    return {"role": role, "content": text}


TAGS = {
    "creative_writing_v0.1": {"creative_writing": False, "score": "no"},
    "criteria_v0.1": {"complexity": True, "problem_solving": False},
    "if_v0.1": {"if": True, "score": 4},
    "math_v0.1": {"math": False},
}


def release_140k():
    question = [turn("user", part("What is 2+2?")), turn("assistant", part("4"))]
    other = [turn("user", part("Draw"), part(None, "image")), turn("assistant", part("no"))]
    return {
        "id": ["i1", "i2", "i3"],
        "model_a": ["gpt", "claude", "gpt"],
        "model_b": ["claude", "llama", "llama"],
        "winner": ["model_a", "both_bad", "tie"],
        "evaluation_session_id": ["s1", "s1", "s2"],
        "evaluation_order": [1, 2, 1],
        "conversation_a": [question, other, question],
        "conversation_b": [question, other, question],
        "full_conversation": [[], [], []],
        "conv_metadata": [{"sum_user_tokens": 5}, {"sum_user_tokens": 1}, {"sum_user_tokens": 5}],
        "category_tag": [TAGS, {**TAGS, "math_v0.1": {"math": True}}, TAGS],
        "language": ["en", "de", "en"],
        "is_code": [False, True, False],
        "timestamp": pa.array([1_744_884_000_000_000, None, 1_744_884_000_500_000], pa.timestamp("us")),
    }


def release_100k():
    question = [said("user", "What is 2+2?"), said("assistant", "4")]
    return {
        "question_id": ["q1", "q2", "q3"],
        "model_a": ["gpt", "claude", "gpt"],
        "model_b": ["claude", "llama", "llama"],
        "winner": ["model_a", "tie (bothbad)", "tie"],
        "judge_hash": ["h1", "h2", None],
        "conversation_a": [question, [said("user", "Draw")], question],
        "conversation_b": [question, [said("user", "Draw")], question],
        "turn": [1, 1, 1],
        "language": ["English", "German", "English"],
        "tstamp": [1.5, 2.5, 3.5],
        "is_code": [False, True, False],
        "is_refusal": [False, False, False],
        "category_tag": [TAGS, {**TAGS, "math_v0.1": {"math": True}}, TAGS],
    }


def release_33k():
    columns = release_100k()
    columns["judge"] = columns.pop("judge_hash")
    del columns["is_code"], columns["category_tag"], columns["is_refusal"]
    return columns | {"anony": [True, True, False]}


def release_55k():
    return {
        "id": [30192, 53567, 65089],
        "model_a": ["gpt", "claude", "gpt"],
        "model_b": ["claude", "llama", "llama"],
        "prompt": [json.dumps(["What is 2+2?", "And 3+3?"]), json.dumps(["Draw"]), json.dumps(["What is 2+2?"])],
        "response_a": ['["4", "6"]', "[null]", '["4"]'],
        "response_b": ['["4", "6"]', "[null]", '["4"]'],
        "winner_model_a": [1, 0, 0],
        "winner_model_b": [0, 0, 0],
        "winner_tie": [0, 1, 1],
    }


RELEASES = {"140k": release_140k, "100k": release_100k, "55k": release_55k, "33k": release_33k}


@pytest.mark.parametrize("name", RELEASES)
def test_every_release_is_recognised(name):
    log = read_votes(pa.table(RELEASES[name]()))
    assert name in log.report.kind
    assert log.agents == ("claude", "gpt", "llama")
    assert log.text == "prompt"
    assert log.contexts["prompt"].to_pylist() == ["What is 2+2?", "Draw"]
    assert log.context_of.tolist() == [0, 0, 1]
    assert log.verdicts.z.tolist() == [-1, 0, 0]


@pytest.mark.parametrize("name", RELEASES)
def test_releases_out_of_parquet_and_jsonl_are_the_same_log(name, here):
    table = pa.table(RELEASES[name]())
    pq.write_table(table, "votes.parquet", row_group_size=2)
    with open("votes.jsonl", "w") as file:
        for row in table.to_pylist():
            file.write(json.dumps(row, default=str) + "\n")
    assert equal_logs(read_votes("votes.parquet"), read_votes(table))
    assert equal_logs(read_votes("votes.jsonl"), read_votes(table))


@pytest.mark.parametrize("name", RELEASES)
def test_releases_out_of_pandas_polars_and_datasets_are_the_same_log(name):
    import datasets
    import polars as pl

    table = pa.table(RELEASES[name]())
    expected = read_votes(table)
    for same in (table.to_pandas(), pl.from_arrow(table), datasets.Dataset(table)):
        assert equal_logs(read_votes(same), expected)


def test_the_55k_release_out_of_csv(here):
    table = pa.table(release_55k())
    pa_csv.write_csv(table, "train.csv")
    log = read_votes("train.csv")
    assert equal_logs(log, read_votes(table))
    assert log.report.kind == "arena-human-preference-55k"


def test_both_bad_is_kept_apart_from_ties_in_every_release_that_has_it():
    for name in ("140k", "100k", "33k"):
        log = read_votes(pa.table(RELEASES[name]()))
        assert log.verdicts.zero.tolist() == [Zero.DECIDED, Zero.TIE, Zero.BOTH_BAD]


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("140k", ["language", "is_code", "creative_writing", "complexity", "problem_solving", "if", "math", "prompt"]),
        ("100k", ["language", "is_code", "creative_writing", "complexity", "problem_solving", "if", "math", "prompt"]),
        ("55k", ["prompt"]),
        ("33k", ["language", "prompt"]),
    ],
)
def test_the_usual_context_of_each_release(name, context):
    assert read_votes(pa.table(RELEASES[name]())).contexts.column_names == context


def test_voters_and_times_of_the_releases():
    log = read_votes(pa.table(release_140k()))
    assert log.voters.take(pa.array(log.records.voter)).to_pylist() == ["s1", "s2", "s1"]
    np.testing.assert_array_equal(log.records.time, [1_744_884_000.0, 1_744_884_000.5, np.nan])
    log = read_votes(pa.table(release_100k()))
    assert log.records.voter.tolist() == [0, -1, 1]
    assert log.records.time.tolist() == [1.5, 3.5, 2.5]


def test_a_column_beyond_the_release_may_be_named():
    log = read_votes(pa.table(release_140k()), context=["evaluation_order"], voter="id", time="evaluation_order")
    assert log.contexts.column_names == ["evaluation_order", "prompt"]
    assert len(log.voters) == 3
    assert log.report.roles["time"] == "evaluation_order"


def test_naming_an_agent_column_of_the_55k_release_changes_nothing_else():
    table = pa.table(release_55k())
    assert equal_logs(read_votes(table, model_a="model_a"), read_votes(table))


def test_no_prompt_and_no_context_when_asked():
    log = read_votes(pa.table(release_140k()), text=None, context=[])
    assert (log.contexts.num_columns, log.text, log.n_contexts) == (0, None, 3)


@pytest.mark.parametrize("missing", ["evaluation_session_id", "judge_hash", "judge"])
def test_a_file_without_its_mark_is_read_as_plain_battles(missing):
    name = {"evaluation_session_id": "140k", "judge_hash": "100k", "judge": "33k"}[missing]
    columns = RELEASES[name]()
    del columns[missing]
    log = read_votes(pa.table(columns))
    assert log.report.kind == "battles: model_a, model_b, winner"
    assert (log.text, log.n_contexts) == (None, 3)


def test_no_release_is_taken_for_another():
    for name, make in RELEASES.items():
        assert name in detect_schema(list(make())).name
    assert detect_schema(["model_a", "model_b"]) is None
    assert len({schema.name for schema in SCHEMAS}) == len(SCHEMAS)


# -- category tags ----------------------------------------------------------------------------------------------------


def test_leaves_of_the_category_tags_go_by_their_own_names():
    log = read_votes(pa.table(release_140k()), context=["math", "if", "complexity"])
    assert log.contexts["math"].to_pylist() == [False, True]
    assert log.contexts["if"].to_pylist() == [True, True]
    assert log.contexts["complexity"].to_pylist() == [True, True]


def test_leaves_that_end_alike_go_by_their_whole_path():
    paths = tag_paths(pa.table(release_140k()).schema.field("category_tag").type)
    assert paths["math"] == ("math_v0.1", "math")
    assert paths["if_v0.1.score"] == ("if_v0.1", "score")
    assert "score" not in paths
    log = read_votes(pa.table(release_140k()), context=["if_v0.1.score"])
    assert log.contexts["if_v0.1.score"].to_pylist() == [4, 4]


def test_missing_tags_are_missing_values():
    columns = release_140k()
    columns["category_tag"] = [TAGS, None, {**TAGS, "math_v0.1": None}]
    log = read_votes(pa.table(columns), context=["math"], text=None)
    assert log.contexts["math"].to_pylist() == [False, None, None]


def test_a_column_of_its_own_goes_before_a_tag_of_the_same_name():
    log = read_votes(pa.table({**release_140k(), "math": [7, 8, 9]}), context=["math"], text=None)
    assert log.contexts["math"].to_pylist() == [7, 8, 9]


def test_tags_over_several_chunks():
    table = pa.table(release_140k())
    split = pa.concat_tables([table[:1], table[1:2], table[2:]])
    assert equal_logs(read_votes(split), read_votes(table))


def test_the_nested_tags_themselves_are_no_context():
    with pytest.raises(ReadError, match="column 'category_tag': a context column cannot be of type struct<"):
        read_votes(pa.table(release_140k()), context=["category_tag"])


# -- prompts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conversation", "prompt"),
    [
        ([said("user", "hi")], "hi"),
        ([said("system", "be kind"), said("user", "hi"), said("user", "again")], "hi"),
        ([said("assistant", "hello"), said("user", "hi")], "hi"),
        ([said("system", "be kind"), said("assistant", "hello")], None),
        ([said(None, "hi")], None),
        ([said("user", None), said("user", "again")], None),
        ([said("user", "")], ""),
        ([], None),
        (None, None),
    ],
)
def test_the_first_user_turn_of_plain_messages(conversation, prompt):
    rows = [[said("user", "before")], conversation, [said("user", "after")]]
    for kind in (pa.list_, pa.large_list):
        message = pa.struct([("role", pa.string()), ("content", pa.string())])
        text, bad = prompts(pa.chunked_array([pa.array(rows, kind(message))]))
        assert text.to_pylist() == ["before", prompt, "after"]
        assert not bad.any()


@pytest.mark.parametrize(
    ("conversation", "prompt"),
    [
        ([turn("user", part("hi"))], "hi"),
        ([turn("user", part("look"), part(None, "image"), part("at this"))], "look\nat this"),
        ([turn("user", part(None, "image"))], None),
        ([turn("user"), turn("user", part("again"))], None),
        ([turn("system", part("be kind")), turn("user", part("hi"))], "hi"),
        ([{"role": "user", "content": None}], None),
        ([turn("assistant", part("hello"))], None),
        ([], None),
        (None, None),
    ],
)
def test_the_first_user_turn_of_messages_in_parts(conversation, prompt):
    rows = [[turn("user", part("before"))], conversation, [turn("user", part("after"))]]
    chunks = pa.chunked_array([pa.array(rows)[:1], pa.array(rows)[1:]])
    text, bad = prompts(chunks)
    assert text.to_pylist() == ["before", prompt, "after"]
    assert not bad.any()


def test_conversations_in_a_slice_of_a_table():
    rows = [[said("user", str(i)), said("user", "more")] for i in range(5)]
    text, _ = prompts(pa.chunked_array([pa.array(rows)[2:4]]))
    assert text.to_pylist() == ["2", "3"]


def test_a_file_in_which_no_conversation_has_a_turn():
    text, bad = prompts(pa.chunked_array([pa.array([[], None, []])]))
    assert text.to_pylist() == [None] * 3
    assert not bad.any()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([["hi"]]),
        pa.array([[{"text": "hi"}]]),
        pa.array([[{"role": "user"}]]),
        pa.array([[{"role": 1, "content": "hi"}]]),
        pa.array([[{"role": "user", "content": 5}]]),
        pa.array([[{"role": "user", "content": ["hi"]}]]),
        pa.array([[{"role": "user", "content": [{"words": "hi"}]}]]),
        pa.array([7]),
        pa.array([{"role": "user", "content": "hi"}]),
    ],
    ids=str,
)
def test_what_is_no_conversation_is_bad_not_silently_missing(column):
    text, bad = prompts(pa.chunked_array([column]))
    assert text.to_pylist() == [None]
    assert bad.tolist() == [True]


def test_unknown_prompts_are_not_bad():
    text, bad = prompts(pa.chunked_array([pa.nulls(2)]))
    assert (text.to_pylist(), bad.tolist()) == ([None, None], [False, False])


@pytest.mark.parametrize(
    ("raw", "prompt", "bad"),
    [
        ('["hi", "again"]', "hi", False),
        ('["h\\u00e9"]', "hé", False),
        ('["\\ud83d"]', "?", False),
        ("[]", None, False),
        ("[null]", None, False),
        (None, None, False),
        ('"hi"', None, True),
        ("[5]", None, True),
        ('{"a": 1}', None, True),
        ('["hi"', None, True),
        ("", None, True),
        ("[" * 100_000, None, True),
        ("[" + "9" * 5000 + "]", None, True),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_first_of_json_encoded_turns(raw, prompt, bad):
    text, is_bad = first_of_json_lists(pa.chunked_array([pa.array([raw], pa.string())]))
    assert (text.to_pylist(), is_bad.tolist()) == ([prompt], [bad])

"""Columns that hold the verdict, or who was compared, are no context."""

from __future__ import annotations

import pyarrow as pa
import pytest

from nasheval.errors import InputError
from nasheval.feedback.readers.rankings import read_rankings
from nasheval.feedback.readers.scores import read_scores
from nasheval.feedback.readers.votes import read_votes

VOTES = {"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["model_a", "tie"], "lang": ["en", "de"]}
RELEASE_55K = {
    "model_a": ["x", "y"],
    "model_b": ["y", "x"],
    "prompt": ['["hi"]', '["ho"]'],
    "response_a": ["", ""],
    "winner_model_a": [1, 0],
    "winner_model_b": [0, 1],
    "winner_tie": [0, 0],
}
RENAMED = {"one": ["x", "y"], "two": ["y", "x"], "score": ["1", "2"], "winner": ["sunny", "rainy"]}
NAMED = {"model_a": "one", "model_b": "two", "winner": "score", "labels": {"1": "a", "2": "b"}}
LONG = {"id": [1, 1, 2, 2], "trait": ["t"] * 4, "agent": list("xyxy"), "rank": [1, 2, 2, 1]}
SCORES = {"x": [0.1, 0.2], "y": [0.3, 0.1], "x2": [0.2, 0.2], "y2": [0.3, 0.3], "lang": ["en", "de"]}
ORDERED = {"first": ["x", "y"], "second": ["y", "x"], "lang": ["en", "de"]}
EXTRA = pa.table({"lang": ["en", "de"], "winner": ["p", "q"], "family": ["west", "west"]})


@pytest.mark.parametrize(
    ("read", "table", "column", "options"),
    [
        *((read_votes, VOTES, name, {}) for name in ("winner", "model_a", "model_b")),
        *((read_votes, RELEASE_55K, name, {}) for name in ("winner_model_a", "winner_model_b", "winner_tie")),
        *((read_votes, RENAMED, name, NAMED) for name in ("one", "two", "score")),
        (read_votes, VOTES, "winner", {"join": (EXTRA, "lang")}),
        *((read_rankings, LONG, name, {"ballot": ["id", "trait"]}) for name in ("agent", "rank")),
        (read_rankings, LONG, "id", {"ballot": "id"}),
        *((read_rankings, SCORES, name, {"agents": ["x", "y"]}) for name in ("x", "y")),
        *((read_rankings, ORDERED, name, {"order": ["first", "second"]}) for name in ("first", "second")),
        *((read_scores, SCORES, name, {"agents": ["x", "y"]}) for name in ("x", "y")),
        *((read_scores, SCORES, name, {"agents": {"x": ["x", "x2"], "y": ["y", "y2"]}}) for name in ("x2", "y")),
    ],
)
def test_the_answer_and_the_question_are_no_context(read, table, column, options):
    with pytest.raises(
        InputError, match=f"column '{column}': it cannot be context, because it .*\n.*\n.*leave '{column}'"
    ):
        read(pa.table(table), context=[column], **options)


@pytest.mark.parametrize(
    ("read", "table", "column", "options"),
    [
        (read_votes, RENAMED, "winner", NAMED),  # only the column that the verdict is read from
        (read_votes, VOTES, "family", {"join": (EXTRA, "lang")}),
        (read_rankings, LONG, "trait", {"ballot": ["id", "trait"]}),
        (read_rankings, SCORES, "x2", {"agents": ["x", "y"]}),
        (read_scores, SCORES, "x2", {"agents": ["x", "y"]}),
    ],
)
def test_other_columns_are(read, table, column, options):
    assert column in read(pa.table(table), context=[column], **options).contexts.column_names


def test_a_prompt_may_tell_ballots_apart():
    table = {"prompt": ["hi", "hi", "ho", "ho"], "agent": list("xyxy"), "rank": [1, 2, 2, 1]}
    assert read_rankings(pa.table(table), ballot="prompt", text="prompt").text == "prompt"


@pytest.mark.parametrize("column", ["winner", "model_a"])
def test_the_verdict_is_no_text(column):
    with pytest.raises(InputError, match=f"column '{column}': it cannot be the text, because"):
        read_votes(pa.table(VOTES), text=column)

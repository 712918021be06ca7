"""The vote files people bring: the LMArena releases and plain battle tables, told apart by their columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Bools
from nasheval.contexts.table import decoded, is_list, is_string

TAGS = "category_tag"


@dataclass(frozen=True)
class VoteSchema:
    """How one kind of vote file names its columns.

    Args:
        name: how people call the kind.
        marks: columns that tell it from the others.
        first, second: columns of the two agents, in the order shown.
        winner: the label column, the three 0/1 columns (first wins, second wins, tie), or the ranks of the two agents.
        prompt: the column that holds the prompt or the conversation.
        context: columns taken as context unless the user names others.
        voter, time: columns of who voted and when.
    """

    name: str
    marks: tuple[str, ...]
    first: str = "model_a"
    second: str = "model_b"
    winner: str | tuple[str, ...] = "winner"
    prompt: str | None = None
    context: tuple[str, ...] = ()
    voter: str | None = None
    time: str | None = None

    @property
    def verdict(self) -> tuple[str, ...]:
        """Columns of the two agents and of who won."""
        return (self.first, self.second, *((self.winner,) if isinstance(self.winner, str) else self.winner))

    @property
    def roles(self) -> dict[str, str]:
        """Which column plays which role, for a report."""
        return {"model_a": self.first, "model_b": self.second, "winner": ", ".join(self.verdict[2:])}

    @property
    def names(self) -> set[str]:
        """Those of them that hold names or labels, and so must not be taken for numbers."""
        return {self.first, self.second, *((self.winner,) if isinstance(self.winner, str) else ())}


ARENA_140K = VoteSchema(
    "arena-human-preference-140k",
    ("conversation_a", "evaluation_session_id"),
    prompt="conversation_a",
    context=("language", "is_code", TAGS),
    voter="evaluation_session_id",
    time="timestamp",
)
ARENA_100K = VoteSchema(
    "arena-human-preference-100k",
    ("conversation_a", "question_id", "judge_hash"),
    prompt="conversation_a",
    context=("language", "is_code", TAGS),
    voter="judge_hash",
    time="tstamp",
)
ARENA_55K = VoteSchema(
    "arena-human-preference-55k",
    ("prompt", "response_a"),
    winner=("winner_model_a", "winner_model_b", "winner_tie"),
    prompt="prompt",
)
ARENA_33K = VoteSchema(
    "chatbot_arena_conversations 33k",
    ("conversation_a", "question_id", "judge"),
    prompt="conversation_a",
    context=("language",),
    voter="judge",
    time="tstamp",
)
PLAIN = VoteSchema("battles: model_a, model_b, winner", ())
LEFT_RIGHT = VoteSchema("battles: left, right, winner", (), first="left", second="right")
SCHEMAS = (ARENA_140K, ARENA_100K, ARENA_33K, ARENA_55K, PLAIN, LEFT_RIGHT)


def detect_schema(names: list[str]) -> VoteSchema | None:
    """Return the first kind of vote file whose columns are all there."""
    return next((schema for schema in SCHEMAS if {*schema.verdict, *schema.marks} <= set(names)), None)


# -- category tags ----------------------------------------------------------------------------------------------------


def tag_paths(kind: pa.DataType) -> dict[str, tuple[str, ...]]:
    """Return the leaves of the nested `category_tag` column: a short name for each, and the path to it.

    The last part of the path is the name ("math"), the whole path where two leaves end alike ("if_v0.1.score").
    """
    paths = _leaves(kind, ())
    ends = [path[-1] for path in paths]
    return {path[-1] if ends.count(path[-1]) == 1 else ".".join(path): path for path in paths}


def boolean_tags(kind: pa.DataType) -> list[str]:
    """Return the names of the yes/no leaves of the nested column."""
    leaf = partial(reduce, lambda inner, name: inner.field(name).type)
    return [name for name, path in tag_paths(kind).items() if pa.types.is_boolean(leaf(path, kind))]


def _leaves(kind: pa.DataType, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    if not pa.types.is_struct(kind):
        return [path] if path and (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or is_string(kind)) else []
    named = [field for field in kind if kind.get_field_index(field.name) >= 0]  # a name that stands twice names neither
    return [leaf for field in named for leaf in _leaves(field.type, (*path, field.name))]


# -- prompts ----------------------------------------------------------------------------------------------------------


def prompts(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Bools]:
    """Return (text, is_bad): the first user turn of conversations, or the text itself of a text column."""
    none_bad = np.zeros(len(column), bool)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if is_string(kind) or pa.types.is_null(kind):
        return column.cast(pa.large_string()), none_bad
    if is_list(column.type) and is_message(column.type.value_type):
        chunks = [_first_user_turn(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, pa.large_string()), none_bad
    return pa.chunked_array([pa.nulls(len(column), pa.large_string())]), np.asarray(pc.is_valid(column))


def is_message(kind: pa.DataType) -> bool:
    """Tell whether a type is {role, content} with a content that is text, or a list of parts with a text each."""
    if pa.types.is_null(kind):  # no conversation has a turn
        return True
    if not pa.types.is_struct(kind) or min(map(kind.get_field_index, ("role", "content"))) < 0:
        return False
    role, content = kind.field("role").type, kind.field("content").type
    if is_list(content) and pa.types.is_struct(content.value_type):
        content = content.value_type.field("text").type if content.value_type.get_field_index("text") >= 0 else content
    elif is_list(content):
        content = content.value_type if pa.types.is_null(content.value_type) else content
    return all(is_string(kind) or pa.types.is_null(kind) for kind in (role, content))


def _first_user_turn(conversations: pa.Array) -> pa.Array:
    """Return the text of the first message of each conversation whose role is "user", null where there is none."""
    if pa.types.is_null(conversations.type.value_type):
        return pa.nulls(len(conversations), pa.large_string())
    parent, turns = pc.list_parent_indices(conversations), pc.list_flatten(conversations)
    role = pc.struct_field(turns, ["role"]).cast(pa.large_string())
    is_user = np.asarray(pc.fill_null(pc.equal(role, "user"), False))
    at = np.flatnonzero(is_user)
    owner, first = np.unique(np.asarray(parent)[at], return_index=True)
    said = joined_text(pc.struct_field(turns, ["content"]).take(pa.array(at[first])))
    place = np.full(len(conversations), -1)
    place[owner] = np.arange(len(owner))
    return said.take(pa.array(place, mask=place < 0))


def joined_text(content: pa.Array) -> pa.Array:
    """Return message contents as text: strings as they are, lists of typed parts joined by newlines."""
    if not is_list(content.type):
        return content.cast(pa.large_string())
    pieces = pc.list_flatten(content)
    if pa.types.is_null(pieces.type):
        return pa.nulls(len(content), pa.large_string())
    text = pc.struct_field(pieces, ["text"]).cast(pa.large_string())
    parent = np.asarray(pc.list_parent_indices(content))
    has = np.asarray(pc.is_valid(text))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(parent[has], minlength=len(content)))])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), text.filter(pa.array(has)))
    empty = pa.array(np.diff(offsets) == 0)
    return pc.if_else(empty, None, pc.binary_join(lists, pa.scalar("\n", pa.large_string())))


def first_of_json_lists(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Bools]:
    """Return (text, is_bad): the first string of JSON-encoded lists of strings, as in the 55k release."""
    column = decoded(column)
    if not is_string(column.type):
        return prompts(column)
    turns: list[str | None] = []
    bad = np.zeros(len(column), bool)
    for row, raw in enumerate(column.to_pylist()):
        try:
            turns.append(_first_turn(json.loads(raw)) if raw is not None else None)
        except (ValueError, TypeError, RecursionError):
            turns.append(None)
            bad[row] = True
    return pa.chunked_array([pa.array(turns, pa.large_string())]), bad


def _first_turn(turns: object) -> str | None:
    """Return the first of a list of strings, None where there is none."""
    first = turns[0] if isinstance(turns, list) and turns else None
    if not isinstance(turns, list) or not isinstance(first, str | None):
        raise TypeError
    # A lone surrogate is valid JSON but no valid text.
    return None if first is None else first.encode("utf-8", "replace").decode("utf-8")

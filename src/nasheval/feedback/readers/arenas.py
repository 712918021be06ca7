"""Vote logs of arenas: FastChat, P2L, Open WebUI, TTS-Arena, MTEB arena, compar:IA."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Bools, Floats
from nasheval.contexts.table import is_list
from nasheval.feedback.readers.formats import ROW, Columns, Format, chosen, item, listed_values, numbers, spliced, texts
from nasheval.feedback.readers.text_files import Record

_BUTTONS = {"leftvote": "a", "rightvote": "b", "tievote": "tie", "bothbad_vote": "both_bad", "bothbadvote": "both_bad"}
_OTHERS = ("chat", "upvote", "downvote", "flag", "share", "load", "regenerate")  # what lines beside votes tell
_HIDDEN = ("", "Model A", "Model B", None)  # what stands for the name of a model in an anonymous battle
_HEADING = r"^\s*(?:###|<h3>)\s*Model [AB]:\s*(.*?)\s*(?:</h3>)?\s*$"  # what stands for it once it is shown
_DIFFER = ": models and states differ"  # beside the label of a vote that names two agents for one answer


# -- FastChat ---------------------------------------------------------------------------------------------------------


def _fastchat(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    """Return one row per vote; lines about anything else (chats, thumbs, flags) are counted."""
    votes, others = [], Counter[str]()
    for number, row in enumerate(rows, start=1):
        kind = row.get("type")
        empty = not row.get("states") and not row.get("models")
        if str(kind) in _OTHERS or (empty and str(kind) not in _BUTTONS):
            others[f"lines of type {str(kind)[:40]!r}, which are no votes"] += 1
            continue
        states = [state if isinstance(state, dict) else {} for state in _listed(row.get("states"))] + [{}, {}]
        shown = [_shown_name(model) for model in [*_listed(row.get("models")), None, None][:2]]
        known = [state.get("model_name") or None for state in states[:2]]
        names = [s if k is None else k for s, k in zip(shown, known, strict=True)]
        differ = any(s not in (None, name) for s, name in zip(shown, names, strict=True))
        votes.append(
            {ROW: number, "A": names[0], "B": names[1], "type": None if kind is None else f"{kind}{_DIFFER * differ}"}
            | {"anonymous": shown == [None, None]}
            | {"tstamp": row.get("tstamp"), "ip": row.get("ip"), "prompt": _first_message(states[0])}
        )
    return votes, dict(others)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown_name(model: Any) -> Any:
    """Return the name of a model without its heading; None while it is hidden."""
    name = re.sub(_HEADING, r"\1", model, flags=re.ASCII) if isinstance(model, str) else model
    return None if name in _HIDDEN else name


def _first_message(state: Record) -> str | None:
    """Return what the user said first, after the messages that stand before every conversation; else the prompt."""
    offset = state.get("offset")
    for message in _listed(state.get("messages"))[offset if isinstance(offset, int) and offset > 0 else 0 :]:
        said = message[1] if isinstance(message, list) and len(message) > 1 else None
        said = said[0] if isinstance(said, list) and said else said  # text with pictures
        if isinstance(said, str):
            return said
    prompt = state.get("prompt")  # of a task that is no conversation
    return prompt if isinstance(prompt, str) else None


def _fastchat_columns(table: pa.Table) -> tuple[pa.Table, dict[str, int]] | None:
    """Return the same of a table, all rows at once; None where its columns are of other types than most logs have."""
    table = table.combine_chunks()
    kinds = {name: table[name].type for name in table.column_names}
    turns = pa.list_(pa.list_(pa.string()))
    inner = {field.name: field.type for field in _inner(kinds.get("states"))}
    usual = inner.get("model_name") == pa.string() and inner.get("messages") == turns and "prompt" not in inner
    if not usual or kinds.get("type") != pa.string() or kinds.get("models", _NAMES) != _NAMES:
        return None
    said, states = table["type"].chunk(0), table["states"].chunk(0)
    models = table["models"].chunk(0) if "models" in kinds else pa.nulls(len(said), _NAMES)
    empty = [np.asarray(pc.fill_null(pc.equal(pc.list_value_length(each), 0), True)) for each in (states, models)]
    button, beside = (np.asarray(pc.is_in(said, pa.array(list(words)))) for words in (_BUTTONS, _OTHERS))
    other = beside | (~button & empty[0] & empty[1])
    columns: Columns = {ROW: np.arange(1, len(said) + 1), "prompt": _first_messages(item(states, 0))}
    anonymous, differ = np.ones(len(said), bool), np.zeros(len(said), bool)
    for place, side in enumerate("AB"):
        shown = pc.replace_substring_regex(item(models, place), pattern=_HEADING, replacement=r"\1")
        shown = pc.if_else(pc.is_in(shown, pa.array(_HIDDEN, pa.string())), None, shown)
        known = pc.struct_field(item(states, place), "model_name")
        columns[side] = pc.coalesce(pc.if_else(pc.equal(known, ""), None, known), shown)
        anonymous &= np.asarray(shown.is_null())
        differ |= np.asarray(pc.fill_null(pc.not_equal(shown, columns[side]), False))
    columns["anonymous"] = anonymous
    columns["type"] = pc.if_else(pa.array(differ), pc.binary_join_element_wise(said, _DIFFER, ""), said)
    columns |= {name: table[name] for name in ("tstamp", "ip") if name in kinds}
    counted = Counter(str(kind)[:40] for kind in said.filter(pa.array(other)).to_pylist())
    left = {f"lines of type {kind!r}, which are no votes": count for kind, count in counted.items()}
    return pa.table(columns).filter(pa.array(~other)), left


_NAMES = pa.list_(pa.string())


def _inner(kind: Any) -> Any:
    """Return the fields of the objects in lists of this type; none where it is another."""
    return kind.value_type if kind and is_list(kind) and pa.types.is_struct(kind.value_type) else ()


def _first_messages(states: pa.Array) -> pa.Array:
    """Return (n,) what the user said first in each conversation, after the messages that stand before every one."""
    messages = pc.struct_field(states, "messages")
    row = np.asarray(pc.list_parent_indices(messages))
    place = np.arange(len(row)) - np.searchsorted(row, row)
    said, skip = item(pc.list_flatten(messages), 1), np.zeros(len(states))
    if states.type.get_field_index("offset") >= 0:
        skip = np.maximum(np.nan_to_num(numbers(pa.table({"": pc.struct_field(states, "offset")}), "")), 0)
    used, first = np.unique(
        row[(spoken := np.flatnonzero(np.asarray(said.is_valid()) & (place >= skip[row])))], return_index=True
    )
    at = np.full(len(states), -1)
    at[used] = spoken[first]
    return said.take(pa.array(at, mask=at < 0))


FASTCHAT = Format(
    "FastChat log",
    "votes",
    ("tstamp", "type"),
    '{"tstamp": 1687000000.5, "type": "leftvote", "models": ["", ""], "states": [{"model_name": "x", '
    '"messages": [["USER", "Why?"]]}, {"model_name": "y", "messages": []}], "ip": "1.2.3.4"}',
    {
        **{"model_a": "A", "model_b": "B", "winner": "type", "labels": _BUTTONS, "text": "prompt"},
        **{"voter": "ip", "time": "tstamp"},
    },
    made=("A", "B", "type", "anonymous", "prompt", "ip", "tstamp"),
    records=_fastchat,
    quick=_fastchat_columns,
    tells=lambda rows: any("states" in row or "state" in row for row in rows),
)


# -- Open WebUI -------------------------------------------------------------------------------------------------------


def _open_webui(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    """Return one row for each answer that a rated one stood beside; they share one unit of weight."""
    votes, left = [], Counter[str]()
    for number, row in enumerate(rows, start=1):
        data, meta = _object(row.get("data")), _object(row.get("meta"))
        others = [name for name in _listed(data.get("sibling_model_ids")) if name != data.get("model_id")]
        if not others:
            left["ratings of one answer alone, which compare nothing"] += 1
            continue
        rating, tags = data.get("rating"), [*_listed(meta.get("tags")), *_listed(data.get("tags")), None]
        vote = {ROW: number, "A": data.get("model_id"), "rating": None if rating is None else str(rating)}
        vote |= {"weight": 1 / len(others), "user_id": row.get("user_id"), "tag": tags[0], "arena": meta.get("arena")}
        vote["prompt"] = _rated_prompt(row, meta.get("message_id"))
        votes += [vote | {"B": other} for other in others]
    return votes, dict(left)


def _object(value: Any) -> Record:
    return value if isinstance(value, dict) else {}


def _rated_prompt(row: Record, message: Any) -> str | None:
    """Return the message that the rated answer replies to, else the first of the user's."""
    chat = _object(_object(_object(row.get("snapshot")).get("chat")).get("chat"))
    history = _object(_object(chat.get("history")).get("messages"))
    parent = _object(history.get(str(_object(history.get(str(message))).get("parentId"))))
    for one in (parent, *_listed(chat.get("messages")), *history.values()):
        if _object(one).get("role") == "user" and isinstance(one.get("content"), str):
            return str(one["content"])
    return None


def _is_feedback(rows: list[Record]) -> bool:
    return any({"rating", "model_id"} <= _object(row.get("data")).keys() for row in rows)


OPEN_WEBUI = Format(
    "Open WebUI feedback",
    "votes",
    ("data", "meta", "user_id"),
    '[{"id": "f1", "user_id": "u1", "type": "rating", "data": {"rating": 1, "model_id": "x", '
    '"sibling_model_ids": ["y"]}, "meta": {"arena": true, "chat_id": "c1", "message_id": "m1", "tags": ["code"]}}]',
    {
        **{"model_a": "A", "model_b": "B", "winner": "rating", "weight": "weight", "voter": "user_id"},
        **{"labels": {"1": "a", "-1": "b", None: "drop"}, "text": "prompt", "context": ("tag",)},
    },
    made=("A", "B", "rating", "weight", "user_id", "tag", "prompt"),
    records=_open_webui,
    tells=_is_feedback,
)


# -- tables -----------------------------------------------------------------------------------------------------------


def _p2l(table: pa.Table, file: str) -> Columns:
    """Return who won: labels hold places in the sorted list of all models, whose order is that of the two names."""
    values, row, place = listed_values(table, "labels", file)
    given = np.full((table.num_rows, 3), np.nan)
    inside = place < given.shape[1]
    given[row[inside], place[inside]] = numbers(pa.table({"labels": values}), "labels")[inside]
    winner, loser, tie = given.T
    names = texts(table, "model_a"), texts(table, "model_b")
    sorted_so = np.asarray(pc.less(*names).fill_null(False))
    said = np.where((winner < loser) == sorted_so, "first", "second").astype(object)
    said[tie == 1], said[tie == 2] = "tie", "both_bad"
    three = ~np.isnan(given).any(axis=1) & (np.bincount(row, minlength=len(given)) == 3)
    sound = three & (winner != loser) & np.isin(tie, (0, 1, 2))
    low, high = np.sort(given[:, :2], axis=1).T
    places = np.where(sorted_so, low, high), np.where(sorted_so, high, low)
    why = {": no three numbers": ~three, ": equal places": winner == loser, ": the tie is not 0, 1 or 2": ~sound}
    why[": another place elsewhere"] = _moved(names, places, sound)
    for reason, rows in reversed(why.items()):
        raw = table["labels"].take(pa.array(np.flatnonzero(rows))).to_pylist()  # as they are written, for the message
        said[rows] = [None if value is None else f"{value}{reason}" for value in raw]
    return {"labels": pa.array(said, pa.large_string())}


def _moved(names: Sequence[pa.ChunkedArray], places: Sequence[Floats], sound: Bools) -> Bools:
    """Return (n,) the rows in which a model has another place than in most others."""
    coded = pa.concat_arrays([chunk for name in names for chunk in name.chunks]).dictionary_encode().indices
    model, [known, place] = np.asarray(coded.fill_null(-1)), np.unique(np.concatenate(places), return_inverse=True)
    at = np.flatnonzero(np.tile(sound, 2) & (model >= 0))
    pair, which, count = np.unique(
        model[at].astype(np.int64) * len(known) + place[at], return_inverse=True, return_counts=True
    )
    order = np.argsort(-count, kind="stable")
    _, usual = np.unique(pair[order] // max(len(known), 1), return_index=True)
    moved = np.zeros(len(model), bool)
    moved[at] = ~np.isin(which, order[usual])
    return np.asarray(moved[: len(sound)] | moved[len(sound) :])


P2L = Format(
    "P2L comparisons",
    "votes",
    ("prompt", "model_a", "model_b", "labels", "!winner"),
    '{"prompt": "Why?", "model_a": "x", "model_b": "y", "labels": [0, 1, 0], "weight": 1.0}',
    {"winner": "labels", "text": "prompt", "weight": "weight"},
    made=("labels",),
    needs=("model_a", "model_b", "labels"),
    columns=_p2l,
)


def _tts_arena(table: pa.Table, file: str) -> Columns:
    """Return the two models in order of their names: which was shown first is not known."""
    won, lost = texts(table, "model_chosen"), texts(table, "model_rejected")
    swapped = pc.fill_null(pc.greater(won, lost), False)
    return {"A": pc.if_else(swapped, lost, won), "B": pc.if_else(swapped, won, lost), "model_chosen": won}


TTS_ARENA = Format(
    "TTS-Arena votes",
    "votes",
    ("model_chosen", "model_rejected"),
    '{"user_id": 7, "text": "Hello.", "vote_date": "2025-04-17 10:00:00", "model_chosen": "x", '
    '"model_rejected": "y", "model_type": "tts"}',
    {
        **{"model_a": "A", "model_b": "B", "winner": "model_chosen", "text": ("text",), "voter": "user_id"},
        **{"time": "vote_date", "context": ("model_type", "language")},
    },
    made=("A", "B", "model_chosen"),
    needs=("model_chosen", "model_rejected"),
    columns=_tts_arena,
)


def _mteb_arena(table: pa.Table, file: str) -> Columns:
    """Return prompts: a text, or several that were to be clustered or compared."""
    compared = spliced(*(texts(table, f"0_txt{place}") for place in range(3)), by="\n")
    return {"prompt": pc.coalesce(_joined(table, "0_prompt"), _joined(table, "prompt"), compared)}


def _joined(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column of text; lists of texts joined by newlines."""
    if name in table.column_names and is_list(table[name].type):
        return pc.binary_join(table[name].cast(pa.large_list(pa.large_string())), pa.scalar("\n", pa.large_string()))
    return texts(table, name)


MTEB_ARENA = Format(
    "MTEB arena log",
    "votes",
    ("0_model_name", "1_model_name", "type"),
    '{"tstamp": 1722000000.5, "type": "leftvote", "0_model_name": "x", "1_model_name": "y", "0_prompt": "Why?"}',
    {
        **{"model_a": "0_model_name", "model_b": "1_model_name", "winner": "type", "text": "prompt"},
        **{"labels": _BUTTONS | dict.fromkeys(_OTHERS, "drop"), "voter": "ip", "time": "tstamp"},
    },
    made=("prompt",),
    needs=("type", "0_prompt", "prompt", "0_txt0", "0_txt1", "0_txt2"),
    columns=_mteb_arena,
)


def _compar_ia(table: pa.Table, file: str) -> Columns:
    equal = pc.fill_null(_flags(table, "both_equal"), False)
    return {"chosen_model_name": chosen(np.asarray(equal), "tie", texts(table, "chosen_model_name"))}


def _flags(table: pa.Table, name: str) -> pa.ChunkedArray:
    said = pc.utf8_lower(texts(table, name))
    return pc.or_(pc.equal(said, "true"), pc.equal(said, "1"))


COMPAR_IA = Format(
    "compar:IA votes",
    "votes",
    ("model_a_name", "model_b_name", "chosen_model_name", "both_equal"),
    '{"model_a_name": "x", "model_b_name": "y", "chosen_model_name": "x", "both_equal": false, '
    '"opening_msg": "Pourquoi ?", "selected_category": "ideas", "visitor_id": "v1", "timestamp": "2025-04-17"}',
    {
        **{
            "model_a": "model_a_name",
            "model_b": "model_b_name",
            "winner": "chosen_model_name",
            "labels": {None: "drop"},
        },
        **{"text": "opening_msg", "context": ("selected_category",), "voter": "visitor_id", "time": "timestamp"},
    },
    made=("chosen_model_name",),
    needs=("both_equal", "chosen_model_name"),
    columns=_compar_ia,
)

ARENAS = (FASTCHAT, OPEN_WEBUI, P2L, TTS_ARENA, MTEB_ARENA, COMPAR_IA)

"""Files of annotation tools: Label Studio, Argilla, LangSmith, WMT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nasheval.errors import Argument, ReadError
from nasheval.feedback.arrow_columns import coded
from nasheval.feedback.readers.formats import ROW, Columns, Format, numbers, spliced, texts
from nasheval.feedback.readers.grouping import by_appearance, codes_of, joint_codes
from nasheval.feedback.readers.guessing import paired_names
from nasheval.feedback.readers.row_checks import listed
from nasheval.feedback.readers.score_files import LONG, WIDE, pivot
from nasheval.feedback.readers.text_files import Record

_PROMPTS = ("prompt", "question", "instruction", "query", "text")


# -- Label Studio -----------------------------------------------------------------------------------------------------


def _results(rows: list[Record], kind: str, left: Counter[str]) -> Iterator[tuple[int, Record, Record, Record]]:
    """Yield (number, task's data, annotation, value) of each answer of a kind; what is left out is counted."""
    for number, row in enumerate(rows, start=1):
        data = row.get("data") if isinstance(row.get("data"), dict) else {}
        annotations = row["annotations"] if isinstance(row.get("annotations"), list) else [row]
        if not annotations:
            left["tasks without an annotation"] += 1
        for annotation in annotations:
            if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
                left["annotations that were cancelled"] += 1
                continue
            results = [one for one in annotation.get("result") or [] if isinstance(one, dict)]
            values = [one.get("value") for one in results if one.get("type") == kind]
            if not values:
                left[f"annotations without a {kind} answer"] += 1
            for value in values:
                yield number, data or {}, annotation, value if isinstance(value, dict) else {}


def _who(annotation: Record) -> Any:
    by = annotation.get("completed_by")
    return by.get("email") or by.get("id") if isinstance(by, dict) else by


def _asked(data: Record) -> Any:
    return next((data[name] for name in _PROMPTS if isinstance(data.get(name), str)), None)


def _plain(data: Record) -> Record:
    return {f"data.{name}": value for name, value in data.items() if isinstance(value, str | int | float | bool)}


def _pairwise(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    left = Counter[str]()
    made = []
    unnamed: tuple[int, Record] | None = None
    for number, data, annotation, value in _results(rows, "pairwise", left):
        sides = paired_names(list(data), ("model", "agent", "system"))
        unnamed = unnamed if sides else (number, data)
        selected = value.get("selected")
        made.append(
            {ROW: number, "left": data.get(sides[0]) if sides else None, "right": data.get(sides[1]) if sides else None}
            | {"selected": None if selected is None else str(selected), "annotator": _who(annotation)}
            | {"prompt": _asked(data), **_plain(data)}
        )
    if unnamed and not any(row["left"] for row in made):
        raise ReadError(
            f"the task does not say which models stand left and right; its data: {listed(list(unnamed[1]))}",
            source=str(file),
            rows=unnamed[:1],
            accepted="names of models in the task's data, such as model_left and model_right",
            fix="add them to the data of the tasks",
        )
    return made, dict(left)


def _ranker(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    """Return one row per ranked item, called by the name of its model where the task gives one, else by its id."""
    left = Counter[str]()
    made = []
    for ballot, (number, data, annotation, value) in enumerate(_results(rows, "ranker", left)):
        ranked = value.get("ranker")
        if isinstance(ranked, dict):
            ranked = next((order for order in ranked.values() if isinstance(order, list)), [])
        items = next((value for value in data.values() if isinstance(value, list)), [])
        names = {str(one.get("id")): one.get("model") or one.get("id") for one in items if isinstance(one, dict)}
        for place, one in enumerate(ranked if isinstance(ranked, list) else [], start=1):
            made.append(
                {
                    ROW: number,
                    "ballot": ballot,
                    "agent": names.get(str(one), one),
                    "rank": place,
                    "prompt": _asked(data),
                }
                | {"annotator": _who(annotation), **_plain(data)}
            )
    return made, dict(left)


def _holds(kind: str) -> Any:
    def tells(rows: list[Record]) -> bool:
        return any(True for _ in _results(rows, kind, Counter()))

    return tells


def _label_studio(kind: str, marks: tuple[str, ...]) -> Format:
    pair = kind == "pairwise"
    value = '{"selected": "left"}' if pair else '{"ranker": {"_": ["x", "y"]}}'
    options = {"model_a": "left", "model_b": "right", "winner": "selected", "labels": {None: "drop"}}
    return Format(
        "Label Studio pairs" if pair else "Label Studio rankings",
        "votes" if pair else "rankings",
        marks,
        '[{"id": 1, "data": {"prompt": "Why?", "model_left": "x", "model_right": "y"}, '
        f'"annotations": [{{"completed_by": 7, "result": [{{"type": "{kind}", "value": {value}}}]}}]}}]',
        {**(options if pair else {"ballot": ("ballot",)}), "text": "prompt", "voter": "annotator"},
        made=("left", "right", "selected", "prompt", "annotator")
        if pair
        else ("ballot", "agent", "rank", "prompt", "annotator"),
        records=_pairwise if pair else _ranker,
        tells=_holds(kind),
    )


LABEL_STUDIO = tuple(
    _label_studio(kind, ("data", inside)) for kind in ("pairwise", "ranker") for inside in ("annotations", "result")
)


# -- Argilla ----------------------------------------------------------------------------------------------------------


def _answers(row: Record, question: str) -> Iterator[tuple[Any, Any, str]]:
    values = row.get(f"{question}.responses")
    values = values if isinstance(values, list) else []
    users = [*(row.get(f"{question}.responses.users") or []), *[None] * len(values)]
    states = [*(row.get(f"{question}.responses.status") or []), *["submitted"] * len(values)]
    yield from zip(values, users, states, strict=False)


def _argilla(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    """Return one row per submitted answer to the first question, or to the one that `metric` names."""
    suffix = ".responses"
    keys = list(dict.fromkeys(key for row in rows for key in row))
    questions = [name.removesuffix(suffix) for name in keys if name.endswith(suffix)]
    question = metric or questions[0]
    if question not in questions:
        raise ReadError(
            f"there is no question {question!r}",
            source=str(file),
            accepted=f"its questions, {listed(questions)}",
            fix=("pass one of them as ", Argument("score")),
        )
    sides = paired_names(keys, ("model", "agent", "system", "generator"))
    made, left = [], Counter[str]()
    for number, row in enumerate(rows, start=1):
        left["records without an answer"] += not any(True for _ in _answers(row, question))
        for value, user, status in _answers(row, question):
            if status != "submitted":
                left[f"answers that are {status}"] += 1
                continue
            made.append(
                {ROW: number, "A": row.get(sides[0]) if sides else None, "B": row.get(sides[1]) if sides else None}
                | {"answer": None if value is None else str(value), "user": user, "prompt": _asked(row)}
                | {name: one for name, one in row.items() if isinstance(one, str | int | float | bool)}
            )
    return made, {reason: count for reason, count in left.items() if count}


def _is_argilla(rows: list[Record]) -> bool:
    return any(f"{name}.users" in row for row in rows for name in row if name.endswith(".responses"))


ARGILLA = Format(
    "Argilla records",
    "votes",
    ("*.responses", "*.responses.users"),
    '{"id": "1", "prompt": "Why?", "model_a": "x", "model_b": "y", "better.responses": ["a"], '
    '"better.responses.users": ["u1"], "better.responses.status": ["submitted"]}',
    {
        **{"model_a": "A", "model_b": "B", "winner": "answer", "voter": "user", "text": "prompt"},
        "labels": {
            **{f"response{sign}{i}": side for sign in "_- " for i, side in ((1, "a"), (2, "b"))},
            **{"1": "a", "2": "b", None: "drop"},
        },
    },
    made=("A", "B", "answer", "user", "prompt"),
    records=_argilla,
    tells=_is_argilla,
)


# -- LangSmith --------------------------------------------------------------------------------------------------------


def _langsmith(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    """Return one row per score; runs are called by the name of their experiment where the row gives one."""
    made, left = [], Counter[str]()
    for number, row in enumerate(rows, start=1):
        if metric and row.get("key") != metric:
            left["rows of another key"] += 1
            continue
        names: Record = next(
            (row[key] for key in ("experiments", "models", "runs") if isinstance(row.get(key), dict)), {}
        )
        scores = row.get("scores") if isinstance(row.get("scores"), dict) else {}
        left["rows without scores"] += not scores
        for run, score in (scores or {}).items():
            made.append(
                {ROW: number, "item": str(number), "agent": str(names.get(run, run)), "task": row.get("key")}
                | {"score": score, "prompt": _asked(row)}
            )
    runs = Counter(str(row["agent"]) for row in made)
    if len(rows) > 2 and runs and max(runs.values()) == 1:
        raise ReadError(
            f"every run is scored once ({listed(list(runs), 3)}): these are ids of answers, not names of agents",
            source=str(file),
            column="scores",
            accepted="names of agents in the column 'experiments', as in " + LANGSMITH.example,
            fix="add which experiment each run belongs to",
        )
    return made, {reason: count for reason, count in left.items() if count}


LANGSMITH = Format(
    "LangSmith comparative feedback",
    "scores",
    ("key", "scores", "comment"),
    '{"key": "preference", "scores": {"run1": 1, "run2": 0}, "comment": "", "experiments": {"run1": "x", "run2": "y"}}',
    WIDE,
    made=LONG,
    records=_langsmith,
    whole=pivot,
)


# -- WMT --------------------------------------------------------------------------------------------------------------


def _wmt(table: pa.Table, file: str) -> Columns:
    """Return two rows for each, the systems of a pair with their ranks."""
    n = table.num_rows
    row = np.tile(np.arange(n), 2)
    ids = [texts(table, name).take(pa.array(row)) for name in ("srclang", "trglang", "srcIndex", "rankingID")]

    def both(name: str) -> pa.ChunkedArray:
        chunks = [*texts(table, name.format(1)).chunks, *texts(table, name.format(2)).chunks]
        return pa.chunked_array(chunks, pa.large_string())

    return {
        ROW: row,
        "segment": spliced(*ids[:3], by="-"),
        "ranking": spliced(ids[0], ids[1], ids[3], by="-"),
        "system": both("system{}Id"),
        "rank": both("system{}rank"),
        **{name: texts(table, name).take(pa.array(row)) for name in ("srclang", "trglang", "judgeID")},
    }


def _ballots(table: pa.Table, source: str, score: str) -> tuple[pa.Table, dict[str, int]]:
    """Return each system of a ranking once; a rank of -1 says that it was not ranked."""
    unranked = numbers(table, "rank") == -1
    table = table.filter(pa.array(~unranked))
    key = joint_codes([codes_of(coded(table[name])) for name in ("ranking", "system", "rank")])
    _, first = by_appearance(key)
    dropped = {"systems that were not ranked (-1)": int(unranked.sum())} if unranked.any() else {}
    return table.take(pa.array(first)), dropped


WMT = Format(
    "WMT rankings",
    "rankings",
    ("srclang", "trglang", "system1Id", "system1rank", "system2Id", "system2rank", "rankingID"),
    "srclang,trglang,srcIndex,segmentId,judgeID,system1Id,system1rank,system2Id,system2rank,rankingID",
    {
        **{"ballot": ("ranking",), "agent": "system", "rank": "rank", "context": ("srclang", "trglang")},
        **{"context_id": "segment", "voter": "judgeID"},
    },
    made=("segment", "ranking", "system", "rank", "srclang", "trglang", "judgeID"),
    needs=(
        *("srclang", "trglang", "srcIndex", "rankingID", "judgeID"),
        *("system1Id", "system1rank", "system2Id", "system2rank"),
    ),
    columns=_wmt,
    whole=_ballots,
)

ANNOTATION = (*LABEL_STUDIO, ARGILLA, LANGSMITH, WMT)

"""Files of annotation tools: Label Studio, Argilla, LangSmith, WMT."""

from __future__ import annotations

import re
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nasheval.errors import Argument, ReadError
from nasheval.feedback.arrow_columns import coded
from nasheval.feedback.readers.answers import LONG, WIDE, no_number, pivot
from nasheval.feedback.readers.formats import ROW, Columns, Format, numbers, spliced, texts
from nasheval.feedback.readers.grouping import by_appearance, codes_of, joint_codes
from nasheval.feedback.readers.guessing import paired_names
from nasheval.feedback.readers.row_checks import listed, short
from nasheval.feedback.readers.text_files import Record

_SYSTEMS = 5  # that a row of WMT may rank
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
            | {"prompt": _asked(data), **_plain({name: one for name, one in data.items() if name not in (sides or ())})}
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
    """Return one row per ranked item, called by the name of its model where the task gives one, else by its id.

    Buckets stand above each other in their order, or in that which `metric` names; "_" holds what is in none of them.
    """
    made, left = [], Counter[str]()
    found = list(_results(rows, "ranker", left))
    order = metric.split(",") if metric else _order_of_buckets([value.get("ranker") for *_, value in found], file)
    for ballot, (number, data, annotation, value) in enumerate(found):
        ranked = _placed(value.get("ranker"), order, left)
        items = next((value for value in data.values() if isinstance(value, list)), [])
        names = {str(one.get("id")): one.get("model") or one.get("id") for one in items if isinstance(one, dict)}
        about = {ROW: number, "ballot": ballot, "prompt": _asked(data), "annotator": _who(annotation), **_plain(data)}
        made += [
            about | {"agent": names.get(str(one), one), "rank": place} for place, one in enumerate(ranked, start=1)
        ]
    _refuse_ids(made, file, "ranker", "a field 'model' in each item of the task", "add the model to the items of tasks")
    return made, {reason: count for reason, count in left.items() if count}


def _buckets(ranked: Any) -> dict[str, list[Any]]:
    """Return the buckets of an answer that have a name; a ranking without buckets is one of them."""
    lists = (
        {name: items for name, items in ranked.items() if isinstance(items, list)} if isinstance(ranked, dict) else {}
    )
    return {name: items for name, items in lists.items() if name != "_"} or lists


def _placed(ranked: Any, order: list[str], left: Counter[str]) -> list[Any]:
    """Return what stands in the buckets of an answer, best first; what is in none, or alone in them, is counted."""
    if isinstance(ranked, list):
        return ranked
    named = _buckets(ranked)
    placed = [one for name in (order if len(named) > 1 else named) for one in named.get(name, [])]
    every = ranked.values() if isinstance(ranked, dict) else ()
    everything = [one for items in every if isinstance(items, list) for one in items]
    left["items in no bucket, which nobody ranked"] += len(everything) - len(placed)
    if len(placed) == 1 < len(everything):
        left["answers with a single item in a bucket"] += 1
        return []
    return placed


def _order_of_buckets(answers: list[Any], file: Path) -> list[str]:
    """Return the buckets as the labelling configuration lists them, best first; raise where a file does not tell.

    Label Studio writes them in that order, but a database may have sorted them: short names first, then by letter.
    """
    named = [buckets for ranked in answers if len(buckets := _buckets(ranked)) > 1]
    used = {name for buckets in named for name, items in buckets.items() if items}
    orders = {tuple(buckets) for buckets in named if used <= buckets.keys()}
    first = next(iter(orders), ())
    by_database = tuple(sorted(first, key=lambda name: (len(name.encode()), name.encode())))
    if len(used) > 1 and (len(orders) != 1 or first == by_database):
        raise ReadError(
            f"nothing tells which of the buckets stands above the others ({listed(sorted(used))})",
            source=str(file),
            accepted="buckets in the order of the labelling configuration, which a database may have sorted",
            fix=("name them, best first, as in ", Argument("score", ",".join(sorted(used)))),
        )
    return list(first)


def _refuse_ids(made: list[Record], file: Path, column: str, accepted: str, fix: str) -> None:
    """Raise where no agent stands in two rows: such names are ids of answers."""
    agents = Counter(agent for _, agent in {(row[ROW], str(row["agent"])) for row in made})
    if len({row[ROW] for row in made}) > 2 and max(agents.values()) == 1:
        raise ReadError(
            f"every name stands in one row alone ({listed(sorted(agents), 3)}): these are ids of answers, not names of "
            "agents",
            source=str(file),
            column=column,
            accepted=accepted,
            fix=fix,
        )


def _holds(kind: str) -> Any:
    def tells(rows: list[Record]) -> bool:
        return any(True for _ in _results(rows, kind, Counter()))

    return tells


def _label_studio(kind: str, marks: tuple[str, ...]) -> Format:
    pair = kind == "pairwise"
    value = '{"selected": "left"}' if pair else '{"ranker": {"rank": ["1", "2"]}}'
    items = '"items": [{"id": "1", "model": "x"}, {"id": "2", "model": "y"}]'
    compared = '"model_left": "x", "model_right": "y"' if pair else items
    options = {"model_a": "left", "model_b": "right", "winner": "selected", "labels": {None: "drop"}}
    return Format(
        "Label Studio pairs" if pair else "Label Studio rankings",
        "votes" if pair else "rankings",
        marks,
        f'[{{"id": 1, "data": {{"prompt": "Why?", {compared}}}, '
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


def _answers(row: Record, question: str, file: Path, number: int) -> list[tuple[Any, Any, Any]]:
    """Return (value, user, status) of each answer of a record."""
    name = f"{question}.responses"
    values, users, states = (
        _as_list(row.get(key), key, file, number) for key in (name, f"{name}.users", f"{name}.status")
    )
    return list(zip_longest(values, users[: len(values)], states[: len(values)]))


def _as_list(value: Any, column: str, file: Path, number: int) -> list[Any]:
    """Return a list that may be written as text, as in a CSV file."""
    if not isinstance(value, str) or not value.strip():
        return value if isinstance(value, list) else []
    try:
        parsed = literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        parsed = None
    if isinstance(parsed, list) and not re.search(r"""['"]\s+['"]""", value):  # NumPy writes no commas
        return parsed
    raise ReadError(
        f"found {short(value)!r}, which is no list",
        source=str(file),
        column=column,
        rows=(number,),
        accepted="""lists, as in ['a', 'b']""",
        fix="export the records as JSON or Parquet",
    )


def _argilla(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    """Return one row per submitted answer to the first question, or to the one that `metric` names.

    Where no answer of a file has a status, all count as submitted.
    """
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
    if sides is None:
        raise ReadError(
            f"no two fields say which models were compared; its fields: {listed(keys)}",
            source=str(file),
            accepted="names of models in each record, such as model_a and model_b",
            fix="add them to the metadata of the records",
        )
    with_status = any(f"{question}{suffix}.status" in row for row in rows)
    made, left = [], Counter[str]()
    for number, row in enumerate(rows, start=1):
        answers = _answers(row, question, file, number)
        left["records without an answer"] += not answers
        about = {name: one for name, one in row.items() if isinstance(one, str | int | float | bool)}
        for value, user, status in answers:
            if with_status and status != "submitted":
                left[f"answers that are {status}" if status else "answers without a status"] += 1
                continue
            _refuse_ranking(value, question, file, number)
            made.append(
                {ROW: number, "A": row.get(sides[0]), "B": row.get(sides[1]), "user": user, "prompt": _asked(row)}
                | {"answer": None if value is None else str(value)}
                | {name: one for name, one in about.items() if name not in sides}
            )
    return made, {reason: count for reason, count in left.items() if count}


def _refuse_ranking(value: Any, question: str, file: Path, number: int) -> None:
    if isinstance(value, list | dict):
        raise ReadError(
            f"found {short(str(value))!r}: the answers to {question!r} are rankings, or of several values",
            source=str(file),
            column=f"{question}.responses",
            rows=(number,),
            accepted="answers to a question with one label, such as 'response_1', 'response_2' or 'tie'",
            fix=("name another question with ", Argument("score"), ", or write rankings as a table, one row per item"),
        )


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
    """Return one row per score; runs are called by the name of their experiment where the file gives one."""
    made, left = [], Counter[str]()
    named = any(_experiments(row) for row in rows)
    for number, row in enumerate(rows, start=1):
        if metric and row.get("key") != metric:
            left["rows of another key"] += 1
            continue
        names = _experiments(row)
        scores = row["scores"] if isinstance(row.get("scores"), dict) else {}
        left["rows without scores"] += not scores
        for run, score in scores.items():
            if named and names.get(run) is None:
                left["runs without a name among 'experiments'"] += 1
                continue
            if not isinstance(score, int | float | None):
                raise no_number(score, f"scores.{run}", str(file), number)
            made.append(
                {ROW: number, "item": str(number), "agent": str(names.get(run, run)), "task": row.get("key")}
                | {"score": score, "prompt": _asked(row)}
            )
    accepted = "names of agents in the column 'experiments', as in " + LANGSMITH.example
    _refuse_ids(made, file, "scores", accepted, "add which experiment each run belongs to")
    return made, {reason: count for reason, count in left.items() if count}


def _experiments(row: Record) -> Record:
    return next((row[key] for key in ("experiments", "models", "runs") if isinstance(row.get(key), dict)), {})


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
    """Return one row for each system of a row, with its rank."""
    places = [i for i in range(1, _SYSTEMS + 1) if f"system{i}Id" in table.column_names]
    row = np.tile(np.arange(table.num_rows), len(places))
    ids = [texts(table, name).take(pa.array(row)) for name in ("srclang", "trglang", "srcIndex")]

    def all_of(name: str) -> pa.ChunkedArray:
        return pa.chunked_array([c for i in places for c in texts(table, name.format(i)).chunks], pa.large_string())

    own = texts(table, "rankingID")
    own = own if "rankingID" in table.column_names else own.fill_null(file).cast(pa.large_string())
    return {
        ROW: row,
        "segment": spliced(*ids, by="-"),
        "ranking": spliced(*ids[:2], own.take(pa.array(row)), by="-"),
        "system": all_of("system{}Id"),
        "rank": all_of("system{}rank"),
        **dict(zip(("srclang", "trglang"), ids, strict=False)),
        "judgeID": texts(table, "judgeID", "judgeId").take(pa.array(row)),
    }


def _ballots(table: pa.Table, source: str, score: str) -> tuple[pa.Table, dict[str, int]]:
    """Return each system of a ranking once; a rank of -1 says that it was not ranked."""
    unranked = numbers(table, "rank") == -1
    table = table.filter(pa.array(~unranked))
    key = joint_codes([codes_of(coded(table[name])) for name in ("ranking", "system", "rank")])
    _, first = by_appearance(key)
    table = table.take(pa.array(first))
    if not unranked.any():
        return table, {}
    ranking, _ = by_appearance(codes_of(coded(table["ranking"])))
    alone = np.bincount(ranking)[ranking] < 2
    left = {"systems that were not ranked (-1)": unranked, "systems that were ranked alone": alone}
    return table.filter(pa.array(~alone)), {reason: int(rows.sum()) for reason, rows in left.items() if rows.any()}


def _rows_as_ballots(table: pa.Table, source: str, score: str) -> tuple[pa.Table, dict[str, int]]:
    """Return the same where each row of a file is a ranking of its own."""
    ranking = spliced(table["ranking"], table[ROW].cast(pa.large_string()), by="-")
    return _ballots(table.set_column(table.column_names.index("ranking"), "ranking", ranking), source, score)


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
        *("srclang", "trglang", "srcIndex", "rankingID", "judgeID", "judgeId"),
        *(f"system{i}{field}" for i in range(1, _SYSTEMS + 1) for field in ("Id", "rank")),
    ),
    columns=_wmt,
    whole=_ballots,
)
WMT_ROWS = replace(WMT, marks=(*WMT.marks[:-1], "!rankingID"), whole=_rows_as_ballots)  # as until 2015

ANNOTATION = (*LABEL_STUDIO, ARGILLA, LANGSMITH, WMT, WMT_ROWS)

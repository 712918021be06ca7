"""Files of judges: arena-hard, AlpacaEval, MT-bench, WildBench, JudgeArena."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Floats
from nasheval.contexts.table import is_list
from nasheval.feedback.readers.formats import ROW, Columns, Format, chosen, item, listed_values, numbers, spliced, texts
from nasheval.feedback.readers.score_files import LONG, WIDE, pivot

NO_BASELINE = "baseline"  # what an opponent is called that a file does not name
_GAMES = 2
_LABELS: dict[str | None, str] = {
    **{"A>>B": "a", "B<<A": "a", "A>B": "a:0.5", "B<A": "a:0.5"},
    **{"B>>A": "b", "A<<B": "b", "B>A": "b:0.5", "A<B": "b:0.5"},
    **dict.fromkeys(("A=B", "B=A"), "tie"),
    None: "drop",
}


def _arena_hard(table: pa.Table, file: str) -> Columns:
    """Return two rows for each: in the first game the baseline is A, in the second the model."""
    score, row, place = listed_values(table, "games", file, "score")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(table["games"]), 0))
    nothing = np.flatnonzero(lengths == 0)  # a row without games is counted as one without a verdict
    row, place = np.concatenate([row, nothing]), np.concatenate([place, np.zeros(len(nothing), np.int64)])
    label = pa.concat_arrays([score.cast(pa.large_string()), pa.nulls(len(nothing), pa.large_string())])
    label = pc.utf8_trim_whitespace(chosen(place < _GAMES, pa.chunked_array([label]), "a third game"))
    model = texts(table, "model").take(pa.array(row))
    baseline = texts(table, "baseline").take(pa.array(row))
    baseline = pc.fill_null(baseline, NO_BASELINE) if baseline.null_count == len(baseline) else baseline
    first = place % _GAMES == 0
    return {
        ROW: row,
        "question": texts(table, "uid", "question_id").take(pa.array(row)),
        "A": chosen(first, baseline, model),
        "B": chosen(first, model, baseline),
        "games.score": label,
    }


ARENA_HARD = Format(
    "arena-hard judgments",
    "votes",
    ("model", "games"),
    '{"uid": "q1", "category": "hard_prompt", "judge": "gpt-4.1", "model": "x", "baseline": "o3-mini", '
    '"games": [{"score": "A>>B"}, {"score": "B>A"}]}',
    {
        **{"model_a": "A", "model_b": "B", "winner": "games.score", "labels": _LABELS, "average_repeats": True},
        **{"context_id": "question", "voter": "judge", "context": ("category",), "join_key": "question"},
    },
    made=("question", "A", "B", "games.score"),
    needs=("uid", "question_id", "model", "baseline", "games"),
    columns=_arena_hard,
)


# -- verdicts as numbers ----------------------------------------------------------------------------------------------


def _sided(values: Floats, low: float, high: float, raw: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return on which side of the middle numbers from low (the first won) to high lie; others as they are written."""
    middle = (low + high) / 2
    first, second, tie = map(str, _sides(low, high))
    said = np.where(values < middle, first, np.where(values > middle, second, tie))
    missing = np.asarray(pc.is_in(raw, pa.array([None, "nan", "NaN", ""], pa.large_string())))
    inside = (values >= low) & (values <= high)
    return chosen(inside, pa.array(said, pa.large_string()), chosen(missing, None, raw))


def _sides(low: float, high: float) -> dict[str | None, str]:
    """Return the labels of numbers from low to high, and what they mean."""
    middle = f"{(low + high) / 2:g}"
    return {f"below {middle}": "a", f"above {middle}": "b", middle: "tie"}


def _alpaca_eval(table: pa.Table, file: str) -> Columns:
    values = numbers(table, "preference")
    return {"preference": _sided(values, 1, 2, texts(table, "preference")), "grade": np.abs(2 * values - 3)}


ALPACA_EVAL = Format(
    "AlpacaEval annotations",
    "votes",
    ("generator_1", "generator_2", "preference"),
    '[{"instruction": "Why?", "generator_1": "gpt4", "output_1": "...", "generator_2": "x", "output_2": "...", '
    '"dataset": "koala", "annotator": "judge", "preference": 1.8}]',
    {
        **{"model_a": "generator_1", "model_b": "generator_2", "winner": "preference", "grade": "grade"},
        **{"labels": {**_sides(1, 2), "0": "tie", None: "drop"}, "text": "instruction"},
        **{"context": ("dataset",), "voter": "annotator"},
    },
    made=("preference", "grade"),
    needs=("preference",),
    columns=_alpaca_eval,
)


def _judge_arena(table: pa.Table, file: str) -> Columns:
    """Return preferences, and the winner where humans said it; a judge that was not understood has "tie" for winner."""
    said = _sided(numbers(table, "pref"), 0, 1, texts(table, "pref"))
    human = np.asarray(pc.fill_null(pc.equal(texts(table, "source"), "human"), False))
    grade = np.abs(2 * numbers(table, "pref") - 1)
    winner = chosen(human, texts(table, "winner"), None)
    return {"pref": pc.coalesce(said, winner), "grade": np.where(np.isnan(grade), 1.0, grade)}


JUDGE_ARENA = Format(
    "JudgeArena battles",
    "votes",
    ("model_a", "model_b", "pref"),
    '{"question_id": 1, "model_a": "x", "model_b": "y", "judge_model": "j", "winner": "model_b", "pref": 0.8}',
    {
        **{
            "winner": "pref",
            "grade": "grade",
            "labels": {**_sides(0, 1), None: "drop"},
            "context_id": "question_id",
            "voter": "judge_model",
        },
        **{"text": ("instruction", "prompt"), "context": ("lang", "language", "category")},
    },
    made=("pref", "grade"),
    needs=("pref", "winner", "source"),
    columns=_judge_arena,
)


# -- MT-bench ---------------------------------------------------------------------------------------------------------


def _mt_bench_pair(table: pa.Table, file: str) -> Columns:
    """Return two rows for each: the second model is shown first in the second game, which still names the models."""
    n = table.num_rows
    row, swapped = np.tile(np.arange(n), 2), np.repeat([False, True], n)
    one, other = (texts(table, name).take(pa.array(row)) for name in ("model_1", "model_2"))
    said = pa.chunked_array([*texts(table, "g1_winner").chunks, *texts(table, "g2_winner").chunks], pa.large_string())
    won_by_one, won_by_other = (pc.fill_null(pc.equal(said, name), False) for name in ("model_1", "model_2"))
    first = np.asarray(chosen(swapped, won_by_other, won_by_one))
    second = np.asarray(chosen(swapped, won_by_one, won_by_other))
    return {
        ROW: row,
        "question": _question(table).take(pa.array(row)),
        "A": chosen(swapped, other, one),
        "B": chosen(swapped, one, other),
        "winner": chosen(first, "first", chosen(second, "second", said)),
    }


def _question(table: pa.Table) -> pa.ChunkedArray:
    turn = pc.fill_null(texts(table, "turn"), "1")
    return spliced(texts(table, "question_id"), turn)


MT_BENCH_PAIR = Format(
    "MT-bench pairs",
    "votes",
    ("model_1", "model_2", "g1_winner", "g2_winner"),
    '{"question_id": 81, "model_1": "x", "model_2": "y", "g1_winner": "model_1", "g2_winner": "tie", '
    '"judge": ["gpt-4", "pair-v2"], "turn": 1, "tstamp": 1687000000}',
    {
        **{"model_a": "A", "model_b": "B", "winner": "winner", "labels": {"error": "drop", None: "drop"}},
        **{"average_repeats": True, "context_id": "question", "context": ("turn",), "time": "tstamp"},
        "join_key": "question_id",
    },
    made=("question", "A", "B", "winner"),
    needs=("question_id", "turn", "model_1", "model_2", "g1_winner", "g2_winner"),
    columns=_mt_bench_pair,
)


def _mt_bench_single(table: pa.Table, file: str) -> Columns:
    score = numbers(table, "score")
    return {
        "item": _question(table),
        "agent": texts(table, "model"),
        "score": np.where(score == -1, np.nan, score),  # the judge's answer had no score
        "prompt": texts(table, "prompt"),
        "task": texts(table, "turn"),
    }


MT_BENCH_SINGLE = Format(
    "MT-bench grades",
    "scores",
    ("question_id", "model", "score", "turn"),
    '{"question_id": 81, "model": "x", "judge": ["gpt-4", "single-v1"], "score": 9, "turn": 1}',
    WIDE,
    made=LONG,
    needs=("question_id", "model", "score", "turn"),
    columns=_mt_bench_single,
    whole=pivot,
)


def _wild_bench(table: pa.Table, file: str) -> Columns:
    """Return the choice between A and B, or the name of the winner where there is none."""
    choice = texts(table, "parsed_result.choice")
    error = texts(table, "error")
    failed = ~np.asarray(pc.is_in(error, pa.array([None, "", "N/A"], error.type)))
    said = pc.coalesce(choice, texts(table, "winner"))
    return {
        "A": texts(table, "assignment.A"),
        "B": texts(table, "assignment.B"),
        "choice": chosen(failed, None, said),
    }


WILD_BENCH = Format(
    "WildBench pairs",
    "votes",
    ("session_id", "assignment", "winner"),
    '{"session_id": "s1", "generator": "x", "ref_generator": "y", "assignment": {"A": "x", "B": "y"}, '
    '"winner": "x", "parsed_result": {"choice": "A++"}, "error": null}',
    {
        **{"model_a": "A", "model_b": "B", "winner": "choice", "context_id": "session_id"},
        "labels": {
            **{"A++": "a", "A+": "a:0.5", "A=B": "tie", "B+": "b:0.5", "B++": "b", None: "drop"},
            **{"A": "a", "B": "b", "N/A": "drop"},
        },
        **{"context": ("primary_tag",), "average_repeats": True},
    },
    made=("A", "B", "choice"),
    needs=("assignment.A", "assignment.B", "parsed_result.choice", "winner", "error"),
    columns=_wild_bench,
)


def _wild_bench_2(table: pa.Table, file: str) -> Columns:
    return {"grade": numbers(table, "extent") / 2}


WILD_BENCH_2 = Format(
    "WildBench v2 pairs",
    "votes",
    ("session_id", "model_A", "model_B", "winner", "extent"),
    '{"session_id": "s1", "model_A": "x", "model_B": "y", "winner": "x", "extent": 2}',
    {
        **{"model_a": "model_A", "model_b": "model_B", "winner": "winner", "grade": "grade"},
        **{"context_id": "session_id", "context": ("primary_tag",), "average_repeats": True},
    },
    made=("grade",),
    needs=("extent",),
    columns=_wild_bench_2,
)


# -- questions --------------------------------------------------------------------------------------------------------


def _questions(table: pa.Table, file: str) -> Columns:
    """Return the key and the prompt of each question: the first turn, as text or as an object with its content."""
    prompt = texts(table, "prompt")
    if "turns" in table.column_names and is_list(table["turns"].type):
        inner = table["turns"].type.value_type
        listed_values(table, "turns", file, *(["content"] if pa.types.is_struct(inner) else []))  # for its checks
        first = item(table["turns"].combine_chunks(), 0)
        said = (pc.struct_field(first, "content") if pa.types.is_struct(inner) else first).cast(pa.large_string())
        prompt = pc.coalesce(said, prompt)
    return {"question": texts(table, "uid", "question_id"), "prompt": prompt}


def _is_questions(*marks: str) -> Format:
    return Format(
        "questions",
        "questions",
        marks,
        '{"question_id": "q1", "cluster": "poems", "turns": [{"content": "Write a poem."}]}',
        {"text": "prompt", "context": ("cluster", "subcategory", "category")},
        made=("question", "prompt"),
        needs=("uid", "question_id", "turns", "prompt"),
        columns=_questions,
    )


QUESTIONS = (_is_questions("question_id", "turns"), _is_questions("uid", "prompt", "category"))
JUDGES = (ARENA_HARD, ALPACA_EVAL, MT_BENCH_PAIR, MT_BENCH_SINGLE, WILD_BENCH, WILD_BENCH_2, JUDGE_ARENA)

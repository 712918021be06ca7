"""Scores of answers, one per row -> one row per item, with one score for each agent."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Ints
from nasheval.errors import Argument, ReadError
from nasheval.feedback.arrow_columns import coded
from nasheval.feedback.readers.formats import numbers
from nasheval.feedback.readers.grouping import by_appearance, codes_of, joint_codes
from nasheval.feedback.readers.row_checks import listed, short

LONG = ("item", "agent", "score", "prompt", "task")  # the columns of one score
Pivoted: TypeAlias = tuple[pa.Table, dict[str, int]]
MANY = (*LONG, "metric")  # of one of several scores of an answer
_NO_SCORE = "answers without a score"
WIDE: dict[str, Any] = {
    **{"agents": ("scores.*",), "context": ("task",), "text": "prompt", "context_id": "item", "missing": "absent"},
}
# HELM's main metrics, first those that are reported only where they are the main one.
_MAIN = (
    *("wildbench_score_rescaled", "wildbench_score", "ifeval_strict_accuracy", "omni_math_accuracy"),
    *("chain_of_thought_correctness", "math_equiv_chain_of_thought", "math_equiv", "final_number_exact_match"),
    *("exact_match_indicator", "pass", "code_eval_acc", "test_avg", "f1_set_match", "f1_score"),
    *("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match"),
    *("bleu_4", "rouge_2", "rouge_l", "rouge_1", "safety_score", "air_score"),
)


def pivot(table: pa.Table, source: str, wanted: str = "") -> Pivoted:
    """Return one row per item and run, with the scores of all agents there in a nested column; and what is left out.

    Several scores of an agent on one item are runs: the first of each agent, the second of each, and so on.
    """
    score, named = numbers(table, "score"), np.asarray(pc.is_valid(table["agent"]))
    left_out = {_NO_SCORE: ~np.isfinite(score) & named, "answers of no named model": ~named}
    use = np.isfinite(score) & named
    if not use.any():
        raise ReadError(
            "no answer has both a model and a score",
            source=source,
            accepted="numbers, higher is better",
            fix=("name the score with ", Argument("score"), ", or check that this is the file you meant"),
        )
    table, score = table.filter(pa.array(use)), score[use]
    item, first = by_appearance(codes_of(coded(table["item"])))
    agents = coded(table["agent"])
    if len(agents.dictionary) < 2:
        raise ReadError(
            f"one model alone has scores ({listed(agents.dictionary.to_pylist())})",
            source=source,
            accepted="scores of two or more models",
            fix="name the folder, or a glob, that holds the files of all of them",
        )
    agent = np.asarray(agents.indices)
    row, run = by_appearance(joint_codes([item.astype(np.int64), _occurrence(item, agent)]))
    wide = np.full((len(agents.dictionary), len(run)), np.nan)
    wide[agent, row] = score
    columns = [pa.array(values, mask=np.isnan(values)) for values in wide]
    scores = pa.StructArray.from_arrays(columns, agents.dictionary.to_pylist())
    used = [name for name in ("item", "prompt", "task") if table[name].null_count < table.num_rows]
    about = table.select(used).take(pa.array(first[item[run]]))
    counts = {reason: int(rows.sum()) for reason, rows in left_out.items() if rows.any()}
    return about.append_column("scores", scores), counts


def pivot_one(table: pa.Table, source: str, wanted: str = "", *, first: bool = False) -> Pivoted:
    """Return the same of one of several metrics per answer, task by task.

    Args:
        wanted: the metric to take, where it is named.
        first: whether to take the first one whose values differ where none is known; else that is an error.
    """
    metrics, score = coded(table["metric"]), numbers(table, "score")
    names, code = metrics.dictionary.to_pylist(), np.asarray(metrics.indices.fill_null(-1))
    if wanted and wanted not in names:
        raise no_such_score(wanted, names, source)
    task, agent = (codes_of(coded(table[name])) for name in ("task", "agent"))
    keep, left = code < 0, Counter[str]()
    for one in np.unique(task):
        here = task == one
        there = [place for place in dict.fromkeys(code[here].tolist()) if place >= 0]
        shared = [place for place in there if len(np.unique(agent[here & (code == place)])) > 1]
        if there and not shared and len(np.unique(agent[here])) > 1:
            raise _nothing_shared([names[place] for place in there], source)
        sound = here & np.isfinite(score)
        varying = [names[place] for place in shared if len(np.unique(score[sound & (code == place)])) > 1]
        taken = wanted or _taken([names[place] for place in shared or there], varying, source, first)
        mine = here & (code == names.index(taken)) if taken else np.zeros(len(code), bool)
        keep |= mine
        if others := int((here & ~mine & (code >= 0)).sum()):
            left[other_scores(taken)] += others
    made, counts = pivot(table.filter(pa.array(keep)), source)
    return made, {**left, **counts}


def _taken(names: list[str], varying: list[str], source: str, first: bool) -> str | None:
    """Return the metric to take: a main one, else the only one whose values differ."""
    known = sorted((name for name in names if name in _MAIN), key=_MAIN.index)
    main = next((name for name in known if name in varying), None)
    choices = [*known, *varying]
    if main is None and varying and len(choices) > 1 and not first:
        raise ReadError(
            f"each answer has several scores, and nothing tells which of them is the verdict ({listed(choices)})",
            source=source,
            accepted="one score per answer, whose values differ",
            fix=("name it, as in ", Argument("score", choices[0])),
        )
    return main or next(iter([*varying, *known, *(names if first else ())]), None)


def _nothing_shared(names: list[str], source: str) -> ReadError:
    return ReadError(
        f"each answer has several scores, and no two models have one of the same name ({listed(names, 4)})",
        source=source,
        accepted="scores of the same name for two or more models",
        fix="call the scores of all models alike, or leave one per answer",
    )


def other_scores(taken: str | None) -> str:
    """Return how a report calls the scores that are not taken."""
    return f"scores other than {taken!r} (take another with score= or --score)" if taken else "scores that never vary"


def _occurrence(item: Ints, agent: Ints) -> Ints:
    """Return (n,) how many earlier scores the agent of each row has on its item."""
    key = joint_codes([item.astype(np.int64), agent.astype(np.int64)])
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    earlier = np.empty(len(key), np.int64)
    earlier[order] = np.arange(len(key)) - np.searchsorted(ordered, ordered)
    return earlier


def no_such_score(wanted: str, names: list[str], source: str) -> ReadError:
    """Return the error for a score that is asked for and not there."""
    return ReadError(
        f"there is no score {wanted!r}",
        source=source,
        accepted=f"its scores, {listed(names)}",
        fix=("pass one of them as ", Argument("score")),
    )


def no_number(value: Any, column: str, file: str, row: int) -> ReadError:
    """Return the error for a score that is no number."""
    return ReadError(
        f"found {short(repr(value))}, which is no number",
        source=file,
        column=column,
        rows=(row,),
        accepted="a number, higher is better; true or false; or nothing",
        fix="correct the score",
    )

"""Scores, one per answer: Every Eval Ever, lm-evaluation-harness, Inspect, HELM, OpenAI evals."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Ints
from nasheval.errors import Argument, ReadError
from nasheval.feedback.arrow_columns import coded
from nasheval.feedback.readers.formats import ROW, Columns, Format, numbers, spliced, texts
from nasheval.feedback.readers.grouping import by_appearance, codes_of, joint_codes
from nasheval.feedback.readers.row_checks import listed, short
from nasheval.feedback.readers.text_files import Record, first_records, read_document, read_records

LONG = ("item", "agent", "score", "prompt", "task")  # the columns of one score
Pivoted: TypeAlias = tuple[pa.Table, dict[str, int]]
MANY = (*LONG, "metric")  # of one of several scores of an answer
_NO_SCORE = "answers without a score"
WIDE: dict[str, Any] = {
    **{"agents": ("scores.*",), "context": ("task",), "text": "prompt", "context_id": "item", "missing": "absent"},
}
# HELM's main metrics, first those that are reported only where they are the main one; and what it counts beside.
_MAIN = (
    *("wildbench_score_rescaled", "wildbench_score", "ifeval_strict_accuracy", "omni_math_accuracy"),
    *("chain_of_thought_correctness", "math_equiv_chain_of_thought", "math_equiv", "final_number_exact_match"),
    *("exact_match_indicator", "pass", "code_eval_acc", "test_avg", "f1_set_match", "f1_score"),
    *("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match"),
    *("bleu_4", "rouge_2", "rouge_l", "rouge_1", "safety_score", "air_score"),
)
_BOOKKEEPING = re.compile(
    r"(num|inference|finish_reason|training|estimated|batch|max_prob|logprob|predicted_index|prompt_truncated)(_|$)"
    r"|(bits|logprob)_per_byte|(log_)?perplexity"
)
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect: correct, partial, incorrect, no answer


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
        raise _no_such_score(wanted, names, source)
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
            left[_others(taken)] += others
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


def _others(taken: str | None) -> str:
    return f"scores other than {taken!r} (take another with score= or --score)" if taken else "scores that never vary"


def _occurrence(item: Ints, agent: Ints) -> Ints:
    """Return (n,) how many earlier scores the agent of each row has on its item."""
    key = joint_codes([item.astype(np.int64), agent.astype(np.int64)])
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    earlier = np.empty(len(key), np.int64)
    earlier[order] = np.arange(len(key)) - np.searchsorted(ordered, ordered)
    return earlier


# -- tables -----------------------------------------------------------------------------------------------------------


def _every_eval_ever(table: pa.Table, file: str) -> Columns:
    _refuse_text(table, file)
    task = texts(table, "evaluation_name", "evaluation_id")
    return {
        "item": spliced(texts(table, "sample_id"), pc.fill_null(task, "")),
        "agent": texts(table, "model_id"),
        "score": numbers(table, "evaluation.score"),
        "prompt": texts(table, "input.raw"),
        "task": task,
        "metric": texts(table, "evaluation_result_id"),
    }


def _refuse_text(table: pa.Table, file: str) -> None:
    """Raise where a score is no number: objects with another type in one of them are kept as text."""
    if "evaluation.score" in table.column_names:
        return
    for number, row in enumerate(read_records(Path(file)), start=1):
        said = row.get("evaluation")
        score = said.get("score") if isinstance(said, dict) else said
        if score is not None and not isinstance(score, int | float):
            raise _no_number(score, "evaluation.score", file, number)


def _no_number(value: Any, column: str, file: str, row: int) -> ReadError:
    return ReadError(
        f"found {short(repr(value))}, which is no number",
        source=file,
        column=column,
        rows=(row,),
        accepted="a number, higher is better; true or false; or nothing",
        fix="correct the score",
    )


def _by_result(table: pa.Table, source: str, wanted: str = "") -> Pivoted:
    """Return the scores of one result where an answer has several; else the id of a result tells nothing."""
    answer, result = (
        joint_codes([codes_of(coded(table[name])) for name in names]) for names in (("item", "agent"), ("metric",))
    )
    pairs = np.unique(np.stack([answer, result]), axis=1)
    several = len(np.unique(pairs[0])) < pairs.shape[1]
    return pivot_one(table, source, wanted, first=True) if several or wanted else pivot(table, source)


EVERY_EVAL_EVER = Format(
    "Every Eval Ever samples",
    "scores",
    ("model_id", "sample_id", "evaluation.score"),
    '{"model_id": "x", "evaluation_name": "gsm8k", "sample_id": "1", "input": {"raw": "1+1?"}, '
    '"evaluation": {"score": 1.0}}',
    WIDE,
    made=MANY,
    needs=(
        *("model_id", "sample_id", "input.raw", "evaluation.score", "evaluation_name", "evaluation_id"),
        "evaluation_result_id",
    ),
    columns=_every_eval_ever,
    whole=_by_result,
)


def _inspect(table: pa.Table, file: str) -> Columns:
    if "model" not in table.column_names:
        raise ReadError(
            "this looks like a samples_df of Inspect, but has no column that says which model answered",
            source=file,
            column="model",
            accepted="a samples_df with the columns of EvalModel",
            fix="write it with samples_df(logs, columns=EvalModel + SampleSummary), both from inspect_ai.analysis",
        )
    [name] = [name for name in table.column_names if name.startswith("score_")]
    letters = texts(table, name)
    known = pc.index_in(letters, pa.array(list(_LETTERS), pa.large_string()))
    graded = np.append([*_LETTERS.values()], np.nan)[np.asarray(known.fill_null(len(_LETTERS)))]
    task = texts(table, "task_name")
    return {
        "item": spliced(texts(table, "id"), pc.fill_null(task, "")),
        "agent": texts(table, "model"),
        "score": np.where(np.isnan(graded), numbers(table, name), graded),
        "prompt": texts(table, "input"),
        "task": task,
    }


INSPECT = Format(
    "Inspect samples_df",
    "scores",
    ("id", "epoch", "input", "model", "score_*"),
    '{"id": "1", "epoch": 1, "model": "x", "input": "1+1?", "score_match": "C"}',
    WIDE,
    made=LONG,
    needs=("id", "model", "input", "task_name", "score_*"),
    columns=_inspect,
    whole=pivot,
)

INSPECT_BARE = replace(
    INSPECT, marks=("eval_id", "id", "epoch", "input", "score_*", "!model")
)  # by default it has none


# -- JSON -------------------------------------------------------------------------------------------------------------


def _metric(named: dict[str, float | None], wanted: str, file: Path) -> str | None:
    """Return the metric to take: the one asked for, else the first."""
    if wanted and named and wanted not in named:
        raise _no_such_score(wanted, list(named), str(file))
    return wanted or next(iter(named), None)


def _no_such_score(wanted: str, names: list[str], source: str) -> ReadError:
    return ReadError(
        f"there is no score {wanted!r}",
        source=source,
        accepted=f"its scores, {listed(names)}",
        fix=("pass one of them as ", Argument("score")),
    )


def _count_others(left: Counter[str], named: dict[str, float | None], taken: str | None) -> None:
    if len(named) > 1:
        left[_others(taken)] += len(named) - 1


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


_HARNESS_OWN = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics")


def _harness(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    """Return one row per sample; the model is the folder, the task stands in the name of the file."""
    task = re.sub(r"^samples_|(_\d{4}-\d\d-\d\dT.*)?\.jsonl?$", "", file.name)
    agent = file.absolute().parent.name.replace("__", "/")
    made, left = [], Counter[str]()
    first = rows[0].get("filter")
    for number, row in enumerate(rows, start=1):
        if row.get("filter") != first:
            left[f"answers under another filter than {first!r}"] += 1
            continue
        names = row["metrics"] if isinstance(row.get("metrics"), list) else [*row]
        named = {str(name): _number(row.get(name)) for name in names if name not in _HARNESS_OWN}
        named = {name: value for name, value in named.items() if value is not None or "metrics" in row}
        name = _metric(named, metric, file)
        _count_others(left, named, name)
        made.append(
            {ROW: number, "item": f"{row.get('doc_id')}/{task}", "agent": agent, "task": task}
            | {"score": named.get(name) if name else None, "prompt": _question(row.get("doc"))}
        )
    return made, dict(left)


def _question(doc: Any) -> str | None:
    """Return the text of a document: what is called a question, else all of its texts."""
    if not isinstance(doc, dict):
        return doc if isinstance(doc, str) else None
    for name in ("question", "query", "prompt", "problem", "instruction", "input", "text", "sentence"):
        if isinstance(doc.get(name), str):
            return str(doc[name])
    return "\n".join(value for value in doc.values() if isinstance(value, str)) or None


HARNESS = Format(
    "lm-evaluation-harness samples",
    "scores",
    ("doc_id", "doc"),
    '{"doc_id": 0, "doc": {"question": "1+1?"}, "filter": "none", "metrics": ["acc"], "acc": 1.0}',
    WIDE,
    made=LONG,
    records=_harness,
    by_path=True,
    whole=pivot,
)


def _helm(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    """Return one row per instance and metric; the name of the run holds task and model, a file beside the prompts."""
    task, model = _helm_run(file)
    prompts = _helm_prompts(file.with_name("instances.json"))
    made, left = [], Counter[str]()
    for number, row in enumerate(rows, start=1):
        if row.get("perturbation"):
            left["perturbed instances"] += 1
            continue
        listed_stats = row["stats"] if isinstance(row.get("stats"), list) else []
        stats = {_stat_name(stat): _number(stat.get("mean")) for stat in listed_stats if isinstance(stat, dict)}
        stats = {name: mean for name, mean in stats.items() if name == metric or not _BOOKKEEPING.match(name)}
        about = {ROW: number, "item": f"{row.get('instance_id')}/{task}", "agent": model, "task": task}
        about["prompt"] = prompts.get(str(row.get("instance_id")))
        made += [about | {"metric": name, "score": mean} for name, mean in (stats or {None: None}).items()]
    return made, dict(left)


def _helm_run(file: Path) -> tuple[str, str]:
    """Return task and model of a run, by the name of its folder, else by its specification beside."""
    run, spec = file.absolute().parent.name, file.with_name("run_spec.json")
    if "model=" not in run and spec.is_file():
        named = read_document(spec)
        run = str(named.get("name") if isinstance(named, dict) else "").replace("/", "_")  # as HELM calls the folder
    model = re.search(r"model=([^,]+)", run)
    if model is None:
        raise ReadError(
            f"nothing says which model ran here: neither the folder ({short(file.absolute().parent.name)!r}) nor "
            "run_spec.json beside",
            source=str(file),
            accepted="a folder called as HELM does, such as mmlu:subject=anatomy,model=openai_gpt-4",
            fix="give the folder its name, or put its run_spec.json back",
        )
    return re.sub(r",?model=[^,]+", "", run).rstrip(":,"), model[1]


def _stat_name(stat: Record) -> str:
    name = stat.get("name")
    return str(name.get("name")) if isinstance(name, dict) else str(name)


def _helm_prompts(file: Path) -> dict[str, str | None]:
    if not file.is_file() or not first_records(file):
        return {}
    said = ((row.get("id"), row.get("input")) for row in read_records(file))
    return {str(key): text.get("text") if isinstance(text, dict) else None for key, text in said}


HELM = Format(
    "HELM per-instance stats",
    "scores",
    ("instance_id", "stats"),
    '[{"instance_id": "id1", "train_trial_index": 0, "stats": [{"name": {"name": "exact_match"}, "mean": 1.0}]}]',
    WIDE,
    made=MANY,
    records=_helm,
    by_path=True,
    tells=lambda rows: any(isinstance(row.get("stats"), list) for row in rows),
    whole=pivot_one,
)


def _openai_evals(rows: list[Record], file: Path, metric: str) -> tuple[list[Record], dict[str, int]]:
    """Return one row per sample with a score; its prompt stands in the line of the answer that was sampled."""
    spec: Record = next((row["spec"] for row in rows if isinstance(row.get("spec"), dict)), {})
    task = str(spec.get("base_eval") or spec.get("eval_name") or "")
    models = spec.get("completion_fns") or [spec.get("model_name")]
    prompts: dict[str, str | None] = {}
    made, left = [], Counter[str]()
    for number, row in enumerate(rows, start=1):
        data, sample = row.get("data"), str(row.get("sample_id"))
        if not isinstance(data, dict):
            continue  # the specification and the final report
        if row.get("type") == "sampling":
            prompts.setdefault(sample, _asked(data.get("prompt")))
            continue
        for name in ("correct", "score", metric):
            if not isinstance(data.get(name), int | float | None):  # left out, right or wrong answers alone would stay
                raise _no_number(data[name], f"data.{name}", str(file), number)
        named = {name: _number(value) for name, value in data.items() if isinstance(value, int | float)}
        named = {name: named[name] for name in sorted(named, key=lambda name: name not in ("correct", "score"))}
        if not named:
            left[f"lines of type {short(str(row.get('type')))!r} without a number"] += 1
            continue
        name = _metric(named, metric, file)
        _count_others(left, named, name)
        score = named.get(name) if name else None
        made.append({ROW: number, "item": f"{sample}/{task}", "agent": models[0], "task": task, "score": score})
    return [row | {"prompt": prompts.get(row["item"].rpartition("/")[0])} for row in made], dict(left)


def _asked(prompt: Any) -> str | None:
    if isinstance(prompt, list):
        said = [turn.get("content") for turn in prompt if isinstance(turn, dict) and turn.get("role") != "system"]
        return next((text for text in reversed(said) if isinstance(text, str)), None)
    return prompt if isinstance(prompt, str) else None


OPENAI_EVALS = Format(
    "OpenAI evals log",
    "scores",
    ("spec",),
    '{"spec": {"completion_fns": ["x"], "base_eval": "math"}} and {"sample_id": "math.1", "type": "match", '
    '"data": {"correct": true}}',
    WIDE,
    made=LONG,
    records=_openai_evals,
    tells=lambda rows: (
        isinstance(rows[0].get("spec"), dict) and bool({"completion_fns", "eval_name"} & {*rows[0]["spec"]})
    ),
    whole=pivot,
)

SCORE_FILES = (EVERY_EVAL_EVER, HARNESS, INSPECT, INSPECT_BARE, HELM, OPENAI_EVALS)

"""Scores, one per answer: Every Eval Ever, lm-evaluation-harness, Inspect, HELM, OpenAI evals."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.errors import ReadError
from nasheval.feedback.arrow_columns import coded
from nasheval.feedback.readers.answers import LONG as LONG
from nasheval.feedback.readers.answers import MANY, Pivoted, no_number, no_such_score, other_scores, pivot_one
from nasheval.feedback.readers.answers import WIDE as WIDE
from nasheval.feedback.readers.answers import pivot as pivot
from nasheval.feedback.readers.formats import ROW, Columns, Format, numbers, spliced, texts
from nasheval.feedback.readers.grouping import codes_of, joint_codes
from nasheval.feedback.readers.row_checks import short
from nasheval.feedback.readers.text_files import Record, first_records, read_document, read_records

# What HELM counts beside its metrics.
_BOOKKEEPING = re.compile(
    r"(num|inference|finish_reason|training|estimated|batch|max_prob|logprob|predicted_index|prompt_truncated)(_|$)"
    r"|(bits|logprob)_per_byte|(log_)?perplexity"
)
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect: correct, partial, incorrect, no answer


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
            raise no_number(score, "evaluation.score", file, number)


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
        raise no_such_score(wanted, list(named), str(file))
    return wanted or next(iter(named), None)


def _count_others(left: Counter[str], named: dict[str, float | None], taken: str | None) -> None:
    if len(named) > 1:
        left[other_scores(taken)] += len(named) - 1


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
        made += [about | {"metric": name, "score": mean} for name, mean in stats.items()]
        made += [] if stats else [about | {"metric": None, "score": None}]
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
        for key in ("correct", "score", metric):
            if not isinstance(data.get(key), int | float | None):  # left out, right or wrong answers alone would stay
                raise no_number(data[key], f"data.{key}", str(file), number)
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

"""Files of scores: which of several scores per answer is the verdict, whose they are, and which cannot be read."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.errors import ReadError
from nasheval.feedback.readers.answers import pivot, pivot_one

from . import test_formats as files
from .test_any_log import brute_force, run
from .test_formats import lines, said, table, write

SAID = "scores other than {!r} (take another with score= or --score)"


def helm(**models):
    """Runs of models whose instances have some statistics: {model: [{name: mean}, ...]}."""
    return {
        f"runs/mmlu:subject=a,model={model}/per_instance_stats.json": json.dumps(
            [
                {"instance_id": f"id{i}", "stats": [{"name": {"name": n}, "mean": m} for n, m in stats.items()]}
                for i, stats in enumerate(instances)
            ]
        )
        for model, instances in models.items()
    }


COUNTS = {"num_references": 4, "num_output_tokens": 7, "inference_runtime": 0.1, "finish_reason_stop": 1, "logprob": -2}


def test_what_helm_counts_beside_is_no_score(here):
    x = [{**COUNTS, "max_prob": 0.1, "quasi_exact_match": 1, "exact_match": 0}, {**COUNTS, "exact_match": 1}]
    y = [{**COUNTS, "max_prob": 0.2, "quasi_exact_match": 0, "exact_match": 1}, {**COUNTS, "exact_match": 0}]
    write(here, helm(x=x, y=y))
    log = ne.read("runs")
    assert said(log) == ["x > y", "y > x"]
    assert log.report.aside == {SAID.format("exact_match"): 2}
    assert said(ne.read("runs", score="quasi_exact_match")) == ["x > y"]
    assert said(ne.read("runs", score="max_prob")) == ["y > x"]
    assert "another with score= or --score" in " ".join(run("check", "runs").output.split())


@pytest.mark.parametrize(
    ("x", "y", "taken"),
    [
        ({"exact_match": 0, "f1_score": 0.6}, {"exact_match": 0, "f1_score": 0.2}, "f1_score"),
        ({"exact_match": 1, "f1_score": 0.6}, {"exact_match": 0, "f1_score": 0.8}, "f1_score"),
        ({"quasi_exact_match": 1, "exact_match": 1}, {"quasi_exact_match": 0, "exact_match": 1}, "quasi_exact_match"),
        ({"own": 1, "other": 3}, {"own": 0, "other": 3}, "own"),
    ],
)
def test_a_score_that_never_varies_is_no_verdict(x, y, taken, here):
    write(here, helm(x=[x], y=[y]))
    assert ne.read("runs").report.aside == {SAID.format(taken): 2}


def test_a_main_score_may_be_the_same_for_all(here):
    write(here, helm(x=[{"exact_match": 1, "num_bytes": 1}], y=[{"exact_match": 1, "num_bytes": 2}]))
    assert said(ne.read("runs")) == ["x = y"]


@pytest.mark.parametrize(
    ("x", "y"), [({"p": 1, "q": 3}, {"p": 0, "q": 4}), ({"exact_match": 1, "q": 3}, {"exact_match": 1, "q": 4})]
)
def test_where_nothing_tells_the_verdict_the_choice_is_the_users(x, y, here):
    write(here, helm(x=[x], y=[y]))
    with pytest.raises(ReadError, match=r"nothing tells which .* \('(p|exact_match)', 'q'\)[\s\S]*score='"):
        ne.read("runs")
    assert said(ne.read("runs", score="q")) == ["y > x"]


def test_predictions_beside_are_no_answers_without_a_score(here):
    shown = [{"instance_id": "id0", "predicted_text": " A", "stats": {"exact_match": 1.0}}]
    beside = {"runs/mmlu:subject=a,model=x/display_predictions.json": json.dumps(shown)}
    write(here, helm(x=[{"exact_match": 1}], y=[{"exact_match": 0}]) | beside)
    assert ne.read("runs").report.aside == {"files of another make: display_predictions.json": 1}


def test_the_specification_beside_names_the_model_of_a_renamed_run(here):
    made = helm(x=[{"exact_match": 1}], y=[{"exact_match": 0}])
    renamed = {f"runs/{i}/per_instance_stats.json": text for i, text in enumerate(made.values())}
    write(here, renamed)
    with pytest.raises(ReadError, match=r"runs/0/per_instance_stats\.json: nothing says which model ran here"):
        ne.read("runs")
    spec = {"name": "mmlu:subject=a,model=o/x", "adapter_spec": {"model": "o/x"}}
    write(here, {"runs/0/run_spec.json": json.dumps(spec, indent=1),
                 "runs/1/run_spec.json": json.dumps(spec, indent=1).replace("o/x", "o/y")})  # fmt: skip
    assert said(ne.read("runs")) == ["o_x > o_y"]


# -- Every Eval Ever --------------------------------------------------------------------------------------------------


def samples(*rows):
    return {"e.jsonl": lines([
        {"model_id": model, "evaluation_name": "math", "sample_id": sample, "evaluation_result_id": result,
         "input": {"raw": "1+1?"}, "evaluation": {"score": score}}
        for model, sample, result, score in rows
    ])}  # fmt: skip


def test_results_of_one_sample_are_no_runs(here):
    rows = [("x", 1, "em", 1), ("x", 1, "f1", 0.2), ("y", 1, "em", 0), ("y", 1, "f1", 0.9)]
    log = ne.read(write(here, samples(*rows)))
    assert said(log) == ["x > y"]
    assert log.report.aside == {SAID.format("em"): 2}
    assert said(ne.read("e.jsonl", score="f1")) == ["y > x"]
    with pytest.raises(ReadError, match=r"there is no score 'bleu'\.\n  Accepted: its scores, 'em', 'f1'"):
        ne.read("e.jsonl", score="bleu")


def test_ids_of_results_may_differ_between_models(here):
    log = ne.read(write(here, samples(("x", 1, "r1", 1), ("x", 1, "r1", 0), ("y", 1, "r2", 0), ("y", 1, "r2", 0))))
    assert said(log) == ["x = y", "x > y"]  # two runs
    with pytest.raises(ReadError, match="no two models have one of the same name"):
        ne.read(write(here, samples(("x", 1, "r1", 1), ("x", 1, "r2", 0), ("y", 1, "r3", 0), ("y", 1, "r4", 0))))


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 6), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_one_metric_is_what_a_file_of_it_alone_says(rows):
    """Three models times two metrics: the one that is taken, read by itself and pair by pair."""
    cells = [{"item": str(i), "agent": "xyz"[k % 3], "metric": "pq"[k // 3], "score": score, "prompt": "", "task": "t"}
             for i, row in enumerate(rows) for k, score in enumerate(row)]  # fmt: skip
    made, left = pivot_one(pa.Table.from_pylist(cells), "table", first=True)
    taken = (
        "p" if len({s for row in rows for s in row[:3]}) > 1 or len({s for row in rows for s in row[3:]}) == 1 else "q"
    )
    alone, _ = pivot(pa.Table.from_pylist([cell for cell in cells if cell["metric"] == taken]), "table")
    assert made.equals(alone)
    assert left == {SAID.format(taken): 3 * len(rows)}
    scores = {name: [row["scores"][name] for row in made.to_pylist()] for name in "xyz"}
    assert said(ne.read_scores(made, agents="scores.*")) == brute_force(scores)


# -- scores that are no numbers ---------------------------------------------------------------------------------------


def test_a_score_in_words_is_named_by_its_row(here):
    rows = [(model, i, "r", float(i % 2)) for model in "xy" for i in range(4)]
    rows[5] = ("y", 1, "r", "high")
    with pytest.raises(ReadError, match=r"e\.jsonl, column 'evaluation\.score', row 6: found 'high', which is no num"):
        ne.read(write(here, samples(*rows)))


@pytest.mark.parametrize("value", ["yes", [1], {"a": 1}])
def test_right_answers_in_words_are_not_left_out_alone(value, here):
    right = [row if "data" not in row or row["type"] == "sampling" else row | {"data": {"correct": value}}
             for row in files.EVALS]  # fmt: skip
    write(here, {"runs/x.jsonl": lines(right), "runs/y.jsonl": lines(files.EVALS).replace('["x"]', '["y"]')})
    with pytest.raises(ReadError, match=r"runs/x\.jsonl, column 'data\.correct', row 3: found .*, which is no number"):
        ne.read("runs")


def test_inspect_without_models_says_what_to_add(here):
    rows = [{"eval_id": "e"} | {key: value for key, value in row.items() if key != "model"} for row in files.INSPECT]
    (here / "i.csv").write_text(table(rows))
    with pytest.raises(ReadError, match=r"samples_df of Inspect, but has no column[\s\S]*columns=EvalModel"):
        ne.read("i.csv")

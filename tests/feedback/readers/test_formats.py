"""Files as evaluation tools write them, read without an argument."""

# ruff: noqa: E501

from __future__ import annotations

import csv
import io
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.contexts.table import as_table
from nasheval.feedback.readers.any_log import FORMATS, recognised


def said(log):
    """What each record says, in agents' names."""
    lines = []
    for record in range(log.n_records):
        blocks = [sorted(log.agents[agent] for agent in block) for block in log.records.blocks(record)]
        lines.append(" > ".join(" = ".join(block) for block in blocks))
    return sorted(lines)


def lines(rows):
    return "\n".join(json.dumps(row) for row in rows)


def table(rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


HARD = [
    {"uid": "q1", "category": "hard", "judge": "j", "model": "x", "baseline": "o", "games": [{"score": "A>>B"}, {"score": "A>B"}]},
    {"uid": "q2", "category": "hard", "judge": "j", "model": "y", "baseline": "o", "games": [{"score": "A=B"}, {"score": None}]},
    {"uid": "q1", "category": "hard", "judge": "j", "model": "y", "baseline": "o", "games": [{"score": "B<A"}, None]},
]  # fmt: skip
ALPACA = [
    {"instruction": "Why?", "generator_1": "g", "output_1": "1", "generator_2": "x", "output_2": "2", "dataset": "d",
     "annotator": "j", "preference": 1.8, "raw_completion": {"text": "m"}},
    {"instruction": "How?", "generator_1": "g", "output_1": "1", "generator_2": "x", "output_2": "2", "dataset": "d",
     "annotator": "j", "preference": 1.5, "raw_completion": "M"},
    {"instruction": "Who?", "generator_1": "g", "output_1": "1", "generator_2": "y", "output_2": "2", "dataset": "e",
     "annotator": "j", "preference": 1, "raw_completion": None},
    {"instruction": "Who?", "generator_1": "g", "output_1": "1", "generator_2": "x", "output_2": "2", "dataset": "e",
     "annotator": "j", "preference": float("nan"), "raw_completion": None},
]  # fmt: skip
PAIRS = [
    {"question_id": 81, "model_1": "x", "model_2": "y", "g1_winner": "model_1", "g2_winner": "model_2", "judge": ["g", "p"],
     "turn": 1, "tstamp": 1.5},
    {"question_id": 81, "model_1": "x", "model_2": "z", "g1_winner": "tie", "g2_winner": "error", "judge": ["g", "p"],
     "turn": 2, "tstamp": 2.5},
]  # fmt: skip
GRADES = [
    {"question_id": 81, "model": "x", "judge": ["g", "s"], "score": 9, "turn": 1},
    {"question_id": 81, "model": "y", "judge": ["g", "s"], "score": 7, "turn": 1},
    {"question_id": 82, "model": "x", "judge": ["g", "s"], "score": -1, "turn": 1},
    {"question_id": 82, "model": "y", "judge": ["g", "s"], "score": 5, "turn": 1},
    {"question_id": 82, "model": "z", "judge": ["g", "s"], "score": 5, "turn": 1},
]
WILD = [
    {"session_id": "s1", "generator": "x", "ref_generator": "y", "assignment": {"A": "x", "B": "y"}, "winner": "x",
     "parsed_result": {"choice": "A++"}, "error": None},
    {"session_id": "s2", "generator": "x", "ref_generator": "y", "assignment": {"A": "y", "B": "x"}, "winner": "y",
     "parsed_result": {"choice": None}, "error": None},
    {"session_id": "s3", "generator": "x", "ref_generator": "y", "assignment": {"A": "y", "B": "x"}, "winner": "tie",
     "parsed_result": {"choice": "A=B"}, "error": None},
    {"session_id": "s4", "generator": "x", "ref_generator": "y", "assignment": {"A": "y", "B": "x"}, "winner": "tie",
     "parsed_result": {"choice": "A=B"}, "error": "timeout"},
    {"session_id": "s5", "generator": "x", "ref_generator": "y", "assignment": {"A": "y", "B": "x"}, "winner": "x",
     "parsed_result": {"choice": "B+"}, "error": "N/A"},
    {"session_id": "s6", "generator": "x", "ref_generator": "y", "assignment": {"A": "y", "B": "x"}, "winner": "tie",
     "parsed_result": {"choice": "tie"}, "error": ""},
]  # fmt: skip
WILD_2 = [
    {"session_id": f"s{extent}{winner}", "parsed_result": {"choice": "A+"}, "model_A": "x", "model_B": "y", "winner": winner,
     "extent": extent, "model_outputs": {"x": "1", "y": "2"}}
    for winner, extent in (("x", 2), ("y", 1), ("tie", 0))
]  # fmt: skip
PREFS = [
    {"question_id": 1, "model_a": "x", "model_b": "y", "winner": "model_b", "pref": 0.8, "judge_model": "j"},
    {"question_id": 2, "model_a": "x", "model_b": "y", "winner": "model_a", "pref": 0.1, "judge_model": "j"},
    {"question_id": 3, "model_a": "x", "model_b": "y", "winner": "tie", "pref": 0.5, "judge_model": "j"},
    {"question_id": 4, "model_a": "x", "model_b": "y", "winner": "", "pref": "", "judge_model": "j"},
    {"question_id": 5, "model_a": "x", "model_b": "y", "winner": "tie", "pref": "", "judge_model": "j"},
]
CHATS = [
    {"tstamp": 1.0, "type": "chat", "model": "x", "state": {}},
    {"tstamp": 2.0, "type": "leftvote", "models": ["", ""], "ip": "1", "states": [
        {"model_name": "x", "messages": [["USER", ["Why?", []]], ["ASSISTANT", "So."]]}, {"model_name": "y", "messages": []}]},
    {"tstamp": 3.0, "type": "bothbad_vote", "models": ["Model A", "Model B"], "ip": "1", "states": [
        {"model_name": "y", "offset": 1, "messages": [["USER", "shot"], ["USER", "How?"]]}, {"model_name": "z"}]},
    {"tstamp": 4.0, "type": "rightvote", "models": ["x", "z"], "ip": "2", "states": [
        {"model_name": "", "messages": [["USER", "Why?"]]}, {"model_name": ""}]},
    {"tstamp": 5.0, "type": "bothbadvote", "models": ["### Model A: x", "### Model B: z"], "ip": "2", "states": [
        {"model_name": "x", "prompt": "Why?"}, {"model_name": "z"}]},
    {"tstamp": 6.0, "type": "rightvote", "models": ["<h3>Model A: x</h3>\n", "<h3>Model B: z</h3>\n"], "ip": "2", "states": []},
    {"tstamp": 7.0, "type": "share", "models": ["", ""], "ip": "2", "states": [{"model_name": "x"}, {"model_name": "z"}]},
]  # fmt: skip
P2L = [
    {
        "prompt": "Why?",
        "model_a": "y",
        "model_b": "x",
        "labels": [0, 3, 0],
        "weight": 2.0,
    },  # x, the first of the two, won
    {"prompt": "How?", "model_a": "x", "model_b": "y", "labels": [0, 3, 1], "weight": 1.0},
    {"prompt": "Who?", "model_a": "x", "model_b": "y", "labels": [3, 0, 0], "weight": 1.0},
    {"prompt": "Who?", "model_a": "x", "model_b": "y", "labels": [3, 0, 2], "weight": 1.0},
]
CHAT = {"chat": {"chat": {"history": {"messages": {
    "m0": {"role": "user", "content": "Why?"}, "m1": {"role": "assistant", "parentId": "m0", "content": "So."}}}}}}  # fmt: skip
WEBUI = [
    {"id": "f1", "user_id": "u1", "type": "rating", "data": {"rating": 1, "model_id": "x", "sibling_model_ids": ["y", "z"]},
     "meta": {"arena": True, "message_id": "m1", "tags": ["code"]}, "snapshot": CHAT},
    {"id": "f2", "user_id": "u2", "type": "rating", "data": {"rating": "-1", "model_id": "x", "sibling_model_ids": ["y"]},
     "meta": {"arena": False, "message_id": "m1", "tags": []}, "snapshot": CHAT},
    {"id": "f3", "user_id": "u2", "type": "rating", "data": {"rating": 1, "model_id": "x", "sibling_model_ids": None},
     "meta": {"arena": False}, "snapshot": None},
]  # fmt: skip
TTS = [
    {"user_id": 1, "text": "Hi", "vote_date": "2025-04-17 10:00:00", "model_chosen": "y", "model_rejected": "x", "model_type": "tts"},
    {"user_id": 2, "text": "Ho", "vote_date": "2025-04-17 11:00:00", "model_chosen": "x", "model_rejected": "y", "model_type": "tts"},
]  # fmt: skip
MTEB = [
    {"tstamp": 1.5, "type": "leftvote", "0_model_name": "x", "1_model_name": "y", "0_prompt": "Why?"},
    {"tstamp": 2.5, "type": "tievote", "0_model_name": "y", "1_model_name": "x", "0_prompt": "How?"},
    {"tstamp": 2.5, "type": "share", "0_model_name": "y", "1_model_name": "x", "0_prompt": "How?"},
    {"tstamp": 3.5, "type": "bothbadvote", "0_model_name": "y", "1_model_name": "x", "0_prompt": "Who?"},
]
COMPAR = [
    {"model_a_name": "x", "model_b_name": "y", "chosen_model_name": "y", "both_equal": False, "opening_msg": "Quoi ?",
     "selected_category": "idées", "visitor_id": "v1", "timestamp": "2025-04-17T10:00:00"},
    {"model_a_name": "x", "model_b_name": "y", "chosen_model_name": "", "both_equal": True, "opening_msg": "Qui ?",
     "selected_category": "", "visitor_id": "v1", "timestamp": "2025-04-17T10:01:00"},
    {"model_a_name": "x", "model_b_name": "y", "chosen_model_name": "", "both_equal": False, "opening_msg": "Qui ?",
     "selected_category": "", "visitor_id": "v2", "timestamp": "2025-04-17T10:02:00"},
]  # fmt: skip
STUDIO = [
    {"id": 1, "data": {"prompt": "Why?", "text_left": "a", "text_right": "b", "model_left": "x", "model_right": "y"},
     "annotations": [{"completed_by": 7, "result": [{"type": "pairwise", "value": {"selected": "right"}}]},
                     {"completed_by": {"email": "e"}, "was_cancelled": True, "result": []}]},
    {"id": 2, "data": {"prompt": "How?", "model_left": "x", "model_right": "y"},
     "annotations": [{"completed_by": 7, "result": [{"type": "choices", "value": {}}]}]},
]  # fmt: skip
RANKER = [
    {"id": 1, "data": {"prompt": "Why?", "items": [{"id": "1", "model": "x"}, {"id": "2", "model": "y"}, {"id": "3", "model": "z"}]},
     "annotations": [{"completed_by": 7, "result": [{"type": "ranker", "value": {"ranker": {"_": ["3", "1", "2"]}}}]}]},
]  # fmt: skip
ARGILLA = [
    {"id": "1", "prompt": "Why?", "metadata.model_1": "x", "metadata.model_2": "y", "better.responses": ["response-2", "response-1"],
     "better.responses.users": ["u", "v"], "better.responses.status": ["submitted", "discarded"]},
    {"id": "2", "prompt": "How?", "metadata.model_1": "x", "metadata.model_2": "y", "better.responses": None,
     "better.responses.users": None, "better.responses.status": None},
]  # fmt: skip
SMITH = [
    {"key": "better", "scores": {"r1": 1, "r2": 0}, "experiments": {"r1": "x", "r2": "y"}, "comment": ""},
    {"key": "better", "scores": {"r3": 0, "r4": 0}, "experiments": {"r3": "x", "r4": "y"}, "comment": None},
]
WMT = [
    {"srclang": "eng", "trglang": "fin", "srcIndex": 1, "segmentId": 1, "judgeID": "j", "system1Id": a, "system1rank": r,
     "system2Id": b, "system2rank": s, "rankingID": 5}
    for a, r, b, s in (("x", 1, "y", 2), ("x", 1, "z", 2), ("y", 2, "z", 2), ("x", 1, "w", -1))
]  # fmt: skip
EVERY = [
    {"model_id": model, "evaluation_name": "math", "sample_id": "1", "input": {"raw": "1+1?"}, "evaluation": {"score": score}}
    for model, score in (("x", 1.0), ("y", 0.0), ("z", None))
]  # fmt: skip
INSPECT = [
    {"id": 1, "epoch": epoch, "model": model, "input": "1+1?", "score_match": score, "score_other": 0}
    for epoch, model, score in ((1, "x", "C"), (2, "x", "I"), (1, "y", "I"), (2, "y", "I"))
]
EVALS = [
    {"spec": {"completion_fns": ["x"], "base_eval": "math"}},
    {
        "sample_id": "math.1",
        "type": "sampling",
        "data": {"prompt": [{"role": "user", "content": "1+1?"}], "sampled": ["2"]},
    },
    {"sample_id": "math.1", "type": "match", "data": {"correct": True, "expected": "2"}},
    {"final_report": {"accuracy": 1.0}},
]


def harness(right, name="exact_match"):
    return [{"doc_id": 0, "doc": {"question": "1+1?"}, "filter": "none", "metrics": [name], name: right, "resps": [["2"]]},
            {"doc_id": 0, "doc": {"question": "1+1?"}, "filter": "lax", "metrics": [name], name: 1.0, "resps": [["2"]]}]  # fmt: skip


def helm(right):
    return [{"instance_id": "id1", "train_trial_index": 0, "stats": [{"name": {"name": "em"}, "mean": right}]}]


# name of the format -> files, what they say, and what was left out
SERVED = [
    {"vote.menu": ["x", "y", "z"], "vote.blocks": [["y"], ["x", "z"]], "vote.zero": "tie", "vote.propensity": 0.5,
     "vote.decision": "d1", "vote.voter": "v", "vote.time": 1.0, "language": "en"},
    {"vote.menu": ["y", "x"], "vote.blocks": [["x"], ["y"]], "vote.zero": "tie", "vote.propensity": 0.2,
     "vote.decision": "d2", "vote.voter": None, "vote.time": 2.0, "language": "de"},
    {"vote.menu": ["y", "x"], "vote.blocks": [["x", "y"]], "vote.zero": "both_bad", "vote.propensity": 0.2,
     "vote.decision": "d3", "vote.voter": "w", "vote.time": 3.0, "language": "de"},
    {"vote.menu": ["y", "x"], "vote.blocks": None, "vote.zero": "skip", "vote.propensity": 0.2,
     "vote.decision": "d4", "vote.voter": "w", "vote.time": 4.0, "language": "de"},
]  # fmt: skip
CASES = {
    "NashEval votes": ({"v.jsonl": lines(SERVED)}, ["x = y", "x > y", "y > x = z"], {"skipped by the voter": 1}),
    "arena-hard judgments": (
        {"j.jsonl": lines(HARD)},
        ["o = y", "o > x", "o > y", "x > o"],
        {"no verdict": 2},
    ),
    "AlpacaEval annotations": ({"annotations.json": json.dumps(ALPACA)}, ["g = x", "g > y", "x > g"], {"no verdict": 1}),
    "MT-bench pairs": ({"p.jsonl": lines(PAIRS)}, ["x = z", "x > y", "y > x"], {"label 'error', which is no verdict": 1}),
    "MT-bench grades": ({"s.jsonl": lines(GRADES)}, ["x > y", "y = z"], {"answers without a score": 1}),
    "WildBench pairs": ({"w.json": json.dumps(WILD)}, ["x = y", "x = y", "x > y", "x > y", "y > x"], {"no verdict": 1}),
    "WildBench v2 pairs": ({"w.json": json.dumps(WILD_2)}, ["x = y", "x > y", "y > x"], {}),
    "JudgeArena battles": ({"b.csv": table(PREFS)}, ["x = y", "x > y", "y > x"], {"no verdict": 2}),
    "FastChat log": (
        {"conv.json": lines(CHATS)},
        ["x = z", "x > y", "y = z", "z > x", "z > x"],
        {"lines of type 'chat', which are no votes": 1, "lines of type 'share', which are no votes": 1},
    ),
    "P2L comparisons": ({"p.json": json.dumps(P2L)}, ["x = y", "x = y", "x > y", "y > x"], {}),
    "Open WebUI feedback": (
        {"f.json": json.dumps(WEBUI)},
        ["x > y", "x > z", "y > x"],
        {"ratings of one answer alone, which compare nothing": 1},
    ),
    "TTS-Arena votes": ({"v.csv": table(TTS)}, ["x > y", "y > x"], {}),
    "MTEB arena log": ({"m.jsonl": lines(MTEB)}, ["x = y", "x = y", "x > y"], {"label 'share', which is no verdict": 1}),
    "compar:IA votes": ({"c.csv": table(COMPAR)}, ["x = y", "y > x"], {"no verdict": 1}),
    "Label Studio pairs": (
        {"l.json": json.dumps(STUDIO)},
        ["y > x"],
        {"annotations that were cancelled": 1, "annotations without a pairwise answer": 1},
    ),
    "Label Studio rankings": ({"l.json": json.dumps(RANKER)}, ["z > x > y"], {}),
    "Argilla records": (
        {"a.jsonl": lines(ARGILLA)},
        ["y > x"],
        {"answers that are discarded": 1, "records without an answer": 1},
    ),
    "LangSmith comparative feedback": ({"l.jsonl": lines(SMITH)}, ["x = y", "x > y"], {}),
    "WMT rankings": ({"w.csv": table(WMT)}, ["x > y = z"], {"systems that were not ranked (-1)": 1}),
    "Every Eval Ever samples": ({"e.jsonl": lines(EVERY)}, ["x > y"], {"answers without a score": 1}),
    "lm-evaluation-harness samples": (
        {f"runs/{m}/samples_math_2025-01-01T00-00-00.jsonl": lines(harness(s)) for m, s in (("o__x", 1.0), ("o__y", 0.0))}
        | {"runs/o__x/results.json": '{\n"results": {}\n}'},
        ["o/x > o/y"],
        {"answers under another filter than 'none'": 2, "files of another make: results.json": 1},
    ),
    "Inspect samples_df": ({"i.csv": table(INSPECT)}, ["x = y", "x > y"], {"other scores (score_other)": 1}),
    "HELM per-instance stats": (
        {f"runs/mmlu:model={m}/per_instance_stats.json": json.dumps(helm(s)) for m, s in (("x", 1.0), ("y", 0.0))}
        | {f"runs/mmlu:model={m}/instances.json": '[{"id": "id1", "input": {"text": "1+1?"}}]' for m in "xy"},
        ["x > y"],
        {"files of another make: instances.json and others": 2},
    ),
    "OpenAI evals log": (
        {f"runs/{m}.jsonl": lines(EVALS).replace('["x"]', f'["{m}"]').replace("true", s) for m, s in (("x", "true"), ("y", "false"))},
        ["x > y"],
        {},
    ),
}  # fmt: skip


def write(here, files):
    for name, content in files.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return next(iter(files)).split("/")[0]


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_read_as_its_tool_means_it(name, here):
    files, expected, dropped = CASES[name]
    log = ne.read(write(here, files))
    assert log.report.kind == name
    assert said(log) == expected
    assert log.report.dropped | log.report.aside == dropped
    assert log.report.problems == ()


IN_TABLES = [
    name
    for name in CASES
    if name
    not in ("Label Studio pairs", "lm-evaluation-harness samples", "HELM per-instance stats", "OpenAI evals log")
]


def of_one_type(rows):
    """Rows that a table can hold: those whose nested values have one type with those before."""
    kept = []
    for row in ({key: value for key, value in row.items() if value != {}} for row in rows):
        try:
            as_table(pd.DataFrame([*kept, row]))
        except ne.ReadError:
            continue
        kept.append(row)
    return kept


@pytest.mark.parametrize("how", ["pandas", "parquet", "pyarrow"])
@pytest.mark.parametrize("name", IN_TABLES)
def test_a_table_of_the_same_rows_is_told_and_read_the_same(name, how, here):
    """Names of models that stand in the path of a file are not in a table of it."""
    file, content = next(iter(CASES[name][0].items()))
    if content.startswith(("[", "{")):
        rows = json.loads(content) if content.startswith("[") else [json.loads(line) for line in content.splitlines()]
        rows = of_one_type(rows)
        content = json.dumps(rows) if content.startswith("[") else lines(rows)
        frame = pd.DataFrame(rows)
    else:
        frame = pd.read_csv(io.StringIO(content))
    log = ne.read(write(here, {file: content}))
    if how == "parquet":
        pq.write_table(as_table(frame), here / "table.parquet")
    table = {"pandas": frame, "parquet": "table.parquet", "pyarrow": as_table(frame)}[how]
    read = ne.read(table)
    assert read.report.kind == name
    assert said(read) == said(log)
    assert read.report.dropped | read.report.aside == log.report.dropped | log.report.aside
    assert read.records.weights.tolist() == pytest.approx(log.records.weights.tolist())


@pytest.mark.parametrize(("source", "expected"), [("human", 2), ("llm-judge", 1), ("", 1)])
def test_a_winner_without_a_preference_counts_where_a_human_said_it(source, expected, here):
    rows = [{**row, "source": source} for row in (PREFS[1], {**PREFS[4], "winner": "model_a"})]
    assert said(ne.read(write(here, {"b.csv": table(rows)}))) == ["x > y"] * expected


def test_grades_of_wildbench_follow_the_extent(here):
    log = ne.read(write(here, {"w.json": json.dumps(WILD_2)}))
    assert sorted(log.verdicts.z.tolist()) == [-0.5, 0.0, 1.0]


def test_tasks_of_the_mteb_arena_are_one_log(here):
    """Prompts to be clustered are lists, and those to be compared stand in columns of their own."""
    rows = [{key: value for key, value in row.items() if key != "0_prompt"} for row in MTEB]
    files = {
        "logs/clustering.jsonl": lines([row | {"0_prompt": ["one", "two"]} for row in rows]),
        "logs/none.jsonl": lines(rows),
        "logs/retrieval.jsonl": lines(MTEB),
        "logs/sts.jsonl": lines([row | {f"0_txt{place}": f"{place}" for place in range(3)} for row in rows]),
    }
    log = ne.read(write(here, files))
    assert said(log) == ["x = y"] * 8 + ["x > y"] * 4
    assert set(log.contexts["prompt"].to_pylist()) == {"one\ntwo", None, "Why?", "How?", "Who?", "0\n1\n2"}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 23), st.integers(0, 1), st.integers(0, 40), st.permutations(range(24)))
def test_the_row_of_a_p2l_log_in_which_a_model_has_another_place_is_named(bad, side, other, order):
    """Four models of a list of forty, each pair four times; the places of one row are changed."""
    models = {"b": 3, "c": 9, "x": 20, "y": 33}
    pairs = [(a, b) for a in models for b in models if a != b] * 2
    rows = [{"prompt": "Why?", "model_a": a, "model_b": b, "labels": [models[a], models[b], 0]} for a, b in pairs]
    assert said(ne.read(pa.Table.from_pylist(rows))) == sorted(f"{a} > {b}" for a, b in pairs)
    rows = [rows[place] for place in order]
    changed = other not in rows[bad]["labels"][:2]
    rows[bad]["labels"][side] = other if changed else rows[bad]["labels"][side]
    if changed:
        with pytest.raises(ne.ReadError, match=rf"row {bad + 1}: unknown label .*another place elsewhere"):
            ne.read(pa.Table.from_pylist(rows))
    else:
        assert ne.read(pa.Table.from_pylist(rows)).n_records == len(rows)


def test_every_format_is_tested():
    assert {one.name for one in FORMATS} == set(CASES)


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_examples_are_of_their_format(one):
    if one.example.startswith(("[", "{")):
        first = one.example.split("} and {")[0] + "}" * (" and {" in one.example)
        rows = json.loads(first)
        rows = rows if isinstance(rows, list) else [rows]
        inner = [
            f"{key}.{name}" for row in rows for key, value in row.items() if isinstance(value, dict) for name in value
        ]
        assert recognised([*rows[0], *inner], rows).name == one.name
    else:
        assert recognised(one.example.split(",")).name == one.name

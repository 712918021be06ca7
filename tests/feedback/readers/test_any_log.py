"""`read`: folders, questions beside a log, and the arguments that win over a format."""

# ruff: noqa: E501

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.errors import Argument, InputError, ReadError
from nasheval.feedback.readers.arena import detect_schema
from nasheval.feedback.readers.guessing import paired_names
from nasheval.feedback.readers.labels import filled_in
from nasheval.feedback.readers.sources import open_source

from . import test_formats as files
from .test_formats import CASES, lines, said, table, write
from .test_real_data import data


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "NO_COLOR": "1"})


# -- folders ----------------------------------------------------------------------------------------------------------


def test_a_folder_with_folders_inside_is_one_log(here):
    for model in ("x", "y"):
        write(
            here,
            {f"results/{model}/annotations.json": json.dumps([{**row, "generator_2": model} for row in files.ALPACA])},
        )
    log = ne.read("results")
    assert log.agents == ("g", "x", "y")
    assert (log.report.rows, log.n_records) == (8, 6)
    assert ne.read("results/*/annotations.json").n_records == 6


def test_columns_that_nobody_uses_may_differ(here):
    write(
        here,
        {
            "logs/a.jsonl": lines([{**files.PREFS[0], "notes": 1}]),
            "logs/b.jsonl": lines([{**files.PREFS[1], "who": "me"}]),
        },
    )
    assert said(ne.read("logs")) == ["x > y", "y > x"]
    with pytest.raises(
        ReadError, match=r"logs/b\.jsonl: its columns differ from those of logs/a\.jsonl, and one that is"
    ):
        ne.read("logs", context="notes")


def test_a_row_is_named_by_its_place_in_its_file(here):
    bad = [files.HARD[0], {**files.HARD[1], "games": [{"score": "A>B"}, {"score": "?"}]}]
    write(here, {"logs/a.jsonl": lines(files.HARD), "logs/b.jsonl": lines(bad)})
    with pytest.raises(ReadError, match=r"logs/b\.jsonl, column 'games\.score', row 2: unknown label '\?'"):
        ne.read("logs")


def test_an_opponent_that_no_field_names_can_be_named(here):
    rows = [{name: value for name, value in row.items() if name != "baseline"} for row in files.HARD]
    (here / "j.jsonl").write_text(lines(rows))
    log = ne.read("j.jsonl")
    assert set(log.agents) == {"x", "y", "baseline"}
    assert "give its name with baseline= or --baseline" in log.report.roles["baseline"]
    named = ne.read("j.jsonl", baseline="gpt-4-0314")
    assert set(named.agents) == {"x", "y", "gpt-4-0314"}
    assert "baseline" not in named.report.roles
    said = run("check", "j.jsonl", "--baseline", "gpt-4-0314").output
    assert "gpt-4-0314" in said
    assert "give its name" not in said
    with pytest.raises(InputError, match="same name"):
        ne.read("j.jsonl", baseline="x")
    (here / "named.jsonl").write_text(lines(files.HARD))
    with pytest.raises(InputError, match="no opponent is without a name here"):
        ne.read("named.jsonl", baseline="gpt-4-0314")


def test_both_orders_share_one_unit_of_weight(here):
    log = ne.read(write(here, {"log.jsonl": lines(files.HARD[:1])}))
    assert log.records.weights.tolist() == [0.5, 0.5]
    assert log.design == ne.read(write(here, {"log.jsonl": lines(files.HARD[:1])}), design=log.design).design
    shown = log.records.shown.reshape(-1, 2)[:, 0].tolist()  # o, then x, was shown first
    assert sorted(shown) == [0, 1]


def test_siblings_of_a_rated_answer_share_one_unit_of_weight(here):
    log = ne.read(write(here, CASES["Open WebUI feedback"][0]))
    assert sorted(log.records.weights.tolist()) == [0.5, 0.5, 1.0]
    assert set(log.contexts["prompt"].to_pylist()) == {"Why?"}


@pytest.mark.parametrize(
    ("name", "grades"),
    [
        ("arena-hard judgments", [0.0, 0.5, 0.5, 1.0]),
        ("AlpacaEval annotations", [0.0, 0.6, 1.0]),
        ("JudgeArena battles", [0.0, 0.6, 0.8]),
        ("MT-bench pairs", [0, 1, 1]),
    ],
)
def test_grades_are_kept_unless_told(name, grades, here):
    path = write(here, CASES[name][0])
    assert sorted(np.abs(ne.read(path).verdicts.z).tolist()) == pytest.approx(grades)
    assert sorted(np.abs(ne.read(path, grades="sign").verdicts.z).tolist()) == [float(grade > 0) for grade in grades]


# -- questions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [{"content": "Why?"}, "Why?"], ids=["objects", "texts"])
@pytest.mark.parametrize("path", ["data", "data/judgment", "data/judgment/x.jsonl"])
def test_questions_beside_or_above_a_log_are_its_prompts(turn, path, here):
    judged = [{"question_id": "q1", "model": "x", "judge": "j", "games": [{"score": "A>B"}, {"score": "A>B"}]}]
    write(here, {"data/question.jsonl": lines([{"question_id": "q1", "cluster": "c", "turns": [turn]}]),
                 "data/judgment/x.jsonl": lines(judged)})  # fmt: skip
    log = ne.read(path)
    assert log.contexts.to_pylist() == [{"cluster": "c", "prompt": "Why?"}]
    assert log.agents == ("baseline", "x")
    assert ne.read(path, context=(), text=None).contexts.num_columns == 0


def test_questions_of_mt_bench(here):
    asked = [{"question_id": 81, "category": "writing", "turns": ["Why?", "And?"]}]
    write(here, {"mt/question.jsonl": lines(asked), "mt/model_judgment/pair.jsonl": lines(files.PAIRS)})
    rows = ne.read("mt").contexts.to_pylist()
    assert rows == [
        {"turn": 1, "category": "writing", "prompt": "Why?"},
        {"turn": 2, "category": "writing", "prompt": "Why?"},
    ]


# -- scores -----------------------------------------------------------------------------------------------------------


def brute_force(scores, missing=np.isnan):
    """What a wide table of one run says, pair by pair."""
    names = list(scores)
    lines = []
    for row in range(len(scores[names[0]])):
        for i, one in enumerate(names):
            for other in names[i + 1 :]:
                s, t = scores[one][row], scores[other][row]
                if not missing(s) and not missing(t):
                    lines.append(f"{one} = {other}" if s == t else f"{one} > {other}" if s > t else f"{other} > {one}")
    return sorted(lines)


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, np.nan])] * 3), min_size=1, max_size=8))
@settings(max_examples=50, deadline=None)
def test_absent_scores_leave_only_their_pairs_out(rows):
    scores = {name: [row[i] for row in rows] for i, name in enumerate("xyz")}
    expected = brute_force(scores)
    cells = pa.table({name: pa.array(values, mask=np.isnan(values)) for name, values in scores.items()})
    if not expected:
        with pytest.raises(ReadError, match="no usable"):
            ne.read_scores(cells, agents=list("xyz"), missing="absent")
        return
    log = ne.read_scores(cells, agents=list("xyz"), missing="absent")
    assert said(log) == expected
    assert (log.records.propensity is None) == any(np.isnan(row).sum() == 1 for row in rows)


def test_runs_of_one_item_share_one_unit_of_weight(here):
    log = ne.read(write(here, CASES["Inspect samples_df"][0]))
    assert log.n_contexts == 1
    assert log.records.weights.tolist() == [0.5, 0.5]


def test_another_score_can_be_taken(here):
    assert said(ne.read(write(here, CASES["Inspect samples_df"][0]), score="other")) == ["x = y", "x = y"]


def test_nested_scores(here):
    rows = [{"q": "Why?", "scores": {"gpt-4.1": 1, "y": 0}}, {"q": "How?", "scores": {"gpt-4.1": 0, "y": 0}}]
    (here / "s.jsonl").write_text(lines(rows))
    log = ne.read_scores("s.jsonl", agents="scores.*", text="q")
    assert said(log) == ["gpt-4.1 = y", "gpt-4.1 > y"]
    assert "gpt-4.1 > y" in run("check", "s.jsonl", "--kind", "scores", "--agents", "scores.*", "--text", "q").output
    flat = pd.DataFrame({"a_score": [1, 0], "b_score": [0, 1]})
    assert said(ne.read_scores(flat, agents=["*_score"])) == ["a > b", "b > a"]
    with pytest.raises(ReadError, match=r"there is no column 'marks\.\*'"):
        ne.read_scores("s.jsonl", agents=["marks.*", "q"])


def test_nested_fields_are_columns(here):
    pq.write_table(pa.table({"a": [{"b": {"c": 1}, "d": "x"}]}), "n.parquet")
    opened = open_source("n.parquet")
    assert opened.names == ["a", "a.b.c", "a.d"]
    assert opened.read(["a.d", "a.b.c"])[0].to_pylist() == [{"a.d": "x", "a.b.c": 1}]


# -- labels, ranks and orders -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["4=b,1=a", "4.0=b,1.0=a"])
def test_equal_numbers_are_one_label(given, here):
    (here / "v.csv").write_text("model_a,model_b,winner\nx,y,4.0\nx,y,1\n")
    result = run("check", "v.csv", "--labels", given)
    assert result.exit_code == 0, result.output
    assert "2 of 2 rows used" in result.output


def test_unknown_labels_come_with_what_they_seem_to_mean():
    assert filled_in(["A>B", "Model B", "draw", "skip", "??"]) == {
        "A>B": "a",
        "Model B": "b",
        "draw": "tie",
        "skip": "drop",
        "??": ...,
    }
    assert filled_in(["1", "2.0", "3", "7"]) == {"1": "a", "2.0": "b", "3": "tie", "7": ...}
    assert filled_in(["2", "3"]) == {"2": ..., "3": ...}


def test_pairs_of_ranks(here):
    (here / "r.csv").write_text("s1,s2,r1,r2\nx,y,1,2\nx,y,3,3\ny,x,2,1\nx,y,,1\n")
    words = ("--model-a", "s1", "--model-b", "s2", "--rank-a", "r1", "--rank-b", "r2")
    result = run("check", "r.csv", *words)
    assert result.exit_code == 1
    assert "column 'r1', row 4: found nothing as rank" in result.output
    log = ne.read_votes("r.csv", model_a="s1", model_b="s2", rank_a="r1", rank_b="r2", on_error="skip")
    assert said(log) == ["x = y", "x > y", "x > y"]
    assert log.report.labels == {"r1 < r2": ("a", 1), "r1 > r2": ("b", 1), "equal ranks": ("tie", 1)}


def test_orders(here):
    (here / "o.csv").write_text("best,second,third\nx,y,z\ny,x,\n")
    assert "x > y > z" in run("check", "o.csv", "--order", "best,second,third").output


# -- files of an unknown make -----------------------------------------------------------------------------------------


def test_the_guess_reads_the_file(here):
    rows = [{"bot_left": "x", "bot_right": "y", "better": side, "user_prompt": f"Why {i}?", "n": i}
            for i, side in enumerate(["left", "right", "same"] * 3)]  # fmt: skip
    (here / "v.csv").write_text(table(rows))
    result = run("check", "v.csv")
    said = result.exception.message(Argument.as_flag)
    line = "nasheval check v.csv --model-a bot_left --model-b bot_right --winner better --labels 'left=a,right=b,same=tie' --text user_prompt"
    assert line in said
    words = [word.strip("'") for word in line.split()[1:]]
    assert "9 of 9 rows used" in run(*words).output


def test_no_guess_where_nothing_looks_like_two_agents(here):
    (here / "v.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ReadError) as caught:
        ne.read("v.csv")
    assert "might read it" not in str(caught.value)


def test_names_of_two_sides():
    assert paired_names(["id", "text_1", "text_2", "model_1", "model_2"], ["model"]) == ("model_1", "model_2")
    assert paired_names(["left_agent", "right_agent"]) == ("left_agent", "right_agent")
    assert paired_names(["alpha", "blpha"]) is None


# -- what is not a file of a tool -------------------------------------------------------------------------------------


def test_votes_with_columns_called_alike_are_still_votes():
    votes = pd.DataFrame({"prompt": ["a"], "model_a": ["x"], "model_b": ["y"], "winner": ["tie"], "labels": ["t"]})
    assert detect_schema(list(votes)) is not None
    assert ne.read(votes).report.kind == "battles: model_a, model_b, winner"


def test_tables_in_memory_are_told_too():
    log = ne.read(pd.DataFrame(files.TTS))
    assert log.report.kind == "TTS-Arena votes"
    assert log.coverage().position_bias is None


def test_frames_may_hold_nested_values_of_several_types_that_nobody_uses():
    log = ne.read(pd.DataFrame(files.ALPACA))
    assert log.report.kind == "AlpacaEval annotations"
    assert log.n_records == 3


@pytest.mark.parametrize("first", [[None, None], [None, {"score": "A>B"}]])
def test_lists_may_begin_with_nulls(first, here):
    rows = [files.HARD[0] | {"uid": "q0", "games": first}, *files.HARD]
    (here / "j.jsonl").write_text(lines(rows))
    extra = [] if first[1] is None else ["x > o"]
    assert said(ne.read("j.jsonl")) == sorted(["o = y", "o > x", "x > o", "o > y", *extra])


def test_arguments_win_over_the_format(here):
    path = write(here, CASES["arena-hard judgments"][0])
    assert said(ne.read(path, labels={"A>>B": "tie"})) == ["o = x", "o = y", "o > y", "x > o"]
    assert ne.read(path, context=()).contexts.num_columns == 0
    plain = ne.read(write(here, CASES["AlpacaEval annotations"][0]), model_a="generator_1", model_b="generator_2",
                    winner="preference", labels={1: "a", 1.5: "tie", 1.8: "b", "NaN": "drop"}, on_error="skip")  # fmt: skip
    assert plain.report.kind == "votes, columns as given"


def test_a_kind_sets_the_reader(here):
    path = write(here, CASES["WMT rankings"][0])
    with pytest.raises(ReadError, match="this does not look like a table of votes"):
        ne.read(path, kind="votes")
    with pytest.raises(InputError, match="kind is 'ranks'"):
        ne.read(path, kind="ranks")


def test_mixed_nested_values_are_kept_as_text(here):
    rows = [{"model_a": "x", "model_b": "y", "winner": "tie", "more": more} for more in ({"a": 1}, "b", [1], None)]
    for name, text in (("v.jsonl", lines(rows)), ("v.json", json.dumps(rows))):
        (here / name).write_text(text)
        assert open_source(name).read(["more"])[0]["more"].to_pylist() == ['{"a": 1}', "b", "[1]", None]
        assert ne.read(name).n_records == 4


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_check_needs_no_flag(name, here):
    result = run("check", write(here, CASES[name][0]))
    assert result.exit_code == 0, result.output
    for reason, count in CASES[name][2].items():
        assert f"{count} {reason}" in result.output or f"{count} row" in result.output


def test_formats_are_listed_with_an_example():
    result = run("formats")
    for name in CASES:
        assert name in result.output
    assert '"sibling_model_ids": ["y"]' in run("formats", "webui").output
    assert json.loads(run("formats", "wmt", "--format", "json").output)[0]["kind"] == "rankings"
    assert run("formats", "nothing of the kind").exit_code == 1


# -- real files -------------------------------------------------------------------------------------------------------


def test_real_arena_hard():
    log = ne.read(data("arena_hard"))
    assert (log.report.kind, log.n_records, log.n_contexts, log.n_agents) == ("arena-hard judgments", 9_999, 500, 11)
    assert log.report.labels["A>>B"] == ("a", 2_820)
    assert log.contexts.column_names == ["cluster", "prompt"]
    assert log.contexts["prompt"].null_count == 0
    assert log.records.weights.sum() == pytest.approx(5_000)
    assert (log.design, log.coverage().condorcet_winner) == ("inclusion", None)


@pytest.mark.parametrize(("grades", "slight"), [("keep", 0.5), ("sign", 1)])
def test_real_arena_hard_against_its_own_lines(grades, slight):
    """The mean verdict of a model, against a count of the raw lines."""
    folder = data("arena_hard/judgment")
    log, worth = ne.read(folder, grades=grades), {"A>>B": 1, "A>B": slight, "A=B": 0, "B>A": -slight, "B>>A": -1}
    with open(f"{folder}/deepseek-r1.jsonl", encoding="utf-8") as lines_of:
        games = [[game["score"] for game in json.loads(line)["games"]] for line in lines_of]
    expected = np.mean([(-worth[first] + worth[second]) / 2 for first, second in games])
    margin = log.coverage().counts.margin
    assert margin[log.agents.index("deepseek-r1"), log.agents.index("baseline")] == pytest.approx(expected)


def test_real_alpaca_eval():
    log = ne.read(data("alpaca_eval"))
    assert (log.report.kind, log.n_records, log.n_contexts, log.n_agents) == ("AlpacaEval annotations", 2_999, 300, 11)
    assert log.report.labels == {"below 1.5": ("a", 2_161), "above 1.5": ("b", 836), "1.5": ("tie", 2)}
    assert log.contexts.column_names == ["dataset", "instruction"]
    with open(data("alpaca_eval/phi-2/annotations.json"), encoding="utf-8") as annotations:
        preference = [row["preference"] for row in json.load(annotations)]
    margin = log.pair_counts.margin[log.agents.index("phi-2"), log.agents.index("gpt4_1106_preview")]
    assert margin == pytest.approx(np.mean(preference) * 2 - 3)


def test_real_wmt():
    log = ne.read(data("wmt16"))
    assert (log.report.kind, log.n_records, log.n_contexts, log.n_agents) == ("WMT rankings", 2_624, 875, 13)
    assert np.diff(log.records.offsets).min() == 5
    assert log.coverage().condorcet_winner == "newstest2016.online-G.0.en-fi"


# -- files that are left out ------------------------------------------------------------------------------------------


def runs(**models):
    return {f"runs/{model}/samples_math.jsonl": lines(files.harness(score) * 3) for model, score in models.items()}


@pytest.mark.parametrize("broken", ["samples_math.jsonl", "notes.jsonl"])
@pytest.mark.parametrize("cut", [-9, 40, 0])
def test_a_file_that_cannot_be_parsed_is_no_file_of_another_make(cut, broken, here):
    text = lines(files.harness(1.0) * 3)
    write(here, runs(x=1.0, y=0.0) | {f"runs/z/{broken}": text[:cut]})
    with pytest.raises(ReadError) as alone:
        ne.read(f"runs/z/{broken}")
    with pytest.raises(ReadError) as among_others:
        ne.read("runs")
    assert str(among_others.value) == str(alone.value)
    assert among_others.value.source == f"runs/z/{broken}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("results.json", '{\n"results": {}\n}'),
        ("results.json", '{\n"results": '),  # another ending than the log's
        ("extra.jsonl", "[1, 2]\n[3, 4]\n"),
        ("extra.jsonl", '{"question_id": 1, "model_id": "x"}\n' * 60 + '{"cut'),
        ("README.csv", "a,b\n1,2\n"),
    ],
)
def test_files_of_another_make_are_named(name, text, here):
    write(here, runs(x=1.0, y=0.0) | {f"runs/x/{name}": text})
    assert ne.read("runs").report.aside[f"files of another make: {name}"] == 1


def test_tables_that_cannot_be_opened_are_refused_beside_others(here):
    pq.write_table(pa.Table.from_pylist(files.TTS), "a.parquet")
    (here / "b.parquet").write_bytes((here / "a.parquet").read_bytes()[:-30])
    with pytest.raises(ReadError, match=r"b\.parquet: this is not a readable Parquet file"):
        ne.read("*.parquet")


def test_questions_that_cannot_be_parsed_are_refused(here):
    write(here, {"data/question.jsonl": '{"question_id": "q1", "tur', "data/judgment/x.jsonl": lines(files.HARD)})
    with pytest.raises(ReadError, match=r"question\.jsonl, row 1: .* is not a whole JSON object"):
        ne.read("data/judgment")

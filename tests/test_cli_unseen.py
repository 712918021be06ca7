"""What the command line says of pairs that were never compared, of agents that come and go, and for whom it speaks."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.cli.leaderboard import note_lines
from nasheval.errors import Argument, InputError
from nasheval.estimator import load
from nasheval.policy.availability import candidates

QUICK = ["--context", "language", "--outcome", "lightgbm", "--folds", "2", "--jobs", "1", "--holdout", "0"]
EDGES = {"strong": 0.8, "middling": 0.2, "weak": -0.8}  # what each wins against base


def star(n=400, islands=0, seed=0):
    """Votes of a star around base, in which weak has none in German; and of two agents apart, in English."""
    rng = np.random.default_rng(seed)
    rows = [["model_a", "model_b", "winner", "language", "voter"]]

    def vote(a, b, margin, language):
        label = "model_a" if rng.random() < (1 + margin) / 2 else "model_b"
        rows.append([a, b, label, language, f"v{rng.integers(5)}"])

    for _ in range(n):
        german = bool(rng.random() < 0.3)
        agent = rng.choice(list(EDGES)[: 2 if german else 3])
        vote(agent, "base", EDGES[agent], "de" if german else "en")
    for _ in range(islands):
        vote("isle", "reef", 0.4, "en")
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("star")
    (folder / "star.csv").write_text(star())
    (folder / "islands.csv").write_text(star(islands=60))
    before = Path.cwd()
    os.chdir(folder)
    try:
        for name, more in (("star", ["--voter", "voter", "--availability", "language"]), ("islands", [])):
            result = run("fit", f"{name}.csv", *QUICK, *more, "-o", name)
            assert result.exit_code == 0, result.output
            (folder / f"{name}.txt").write_text(result.stdout)
    finally:
        os.chdir(before)
    return folder


@pytest.fixture(autouse=True)
def _inside(here, monkeypatch):
    monkeypatch.chdir(here)


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "NO_COLOR": "1"})


# -- route and predict ------------------------------------------------------------------------------------------------


def test_route_says_with_whom_the_winner_was_never_compared():
    said = run("route", "star", "--set", "language=en").stdout
    assert "strong leads 1 of 3 rivals on votes; it was never compared with middling, weak (bridged" in said
    found = json.loads(run("route", "star", "--set", "language=en", "--format", "json").stdout)
    assert found["winners"] == ["strong"]
    assert (found["bridged"], found["unknown"]) == (["middling", "weak"], [])


def test_only_candidates_are_rivals():
    german = json.loads(run("route", "star", "--set", "language=de", "--format", "json").stdout)
    assert german["bridged"] == ["middling"]  # weak was never shown in German, and availability is language
    words = ["route", "star", "--set", "language=en", "--agents", "base,strong"]
    pair = json.loads(run(*words, "--format", "json").stdout)
    assert (pair["bridged"], pair["unknown"]) == ([], [])
    assert "never compared" not in run(*words).stdout


def test_unknown_rivals_are_told():
    found = json.loads(run("route", "islands", "--set", "language=en", "--format", "json").stdout)
    assert {"isle", "strong"} <= set(found["winners"])
    assert {"isle", "reef", "strong"} <= set(found["unknown"])
    assert "nothing connects it with isle, reef" in run("route", "islands", "--set", "language=en").stdout


def test_predict_notes_on_standard_error_at_how_many_contexts():
    result = run("predict", "star", "star.csv")
    assert "At 400 of 400 contexts a winner was never compared with some rival" in result.stderr
    assert "bridged" not in result.stdout
    alone = run("predict", "star", "star.csv", "--agents", "base,strong")
    assert alone.stderr == ""


def test_candidates_follow_availability():
    model = load("star")
    table = model.stage1_.log.contexts
    expected = np.array([[name != "weak" or value == "en" for name in model.agents_] for value in table[0].to_pylist()])
    np.testing.assert_array_equal(candidates(model.policy_, table, None), expected)
    assert not candidates(model.policy_, table, ["base"])[:, 1:].any()


# -- leaderboard ------------------------------------------------------------------------------------------------------


def test_the_column_bridged_is_shown_where_there_is_one_and_always_in_json_and_csv():
    header = next(line for line in run("leaderboard", "star").stdout.splitlines() if line.startswith("┃"))
    assert "bridged" in header
    rows = json.loads(run("leaderboard", "star", "--format", "json").stdout)
    assert {row["agent"]: row["bridged"] for row in rows} == {"base": 0, "strong": 2, "middling": 2, "weak": 2}
    table = list(csv.DictReader(io.StringIO(run("leaderboard", "star", "--format", "csv").stdout)))
    assert [int(row["bridged"]) for row in table] == [row["bridged"] for row in rows]


def test_group_notes_are_below_the_table_or_on_standard_error():
    said = run("leaderboard", "star", "--by", "language").stdout
    assert "! de: no candidates here, without a vote in this group: weak" in said
    result = run("leaderboard", "star", "--by", "language", "--format", "json")
    assert "no candidates here" in result.stderr
    rows = json.loads(result.stdout)
    assert {row["agent"] for row in rows if row["group"] == "de"} == {"base", "strong", "middling"}


def test_voters_say_whom_intervals_speak_for():
    assert "speak for these 5 voters" in run("leaderboard", "star").stdout
    assert "speak for these 5 voters" in run("leaderboard", "star", "--voters", "panel").stdout
    assert "speak for these" not in run("leaderboard", "star", "--voters", "population").stdout
    assert run("leaderboard", "star", "--voters", "everyone").exit_code == 2
    for command in ("leaderboard", "evaluate", "report"):
        assert "Whom intervals speak for" in " ".join(run(command, "--help").stdout.split())


def test_voters_reach_report_and_evaluation(monkeypatch):
    asked = []

    def stop(*arguments, **options):
        asked.append(options["voters"])
        raise InputError("enough")

    monkeypatch.setattr("nasheval.scoring.report.gather_model", stop)
    run("report", "star", "--voters", "population", "-q")
    monkeypatch.setattr("nasheval.scoring.evaluate.evaluate", stop)
    run("evaluate", "star", "islands.csv", "--voters", "panel")
    run("report", "star", "--heldout", "islands.csv", "-q")
    assert asked == ["population", "panel", None]


def test_groups_that_say_the_same_share_a_line():
    lines = [line.plain for line in note_lines({name: ("same", f"own {name}") for name in "abcdef"})]
    assert lines[0] == "! a, b, c, d and 2 more: same"
    assert lines[1:] == [f"! {name}: own {name}" for name in "abcdef"]
    many = [line.plain for line in note_lines({"": tuple(map(str, range(50)))})]
    assert many[0] == "! 0"
    assert many[-1].startswith("... and 20 more notes")


# -- fit --------------------------------------------------------------------------------------------------------------


def test_fit_says_that_a_star_only_tells_a_ladder_and_what_is_bridged():
    said = " ".join(Path("star.txt").read_text().split())
    assert "these votes can only tell a ladder" in said
    assert "Payoffs of pairs never compared are bridged" in said
    assert "speak for these 5 voters" in said


def test_unseen_availability_and_aggregator_reach_the_model():
    assert load("star").availability == "language"
    assert load("star").unseen == "model"
    words = ["fit", "star.csv", *QUICK, "-q", "--overwrite", "-o", "other"]
    assert run(*words, "--unseen", "tie", "--aggregator", "as-asked").exit_code == 0
    model = load("other")
    assert model.unseen == "tie"
    assert isinstance(model.aggregator, ne.AsAsked)
    lottery = json.loads(run("route", "other", "--set", "language=en", "--format", "json").stdout)["lottery"]
    assert lottery["strong"] < 0.9  # as a tie, strong against weak is even
    assert "(taken as a tie)" in run("route", "other", "--set", "language=en").stdout
    refused = run(*words, "--unseen", "refuse")
    assert "were never compared" in str(refused.exception)
    assert "or use unseen='model' (bridged by the outcome model) or 'tie'." in str(refused.exception)
    assert "or use --unseen model (bridged" in refused.exception.message(Argument.as_flag)
    assert "no context column" in str(run(*words, "--availability", "colour").exception)


def test_rare_menus_are_said_to_be_cut_into_pairs():
    rng = np.random.default_rng(0)
    names = np.array(list("abcdef"))
    rows = [
        f"{ballot},{agent},{rank},{rng.choice(['x', 'y'])}"
        for ballot in range(80)
        for rank, agent in enumerate(rng.choice(names, 3, replace=False))
    ]
    Path("ballots.csv").write_text("ballot,agent,rank\n" + "\n".join(row.rpartition(",")[0] for row in rows) + "\n")
    words = ["--ballot", "ballot", "--agent", "agent", "--rank", "rank", *QUICK[2:], "--overwrite"]
    said = run("fit", "ballots.csv", *words, "-o", "ballots").stdout
    assert "Menus are rare: ballots were cut into pairs (aggregator AsAsked)" in said
    asked = json.loads(run("fit", "ballots.csv", *words, "-o", "ballots", "--format", "json").stdout)
    assert asked["aggregator"] == "AsAsked"
    assert "leaderboard_notes" in asked
    said = run("fit", "ballots.csv", *words, "-o", "ballots", "--aggregator", "mean").stdout
    assert "cut into pairs" not in said


def test_the_chosen_propensity_model_and_the_floor_are_told():
    said = Path("star.txt").read_text()
    assert re.search(r"Propensity model: .+ log loss per record is 0\.\d+ ± 0\.\d+ below shares", said)
    assert "raised to 0.05 of their menu's share" in said


# -- explain ----------------------------------------------------------------------------------------------------------


def test_explain_marks_pairs_by_status():
    found = load("islands").explain({"language": "en"})
    plain = found.to_dict()
    status = dict(zip(plain["agents"], plain["status"], strict=True))
    place = plain["agents"].index
    assert status["strong"][place("base")] == "seen"
    assert status["strong"][place("weak")] == "bridged"
    assert status["strong"][place("isle")] == "unknown"
    out = Console(file=io.StringIO(), width=200)
    out.print(found)
    said = out.file.getvalue()
    assert f"{found.payoff[place('strong'), place('weak')]:+.2f}~" in said
    assert "+0.00?" in said
    assert "~ never compared" in said

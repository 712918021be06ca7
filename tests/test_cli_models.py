"""The command line from a vote file to a model and all that is asked of it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app, fitting, main
from nasheval.cli.evaluating import compared, plainly
from nasheval.cli.reading import Reading
from nasheval.errors import Argument, ConvergenceError, InputError, MissingExtraError
from nasheval.estimator import load
from nasheval.feedback.arrow import to_arrow

AGENTS = ["ada", "bert", "cleo", "dora"]
QUICK = ["--outcome", "lightgbm", "--folds", "2", "--jobs", "1"]
READ = ["--context", "language,is_code,length"]


def votes(n, seed):
    """Return votes in which ada wins in German and English, and dora in Polish."""
    rng = np.random.default_rng(seed)
    rows = [["model_a", "model_b", "winner", "language", "is_code", "length", "id"]]
    for number in range(n):
        a, b = rng.choice(4, 2, replace=False)
        language = ("de", "en", "pl")[number % 3]
        lead = (b - a) * (-2.0 if language == "pl" else 2.0)
        label = "tie" if rng.random() < 0.1 else "model_a" if rng.random() < 1 / (1 + np.exp(-lead)) else "model_b"
        rows.append(
            [AGENTS[a], AGENTS[b], label, language, str(rng.random() < 0.5).lower(), rng.integers(5, 500), number]
        )
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("votes")
    (folder / "votes.csv").write_text(votes(240, 0))
    (folder / "heldout.csv").write_text(votes(120, 1))
    return folder


@pytest.fixture(autouse=True)
def _inside(here, monkeypatch):
    monkeypatch.chdir(here)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")


@pytest.fixture(scope="module")
def fitted(here):
    """Fit once; return what it printed."""
    before = Path.cwd()
    os.chdir(here)
    try:
        result = run("fit", "votes.csv", *READ, *QUICK, "-o", "model", "--report", "fit.html")
    finally:
        os.chdir(before)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def model(fitted):
    return load("model")


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "140", "NO_COLOR": "1"})


def program(monkeypatch, capsys, *words):
    """Run the program as a shell does; return its exit status, standard output and standard error."""
    monkeypatch.setattr("sys.argv", ["nasheval", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    out = capsys.readouterr()
    return stopped.value.code or 0, out.out, out.err


def failed(*words):
    """Return the error that a command ends with."""
    result = run(*words)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


# -- fit --------------------------------------------------------------------------------------------------------------


def test_fit_says_what_a_person_needs(fitted):
    for words in (
        "240 records, 240 contexts, 4 agents",
        "Outcome model, 240 verdicts out of fold: R2",
        "Propensities (draws): smallest ",
        "! ",
        "Leaderboard, all contexts",
        "Winners by language",
        "nasheval",
        "maximal-lottery",
        "On this data NashEval is",
        "Compared on 48 contexts held out, with a model fitted on 192; the model that is saved was then fitted on all",
        "The model: model",
        "The report: fit.html",
        "nasheval leaderboard model --by language",
        "nasheval route model --set language=...",
    ):
        assert words in fitted
    assert (Path("fit.html")).read_text().count("maximal-lottery") >= 1  # the comparison is in the report


def test_the_saved_model_is_fitted_on_everything_and_finds_the_truth(model):
    assert model.stage1_.log.n_contexts == 240
    board = model.leaderboard(by="language")
    best = board[board["lottery"] > 0.9].set_index("group")["agent"].to_dict()
    assert best == {"de": "ada", "en": "ada", "pl": "dora"}


@pytest.mark.parametrize(("part", "records"), [("train", 192), ("test", 48), ("all", 240)])
def test_parts_are_those_of_one_split(part, records):
    log = Reading(context="language", part=part, seed=3).log("votes.csv", quiet=True)
    whole = ne.read_votes("votes.csv", context=["language"])
    train, test = whole.split(0.8, seed=3)
    assert log.n_records == records
    assert to_arrow(log).equals(to_arrow({"train": train, "test": test, "all": whole}[part]))


def test_a_model_of_one_part_is_evaluated_on_the_other(tmp_path):
    told = run("fit", "votes.csv", *READ, *QUICK, "--part", "train", "--holdout", "0", "-o", str(tmp_path / "m"), "-q")
    assert told.exit_code == 0
    assert load(tmp_path / "m").stage1_.log.n_contexts == 192
    said = json.loads(run("evaluate", str(tmp_path / "m"), "votes.csv", "--part", "test", "--format", "json").stdout)
    assert said["overall"]["contexts"] == 48


def test_large_logs_are_fitted_once_and_it_says_so(monkeypatch):
    monkeypatch.setattr(fitting, "_LARGE", 100)
    result = run("fit", "votes.csv", *READ, *QUICK, "-o", "once", "--holdout", "0.25")
    assert "with a model fitted on 180, which is the one saved" in " ".join(result.stdout.split())
    assert load("once").stage1_.log.n_contexts == 180


def test_fit_in_json_has_it_all_and_nothing_else():
    words = ["--format", "json", "--holdout", "0.3", "--by", "is_code", "--overwrite"]
    said = json.loads(run("fit", "votes.csv", *READ, *QUICK, "-o", "json", *words).stdout)
    assert said["model"] == "json"
    assert said["by"] == "is_code"
    assert {row["group"] for row in said["leaderboard_by"]} == {"true", "false"}
    assert said["held_out"]["policies"] == ["nasheval", "bt", "maximal-lottery"]
    assert said["diagnostics"]["nuisances"]["n_verdicts"] == 240
    assert said["coverage"]["agents"] == AGENTS


def interrupted_report(monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nasheval.scoring.report.gather_model", stop)


def test_an_interrupted_report_leaves_the_model_and_the_summary(monkeypatch, capsys):
    interrupted_report(monkeypatch)
    words = ("fit", "votes.csv", *READ, *QUICK, "-o", "stopped", "--holdout", "0", "--report", "stopped.html")
    status, out, err = program(monkeypatch, capsys, *words)
    assert status == 130
    assert "Leaderboard, all contexts" in out
    assert "The model: stopped" in out
    assert "The report:" not in out
    said = " ".join(err.split())
    assert "writing the report stopped.html ..." in said
    assert "run: nasheval report stopped -o stopped.html" in said
    assert not Path("stopped.html").exists()
    assert load("stopped").stage1_.log.n_contexts == 240


def test_an_interrupted_report_leaves_the_json(monkeypatch, capsys):
    interrupted_report(monkeypatch)
    words = ("fit", "votes.csv", *READ, *QUICK, "-o", "halfway", "--holdout", "0", "--report", "halfway.html")
    status, out, _ = program(monkeypatch, capsys, *words, "--format", "json")
    assert status == 130
    assert (json.loads(out)["model"], json.loads(out)["report"]) == ("halfway", "halfway.html")


def test_a_report_without_a_folder_is_refused_before_the_fit():
    words = ("fit", "votes.csv", *READ, *QUICK, "-o", "unfitted", "--report", "nowhere/report.html")
    assert "There is no folder 'nowhere'" in failed(*words)
    assert not Path("unfitted").exists()


def test_quiet_is_quiet_and_holdout_zero_fits_once(monkeypatch, capsys):
    words = ("fit", "votes.csv", *READ, *QUICK, "-o", "quiet", "--holdout", "0", "-q", "--report", "quiet.html")
    assert program(monkeypatch, capsys, *words) == (0, "", "")
    assert load("quiet").stage1_.log.n_contexts == 240
    assert Path("quiet.html").exists()


def test_a_model_is_not_overwritten_unasked(fitted, monkeypatch, capsys):
    before = Path("model/manifest.json").read_bytes()
    status, _, said = program(monkeypatch, capsys, "fit", "votes.csv", *READ, *QUICK, "-o", "model")
    assert status == 1
    assert "There is a model at" in said
    assert "give --overwrite, or another place" in said
    assert Path("model/manifest.json").read_bytes() == before


def test_too_few_contexts_to_compare_on_is_said(tmp_path):
    rows = [row.split(",") for row in votes(60, 2).splitlines()]
    (tmp_path / "few.csv").write_text("\n".join(",".join(row) for row in rows))
    words = ["--context", "language", "--context-id", "language", "--holdout", "0.3", "--propensity-model", "marginal"]
    result = run("fit", str(tmp_path / "few.csv"), *words, *QUICK, "-o", str(tmp_path / "few"))
    assert "No held-out comparison: too few contexts" in result.stdout
    assert (tmp_path / "few").is_dir()


def test_learners_are_chosen_and_the_papers_stay_its_own(fitted):
    from nasheval.cli.fitting import Learning

    plain = Learning(outcome="stack", folds=3, tune="fast", jobs=2).model("", AGENTS, seed=7, show=False)
    assert (plain.outcome, plain.folds, plain.tune, plain.n_jobs, plain.random_state) == ("stack", 3, "fast", 2, 7)
    paper = Learning(paper=True, folds=3).model("", AGENTS, seed=0, show=False)
    assert paper.second_stage == "shared"
    assert paper.outcome == ne.NashEval.paper().outcome


def test_the_papers_policy_knows_costs():
    words = ("--paper", "--costs", "ada=10,bert=5,cleo=1,dora=0", "--cost-weight", "20", "--holdout", "0", "-q")
    result = run("fit", "votes.csv", *READ, "--folds", "2", "--jobs", "1", "-o", "paper", *words)
    assert result.exit_code == 0, result.exception
    lotteries = load("paper").predict_proba(pa.csv.read_csv("heldout.csv"))
    assert lotteries[:, AGENTS.index("dora")].mean() > 0.6  # which is best in a third of contexts, and costs nothing


def test_a_column_that_is_not_there_is_refused_before_the_fit():
    for words in ((), ("-q", "--holdout", "0")):
        said = failed("fit", "votes.csv", *READ, *QUICK, "-o", "unfitted", "--by", "nope", *words)
        assert "by='nope' is no context column; this log has" in said
    assert not Path("unfitted").exists()


def test_a_folder_in_place_of_a_file_is_refused_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr("nasheval.estimator.load", lambda path: pytest.fail("the work has begun"))
    (tmp_path / "taken.csv").mkdir()
    taken = str(tmp_path / "taken.csv")
    for words in (
        ("fit", "votes.csv", *READ, *QUICK, "-o", "unfitted", "--report", taken),
        ("predict", "model", "heldout.csv", "-o", taken),
        ("report", "model", "-o", taken),
        ("export", "model", "--onnx", taken),
    ):
        assert f"{taken!r} is a folder" in failed(*words)
    assert "is a folder" in failed("report", "model", "-o", "")
    assert not Path("unfitted").exists()


@pytest.mark.parametrize("words", [("check", "votes.csv", "--seed"), ("route", "model", "--draw")])
def test_a_seed_is_not_negative(words):
    assert run(*words, "-1").exit_code == 2


def test_min_votes_leaves_agents_out():
    text = votes(60, 3).replace("bert", "ada", 0) + "ada,rare,model_a,de,true,5,60\n"
    Path("rare.csv").write_text(text)
    assert "5 agents" in run("check", "rare.csv").stdout
    assert "4 agents" in run("check", "rare.csv", "--min-votes", "5").stdout
    assert "fewer than two agents have as many records" in failed("check", "rare.csv", "--min-votes", "500")


def test_a_data_set_goes_by_its_name():
    said = json.loads(run("check", "highway", "--format", "json").stdout)
    assert said["coverage"]["records"] == 20480
    assert said["read"]["roles"]["propensity"] == "propensity"


# -- costs ------------------------------------------------------------------------------------------------------------


def test_costs_reach_the_model_and_route_keeps_a_budget():
    words = ["--costs", "ada=10,bert=5,cleo=1,dora=0", "--holdout", "0"]
    assert run("fit", "votes.csv", *READ, *QUICK, "-o", "priced", *words).exit_code == 0
    asked = ["route", "priced", "--set", "language=de", "--format", "json"]
    free = json.loads(run(*asked).stdout)
    assert free["agent"] == "ada"
    tight = json.loads(run(*asked, "--budget", "2").stdout)["lottery"]
    assert tight["ada"] * 10 + tight["bert"] * 5 + tight["cleo"] <= 2 + 1e-6


# -- asking a model ---------------------------------------------------------------------------------------------------


def test_leaderboards_say_the_same_in_every_format(model):
    expected = model.leaderboard(by="language")
    as_json = json.loads(run("leaderboard", "model", "--by", "language", "--format", "json").stdout)
    as_csv = list(
        csv.DictReader(io.StringIO(run("leaderboard", "model", "--by", "language", "--format", "csv").stdout))
    )
    assert [row["agent"] for row in as_json] == [row["agent"] for row in as_csv] == expected["agent"].tolist()
    np.testing.assert_array_equal([row["lottery"] for row in as_json], expected["lottery"])
    np.testing.assert_array_equal([float(row["lottery"]) for row in as_csv], expected["lottery"])
    table = run("leaderboard", "model", "--by", "language", "--top", "2").stdout
    assert table.count("and 2 more") == 3
    assert "no context column; this log has" in failed("leaderboard", "model", "--by", "colour")


def test_fit_leaderboard_and_report_open_with_the_same_decision(model, fitted):
    said = " ".join(str(model.decision("language")).split())
    assert " ".join(fitted.split()).startswith(said)
    assert " ".join(run("leaderboard", "model", "--by", "language").stdout.split()).startswith(said)
    assert said in " ".join(run("leaderboard", "model", "--by", "language", "--format", "csv").stderr.split())
    assert run("report", "model", "-o", "said.html", "--by", "language", "-q").exit_code == 0
    page = Path("said.html").read_text()
    assert json.loads(re.search(r'"decision":(\[.*?\]),"findings"', page)[1]) == list(
        model.decision("language").sentences
    )


def test_costs_and_margin_change_the_decision(model):
    prices = {"ada": 4.0, "bert": 3.0, "cleo": 2.0, "dora": 1.0}
    text = ",".join(f"{agent}={cost:g}" for agent, cost in prices.items())
    for margin in ("0.05", "0.9"):
        expected = model.decision(costs=prices, margin=float(margin))
        shown = run("leaderboard", "model", "--costs", text, "--margin", margin).stdout
        assert " ".join(shown.split()).startswith(" ".join(str(expected).split()))
    assert expected.agent != expected.leader
    assert f"{expected.saved:.0%} cheaper" in shown
    assert "a model does not hold the columns" in failed("leaderboard", "model", "--costs", "{agent}|cost")
    assert "there is no cost of 'bert'" in failed("leaderboard", "model", "--costs", "ada=1")


def test_groups_that_tell_no_agents_apart_share_a_line(model, monkeypatch):
    rows = [
        {**row, "tied": row["tied"] or row["group"] == "pl"} for row in model.leaderboard("language").to_dict("records")
    ]
    monkeypatch.setattr("nasheval.cli.leaderboard.board_of", lambda *_: (rows, {}))
    shown = run("leaderboard", "model", "--by", "language").stdout
    [contexts] = {row["contexts"] for row in rows if row["group"] == "pl"}
    assert f"language where the votes tell no agents apart (contexts): pl ({contexts})" in shown
    assert "│ pl" not in shown
    assert "│ de (" in shown


@pytest.mark.parametrize("ending", ["parquet", "csv", "feather", "json", "jsonl"])
def test_predictions_are_the_models(model, ending, tmp_path):
    out = tmp_path / f"lotteries.{ending}"
    assert run("predict", "model", "heldout.csv", "-o", str(out), "--keep", "id").exit_code == 0
    read = {"parquet": pq.read_table, "csv": pa.csv.read_csv, "feather": pa.feather.read_table}
    if ending in read:
        found = read[ending](out)
    else:
        text = out.read_text()
        found = pa.Table.from_pylist(json.loads(text) if ending == "json" else [*map(json.loads, text.splitlines())])
    contexts = pa.csv.read_csv("heldout.csv")
    expected = model.predict_proba(contexts)
    np.testing.assert_allclose(np.stack([found[name] for name in AGENTS], axis=1), expected, atol=1e-12)
    assert found["id"].to_pylist() == list(range(120))
    assert found["winner"].to_pylist() == model.predict(contexts)
    assert [file.name for file in tmp_path.iterdir()] == [out.name]


def test_predictions_on_standard_output(model):
    printed = list(csv.DictReader(io.StringIO(run("predict", "model", "heldout.csv", "--agents", "bert,cleo").stdout)))
    assert len(printed) == 120
    assert {row["winner"] for row in printed} <= {"bert", "cleo"}
    assert all(abs(sum(float(row[name]) for name in AGENTS) - 1) < 1e-9 for row in printed)
    table = run("predict", "model", "heldout.csv", "--format", "table").stdout
    assert table.count("│ ada") + table.count("│ dora") > 50


def test_predict_says_what_is_missing(model):
    Path("short.csv").write_text("language,is_code\nde,true\n")
    missing = run("predict", "model", "short.csv").exception.message(Argument.as_flag)
    assert "short.csv: the model needs the column 'length'." in missing
    assert "To do: add it, or bring it with --join." in missing
    budget = run("predict", "model", "heldout.csv", "--budget", "1").exception.message(Argument.as_flag)
    assert budget == "Cost weights and budgets need costs; none were given: fit with --costs."
    assert "accepted are files that end in" in failed("predict", "model", "heldout.csv", "-o", "lotteries.xlsx")
    assert "There is no folder 'nowhere'" in failed("predict", "model", "heldout.csv", "-o", "nowhere/l.csv")
    assert "'colour'" in failed("predict", "model", "heldout.csv", "--keep", "colour")


def test_a_column_is_kept_once_however_often_it_is_named(model):
    twice, once = (run("predict", "model", "heldout.csv", "--keep", names).stdout for names in ("id,id", "id"))
    assert twice == once
    assert once.startswith("id,winner,")


def test_route_chooses_as_the_model_does(model):
    words = ["--set", "language=pl", "--set", "is_code=true", "--set", "length=100"]
    said = json.loads(run("route", "model", *words, "--format", "json").stdout)
    context = [{"language": "pl", "is_code": True, "length": 100}]
    np.testing.assert_allclose([said["lottery"][name] for name in AGENTS], model.predict_proba(context)[0])
    assert [said["agent"]] == model.predict(context)
    assert [said["winners"]] == model.winners(context)
    table = run("route", "model", *words).stdout
    assert f"chosen: {said['agent']}" in table
    assert all(name in table for name in said["winners"])
    up = json.loads(run("route", "model", *words, "--agents", "bert,cleo", "--format", "json").stdout)
    assert set(up["winners"]) <= {"bert", "cleo"}


def test_route_draws_from_the_lottery(model):
    one = [json.loads(run("route", "model", "--draw", str(s), "--format", "json").stdout)["agent"] for s in (1, 1)]
    assert one[0] == one[1]


def test_route_tells_what_it_was_not_told(model):
    result = run("route", "model", "--set", "language=de", "--format", "json")
    assert json.loads(result.stdout)["agent"] in AGENTS
    assert "Not given, taken as missing: is_code, length." in result.stderr
    assert "--set names 'colour'; the model knows language, is_code, length." in failed(
        "route", "model", "--set", "colour=red"
    )
    assert "accepted is column=value" in failed("route", "model", "--set", "language")
    assert "fitted without prompts" in failed("route", "model", "--prompt", "hello")
    assert "'mars'" in failed("route", "model", "--agents", "mars")


def test_evaluate_compares_with_baselines(model):
    result = run("evaluate", "model", "heldout.csv", "--against", "bt,uniform", "--by", "language", "--format", "json")
    said = json.loads(result.stdout)
    log = ne.read_votes("heldout.csv", context=["language", "is_code", "length"], text=None, categorical=["language"])
    expected = compared(model, log, against="bt,uniform", by="language")
    assert said["policies"] == ["nasheval", "bt", "uniform"]
    np.testing.assert_allclose(said["overall"]["value"], expected.value)
    assert said["plainly"] == plainly(expected)
    assert {group["group"] for group in said["groups"]} == {"de", "en", "pl"}
    table = run("evaluate", "model", "heldout.csv", "--against", "bt,uniform").stdout
    assert all(line in table for line in said["plainly"])


def test_evaluate_refuses_what_the_model_has_seen(model):
    assert "is the log that the model was fitted on" in failed("evaluate", "model", "votes.csv")
    assert "--against names 'elo'; accepted are bt" in failed("evaluate", "model", "heldout.csv", "--against", "elo")
    assert "--against names 'bt:language'" in failed("evaluate", "model", "heldout.csv", "--against", "bt:language")
    words = ["--against", "best-by-group,best-by-group:language", "--format", "json"]
    said = json.loads(run("evaluate", "model", "heldout.csv", *words).stdout)
    assert said["policies"] == ["nasheval", "best-by-group", "best-by-group:language"]
    assert said["overall"]["value"][1][2] == 0  # language is the column of few values


@pytest.mark.parametrize(
    ("beats_us", "we_beat", "said"),
    [
        (["bt"], [], "On this data NashEval is worse than bt: prefer that here."),
        ([], [], "On this data NashEval is not shown to be better than bt, ml."),
        ([], ["bt"], "On this data NashEval is not shown to be better than ml."),
        ([], ["bt", "ml"], "On this data NashEval is better than bt, ml."),
    ],
)
def test_it_says_plainly_when_ours_is_not_better(beats_us, we_beat, said):
    names = ("nasheval", "bt", "ml")
    won = {*(("nasheval", rival) for rival in we_beat), *((rival, "nasheval") for rival in beats_us)}
    beats = np.array([[(a, b) in won for b in names] for a in names])
    found = SimpleNamespace(policies=names, beats=beats, spending=None, compare=lambda a, b: f"{a} and {b}")
    lines = plainly(found)
    assert said in lines
    assert lines[:2] == ["nasheval and bt.", "nasheval and ml."]
    assert ("better than" in said and "not" not in said) == (
        not any("not shown" in line or "worse" in line for line in lines)
    )


def test_it_says_what_a_loss_saved():
    names, beats = ("nasheval", "bt"), np.array([[False, False], [True, False]])
    for costs, said in (((1.0, 4.0), ", at a cost of 1 against 4."), ((4.0, 1.0), ": prefer that here.")):
        spending = SimpleNamespace(mean=np.array(costs))
        found = SimpleNamespace(policies=names, beats=beats, spending=spending, compare=lambda a, b: "")
        assert plainly(found)[1] == f"On this data NashEval is worse than bt{said}"


def test_report_is_one_page(model):
    assert run("report", "model", "-o", "report.html", "--by", "language", "--title", "Ours <3").exit_code == 0
    page = Path("report.html").read_text()
    assert "Ours &lt;3" in page
    assert all(name in page for name in AGENTS)
    assert run("report", "model", "-o", "held.html", "--heldout", "heldout.csv", "-q").exit_code == 0
    assert "maximal-lottery" in Path("held.html").read_text()
    assert '"at_every_look":false' in Path("held.html").read_text()
    words = ("report", "model", "-o", "held.html", "--heldout", "heldout.csv", "-q", "--sequential")
    assert run(*words, "--planned", "400").exit_code == 0
    assert '"at_every_look":true' in Path("held.html").read_text()
    assert "--sequential compares on a log" in failed("report", "model", "-o", "held.html", "--sequential")
    assert "There is no folder" in failed("report", "model", "-o", "nowhere/report.html")


def test_a_report_compares_with_baselines_only_on_a_held_out_log(model, tmp_path):
    words = ("report", "model", "-q", "-o", str(tmp_path / "r.html"))
    assert "--against names 'nope'" in failed(*words, "--against", "nope")
    assert "name it with --heldout" in failed(*words, "--against", "bt")
    assert not (tmp_path / "r.html").exists()
    (tmp_path / "o.toml").write_text('against = "uniform"')
    assert run(*words, "--config", str(tmp_path / "o.toml")).exit_code == 0  # one file serves several commands


def test_a_model_without_context_columns_answers_too():
    assert run("fit", "votes.csv", *QUICK, "-o", "plain", "-q").exit_code == 0
    assert json.loads(run("route", "plain", "--format", "json").stdout)["winners"]
    assert len(run("predict", "plain", "heldout.csv").stdout.splitlines()) == 121
    assert run("report", "plain", "-o", "plain.html").exit_code == 0
    assert run("evaluate", "plain", "heldout.csv").exit_code == 0


def test_export_writes_learned_policies_only(model, tmp_path, monkeypatch):
    from nasheval.policy.learned import LearnedPolicy

    said = failed("export", "model", "--onnx", str(tmp_path / "p.onnx"))
    assert "--policy learned" in said
    assert list(tmp_path.iterdir()) == []
    network = LearnedPolicy(hidden=(8,), waves=0, epochs=1, augment=0)
    log = ne.read_votes("votes.csv", context=["language", "is_code", "length"])
    learned = ne.NashEval(outcome="lightgbm", folds=2, n_jobs=1, policy=network, verbose=False).fit(log)
    learned.save(tmp_path / "learned")
    result = run("export", str(tmp_path / "learned"), "--onnx", str(tmp_path / "p.onnx"))
    assert result.exit_code == 0, result.exception
    assert "differs from the model by at most" in result.stderr
    assert {file.name for file in tmp_path.iterdir()} == {"learned", "p.onnx"}
    bypassed = run("route", str(tmp_path / "learned"), "--set", "language=de", "--agents", "ada,bert")
    assert "The learned policy is bypassed" in bypassed.stderr


# -- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (InputError("no good"), 1, "error: no good"),
        (MissingExtraError("x", extra="text", purpose="This"), 3, "pip install 'nasheval[text]'"),
        (ConvergenceError("no end"), 4, "error: no end"),
        (PermissionError(13, "Permission denied", "model"), 1, "error: [Errno 13] Permission denied: 'model'"),
        (ZeroDivisionError("oh"), 70, "defect: ZeroDivisionError: oh"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_every_end_has_its_status(monkeypatch, capsys, error, status, said):
    def broken(*args, **options):
        raise error

    monkeypatch.setattr("nasheval.estimator.load", broken)
    found, out, err = program(monkeypatch, capsys, "leaderboard", "model")
    assert (found, out) == (status, "")
    assert said in err
    assert "Traceback" not in err


def test_debug_raises_and_wrong_usage_is_two(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["nasheval", "leaderboard", "nowhere", "--debug"])
    with pytest.raises(InputError, match="there is no folder here"):
        main()
    assert program(monkeypatch, capsys, "leaderboard")[0] == 2
    assert program(monkeypatch, capsys, "leaderboard", "model", "--frobnicate")[0] == 2


@pytest.fixture
def heeded():
    """SIGINT interrupts, also where whoever started the suite had it ignored, as a shell does in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("at", ["nasheval.store.folder._swap", "nasheval.store.folder._fill"])
def test_an_interrupt_leaves_no_half_a_model(monkeypatch, capsys, tmp_path, at):
    def interrupted(*args, **options):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(at, interrupted)
    words = ("fit", str(Path("votes.csv").resolve()), *READ, *QUICK, "-o", str(tmp_path / "model"), "--holdout", "0")
    assert program(monkeypatch, capsys, *words)[0] == 130
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_no_half_a_file(model, monkeypatch, capsys, tmp_path):
    def interrupted(table, file, ending):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("nasheval.cli.predicting._write", interrupted)
    (tmp_path / "l.csv").write_text("old")
    assert program(monkeypatch, capsys, "predict", "model", "heldout.csv", "-o", str(tmp_path / "l.csv"))[0] == 130
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"l.csv": "old"}


@pytest.mark.parametrize("ending", ["parquet", "csv", "feather", "json", "jsonl"])
def test_predictions_replace_a_link_and_do_not_follow_it(model, tmp_path, ending):
    (tmp_path / "victim").write_text("precious")
    out = tmp_path / f"lotteries.{ending}"
    out.symlink_to(tmp_path / "victim")
    (tmp_path / f".lotteries.part.{ending}").symlink_to(tmp_path / "victim")
    run("predict", "model", "heldout.csv", "-o", str(out))
    assert (tmp_path / "victim").read_text() == "precious"
    assert not out.is_symlink()
    assert out.stat().st_size > 100


# -- a first-time user ------------------------------------------------------------------------------------------------


def test_two_bad_labels_are_told_and_mended_in_one_step(monkeypatch, capsys, tmp_path):
    lines = votes(90, 4).splitlines()
    for row, label in ((10, "modela"), (40, "left wins")):
        parts = lines[row].split(",")
        lines[row] = ",".join([*parts[:2], label, *parts[3:]])
    Path("bad.csv").write_text("\n".join(lines))
    words = ["fit", "bad.csv", "--context", "language", *QUICK, "--holdout", "0", "-q", "-o", str(tmp_path / "model")]
    status, out, err = program(monkeypatch, capsys, *words)
    assert (status, out) == (1, "")
    assert "bad.csv, column 'winner', rows 10, 40: unknown label 'modela', 'left wins'." in err
    assert "with --labels 'modela=a,left wins=a', or pass --on-error skip to leave such rows out" in err
    assert not (tmp_path / "model").exists()
    # One step, as told: the same command with the option it names.
    assert program(monkeypatch, capsys, *words, "--labels", "modela=a,left wins=a")[0] == 0
    assert load(tmp_path / "model").stage1_.log.n_records == 90
    status, _, err = program(monkeypatch, capsys, *words, "--on-error", "skip", "--overwrite")
    assert status == 0
    assert load(tmp_path / "model").stage1_.log.n_records == 88

"""Cells, rows, resuming, files: what all studies rest on."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.studies import catalogue, contest
from nasheval.studies.files import data_file
from nasheval.studies.highway import FLOOR, floor
from nasheval.studies.rows import Rows
from nasheval.studies.running import CELLS, finished_cells, work_off
from nasheval.studies.simulated import Truth, settings
from nasheval.studies.study import Cell, Claim, Scale, Study, Table
from nasheval.studies.writing import read, write

ran: list[str] = []


def cells(scale):
    return [Cell(f"seed {seed}", {"seed": seed, "n": 2 if scale.quick else 9}) for seed in scale.pick((1, 2, 3))]


def run(cell):
    ran.append(cell.key)
    if cell["seed"] == 13:
        raise KeyboardInterrupt
    return [{"seed": cell["seed"], "method": name, "loss": cell["n"] * cell["seed"] * w} for name, w in METHODS.items()]


METHODS = {"a": 1.0, "b": 0.5}


def tables(rows):
    return [
        Table("Losses", ("method", "loss"), tuple((m, rows.where(method=m).text("loss")) for m in METHODS), "A | B")
    ]


def claims(rows):
    return [Claim("b beats a", rows.where(method="b").mean("loss") < rows.where(method="a").mean("loss"), "so it is")]


def figures(rows):
    from matplotlib import pyplot

    return {"losses": pyplot.figure()}


STUDY = Study("toy", "A toy", "Figure toy", cells, run, tables, claims, figures)


@pytest.fixture(autouse=True)
def _forget():
    ran.clear()


# -- running ----------------------------------------------------------------------------------------------------------


def test_finished_cells_are_not_run_again(tmp_path):
    first = work_off(STUDY, tmp_path, Scale(), show=False)
    assert ran == ["seed 1", "seed 2", "seed 3"]
    again = work_off(STUDY, tmp_path, Scale(), show=False)
    assert len(ran) == 3
    assert list(again.rows) == list(first.rows)
    assert again.seconds == pytest.approx(first.seconds)


def test_an_interrupted_study_resumes_where_it_stopped(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        work_off(STUDY, tmp_path, Scale(seeds=(1, 13, 2)), show=False)
    assert ran == ["seed 1", "seed 13"]
    found = work_off(STUDY, tmp_path, Scale(seeds=(1, 2)), show=False)
    assert ran == ["seed 1", "seed 13", "seed 2"]
    assert found.rows.distinct("seed") == [1, 2]


def test_a_torn_line_is_run_again_and_harms_no_other(tmp_path):
    work_off(STUDY, tmp_path, Scale(), show=False)
    text = (tmp_path / CELLS).read_text()
    (tmp_path / CELLS).write_text(text[: len(text) - 20])
    ran.clear()
    found = work_off(STUDY, tmp_path, Scale(), show=False)
    assert ran == ["seed 3"]
    assert len(found.rows) == 6
    assert set(finished_cells(tmp_path / CELLS)) == {"seed 1", "seed 2", "seed 3"}


def test_other_settings_are_run_again(tmp_path):
    quick = work_off(STUDY, tmp_path, Scale(quick=True, seeds=(1, 2, 3)), show=False)
    full = work_off(STUDY, tmp_path, Scale(), show=False)
    assert len(ran) == 6
    assert full.rows.mean("loss") == pytest.approx(4.5 * quick.rows.mean("loss"))


def test_a_fresh_run_forgets(tmp_path):
    work_off(STUDY, tmp_path, Scale(), show=False)
    work_off(STUDY, tmp_path, Scale(), show=False, fresh=True)
    assert len(ran) == 6


def test_processes_give_what_one_gives(tmp_path):
    study = catalogue.study("highway")
    small = Study(study.name, study.title, study.paper, lambda scale: [_small(0), _small(1)], study.run, study.tables)
    one = work_off(small, tmp_path / "one", Scale(), show=False)
    two = work_off(small, tmp_path / "two", Scale(), show=False, jobs=2)
    assert list(one.rows) == list(two.rows)


def _small(seed):
    return Cell(f"seed {seed}", {"seed": seed, "configurations": 12})


# -- rows and files ---------------------------------------------------------------------------------------------------


def test_rows_are_read_by_column():
    rows = Rows([{"m": "a", "x": 1.0}, {"m": "a", "x": 3.0}, {"m": "b", "x": 5.0}, {"m": "c"}])
    assert rows.where(m="a").mean("x") == 2.0
    assert rows.where(m="a").spread("x") == pytest.approx(np.std([1, 3], ddof=1))
    assert rows.where(m="a").text("x", 1) == "2.0 ± 1.4"
    assert rows.where(m="b").text("x") == "5.000"
    assert rows.where(m="c").text("x") == ""
    assert rows.distinct("m") == ["a", "b", "c"]
    assert np.isnan(rows.where(m="c").mean("x"))


def test_a_report_is_read_back_as_it_was_written(tmp_path):
    report = write(work_off(STUDY, tmp_path, Scale(), show=False), tmp_path)
    assert read(tmp_path) == report
    assert report.claims[0].verdict == "met"
    assert report.settings["seeds"] == "1, 2, 3"
    told = (tmp_path / "table.md").read_text()
    assert "| a | 18.000 ± 9.000 |" in told
    assert "nasheval reproduce toy" in told
    assert "| b beats a | so it is | met |" in told
    with (tmp_path / "rows.csv").open() as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == [9, 4.5, 18, 9, 27, 13.5]
    assert (tmp_path / "losses.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tables": [1], "claims": []}'])
def test_results_that_are_none_are_told(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ne.InputError, match="does not hold the results of a study"):
        read(tmp_path)


def test_a_claim_of_the_paper_is_reproduced_or_not():
    assert [Claim("", holds, "", "paper").verdict for holds in (True, False)] == ["reproduced", "not reproduced"]
    assert Claim("", False, "").verdict == "missed"


def test_missing_data_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("NASHEVAL_DATA", str(tmp_path))
    with pytest.raises(ne.InputError, match=r"no oa_pairs/x.parquet in .*set NASHEVAL_DATA"):
        data_file("oa_pairs/x.parquet")


# -- methods and scores -----------------------------------------------------------------------------------------------

ROCK = np.array([[0.0, 1, -1], [-1, 0, 1], [1, -1, 0]])  # rock, paper, scissors


def test_scores_by_hand():
    games = np.stack([ROCK, np.array([[0.0, 1, 1], [-1, 0, 0], [-1, 0, 0]])])
    third = np.full((2, 3), 1 / 3)
    first = np.tile([1.0, 0, 0], (2, 1))
    ours, other = contest.scores({contest.OURS: third, "first": first}, games)
    assert ours["exploitability"] == pytest.approx((0 + 2 / 3) / 2)
    assert other["exploitability"] == pytest.approx((1 + 0) / 2)
    assert ours["f1"] == pytest.approx((1 + 2 / 4) / 2)
    assert other["f1"] == pytest.approx((2 / 4 + 1) / 2)
    assert other["value"] == pytest.approx((0 + 2 / 3) / 2)
    assert other["excess"] == pytest.approx(1 / 2 - 1 / 3)
    assert other["excess_se"] == pytest.approx(np.std([1, -2 / 3], ddof=1) / np.sqrt(2))


def test_all_methods_of_the_paper_give_lotteries():
    log = ne.SyntheticWorld(seed=3).feedback("pairwise", voters=3, n=120)
    contexts = ne.SyntheticWorld(seed=3).test_contexts(7)
    found = contest.lotteries(log, contexts, paper={"nuisance_trees": 5, "payoff_trees": 5}, ours={"folds": 2})
    assert set(found) == {contest.OURS, *contest.PAPERS, contest.PLUG_IN, *contest.BASELINES} - {contest.ROBUST}
    for pi in found.values():
        assert pi.shape == (7, 5)
        assert pi.sum(axis=1) == pytest.approx(1)


def test_the_true_nuisances_are_the_worlds():
    truth = Truth.of(settings(Scale(quick=True), modalities=("winner",), voters=(3,))[0])
    known = truth.oracle()
    X = ne.ContextEncoder.fit(truth.log.contexts)
    from nasheval.nuisance.learners import Features

    encoded = Features.of(X, truth.contexts)
    mu, e = (known[name].fit(None, None, None, None).predict(encoded, 0) for name in ("outcome", "propensity"))
    assert mu == pytest.approx(truth.world.outcome(truth.contexts, "winner", voters=3).values, abs=1e-4)
    assert e.shape == (len(truth.contexts), len(truth.log.menus))
    assert e[:, 0] == pytest.approx(truth.world.propensity(truth.contexts), abs=1e-5)


def test_the_floor_of_runs_that_agree_is_zero():
    runs = np.broadcast_to(ROCK, (4, 6, 3, 3))
    row = floor(runs, seed=0)
    assert row["method"] == FLOOR
    assert row["exploitability"] == pytest.approx(0, abs=1e-9)
    assert row["f1"] == 1


# -- the command line -------------------------------------------------------------------------------------------------


def invoke(*words):
    return CliRunner().invoke(app, ["reproduce", *words])


def test_the_command_lists_runs_and_shows(tmp_path, monkeypatch):
    listed = invoke().output
    assert all(f"{name}: " in listed for name in catalogue.NAMES)
    monkeypatch.setattr(catalogue, "study", lambda name: STUDY)
    done = invoke("rq1", "--out", str(tmp_path), "--jobs", "1", "--seeds", "1-2")
    assert done.exit_code == 0, done.output
    assert "18.000 ± 9.000" not in done.output
    assert "13.500 ± 6.364" in done.output
    ran.clear()
    shown = invoke("--show", "rq1", "--out", str(tmp_path))
    assert "13.500 ± 6.364" in shown.output
    assert ran == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing"], "There is no study 'nothing'; accepted are rq1,"),
        (["rq1", "--seeds", "x"], "seeds is 'x'; accepted are numbers"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, words, told):
    found = invoke(*words, "--out", str(tmp_path))
    assert told in str(found.exception)


def test_all_leaves_out_what_lacks_data(tmp_path, monkeypatch):
    monkeypatch.setenv("NASHEVAL_DATA", str(tmp_path))
    needy = replace(STUDY, needs=("votes.csv",))
    monkeypatch.setattr(catalogue, "study", lambda name: needy if name == "oa" else STUDY)
    done = invoke("all", "--out", str(tmp_path), "--jobs", "1", "--quick")
    assert done.exit_code == 0
    assert "oa is left out. There is no votes.csv" in done.output
    assert len(ran) == len(catalogue.NAMES) - 1
    assert "There is no votes.csv" in str(invoke("oa", "--out", str(tmp_path)).exception)


def test_results_that_are_nowhere_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr("nasheval.studies.writing.bundled", lambda name: tmp_path / "none")
    assert "There are no results of 'rq1'" in str(invoke("--show", "rq1", "--out", str(tmp_path)).exception)


def test_bundled_results_are_whole():
    from nasheval.studies.writing import RESULTS, bundled

    for name in catalogue.NAMES:
        if (bundled(name) / RESULTS).exists():
            report = read(bundled(name))
            assert report.name == name
            assert not report.settings["quick"]
            assert report.tables
            assert json.dumps(report.settings)

"""Cells, rows, resuming, files: what all studies rest on."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import nasheval as ne
from studies import catalogue
from studies.__main__ import main
from studies.catalogue import BENCHMARKS, STUDIES, TOOLS
from studies.harness import writing
from studies.harness.files import data_file
from studies.harness.rows import Rows
from studies.harness.running import CELLS, finished_cells, labelled, run_cells, run_study
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.harness.writing import read, write
from studies.paper import contest
from studies.paper.highway import FLOOR, floor
from studies.paper.simulated import Truth, settings

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
    first = run_study(STUDY, tmp_path, Scale(), show=False)
    assert ran == ["seed 1", "seed 2", "seed 3"]
    again = run_study(STUDY, tmp_path, Scale(), show=False)
    assert len(ran) == 3
    assert list(again.rows) == list(first.rows)
    assert again.seconds == pytest.approx(first.seconds)


def test_an_interrupted_study_resumes_where_it_stopped(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_study(STUDY, tmp_path, Scale(seeds=(1, 13, 2)), show=False)
    assert ran == ["seed 1", "seed 13"]
    found = run_study(STUDY, tmp_path, Scale(seeds=(1, 2)), show=False)
    assert ran == ["seed 1", "seed 13", "seed 2"]
    assert found.rows.distinct("seed") == [1, 2]


def test_a_torn_line_is_run_again_and_harms_no_other(tmp_path):
    run_study(STUDY, tmp_path, Scale(), show=False)
    text = (tmp_path / CELLS).read_text()
    (tmp_path / CELLS).write_text(text[: len(text) - 20])
    ran.clear()
    found = run_study(STUDY, tmp_path, Scale(), show=False)
    assert ran == ["seed 3"]
    assert len(found.rows) == 6
    assert set(finished_cells(tmp_path / CELLS)) == {"seed 1", "seed 2", "seed 3"}


def test_other_settings_are_run_again(tmp_path):
    quick = run_study(STUDY, tmp_path, Scale(quick=True, seeds=(1, 2, 3)), show=False)
    full = run_study(STUDY, tmp_path, Scale(), show=False)
    assert len(ran) == 6
    assert full.rows.mean("loss") == pytest.approx(4.5 * quick.rows.mean("loss"))


def test_a_fresh_run_forgets(tmp_path):
    run_study(STUDY, tmp_path, Scale(), show=False)
    run_study(STUDY, tmp_path, Scale(), show=False, fresh=True)
    assert len(ran) == 6


@pytest.mark.slow
def test_processes_give_what_one_gives(tmp_path):
    study = catalogue.study("highway")
    small = Study(study.name, study.title, study.paper, lambda scale: [_small(0), _small(1)], study.run, study.tables)
    one = run_study(small, tmp_path / "one", Scale(), show=False)
    two = run_study(small, tmp_path / "two", Scale(), show=False, jobs=2)
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
    report = write(run_study(STUDY, tmp_path, Scale(), show=False), tmp_path)
    assert read(tmp_path) == report
    assert report.claims[0].verdict == "met"
    assert report.settings["seeds"] == "1, 2, 3"
    told = (tmp_path / "table.md").read_text()
    assert "| a | 18.000 ± 9.000 |" in told
    assert "python -m studies toy" in told
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
    found = contest.lotteries(log, contexts, paper={"folds": 2}, ours={"folds": 2})
    assert set(found) == {contest.OURS, *contest.PAPERS, contest.PLUG_IN, *contest.BASELINES} - {contest.ROBUST}
    for pi in found.values():
        assert pi.shape == (7, 5)
        assert pi.sum(axis=1) == pytest.approx(1)


def test_the_true_nuisances_are_the_worlds():
    truth = Truth.of(settings(Scale(quick=True), modalities=("winner",), voters=(3,))[0])
    known = truth.oracle()
    X = ne.ContextEncoder.fit(truth.log.contexts)
    encoded = SimpleNamespace(trees=X.encode(truth.contexts, form="trees"))
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


def test_the_command_lists_runs_and_shows(tmp_path, monkeypatch, capsys):
    main([])
    listed = capsys.readouterr().out
    assert all(f"{name}: " in listed for name in {**STUDIES, **BENCHMARKS, **TOOLS})
    monkeypatch.setattr(catalogue, "study", lambda name: STUDY)
    main(["rq1", "--out", str(tmp_path), "--jobs", "1", "--seeds", "1-2"])
    done = capsys.readouterr().out
    assert "18.000 ± 9.000" not in done
    assert "13.500 ± 6.364" in done
    ran.clear()
    for words in (["--show", "rq1"], ["rq1", "--show"]):
        main([*words, "--out", str(tmp_path)])
        assert "13.500 ± 6.364" in capsys.readouterr().out
    assert ran == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing"], "There is no study 'nothing'; accepted are rq1,"),
        (["rq1", "--seeds", "x"], "seeds is 'x'; accepted are numbers"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, words, told):
    with pytest.raises(ne.InputError, match=told):
        main([*words, "--out", str(tmp_path)])


def test_all_leaves_out_what_lacks_data(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NASHEVAL_DATA", str(tmp_path))
    needy = replace(STUDY, needs=("votes.csv",))
    monkeypatch.setattr(catalogue, "study", lambda name: needy if name == "oa" else STUDY)
    main(["all", "--out", str(tmp_path), "--jobs", "1", "--quick"])
    assert "oa is left out. There is no votes.csv" in capsys.readouterr().out
    assert len(ran) == len(STUDIES) - 1
    with pytest.raises(ne.InputError, match=r"There is no votes\.csv"):
        main(["oa", "--out", str(tmp_path)])


def test_results_that_are_nowhere_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "KEPT", tmp_path / "none")
    with pytest.raises(ne.InputError, match="There are no results of 'rq1'"):
        main(["--show", "rq1", "--out", str(tmp_path)])


def test_kept_results_are_whole():
    for name in STUDIES:
        if (writing.KEPT / name / writing.RESULTS).exists():
            report = read(writing.KEPT / name)
            assert report.name == name
            assert not report.settings["quick"]
            assert report.tables
            assert json.dumps(report.settings)


@pytest.mark.parametrize("name", [*BENCHMARKS, *TOOLS])
def test_every_benchmark_tells_its_options(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert f"python -m studies {name}" in capsys.readouterr().out


def test_every_study_that_the_docs_name_exists():
    root = Path(catalogue.__file__).parents[1]
    pages = [root / "README.md", root / "Makefile", *(root / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"python -m studies ([a-z][\w-]*)", page.read_text())}
    assert named <= {*STUDIES, *BENCHMARKS, *TOOLS, "all"}


# -- cells of benchmarks ----------------------------------------------------------------------------------------------


def test_a_failing_cell_is_left_out_and_tried_again(tmp_path, capsys):
    cells = [Cell.of(seed=1, n=1), Cell.of(seed=7, n=1)]
    broken = {"now": True}

    def sometimes(cell):
        if broken["now"] and cell["seed"] == 7:
            raise ValueError("no")
        return run(cell)

    first = run_cells(sometimes, cells, tmp_path / "cells.jsonl", show=False, skip_failures=True)
    assert [one.cell["seed"] for one in first] == [1]
    assert "7/1 failed: ValueError: no" in capsys.readouterr().err
    broken["now"] = False
    second = run_cells(sometimes, cells, tmp_path / "cells.jsonl", show=False, skip_failures=True)
    assert [row["loss"] for row in labelled(second)] == [1.0, 0.5, 7.0, 3.5]
    assert ran == ["1/1", "7/1"]

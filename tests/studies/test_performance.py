"""The instruments that measure speed: what they draw is what they say, and what they divide is right."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from studies.benchmarks import kept, peers, ratios, scale
from studies.benchmarks.big_arena import GROUP, NUMBERS, TIES, Arena, drawn_contexts
from studies.benchmarks.measuring import HEADER, Line, Spent, amount, by_turns, how_many, in_own_process, measured
from studies.harness.rows import Rows
from studies.harness.study import Table

PAIR = np.triu_indices(6, 1)


@pytest.fixture(scope="module")
def arena():
    return Arena.of(6, seed=3)


def test_margins_are_those_of_the_payoffs(arena):
    x, group = drawn_contexts(np.random.default_rng(0), 300)
    j, k = PAIR[0][np.arange(300) % 15], PAIR[1][np.arange(300) % 15]
    A = arena.payoff(x, group)
    assert arena.margins(x, group, j, k) == pytest.approx(A[np.arange(300), j, k])
    assert pytest.approx(-A.swapaxes(1, 2)) == A
    assert np.abs(A).max() <= 1 - TIES


def test_pairs_and_verdicts_of_a_log_are_drawn_as_the_truth_says(arena):
    log, n = arena.log(40_000, seed=1), 40_000
    numbers = np.column_stack([log.contexts[name].to_numpy() for name in NUMBERS])
    group = np.unique(log.contexts[GROUP].to_numpy(zero_copy_only=False), return_inverse=True)[1]
    verdicts = log.verdicts
    assert (log.n_records, log.n_contexts, log.design) == (n, n, "draws")
    assert (verdicts.j < verdicts.k).all()
    expected = arena.margins(numbers, group, verdicts.j, verdicts.k)
    number = verdicts.j.astype(int) * 6 + verdicts.k
    off = np.bincount(number, verdicts.z - expected) / np.sqrt(np.maximum(1, np.bincount(number)))
    assert np.abs(off).max() < 4
    chances = np.array(
        [arena.pair_chance(numbers, group, np.full(n, j), np.full(n, k)) for j, k in zip(*PAIR, strict=True)]
    )
    assert chances.sum(axis=0) == pytest.approx(1)
    seen = np.array([np.bincount(number, minlength=36)[6 * j + k] for j, k in zip(*PAIR, strict=True)])
    z = (seen - chances.sum(axis=1)) / np.sqrt((chances * (1 - chances)).sum(axis=1))
    assert np.abs(z).max() < 4
    assert (chances.max(axis=1) / chances.min(axis=1)).max() > 2  # selection depends on the context


def test_a_seed_gives_one_log_and_voters_have_names(arena):
    first, again, other = (arena.log(200, seed=seed) for seed in (1, 1, 2))
    assert (first.verdicts.z == again.verdicts.z).all()
    assert (first.verdicts.j != other.verdicts.j).any()
    assert first.voters is None
    assert len(arena.log(200, voters=7).voters) == 7


# -- measuring --------------------------------------------------------------------------------------------------------


def test_steps_take_turns_and_warm_up_once():
    calls: list[str] = []
    spent = by_turns([lambda: calls.append("a"), lambda: calls.append("b")], 2)
    assert calls == ["a", "b"] * 3
    assert [len(each) for each in spent] == [2, 2]


def test_a_ratio_is_the_median_of_rounds_and_its_limit_decides():
    line = Line.of("fit", "x", [1.0, 9.0, 4.0], "y", [10.0, 10.0, 10.0], limit=0.4)
    assert (line.ratio, line.low, line.high, line.verdict) == (0.4, 0.1, 0.9, "met")
    assert Line.of("fit", "x", [4.1], "y", [10.0], limit=0.4).verdict == "MISSED"
    seconds = Line.of("fit", "x", [4.1], "y", [1.0], limit=5.0, absolute=True)
    assert seconds.verdict == "met"
    assert seconds.cells()[7] == "5 s"
    assert Line("fit", "x", limit=1.0, note="not here").verdict == ""


@pytest.mark.parametrize("line", [Line("a", "b"), Line.of("a", "b", [1e-4], "c", [2e-3], limit=0.1, note="n")])
def test_lines_survive_a_file(line):
    again = Line.from_row(json.loads(json.dumps(line.row())))
    assert again.cells() == line.cells()


def test_amounts_have_units_that_can_be_read():
    shown = [amount(value, "s") for value in (2e-6, 0.0031, 12.0, math.nan)]
    assert shown == ["2 µs", "3.1 ms", "12 s", ""]


def test_how_many_stays_within_bounds():
    assert how_many(lambda n: None, 1.0, 50) == 50
    assert how_many(lambda n: sum(range(100_000)), 1e-9, 50, least=3) == 3


def test_a_step_is_measured_with_the_processes_that_it_starts():
    result, spent = measured(lambda: sum(range(200_000)))
    assert result == 19_999_900_000
    assert isinstance(spent, Spent)
    assert spent.cpu > 0
    assert spent.peak_gb > 0.01


@pytest.mark.parametrize(
    ("cell", "minutes", "why"),
    [({"nonsense": 1}, 1, "nonsense"), ({"votes": 1000}, 1e-4, "not done in 0.0001 minutes")],
)
def test_a_process_that_fails_says_why(cell, minutes, why):
    [row] = in_own_process("scale", cell, minutes=minutes, most_gb=4)
    assert why in row["failed"]


# -- tables -----------------------------------------------------------------------------------------------------------


def test_exponents_are_slopes_from_size_to_size():
    rows = [{"votes": n, "agents": 50, "fit_cpu": 3 * n**1.2, "fit_wall": 1.0} for n in (1000, 10_000)]
    assert scale.exponent(rows[0], rows[1], "fit_cpu", lambda row: row["votes"]) == pytest.approx(1.2)
    assert math.isnan(scale.exponent(None, rows[0], "fit_cpu", lambda row: row["votes"]))
    table = scale.by_votes(Rows(rows))
    assert [row[-1] for row in table.rows] == ["met", "MISSED"]


def test_growth_with_agents_is_in_pairs_and_keeps_what_failed():
    done = {"votes": 1000, "fit_cpu": 1.0, "board_cpu": 1.0, "board_wall": 1.0, "predict_cpu": 1.0, "predict_wall": 1.0}
    rows = [{**done, "agents": 10}, {**done, "agents": 20, "predict_cpu": 4.3}, {"agents": 300, "failed": "killed"}]
    table = scale.by_agents(Rows(rows))
    assert [row[1] for row in table.rows[:-1]] == ["45", "190", "44,850"]
    assert [row[-1] for row in table.rows[:-1]] == ["met", "MISSED", "killed"]
    assert table.rows[-1][0] == "first to last"


def test_fits_are_divided_by_the_fit_of_the_same_run():
    def row(votes, cpu, step="fit", form="voters"):
        return {"form": form, "votes": votes, "step": step, "cpu": cpu, "peak_gb": 1.0}

    rows = [
        row(100, 10.0),
        row(100, 3.0, "board"),
        row(250, 20.0),
        row(1000, 80.0),
        row(300, 5.0),
        row(100, 4.0, form="x"),
    ]
    seen = {line.what: (line.ratio, line.verdict) for line in ratios.fit_lines(Rows(rows), 100)}
    assert seen["five groups, 100 votes"] == (pytest.approx(0.3), "MISSED")
    assert seen["1,000 votes"] == (4.0, "met")
    assert seen["300 votes"] == (0.5, "met")
    assert seen["x, 100 votes"] == (0.4, "")


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    monkeypatch.setattr(kept, "PAGE", tmp_path / "page.md")
    kept.PAGE.write_text("# P\n\n<!-- scale -->\n<!-- end -->\n\n<!-- ratios: fit -->\n<!-- end -->\n\nmore\n")
    return kept.PAGE


def test_tables_of_several_runs_stand_one_below_the_other(page):
    for label, seen in (("after", "2"), ("before", "1")):
        kept.keep("scale", label, [Table("T", ("a",), ((seen,),))])
    text = page.read_text()
    assert text.index("*Before*") < text.index("| 1 |") < text.index("*After*") < text.index("| 2 |")
    assert text.endswith("<!-- end -->\n\nmore\n")
    assert kept.filled(text) == text


def test_ratios_of_several_runs_stand_side_by_side(page):
    for label, seen in (("after", 2.0), ("before", 8.0)):
        lines = [Line.of(part, "x", [seen], "y", [10.0], limit=0.5) for part in ("fit", "bulk")]
        kept.keep("ratios", label, [Table("T", HEADER, tuple(line.cells() for line in lines))])
    text = page.read_text()
    assert "| fit | x | y | 0.5 | 8 s | 10 s | 0.8 | MISSED | 2 s | 10 s | 0.2 | met |" in text
    assert "bulk" not in text
    assert kept.shown("ratios", "cold start") == kept.shown("nothing") == ""
    assert kept.filled(text) == text


def test_the_performance_page_is_what_is_kept():
    text = kept.PAGE.read_text()
    assert kept.filled(text) == text
    assert {name for _, name, _, _ in kept.BLOCK.findall(text)} == {"scale", "ratios", "bench"}


# -- the smallest form of each ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_is_measured_against_linear_programs(monkeypatch, capsys):
    for name, value in {"warm_up": lambda: None, "ROUNDS": 1, "BATCH": 64, "GAMES": 3}.items():
        monkeypatch.setattr(ratios, name, value)
    ratios.measure("LightGBM, plug-in", votes=200, agents=4, full=True)
    fit, bulk, one = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert fit["step"] == "fit"
    assert fit["cpu"] > 0
    assert bulk["line"]["part"] == "bulk"
    assert bulk["line"]["ratio"] > 0
    assert "lose at most" in bulk["line"]["note"]
    assert one["line"]["limit"] == ratios.ONE
    assert not one["corrected"]


def test_one_size_is_measured_step_by_step(monkeypatch, capsys, quick_ours):
    monkeypatch.setattr(scale, "warm_up", lambda: None)
    scale.measure(votes=400, agents=4, voters=0, contexts=20)
    row = {name: value for line in capsys.readouterr().out.splitlines() for name, value in json.loads(line).items()}
    assert {"log_wall", "fit_cpu", "predict_wall", "board_cpu", "board_peak_gb"} <= set(row)
    assert 0 < row["rmse"] < 1


@pytest.mark.filterwarnings("ignore")
def test_peers_agree_with_us(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "ARENA_RANK", tmp_path / "none")
    monkeypatch.setattr(peers, "PREF_VOTING", tmp_path / "none")
    lines = [*peers.rating_lines(3000, 5, 1), *peers.solver_lines({5: 20}, 1, 0.01)]
    notes = {line.against: line.note for line in reversed(lines)}
    assert notes["arena-rank"] == notes["pref_voting, one game"] == "not here: make bench-peers"
    for name in ("evalica", "choix"):
        assert float(notes[name].rpartition(" ")[2]) < 1e-6
    for name in ("HiGHS by SciPy, one game", "HiGHS by highspy, one game", "Nashpy, linear program, one game"):
        assert "fails" not in notes[name]
        assert float(notes[name].rpartition(" ")[2]) < 1e-6
    assert lines[-1].what == "one game, K = 50"
    assert lines[-1].ratio > 0

"""Small versions of the benchmarks that rest on a fitted model's parts."""

from __future__ import annotations

from functools import partial

import nasheval as ne
from studies.benchmarks import coverage, coverage_arena, quality, stream
from studies.benchmarks.worlds import WORLDS, Draws, by_language, population
from studies.harness.study import Cell
from studies.paper.contest import BT_REG, MAXIMAL, ORACLE, OURS, PAPERS, PLUG_IN, PRINTED
from studies.paper.simulated import Truth


def test_a_log_of_an_arena_is_measured_in_every_way(monkeypatch):
    world = Draws(3, 240, partial(population, K=3), by_language, 1, "language", "fi")
    monkeypatch.setitem(WORLDS, "small", world)
    (row,) = coverage_arena.study(Cell.of(world="small", seed=3, outcome="lightgbm"))
    assert row["pairs"][1] == 3
    assert row["groups"][1] == 6
    assert row["there"][1] == row["selected"][1] == 1
    assert {"marginal_warned", "moved_all", "moved_there", "warned"} <= set(row)
    lines = [{"world": "small", **row}]
    assert list(coverage_arena.coverage_lines(lines))
    assert list(coverage_arena.claim_lines(lines))


def test_true_cycles_are_those_of_three():
    cyclic = {"truth": [0.1, -0.2, 0.3], "error": [0.01] * 3}  # 0 beats 1 beats 2 beats 0
    assert coverage.true_cycles(cyclic) == [[0, 1, 2]]
    assert coverage.clear_cycles(cyclic) == [[0, 1, 2]]
    assert coverage.true_cycles({"truth": [0.1, 0.2, 0.3]}) == []


def test_quality_scores_what_rq1_scores(monkeypatch):
    cell = Cell.of(modality="pairwise", voters=1, seed=0, n=120, test=16, insurance=True)
    named = dict(quality.models(Truth.of(cell), seed=0, insurance=True))
    assert {OURS, *PAPERS, PLUG_IN, ORACLE, quality.OUR_PLUG_IN, "intercept, corrected"} <= set(named)
    quick = {name: ne.NashEval(outcome="lightgbm", second_stage="none", verbose=False) for name in (PRINTED, OURS)}
    monkeypatch.setattr(quality, "models", lambda truth, **options: quick.items())
    monkeypatch.setattr(quality, "_warm_up", lambda: None)
    rows = {row["method"]: row for row in quality.study(cell)}
    assert {OURS, PRINTED, MAXIMAL, f"{BT_REG}, {quality.ON_OURS}"} <= set(rows)
    assert rows[OURS]["cpu"] > 0
    assert 0 < rows[OURS]["rmse"] < 2


def test_votes_are_written_and_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "CHUNK", 30)
    stream.write_votes(tmp_path / "votes.parquet", 100, 4, 3)
    measured = stream.measured("read", tmp_path)
    assert measured["rows"] == 100
    assert measured["gib"] > 0

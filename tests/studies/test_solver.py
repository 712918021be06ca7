"""Learned against exact: the enumeration is right, the times are added up, one game serves both."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import nasheval as ne
from studies.harness.rows import Rows
from studies.harness.running import run_study
from studies.harness.study import Cell, Scale
from studies.harness.writing import write
from studies.paper import solver_timing
from studies.paper.contest import OURS, PLUG_IN, PRINTED, plug_in
from studies.paper.simulated import Truth
from studies.paper.solver import STUDY, learned, lotteries, taken
from studies.paper.solver_timing import (
    ALL,
    BY_SIZE,
    ENUMERATED,
    EXACT,
    NETWORK,
    OUR_EXACT,
    OUR_NETWORK,
    OUR_PAYOFFS,
    PAYOFFS,
    enumerated,
    enumerations,
    medians,
)

QUALITY = Cell(
    "quality",
    {"part": "quality", "modality": "pairwise", "voters": 3, "seed": 70, "n": 100, "test": 40, "epochs": 2},
)
RUNTIME = Cell("runtime", {"part": "runtime", "seed": 70, "sizes": "3,4", "n": 40, "batch": 4, "rounds": 2})


# -- the enumeration --------------------------------------------------------------------------------------------------


@given(st.integers(2, 7), st.integers(0, 10_000), st.sampled_from([1e-3, 0.1, 1.0]))
@examples(max_examples=40, deadline=None)
def test_both_enumerations_find_the_equilibrium(K, seed, rho):
    half = np.triu(np.random.default_rng(seed).uniform(-1, 1, (K, K)), 1)
    A = half - half.T
    expected = ne.solve(A, regularizer=ne.L2(rho)).strategy
    np.testing.assert_allclose(enumerated(A, rho), expected, atol=1e-7)
    np.testing.assert_allclose(enumerated(A, rho, stop=True), expected, atol=1e-7)


def test_games_by_hand():
    """A cycle is played evenly; a winner alone; under rho = 1 the better of two by 0.2 gets 0.6."""
    cycle = np.array([[0.0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    np.testing.assert_allclose(enumerated(cycle), [1 / 3] * 3, atol=1e-12)
    np.testing.assert_allclose(enumerated(np.subtract.outer([3.0, 2, 1], [3.0, 2, 1]), 1e-3), [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(enumerated(np.array([[0, 0.2], [-0.2, 0]]), 1.0), [0.6, 0.4], atol=1e-12)


def test_one_goes_through_all_supports_and_the_other_stops(monkeypatch):
    seen, solved = [], solver_timing._on_supports

    def watched(A, rho, support):
        seen.append(len(support))
        return solved(A, rho, support)

    monkeypatch.setattr(solver_timing, "_on_supports", watched)
    winner = np.subtract.outer(np.arange(6.0), np.arange(6.0))
    enumerated(winner)
    assert sum(seen) == 2**6 - 1
    seen.clear()
    enumerated(winner, stop=True)
    assert seen == [6]


def test_many_agents_are_not_enumerated():
    assert enumerations(np.zeros((1, 16, 16))) == {}
    found = {name: len(step()) for name, step in enumerations(np.zeros((4, 3, 3))).items()}
    assert found == ENUMERATED  # by how many the times are divided


# -- time -------------------------------------------------------------------------------------------------------------


def test_medians_leave_the_first_round_out(monkeypatch):
    clock = iter([0, 100, 200, 201, 300, 307, 400, 402, 500, 507, 600, 630, 700, 707])
    monkeypatch.setattr(solver_timing, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    calls = []
    found = medians({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert found == {"a": 2000.0, "b": 7000.0}
    assert calls == ["a", "b"] * 4


def timed(agents, batch=8, **steps):
    return [
        {"part": "runtime", "agents": agents, "batch": batch, "step": NAMES[s], "ms": ms} for s, ms in steps.items()
    ]


NAMES = {
    "network": NETWORK,
    "payoffs": PAYOFFS,
    "exact": EXACT,
    "every": ALL,
    "small": BY_SIZE,
    "our_network": OUR_NETWORK,
    "our_payoffs": OUR_PAYOFFS,
    "our_exact": OUR_EXACT,
}
OTHERS = {"our_network": 1.0, "our_payoffs": 1.0, "our_exact": 1.0}


def test_steps_are_added_up():
    rows = Rows(timed(3, network=0.5, payoffs=2.0, exact=0.25, every=8.0))
    assert taken(rows, "learned (paper's network)", 3) == 0.5
    assert taken(rows, "paper's payoffs + our solver", 3) == 2.25
    assert taken(rows, "paper's payoffs + all supports", 3) == 10.0
    assert np.isnan(taken(rows, "paper's payoffs + supports, smallest first", 3))


def made(voters, **means):
    return [
        {"modality": "winner", "voters": voters, "method": name, "exploitability": loss, "f1": f1}
        for name, (loss, f1) in means.items()
    ]


def test_claims_are_counted():
    exact = dict.fromkeys((OURS, PRINTED, PLUG_IN), (0.1, 0.9))
    scored = made(
        3, **exact, **{learned(OURS): (0.11, 0.85), learned(PRINTED): (0.05, 0.95), learned(PLUG_IN): (0.2, 0.9)}
    )
    scored += made(1, **exact, **{learned(game): (0.9, 0.1) for game in (OURS, PRINTED, PLUG_IN)})
    times = [
        row
        for K in (3, 5, 7, 9)
        for row in timed(K, network=1.0 + K, payoffs=9.0, exact=1.0, every=2.0**K, small=1.0, **OTHERS)
    ]
    ours, printed, plain, stable, our_stable, growth = STUDY.claims(Rows(scored + times))
    assert (ours.seen, ours.holds) == ("exploitability +0.010 to +0.010; f1 -0.050 to -0.050 against exact", False)
    assert [printed.holds, plain.holds] == [True, False]
    assert (stable.seen, stable.holds) == ("2.5 times", True)
    assert (our_stable.seen, our_stable.holds) == ("1.0 times", True)
    assert (growth.seen, growth.holds) == ("2.00 times for each agent from 5 to 9", True)
    *_, times_table = STUDY.tables(Rows(scored + times))
    assert "10.0% to 10.0%" in times_table.note
    assert times_table.rows[3] == ("paper's payoffs + our solver", "10", "10", "10", "10")


# -- quality ----------------------------------------------------------------------------------------------------------


def test_both_ways_have_the_same_games(quick_ours):
    """Exact answers are those of the estimator; a network that learned for long comes near them."""
    truth = Truth.of(QUALITY)
    found = lotteries(truth, 70, epochs=2)
    options = {"policy": "exact", "random_state": 70, "n_jobs": 1, "verbose": False}
    printed = quick_ours.paper(**options).fit(truth.log)
    np.testing.assert_allclose(found[PRINTED], printed.predict_proba(truth.contexts), atol=1e-10)
    np.testing.assert_allclose(found[PLUG_IN], plug_in(printed, truth.contexts, 1e-3), atol=1e-10)
    assert list(found) == [name for game in (OURS, PRINTED, PLUG_IN) for name in (game, learned(game))]
    for lottery in found.values():
        np.testing.assert_allclose(lottery.sum(axis=1), 1, atol=1e-6)
    games = printed.payoff(truth.contexts)
    longer = lotteries(truth, 70, epochs=60)[learned(PRINTED)]
    before, after = (ne.metrics.exploitability(games, one) for one in (found[learned(PRINTED)], longer))
    assert after < 0.8 * before


def test_the_study_runs_and_writes(quick_ours, tmp_path):
    study = replace(STUDY, cells=lambda scale: [QUALITY, RUNTIME])
    finished = run_study(study, tmp_path, Scale(), show=False)
    report = write(finished, tmp_path)
    assert [table.header[1:] for table in report.tables] == [("pairwise / 3",)] * 2 + [("K = 3", "K = 4")] * 2
    timed_rows = finished.rows.where(part="runtime")
    assert set(timed_rows.distinct("step")) == set(NAMES.values())
    assert (timed_rows.values("ms") > 0).all()
    assert {path.name for path in tmp_path.glob("*.png")} == {"solver.png", "runtime.png"}


def test_all_timing_is_one_cell_and_the_last():
    for scale in (Scale(), Scale(quick=True)):
        *quality, last = STUDY.cells(scale)
        assert {cell["part"] for cell in quality} == {"quality"}
        assert last["part"] == "runtime"
    assert len(STUDY.cells(Scale())) == 46

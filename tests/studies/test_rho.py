"""The strength of the regulariser: one fit serves all, and the claims are counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from studies.harness.rows import Rows
from studies.harness.running import run_study
from studies.harness.study import Cell, Scale
from studies.harness.writing import write
from studies.paper.contest import BT_REG, ORACLE, OURS, PER_PAIR, PLUG_IN, PRINTED, TRANSITIVE, baselines, plug_in
from studies.paper.rho import RHOS, STUDY, TRUE, equilibria, methods, unmoved
from studies.paper.simulated import Truth

TINY = Cell("tiny", {"modality": "pairwise", "voters": 3, "seed": 70, "n": 120, "test": 50})


def test_two_agents_by_hand():
    """Under rho the better of two by a margin a leads by min(a / rho, 1)."""
    play = equilibria(np.array([[[0, 0.2], [-0.2, 0]]]))
    for rho in RHOS:
        lead = 0.2 / rho if rho > 0.2 else 1.0
        np.testing.assert_allclose(play(rho), [[(1 + lead) / 2, (1 - lead) / 2]], atol=1e-12)
    assert (unmoved(np.eye(2))(0.0) == unmoved(np.eye(2))(1.0)).all()


def test_one_fit_serves_every_rho(quick_ours):
    """Against models that were fitted with the very rho."""
    truth = Truth.of(TINY)
    found = methods(truth, seed=70)
    for rho in (0.001, 1.0):
        options = {"policy": "exact", "rho": rho, "random_state": 70, "n_jobs": 1, "verbose": False}
        printed = quick_ours.paper(**options).fit(truth.log)
        expected = {PRINTED: printed.predict_proba(truth.contexts), PLUG_IN: plug_in(printed, truth.contexts, rho)}
        expected |= {name: baselines(printed, truth.contexts, rho=rho, seed=70)[name] for name in TRANSITIVE}
        for name, model in ((PER_PAIR, options), (ORACLE, options | truth.oracle())):
            model = quick_ours.paper(**model, second_stage="per-pair").fit(truth.log)
            expected[name] = model.predict_proba(truth.contexts)
        for name, lotteries in expected.items():
            np.testing.assert_allclose(found[name](rho), lotteries, atol=1e-10, err_msg=name)
    assert not np.allclose(found[BT_REG](0.0), found[BT_REG](1.0))


def test_the_study_runs_and_writes(quick_ours, tmp_path):
    finished = run_study(replace(STUDY, cells=lambda scale: [TINY]), tmp_path, Scale(), show=False)
    report = write(finished, tmp_path)
    assert finished.rows.distinct("rho") == list(RHOS)
    assert (finished.rows.where(method=TRUE).values("f1") == 1).all()  # the reference is under the same rho
    truth = finished.rows.where(method=TRUE).values("exploitability")
    assert truth[0] < 1e-9
    assert (np.diff(truth) > -1e-12).all()
    assert truth[-1] > 0.01
    assert [table.header[1:] for table in report.tables] == [("rho 0", "rho 0.001", "rho 0.01", "rho 0.1", "rho 1")] * 2
    assert (tmp_path / "rho.png").exists()


def made(method, losses, f1, seeds=(0.0, 0.02)):
    return [
        {"modality": "winner", "method": method, "rho": rho, "exploitability": loss + shift, "f1": score}
        for rho, loss, score in zip(RHOS, losses, f1, strict=True)
        for shift in seeds
    ]


def test_claims_are_counted():
    rows = Rows(
        made(OURS, [0.1, 0.1, 0.11, 0.12, 0.2], [0.9, 0.9, 0.9, 0.8, 0.85])
        + made(PRINTED, [0.2, 0.2, 0.25, 0.12, 0.1], [0.9, 0.9, 0.9, 0.9, 0.8])
        + made(PER_PAIR, [0.3] * 5, [0.5] * 5)
        + made(ORACLE, [0.0] * 5, [1.0] * 5)
        + made(TRUE, [0.0] * 5, [1.0] * 5)
    )
    best, *others = STUDY.claims(rows)
    assert (best.seen, best.holds) == ("in 3 of 5 settings", False)
    holds = [claim.holds for claim in others]
    assert holds == [True, False, True, True, False, False, True, False, False]
    assert (
        others[0].seen == "exploitability moves by at most 0.0100 (sd 0.0141); f1 moves by at most 0.0000 (sd 0.0000)"
    )
    assert others[3].seen == "exploitability +0.0900 to +0.0900 from 0.01 to 1, F1 -0.1000 to -0.1000 from 0.01 to 0.1"
    assert others[6].seen == "+0.0500 to +0.0500"


def test_cells_are_those_of_the_paper():
    cells = STUDY.cells(Scale())
    assert len(cells) == 15
    assert {cell["voters"] for cell in cells} == {3}

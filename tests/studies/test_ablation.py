"""The ablation: the networks are the paper's, the plug-in and the oracle what they claim to be, the claims counted."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import nasheval as ne
from studies.harness.rows import Rows
from studies.harness.running import run_study
from studies.harness.study import Cell, Scale
from studies.harness.writing import write
from studies.paper import ablation
from studies.paper.ablation import STUDY, lotteries, network, without_warnings
from studies.paper.contest import BASELINES, BT_PLUG_IN, ORACLE, OURS, PER_PAIR, PLUG_IN, ROBUST
from studies.paper.simulated import Truth

TINY = Cell("tiny", {"modality": "ranking", "voters": 3, "seed": 70, "n": 60, "test": 40})


@pytest.fixture
def small(monkeypatch):
    """Keep the fitted models, train networks for three epochs, and let ours be one of those."""
    kept, paper, ours = [], ne.NashEval.paper, ne.NashEval

    def short(width, *, batch):
        return network(4, batch=batch).set_params(max_iter=3)

    def keeping(**options):
        kept.append(paper(**options))
        return kept[-1]

    def quick(**options):
        return ours(**options, outcome=short(4, batch=64), second_stage="none")

    quick.paper = keeping
    monkeypatch.setattr(ablation, "network", short)
    monkeypatch.setattr(ablation.ne, "NashEval", quick)
    return kept


def test_the_networks_are_those_of_the_paper():
    for width, batch in ((64, 512), (128, 1024)):
        told = network(width, batch=batch).get_params()
        assert told["hidden_layer_sizes"] == (width, width)
        assert (told["learning_rate_init"], told["alpha"], told["batch_size"]) == (0.003, 0.0001, batch)
        assert (told["activation"], told["solver"], told["max_iter"]) == ("relu", "adam", 300)
        assert (told["early_stopping"], told["n_iter_no_change"]) == (True, 12)


def test_only_the_two_warnings_that_are_meant_are_silent():
    x = np.random.default_rng(0).normal(size=(30, 2))
    short = MLPRegressor(max_iter=1, batch_size=512)
    with without_warnings():
        short.fit(x, x[:, 0])
        with pytest.raises(UserWarning, match="other"):
            warnings.warn("other", UserWarning, stacklevel=1)
    with pytest.raises((ConvergenceWarning, UserWarning)):
        short.fit(x, x[:, 0])


def test_plug_in_averages_the_folds_and_the_oracle_knows_the_nuisances(small):
    truth = Truth.of(TINY)
    with without_warnings():
        found = lotteries(truth, seed=70)
    debiased, oracle = small
    assert set(found) == {OURS, PER_PAIR, ORACLE, PLUG_IN, *BASELINES} - {ROBUST}
    X, log = debiased.stage1_.features(truth.contexts), truth.log
    mu = np.mean([debiased.stage1_.nuisances.outcome_models.predict(X, fold) for fold in range(5)], axis=0)
    games = np.zeros((40, 5, 5))
    for j, k in zip(*np.triu_indices(5, 1), strict=True):
        own = (log.menus.columns.j == j) & (log.menus.columns.k == k)
        games[:, j, k] = mu[:, own].mean(axis=1)
    games -= games.transpose(0, 2, 1)
    np.testing.assert_allclose(found[PLUG_IN], ne.solve(games, regularizer=ne.L2(1e-3)).strategy, atol=1e-8)
    rows = np.flatnonzero(oracle.stage1_.pseudo.used)
    x = np.asarray(log.contexts.to_pandas(), float)[rows]
    at = oracle.stage1_.pseudo.plugin(rows)
    true = truth.world.payoff(x, "ranking", voters=3)
    np.testing.assert_allclose(at, true[:, *np.triu_indices(5, 1)], atol=1e-6)
    for model in small:
        assert {type(one) for one in model.stage1_.payoff.surface.models.models[0]} == {MLPRegressor}


def test_the_study_runs_and_writes(small, tmp_path):
    study = replace(STUDY, cells=lambda scale: [TINY])
    report = write(run_study(study, tmp_path, Scale(), show=False), tmp_path)
    assert [table.header for table in report.tables] == [("method", "ranking / 3")] * 2
    assert (tmp_path / "ablation.png").exists()


def made(voters, **exploitability):
    names = {"ours": OURS, "debiased": PER_PAIR, "plug_in": PLUG_IN, "oracle": ORACLE, "bt": BT_PLUG_IN}
    return [
        {"modality": "winner", "voters": voters, "method": names[name], "exploitability": value, "f1": 1.0}
        for name, value in exploitability.items()
    ]


def test_claims_are_counted(monkeypatch):
    monkeypatch.setattr(ablation, "TRANSITIVE", (BT_PLUG_IN,))
    rows = Rows(
        made(1, ours=0.01, debiased=0.05, plug_in=0.2, oracle=0.05, bt=0.04)
        + made(3, ours=0.01, debiased=0.05, plug_in=0.04, oracle=0.04, bt=0.1)
        + made(5, ours=0.06, debiased=0.05, plug_in=0.07, oracle=0.01, bt=0.1)
    )
    best, all_others, without_plug_in, one_voter, oracle = STUDY.claims(rows)
    assert (best.seen, best.holds) == ("in 2 of 3 settings", False)
    assert (all_others.seen, all_others.holds) == ("in 1 of 2 settings", False)
    assert (without_plug_in.seen, without_plug_in.holds) == ("in 2 of 2 settings", True)
    assert (one_voter.seen, one_voter.verdict) == ("+0.010 to +0.010", "reproduced")
    assert (oracle.seen, oracle.verdict) == ("+0.000 to +0.040 above it", "not reproduced")


def test_cells_are_the_settings_of_the_paper():
    cells = STUDY.cells(Scale())
    assert len(cells) == len({cell.key for cell in cells}) == 45
    assert {cell["n"] for cell in cells} == {20_000}
    assert [cell["voters"] for cell in STUDY.cells(Scale(quick=True))] == [3]

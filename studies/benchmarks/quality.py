"""How close does each way of estimating the payoff come to the truth, and at what cost? The logs of study `rq1`.

`python -m studies quality [--quick] [--insurance] [--seeds 70-74] [--settings pairwise/3,winner/1] [--jobs 2]` prints,
for every setting (kind of feedback / number of voters), the payoff RMSE, the exploitability and the support F1 of the
paper's forms, of the plug-in, of the same second stages with the true nuisances, of ours, and of the BT and global
baselines; and the CPU seconds of each fit. `--quick` is seed 70 alone. Equilibria are exact, rho = 0.001. BT baselines
use the paper's nuisances, as there; "on our payoff" shows what ours would be worth to them. `--insurance` replaces our
outcome model by an intercept, and our propensities by a wrong constant.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.dummy import DummyRegressor

import nasheval as ne
from studies.arrays import Floats
from studies.harness.options import add_run_options, add_simulation_options, parse_seeds, parser
from studies.harness.rows import Row, Rows
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell
from studies.paper.contest import (
    BASELINES,
    ORACLE,
    ORACLE_PRINTED,
    OURS,
    PAPERS,
    PER_PAIR,
    PLUG_IN,
    PRINTED,
    TRANSITIVE,
    baselines,
    common_options,
    scores,
)
from studies.paper.simulated import RHO, SETTINGS, TEST, Known, Truth

OUR_PLUG_IN, ON_OURS = "plug-in of ours", "on our payoff"
COLUMNS = {"rmse": 3, "exploitability": 4, "f1": 3, "cpu": 1}  # digits of each
BAR = 0.3  # ours against the better of the paper's two forms


def models(truth: Truth, *, seed: int, insurance: bool) -> Iterator[tuple[str, ne.NashEval]]:
    """Yield every way of estimating the payoff, not fitted, by name."""
    paper = {**common_options(seed), "policy": "exact", "rho": RHO}
    ours = {**common_options(seed), "regularizer": ne.L2(RHO)}
    oracle, menus = truth.oracle(), len(truth.log.menus)
    yield PRINTED, ne.NashEval.paper(**paper)
    yield PER_PAIR, ne.NashEval.paper(**paper, second_stage="per-pair")
    yield PLUG_IN, ne.NashEval.paper(**paper, second_stage="none")
    yield ORACLE_PRINTED, ne.NashEval.paper(**paper, **oracle)
    yield ORACLE, ne.NashEval.paper(**paper, **oracle, second_stage="per-pair")
    yield OUR_PLUG_IN, ne.NashEval(**ours, second_stage="none")
    yield OURS, ne.NashEval(**ours)
    if insurance:
        for stage in ("none", "corrected", "per-pair"):
            yield f"intercept, {stage}", ne.NashEval(**ours, outcome=DummyRegressor(), second_stage=stage)
        wrong = Known(lambda x: np.full((len(x), menus), 0.5))
        yield "ours, wrong propensities", ne.NashEval(**ours, propensity=wrong)


def study(cell: Cell) -> list[Row]:
    """Score every method on one log."""
    _warm_up()
    return _scored(cell)


def _scored(cell: Cell) -> list[Row]:
    truth = Truth.of(cell)
    lotteries: dict[str, Floats] = {}
    measured: dict[str, Row] = {}
    j, k = np.triu_indices(len(truth.log.agents), 1)
    for name, model in models(truth, seed=cell["seed"], insurance=cell["insurance"]):
        start = time.process_time()
        payoff = model.fit(truth.log).payoff(truth.contexts)
        rmse = float(np.sqrt(np.mean((payoff - truth.payoff)[:, j, k] ** 2)))
        measured[name] = {"rmse": rmse, "cpu": time.process_time() - start}
        lotteries[name] = model.predict_proba(truth.contexts)
        if name == PRINTED:
            lotteries |= baselines(model, truth.contexts, rho=RHO, seed=cell["seed"])
        if name == OURS:
            on_ours = baselines(model, truth.contexts, rho=RHO)
            lotteries |= {f"{bt}, {ON_OURS}": on_ours[bt] for bt in TRANSITIVE}
    return [{**row, **measured.get(str(row["method"]), {})} for row in scores(lotteries, truth.payoff, rho=RHO)]


@cache
def _warm_up() -> None:
    """Import and compile before the clock runs."""
    _scored(Cell.of(modality="pairwise", voters=1, seed=0, n=120, test=8, insurance=False))


def main(words: Sequence[str]) -> None:
    known = parser("quality", __doc__)
    add_simulation_options(known, ",".join(SETTINGS))
    add_run_options(known, "build/quality.jsonl")
    known.add_argument("--insurance", action="store_true", help="also starved outcomes and wrong propensities")
    options = known.parse_args(words)
    seeds, settings = parse_seeds("70" if options.quick else options.seeds), options.settings.split(",")
    common = {"n": options.contexts, "test": TEST, "insurance": options.insurance}
    cells = [_cell(setting, seed, common) for setting in settings for seed in seeds]
    rows = Rows(labelled(run_cells(study, cells, options.results, jobs=options.jobs, skip_failures=True)))
    for setting in rows.distinct("setting"):
        title = f"{setting} voters, n = {options.contexts:,}, seeds {seeds[0]}-{seeds[-1]}"
        Console(width=110).print(_table(title, rows.where(setting=setting)))
    Console(width=150).print(_bars(rows))


def _cell(setting: str, seed: int, common: dict[str, Any]) -> Cell:
    modality, _, voters = setting.partition("/")
    return Cell.of(setting=setting, seed=seed, modality=modality, voters=int(voters), **common)


def _table(title: str, rows: Rows) -> Table:
    shown = Table("method", "payoff RMSE", "exploitability", "F1", "CPU s", title=title)
    for method in rows.distinct("method"):
        means = {column: rows.where(method=method).mean(column) for column in COLUMNS}
        shown.add_row(method, *("" if np.isnan(x) else f"{x:.{COLUMNS[c]}f}" for c, x in means.items()))
    return shown


def _bars(rows: Rows) -> Table:
    """Return ours against the better of the paper's two forms and against the best baseline, setting by setting."""
    shown = Table(
        "setting", "ours", "paper", "ratio", "F1 ours", "F1 paper", "best baseline", "its", "CPU s ours", "CPU s paper",
        title=f"ours against the better of the paper's two forms (bar: ratio at most {BAR}), and against baselines",
    )  # fmt: skip
    for setting in rows.distinct("setting"):
        mine = {method: rows.where(setting=setting, method=method) for method in rows.distinct("method")}
        loss = {method: part.mean("exploitability") for method, part in mine.items()}
        paper = min(loss[form] for form in PAPERS)
        best = min((name for name in BASELINES if name in loss), key=loss.__getitem__)
        shown.add_row(
            setting, f"{loss[OURS]:.4f}", f"{paper:.4f}", f"{loss[OURS] / paper:.2f}", f"{mine[OURS].mean('f1'):.3f}",
            f"{max(mine[form].mean('f1') for form in PAPERS):.3f}", f"{loss[best]:.4f}", best,
            f"{mine[OURS].mean('cpu'):.1f}", f"{mine[PRINTED].mean('cpu'):.1f}",
        )  # fmt: skip
    return shown

"""Equilibrium quality on the simulation against the strength of the regulariser (Figure rho-comparison).

Three kinds of feedback, 3 voters, seeds 70 to 74, the contextual methods of `rq1`. Methods are fitted once a log, and
their games solved for each rho; support F1 is held against the reference equilibrium under the same rho, exploitability
is not regularised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nasheval as ne
from studies.arrays import Floats
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.paper.contest import (
    BT_DEBIASED,
    BT_PLUG_IN,
    BT_REG,
    ORACLE,
    ORACLE_PRINTED,
    OURS,
    PAPERS,
    PER_PAIR,
    PLUG_IN,
    PRINTED,
    TRANSITIVE,
    common_options,
    plug_in_payoffs,
    scores,
)
from studies.paper.figures import grid_of_lines
from studies.paper.simulated import MODALITIES, Truth, settings

RHOS = (0.0, 0.001, 0.01, 0.1, 1.0)
SMALL = tuple(rho for rho in RHOS if rho <= 0.01)  # where the paper sees no significant change
VOTERS = 3
TRUE = "True game, solved"  # what the regulariser itself costs
_OURS_AND_PAPERS = (OURS, *PAPERS)
_SHOWN = (OURS, PRINTED, PER_PAIR, PLUG_IN, ORACLE, *TRANSITIVE)
Lotteries = Callable[[float], Floats]  # rho -> (n, K)


def cells(scale: Scale) -> list[Cell]:
    """Return a log for each kind of feedback and seed; quick: pairwise feedback."""
    return settings(scale, modalities=("pairwise",) if scale.quick else MODALITIES, voters=(VOTERS,))


def run(cell: Cell) -> list[Row]:
    """Score every contextual method on one log, for each rho."""
    truth, rows = Truth.of(cell), list[Row]()
    fitted = methods(truth, cell["seed"])
    for rho in RHOS:
        scored = scores({name: lotteries(rho) for name, lotteries in fitted.items()}, truth.payoff, rho=rho)
        rows += [{"modality": truth.modality, "rho": rho, "seed": cell["seed"], **row} for row in scored]
    return rows


def methods(truth: Truth, seed: int) -> dict[str, Lotteries]:
    """Return the contextual methods, fitted: what each plays at the test contexts, given rho."""
    common = common_options(seed)
    trees: dict[str, Any] = common | {"policy": "exact"}
    per_pair: dict[str, Any] = trees | {"second_stage": "per-pair"}
    printed = ne.NashEval.paper(**trees).fit(truth.log)
    stage1, bt, at = printed.stage1_, ne.baselines, truth.contexts
    games = {
        OURS: ne.NashEval(**common).fit(truth.log).payoff(at),
        PRINTED: printed.payoff(at),
        PER_PAIR: ne.NashEval.paper(**per_pair).fit(truth.log).payoff(at),
        PLUG_IN: plug_in_payoffs(printed, at),
        ORACLE_PRINTED: ne.NashEval.paper(**trees | truth.oracle()).fit(truth.log).payoff(at),
        ORACLE: ne.NashEval.paper(**per_pair | truth.oracle()).fit(truth.log).payoff(at),
    }
    pure = {BT_PLUG_IN: bt.BradleyTerry(payoff="plug-in"), BT_DEBIASED: bt.BradleyTerry(payoff="debiased")}
    return {
        **{name: equilibria(payoff) for name, payoff in games.items()},
        TRUE: equilibria(truth.payoff),
        **{name: unmoved(learner.fit(stage1).predict_proba(at)) for name, learner in pure.items()},
        BT_REG: lambda rho: bt.RegularizedBT(ne.L2(rho)).fit(stage1).predict_proba(at),
    }


def equilibria(payoff: Floats) -> Lotteries:
    """Return what plays the equilibria of games (n, K, K)."""
    return lambda rho: np.asarray(ne.solve(payoff, regularizer=ne.L2(rho)).strategy)


def unmoved(lotteries: Floats) -> Lotteries:
    """Return what plays the same whatever rho."""
    return lambda rho: lotteries


# -- what is made of it -----------------------------------------------------------------------------------------------


def tables(rows: Rows) -> list[Table]:
    """Return exploitability and F1 for each kind of feedback, one line per method and one column per rho."""
    return [
        _by_rho(rows.where(modality=modality), column, f"{name}, {modality} feedback: mean ± sd over seeds")
        for modality in rows.distinct("modality")
        for column, name in (("exploitability", "Exploitability (lower is better)"), ("f1", "Support F1 (higher)"))
    ]


def _by_rho(rows: Rows, column: str, title: str) -> Table:
    rhos = rows.distinct("rho")
    lines = [
        (method, *(rows.where(method=method, rho=rho).text(column) for rho in rhos))
        for method in rows.distinct("method")
    ]
    note = (
        "F1 is against the reference equilibrium under the same rho; exploitability is not regularised, and that of "
        "the true game is what the regulariser itself costs. L2 spreads lotteries over more agents as rho grows, not "
        "fewer, so an F1 that grows with rho comes from larger reference supports."
    )
    return Table(title, ("method", *(f"rho {rho:g}" for rho in rhos)), tuple(lines), note if column == "f1" else "")


def claims(rows: Rows) -> list[Claim]:
    """Return the paper's three claims for ours and for its two forms, and our bar."""
    claimed = [claim(rows, method) for claim in (_steady, _worse_beyond, _f1_recovers) for method in _OURS_AND_PAPERS]
    return [_best_throughout(rows), *claimed]


def _steady(rows: Rows, method: str) -> Claim:
    """Hold the change over small rho against the standard deviation over seeds, which are the paper's error bars."""
    seen, holds = [], True
    for column in ("exploitability", "f1"):
        moves = [(_range(part, column), part.where(rho=0.0).spread(column)) for part in _parts(rows, method)]
        holds &= all(move <= spread for move, spread in moves)
        move, spread = max(moves)
        seen.append(f"{column} moves by at most {move:.4f} (sd {spread:.4f})")
    return Claim(f"{method}: no change beyond the spread of seeds for rho <= 0.01", holds, "; ".join(seen), "paper")


def _worse_beyond(rows: Rows, method: str) -> Claim:
    loss = [_step(part, "exploitability", 0.01, 1.0) for part in _parts(rows, method)]
    f1 = [_step(part, "f1", 0.01, 0.1) for part in _parts(rows, method)]
    holds = min(loss) > 0 and max(f1) < 0
    seen = f"exploitability {_span(loss)} from 0.01 to 1, F1 {_span(f1)} from 0.01 to 0.1"
    return Claim(f"{method}: slightly worse beyond rho = 0.01", holds, seen, "paper")


def _f1_recovers(rows: Rows, method: str) -> Claim:
    f1 = [_step(part, "f1", 0.1, 1.0) for part in _parts(rows, method)]
    return Claim(f"{method}: F1 improves from rho = 0.1 to 1", min(f1) > 0, _span(f1), "paper")


def _best_throughout(rows: Rows) -> Claim:
    rivals = [method for method in rows.distinct("method") if method not in (OURS, ORACLE, ORACLE_PRINTED, TRUE)]
    places = [(modality, rho) for modality in rows.distinct("modality") for rho in rows.distinct("rho")]
    loss = {
        (place, method): rows.where(modality=place[0], rho=place[1], method=method).mean("exploitability")
        for place in places
        for method in (OURS, *rivals)
    }
    best = sum(loss[place, OURS] < min(loss[place, rival] for rival in rivals) for place in places)
    text = "ours has the lowest exploitability of all non-oracle methods at every rho"
    return Claim(text, best == len(places), f"in {best} of {len(places)} settings")


def _parts(rows: Rows, method: str) -> list[Rows]:
    return [rows.where(method=method, modality=modality) for modality in rows.distinct("modality")]


def _range(rows: Rows, column: str) -> float:
    return float(np.ptp([rows.where(rho=rho).mean(column) for rho in SMALL]))


def _step(rows: Rows, column: str, before: float, after: float) -> float:
    return rows.where(rho=after).mean(column) - rows.where(rho=before).mean(column)


def _span(values: list[float]) -> str:
    return f"{min(values):+.4f} to {max(values):+.4f}"


def figures(rows: Rows) -> dict[str, object]:
    """Return the paper's figure: exploitability above F1 against rho, a column of panels for each kind of feedback."""
    shown = [method for method in _SHOWN if method in rows.distinct("method")]
    return {"rho": grid_of_lines(rows, by="modality", x="rho", methods=shown, name_x=r"$\rho$")}


STUDY = Study(
    "rho",
    "Equilibrium quality on the simulation against the strength of the regulariser",
    "Figure rho-comparison",
    cells,
    run,
    tables,
    claims,
    figures,
)

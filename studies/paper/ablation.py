"""Equilibrium quality on the simulation with networks instead of trees (Figure ablations).

The settings of `rq1`. Outcome nuisances and payoff regressions are multilayer perceptrons, propensities stay LightGBM,
equilibria exact. Every baseline takes its game from those networks; ours stands beside them with its own learners.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nasheval as ne
from studies.arrays import Floats
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.paper.contest import (
    BASELINES,
    MAXIMAL,
    ORACLE,
    OURS,
    PER_PAIR,
    PLUG_IN,
    PLURALISTIC,
    TRANSITIVE,
    baselines,
    common_options,
    plug_in,
    scores,
)
from studies.paper.figures import grid_of_lines
from studies.paper.rq1 import Places, by_setting, setting_names
from studies.paper.simulated import RHO, Truth, settings

_CLOSE = 0.02  # exploitability within which two methods count as comparable
_SHOWN = (OURS, PER_PAIR, PLUG_IN, ORACLE, *TRANSITIVE, MAXIMAL, PLURALISTIC)


def cells(scale: Scale) -> list[Cell]:
    """Return a log for each setting and seed; quick: pairwise feedback of three voters."""
    return settings(scale, modalities=("pairwise",), voters=(3,), n=200) if scale.quick else settings(scale)


def run(cell: Cell) -> list[Row]:
    """Score every method on one log."""
    truth = Truth.of(cell)
    with without_warnings():
        played = lotteries(truth, cell["seed"])
    rows = scores(played, truth.payoff, rho=RHO)
    return [{"modality": truth.modality, "voters": truth.voters, "seed": cell["seed"], **row} for row in rows]


def lotteries(truth: Truth, seed: int) -> dict[str, Floats]:
    """Return the (n, K) lotteries of each method at the test contexts."""
    common = common_options(seed)
    payoffs = {"second_stage": "per-pair", "boosting": network(128, batch=1024), "policy": "exact", "rho": RHO}
    debiased = ne.NashEval.paper(**common, **payoffs, outcome=network(64, batch=512)).fit(truth.log)
    oracle = ne.NashEval.paper(**common, **payoffs, **truth.oracle()).fit(truth.log)
    ours = ne.NashEval(**common, regularizer=ne.L2(RHO)).fit(truth.log)
    fitted = {OURS: ours, PER_PAIR: debiased, ORACLE: oracle}
    played = {name: model.predict_proba(truth.contexts) for name, model in fitted.items()}
    played[PLUG_IN] = plug_in(debiased, truth.contexts, RHO)
    return played | baselines(debiased, truth.contexts, rho=RHO, seed=seed)


def network(width: int, *, batch: int) -> Any:
    """Return the paper's perceptron: two hidden layers of one width, which stops when it no longer improves.

    Args:
        batch: rows per step of Adam.
    """
    from sklearn.neural_network import MLPRegressor

    return MLPRegressor(
        hidden_layer_sizes=(width, width),
        activation="relu",
        solver="adam",
        learning_rate_init=3e-3,
        alpha=1e-4,
        batch_size=batch,
        max_iter=300,
        early_stopping=True,
        n_iter_no_change=12,
    )


@contextmanager
def without_warnings() -> Iterator[None]:
    """Say nothing of networks that reach the paper's 300 epochs, or have fewer rows than one batch."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "Got `batch_size` less than 1 or larger than sample size")
        yield


# -- what is made of it -----------------------------------------------------------------------------------------------


def tables(rows: Rows) -> list[Table]:
    """Return exploitability and F1, one line per method and one column per setting."""
    return [
        by_setting(rows, "exploitability", "Networks, exploitability, lower is better: mean ± sd over seeds"),
        by_setting(rows, "f1", "Networks, support F1, higher is better: mean ± sd over seeds"),
    ]


def claims(rows: Rows) -> list[Claim]:
    """Return the paper's claims and our bar."""
    places = setting_names(rows)
    several = [place for place in places if place[1] > 1]
    rivals = [method for method in rows.distinct("method") if method not in (OURS, ORACLE)]
    others = [method for method in (PLUG_IN, *BASELINES) if method in rivals]
    return [
        _lowest(rows, OURS, rivals, places, "bar"),
        _lowest(rows, PER_PAIR, others, several, "paper"),
        _lowest(rows, PER_PAIR, [method for method in others if method != PLUG_IN], several, "paper"),
        *_one_voter(rows, [place for place in places if place[1] == 1]),
        _near_oracle(rows, places),
    ]


def _lowest(rows: Rows, method: str, rivals: list[str], places: Places, source: str) -> Claim:
    wins = [_mean(rows, place, method) < min(_mean(rows, place, rival) for rival in rivals) for place in places]
    against = "plug-in, BT and the global baselines" if PLUG_IN in rivals else "BT and the global baselines"
    text = f"{method} has lower exploitability than {against} for 3 and 5 voters"
    if source == "bar":
        text = "ours, with its own learners, has the lowest exploitability of all non-oracle methods"
    return Claim(text, all(wins), f"in {sum(wins)} of {len(wins)} settings", source)


def _one_voter(rows: Rows, places: Places) -> list[Claim]:
    """Hold "BT-based baselines are slightly better" for one voter against the best of them."""
    if not places:
        return []
    gap = [_mean(rows, p, PER_PAIR) - min(_mean(rows, p, method) for method in TRANSITIVE) for p in places]
    text = f"for one voter the best BT is slightly better than {PER_PAIR} (by 0 to {_CLOSE})"
    return [Claim(text, all(0 <= g <= _CLOSE for g in gap), f"{min(gap):+.3f} to {max(gap):+.3f}", "paper")]


def _near_oracle(rows: Rows, places: Places) -> Claim:
    gap = [_mean(rows, place, PER_PAIR) - _mean(rows, place, ORACLE) for place in places]
    text, seen = f"{PER_PAIR} is close to the oracle (within {_CLOSE})", f"{min(gap):+.3f} to {max(gap):+.3f} above it"
    return Claim(text, all(g <= _CLOSE for g in gap), seen, "paper")


def _mean(rows: Rows, place: tuple[str, int], method: str) -> float:
    return rows.where(modality=place[0], voters=place[1], method=method).mean("exploitability")


def figures(rows: Rows) -> dict[str, object]:
    """Return the paper's figure: exploitability above F1, a column of panels for each kind of feedback."""
    shown = [method for method in _SHOWN if method in rows.distinct("method")]
    return {"ablation": grid_of_lines(rows, by="modality", x="voters", methods=shown, name_x="number of voters")}


STUDY = Study(
    "ablation",
    "Equilibrium quality on the simulation, with networks instead of trees",
    "Figure ablations",
    cells,
    run,
    tables,
    claims,
    figures,
)

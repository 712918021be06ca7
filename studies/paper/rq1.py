"""Equilibrium quality on the simulation, where the truth is known (Figure rq1-results).

Three kinds of feedback, 1, 3 and 5 voters, seeds 70 to 74, n = 20,000 contexts; equilibria by the exact solver with
rho = 0.001; exploitability and support F1 at 4,096 contexts.
"""

from __future__ import annotations

from collections.abc import Sequence

import nasheval as ne
from studies.arrays import Floats
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.paper.contest import (
    BASELINES,
    BT_DEBIASED,
    ORACLE,
    ORACLE_PRINTED,
    OURS,
    PAPERS,
    PER_PAIR,
    PLUG_IN,
    PRINTED,
    TRANSITIVE,
    common_options,
    lotteries,
    scores,
)
from studies.paper.figures import grid_of_lines
from studies.paper.simulated import MODALITIES, RHO, VOTERS, Truth, settings

RATIO = 0.3  # bar: ours against the better of the paper's two forms
_CLOSE = 0.02  # exploitability within which two methods count as equal


def cells(scale: Scale) -> list[Cell]:
    """Return a log for each setting and seed; quick: pairwise feedback of one voter and of three."""
    return settings(scale, modalities=("pairwise",), voters=(1, 3)) if scale.quick else settings(scale)


def run(cell: Cell) -> list[Row]:
    """Score every method on one log."""
    truth = Truth.of(cell)
    played = lotteries(truth.log, truth.contexts, rho=RHO, seed=cell["seed"])
    played |= oracles(truth, cell["seed"])
    rows = scores(played, truth.payoff, rho=RHO)
    return [{"modality": truth.modality, "voters": truth.voters, "seed": cell["seed"], **row} for row in rows]


def oracles(truth: Truth, seed: int) -> dict[str, Floats]:
    """Return the lotteries of the paper's payoff regressions on pseudo-outcomes of the true nuisances."""
    options = {**common_options(seed), "policy": "exact", "rho": RHO, **truth.oracle()}
    return {
        name: ne.NashEval.paper(**options, second_stage=stage).fit(truth.log).predict_proba(truth.contexts)
        for name, stage in ((ORACLE_PRINTED, "shared"), (ORACLE, "per-pair"))
    }


# -- what is made of it -----------------------------------------------------------------------------------------------


def tables(rows: Rows) -> list[Table]:
    """Return exploitability and F1, one line per method and one column per setting."""
    return [
        by_setting(rows, "exploitability", "Exploitability, lower is better: mean ± sd over seeds"),
        by_setting(rows, "f1", "Support F1, higher is better: mean ± sd over seeds"),
    ]


def by_setting(rows: Rows, column: str, title: str) -> Table:
    """Return one measure, one line per method and one column per setting."""
    places = setting_names(rows)
    header = ("method", *(f"{modality} / {voters}" for modality, voters in places))
    lines = [
        (method, *(rows.where(method=method, modality=m, voters=v).text(column) for m, v in places))
        for method in rows.distinct("method")
    ]
    return Table(title, header, tuple(lines), "Columns: kind of feedback / number of voters.")


def setting_names(rows: Rows) -> list[tuple[str, int]]:
    """Return the settings that the rows cover."""
    return [(m, v) for m in MODALITIES for v in VOTERS if len(rows.where(modality=m, voters=v))]


def claims(rows: Rows) -> list[Claim]:
    """Return the paper's three claims and our bars."""
    places = setting_names(rows)
    mean = {
        (m, v, method): rows.where(modality=m, voters=v, method=method).mean("exploitability")
        for m, v in places
        for method in rows.distinct("method")
    }
    f1 = {
        (m, v, method): rows.where(modality=m, voters=v, method=method).mean("f1")
        for m, v in places
        for method in rows.distinct("method")
    }
    several = [(m, v) for m, v in places if v > 1]
    rivals = [method for method in rows.distinct("method") if method not in (OURS, ORACLE, ORACLE_PRINTED)]
    ratio = [mean[(*p, OURS)] / min(mean[(*p, form)] for form in PAPERS) for p in places]
    best = sum(all(mean[(*p, OURS)] < mean[(*p, rival)] for rival in rivals) for p in places)
    best_f1 = sum(all(f1[(*p, OURS)] > f1[(*p, rival)] for rival in rivals) for p in places)
    return [
        Claim("ours has the lowest exploitability of all non-oracle methods", best == len(places),
              f"in {best} of {len(places)} settings"),
        Claim("ours has the highest F1 of all non-oracle methods", best_f1 == len(places),
              f"in {best_f1} of {len(places)} settings"),
        Claim(f"ours at most {RATIO} times the better of the paper's two forms", max(ratio) <= RATIO,
              f"{min(ratio):.2f} to {max(ratio):.2f}"),
        *(_beats_bt(form, several, mean) for form in PAPERS),
        _near_oracle(PRINTED, ORACLE_PRINTED, places, mean),
        _near_oracle(PER_PAIR, ORACLE, places, mean),
        *(_equal_for_one(form, places, mean) for form in PAPERS),
        *(_beats_plug_in(form, places, mean) for form in PAPERS),
    ]  # fmt: skip


Means = dict[tuple[str, int, str], float]
Places = Sequence[tuple[str, int]]


def _beats_bt(form: str, places: Places, mean: Means) -> Claim:
    wins = [mean[(*p, form)] < min(mean[(*p, method)] for method in BASELINES if (*p, method) in mean) for p in places]
    seen = f"in {sum(wins)} of {len(wins)} settings"
    return Claim(f"{form} beats BT and the global baselines for 3 and 5 voters", all(wins), seen, "paper")


def _near_oracle(form: str, oracle: str, places: Places, mean: Means) -> Claim:
    gap = [mean[(*p, form)] - mean[(*p, oracle)] for p in places]
    closest = all(g <= _CLOSE for g in gap)
    return Claim(f"{form} is close to the oracle (within {_CLOSE})", closest,
                 f"{min(gap):+.3f} to {max(gap):+.3f} above it", "paper")  # fmt: skip


def _equal_for_one(form: str, places: Places, mean: Means) -> Claim:
    gap = [mean[(*p, form)] - mean[(*p, BT_DEBIASED)] for p in places if p[1] == 1]
    return Claim(f"{form} equals BT-debiased for one voter (within {_CLOSE})", all(abs(g) <= _CLOSE for g in gap),
                 f"{min(gap, default=0):+.3f} to {max(gap, default=0):+.3f}", "paper")  # fmt: skip


def _beats_plug_in(form: str, places: Places, mean: Means) -> Claim:
    wins = sum(mean[(*p, form)] < mean[(*p, PLUG_IN)] for p in places)
    seen = f"in {wins} of {len(places)} settings"
    return Claim(f"{form} has lower exploitability than the plug-in", wins == len(places), seen, "paper")


def figures(rows: Rows) -> dict[str, object]:
    """Return the paper's figure: exploitability above F1, a column of panels for each kind of feedback."""
    shown = [method for method in (OURS, PRINTED, PER_PAIR, PLUG_IN, ORACLE, *TRANSITIVE) if method in _methods(rows)]
    shown += [method for method in ("Maximal lottery", "Pluralistic leaderboard") if method in _methods(rows)]
    return {"rq1": grid_of_lines(rows, by="modality", x="voters", methods=shown, name_x="number of voters")}


def _methods(rows: Rows) -> list[str]:
    return rows.distinct("method")


STUDY = Study(
    "rq1",
    "Equilibrium quality on the simulation",
    "Figure rq1-results",
    cells,
    run,
    tables,
    claims,
    figures,
)

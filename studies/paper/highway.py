"""Driving agents in traffic, with payoffs measured by running every agent (Table rq2-rl-agents).

The log is the bundled one, built from the real simulator: 256 configurations, 80 comparisons each. The truth is the
reference of 32 test configurations, 64 initialisations each. A repeat differs from another by its seed only: folds,
networks and ties that a method breaks at random; the log is the same.
"""

from __future__ import annotations

import numpy as np

import nasheval as ne
from studies.arrays import Floats
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.paper.contest import (
    BEST_SINGLE,
    BT_DEBIASED,
    BT_PLUG_IN,
    MAXIMAL,
    OURS,
    PLUG_IN,
    PLURALISTIC,
    POOLED_BT,
    PRINTED,
    ROBUST,
    lotteries,
    scores,
    standard_error,
)
from studies.paper.figures import panels, style
from studies.paper.paired import overview

RHO = 1e-3
SEEDS = (0, 1, 2, 3, 4)
FLOOR = "Floor: the reference of half the test runs"
_HALVES = 20  # ways to part the initialisations of the floor
_GROUPS = "lanes_count"  # of the robust lottery: what parts the configurations most
# Table rq2-rl-agents: exploitability, F1, game value against NashEval-debiased.
_PAPER = {
    PRINTED: ("0.066 ± 0.007", "0.708 ± 0.023", "0.000"),
    PLUG_IN: ("0.068", "0.713", "-0.027 ± 0.006"),
    BT_DEBIASED: ("0.099 ± 0.003", "0.525 ± 0.014", "-0.017 ± 0.004"),
    BT_PLUG_IN: ("0.232", "0.438", "-0.072 ± 0.004"),
    MAXIMAL: ("0.105", "0.505", "-0.006 ± 0.006"),
    ROBUST: ("0.105", "0.505", "-0.006 ± 0.006"),
    PLURALISTIC: ("0.217", "0.556", "-0.147 ± 0.004"),
}


def cells(scale: Scale) -> list[Cell]:
    """Return a repeat for each seed; quick: one, on a quarter of the configurations."""
    configurations = 64 if scale.quick else 256
    return [Cell(f"seed {seed}", {"seed": seed, "configurations": configurations}) for seed in scale.pick(SEEDS)]


def run(cell: Cell) -> list[Row]:
    """Score every method once."""
    highway = ne.datasets.load_highway()
    log, test = highway.train[: cell["configurations"]], highway.test
    played = lotteries(log, test.contexts, rho=RHO, seed=cell["seed"], groups=_GROUPS)
    rows = [*scores(played, test.payoff, rho=RHO), floor(test.payoffs, seed=cell["seed"])]
    return [{"seed": cell["seed"], **row} for row in rows]


def floor(payoffs: Floats, *, seed: int) -> Row:
    """Score the equilibria of half the initialisations on the other half: about the best that can be seen.

    Args:
        payoffs: (n, initialisations, K, K).
    """
    rng, runs, losses, hits = np.random.default_rng(seed), payoffs.shape[1], [], []
    for _ in range(_HALVES):
        order = rng.permutation(runs)
        one, other = (payoffs[:, half].mean(axis=1) for half in np.array_split(order, 2))
        lottery, reference = (ne.solve(game, regularizer=ne.L2(RHO)).strategy for game in (one, other))
        losses.append(ne.metrics.exploitability(other, lottery, reduce=False))
        hits.append(ne.metrics.support_f1(lottery, reference, reduce=False))
    loss, hit = np.mean(losses, axis=0), np.mean(hits, axis=0)
    return {
        "method": FLOOR,
        **{"exploitability": float(loss.mean()), "exploitability_se": standard_error(loss)},
        **{"f1": float(hit.mean()), "f1_se": standard_error(hit)},
    }


# -- what is made of it -----------------------------------------------------------------------------------------------


def tables(rows: Rows) -> list[Table]:
    """Return the paper's table, ours and its figures side by side."""
    note = (
        "The paper's agents and judges were others, and its game values are against its printed form. The floor is the "
        "lottery of half the test runs, scored on the other half. "
    )
    title = "Driving agents, 32 test configurations"
    return [overview(rows, title, note=note, paper=_PAPER, over="seeds"), _paired(rows)]


def _paired(rows: Rows) -> Table:
    """Return how far each method is from ours, paired over test configurations."""
    lines = []
    for method in rows.distinct("method"):
        mine = rows.where(method=method)
        if method not in (OURS, FLOOR):
            pairs = [(mine.mean(name), mine.mean(f"{name}_se")) for name in ("excess", "value")]
            lines.append((method, *(f"{mean:+.3f} ± {error:.3f}" for mean, error in pairs)))
    header = ("method", "exploitability above ours", "game value against ours")
    note = "± is the standard error over the 32 test configurations, which decides whether a difference is real."
    return Table("Against ours, configuration by configuration", header, tuple(lines), note)


def claims(rows: Rows) -> list[Claim]:
    """Return our bars and the paper's claims."""
    loss = {method: rows.where(method=method).mean("exploitability") for method in rows.distinct("method")}
    f1 = {method: rows.where(method=method).mean("f1") for method in loss}
    value = {m: rows.where(method=m).mean("value") for m in loss if m not in (OURS, FLOOR)}
    rivals = {method: loss[method] for method in value}
    best, strongest = min(rivals, key=rivals.__getitem__), max(value, key=value.__getitem__)
    return [
        *(
            Claim(f"exploitability at most {bar} times that of {name}", loss[OURS] <= bar * loss[name],
                  f"{loss[OURS]:.3f} / {loss[name]:.3f} = {loss[OURS] / loss[name]:.2f}")
            for name, bar in ((BT_DEBIASED, 0.67), (MAXIMAL, 0.63))
        ),
        *(
            Claim(f"F1 at least 1.3 times that of {name}", f1[OURS] >= 1.3 * f1[name],
                  f"{f1[OURS]:.3f} / {f1[name]:.3f} = {f1[OURS] / f1[name]:.2f}")
            for name in (BT_DEBIASED, MAXIMAL)
        ),
        Claim("the lowest exploitability of all methods", loss[OURS] < rivals[best],
              f"{loss[OURS]:.3f}; next {best} {rivals[best]:.3f}; floor {loss[FLOOR]:.3f}"),
        Claim("game value of every other method against ours at most 0", value[strongest] <= 0,
              f"highest: {strongest} {value[strongest]:+.3f}"),
        *(
            Claim(f"{PRINTED} has lower exploitability than {name}", loss[PRINTED] < loss[name],
                  f"{loss[PRINTED]:.3f} against {loss[name]:.3f}", "paper")
            for name in (PLUG_IN, BT_DEBIASED, MAXIMAL, PLURALISTIC)
        ),
    ]  # fmt: skip


def figures(rows: Rows) -> dict[str, object]:
    """Return exploitability against F1, one point per method."""
    figure, axes = panels(1, 1, width=6.4, height=4.4)
    ax = axes[0, 0]
    for method in rows.distinct("method"):
        if method in (POOLED_BT, BEST_SINGLE):  # the same agent as the maximal lottery's
            continue
        mine = rows.where(method=method)
        look = style(method) | {"lw": 0, "marker": "_"} if method == FLOOR else style(method) | {"lw": 0}
        ax.errorbar(
            mine.mean("exploitability"), mine.mean("f1"), xerr=np.nan_to_num(mine.spread("exploitability")),
            yerr=np.nan_to_num(mine.spread("f1")), label=method, elinewidth=0.8, capsize=2, **look,
        )  # fmt: skip
    ax.set_xlabel("exploitability (← better)")
    ax.set_ylabel("support $F_1$ (↑ better)")
    ax.grid(color="#e4e4e4", lw=0.6)
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return {"highway": figure}


STUDY = Study(
    "highway", "Driving agents in traffic (MO-Highway)", "Table rq2-rl-agents", cells, run, tables, claims, figures
)

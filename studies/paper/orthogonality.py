"""What errors of the nuisances do to the game, and how fast it is learned.

Theorems DPME, gap-loss-orthogonal and avg-exploit.

Injected: both nuisances of the simulation are known, and made wrong on purpose by an amount d. The plug-in game is then
wrong by the order of d, the debiased one by d^2; the regularised exploitability of their equilibria, in the true game,
by d^2 and d^4. Rates: the same log at five sizes, nuisances learned, beside the payoff regressions with true nuisances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import nasheval as ne
from studies.arrays import Floats
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Plain, Scale, Study, Table
from studies.paper.contest import (
    ORACLE,
    ORACLE_PRINTED,
    OURS,
    PER_PAIR,
    PLUG_IN,
    PRINTED,
    common_options,
    plug_in_payoffs,
    standard_error,
)
from studies.paper.figures import panels, style
from studies.paper.injection import (
    AGGREGATORS,
    DEBIASED,
    DRAWN,
    DRAWN_SIZES,
    INJECTED_RHO,
    PLUG,
    SIZES,
    injected,
    payoff_error,
)
from studies.paper.simulated import RHO, SEEDS, TEST, Truth

SETTINGS = {"pairwise": "pairs, mean", "winner": "winner of three, cubic aggregator"}
DRAWN_N = 100_000
NS = (100_000, 30_000, 10_000, 3_000, 1_000)  # the longest first, so that the last to finish is a short one
VOTERS = 3
ORDERS = {("error", PLUG): 1, ("error", DEBIASED): 2, ("error", DRAWN): 2, ("gap", PLUG): 2, ("gap", DEBIASED): 4}
METHODS = (OURS, PRINTED, PER_PAIR, PLUG_IN, ORACLE, ORACLE_PRINTED)
_CLOSE = 0.1  # a fitted order counts as the theorem's within this share of it


def cells(scale: Scale) -> list[Cell]:
    """Return a cell for each injection and seed, and for each size of log and seed."""
    seeds = scale.pick(SEEDS, SEEDS[:2])
    drawn, test, sizes = (3_000, 512, (300, 100)) if scale.quick else (DRAWN_N, TEST, NS)
    rates = [_cell("rate", "pairwise", seed, n, test) for n in sizes for seed in scale.pick(SEEDS)]
    return rates + [_cell("injected", modality, seed, drawn, test) for modality in AGGREGATORS for seed in seeds]


def _cell(part: str, modality: str, seed: int, n: int, test: int) -> Cell:
    settings: dict[str, Plain] = {
        "part": part,
        "modality": modality,
        "voters": VOTERS,
        "seed": seed,
        "n": n,
        "test": test,
    }
    return Cell(f"{part}/{modality}/{n}/{seed}", settings)


def run(cell: Cell) -> list[Row]:
    """Measure the errors of one injection, or of one log."""
    truth = Truth.of(cell)
    rows = rates(truth, cell["seed"]) if cell["part"] == "rate" else injected(truth, cell["seed"])
    return [{"part": cell["part"], "modality": cell["modality"], "seed": cell["seed"], **row} for row in rows]


# -- errors that are learned away -------------------------------------------------------------------------------------


def rates(truth: Truth, seed: int) -> list[Row]:
    """Return payoff error and exploitability of each method on one log."""
    rows: list[Row] = []
    for name, payoff in estimated(truth, seed).items():
        played = ne.solve(payoff, regularizer=ne.L2(RHO)).strategy
        j, k = np.triu_indices(payoff.shape[1], 1)
        error = payoff_error(payoff[:, j, k], truth.payoff[:, j, k])
        exploitability = ne.metrics.exploitability(truth.payoff, played)
        rows.append({"n": truth.log.n_contexts, "method": name, "error": error, "exploitability": exploitability})
    return rows


def estimated(truth: Truth, seed: int) -> dict[str, Floats]:
    """Return the estimated games (n, K, K) of each method at the test contexts."""
    common = {**common_options(seed), "policy": "exact"}
    printed = ne.NashEval.paper(**common).fit(truth.log)
    models = {
        OURS: ne.NashEval(**common).fit(truth.log),
        PRINTED: printed,
        PER_PAIR: ne.NashEval.paper(**common, second_stage="per-pair").fit(truth.log),
        ORACLE: ne.NashEval.paper(**common, **truth.oracle(), second_stage="per-pair").fit(truth.log),
        ORACLE_PRINTED: ne.NashEval.paper(**common, **truth.oracle()).fit(truth.log),
    }
    games = {name: model.payoff(truth.contexts) for name, model in models.items()}
    games[PLUG_IN] = plug_in_payoffs(printed, truth.contexts)
    return games


# -- what is made of it -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slope:
    """The order of a power law, fitted over seeds.

    Args:
        value: least-squares slope of log y on log x with an intercept per seed.
        error: its standard error over seeds, which are independent as points of one seed are not; NaN for one seed.
        by_seed: (seeds,) the slope of each.
    """

    value: float
    error: float
    by_seed: Floats

    def __str__(self) -> str:
        return f"{self.value:.2f}" + (f" ± {self.error:.3f}" if np.isfinite(self.error) else "")


def fitted_slope(rows: Rows, x: str, y: str) -> Slope:
    """Fit y = c x^slope, c a seed; every seed has the same x, so the common slope is the mean of the seeds'."""
    slope_of = []
    for seed in rows.distinct("seed"):
        mine = rows.where(seed=seed)
        heights = np.maximum(mine.values(y), np.finfo(float).tiny)  # noise may have pushed one below zero
        slope_of.append(np.polyfit(np.log(mine.values(x)), np.log(heights), 1)[0])
    slopes = np.array(slope_of)
    return Slope(float(slopes.mean()), standard_error(slopes), slopes)


def tables(rows: Rows) -> list[Table]:
    """Return the fitted orders, the errors behind them, and the rates in n."""
    return [
        _orders(rows),
        _errors(rows),
        _rates(rows),
        *(_by_n(rows, column) for column in ("error", "exploitability")),
    ]


_TITLES = {"error": "payoff error", "gap": "regularised exploitability", "exploitability": "exploitability"}


def _orders(rows: Rows) -> Table:
    header = ("measure", "game", "theory", *(SETTINGS[modality] for modality in _modalities(rows)))
    lines = [
        (_TITLES[measure], form, str(order), *(str(_order(rows, m, form, measure)) for m in _modalities(rows)))
        for (measure, form), order in ORDERS.items()
    ]
    note = (
        f"Fitted slopes against d = {SIZES[0]} to {SIZES[-1]}, ± standard error over seeds. Exploitability with rho = "
        f"{INJECTED_RHO}. Drawn log: the package's own pseudo-outcomes of drawn verdicts, less those with the true "
        f"nuisances, along the expected error, from d = {DRAWN_SIZES[0]}."
    )
    return Table("Order of the error in the injected nuisance error d", header, tuple(lines), note)


def _order(rows: Rows, modality: str, form: str, measure: str) -> Slope:
    return fitted_slope(rows.where(part="injected", modality=modality, form=form), "d", measure)


def _modalities(rows: Rows) -> list[str]:
    return rows.where(part="injected").distinct("modality")


def _errors(rows: Rows) -> Table:
    header = ("setting", "measure", "game", *(f"d = {d}" for d in SIZES))
    lines = []
    for modality in _modalities(rows):
        for measure, form in ORDERS:
            mine = rows.where(part="injected", modality=modality, form=form)
            means = (_short(mine.where(d=d).mean(measure)) for d in SIZES)
            lines.append((SETTINGS[modality], _TITLES[measure], form, *means))
    return Table("Errors behind those orders: means over seeds", header, tuple(lines))


def _short(value: float) -> str:
    return f"{value:.2e}" if np.isfinite(value) else ""


def _rates(rows: Rows) -> Table:
    part = rows.where(part="rate")
    lines = [
        (method, *(str(fitted_slope(part.where(method=method), "n", column)) for column in ("error", "exploitability")))
        for method in METHODS
    ]
    note = f"Slopes of log error against log n, ± standard error over seeds; pairwise feedback of {VOTERS} voters."
    return Table("Rate in the number of contexts", ("method", "payoff error", "exploitability"), tuple(lines), note)


def _by_n(rows: Rows, column: str) -> Table:
    part = rows.where(part="rate")
    sizes = sorted(part.distinct("n"))
    lines = [(m, *(part.where(method=m, n=n).text(column) for n in sizes)) for m in METHODS]
    title = f"{_TITLES[column].capitalize()} against n: mean ± sd over seeds"
    return Table(title, ("method", *(f"n = {n:,}" for n in sizes)), tuple(lines))


def claims(rows: Rows) -> list[Claim]:
    """Return the theorems' orders, and the rate of ours beside the oracle's."""
    claimed = [_order_claim(rows, measure, form, order) for (measure, form), order in ORDERS.items()]
    part = rows.where(part="rate")
    rate = {m: fitted_slope(part.where(method=m), "n", "exploitability") for m in METHODS}
    claimed += [_same_rate(PER_PAIR, ORACLE, rate), _same_rate(PRINTED, ORACLE_PRINTED, rate)]
    means = {(m, n): part.where(method=m, n=n).mean("exploitability") for m in METHODS for n in part.distinct("n")}
    better = sum(means[OURS, n] < means[ORACLE, n] for n in part.distinct("n"))
    return [
        *claimed,
        Claim(f"ours falls at least as fast in n as {ORACLE}", rate[OURS].value <= rate[ORACLE].value,
              f"{rate[OURS]} beside {rate[ORACLE]}: {_difference(rate[ORACLE], rate[OURS])} faster"),
        Claim(f"ours has lower exploitability than {ORACLE} at every n", better == len(part.distinct("n")),
              f"at {better} of {len(part.distinct('n'))} sizes"),
    ]  # fmt: skip


def _order_claim(rows: Rows, measure: str, form: str, order: int) -> Claim:
    slopes = [_order(rows, modality, form, measure) for modality in _modalities(rows)]
    holds = all(abs(slope.value / order - 1) <= _CLOSE for slope in slopes)
    seen = "; ".join(map(str, slopes))
    return Claim(f"{_TITLES[measure]} of the {form} game is of order {order} in d (within {_CLOSE:.0%})", holds, seen)


def _same_rate(form: str, oracle: str, rate: Mapping[str, Slope]) -> Claim:
    """Hold a form's rate against its oracle's, paired over seeds (Corollary quasi-oracle)."""
    behind = _difference(rate[form], rate[oracle])
    holds = behind.value <= 2 * float(np.nan_to_num(behind.error))
    seen = f"{rate[form]} beside {rate[oracle]}: {behind} slower"
    return Claim(f"{form} has the oracle's rate in n (not slower by two standard errors)", holds, seen, "paper")


def _difference(one: Slope, other: Slope) -> Slope:
    """Return how much steeper the other is, paired over seeds."""
    by_seed = one.by_seed - other.by_seed
    return Slope(float(by_seed.mean()), standard_error(by_seed), by_seed)


# -- figure -----------------------------------------------------------------------------------------------------------

_LOOKS = {PLUG: ("#d55e00", "^"), DEBIASED: ("#0072b2", "o"), DRAWN: ("#000000", "x")}
_STROKES = {"pairwise": "-", "winner": "--"}


def figures(rows: Rows) -> dict[str, object]:
    """Return errors against d above, against n below, with guides of the theorems' orders."""
    figure, axes = panels(2, 2, width=5.0, height=4.0)
    for ax, measure, orders in ((axes[0, 0], "error", (1, 2)), (axes[0, 1], "gap", (2, 4))):
        _against_d(ax, rows, measure, orders)
    for ax, measure in ((axes[1, 0], "error"), (axes[1, 1], "exploitability")):
        _against_n(ax, rows.where(part="rate"), measure)
    return {"orthogonality": figure}


def _against_d(ax: Any, rows: Rows, measure: str, orders: Sequence[int]) -> None:
    feet: dict[int, float] = {}
    for modality in _modalities(rows):
        for form in (form for form in _LOOKS if (measure, form) in ORDERS):
            mine = rows.where(part="injected", modality=modality, form=form)
            heights = [mine.where(d=d).mean(measure) for d in SIZES]
            colour, marker = _LOOKS[form]
            look = {"color": colour, "marker": marker, "ls": "none" if form == DRAWN else _STROKES[modality]}
            label = f"{form}, {SETTINGS[modality].split(',')[0]}: {_order(rows, modality, form, measure)}"
            ax.plot(SIZES, heights, ms=6, lw=1.4, label=label, **look)
            order = ORDERS[measure, form]
            feet[order] = np.fmin(feet.get(order, np.inf), heights[0] / 3)
    for order in orders:
        _guide(ax, SIZES, feet[order], order)
    ax.set(xscale="log", yscale="log", xlabel="error d of both nuisances", ylabel=_TITLES[measure])
    _finish(ax, f"{_TITLES[measure]} against injected error")


def _guide(ax: Any, x: Sequence[float], foot: float, order: int) -> None:
    """Draw a dotted line of an order through (x[0], foot)."""
    heights = [foot * (value / x[0]) ** order for value in x]
    ax.plot(x, heights, color="#888888", ls=":", lw=1)
    ax.annotate(f"slope {order}", (x[-1], heights[-1]), xytext=(0, -10), textcoords="offset points",
                fontsize=7, color="#555555", ha="right")  # fmt: skip


def _against_n(ax: Any, rows: Rows, measure: str) -> None:
    sizes = sorted(rows.distinct("n"))
    for method in METHODS:
        mine = rows.where(method=method)
        label = f"{method}: {fitted_slope(mine, 'n', measure)}"
        ax.plot(sizes, [mine.where(n=n).mean(measure) for n in sizes], label=label, **style(method))
    ax.set(xscale="log", yscale="log", xlabel="number of contexts n", ylabel=_TITLES[measure])
    _finish(ax, f"{_TITLES[measure]} against n, nuisances learned")


def _finish(ax: Any, title: str) -> None:
    ax.set_title(title, fontsize=10)
    ax.grid(color="#e4e4e4", lw=0.6)
    ax.set_axisbelow(True)
    ax.legend(fontsize=6.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


STUDY = Study(
    "orthogonality",
    "What errors of the nuisances do to the game, and how fast it is learned",
    "Theorems DPME, gap-loss-orthogonal, avg-exploit",
    cells,
    run,
    tables,
    claims,
    figures,
)

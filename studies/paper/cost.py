"""What lotteries cost against how good they are (Figures cost-constrained-pareto, average-win-rate-cost-frontier).

Equilibrium methods pay for cost through the regulariser (Eq. routerbench-cost-regularizer: rho = 0.01, costs scaled to
[0, 1], the paper's 24 weights), BT-cost through 31 evenly spaced budgets and every distinct price (Eq.
routerbench-bt-cost). All are compared by what they spend on average at 500 test prompts, five test sets:

- routerbench: eleven models, simulated judges (study `routerbench`), a model's price is its mean measured cost;
- llmrouter: nine models, 14 tasks, verdicts by scores, price of 1,000 input and 1,000 output tokens by the list.

Between two points of a method stands the mixture of its two lotteries, which spends what lies between.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nasheval as ne
from studies.arrays import Floats, Ints
from studies.harness.files import data_file
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.paper import routerbench
from studies.paper.contest import MAXIMAL, OURS, PLUG_IN, PRINTED, common_options, plug_in_payoffs, standard_error
from studies.paper.figures import panels, style
from studies.paper.prompts import SPLITS, prompt_table, windows

RHO = 1e-2
WEIGHTS = (*(0.025 * t for t in range(13)), 0.35, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20)
BUDGETS, TEST, PAIRS = 31, 500, 16  # of 36 pairs of llmrouter: about the paper's share
STEPS = 40  # costs at which methods are compared
BT_COST = "BT-cost"
BT_COST_OURS = "BT-cost on our payoff"
SCORES, PRICES = "llmrouter/scores.parquet", "llmrouter/prices.json"
DATA = ("routerbench", "llmrouter")
_QUICK = {"test": 100, "train": 100, "budgets": 5, "weights": 6}


# -- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Priced:
    """A log, and the truth at test prompts.

    Args:
        log: what methods learn from.
        contexts: n test prompts.
        payoff: (n, K, K) the true games.
        wins: (n, K, K) how often the row strictly beats the column.
        costs: (K,) prices of the agents, US dollars for 1,000 prompts.
    """

    log: ne.Feedback
    contexts: pa.Table
    payoff: Floats
    wins: Floats
    costs: Floats

    @classmethod
    def of(cls, cell: Cell) -> Priced:
        """Read what a cell names."""
        return (_routerbench if cell["data"] == "routerbench" else _llmrouter)(cell)


def _parts(n: int, cell: Cell) -> tuple[Ints, Ints]:
    """Return the prompts to learn from, and those to test on."""
    test = windows(n, cell["test"])[cell["seed"] % SPLITS]
    return np.setdiff1d(np.arange(n), test)[: cell["train"]], test


@cache
def _bench() -> routerbench.Bench:
    return routerbench.Bench.read()


def _routerbench(cell: Cell) -> Priced:
    bench = _bench()
    train, test = _parts(bench.contexts.num_rows, cell)
    said, log = bench.verdict[:, test], bench.log(train, cell["seed"])
    prices = 1000 * bench.cost[train].mean(axis=0)
    return Priced(log, bench.contexts.take(test), said.mean(axis=0), (said > 0).mean(axis=0), prices)


def _llmrouter(cell: Cell) -> Priced:
    table, prices = pq.read_table(data_file(SCORES)), json.loads(data_file(PRICES).read_text(encoding="utf-8"))
    agents = sorted(name for name in table.column_names if name in prices)
    contexts = prompt_table(table["question"], task_name=table["task_name"])
    train, test = _parts(table.num_rows, cell)
    score = np.column_stack([table[name].to_numpy() for name in agents])
    rows = contexts.select(["task_name", "text"]).take(train)
    for k, agent in enumerate(agents):
        rows = rows.append_column(agent, pa.array(score[train, k]))
    log = ne.read_scores(
        rows, agents=agents, context=["task_name"], text="text", pairs_per_context=PAIRS, seed=cell["seed"]
    )
    ahead = score[test][:, :, None] - score[test][:, None, :]
    list_price = np.array([prices[a]["input_price"] + prices[a]["output_price"] for a in log.agents])
    order = [agents.index(agent) for agent in log.agents]
    ahead = ahead[:, order][:, :, order]
    return Priced(log, contexts.take(test), np.sign(ahead), (ahead > 0).astype(float), list_price)


# -- lotteries --------------------------------------------------------------------------------------------------------


def cells(scale: Scale) -> list[Cell]:
    """Return a test set for each log and seed; quick: the first of each, with few prompts to learn from."""
    sizes = _QUICK if scale.quick else {"test": TEST, "train": None, "budgets": BUDGETS, "weights": len(WEIGHTS)}
    return [
        Cell(f"{data} {seed}", {"data": data, "seed": seed, **sizes})
        for data in DATA
        for seed in scale.pick(range(SPLITS))
    ]


def run(cell: Cell) -> list[Row]:
    """Trace what every method spends and loses on one test set."""
    data, labels = Priced.of(cell), {"data": cell["data"], "seed": cell["seed"]}
    weights = WEIGHTS[:: len(WEIGHTS) // cell["weights"]]
    curve_of = dict(curves(data, cell["seed"], weights=weights, count=cell["budgets"]))
    rows: list[Row] = []
    for method, curve in curve_of.items():
        rows += [{**labels, "method": method, "point": place, **measured(data, pi)} for place, pi in enumerate(curve)]
    costs = np.sort(data.costs)
    grid = np.linspace(costs[1], costs[-2], STEPS)
    rows += [
        {**labels, "agent": agent, "price": float(c)} for agent, c in zip(data.log.agents, data.costs, strict=True)
    ]
    return rows + [{**labels, **row} for row in compared(data, curve_of, grid)]


def curves(
    data: Priced, seed: int, *, weights: Sequence[float] = WEIGHTS, count: int = BUDGETS
) -> Iterator[tuple[str, list[Floats]]]:
    """Yield each method with its lotteries (n, K), from free to dear or from dear to free.

    Args:
        weights: of cost.
        count: evenly spaced budgets of BT-cost.
    """
    options = common_options(seed)
    ours = ne.NashEval(**options).fit(data.log)
    printed = ne.NashEval.paper(**options, policy="exact", propensity="known" if _known(data.log) else "auto")
    printed.fit(data.log)
    points = data.contexts
    pooled = np.nan_to_num(printed.stage1_.log.pair_counts.margin)
    games = {
        OURS: ours.payoff(points),
        PRINTED: printed.payoff(points),
        PLUG_IN: plug_in_payoffs(printed, points),
        MAXIMAL: np.tile(pooled, (points.num_rows, 1, 1)),
    }
    for name, game in games.items():
        yield name, [priced(game, data.costs, weight) for weight in weights]
    for name, model in ((BT_COST, printed), (BT_COST_OURS, ours)):
        yield name, [bought(model, points, data.costs, budget) for budget in budgets(data.costs, count)]


def _known(log: ne.Feedback) -> bool:
    return log.records.propensity is not None


def priced(games: Floats, costs: Floats, weight: float) -> Floats:
    """Return the equilibria (n, K) with costs in the regulariser (Eq. routerbench-cost-regularizer)."""
    return np.asarray(ne.solve(games, regularizer=ne.L2(RHO), costs=costs, cost_weight=weight).strategy)


def budgets(costs: Floats, count: int = BUDGETS) -> Floats:
    """Return evenly spaced budgets from the lowest price to the highest, and every price."""
    return np.unique(np.concatenate([np.linspace(costs.min(), costs.max(), count), costs]))


def bought(model: ne.NashEval, contexts: pa.Table, costs: Floats, budget: float) -> Floats:
    """Return BT-cost's lotteries (n, K) within a budget (Eq. routerbench-bt-cost)."""
    policy = ne.baselines.BudgetedBT(costs, float(budget)).fit(model.stage1_)
    return np.asarray(policy.predict_proba(contexts))


# -- scores -----------------------------------------------------------------------------------------------------------


def measured(data: Priced, pi: Floats) -> Row:
    """Return what lotteries spend, lose and win."""
    return {
        "cost": ne.metrics.expected_cost(pi, data.costs),
        "exploitability": ne.metrics.exploitability(data.payoff, pi),
        "win_rate": ne.metrics.strict_win_rate(pi, data.wins),
    }


def compared(data: Priced, curves: dict[str, list[Floats]], grid: Floats) -> Iterator[Row]:
    """Yield, for each cost of a grid and each method, what it loses and wins there, paired with ours over prompts."""
    for cost in grid:
        spent = {method: mixture(curve, data.costs, float(cost)) for method, curve in curves.items()}
        loss = {m: ne.metrics.exploitability(data.payoff, pi, reduce=False) for m, pi in spent.items()}
        wins = {m: ne.metrics.strict_win_rate(pi, data.wins, reduce=False) for m, pi in spent.items()}
        for method in spent:
            row: Row = {"method": method, "at": float(cost)}
            for name, measure in (("loss", loss), ("win", wins)):
                ahead = measure[method] - measure[OURS]
                row |= {name: float(measure[method].mean()), f"{name}_ahead": float(ahead.mean())}
                row[f"{name}_ahead_se"] = standard_error(ahead)
            yield row


def mixture(curve: list[Floats], costs: Floats, cost: float) -> Floats:
    """Return the lotteries (n, K) of a method that spend a cost on average: a mixture of its two points around it.

    One whose points all cost less gives its dearest, one whose points all cost more its cheapest.
    """
    spends = np.array([ne.metrics.expected_cost(pi, costs) for pi in curve])
    order = np.argsort(spends, kind="stable")
    place = int(np.searchsorted(spends[order], cost))
    if place in (0, len(curve)):
        return np.asarray(curve[order[min(place, len(curve) - 1)]])
    low, high = order[place - 1], order[place]
    share = (cost - spends[low]) / (spends[high] - spends[low])
    return np.asarray((1 - share) * curve[low] + share * curve[high])


# -- what is made of it -----------------------------------------------------------------------------------------------


def tables(rows: Rows) -> list[Table]:
    """Return, for each log, what methods lose and win at five costs."""
    return [_table(rows.where(data=data), data) for data in rows.distinct("data")]


def _table(rows: Rows, data: str) -> Table:
    shown = np.linspace(0, STEPS - 1, 5).round().astype(int)
    grid = {int(place): _at(rows, int(place)) for place in shown}
    header = ("method", *(f"at ${part.mean('at'):.3g}" for part in grid.values()))
    lines = [
        (method, *(f"{part.where(method=method).mean('loss'):.3f} / {part.where(method=method).mean('win'):.3f}"
                   for part in grid.values()))
        for method in rows.distinct("method")
    ]  # fmt: skip
    note = "Exploitability / average strict win rate; dollars for 1,000 prompts, between the second-cheapest and the "
    return Table(f"{data}: at the same cost", header, tuple(lines), note + "second-dearest model.")


def _at(rows: Rows, place: int) -> Rows:
    """Return the rows of one place of the grid; its cost differs a little from test set to test set."""
    points = [row for seed in rows.distinct("seed") for row in _grid(rows.where(seed=seed), place)]
    return Rows(points)


def _grid(rows: Rows, place: int) -> list[Row]:
    costs = rows.distinct("at")
    return list(rows.where(at=costs[place]))


def claims(rows: Rows) -> list[Claim]:
    """Return our bars, and the paper's claim."""
    claimed = []
    for data in rows.distinct("data"):
        part = rows.where(data=data)
        claimed += [_on_frontier(part, data), _not_beaten(part, data), _papers(part, data)]
    return claimed


def _together(rows: Rows, place: int, method: str, column: str) -> tuple[float, float]:
    """Return the mean over test sets of what a method is ahead of ours at a place of the grid, with its error."""
    part = _at(rows, place).where(method=method)
    errors = part.values(f"{column}_ahead_se")
    return part.mean(f"{column}_ahead"), float(np.sqrt((errors**2).sum()) / max(len(errors), 1))


def _rivals(rows: Rows) -> list[str]:
    return [method for method in rows.distinct("method") if method not in (OURS, BT_COST_OURS)]


def _on_frontier(rows: Rows, data: str) -> Claim:
    """Hold ours against every other method at every cost, in exploitability."""
    ahead = {(p, m): _together(rows, p, m, "loss") for p in range(STEPS) for m in _rivals(rows)}
    lowest = min(ahead, key=lambda key: ahead[key][0])
    off = sorted({p for (p, _), (mean, _) in ahead.items() if mean < 0})
    mean, error = ahead[lowest]
    seen = f"at {STEPS - len(off)} of {STEPS} costs; closest {lowest[1]} {mean:+.4f} ± {error:.4f}"
    return Claim(f"{data}: ours is on the Pareto frontier of exploitability", not off, seen)


def _not_beaten(rows: Rows, data: str) -> Claim:
    """Hold ours against every other method at every cost, in win rate."""
    ahead = {(p, m): _together(rows, p, m, "win") for p in range(STEPS) for m in _rivals(rows)}
    beaten = sorted({p for (p, _), (mean, error) in ahead.items() if mean > error})
    worst = max(ahead, key=lambda key: ahead[key][0] - ahead[key][1])
    mean, error = ahead[worst]
    seen = f"at {STEPS - len(beaten)} of {STEPS} costs; most: {worst[1]} {mean:+.4f} ± {error:.4f}"
    return Claim(f"{data}: no method's win rate is above ours by more than one paired standard error", not beaten, seen)


def _papers(rows: Rows, data: str) -> Claim:
    """Ask of the printed form what the paper says of it, in the middle of the costs."""
    others = [method for method in _rivals(rows) if method != PRINTED]
    middle = range(STEPS // 4, 3 * STEPS // 4)
    loss = {(p, m): _at(rows, p).where(method=m).mean("loss") for p in middle for m in (PRINTED, *others)}
    wins = sum(all(loss[p, PRINTED] <= loss[p, m] for m in others) for p in middle)
    text = f"{data}: {PRINTED} is on the frontier in the middle of the costs (without ours)"
    return Claim(text, wins > len(middle) / 2, f"at {wins} of {len(middle)} costs", "paper")


def figures(rows: Rows) -> dict[str, object]:
    """Return the paper's two figures, one column per log: cost against exploitability, and against win rate."""
    names = {"exploitability": "exploitability (↓ better)", "win_rate": "average strict win rate (↑ better)"}
    logs = rows.distinct("data")
    figure, axes = panels(2, len(logs), width=4.6, height=3.2, sharex="col")
    for column, data in enumerate(logs):
        for line, (measure, label) in enumerate(names.items()):
            _draw(axes[line, column], rows.where(data=data), measure)
            axes[line, column].set_ylabel(label if column == 0 else "")
        axes[0, column].set_title(data)
        axes[1, column].set_xlabel("expected cost, US dollars for 1,000 prompts")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return {"cost": figure}


def _draw(ax: Any, rows: Rows, measure: str) -> None:
    """Draw the curve of each method: its points, each the mean over test sets."""
    for method in rows.distinct("method"):
        mine = Rows([row for row in rows.where(method=method) if "point" in row])
        points = [mine.where(point=place) for place in mine.distinct("point")]
        look = style(method) | {"ms": 3.5, "lw": 2.2 if method == OURS else 1.0}
        look |= _LOOKS.get(method, {})
        ax.plot([p.mean("cost") for p in points], [p.mean(measure) for p in points], label=method, **look)
    second, dear = (np.mean([np.sort(rows.where(seed=s).values("price"))[k] for s in rows.distinct("seed")])
                    for k in (1, -2))  # fmt: skip
    ax.axvspan(second, dear, color="#f1f1ee", zorder=0)
    ax.grid(color="#e4e4e4", lw=0.6)


_LOOKS: dict[str, dict[str, Any]] = {
    BT_COST: {"color": "#d55e00", "marker": "X"},
    BT_COST_OURS: {"color": "#e69f00", "marker": "v", "ls": ":"},
}
STUDY = Study(
    "cost",
    "Cost against quality",
    "Figures cost-constrained-pareto, average-win-rate-cost-frontier",
    cells,
    run,
    tables,
    claims,
    figures,
    (routerbench.FILE, SCORES, PRICES),
)

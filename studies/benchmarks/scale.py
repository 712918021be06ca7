"""How do time and memory grow with votes and with agents?

`python -m studies scale [--votes 100000,1000000,10000000] [--agents 10,50,100,200,300] [--quick] [--out build/scale]`
fits an arena (`studies/benchmarks/big_arena.py`: 20 numbers and five groups, pairs drawn by context) of 50 agents at
every number of votes, and of every number of agents at a million votes, each in a process of its own; then asks for
lotteries at new contexts and for the leaderboard of the groups. It prints seconds, processor seconds, peak memory of
the process and the exponents from size to size, and from the first to the last, in votes and in pairs of agents, beside
their limits, and how far the estimated payoffs are from the truth. Finished sizes are kept in cells.jsonl and not run
again unless the code of the package changes; a size that is not done in `--minutes`, or asks for more than `--most-gb`,
says so.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import nasheval as ne
from studies.benchmarks.big_arena import GROUP, Arena, context_columns, drawn_contexts
from studies.benchmarks.kept import keep
from studies.benchmarks.measuring import by_turns, in_own_process, limit_memory, measured, number, say, source
from studies.harness.options import parser
from studies.harness.rows import Row, Rows
from studies.harness.running import CELLS, labelled, run_cells
from studies.harness.study import Cell, Table
from studies.harness.tables import print_table

AGENTS, VOTES = 50, 1_000_000  # what stays when the other grows
IN_VOTES, IN_PAIRS = 1.1, 1.0  # limits of the exponents
LARGEST = {10_000_000: (90.0, 12.0)}  # votes -> limits in minutes and GB
BOARD = {300: (2.0, 6.0)}  # agents -> the same of a leaderboard
TRUTH = 64  # contexts at which payoffs are held against the truth
ROUNDS = 3  # of predictions, of which the median counts


def main(words: Sequence[str]) -> None:
    options = _parsed(words)
    if options.cell:
        limit_memory(options.most_gb)
        measure(**json.loads(options.cell))
        return
    rows = Rows(labelled(run_cells(study, _cells(options), options.out / CELLS, fresh=options.fresh)))
    tables = (by_votes(rows.where(agents=options.fixed_agents)), by_agents(rows.where(votes=options.fixed_votes)))
    for table in tables:
        print_table(table.title, table.header, table.rows, markdown=options.markdown)
    if options.keep:
        keep("scale", options.keep, tables)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    known = parser("scale", __doc__)
    known.add_argument("--votes", default="", help="with commas; by default 100000,1000000,10000000")
    known.add_argument("--agents", default="", help="with commas; by default 10,50,100,200,300")
    known.add_argument("--fixed-votes", type=int, default=0, help="of every number of agents; by default 1000000")
    known.add_argument("--fixed-agents", type=int, default=AGENTS, help="of every number of votes")
    known.add_argument("--voters", type=int, default=0, help="how many named voters; 0: none is named")
    known.add_argument("--contexts", type=int, default=2000, help="to predict")
    known.add_argument("--quick", action="store_true", help="1,000 and 4,000 votes, 4 and 8 agents, in two minutes")
    known.add_argument("--out", type=Path, default=Path("build/scale"), help="folder of finished sizes")
    known.add_argument("--minutes", type=float, default=100, help="the most that a size may take")
    known.add_argument("--most-gb", type=float, default=12, help="the most memory that a size may ask for; 0: all")
    known.add_argument("--fresh", action="store_true", help="run finished sizes again")
    known.add_argument("--markdown", action="store_true")
    known.add_argument("--keep", default="", help="name under which docs/performance.md shows this run")
    known.add_argument("--cell", default="", help=argparse.SUPPRESS)
    options = known.parse_args(words)
    usual = (
        ("1000,4000", "4,8", 1000, 4) if options.quick else ("100000,1000000,10000000", "10,50,100,200,300", VOTES, 0)
    )
    options.votes = [int(n) for n in (options.votes or usual[0]).split(",")]
    options.agents = [int(K) for K in (options.agents or usual[1]).split(",")]
    options.fixed_votes = options.fixed_votes or usual[2]
    options.fixed_agents = usual[3] or options.fixed_agents
    return options


def _cells(options: argparse.Namespace) -> list[Cell]:
    """Return all sizes, the smallest first; one that both tables need is run once."""
    sizes = {(n, options.fixed_agents) for n in options.votes} | {(options.fixed_votes, K) for K in options.agents}
    limits = {"minutes": options.minutes, "most_gb": options.most_gb, "source": source()}
    how = {"voters": options.voters, "contexts": options.contexts}
    ordered = sorted(sizes, key=lambda size: size[0] * size[1])
    return [Cell(f"{n}/{K}", {"votes": n, "agents": K, **how, **limits}) for n, K in ordered]


def study(cell: Cell) -> list[Row]:
    """Measure one size in a process of its own; return one row {step and what it took} that says what failed."""
    asked = {name: cell[name] for name in ("votes", "agents", "voters", "contexts")}
    rows = in_own_process("scale", asked, minutes=cell["minutes"], most_gb=cell["most_gb"])
    return [{name: value for row in rows for name, value in row.items()}]


def measure(votes: int, agents: int, voters: int, contexts: int) -> None:
    """Say what every step of one size takes, as each is done."""
    arena = Arena.of(agents)
    log, spent = measured(lambda: arena.log(votes, voters=voters))
    say(**_named("log", asdict(spent)))
    warm_up()
    model, spent = measured(lambda: ne.NashEval(verbose=False).fit(log))
    say(**_named("fit", asdict(spent)))
    x, group = drawn_contexts(np.random.default_rng(1), contexts)
    new = pa.table(context_columns(x, group))
    [rounds] = by_turns([lambda: model.predict_proba(new)], ROUNDS)
    say(
        predict_wall=median(one.wall for one in rounds) / contexts,
        predict_cpu=median(one.cpu for one in rounds) / contexts,
    )
    truth, off = arena.payoff(x[:TRUTH], group[:TRUTH]), np.nan_to_num(log.pair_counts.margin)
    say(rmse=_rmse(model.payoff(new.slice(0, TRUTH)), truth), pooled_rmse=_rmse(off, truth))
    spent = measured(lambda: model.leaderboard(GROUP))[1]
    say(**_named("board", asdict(spent)))


def warm_up() -> None:
    """Import and compile what every fit needs, before the clock starts."""
    import torch

    torch.ones(2).sum()
    for K in (3, 60):
        ne.solve(np.zeros((2, K, K)))
    log = Arena.of(3).log(120)
    ne.NashEval(outcome="lightgbm", second_stage="none", verbose=False).fit(log).leaderboard()


def _named(step: str, spent: dict[str, float]) -> dict[str, float]:
    return {f"{step}_{name}": value for name, value in spent.items()}


def _rmse(estimate: Any, truth: Any) -> float:
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


# -- tables -----------------------------------------------------------------------------------------------------------


def by_votes(rows: Rows) -> Table:
    """Return how a fit grows with votes."""
    header = ("votes", "fit, s", "fit, CPU s", "exponent", "peak, GB", "leaderboard / fit", "µs per context", "RMSE",
              "RMSE, pooled", "limits", "verdict")  # fmt: skip
    lines, before = [], None
    for row in sorted(rows, key=lambda row: row["votes"]):
        power = exponent(before, row, "fit_cpu", lambda row: float(row["votes"]))
        minutes, gb = LARGEST.get(row["votes"], (math.inf, math.inf))
        failed = _over(row, "fit_wall", 60 * minutes) or _over(row, "fit_peak_gb", gb) or power > IN_VOTES
        limits = f"exponent {IN_VOTES}" + (f", {minutes:.0f} min, {gb:.0f} GB" if minutes < math.inf else "")
        share = _of(row, "board_cpu") / _of(row, "fit_cpu")
        figures = (_of(row, "fit_wall"), _of(row, "fit_cpu"), power, _of(row, "board_peak_gb", "fit_peak_gb"), share,
                   1e6 * _of(row, "predict_wall"), _of(row, "rmse"), _of(row, "pooled_rmse"))  # fmt: skip
        lines.append((f"{row['votes']:,}", *map(number, figures), limits, _verdict(row, failed)))
        before = row
    return Table("Growth with votes: leaderboard and fit in CPU seconds", header, tuple(lines))


def by_agents(rows: Rows) -> Table:
    """Return how everything grows with pairs of agents."""
    header = ("agents", "pairs", "fit, CPU s", "exponent in pairs", "leaderboard, s", "leaderboard, CPU s",
              "exponent in pairs", "µs per context", "exponent in pairs, CPU", "peak, GB", "verdict")  # fmt: skip
    lines, before, steps = [], None, ("fit_cpu", "board_cpu", "predict_cpu")
    ordered = sorted(rows, key=lambda row: row["agents"])
    for row in ordered:
        powers = [exponent(before, row, name, _pairs) for name in steps]
        minutes, gb = BOARD.get(row["agents"], (math.inf, math.inf))
        failed = _over(row, "board_wall", 60 * minutes) or _over(row, "board_peak_gb", gb) or _steep(powers)
        figures = (_of(row, "fit_cpu"), powers[0], _of(row, "board_wall"), _of(row, "board_cpu"), powers[1],
                   1e6 * _of(row, "predict_wall"), powers[2], _of(row, "board_peak_gb", "fit_peak_gb"))  # fmt: skip
        texts = map(number, (_pairs(row), *figures))
        lines.append((str(row["agents"]), *texts, _verdict(row, failed)))
        before = row
    if len(ordered) > 2:
        powers = [exponent(ordered[0], ordered[-1], name, _pairs) for name in steps]
        fit, board, asked = map(number, powers)
        verdict = "MISSED" if _steep(powers) else "met"
        lines.append(("first to last", "", "", fit, "", "", board, "", asked, "", verdict))
    most = f"limits: exponents {IN_PAIRS:g} in pairs; leaderboard of 300 agents 2 min, 6 GB"
    return Table(f"Growth with agents ({most})", header, tuple(lines))


def exponent(before: Row | None, row: Row, name: str, size: Any) -> float:
    """Return p where a figure grew as size^p since the last row; NaN where one of them lacks it."""
    if before is None or size(before) == size(row):
        return math.nan
    return math.log(_of(row, name) / _of(before, name)) / math.log(size(row) / size(before))


def _pairs(row: Row) -> float:
    return float(row["agents"] * (row["agents"] - 1) // 2)


def _of(row: Row, *names: str) -> float:
    return float(next((row[name] for name in names if row.get(name) is not None), math.nan))


def _over(row: Row, name: str, limit: float) -> bool:
    return _of(row, name) > limit


def _steep(powers: Sequence[float]) -> bool:
    return any(power > IN_PAIRS for power in powers)


def _verdict(row: Row, failed: bool) -> str:
    return str(row["failed"]) if row.get("failed") else "MISSED" if failed else "met"

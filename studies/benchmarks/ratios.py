"""What the package takes against a linear program and against its own fit: ratios with limits, in one run.

`python -m studies ratios [--votes 100000] [--large] [--quick] [--only "voters;LightGBM"] [--out build/ratios]` fits an
arena of 50 agents (`studies/benchmarks/big_arena.py`) with every kind of outcome model and policy, each in a process of
its own, and prints one table: leaderboard and small logs against the fit; lotteries in bulk and at one context against
one linear program per game through `scipy.optimize.linprog` (HiGHS), by turns on the same games; and what `nasheval
route` takes in a new process, with compiled code at hand and without. `--large` adds fits of 2.5 and 10 times as many
votes, and the lotteries of the largest. Fits are compared by processor seconds, answers by the clock; `--rounds` fits
everything several times, by turns. Finished fits are kept in cells.jsonl until the code of the package changes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import nasheval as ne
from studies.benchmarks.big_arena import GROUP, NUMBERS, Arena, context_columns, drawn_contexts
from studies.benchmarks.kept import keep
from studies.benchmarks.measuring import (
    HEADER,
    Line,
    Spent,
    by_turns,
    how_many,
    in_own_process,
    limit_memory,
    measured,
    print_lines,
    say,
    source,
)
from studies.benchmarks.scale import warm_up
from studies.benchmarks.solver_speed import by_scipy
from studies.harness.options import parser
from studies.harness.rows import Row, Rows
from studies.harness.running import CELLS, labelled, run_cells
from studies.harness.study import Cell, Table

LP = "HiGHS by SciPy, one game"
BOARD, GROWTH, SMALL = 0.2, 4.6, 10.0  # leaderboard / fit, fit of four times the votes, seconds of a small fit
BULK, BULK_CORRECTED, ONE = 0.015, 0.1, 0.12
COLD, FIRST = 1.0, 3.0  # seconds
ONE_OF = {"Ridge per pair": 1.0, "forest per pair": 1.0, "learned policy": 0.02}  # where it is not ONE
HEAVY = ("torch", "lightgbm", "pandas", "numba", "sklearn", "scipy", "pyarrow", "joblib", "rich")
ROUNDS, GAMES, BATCH = 5, 12, 8192  # of answers by turns; linear programs in one; most contexts in one


def forms() -> dict[str, dict[str, Any]]:
    """Return the models to measure, by name; the first is what `NashEval()` does."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge

    return {
        "voters": {},
        "voters, plug-in": {"second_stage": "none"},
        "voters, strength 1": {"strength": 1.0},
        "LightGBM": {"outcome": "lightgbm"},
        "LightGBM, plug-in": {"outcome": "lightgbm", "second_stage": "none"},
        "Ridge per pair": {"outcome": Ridge(), "second_stage": "none"},
        "forest per pair": {"outcome": RandomForestRegressor(10, max_depth=5), "second_stage": "none"},
        "learned policy": {"policy": "learned"},
    }


def main(words: Sequence[str]) -> None:
    options = _parsed(words)
    if options.cell:
        limit_memory(options.most_gb)
        measure(**json.loads(options.cell))
        return
    lines = list(all_lines(options))
    print_lines(title(options), lines, markdown=options.markdown)
    if options.keep:
        keep("ratios", options.keep, [Table(title(options), HEADER, tuple(line.cells() for line in lines))])


def add_options(known: argparse.ArgumentParser) -> None:
    """Add what `ratios` and `bench` share."""
    known.add_argument("--votes", type=int, default=0, help="of a log; by default 100,000")
    known.add_argument("--agents", type=int, default=0, help="by default 50")
    known.add_argument("--large", action="store_true", help="also 2.5 and 10 times the votes")
    known.add_argument("--quick", action="store_true", help="1,000 votes on 8 agents, a few models: proves nothing")
    known.add_argument("--only", default="", help="models, with semicolons; by default all")
    known.add_argument("--rounds", type=int, default=1, help="how often everything is fitted, by turns")
    known.add_argument("--minutes", type=float, default=100, help="the most that one model may take")
    known.add_argument("--most-gb", type=float, default=12, help="the most memory that it may ask for; 0: all")
    known.add_argument("--fresh", action="store_true", help="run what is finished again")
    known.add_argument("--markdown", action="store_true")
    known.add_argument("--keep", default="", help="name under which docs/performance.md shows this run")


def set_sizes(options: argparse.Namespace) -> None:
    """Fill in the sizes that were not given."""
    options.votes = options.votes or (1000 if options.quick else 100_000)
    options.agents = options.agents or (8 if options.quick else 50)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    known = parser("ratios", __doc__)
    add_options(known)
    known.add_argument("--out", type=Path, default=Path("build/ratios"), help="folder of finished models")
    known.add_argument("--cell", default="", help=argparse.SUPPRESS)
    options = known.parse_args(words)
    set_sizes(options)
    return options


def title(options: argparse.Namespace) -> str:
    """Return what the table is of."""
    small = "; the small version, whose verdicts prove nothing" if options.quick else ""
    return f"{options.votes:,} votes, {options.agents} agents, 20 numbers and five groups{small}"


# -- one model, in a process of its own -------------------------------------------------------------------------------


def _cells(options: argparse.Namespace) -> list[Cell]:
    """Return the models to fit, those of a round one after the other."""
    some = ("voters, plug-in", "LightGBM, plug-in", "Ridge per pair") if options.quick else forms()
    wanted = options.only.split(";") if options.only else list(some)
    n, sizes = options.votes, [(form, options.votes) for form in wanted]
    if "voters" in wanted:
        sizes += [("voters", 300), ("voters", 900)]
    if options.large:
        sizes += [("voters", 5 * n // 2), ("voters", 10 * n), ("voters, strength 1", 10 * n)]
    shared = {"agents": options.agents, "minutes": options.minutes, "most_gb": options.most_gb, "source": source()}
    return [
        Cell(f"{form}/{votes}/{number}", {"form": form, "votes": votes, "round": number, "full": votes >= n, **shared})
        for number in range(options.rounds)
        for form, votes in sizes
    ]


def study(cell: Cell) -> list[Row]:
    """Fit and ask one model in a process of its own."""
    asked = {name: cell[name] for name in ("form", "votes", "agents", "full")}
    return in_own_process("ratios", asked, minutes=cell["minutes"], most_gb=cell["most_gb"])


def measure(form: str, votes: int, agents: int, full: bool) -> None:
    """Say what a fit takes, and with `full` what every answer takes against a linear program."""
    log = Arena.of(agents).log(votes)
    warm_up()
    model, spent = measured(lambda: ne.NashEval(**forms()[form], verbose=False).fit(log))
    say(step="fit", **asdict(spent))
    if not full:
        return
    new = pa.table(context_columns(*drawn_contexts(np.random.default_rng(1), BATCH)))
    active = is_corrected(model)
    limit = BULK_CORRECTED if active else BULK if form.startswith("voters") else None
    for line in (bulk(model, new, limit=limit), one(model, new, limit=ONE_OF.get(form, ONE))):
        say(line=line.row(), corrected=active)
    if form == "voters":
        say(step="board", **asdict(measured(lambda: model.leaderboard(GROUP))[1]))
    if form in ("voters", "voters, plug-in", "learned policy"):
        for line in cold_lines(model):
            say(line=line.row(), corrected=active)


def is_corrected(model: ne.NashEval) -> bool:
    """Return whether some pair of a model is corrected."""
    strength = model.stage1_.payoff.strength
    return strength is not None and bool((strength.of_pairs(1) > 0).any())


def bulk(model: ne.NashEval, new: Any, *, limit: float | None) -> Line:
    """Return seconds per context of many at once against linear programs on the first of their games."""
    n = how_many(lambda n: model.predict_proba(new.slice(0, n)), 1.0, new.num_rows, least=64)
    A = model.payoff(new.slice(0, GAMES))
    ours, theirs = by_turns([lambda: model.predict_proba(new.slice(0, n)), lambda: [by_scipy(a) for a in A]], ROUNDS)
    note = f"{n:,} contexts, {n / median(s.wall for s in ours):,.0f} per s; {_cores(ours, theirs, n, len(A))}"
    pi = model.predict_proba(new.slice(0, GAMES))
    return _line("bulk", ours, theirs, n, len(A), limit, f"{note}; {_agreement(A, pi)}")


def one(model: ne.NashEval, new: Any, *, limit: float | None) -> Line:
    """Return seconds of one context at a time against linear programs on the same games."""
    answer, how = answerer(model)
    records = new.slice(0, 64).to_pylist()
    n = how_many(lambda n: [answer(record) for record in records[:n]], 0.3, len(records))
    A = model.payoff(new.slice(0, n))[:GAMES]
    ours, theirs = by_turns(
        [lambda: [answer(record) for record in records[:n]], lambda: [by_scipy(a) for a in A]], ROUNDS
    )
    return _line("one context", ours, theirs, n, len(A), limit, f"by {how}; {_cores(ours, theirs, n, len(A))}")


def answerer(model: ne.NashEval) -> tuple[Callable[[Any], Any], str]:
    """Return what answers one context fastest, and its name."""
    if hasattr(model, "router"):
        return model.router(), "router()"
    return lambda record: model.predict_proba([record]), "predict_proba"


def _line(
    part: str, ours: list[Spent], theirs: list[Spent], n: int, games: int, limit: float | None, note: str
) -> Line:
    seconds = [one.wall / n for one in ours], [one.wall / games for one in theirs]
    return Line.of(part, "", seconds[0], LP, seconds[1], limit=limit, note=note)


def _cores(ours: list[Spent], theirs: list[Spent], n: int, games: int) -> str:
    ratio = median(a.cpu / n / (b.cpu / games) for a, b in zip(ours, theirs, strict=True))
    return f"{ratio:.3g} by processor seconds"


def _agreement(A: Any, pi: Any) -> str:
    """Return how much more the lotteries lose at worst than those of linear programs do."""
    exact = np.array([by_scipy(a) for a in A])
    loss = [np.einsum("njk,nk->nj", A, each).max(axis=1) for each in (pi, exact)]
    return f"lose at most {max(0.0, float((loss[0] - loss[1]).max())):.1g} more"


# -- a new process ----------------------------------------------------------------------------------------------------


def cold_lines(model: ne.NashEval) -> Iterator[Line]:
    """Yield what `nasheval route` takes in a new process, against one that imports NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        saved, empty = f"{folder}/model", f"{folder}/numba"
        model.save(saved)
        settings = [word for name in NUMBERS for word in ("--set", f"{name}=0.25")] + ["--set", f"{GROUP}=code"]
        route = ["-m", "nasheval", "route", saved, *settings, "--format", "json"]
        numpy = ["-c", "import numpy"]
        ours, theirs = by_turns([lambda: _process(route), lambda: _process(numpy)], 3)
        cpu = median(one.cpu for one in ours)
        note = f"{cpu:.1f} CPU s; imports {', '.join(imported(route)) or 'nothing heavy'}"
        yield _cold("cold start", [s.wall for s in ours], [s.wall for s in theirs], COLD, note)
        first = measured(lambda: _process(route, NUMBA_CACHE_DIR=empty))[1]
        note = f"{first.cpu:.1f} CPU s; NUMBA_CACHE_DIR is empty"
        yield _cold("first answer", [first.wall], [theirs[-1].wall], FIRST, note)


def _cold(part: str, ours: list[float], theirs: list[float], limit: float, note: str) -> Line:
    return Line.of(part, "", ours, "a process that imports NumPy", theirs, limit=limit, absolute=True, note=note)


def _process(words: list[str], **variables: str) -> str:
    installed = {"PYTHONDONTWRITEBYTECODE": ""}  # an installation has the bytecode of its modules
    done = subprocess.run(
        [sys.executable, *words], env=os.environ | installed | variables, capture_output=True, text=True, check=True
    )
    return done.stderr


def imported(words: list[str]) -> list[str]:
    """Return the heavy packages that a process imports."""
    seen = set(re.findall(r"^import time:.*\|\s+(\w+)", _process(["-X", "importtime", *words]), re.MULTILINE))
    return [name for name in HEAVY if name in seen]


# -- lines ------------------------------------------------------------------------------------------------------------


def all_lines(options: argparse.Namespace) -> Iterator[Line]:
    """Run what is not finished and yield every line."""
    rows = Rows(labelled(run_cells(study, _cells(options), options.out / CELLS, fresh=options.fresh)))
    yield from fit_lines(rows, options.votes)
    asked = [(row, Line.from_row(row["line"])) for row in rows if row.get("line")]
    for part in dict.fromkeys(line.part for _, line in asked):
        for row, line in asked:
            if line.part == part and not row["round"]:
                active = ", corrected" if row["corrected"] and row["form"] == "voters" else ""
                what = f"{row['form']}{active}, {row['votes']:,} votes"
                yield Line(**{**asdict(line), "what": what})
    for row in rows:
        if row.get("failed"):
            yield Line("failed", f"{row['form']}, {row['votes']:,} votes", note=row["failed"])


def fit_lines(rows: Rows, n: int) -> Iterator[Line]:
    """Yield fits and the leaderboard against the fit of n votes, by processor seconds."""

    def cpu(form: str, votes: int, step: str = "fit") -> list[float]:
        return [float(row["cpu"]) for row in rows.where(form=form, votes=votes, step=step)]

    def line(part: str, what: str, ours: list[float], against: str, theirs: list[float], **more: Any) -> Iterator[Line]:
        if ours and len(ours) == len(theirs):
            yield Line.of(part, what, ours, against, theirs, unit="CPU s", **more)

    plain, name = cpu("voters", n), f"fit of {n:,} votes"
    yield from line("leaderboard", f"five groups, {n:,} votes", cpu("voters", n, "board"), name, plain, limit=BOARD)
    middle, large = 5 * n // 2, 10 * n
    against, peak = f"fit of {middle:,} votes", max(rows.where(form="voters", votes=large).values("peak_gb"), default=0)
    note = f"{peak:.2g} GB at the peak"
    yield from line(
        "fit", f"{large:,} votes", cpu("voters", large), against, cpu("voters", middle), limit=GROWTH, note=note
    )
    yield from line("fit", f"{middle:,} votes", cpu("voters", middle), name, plain)
    board = cpu("voters", large, "board")
    yield from line(
        "leaderboard",
        f"five groups, {large:,} votes",
        board,
        f"fit of {large:,} votes",
        cpu("voters", large),
        limit=BOARD,
    )
    for votes in (900, 300):
        yield from line("fit", f"{votes} votes", cpu("voters", votes), name, plain, limit=SMALL, absolute=True)
    for form in (form for form in rows.distinct("form") if form != "voters"):
        yield from line("fit", f"{form}, {n:,} votes", cpu(form, n), name, plain)

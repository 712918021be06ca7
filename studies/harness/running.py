"""Run cells of work, several at a time, and keep what is finished: an interrupted run resumes."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import nasheval as ne
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Scale, Study
from studies.harness.threads import one_thread_each

CELLS = "cells.jsonl"
Engine = Literal["local", "ray"]
Run = Callable[[Cell], Sequence[Row]]


@dataclass(frozen=True)
class Done:
    """A finished cell.

    Args:
        cell: what was asked.
        rows: what came out.
        seconds: how long it took.
        machine: where.
    """

    cell: Cell
    rows: Sequence[Row]
    seconds: float
    machine: str


@dataclass(frozen=True)
class Finished:
    """A finished study.

    Args:
        study: which.
        scale: how much of it.
        rows: of all cells, in the order of the cells.
        seconds: of all cells together, those of earlier sittings too.
        machines: where they ran.
    """

    study: Study
    scale: Scale
    rows: Rows
    seconds: float
    machines: tuple[str, ...]


def run_study(
    study: Study,
    folder: Path,
    scale: Scale,
    *,
    jobs: int = 1,
    fresh: bool = False,
    show: bool = True,
    engine: Engine = "local",
) -> Finished:
    """Run the cells of a study that are not finished yet.

    Args:
        folder: of the study; finished cells are lines of its `cells.jsonl`.
        jobs: processes, one thread each; on a cluster 0 takes all cores.
        fresh: forget what was finished.
        show: whether to draw a bar with the time left.
        engine: "local", or "ray": workers of a cluster in place of processes.
    """
    done = run_cells(study.run, study.cells(scale), folder / CELLS, jobs=jobs, fresh=fresh, show=show, engine=engine)
    rows, machines = Rows([row for one in done for row in one.rows]), dict.fromkeys(one.machine for one in done)
    return Finished(study, scale, rows, sum(one.seconds for one in done), tuple(machines))


def run_cells(
    run: Run,
    cells: Sequence[Cell],
    path: Path,
    *,
    jobs: int = 1,
    fresh: bool = False,
    show: bool = True,
    skip_failures: bool = False,
    engine: Engine = "local",
) -> list[Done]:
    """Run the cells that a file does not hold yet, and return all that are finished, in the order of the cells.

    Args:
        run: runs one cell; a function of a module, because it may run in another process.
        path: one line of JSON per finished cell.
        jobs: processes, one thread each; on a cluster 0 takes all cores.
        fresh: forget what was finished.
        show: whether to draw a bar with the time left.
        skip_failures: print what failed and leave it out, so that the next run tries it again; else it is raised.
        engine: "local", or "ray": workers of a cluster in place of processes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)
    done = finished_cells(path)
    left = [cell for cell in cells if not _same(done.get(cell.key), cell)]
    with _bar(len(left), show=show) as advance, path.open("a", encoding="utf-8") as file:
        results = _results if engine == "local" else _on_cluster
        for one in results(run, left, jobs, skip_failures):
            file.write(_line(one))
            file.flush()
            done[one.cell.key] = one
            advance(one.cell.key)
    return [done[cell.key] for cell in cells if _same(done.get(cell.key), cell)]


def labelled(done: Sequence[Done]) -> list[Row]:
    """Return the rows of finished cells, each with the settings of its cell."""
    return [{**one.cell.settings, **row} for one in done for row in one.rows]


def finished_cells(path: Path) -> dict[str, Done]:
    """Return the finished cells of a file by key, the latest where a key occurs twice; a torn line is no cell."""
    cells: dict[str, Done] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            kept = json.loads(line)
            cells[kept["key"]] = Done(
                Cell(kept["key"], kept["settings"]), kept["rows"], kept["seconds"], kept["machine"]
            )
        except (ValueError, KeyError, TypeError):
            continue
    return cells


def _line(one: Done) -> str:
    kept = {"key": one.cell.key, "settings": dict(one.cell.settings), "seconds": one.seconds, "machine": one.machine}
    kept["rows"] = one.rows
    return "\n" + json.dumps(kept) + "\n"  # what an interruption tore off stays a line of its own


def _same(done: Done | None, cell: Cell) -> bool:
    return done is not None and dict(done.cell.settings) == dict(cell.settings)


def _results(run: Run, cells: Sequence[Cell], jobs: int, skip_failures: bool) -> Iterator[Done]:
    if jobs <= 1 or len(cells) <= 1:
        for cell in cells:
            try:
                yield _timed(run, cell)
            except Exception as error:
                _report(cell, error, skip_failures)
        return
    with one_thread_each(), ProcessPoolExecutor(min(jobs, len(cells)), get_context("spawn")) as pool:
        waiting = {pool.submit(_timed, run, cell): cell for cell in cells}
        try:
            for future in as_completed(waiting):
                failure = future.exception()
                if failure is None:
                    yield future.result()
                else:
                    _report(waiting[future], failure, skip_failures)
        finally:
            pool.shutdown(cancel_futures=True)


def _on_cluster(run: Run, cells: Sequence[Cell], jobs: int, skip_failures: bool) -> Iterator[Done]:
    """Run as many cells at a time as there are workers, so that what is finished is kept."""
    with ne.workers("ray", jobs or None) as pool:
        assert pool is not None
        for start in range(0, len(cells), pool.count):
            some = cells[start : start + pool.count]
            for cell, one in zip(some, pool.run(partial(_tried, run), some), strict=True):
                if isinstance(one, Done):
                    yield one
                else:
                    _report(cell, one, skip_failures)


def _tried(run: Run, cell: Cell) -> Done | Exception:
    try:
        return _timed(run, cell)
    except Exception as error:
        return error


def _report(cell: Cell, error: BaseException, skip_failures: bool) -> None:
    if not skip_failures:
        raise error
    print(f"{cell.key} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def _timed(run: Run, cell: Cell) -> Done:
    start = time.perf_counter()
    rows = list(run(cell))
    machine = f"{os.cpu_count()} {platform.machine()} cores, Python {platform.python_version()}"
    return Done(cell, rows, time.perf_counter() - start, machine)


@contextmanager
def _bar(total: int, *, show: bool) -> Iterator[Callable[[str], None]]:
    """Draw a bar with the time left on standard error, where there is a terminal; yield what advances it by one."""
    if not (show and sys.stderr.isatty()):
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, advance=1, description=name)

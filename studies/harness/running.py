"""Work the cells of a study off, several at a time, and keep what is finished: an interrupted study resumes."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from nasheval.progress import stages
from nasheval.studies.rows import Row, Rows
from nasheval.studies.study import Cell, Scale, Study
from nasheval.studies.threads import one_thread_each

CELLS = "cells.jsonl"


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


def work_off(
    study: Study, folder: Path, scale: Scale, *, jobs: int = 1, fresh: bool = False, show: bool = True
) -> Finished:
    """Run the cells of a study that are not finished yet.

    Args:
        folder: of the study; finished cells are lines of its `cells.jsonl`.
        jobs: processes, one thread each.
        fresh: forget what was finished.
        show: whether to draw a bar with the time left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fresh:
        (folder / CELLS).unlink(missing_ok=True)
    cells = list(study.cells(scale))
    done = finished_cells(folder / CELLS)
    left = [cell for cell in cells if not _same(done.get(cell.key), cell)]
    shares = {cell.key: 1.0 for cell in left}
    with stages(shares or {"": 1.0}, show=show) as begin, (folder / CELLS).open("a", encoding="utf-8") as file:
        for one in _results(study, left, jobs):
            file.write(_line(one))
            file.flush()
            done[one.cell.key] = one
            begin(one.cell.key)(1.0)
    kept = [done[cell.key] for cell in cells]
    rows, machines = Rows([row for one in kept for row in one.rows]), dict.fromkeys(one.machine for one in kept)
    return Finished(study, scale, rows, sum(one.seconds for one in kept), tuple(machines))


def finished_cells(path: Path) -> dict[str, Done]:
    """Return the finished cells of a study by key, the latest where a key occurs twice; a torn line is no cell."""
    found: dict[str, Done] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            told = json.loads(line)
            found[told["key"]] = Done(
                Cell(told["key"], told["settings"]), told["rows"], told["seconds"], told["machine"]
            )
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _line(one: Done) -> str:
    told = {"key": one.cell.key, "settings": dict(one.cell.settings), "seconds": one.seconds, "machine": one.machine}
    told["rows"] = one.rows
    return "\n" + json.dumps(told) + "\n"  # what an interruption tore off stays a line of its own


def _same(done: Done | None, cell: Cell) -> bool:
    return done is not None and dict(done.cell.settings) == dict(cell.settings)


def _results(study: Study, cells: Sequence[Cell], jobs: int) -> Iterator[Done]:
    if jobs <= 1 or len(cells) <= 1:
        yield from (_timed(study, cell) for cell in cells)
        return
    with one_thread_each(), get_context("spawn").Pool(min(jobs, len(cells))) as pool:
        yield from pool.imap_unordered(_elsewhere, [(study.run.__module__, cell) for cell in cells])


def _elsewhere(task: tuple[str, Cell]) -> Done:
    """Run a cell in a process of its own, which finds the study by its module."""
    module, cell = task
    return _timed(import_module(module).STUDY, cell)


def _timed(study: Study, cell: Cell) -> Done:
    start = time.perf_counter()
    rows = list(study.run(cell))
    machine = f"{os.cpu_count()} {platform.machine()} cores, Python {platform.python_version()}"
    return Done(cell, rows, time.perf_counter() - start, machine)

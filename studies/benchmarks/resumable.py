"""Many cases over many processes, one line of JSON per case that is done, so that a run may be stopped at any time."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
TOLD_EVERY = 20.0  # seconds between two lines about how far it is

Row = dict[str, Any]


def one_thread() -> None:
    """Keep torch in a worker to one thread, whatever the machine has."""
    import torch

    torch.set_num_threads(1)


def done(path: Path) -> list[Row]:
    """Return the rows of a results file; a line that was cut short is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def run(cases: list[Any], study: Callable[[Any], Row], path: Path, jobs: int) -> list[Row]:
    """Study the cases that the results file does not have, and return the rows of all that are done.

    Args:
        cases: frozen dataclasses; the row of a case holds its fields, by which it is found again.
        study: a function of a module, so that workers can import it.
        path: the results file.
        jobs: processes, of one thread each.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(asdict(cases[0]))
    have = {key(row, names): row for row in done(path) if all(name in row for name in names)}
    missing = [case for case in cases if key(asdict(case), names) not in have]
    for name in THREADS:
        os.environ[name] = "1"  # workers are started anew and read it
    with path.open("a") as file:
        if path.stat().st_size and not path.read_text().endswith("\n"):
            file.write("\n")
        for row in told(studied(missing, study, jobs), len(missing), len(cases)):
            file.write(json.dumps(row) + "\n")
            file.flush()
            have[key(row, names)] = row
    wanted = (key(asdict(case), names) for case in cases)
    return [have[case] for case in wanted if case in have]


def studied(cases: list[Any], study: Callable[[Any], Row], jobs: int) -> Iterator[Row]:
    """Yield rows as they are done; a case that fails is told of and left out, so that the next run tries it again."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=one_thread) as pool:
        waiting = {pool.submit(study, case): case for case in cases}
        try:
            for future in as_completed(waiting):
                if (error := future.exception()) is None:
                    yield future.result()
                else:
                    print(f"{waiting[future]} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)


def told(rows: Iterable[Row], missing: int, total: int) -> Iterator[Row]:
    """Pass rows on, and print now and then how many are done and how long the rest will take."""
    start = last = time.monotonic()
    for count, row in enumerate(rows, start=1):
        yield row
        now = time.monotonic()
        if now - last > TOLD_EVERY or count == missing:
            left = (now - start) / count * (missing - count)
            print(
                f"{total - missing + count} of {total} logs, {(now - start) / 60:.1f} minutes, about {left / 60:.1f} "
                f"more; {row['seconds']:.1f} CPU seconds for the last",
                file=sys.stderr,
                flush=True,
            )
            last = now


def key(row: Row, names: list[str]) -> tuple[Any, ...]:
    """Return what tells a case apart."""
    return tuple(row[name] for name in names)

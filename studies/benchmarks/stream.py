"""How much memory does it take to read many votes, and to predict many contexts, from Parquet?

`python -m studies stream [--rows 100000] [--agents 5] [--columns 20]` writes a Parquet file of votes with numeric
context columns, fits a small model on some of them, and then, each in a process of its own, reads all votes with
`ne.read_votes` and runs `nasheval predict` on all rows, Parquet to Parquet. It prints rows per second of CPU and the
peak memory of each. `--rows 10000000` is the full figure.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import nasheval as ne
from studies.harness.options import parser

CHUNK = 100_000
MOST_GIB = {"read": 2.5, "predict": 2.0}  # for ten million rows of 20 columns


def write_votes(path: Path, rows: int, agents: int, columns: int, *, seed: int = 0) -> None:
    """Write random votes of which the first context column says how much lower numbers win."""
    rng, writer = np.random.default_rng(seed), None
    names = pa.array([f"model-{i:03d}" for i in range(agents)])
    for start in range(0, rows, CHUNK):
        n = min(CHUNK, rows - start)
        x, first = rng.standard_normal((columns, n)), rng.integers(0, agents, n)
        second = (first + rng.integers(1, agents, n)) % agents
        won = rng.random(n) < 1 / (1 + np.exp((first - second) * x[0] / agents))
        table = pa.table(
            {
                "model_a": names.take(pa.array(first)),
                "model_b": names.take(pa.array(second)),
                "winner": pa.array(["model_b", "model_a"]).take(pa.array(won.astype(np.int8))),
                **{f"x{c}": x[c] for c in range(columns)},
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def contexts_of(path: Path) -> list[str]:
    return [name for name in pq.read_schema(path).names if name.startswith("x")]


def fit(folder: Path) -> int:
    some = next(pq.ParquetFile(folder / "votes.parquet").iter_batches(5_000))
    log = ne.read_votes(pa.Table.from_batches([some]), context=contexts_of(folder / "votes.parquet"))
    ne.NashEval(second_stage="none", folds=2, verbose=False).fit(log).save(folder / "model")
    return int(log.n_records)


def read(folder: Path) -> int:
    return int(ne.read_votes(folder / "votes.parquet", context=contexts_of(folder / "votes.parquet")).n_records)


def predict(folder: Path) -> int:
    out = folder / "lotteries.parquet"
    words = ["predict", str(folder / "model"), str(folder / "votes.parquet"), "-o", str(out)]
    subprocess.run([sys.executable, "-m", "nasheval", *words], check=True, capture_output=True)
    return int(pq.read_metadata(out).num_rows)


STEPS: dict[str, Callable[[Path], int]] = {"fit": fit, "read": read, "predict": predict}


def in_own_process(step: str, folder: Path) -> dict[str, float]:
    """Run a step; its peak is at least that of this process when it starts, which therefore fits and reads nothing."""
    command = [sys.executable, "-m", "studies", "stream", "--step", step, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measured(step: str, folder: Path) -> dict[str, float]:
    """Run a step here; figures are those of the command where the step is one, else of this process."""
    wall = time.perf_counter()
    rows = STEPS[step](folder)
    used = resource.getrusage(resource.RUSAGE_CHILDREN if step == "predict" else resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    return {"rows": rows, "cpu": cpu, "wall": time.perf_counter() - wall, "gib": used.ru_maxrss / 2**20}


def main(words: Sequence[str]) -> None:
    known = parser("stream", __doc__)
    known.add_argument("--rows", type=int, default=100_000)
    known.add_argument("--agents", type=int, default=5)
    known.add_argument("--columns", type=int, default=20)
    known.add_argument("--only", choices=MOST_GIB, help="one of the two")
    known.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    known.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = known.parse_args(words)
    if options.step:
        print(json.dumps(measured(options.step, options.folder)))
        return
    title = f"{options.rows:,} rows, {options.agents} agents, {options.columns} numeric columns"
    table = Table("step", "rows per CPU second", "CPU s", "wall s", "peak GiB", "at most", title=title)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_votes(folder / "votes.parquet", options.rows, options.agents, options.columns)
        if options.only != "read":
            in_own_process("fit", folder)
        for step in [options.only] if options.only else MOST_GIB:
            run = in_own_process(step, folder)
            figures = f"{run['rows'] / run['cpu']:,.0f}", f"{run['cpu']:.1f}", f"{run['wall']:.1f}", f"{run['gib']:.2f}"
            table.add_row(step, *figures, f"{MOST_GIB[step]:.1f}")
    Console().print(table)

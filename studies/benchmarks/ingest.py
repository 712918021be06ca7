"""How long does it take to read ten million votes, and how much memory?

`python -m studies ingest [--votes 10000000] [--agents 50] [--repeats 3]` writes a Parquet file of votes, reads it
with `ne.read_votes` and with a plain `pyarrow.parquet.read_table` of the same columns, each in a process of its own,
turn and turn about, and prints the ratio of the times and the peak memory.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table

import nasheval as ne
from studies.harness.options import parser

COLUMNS = ["model_a", "model_b", "winner", "language", "is_code", "timestamp"]
MOST_TIMES, MOST_GB = 8.0, 3.0


def write_votes(path: Path, votes: int, agents: int, *, seed: int = 0, chunk: int = 500_000, show: bool = True) -> None:
    """Write a file of random votes, plain strings as people have them, a row group a chunk."""
    rng = np.random.default_rng(seed)
    names = pa.array([f"model-{i:02d}-instruct" for i in range(agents)])
    labels = pa.array(["model_a", "model_b", "tie", "both_bad"])
    languages = pa.array(["English", "Polish", "Russian", "Chinese", "German", "French"])
    writer = None
    for start in track(range(0, votes, chunk), description=f"writing {votes:,} votes", disable=not show):
        n = min(chunk, votes - start)
        first = rng.integers(0, agents, n)
        table = pa.table(
            {
                "model_a": names.take(pa.array(first)),
                "model_b": names.take(pa.array((first + rng.integers(1, agents, n)) % agents)),
                "winner": labels.take(pa.array(rng.choice(4, n, p=[0.35, 0.35, 0.2, 0.1]))),
                "language": languages.take(pa.array(rng.integers(0, 6, n))),
                "is_code": rng.random(n) < 0.3,
                "timestamp": pa.array(1_745_000_000 + np.sort(rng.integers(0, 10**7, n)), pa.timestamp("s")),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def read_plain(path: str) -> int:
    return int(pq.read_table(path, columns=COLUMNS).num_rows)


def read_log(path: str) -> int:
    log = ne.read_votes(path, context=["language", "is_code"], time="timestamp")
    return log.n_records


READERS = {"pyarrow": read_plain, "nasheval": read_log}


def measured(reader: str, path: str) -> dict[str, float]:
    """Time one read in this process; imports are not counted."""
    assert callable(ne.read_votes)  # loads it
    start = time.perf_counter()
    rows = READERS[reader](path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"rows": rows, "seconds": seconds, "peak_gb": peak}


def in_own_process(reader: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "studies", "ingest", "--read", reader, "--file", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def main(words: Sequence[str]) -> None:
    known = parser("ingest", __doc__)
    known.add_argument("--votes", type=int, default=10_000_000)
    known.add_argument("--agents", type=int, default=50)
    known.add_argument("--repeats", type=int, default=3)
    known.add_argument("--read", choices=READERS, help=argparse.SUPPRESS)
    known.add_argument("--file", help=argparse.SUPPRESS)
    options = known.parse_args(words)
    if options.read:
        print(json.dumps(measured(options.read, options.file)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.parquet"
        write_votes(path, options.votes, options.agents)
        size = path.stat().st_size / 2**20
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
        for _ in track(range(options.repeats), description="reading, turn and turn about"):
            for name, seen in runs.items():
                seen.append(in_own_process(name, path))
    report(runs, options.votes, options.agents, size)


def report(runs: dict[str, list[dict[str, float]]], votes: int, agents: int, size: float) -> None:
    seconds = {name: statistics.median(run["seconds"] for run in seen) for name, seen in runs.items()}
    peak = {name: max(run["peak_gb"] for run in seen) for name, seen in runs.items()}
    title = f"{votes:,} votes, {agents} agents"
    table = Table("reader", "seconds (median)", "times pyarrow", "peak memory", title=title)
    for name in runs:
        ratio = seconds[name] / seconds["pyarrow"]
        table.add_row(name, f"{seconds[name]:.2f}", f"{ratio:.1f}", f"{peak[name]:.2f} GB")
    Console().print(table)
    ratio = seconds["nasheval"] / seconds["pyarrow"]
    met = ratio <= MOST_TIMES and peak["nasheval"] <= MOST_GB
    print(f"file {size:.0f} MB; {platform.machine()}, Python {platform.python_version()}, pyarrow {pa.__version__}")
    print(f"bar: at most {MOST_TIMES:.0f} times and {MOST_GB:.0f} GB: {'met' if met else 'MISSED'}")

"""How long does `nasheval fit` take on an arena release, and how much memory?

`python -m studies arena-scale [--votes 135000] [--models 53] [--jobs 2]` writes a Parquet file with the columns of
arena-human-preference-140k, conversations included, fits it by the command line in a process of its own, and prints
the time and the peak memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from studies.harness.options import parser
from studies.paper.arena_release import write_release

MOST_MINUTES, MOST_GB = 15.0, 6.0


def fit(path: Path, out: Path, jobs: int) -> dict[str, float]:
    """Fit by the command line; return seconds of time and of processors, and the peak memory in GB."""
    words = ["-m", "nasheval", "fit", str(path), "-o", str(out), "--jobs", str(jobs), "--format", "json"]
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = json.loads(process.stdout.read())
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, status
    assert said["held_out"] is not None, said["note"]
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "peak_gb": used.ru_maxrss / 2**20}


def main(words: Sequence[str]) -> None:
    known = parser("arena-scale", __doc__)
    known.add_argument("--votes", type=int, default=135_000)
    known.add_argument("--models", type=int, default=53)
    known.add_argument("--jobs", type=int, default=2)
    options = known.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arena.parquet"
        write_release(path, options.votes, [f"model-{i:02d}-instruct" for i in range(options.models)])
        size = path.stat().st_size / 2**20
        used = fit(path, Path(folder) / "model", options.jobs)
    table = Table(title=f"nasheval fit, {options.votes:,} votes on {options.models} models, {size:.0f} MB of Parquet")
    for name in ("", "measured", "most"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("minutes", f"{used['seconds'] / 60:.1f}", f"{MOST_MINUTES:.0f}")
    table.add_row("processor minutes", f"{used['cpu'] / 60:.1f}", "")
    table.add_row("peak memory, GB", f"{used['peak_gb']:.2f}", f"{MOST_GB:.0f}")
    Console().print(table)

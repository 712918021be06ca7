"""How long does `nasheval fit` take on an arena release, and how much memory?

`python -m benchmarks.arena [--votes 135000] [--models 53] [--jobs 2]` writes a Parquet file with the columns of
arena-human-preference-140k, conversations included, fits it by the command line in a process of its own, and prints
the time and the peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from nasheval.studies.arena_release import write_release

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--votes", type=int, default=135_000)
    parser.add_argument("--models", type=int, default=53)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arena.parquet"
        write_release(path, given.votes, [f"model-{i:02d}-instruct" for i in range(given.models)])
        size = path.stat().st_size / 2**20
        found = fit(path, Path(folder) / "model", given.jobs)
    table = Table(title=f"nasheval fit, {given.votes:,} votes on {given.models} models, {size:.0f} MB of Parquet")
    for name in ("", "found", "most"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("minutes", f"{found['seconds'] / 60:.1f}", f"{MOST_MINUTES:.0f}")
    table.add_row("processor minutes", f"{found['cpu'] / 60:.1f}", "")
    table.add_row("peak memory, GB", f"{found['peak_gb']:.2f}", f"{MOST_GB:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()

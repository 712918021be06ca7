"""How long does `nasheval fit` take on an arena release, and how much memory?

`python -m benchmarks.arena [--votes 135000] [--models 53] [--jobs 2]` writes a Parquet file with the columns of
arena-human-preference-140k, conversations included, fits it by the command line in a process of its own, and prints
the time and the peak memory. Models differ in skill, and differently by language and for code, so there is something
to learn.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

MOST_MINUTES, MOST_GB = 15.0, 6.0
LANGUAGES = ("en", "pl", "ru", "zh", "de", "fr", "ja", "und")
WORDS = np.array(re.findall(r"\w+", """write a function that explains the history of my garden and then translate this
    poem about winter into python please list ten reasons why rivers flow what is best recipe for soup compare two
    phones fix bug in code below story"""))  # fmt: skip
LABELS = np.array(["model_a", "model_b", "tie", "both_bad"])


def write_arena(path: Path, votes: int, models: int, *, seed: int = 0, chunk: int = 20_000) -> None:
    """Write a synthetic release, a row group a chunk."""
    rng = np.random.default_rng(seed)
    skill = rng.normal(0, 0.6, models) + rng.normal(0, 0.4, (len(LANGUAGES), 2, models))  # by language and code
    share = rng.dirichlet(np.full(models, 3.0))  # some models are shown more often than others
    writer = None
    for start in range(0, votes, chunk):
        table = _rows(min(chunk, votes - start), start, skill, share, rng)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _rows(n: int, start: int, skill: Any, share: Any, rng: np.random.Generator) -> pa.Table:
    models = skill.shape[-1]
    a, b = rng.choice(models, n, p=share), rng.choice(models, n, p=share)
    b = np.where(a == b, (b + 1) % models, b)
    language, code = rng.choice(len(LANGUAGES), n, p=_geometric(len(LANGUAGES))), rng.random(n) < 0.3
    lead = skill[language, code * 1, a] - skill[language, code * 1, b]
    label = np.where(rng.random(n) < 1 / (1 + np.exp(-lead)), 0, 1)
    label = np.where(rng.random(n) < 0.25, rng.integers(2, 4, n), label)
    prompts = [" ".join(rng.choice(WORDS, size)) for size in rng.integers(4, 60, n)]
    names = np.array([f"model-{i:02d}-instruct" for i in range(models)])
    number = np.arange(start, start + n)
    return pa.table(
        {
            "id": [f"{i:032x}" for i in number],
            "model_a": names[a],
            "model_b": names[b],
            "winner": LABELS[label],
            "evaluation_session_id": [f"s{i:08d}" for i in number // 2],  # two votes a session
            "evaluation_order": (number % 2 + 1).astype(np.int64),
            "conversation_a": [_conversation(prompt) for prompt in prompts],
            "conversation_b": [_conversation(prompt) for prompt in prompts],
            "category_tag": [_tags(x) for x in rng.random((n, 4)) < 0.2],
            "language": np.array(LANGUAGES)[language],
            "is_code": code,
            "timestamp": pa.array(1_745_000_000 + number * 60, pa.timestamp("s")),
        }
    )


def _geometric(n: int) -> Any:
    weight = 0.6 ** np.arange(n)
    return weight / weight.sum()


def _conversation(prompt: str) -> list[dict[str, Any]]:
    def message(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text, "image": None, "mimeType": None}]}

    return [message("user", prompt), message("assistant", "Certainly. " * 20)]


def _tags(found: Any) -> dict[str, Any]:
    creative, hard, strict, maths = (bool(x) for x in found)
    return {
        "creative_writing_v0.1": {"creative_writing": creative},
        "criteria_v0.1": {"complexity": hard},
        "if_v0.1": {"if": strict, "score": 3},
        "math_v0.1": {"math": maths},
    }


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
        write_arena(path, given.votes, given.models)
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

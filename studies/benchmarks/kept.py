"""Figures of full runs, kept beside the paper's results, and shown by docs/performance.md.

`python -m studies scale --keep after` (`ratios` and `bench` alike) writes studies/results/performance/scale-after.json;
the page has a block for every name, `<!-- scale -->` to `<!-- end -->`, and is filled from all that is kept, the run
named "before" first. A test holds the page to what is kept.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from studies.harness.study import Table
from studies.harness.writing import KEPT

FOLDER, PAGE = KEPT / "performance", Path(__file__).parents[2] / "docs/performance.md"
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def keep(name: str, label: str, tables: Sequence[Table]) -> None:
    """Keep the tables of a run under a label, and write them into the page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = {"label": label, "made": made(), "tables": [asdict(table) for table in tables]}
    (FOLDER / f"{name}-{label}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def made() -> str:
    """Return where and of which commit figures are."""
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    commit = f"commit {asked.stdout.strip()}, " if asked.returncode == 0 else ""
    return f"{commit}{cores} {platform.machine()} cores, Python {platform.python_version()}"


def filled(page: str) -> str:
    """Return the page with every block filled from what is kept."""
    return BLOCK.sub(lambda block: f"{block[1]}{shown(block[2])}{block[3]}", page)


def shown(name: str) -> str:
    """Return all that is kept under a name as Markdown."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob(f"{name}-*.json")]
    runs.sort(key=lambda run: (run["label"] != "before", run["label"]))
    return "".join(f"\n{_run(run)}\n\n" for run in runs)


def _run(run: dict[str, Any]) -> str:
    head = f"*{run['label'].capitalize()}* ({run['made']}):"
    tables = [
        Table(one["title"], tuple(one["header"]), tuple(map(tuple, one["rows"])), one["note"]) for one in run["tables"]
    ]
    return "\n\n".join([head, *(table.markdown() for table in tables)])

"""Figures of full runs, kept beside the paper's results, and shown by docs/performance.md.

`python -m studies scale --keep after` (`ratios` and `bench` alike) writes studies/results/performance/scale-after.json.
The page has blocks, `<!-- scale -->` to `<!-- end -->`, or `<!-- ratios: fit, leaderboard -->` for those parts alone,
and is filled from all that is kept under the name, the run called "before" first; `python -m studies publish` fills it
as well. Lines of ratios stand side by side, other tables one below the other. A test holds the page to what is kept.
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

from studies.benchmarks.measuring import HEADER
from studies.harness.study import Table
from studies.harness.writing import KEPT

FOLDER, PAGE = KEPT / "performance", Path(__file__).parents[2] / "docs/performance.md"
BLOCK = re.compile(r"(<!-- (\w+)(?:: ([\w ,]+))? -->\n).*?(<!-- end -->)", re.DOTALL)
Run = dict[str, Any]


def keep(name: str, label: str, tables: Sequence[Table]) -> None:
    """Keep the tables of a run under a label, and write them into the page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = {"label": label, "made": made(), "tables": [asdict(table) for table in tables]}
    (FOLDER / f"{name}-{label}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def made() -> str:
    """Return where figures were made, and the last commit that changed the package by then."""
    words = ["git", "log", "-1", "--format=%h", "--", "src"]
    asked = subprocess.run(words, cwd=PAGE.parent.parent, capture_output=True, text=True, check=False)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    commit = f"code of {asked.stdout.strip()}, " if asked.stdout.strip() else ""
    machine = f"{cores} {platform.machine()} cores of load {os.getloadavg()[0]:.0f}"
    return f"{commit}{machine}, Python {platform.python_version()}"


def filled(page: str) -> str:
    """Return the page with every block filled from what is kept."""
    return BLOCK.sub(lambda block: f"{block[1]}{shown(block[2], block[3])}{block[4]}", page)


def shown(name: str, parts: str | None = None) -> str:
    """Return what is kept under a name as Markdown, of ratios those of some parts; "" if nothing is."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob(f"{name}-*.json")]
    runs.sort(key=lambda run: (run["label"] != "before", run["label"]))
    if not runs:
        return ""
    if tuple(runs[0]["tables"][0]["header"]) == HEADER:
        lines = _side_by_side(runs, parts.split(", ") if parts else [])
        return f"\n{lines}\n\n" if lines else ""
    return "".join(f"\n{_one_below(run)}\n\n" for run in runs)


def _one_below(run: Run) -> str:
    head = f"*{run['label'].capitalize()}* ({run['made']}):"
    return "\n\n".join([head, *(_table(one).markdown() for one in run["tables"])])


def _table(kept: Run) -> Table:
    return Table(kept["title"], tuple(kept["header"]), tuple(map(tuple, kept["rows"])), kept["note"])


def _side_by_side(runs: Sequence[Run], parts: Sequence[str]) -> str:
    """Return the lines of several runs: what, against and limit once; what was seen by each run. "" without lines."""
    lines: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {}
    for run in runs:
        for cells in run["tables"][0]["rows"]:
            of = dict(zip(HEADER, cells, strict=True))
            if not parts or of["part"] in parts:
                seen = (of["ours"], of["theirs"], _ratio(of), of["verdict"])
                lines.setdefault((of["part"], of["what"], of["against"], of["limit"]), {})[run["label"]] = seen
    if not lines:
        return ""
    labels = [run["label"] for run in runs]
    columns = [f"{label}: {name}" for label in labels for name in ("ours", "theirs", "ratio", "verdict")]
    rows = [[*key, *(cell for label in labels for cell in seen.get(label, ("",) * 4))] for key, seen in lines.items()]
    note = "; ".join(f"{run['label']}: {run['made']}" for run in runs)
    table = Table(runs[0]["tables"][0]["title"], ("part", "what", "against", "limit", *columns), _tuples(rows), note)
    return table.markdown()


def _ratio(of: dict[str, str]) -> str:
    return f"{of['ratio']} ({of['range']})" if of["range"] else of["ratio"]


def _tuples(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(row) for row in rows)

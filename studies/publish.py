"""Put the results of full studies where they are kept: studies/results, and docs/results.md.

`python -m studies publish [results/]` takes every full study in the folder that `python -m studies` wrote, copies its
small files to studies/results (which `python -m studies --show` prints) and its figures to docs/figures, and writes
docs/results.md anew from all results that are kept. Without a folder the page alone is written.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from studies.catalogue import STUDIES
from studies.harness.options import parser
from studies.harness.writing import KEPT, RESULTS, Report, read

ROOT = Path(__file__).parents[1]
FIGURES, PAGE = ROOT / "docs/figures", ROOT / "docs/results.md"
REMARKS = ROOT / "studies/remarks"  # what to make of a study, in our own words: NAME.md
LARGEST = 300_000  # bytes of a file that is kept
INTRODUCTION = """# Results

Every table and figure of the paper, made again by one command each, ours beside the paper's. `python -m studies NAME`
runs a study, `python -m studies --show NAME` prints what is below. Claims of the paper are marked reproduced or not,
bars that we set ourselves met or missed. This page is written by `python -m studies publish` from the results in
studies/results; speed, coverage and memory are in [benchmarks](benchmarks.md).
"""


def main(words: Sequence[str]) -> None:
    """Keep the results of a folder, and write the page."""
    known = parser("publish", __doc__)
    known.add_argument("folder", type=Path, nargs="?", help="where python -m studies wrote")
    options = known.parse_args(words)
    for name in STUDIES if options.folder else ():
        if (options.folder / name / RESULTS).exists():
            keep(name, options.folder / name)
    PAGE.write_text(page(), encoding="utf-8")


def keep(name: str, folder: Path) -> None:
    """Copy what is small of one study's results into studies/results, and its figures into the docs."""
    assert not read(folder).settings["quick"], f"{folder} holds the small version"
    shutil.rmtree(KEPT / name, ignore_errors=True)
    (KEPT / name).mkdir(parents=True)
    FIGURES.mkdir(exist_ok=True)
    for old in figures_of(name):
        old.unlink()
    for file in sorted(folder.iterdir()):
        if file.suffix == ".png":
            shutil.copy(file, FIGURES / (file.name if file.stem == name else f"{name}-{file.name}"))
        elif file.name in (RESULTS, "rows.csv") and file.stat().st_size <= LARGEST:
            shutil.copy(file, KEPT / name / file.name)


def page() -> str:
    """Return docs/results.md."""
    kept = [read(KEPT / name) for name in STUDIES if (KEPT / name / RESULTS).exists()]
    return "\n".join([INTRODUCTION, *(section(report) for report in kept)])


def section(report: Report) -> str:
    """Return one study: what was done, what came out, what to make of it."""
    module = import_module(f"studies.paper.{report.name}")
    remarks = REMARKS / f"{report.name}.md"
    head, _, body = report.markdown().partition("\n\n")
    parts = [
        f"## {report.name}: {head.removeprefix('### ')}",
        inspect.getdoc(module) or "",
        body.strip(),
        *(f"![{report.title}](figures/{path.name})" for path in figures_of(report.name)),
        *([remarks.read_text(encoding="utf-8").strip()] if remarks.exists() else []),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def figures_of(name: str) -> list[Path]:
    """Return the figures of a study in the docs."""
    return sorted([*FIGURES.glob(f"{name}.png"), *FIGURES.glob(f"{name}-*.png")])

"""Put the results of full studies where they are kept: the package, and docs/results.md.

`python -m benchmarks.publish [results/]` takes every full study in the folder that `nasheval reproduce` wrote, copies
its small files to src/nasheval/data/results (which `nasheval reproduce --show` prints) and its figures to docs/figures,
and writes docs/results.md anew from all results that are kept. Without a folder the page alone is written.
"""

from __future__ import annotations

import argparse
import inspect
import shutil
from importlib import import_module
from pathlib import Path

from nasheval.studies.catalogue import NAMES
from nasheval.studies.writing import RESULTS, Report, read

ROOT = Path(__file__).parents[1]
KEPT, FIGURES, PAGE = ROOT / "src/nasheval/data/results", ROOT / "docs/figures", ROOT / "docs/results.md"
REMARKS = ROOT / "benchmarks/remarks"  # what to make of a study, in our own words: NAME.md
LARGEST = 300_000  # bytes of a file that is kept
INTRODUCTION = """# Results

Every table and figure of the paper, made again by one command each, ours beside the paper's. `nasheval reproduce NAME`
runs a study, `nasheval reproduce --show NAME` prints what is below. Claims of the paper are marked reproduced or not,
bars that we set ourselves met or missed. This page is written by `python -m benchmarks.publish` from the results in the
package; speed, coverage and memory are in [benchmarks](benchmarks.md).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where nasheval reproduce wrote")
    options = parser.parse_args()
    for name in NAMES if options.folder else ():
        if (options.folder / name / RESULTS).exists():
            keep(name, options.folder / name)
    PAGE.write_text(page(), encoding="utf-8")


def keep(name: str, folder: Path) -> None:
    """Copy what is small of one study's results into the package, and its figures into the docs."""
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
    kept = [read(KEPT / name) for name in NAMES if (KEPT / name / RESULTS).exists()]
    return "\n".join([INTRODUCTION, *(section(report) for report in kept)])


def section(report: Report) -> str:
    """Return one study: what was done, what came out, what to make of it."""
    module = import_module(f"nasheval.studies.{report.name}")
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


if __name__ == "__main__":
    main()

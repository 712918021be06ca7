"""Put the results of full studies where they are kept: studies/results, and docs/results.md.

`python -m studies publish [results/]` takes every full study in the folder that `python -m studies` wrote, copies its
small files to studies/results (which `python -m studies --show` prints) and its figures to docs/figures, and writes
docs/results.md and the tables of docs/performance.md anew from all results that are kept. Without a folder the pages
alone are written.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from studies.benchmarks.kept import PAGE as PERFORMANCE
from studies.benchmarks.kept import filled
from studies.catalogue import STUDIES
from studies.harness.options import parser
from studies.harness.study import Claim, Table
from studies.harness.writing import KEPT, RESULTS, Report, read

ROOT = Path(__file__).parents[1]
FIGURES, PAGE = ROOT / "docs/figures", ROOT / "docs/results.md"
REMARKS = ROOT / "studies/remarks"  # what to make of a study, in our own words: NAME.md
LARGEST = 300_000  # bytes of a file that is kept
INTRODUCTION = """# Results

Every table and figure of the paper, made again by one command each, ours beside the paper's. `python -m studies NAME`
runs a study, `python -m studies --show NAME` prints what is below. Claims of the paper are marked reproduced or not,
bars that we set ourselves met or missed. This page is written by `python -m studies publish` from the results in
studies/results; coverage is in [benchmarks](benchmarks.md), speed and memory in [performance](performance.md).
"""
# What to know before reading the summary.
FORMS = """"Ours" is what this package does unless told otherwise. The paper's method comes in two forms: "printed" is
Algorithm 1, with one regressor that all pairs share; the other has a regressor per pair, as section 5.2 says. Lower
exploitability is better. Every claim stands at the end of its study."""


def main(words: Sequence[str]) -> None:
    """Keep the results of a folder, and write the page."""
    known = parser("publish", __doc__)
    known.add_argument("folder", type=Path, nargs="?", help="where python -m studies wrote")
    options = known.parse_args(words)
    for name in STUDIES if options.folder else ():
        if (options.folder / name / RESULTS).exists():
            keep(name, options.folder / name)
    PAGE.write_text(page(), encoding="utf-8")
    PERFORMANCE.write_text(filled(PERFORMANCE.read_text(encoding="utf-8")), encoding="utf-8")


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
    return "\n".join([INTRODUCTION, summary(kept), *(section(report) for report in kept)])


def summary(kept: Sequence[Report]) -> str:
    """Return all studies on one page: the first claim and bar of each, how many hold, and all that do not."""
    claims = [claim for report in kept for claim in report.claims]
    header = (
        "study",
        "the paper's first claim, and what we see",
        "our first bar, and what we see",
        "reproduced",
        "met",
    )
    rows = tuple(
        (
            link(report),
            first(report.claims, "paper"),
            first(report.claims, "bar"),
            score(report.claims, "paper"),
            score(report.claims, "bar"),
        )
        for report in kept
    )
    failed = tuple((link(r), c.text, c.seen, c.verdict) for r in kept for c in r.claims if not c.holds)
    count = (
        f"Of the paper's claims {score(claims, 'paper')} are reproduced, of our bars {score(claims, 'bar')} are met."
    )
    parts = (
        f"## Summary\n\n{count} {FORMS}",
        Table("Every study", header, rows).markdown(),
        Table("All that did not come out", ("study", "claim", "seen", "verdict"), failed).markdown(),
    )
    return "\n\n".join(parts) + "\n"


def first(claims: Sequence[Claim], source: str) -> str:
    """Return the first claim of a source, with what was seen of it."""
    return next((f"{claim.text}: **{claim.seen}**" for claim in claims if claim.source == source), "")


def score(claims: Sequence[Claim], source: str) -> str:
    """Return how many claims of a source hold."""
    holds = [claim.holds for claim in claims if claim.source == source]
    return f"{sum(holds)}&nbsp;of&nbsp;{len(holds)}" if holds else ""


def link(report: Report) -> str:
    """Return a link to a study's section, whose anchor is its heading in small letters with hyphens."""
    anchor = re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", f"{report.name} {report.title}".lower()))
    return f"[{report.name}](#{anchor})"


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

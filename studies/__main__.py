"""`python -m studies`: the tables and figures of the paper, and the benchmarks."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import nasheval as ne
from studies import catalogue
from studies.catalogue import BENCHMARKS, STUDIES, TOOLS
from studies.harness.options import parse_seeds, parser
from studies.harness.threads import THREADS

if TYPE_CHECKING:
    from studies.harness.writing import Report

ALL = "all"
WIDE = 120  # characters of a line where there is no terminal
ABOUT = """Run a study of the paper: a table or a figure, ours beside it; or a benchmark, which has options of its own.

Without a name, list everything. A study writes results.json, rows.csv, table.md and figures; what is finished is kept,
so that an interrupted study resumes. --quick has a folder of its own. Some studies need data that does not come with
this repository, in the folder that NASHEVAL_DATA names.

  python -m studies highway
  python -m studies rq1 --seeds 70-71
  python -m studies --show rq1
  python -m studies coverage --worlds arena
"""


def main(words: Sequence[str]) -> None:
    """Run what the words of a command line ask for."""
    if words and words[0] in BENCHMARKS | TOOLS:
        catalogue.program(words[0])(words[1:])
        return
    options = _parsed(words)
    if not options.names:
        _list()
        return
    wanted = list(STUDIES) if options.names == [ALL] else options.names
    for name in wanted:
        if name not in STUDIES:
            known = f"accepted are {', '.join(STUDIES)}, and {ALL}; python -m studies lists the benchmarks too"
            raise ne.InputError(f"There is no study {name!r}; {known}.")
    for name in wanted:
        _run_or_show(name, options)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    options = parser("", ABOUT)
    options.add_argument("names", nargs="*", metavar="NAME", help="studies; all: those with data")
    options.add_argument("--quick", action="store_true", help="a small version, in seconds to minutes")
    options.add_argument("--seeds", default="", help="such as 70-74 or 1,2,3; by default the study's own")
    options.add_argument("--out", "-o", type=Path, default=Path("results"), help="a folder; each study has one in it")
    options.add_argument("--jobs", type=int, default=0, help="processes, one thread each; 0 takes all cores")
    options.add_argument("--engine", choices=("local", "ray"), default="local", help="processes here, or a Ray cluster")
    options.add_argument("--fresh", action="store_true", help="start over instead of resuming")
    options.add_argument("--show", action="store_true", help="print full results that are there, and run nothing")
    options.add_argument("--quiet", "-q", action="store_true", help="show no progress")
    return options.parse_args(words)


def _list() -> None:
    named = {"Studies of the paper": STUDIES, "Benchmarks": BENCHMARKS, "Tools": TOOLS}
    for title, group in named.items():
        print(f"{title}:")
        for name, about in group.items():
            print(f"  {name}: {about}")
    print("Options of each: python -m studies NAME --help")


def _run_or_show(name: str, options: argparse.Namespace) -> None:
    folder = options.out / (f"{name}-quick" if options.quick else name)
    if options.show:
        _print(_kept(name, folder))
    elif options.names == [ALL] and (missing := _missing(name)):
        print(f"{name} is left out. {missing}")
    else:
        _print(_run(name, folder, options))
        print(f"written to {folder}/")


def _missing(name: str) -> str:
    """Return what a study lacks to run, "" if nothing."""
    from studies.harness.files import data_file

    try:
        for needed in catalogue.study(name).needs:
            data_file(needed)
    except ne.InputError as error:
        return str(error)
    return ""


def _run(name: str, folder: Path, options: argparse.Namespace) -> Report:
    from studies.harness.running import run_study
    from studies.harness.study import Scale
    from studies.harness.writing import write

    if missing := _missing(name):
        raise ne.InputError(missing)
    scale = Scale(options.quick, parse_seeds(options.seeds) if options.seeds else None)
    jobs = options.jobs or (os.cpu_count() or 1 if options.engine == "local" else 0)
    study = catalogue.study(name)
    how = {"jobs": jobs, "fresh": options.fresh, "show": not options.quiet, "engine": options.engine}
    return write(run_study(study, folder, scale, **how), folder)


def _kept(name: str, folder: Path) -> Report:
    """Return results that are there: of an own run, or those that are kept in this repository."""
    from studies.harness.writing import KEPT, RESULTS, read

    for place in (folder, KEPT / name):
        if (place / RESULTS).exists():
            return read(place)
    raise ne.InputError(f"There are no results of {name!r} in {folder} or in {KEPT}; run python -m studies {name}.")


def _print(report: Report) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from studies.harness.writing import made_by

    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE
    out = Console(highlight=False, width=wide)
    out.print(f"[bold]{escape(report.title)}[/] ({escape(report.paper)})")
    out.print(escape(f"{report.command}: {made_by(report.settings)}"))
    for table in report.all_tables:
        drawn = Table(title=escape(table.title), title_justify="left", caption=escape(table.note) or None)
        for number, name in enumerate(table.header):
            drawn.add_column(escape(name), justify="left" if number == 0 else "right", overflow="fold")
        for row in table.rows:
            drawn.add_row(*(escape(cell) for cell in row))
        out.print(drawn)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] not in BENCHMARKS | TOOLS:
        for threads in THREADS:
            os.environ.setdefault(threads, "1")  # before NumPy and PyTorch read it: cells run side by side
    try:
        main(sys.argv[1:])
    except ne.NashEvalError as error:
        sys.exit(f"Error: {error}")

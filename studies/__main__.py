"""`nasheval reproduce`: the tables and figures of the paper."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nasheval.cli.printing import console, escaped
from nasheval.errors import InputError

if TYPE_CHECKING:
    from nasheval.studies.writing import Report

_ALL = "all"


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Studies; all: those with data.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds to minutes.")] = False,
    seeds: Annotated[str, typer.Option(help="Seeds such as 70-74 or 1,2,3; by default the study's own.")] = "",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Results go to a folder of the study's name in here.")
    ] = Path("results"),
    jobs: Annotated[int, typer.Option(help="Processes, one thread each; 0 takes all cores.", min=0)] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print full results that are there, and run nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run a study of the paper: a table or a figure, with ours beside it.

    Without a name, list the studies. Writes results.json, rows.csv, table.md and figures; what is finished is kept, so
    that an interrupted study resumes. --quick has a folder of its own. Some studies need data that does not come with
    the package, in the folder that NASHEVAL_DATA names.

    Examples:

      nasheval reproduce

      nasheval reproduce highway

      nasheval reproduce rq1 --seeds 70-71

      nasheval reproduce --show rq1
    """
    from nasheval.studies.catalogue import NAMES

    if not names:
        for name, about in NAMES.items():
            typer.echo(f"{name}: {about}")
        return
    wanted = list(NAMES) if names == [_ALL] else names
    for name in wanted:
        if name not in NAMES:
            raise InputError(f"There is no study {name!r}; accepted are {', '.join(NAMES)}, and {_ALL}.")
    for name in wanted:
        folder = out / (f"{name}-quick" if quick else name)
        if show:
            _print(_kept(name, folder))
        elif names == [_ALL] and (missing := _missing(name)):
            console().print(escaped(f"{name} is left out. {missing}"))
        else:
            _print(_run(name, folder, quick=quick, seeds=seeds, jobs=jobs, fresh=fresh, show=not quiet))
            console().print(escaped(f"written to {folder}/"))


def _missing(name: str) -> str:
    """Return what a study lacks to run, "" if nothing."""
    from nasheval.studies.catalogue import study
    from nasheval.studies.files import data_file

    try:
        for needed in study(name).needs:
            data_file(needed)
    except InputError as error:
        return str(error)
    return ""


def _run(name: str, folder: Path, *, quick: bool, seeds: str, jobs: int, fresh: bool, show: bool) -> Report:
    from nasheval.studies.threads import THREADS

    for threads in THREADS:
        os.environ.setdefault(threads, "1")  # before NumPy and PyTorch read it: cells run side by side
    from nasheval.studies.catalogue import study
    from nasheval.studies.running import work_off
    from nasheval.studies.study import Scale
    from nasheval.studies.writing import write

    found = study(name)
    if missing := _missing(name):
        raise InputError(missing)
    scale, bar = Scale(quick, _seeds(seeds)), show and sys.stderr.isatty()
    finished = work_off(found, folder, scale, jobs=jobs or os.cpu_count() or 1, fresh=fresh, show=bar)
    return write(finished, folder)


def _kept(name: str, folder: Path) -> Report:
    """Return results that are there: of an own run, or those that come with the package."""
    from nasheval.studies.writing import RESULTS, bundled, read

    for place in (folder, bundled(name)):
        if (place / RESULTS).exists():
            return read(place)
    raise InputError(f"There are no results of {name!r} in {folder} or in the package; run nasheval reproduce {name}.")


def _seeds(text: str) -> tuple[int, ...] | None:
    """Return seeds from "70-74" or "1,2,3"; None from nothing."""
    if not text:
        return None
    try:
        parts = [part.partition("-") for part in text.split(",")]
        return tuple(seed for first, _, last in parts for seed in range(int(first), int(last or first) + 1))
    except ValueError:
        raise InputError(f"--seeds is {text!r}; accepted are numbers with commas and ranges, such as 70-74.") from None


def _print(report: Report) -> None:
    from rich.table import Table

    from nasheval.studies.writing import made_by

    out = console()
    out.print(f"[bold]{escaped(report.title)}[/] ({escaped(report.paper)})")
    out.print(escaped(f"{report.command}: {made_by(report.settings)}"))
    for table in report.all_tables:
        drawn = Table(title=escaped(table.title), title_justify="left", caption=escaped(table.note) or None)
        for number, name in enumerate(table.header):
            drawn.add_column(escaped(name), justify="left" if number == 0 else "right", overflow="fold")
        for row in table.rows:
            drawn.add_row(*(escaped(cell) for cell in row))
        out.print(drawn)

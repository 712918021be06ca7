"""`nasheval datasets`: logs that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nasheval.errors import InputError

datasets_app = typer.Typer(help="Data sets that come with the package.", no_args_is_help=True)


@datasets_app.command("list")
def datasets_list() -> None:
    """List the data sets that come with the package."""
    from nasheval.feedback.datasets import NAMES

    for name, about in NAMES.items():
        typer.echo(f"{name}: {about}")


@datasets_app.command("path")
def datasets_path(name: Annotated[str, typer.Argument(help="Name of a data set.")]) -> None:
    """Print where the vote file of a data set lies.

    Example:

      nasheval check "$(nasheval datasets path highway)" --context-id configuration --voter judge
    """
    from nasheval.feedback.datasets import path

    typer.echo(path(name))


@datasets_app.command("build")
def datasets_build(
    name: Annotated[str, typer.Argument(help="Name of a data set.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the shards and the finished files.")],
    workers: Annotated[int, typer.Option(help="Processes; 0 takes all cores.", min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny version, to see that it works.")] = False,
) -> None:
    """Build a data set from nothing: hours of work, in shards, resumed where it stopped.

    Example:

      nasheval datasets build highway --out highway/
    """
    if name != "highway":
        raise InputError(f"There is no builder for {name!r}; accepted is 'highway'.")
    from nasheval.studies.highway_data import build

    build(out, workers=workers or None, quick=quick)

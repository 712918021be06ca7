"""`nasheval datasets`: logs that come with the package."""

from __future__ import annotations

from typing import Annotated

import typer

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

"""`nasheval formats`: the files of other tools that are read without a flag."""

from __future__ import annotations

from typing import Annotated

import typer

from nasheval.cli.options import FORMAT
from nasheval.cli.printing import console, escaped, print_json

_OTHERS = (
    "Also the LMArena releases, tables with model_a, model_b, winner or left, right, winner, PrefLib files; and any "
    "other table, with its columns named. A folder or a glob is one log."
)


def formats(
    name: Annotated[str, typer.Argument(help="Show only formats whose name holds this.")] = "",
    format: FORMAT = "table",
) -> None:
    """List the files of other tools that are read without a flag, with an example of each.

    Examples:

      nasheval formats

      nasheval formats webui
    """
    from nasheval.feedback.readers.any_log import FORMATS

    shown = {one.name: one for one in FORMATS if name.lower() in one.name.lower()}
    if format == "json":
        print_json([{"name": one.name, "kind": one.kind, "example": one.example} for one in shown.values()])
        return
    out = console()
    for one in shown.values():
        out.print(f"[bold]{escaped(one.name)}[/] ({one.kind})", highlight=False)
        out.print(f"  {escaped(one.example)}", highlight=False, soft_wrap=True)
    if not shown:
        out.print(f"No format is called {escaped(name)!r}; `nasheval formats` lists all of them.")
        raise typer.Exit(1)
    out.print(f"\n{_OTHERS}", highlight=False)

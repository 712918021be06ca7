"""`nasheval leaderboard`: who wins, and where."""

from __future__ import annotations

from typing import Annotated

import typer

from nasheval.cli.options import MODEL, grouped
from nasheval.cli.printing import Format, console, print_csv, print_json
from nasheval.cli.standings import rows_of, standings_table


@grouped
def leaderboard(
    model: MODEL,
    by: Annotated[str, typer.Option(help="Context column that makes groups; without one, all contexts.")] = "",
    top: Annotated[int, typer.Option(help="Most agents of a group to show in a table; 0 shows all.", min=0)] = 0,
    format: Annotated[Format, typer.Option(help="A table for people, CSV or JSON for machines.")] = Format.table,
) -> None:
    """Print who wins, and where.

    The lottery is the equilibrium of the group's mean payoffs; range and "wins in" are over bootstrap draws; winners
    are bold. Beside it stands the familiar Bradley-Terry rating.

    Examples:

      nasheval leaderboard model/ --by language

      nasheval leaderboard model/ --by language --format csv > leaderboard.csv
    """
    from nasheval.estimator import load

    rows = rows_of(load(model), by or None)
    if format is Format.json:
        print_json(rows)
    elif format is Format.csv:
        print_csv(rows)
    else:
        console().print(standings_table(rows, by=by or None, top=top))

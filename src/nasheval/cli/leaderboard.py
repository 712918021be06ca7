"""`nasheval leaderboard`: who wins, and where."""

from __future__ import annotations

from typing import Annotated

import typer

from nasheval.cli.options import MODEL, VOTERS, grouped, speaks
from nasheval.cli.printing import Format, console, print_csv, print_json, tell
from nasheval.cli.standings import Board, note_lines, standings_table


@grouped
def leaderboard(
    model: MODEL,
    by: Annotated[str, typer.Option(help="Context column that makes groups; without one, all contexts.")] = "",
    top: Annotated[int, typer.Option(help="Most agents of a group to show in a table; 0 shows all.", min=0)] = 0,
    voters: VOTERS = None,
    format: Annotated[Format, typer.Option(help="A table for people, CSV or JSON for machines.")] = Format.table,
) -> None:
    """Print who wins, and where.

    The lottery is the equilibrium of the group's mean payoffs; range and "wins in" are over bootstrap draws; winners
    are bold. Beside it stands the familiar Bradley-Terry rating. Agents without a vote in a group are no candidates
    there and are left out. "bridged" counts opponents that an agent was never compared with: its payoffs against them
    are bridged through other agents. What to know of the intervals stands below the table; with --format csv or json it
    goes to standard error.

    Examples:

      nasheval leaderboard model/ --by language

      nasheval leaderboard model/ --by language --format csv > leaderboard.csv
    """
    from nasheval.estimator import load

    board = Board.of(load(model), by or None, speaks(voters))
    if format is Format.table:
        out = console()
        out.print(standings_table(board.rows, by=by or None, top=top))
        for line in note_lines(board.notes):
            out.print(line, soft_wrap=True)
        return
    if format is Format.json:
        print_json(board.rows)
    else:
        print_csv(board.rows)
    for line in note_lines(board.notes):
        tell(line.plain)

"""`nasheval leaderboard`: who wins, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nasheval.choices import AS_VOTED, Speaks
from nasheval.cli.options import MARGIN, MODEL, VOTERS, Format, grouped
from nasheval.cli.printing import console, print_csv, print_json, tell
from nasheval.errors import InputError
from nasheval.notes import few

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from nasheval.estimator import NashEval
    from nasheval.scoring.tool_rules import Rule

Row = Mapping[str, Any]
_MOST_WINNERS = 6  # of a group that are named
_MOST_SILENT = 30  # groups of which nothing can be said
_MOST_NOTES = 30  # below a leaderboard
_MOST_NAMES = 4  # of groups that share a note


@grouped
def leaderboard(
    model: MODEL,
    by: Annotated[str, typer.Option(help="Context column that makes groups; without one, all contexts.")] = "",
    top: Annotated[int, typer.Option(help="Most agents per group to show in a table; 0 shows all.", min=0)] = 0,
    costs: Annotated[str, typer.Option(help="What agents cost, as in fit; by default what the model knows.")] = "",
    margin: MARGIN = 0.05,
    voters: VOTERS = None,
    format: Annotated[Format, typer.Option(help="A table for people, CSV or JSON for machines.")] = "table",
) -> None:
    """Print who wins, and where.

    It opens with which agent to ship, or that the votes cannot decide; with costs it is the cheapest agent that is
    shown to be at most --margin worse than the leader.

    The lottery is the equilibrium of the group's mean payoffs; range and "wins in" are over bootstrap draws; winners
    are bold. "tied" are agents that the votes do not tell apart from the leader. Beside it stands the familiar
    Bradley-Terry rating, and for files of arena-hard, AlpacaEval, MT-bench and FastChat the score by that tool's own
    rule, in a column of its name. Agents without a vote in a group are no candidates there and are left out.
    "bridged" counts opponents that an agent was never compared with: its payoffs against them are bridged through
    other agents. Groups whose votes tell no agents apart are named at the end. A model that was fitted with --adjust
    has two leaderboards, at equal style and as voted, and a table of their difference. What to know of the intervals
    stands below the table; with --format csv or json it goes to standard error.

    Examples:

      nasheval leaderboard model/ --by language

      nasheval leaderboard model/ --costs prices.toml --margin 0.03

      nasheval leaderboard model/ --by language --format csv > leaderboard.csv
    """
    from rich.text import Text

    from nasheval.estimator import load

    loaded = load(model)
    decision = loaded.decision(by or None, margin=margin, costs=_costs(costs, loaded), voters=voters)
    boards = [board_of(loaded, by or None, voters)]
    adjusted = loaded.adjustment(voters=voters)
    if adjusted is not None and adjusted.names:
        boards.append(board_of(loaded.as_voted(), by or None, voters, AS_VOTED))
    notes = boards[0][1]
    if format == "table":
        out = console()
        out.print(Text(str(decision), style="bold"))
        for each, _ in boards:
            out.print(standings_table(each, by=by or None, top=top))
            for line in silent_lines(each, by or None):
                out.print(line)
        if adjusted is not None:
            out.print(adjusted)
        for line in note_lines(notes):
            out.print(line, soft_wrap=True)
        return
    (print_json if format == "json" else print_csv)([row for each, _ in boards for row in each])
    tell(str(decision))
    for line in note_lines(notes):
        tell(line.plain)


def board_of(
    model: NashEval, by: str | None = None, voters: Speaks | None = None, estimand: str = ""
) -> tuple[list[dict[str, Any]], dict[str, tuple[str, ...]]]:
    """Return the rows of `NashEval.leaderboard`, and what to know of each group; that of all contexts is called "".

    Args:
        estimand: what rows say that they are of; "": that of the model, and nothing where it is as voted.
    """
    from nasheval.payoff.inference import payoffs_by
    from nasheval.scoring.leaderboard import columns_of, standings

    log = model.stage1_.log
    groups = payoffs_by(model.stage1_.pseudo, by, voters=voters, seed=model.random_state)
    named = estimand or ("" if model.stage1_.estimand == AS_VOTED else model.stage1_.estimand)
    columns, about = (
        columns_of(log, list(standings(log, groups, model.regularizer))),
        {"estimand": named} if named else {},
    )
    rows = [dict(zip(columns, values, strict=True)) | about for values in zip(*columns.values(), strict=True)]
    return rows, {group.name if by else "": group.notes for group in groups}


def _costs(costs: str, model: NashEval) -> dict[str, Any] | None:
    from nasheval.feedback.readers.costs import read_costs

    if "{agent}" in costs:
        raise InputError(f"--costs is {costs!r}; a model does not hold the columns of its log: give a file of prices.")
    return read_costs(costs, "", model.agents_) if costs else None


# -- as text ----------------------------------------------------------------------------------------------------------


def note_lines(notes: Mapping[str, Sequence[str]]) -> Iterator[Text]:
    """Yield one line per note, with the groups that it is about; groups that say the same share a line."""
    from rich.text import Text

    groups: dict[str, list[str]] = {}
    for group, texts in notes.items():
        for text in texts:
            groups.setdefault(text, []).append(group)
    for text, names in list(groups.items())[:_MOST_NOTES]:
        where = few(names, _MOST_NAMES)
        yield Text.assemble(("! ", "yellow"), f"{where}: {text}" if where else text)
    if len(groups) > _MOST_NOTES:
        yield Text(f"... and {len(groups) - _MOST_NOTES} more notes: ask for one group's payoff_interval() in Python")


def standings_table(rows: Sequence[Row], *, by: str | None, top: int = 0) -> Table:
    """Return every agent, or the first `top`, of every group whose votes tell some apart."""
    from rich.table import Table
    from rich.text import Text

    estimand = rows[0].get("estimand", "") if rows else ""
    title = (f"Leaderboard by {by}" if by else "Leaderboard, all contexts") + (f", {estimand}" if estimand else "")
    table = Table(title=title, title_justify="left")
    if by:
        table.add_column(f"{by} (contexts)", overflow="fold")
    table.add_column("agent", overflow="fold")
    bridged, tool = any(row["bridged"] for row in rows), _tool_rule(rows)
    beside = [tool.header] if tool else []
    rating = "rating as voted" if estimand and estimand != AS_VOTED else "rating"
    for name in ("lottery", "range", "wins in", "tied", rating, *beside, "votes", *(["bridged"] if bridged else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for group, members in _groups(rows):
        if by and _silent(members):
            continue
        for place, row in enumerate(members[: top or None]):
            named = [Text(f"{group} ({row['contexts']:,})" if not place else "")] if by else []
            style = "bold" if row["in_support"] else ""
            unmet = [f"{row['bridged']:,}"] if bridged else []
            table.add_row(*named, Text(row["agent"]), *_cells(row, tool), *unmet, style=style)
        if top and len(members) > top:
            table.add_row(*([""] if by else []), f"and {len(members) - top} more", style="dim")
        table.add_section()
    return table


def winners_table(rows: Sequence[Row], by: str) -> Table:
    """Return the winners, one row per group whose votes tell some agents apart."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"Winners by {by}", title_justify="left")
    table.add_column(by, overflow="fold")
    table.add_column("contexts", justify="right")
    for name in ("lottery over the winners", "not told apart from them"):
        table.add_column(name, overflow="fold")
    for group, members in _groups(rows):
        if not _silent(members):
            shares = [f"{row['agent']} {row['lottery']:.2f}" for row in members if row["in_support"]]
            tied = [row["agent"] for row in members if row["tied"] and not row["in_support"]]
            cells = (few(shares, _MOST_WINNERS), few(tied, _MOST_WINNERS))
            table.add_row(Text(group), f"{members[0]['contexts']:,}", *map(Text, cells))
    return table


def silent_lines(rows: Sequence[Row], by: str | None) -> Iterator[Text]:
    """Yield a line that names the groups whose votes tell no agents apart, if there are any."""
    from rich.text import Text

    silent = [f"{group} ({members[0]['contexts']:,})" for group, members in _groups(rows) if _silent(members)]
    if by and silent:
        yield Text(f"{by} where the votes tell no agents apart (contexts): {few(silent, _MOST_SILENT)}")


def _silent(members: Sequence[Row]) -> bool:
    return all(row["tied"] for row in members)


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for group, members in groupby(rows, key=lambda row: str(row["group"])):
        yield group, list(members)


def _tool_rule(rows: Sequence[Row]) -> Rule | None:
    """Return the rule of the tool whose score stands in a leaderboard, if one does."""
    from nasheval.scoring.tool_rules import RULES

    return next((rule for rule in RULES.values() for row in rows[:1] if rule.header in row), None)


def _cells(row: Row, tool: Rule | None) -> list[str]:
    known = row["rating"] is not None and row["rating"] == row["rating"]
    rating = f"{row['rating']:.0f} ± {row['rating_error']:.0f}" if known else "?"
    stable = f"{row['lower']:.2f} to {row['upper']:.2f}"
    share, tied = f"{row['lottery']:.3f}", "yes" if row["tied"] else ""
    beside = [f"{row[tool.header]:.{tool.digits}f}".replace("nan", "?")] if tool else []
    return [share, stable, f"{row['frequency']:.0%}", tied, rating, *beside, f"{row['votes']:,.0f}"]

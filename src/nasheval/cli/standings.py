"""Leaderboards as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from nasheval.estimator import NashEval
    from nasheval.payoff.clusters import Speaks

Row = Mapping[str, Any]
_MOST_WINNERS = 6  # of a group that are named
_MOST_NOTES = 30  # below a leaderboard
_MOST_NAMES = 4  # of groups that share a note


@dataclass(frozen=True)
class Board:
    """A model's leaderboard.

    Args:
        rows: what `NashEval.leaderboard` holds, one row per group and agent.
        notes: of each group what to know of its intervals; the name of the group of all contexts is "".
    """

    rows: list[dict[str, Any]]
    notes: dict[str, tuple[str, ...]]

    @staticmethod
    def of(model: NashEval, by: str | None, voters: Speaks | None = None) -> Board:
        """Return the leaderboard by a context column, or of all contexts."""
        from nasheval.payoff.inference import payoffs_by
        from nasheval.scoring.leaderboard import standings

        groups = payoffs_by(model.stage1_.pseudo, by, voters=voters, seed=model.random_state)
        rows = [asdict(row) for row in standings(model.stage1_.log, groups, model.regularizer)]
        return Board(rows, {group.name if by else "": group.notes for group in groups})


def note_lines(notes: Mapping[str, Sequence[str]]) -> Iterator[Text]:
    """Yield one line per note, with the groups that it is about; groups that say the same share a line."""
    from rich.text import Text

    groups: dict[str, list[str]] = {}
    for group, texts in notes.items():
        for text in texts:
            groups.setdefault(text, []).append(group)
    for number, (text, names) in enumerate(groups.items()):
        if number == _MOST_NOTES:
            yield Text(
                f"... and {len(groups) - _MOST_NOTES} more notes: ask for one group's payoff_interval() in Python"
            )
            return
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        where = ", ".join(names[:_MOST_NAMES]) + more
        yield Text.assemble(("! ", "yellow"), f"{where}: {text}" if where else text)


def usual_column(model: NashEval) -> str | None:
    """Return the first context column with a few values, which make groups that a person can look at."""
    from nasheval.feedback.groups import grouping_columns

    return next(iter(grouping_columns(model.stage1_.log, most=1, quartiles=False)), None)


def standings_table(rows: Sequence[Row], *, by: str | None, top: int = 0) -> Table:
    """Return every agent of every group, or the first `top` of each."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"Leaderboard by {by}" if by else "Leaderboard, all contexts", title_justify="left")
    if by:
        table.add_column(by, overflow="fold")
    table.add_column("agent", overflow="fold")
    bridged = any(row["bridged"] for row in rows)
    for name in ("lottery", "range", "wins in", "rating", "votes", *(["bridged"] if bridged else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for group, those in _groups(rows):
        for place, row in enumerate(those[: top or None]):
            named = [Text(group if not place else "")] if by else []
            style = "bold" if row["in_support"] else ""
            unmet = [f"{row['bridged']:,}"] if bridged else []
            table.add_row(*named, Text(row["agent"]), *_cells(row), *unmet, style=style)
        if top and len(those) > top:
            table.add_row(*([""] if by else []), f"and {len(those) - top} more", style="dim")
        table.add_section()
    return table


def winners_table(rows: Sequence[Row], by: str) -> Table:
    """Return the winners of each group, a row a group."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"Winners by {by}", title_justify="left")
    table.add_column(by, overflow="fold")
    table.add_column("lottery over the winners", overflow="fold")
    for group, those in _groups(rows):
        shares = [f"{row['agent']} {row['lottery']:.2f}" for row in those if row["in_support"]]
        more = f" and {len(shares) - _MOST_WINNERS} more" if len(shares) > _MOST_WINNERS else ""
        table.add_row(Text(group), Text(", ".join(shares[:_MOST_WINNERS]) + more))
    return table


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for group, those in groupby(rows, key=lambda row: str(row["group"])):
        yield group, list(those)


def _cells(row: Row) -> list[str]:
    known = row["rating"] is not None and row["rating"] == row["rating"]
    rating = f"{row['rating']:.0f} ± {row['rating_error']:.0f}" if known else "?"
    stable = f"{row['lower']:.2f} to {row['upper']:.2f}"
    return [f"{row['lottery']:.3f}", stable, f"{row['frequency']:.0%}", rating, f"{row['votes']:,.0f}"]

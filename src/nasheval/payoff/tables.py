"""How results of inference are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from nasheval.payoff.inference import GroupPayoff
    from nasheval.payoff.stability import Stability

_MOST = 30  # rows of a table


def pair_table(group: GroupPayoff) -> Table:
    """Draw each pair with the agent that leads first, the clearest pairs first."""
    j, k = np.triu_indices(len(group.agents), 1)
    ahead = group.estimate[j, k] >= 0
    first, second = np.where(ahead, j, k), np.where(ahead, k, j)
    order = np.lexsort((-group.estimate[first, second], -group.lower[first, second]))
    made = _table(
        f"Mean payoffs of {group.name}: {group.moments.n_contexts:,} contexts, "
        f"intervals of {group.confidence:.0%} for all pairs together",
        len(order), ("agent", "over"), ("payoff", "error", "lower", "upper", "votes"),
    )  # fmt: skip
    for p in order[:_MOST]:
        a, b = int(first[p]), int(second[p])
        numbers = (f"{values[a, b]:+.3f}" for values in (group.estimate, group.error, group.lower, group.upper))
        made.add_row(_text(group.agents[a]), _text(group.agents[b]), *numbers, f"{group.moments.votes[p]:,}")
    return made


def stability_table(found: Stability) -> Table:
    """Draw each agent with its lottery, its range and how often it is among the winners."""
    order = np.lexsort((-found.lottery, -found.frequency))
    title = f"Equilibrium, with the range of {found.confidence:.0%} of bootstrap draws"
    made = _table(title, len(order), ("agent",), ("lottery", "lower", "upper", "among winners"))
    for a in order[:_MOST]:
        numbers = (f"{values[a]:.3f}" for values in (found.lottery, found.lower, found.upper))
        made.add_row(_text(found.agents[a]), *numbers, f"{found.frequency[a]:.1%}")
    return made


def warnings(notes: tuple[str, ...]) -> Iterator[Text]:
    """Draw notes as warnings."""
    from rich.text import Text

    return (Text.assemble(("!", "yellow"), " ", note) for note in notes)


def plain(drawn: object) -> str:
    """Return what would be drawn as text without colours."""
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=110, color_system=None)
    with console.capture() as captured:
        console.print(drawn)
    return captured.get()


def _table(title: str, rows: int, names: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    from rich.table import Table

    made = Table(title=title if rows <= _MOST else f"{title} (first {_MOST} of {rows})", title_justify="left")
    for name in names:
        made.add_column(name, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right")
    return made


def _text(name: str) -> Text:
    from rich.text import Text

    return Text(name)  # an agent may be called "[bold]"

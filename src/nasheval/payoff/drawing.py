"""How results of this room and the next are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_MOST = 30  # rows of a table


def listing(
    title: str, names: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str]], total: int
) -> Table:
    """Draw rows of names and then numbers, the first thirty of them."""
    from rich.table import Table
    from rich.text import Text

    more = f" (first {_MOST} of {total:,})" if total > _MOST else ""
    made = Table(title=Text(title + more), title_justify="left")  # a name may be "[bold]"
    for name in names:
        made.add_column(name, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right")
    for row in islice(rows, _MOST):
        made.add_row(*map(Text, row))
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

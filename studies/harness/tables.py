"""The same table for a terminal or for docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table


def print_table(title: str, columns: Sequence[str], lines: Sequence[Sequence[str]], *, markdown: bool = False) -> None:
    """Print one table, for a terminal or as markdown."""
    if markdown:
        rows = (columns, ["---"] * len(columns), *lines)
        print("\n".join([f"\n{title}\n", *(f"| {' | '.join(cells)} |" for cells in rows)]))
        return
    table = Table(*columns, title=title, title_justify="left")
    for cells in lines:
        table.add_row(*cells)
    Console(width=200).print(table)

"""How results are printed: tables for people, CSV and JSON for machines, nothing else on standard output."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from nasheval.files import json_values
from nasheval.terminal import safe_console, visible

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 120  # columns where nobody says how many there are


def console(*, stderr: bool = False) -> Console:
    """Return where to print for people; colours only on a terminal, and not with NO_COLOR."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _WIDE
    return safe_console(stderr=stderr, width=width, highlight=False)


def tell(message: str) -> None:
    """Say something to whoever looks, on standard error."""
    console(stderr=True).print(escaped(message))


def escaped(text: str) -> str:
    """Return text that rich prints as it is."""
    from rich.markup import escape

    return escape(text)


def print_json(value: Any) -> None:
    """Print plain values as JSON; what is not a finite number is null."""
    escape = not (sys.stdout.encoding or "").lower().startswith("utf")
    typer.echo(json.dumps(json_values(value), indent=1, ensure_ascii=escape, allow_nan=False))


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows with the same keys as CSV."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(rows[0] if rows else [])
    shown = visible if sys.stdout.isatty() else str  # machines get names as they are
    for row in rows:
        out.writerow(shown(v) if isinstance(v, str) else v for v in map(json_values, row.values()))

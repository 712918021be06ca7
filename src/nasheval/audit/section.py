"""What every part of an audit says: sentences, tables and bars that the terminal, the report and Python share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Listing:
    """A table: names on the left, numbers on the right, as text ready to be read.

    Args:
        title: one line.
        names: titles of the columns of text.
        numbers: titles of the columns of numbers.
        rows: texts of each row, names first.
    """

    title: str
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Bars:
    """A chart: one bar per label, from zero, with an interval where one is known.

    Args:
        title: one line that says what is long.
        labels: one per bar.
        values: one per bar; labels, values and limits are of the same length.
        lower: limits of the interval of each bar; empty where none is known.
        upper: as lower.
        marked: whether each bar stands out; empty where none does.
    """

    title: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    marked: tuple[bool, ...] = ()


class Section(Protocol):
    """One part of an audit, as every room that shows it needs it."""

    @property
    def title(self) -> str:
        """A few words."""

    def lines(self) -> list[str]:
        """Return what was found, in sentences, the most important first."""

    def listings(self) -> list[Listing]:
        """Return the tables behind the sentences."""

    def charts(self) -> list[Bars]:
        """Return what is better looked at than read."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values of JSON."""

"""Rows of plain values with a few ways to read them: what the cells of a study give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Floats

Row = dict[str, str | int | float | bool | None]


@dataclass(frozen=True)
class Rows:
    """Rows of a study, in order.

    Args:
        rows: each {column: plain value}; a row may lack columns that others have.
    """

    rows: Sequence[Row]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, **equal: object) -> Rows:
        """Return the rows that have these values."""
        return Rows([row for row in self.rows if all(row.get(name) == value for name, value in equal.items())])

    def distinct(self, column: str) -> list[Any]:
        """Return the values of a column in the order of their first row; rows without one are left out."""
        return list(dict.fromkeys(row[column] for row in self.rows if row.get(column) is not None))

    def values(self, column: str) -> Floats:
        """Return (n,) the numbers of a column; rows without one are left out."""
        return np.array([row[column] for row in self.rows if row.get(column) is not None], np.float64)

    def mean(self, column: str) -> float:
        """Return the mean of a column; NaN without rows."""
        found = self.values(column)
        return float(found.mean()) if len(found) else float("nan")

    def spread(self, column: str) -> float:
        """Return the standard deviation of a column over rows; NaN with fewer than two."""
        found = self.values(column)
        return float(found.std(ddof=1)) if len(found) > 1 else float("nan")

    def text(self, column: str, digits: int = 3) -> str:
        """Return mean ± standard deviation over rows, the mean alone where there is one row, "" without."""
        found = self.values(column)
        if not len(found):
            return ""
        spread = f" ± {self.spread(column):.{digits}f}" if len(found) > 1 else ""
        return f"{found.mean():.{digits}f}{spread}"

"""Rows of plain values with a few ways to read them: what the cells of a study give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.arrays import Floats

Row = dict[str, Any]  # plain values, ready for JSON


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
        numbers = self.values(column)
        return float(numbers.mean()) if len(numbers) else float("nan")

    def spread(self, column: str) -> float:
        """Return the standard deviation of a column over rows; NaN with fewer than two."""
        numbers = self.values(column)
        return float(numbers.std(ddof=1)) if len(numbers) > 1 else float("nan")

    def text(self, column: str, digits: int = 3) -> str:
        """Return mean ± standard deviation over rows, the mean alone where there is one row, "" without."""
        numbers = self.values(column)
        if not len(numbers):
            return ""
        spread = f" ± {self.spread(column):.{digits}f}" if len(numbers) > 1 else ""
        return f"{numbers.mean():.{digits}f}{spread}"

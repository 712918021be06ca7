"""One fitted column: what was learned from the training rows, and the features it becomes.

Every kind keeps one fit and answers in two forms. "trees": one feature, raw numbers with NaN where missing, ordinal
codes for categories. "network": standardised numbers and one-hot categories, always finite.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.contexts.saved import fail, fields, strings
from nasheval.contexts.table import Column
from nasheval.contexts.values import levels_of, numbers, truths

Form = Literal["trees", "network"]
Block: TypeAlias = npt.NDArray[np.float32]

# In n rows no value is more than sqrt(n - 1) standard deviations out, so this never touches training data of up to
# 100 million rows; it only keeps a wild value that comes later from overflowing in a network.
FARTHEST = 1e4


@dataclass(frozen=True)
class _Column:
    """What all kinds share: a name, and a feature of its own for missing values where training data had some."""

    name: str
    missing: bool = field(kw_only=True)
    kind: ClassVar[str]

    def names(self, form: Form) -> list[str]:
        """Name the features of a form."""
        return [self.name, f"{self.name}:missing"] if form == "network" and self.missing else [self.name]

    def to_dict(self) -> dict[str, Any]:
        """Give what `from_dict` takes, as JSON values."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class NumericColumn(_Column):
    """A number: itself for trees, standardised for networks.

    A missing value is NaN for trees. For networks it is the training mean (0), and `{name}:missing` is 1 where
    training data had missing values.

    Args:
        name: the column.
        mean: training mean of the values present.
        scale: their standard deviation, 1 where they are all alike.
        missing: whether training data had missing values.
    """

    mean: float
    scale: float
    kind: ClassVar[str] = "numeric"

    @classmethod
    def fit(cls, name: str, column: Column, max_levels: int) -> NumericColumn:
        """Learn mean, scale and whether values are missing from the training rows."""
        values = numbers(name, column)
        present = values[~np.isnan(values)]
        missing = present.size < values.size
        if not present.size or present.min() == present.max():
            return cls(name, float(present[0]) if present.size else 0.0, 1.0, missing=missing)
        # A spread too small for its square to be a number is no spread.
        return cls(name, float(present.mean()), float(present.std()) or 1.0, missing=missing)

    def write(self, out: Block, column: Column, form: Form) -> None:
        """Write the features of a form into `out`, (n, width) of zeros."""
        values = numbers(self.name, column)
        if form == "trees":
            out[:, 0] = values
            return
        absent = np.isnan(values)
        values = np.clip((values - self.mean) / self.scale, -FARTHEST, FARTHEST)
        out[:, 0] = np.where(absent, 0.0, values)
        if self.missing:
            out[:, 1] = absent

    @classmethod
    def from_dict(cls, saved: object, where: str) -> NumericColumn:
        """Check and rebuild a saved column."""
        values = fields(saved, where, {"kind": str, "name": str, "mean": float, "scale": float, "missing": bool})
        if values["scale"] <= 0:
            fail(where, "'scale' is not positive")
        return cls(values["name"], values["mean"], values["scale"], missing=values["missing"])


@dataclass(frozen=True)
class BooleanColumn(_Column):
    """A truth value: 0 or 1 in both forms.

    A missing value is NaN for trees. For networks it is the training share of true values, and `{name}:missing` is 1
    where training data had missing values.

    Args:
        name: the column.
        share: the share of true among the training values present, 0.5 if there are none.
        missing: whether training data had missing values.
    """

    share: float
    kind: ClassVar[str] = "boolean"

    @classmethod
    def fit(cls, name: str, column: Column, max_levels: int) -> BooleanColumn:
        """Learn the share of true and whether values are missing from the training rows."""
        values = truths(name, column)
        present = values[~np.isnan(values)]
        return cls(name, float(present.mean()) if present.size else 0.5, missing=present.size < values.size)

    def write(self, out: Block, column: Column, form: Form) -> None:
        """Write the features of a form into `out`, (n, width) of zeros."""
        values = truths(self.name, column)
        absent = np.isnan(values)
        out[:, 0] = values if form == "trees" else np.where(absent, self.share, values)
        if form == "network" and self.missing:
            out[:, 1] = absent

    @classmethod
    def from_dict(cls, saved: object, where: str) -> BooleanColumn:
        """Check and rebuild a saved column."""
        values = fields(saved, where, {"kind": str, "name": str, "share": float, "missing": bool})
        if not 0 <= values["share"] <= 1:
            fail(where, "'share' is outside [0, 1]")
        return cls(values["name"], values["share"], missing=values["missing"])


@dataclass(frozen=True)
class CategoricalColumn(_Column):
    """A category: an ordinal code for trees, one-hot for networks.

    Levels are ordered by training frequency, then by name. With L levels, trees get 0 to L-1 for a level, L for any
    other one (rare in training, or never seen) and L+1 for a missing one. Networks get `{name}={level}` for each
    level, `{name}:other` if training had levels beyond the L most frequent, `{name}:missing` if training had missing
    values; what has no feature of its own is zero in all of them.

    Args:
        name: the column.
        levels: the L levels kept.
        pooled: whether training data had levels beyond those.
        missing: whether training data had missing values.
    """

    levels: tuple[str, ...]
    pooled: bool
    kind: ClassVar[str] = "categorical"

    @classmethod
    def fit(cls, name: str, column: Column, max_levels: int) -> CategoricalColumn:
        """Learn the most frequent levels and whether values are missing from the training rows."""
        coded = levels_of(name, column)
        counts = np.bincount(coded.indices.drop_null().to_numpy(), minlength=len(coded.dictionary))
        table = pa.table({"level": coded.dictionary, "count": counts})
        ordered = table.sort_by([("count", "descending"), ("level", "ascending")])["level"]
        kept = tuple(map(str, ordered.slice(0, max_levels).to_pylist()))
        return cls(name, kept, len(ordered) > max_levels, missing=coded.null_count > 0)

    def names(self, form: Form) -> list[str]:
        """Name the features of a form."""
        if form == "trees":
            return [self.name]
        extra = [f"{self.name}:other"] * self.pooled + [f"{self.name}:missing"] * self.missing
        return [f"{self.name}={level}" for level in self.levels] + extra

    def codes(self, column: Column) -> npt.NDArray[np.int64]:
        """Give the ordinal code of each row, (n,)."""
        coded = levels_of(self.name, column)
        known = pc.index_in(coded.dictionary, value_set=pa.array(self.levels, pa.large_string()))
        other, missing = len(self.levels), len(self.levels) + 1
        # One entry more than there are levels: the null index -1 picks the last.
        code: npt.NDArray[np.int64] = np.append(known.fill_null(other).to_numpy(), missing).astype(np.int64)
        rows: npt.NDArray[np.int64] = coded.indices.fill_null(-1).to_numpy()
        return code[rows]

    def write(self, out: Block, column: Column, form: Form) -> None:
        """Write the features of a form into `out`, (n, width) of zeros."""
        codes = self.codes(column)
        if form == "trees":
            out[:, 0] = codes
            return
        kept = len(self.levels)
        feature = np.append(np.arange(kept), [kept if self.pooled else -1, kept + self.pooled if self.missing else -1])
        hot = feature[codes]
        rows = np.flatnonzero(hot >= 0)
        out[rows, hot[rows]] = 1

    @classmethod
    def from_dict(cls, saved: object, where: str) -> CategoricalColumn:
        """Check and rebuild a saved column."""
        values = fields(saved, where, {"kind": str, "name": str, "levels": list, "pooled": bool, "missing": bool})
        levels = strings(values["levels"], f"{where}, 'levels'")
        return cls(values["name"], levels, values["pooled"], missing=values["missing"])


AnyColumn: TypeAlias = NumericColumn | BooleanColumn | CategoricalColumn
KINDS: dict[str, type[AnyColumn]] = {kind.kind: kind for kind in (NumericColumn, BooleanColumn, CategoricalColumn)}

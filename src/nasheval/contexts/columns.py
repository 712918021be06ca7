"""One fitted column: what was learned from the training rows, and the features it becomes.

Every kind keeps one fit and answers in two forms. "trees": one feature (a vector has one per dimension), raw numbers
with NaN where missing, ordinal codes for categories. "network": standardised numbers and one-hot categories, always
finite.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import inf, nan
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import nasheval.compute as pc
from nasheval.contexts.table import Column
from nasheval.contexts.values import LARGEST, Floats, days, levels_of, numbers, truths
from nasheval.contexts.vectors import LARGEST_DIM, Projection, Vectors, projection_from, vectors_of
from nasheval.files import Kinds, require_fields, require_names

Form = Literal["trees", "network"]
Block: TypeAlias = npt.NDArray[np.float32]
One: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]  # features for trees, and those for networks

# In n rows no value is more than sqrt(n - 1) standard deviations out, so this never touches training data of up to
# 100 million rows; it only keeps a wild value that comes later from overflowing in a network.
FARTHEST = 1e4
_NUMBERS = (float, int, np.float64, np.float32, np.int64)
MAX_LEVELS = 50  # of a category; rarer ones are one level, "other"


@dataclass(frozen=True)
class _Column:
    """What all kinds share: a name, and a feature of its own for missing values where training data had some."""

    name: str
    missing: bool = field(kw_only=True)
    kind: ClassVar[str]
    saved: ClassVar[Kinds]

    def names(self, form: Form) -> list[str]:
        """Name the features of a form."""
        return [self.name, f"{self.name}:missing"] if form == "network" and self.missing else [self.name]

    def one(self, value: object) -> One | None:
        """Return the features of one value in both forms, as `write` makes them; None where only `write` can tell.

        It knows plain Python values only, as a service holds them, and no value that is wrong.
        """
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Give what `column_from` takes, as JSON values."""
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
    saved: ClassVar[Kinds] = {"mean": float, "scale": float}

    @staticmethod
    def parse(name: str, column: Column) -> Floats:
        """Return the numbers, (n,) with NaN where missing."""
        return numbers(name, column)

    @classmethod
    def fit(cls, name: str, column: Column) -> NumericColumn:
        """Learn mean, scale and whether values are missing from the training rows."""
        values = cls.parse(name, column)
        present = values[~np.isnan(values)]
        missing = present.size < values.size
        if not present.size or present.min() == present.max():
            return cls(name, float(present[0]) if present.size else 0.0, 1.0, missing=missing)
        # A spread too small for its square to be a number is no spread.
        return cls(name, float(present.mean()), float(present.std()) or 1.0, missing=missing)

    def write(self, out: Block, column: Column, form: Form) -> None:
        """Write the features of a form into `out`, (n, width) of zeros."""
        values = self.parse(self.name, column)
        if form == "trees":
            out[:, 0] = values
            return
        absent = np.isnan(values)
        values = np.clip((values - self.mean) / self.scale, -FARTHEST, FARTHEST)
        out[:, 0] = np.where(absent, 0.0, values)
        if self.missing:
            out[:, 1] = absent

    def one(self, value: object) -> One | None:
        """Return the features of a float, a whole number or None."""
        number = nan if value is None else float(value) if type(value) in _NUMBERS else inf  # type: ignore[arg-type]
        if number != number:
            return (nan,), (0.0, 1.0) if self.missing else (0.0,)
        if not -LARGEST <= number <= LARGEST:
            return None
        standard = min(max((number - self.mean) / self.scale, -FARTHEST), FARTHEST)
        return (number,), (standard, 0.0) if self.missing else (standard,)


@dataclass(frozen=True)
class DateColumn(NumericColumn):
    """A date, or a date with a time: days since 1970, which are then a number; arguments as for `NumericColumn`."""

    kind: ClassVar[str] = "date"

    @staticmethod
    def parse(name: str, column: Column) -> Floats:
        """Return the days, (n,) with NaN where missing."""
        return days(name, column)

    def one(self, value: object) -> One | None:
        """Return the features of None."""
        return super().one(None) if value is None else None


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
    saved: ClassVar[Kinds] = {"share": float}

    @classmethod
    def fit(cls, name: str, column: Column) -> BooleanColumn:
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

    def one(self, value: object) -> One | None:
        """Return the features of True, False or None."""
        if value is None:
            return (nan,), (self.share, 1.0) if self.missing else (self.share,)
        if value is not True and value is not False:
            return None
        return (float(value),), (float(value), 0.0) if self.missing else (float(value),)


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
    saved: ClassVar[Kinds] = {"levels": list, "pooled": bool}

    @classmethod
    def fit(cls, name: str, column: Column) -> CategoricalColumn:
        """Learn the most frequent levels and whether values are missing from the training rows."""
        coded = levels_of(name, column)
        counts = np.bincount(coded.indices.drop_null().to_numpy(), minlength=len(coded.dictionary))
        table = pa.table({"level": coded.dictionary, "count": counts})
        ordered = table.sort_by([("count", "descending"), ("level", "ascending")])["level"]
        kept = tuple(map(str, ordered.slice(0, MAX_LEVELS).to_pylist()))
        return cls(name, kept, len(ordered) > MAX_LEVELS, missing=coded.null_count > 0)

    def names(self, form: Form) -> list[str]:
        """Name the features of a form."""
        if form == "trees":
            return [self.name]
        extra = [f"{self.name}:other"] * self.pooled + [f"{self.name}:missing"] * self.missing
        return [f"{self.name}={level}" for level in self.levels] + extra

    def write(self, out: Block, column: Column, form: Form) -> None:
        """Write the features of a form into `out`, (n, width) of zeros."""
        coded, kept = levels_of(self.name, column), len(self.levels)
        known = pc.index_in(coded.dictionary, value_set=pa.array(self.levels, pa.large_string()))
        # One code more than there are levels: the null index -1 picks the last, that of a missing value.
        code: npt.NDArray[np.int64] = np.append(known.fill_null(kept).to_numpy(), kept + 1).astype(np.int64)
        rows: npt.NDArray[np.int64] = coded.indices.fill_null(-1).to_numpy()
        if form == "trees":
            out[:, 0] = code[rows]
            return
        feature = np.append(np.arange(kept), [kept if self.pooled else -1, kept + self.pooled if self.missing else -1])
        hot = feature[code[rows]]
        rows = np.flatnonzero(hot >= 0)
        out[rows, hot[rows]] = 1

    def one(self, value: object) -> One | None:
        """Return the features of a string or None."""
        if value is None:
            code = len(self.levels) + 1
        elif type(value) is not str or not value.isprintable():  # Arrow has its say on what is no valid Unicode
            return None
        else:
            code = self._codes.get(value, len(self.levels))
        return (float(code),), self._hot[code]

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {level: code for code, level in enumerate(self.levels)}

    @cached_property
    def _hot(self) -> list[tuple[float, ...]]:
        """The features for networks of each code."""
        kept, width = len(self.levels), len(self.names("network"))
        feature = [*range(kept), kept if self.pooled else -1, kept + self.pooled if self.missing else -1]
        return [tuple(float(place == hot) for place in range(width)) for hot in feature]


@dataclass(frozen=True)
class VectorColumn(_Column):
    """A vector, such as an embedding: its numbers as they are for trees, over one scale for all of them for networks.

    A missing vector is NaN for trees. For networks it is zeros, and `{name}:missing` is 1 where training data had
    missing ones.

    Args:
        name: the column.
        size: numbers per vector.
        scale: root mean square length of the training vectors, 1 where there are none.
        cut: what cuts vectors to fewer dimensions, if anything.
        missing: whether training data had missing vectors.
    """

    size: int
    scale: float
    cut: Projection | None = field(default=None, compare=False)
    kind: ClassVar[str] = "vector"
    saved: ClassVar[Kinds] = {"size": int, "scale": float, "cut": (dict, type(None))}

    @classmethod
    def fit(cls, name: str, column: Column, dim: int | None = None) -> VectorColumn:
        """Learn size, scale and whether vectors are missing; with `dim`, longer ones are cut to it by PCA."""
        values, missing = vectors_of(name, column)
        cut = Projection.fit(values, dim) if dim is not None and dim < values.shape[1] else None
        kept = cut.apply(values) if cut else values
        lengths = np.linalg.norm(kept[~missing].astype(np.float64), axis=1)
        scale = float(np.sqrt((lengths**2).mean())) if lengths.size else 1.0
        return cls(name, values.shape[1], scale or 1.0, cut, missing=bool(missing.any()))

    @property
    def width(self) -> int:
        """Dimensions after any cut."""
        return self.size if self.cut is None else self.cut.size

    def names(self, form: Form) -> list[str]:
        """Name the features of a form."""
        extra = [f"{self.name}:missing"] if form == "network" and self.missing else []
        return [f"{self.name}_{i}" for i in range(self.width)] + extra

    def write(self, out: Block, column: Column, form: Form) -> None:
        """Write the features of a form into `out`, (n, width) of zeros."""
        values, missing = vectors_of(self.name, column, self.size)
        out[:] = self._features(values, missing, form)

    def _features(self, values: Vectors, missing: npt.NDArray[np.bool_], form: Form) -> Block:
        values = self.cut.apply(values) if self.cut else values
        if form == "trees":
            return np.where(missing[:, None], np.float32(np.nan), values)
        scaled = np.clip(values / np.float32(self.scale), -FARTHEST, FARTHEST)
        return np.column_stack([scaled, missing]).astype(np.float32) if self.missing else scaled

    def one(self, value: object) -> One | None:
        """Return the features of a list or array of floats, or None."""
        if value is None:
            values, missing = np.zeros((1, self.size), np.float32), np.ones(1, bool)
        elif isinstance(value, np.ndarray) or (type(value) is list and all(type(x) in _NUMBERS for x in value)):
            raw = np.asarray(value, np.float64) if np.asarray(value).dtype.kind in "fi" else np.zeros(0)
            if raw.shape != (self.size,) or not (np.abs(raw) <= LARGEST).all():
                return None
            values, missing = raw.astype(np.float32)[None], np.zeros(1, bool)
        else:
            return None
        trees, network = (self._features(values, missing, form)[0].tolist() for form in ("trees", "network"))
        return tuple(trees), tuple(network)

    def to_dict(self) -> dict[str, Any]:
        """Give what `column_from` takes, as JSON values."""
        cut = None if self.cut is None else self.cut.to_dict()
        plain = {"name": self.name, "missing": self.missing, "size": self.size, "scale": self.scale}
        return {"kind": self.kind, **plain, "cut": cut}


AnyColumn: TypeAlias = NumericColumn | BooleanColumn | CategoricalColumn | VectorColumn
KINDS: dict[str, type[AnyColumn]] = {
    kind.kind: kind for kind in (NumericColumn, DateColumn, BooleanColumn, CategoricalColumn, VectorColumn)
}


def column_from(saved: object, where: str) -> AnyColumn:
    """Rebuild a column that `to_dict` gave; a ValueError says what is wrong with any other value.

    Args:
        where: what to call it in an error.
    """
    kind = saved.get("kind") if isinstance(saved, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"{where}: its kind is not one of {', '.join(map(repr, KINDS))}")
    made = KINDS[kind]
    values = dict(require_fields(saved, where, {"kind": str, "name": str, "missing": bool, **made.saved}))
    if values.get("scale", 1.0) <= 0:
        raise ValueError(f"{where}: 'scale' is not positive")
    if not 0 <= values.get("share", 0.5) <= 1:
        raise ValueError(f"{where}: 'share' is outside [0, 1]")
    if made is CategoricalColumn:
        values["levels"] = require_names(values["levels"], f"{where}, 'levels'")
    if made is VectorColumn:
        values["cut"] = None if values["cut"] is None else projection_from(values["cut"], f"{where}, 'cut'")
        if not 0 <= values["size"] <= LARGEST_DIM or (values["cut"] and len(values["cut"].mean) != values["size"]):
            raise ValueError(f"{where}: 'size' is {values['size']!r:.20}, which no vector has, or does not fit its cut")
    del values["kind"]
    return made(**values)

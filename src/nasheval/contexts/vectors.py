"""Columns of vectors: lists of numbers as one matrix, and PCA, which cuts vectors to fewer dimensions."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import nasheval.compute as pc
from nasheval.arrays import Bools, readonly
from nasheval.contexts.table import Column, is_list, is_number
from nasheval.errors import Argument, InputError, ReadError
from nasheval.files import require_fields

Vectors: TypeAlias = npt.NDArray[np.float32]
LARGEST_DIM = 16_384
_LARGEST = float(np.finfo(np.float32).max)
_MOST_FITTED = 20_000  # vectors that PCA looks at
_CELLS = 1 << 22  # products held at a time
VECTORS_ACCEPTED = "lists of finite numbers, of one length in every row; null where a vector is missing"


def is_vector(kind: pa.DataType) -> bool:
    """Tell whether an Arrow type is that of lists of numbers."""
    return (is_list(kind) or bool(pa.types.is_fixed_size_list(kind))) and is_number(kind.value_type)


@dataclass(frozen=True, eq=False)
class Parsed:
    """A column of lists of numbers.

    Args:
        values: (n, size) float32, zeros where there is no vector.
        missing: (n,) where there is none.
        bad: (n,) where there is something that cannot be used.
        why: what is wrong with the first of those.
    """

    values: Vectors
    missing: Bools
    bad: Bools
    why: str = ""

    @property
    def column(self) -> pa.Array:
        """Lists of one length, the form in which logs keep vectors; null where there is none that can be used."""
        if not self.values.shape[1]:
            return pa.nulls(len(self.values))
        absent = self.missing | self.bad
        mask = pa.array(absent) if absent.any() else None
        return pa.FixedSizeListArray.from_arrays(pa.array(self.values.ravel()), self.values.shape[1], mask=mask)


def parse_vectors(column: Column, size: int | None = None) -> Parsed:
    """Read a column of lists of numbers, each of `size` of them; None: of as many as most lists have."""
    lists = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    missing, bad = np.asarray(lists.is_null()), np.zeros(len(lists), bool)
    rows, present = np.flatnonzero(~missing), lists.drop_null()
    lengths = np.asarray(pc.list_value_length(present)).astype(np.int64)
    wanted = int(np.bincount(lengths).argmax()) if size is None and len(lengths) else size or 0
    values, fits = np.zeros((len(lists), wanted), np.float32), lengths == wanted
    bad[rows[~fits]], why = True, ""
    if not fits.all():
        why = f"a vector of {lengths[~fits][0]:,} numbers where {'others have' if size is None else 'the model has'} "
        return Parsed(values, missing, bad, f"{why}{wanted:,}")
    if wanted > LARGEST_DIM or (not wanted and len(rows)):
        return Parsed(values[:, :0], missing, ~missing, f"vectors of {wanted:,} numbers, not 1 to {LARGEST_DIM:,}")
    held = np.asarray(present.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False))  # NaN where null
    held = held.reshape(len(rows), wanted)
    wild = ~(np.abs(held) <= _LARGEST).all(axis=1)
    bad[rows[wild]] = True
    values[rows[~wild]] = held[~wild]
    return Parsed(values, missing, bad, "a vector with NaN, infinity or null inside" if wild.any() else "")


def vectors_of(name: str, column: Column, size: int | None = None) -> tuple[Vectors, Bools]:
    """Return a column of lists as an (n, size) matrix, zeros where missing, and (n,) which rows are missing.

    Args:
        name: of the column, for errors, which name rows.
        size: numbers per list; None: as many as most have.
    """
    if pa.types.is_null(column.type):
        return np.zeros((len(column), size or 0), np.float32), np.ones(len(column), bool)
    if not is_vector(column.type):
        raise ReadError(f"values of type {column.type} in place of lists of numbers", source="contexts", column=name)
    parsed = parse_vectors(column, size)
    if parsed.bad.any():
        found = np.flatnonzero(parsed.bad)
        raise ReadError(
            parsed.why,
            source="contexts",
            column=name,
            rows=tuple(int(row) + 1 for row in found[:3]),
            total=int(found.size),
            accepted=VECTORS_ACCEPTED,
            fix=("correct the vectors, or leave the column out of ", Argument("context")),
        )
    return parsed.values, parsed.missing


def uniform_vectors(contexts: pa.Table) -> pa.Table:
    """Return contexts whose columns of lists of numbers are of one form; an error names column and rows."""
    for place, each in enumerate(contexts.schema):
        if is_vector(each.type):
            values, missing = vectors_of(each.name, contexts[place])
            column = Parsed(values, missing, np.zeros_like(missing)).column
            contexts = contexts.set_column(place, each.name, column)
    return contexts


def as_bytes(column: pa.FixedSizeListArray) -> pa.Array:
    """Return vectors of one length as bytes, which Arrow can compare."""
    values, missing = vectors_of("", column)
    return pa.array(
        [None if absent else row.tobytes() for row, absent in zip(values, missing, strict=True)], pa.binary()
    )


@dataclass(frozen=True, eq=False)
class Projection:
    """Vectors along their first principal axes: x -> (x - mean) axes; a vector of zeros, a missing one, stays zero.

    Args:
        mean: (p,) float32.
        axes: (p, size) float32, orthonormal columns.
    """

    mean: Vectors
    axes: Vectors

    @property
    def size(self) -> int:
        """Dimensions of what comes out."""
        return self.axes.shape[1]

    @staticmethod
    def fit(vectors: Vectors, size: int) -> Projection:
        """Return the `size` axes along which n vectors, (n, p), vary most; those of zeros are left out."""
        used = vectors[vectors.any(axis=1)]
        used = used[:: max(1, -(-len(used) // _MOST_FITTED))].astype(np.float64)
        mean = used.mean(axis=0) if len(used) else np.zeros(vectors.shape[1])
        _, axes = np.linalg.eigh((used - mean).T @ (used - mean))
        axes = axes[:, ::-1][:, :size]
        signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(size)])  # the sign of an axis is arbitrary
        return Projection(readonly(mean.astype(np.float32)), readonly((axes * signs).astype(np.float32)))

    def apply(self, vectors: Vectors) -> Vectors:
        """Return (n, size); a row does not depend on those beside it, bit for bit, as it would with BLAS."""
        out = np.zeros((len(vectors), self.size), np.float32)
        step = max(1, _CELLS // self.axes.size)
        for start in range(0, len(vectors), step):
            rows = vectors[start : start + step]
            # Summed over the middle axis, in order: numbers of one row are added alike however many rows there are.
            cut = np.add.reduce((rows - self.mean)[:, :, None] * self.axes, axis=1)
            out[start : start + step] = np.where(rows.any(axis=1, keepdims=True), cut, np.float32(0.0))
        return out

    def to_dict(self) -> dict[str, Any]:
        """Give what `projection_from` takes, as JSON values: numbers as base64 of 32-bit floats, so bit for bit."""
        return {"from": len(self.mean), "to": self.size, "mean": _written(self.mean), "axes": _written(self.axes)}


def projection_from(saved: object, where: str) -> Projection:
    """Rebuild a projection that `to_dict` gave; a ValueError says what is wrong with any other value."""
    values = require_fields(saved, where, {"from": int, "to": int, "mean": str, "axes": str})
    before, after = values["from"], values["to"]
    if not 1 <= after <= before <= LARGEST_DIM:
        raise ValueError(f"{where} goes from {before!r:.20} to {after!r:.20} dimensions")
    mean, axes = (_read(values[name], size, where) for name, size in (("mean", before), ("axes", before * after)))
    return Projection(readonly(mean), readonly(axes.reshape(before, after)))


def _written(values: Vectors) -> str:
    return b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode("ascii")


def _read(text: str, size: int, where: str) -> Vectors:
    raw = b64decode(text, validate=True)
    if len(raw) != 4 * size:
        raise ValueError(f"{where} holds {len(raw) // 4:,} numbers in place of {size:,}")
    values = np.frombuffer(raw, "<f4").astype(np.float32)
    if not (np.abs(values) <= 1e6).all():
        raise ValueError(f"{where} holds a number that is not finite, or far too large")
    return values


def check_dim(text_dim: object) -> None:
    """Raise unless `text_dim` is None or a length that a vector can have."""
    if text_dim is not None and (type(text_dim) is not int or not 1 <= text_dim <= LARGEST_DIM):
        accepted = f"accepted is a whole number from 1 to {LARGEST_DIM:,}."
        raise InputError(Argument("text_dim", text_dim), f" is no length of a vector; {accepted}")

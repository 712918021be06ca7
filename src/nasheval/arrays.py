"""Array aliases and the few index helpers that every stage shares."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

# Widths vary (int8 blocks, int32 offsets), so the aliases say what an array holds and leave its width open.
Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]

_Scalar = TypeVar("_Scalar", bound=np.generic)
MAPPED = 1 << 29  # bytes from which on an array lies in a file


def as_number(value: object) -> float:
    """Return a real number as a float, and NaN, which no range holds, for anything else."""
    return math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> bool:
    """Tell whether something is a whole number in a range; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(least <= value <= most)


def readonly(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return a view of the array that refuses to be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def large_zeros(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return zeros; many of them lie in a nameless temporary file, which the system may take out of memory.

    The file is in the folder that TMPDIR names and goes with the array, or with the process, however that ends. Where
    it finds no room, the array is in memory.
    """
    size = 4 * math.prod(shape)
    if size < MAPPED:
        return np.zeros(shape, np.float32)
    try:
        with tempfile.TemporaryFile(prefix="nasheval-") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error now, not a crash when written to
            else:
                file.truncate(size)
            return np.frombuffer(mmap.mmap(file.fileno(), size), np.float32).reshape(shape)
    except OSError:
        return np.zeros(shape, np.float32)


def int_dtype(largest: int) -> np.dtype[Any]:
    """Return the smallest signed integer type that holds values from 0 to `largest`."""
    return np.dtype(next(t for t in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(t).max))


def offsets_of(sizes: Ints) -> Ints:
    """Return where each run starts, (n + 1,), given the run lengths, (n,)."""
    narrow = np.sum(sizes, dtype=np.int64) <= np.iinfo(np.int32).max
    total: Ints = np.zeros(len(sizes) + 1, np.int32 if narrow else np.int64)
    np.cumsum(sizes, dtype=total.dtype, out=total[1:])
    return total


def runs(starts: Ints, sizes: Ints) -> Ints:
    """Return starts[0], starts[0] + 1, ... for each run in turn: the entries of several runs, flat."""
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - sizes), sizes)


def bin_sums(place: Ints, values: Floats, size: int) -> Floats:
    """Return (size,) the sums of the values at each place."""
    sums: Floats = np.bincount(place, values, size).astype(np.float64, copy=False)  # typed as counts by NumPy
    return sums


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values, ascending, and (n,) the place of each value among them; no sort if they ascend."""
    steps = values[1:] != values[:-1]
    if len(values) and (values[1:] >= values[:-1]).all():
        first = np.concatenate([[True], steps])
        return values[first], np.cumsum(first) - 1
    return np.unique(values, return_inverse=True)


def n_pairs(n_agents: int) -> int:
    """Return the number of unordered pairs of agents."""
    return n_agents * (n_agents - 1) // 2


def pair_index(j: Ints, k: Ints, n_agents: int) -> Ints:
    """Return the place of each pair j < k in the order (0, 1), (0, 2), ..., (1, 2), ..."""
    j64 = j.astype(np.int64)
    return j64 * (2 * n_agents - j64 - 1) // 2 + k - j64 - 1

"""Arrays as safetensors, checked for shape and kind of number when they come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nasheval.arrays import Array

_MOST = 1 << 31  # numbers in one array

# A name, and for each array the kind of its numbers ("f" or "i") and its shape; None: any length.
Layout = Mapping[str, tuple[str, tuple[int | None, ...]]]


def tensors_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Return arrays as the bytes of a safetensors file."""
    from safetensors.numpy import save

    return bytes(save({name: np.array(values, order="C") for name, values in arrays.items()}))


def tensors_of(raw: bytes) -> dict[str, Array]:
    """Return the arrays of a safetensors file; raises a ValueError for anything else."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = load(raw)
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"not a readable safetensors file ({error})") from error
    return dict(found)


def require_layout(arrays: Mapping[str, Array], layout: Layout) -> None:
    """Raise a ValueError unless there are exactly these arrays, of these shapes, finite where they are real."""
    if set(arrays) != set(layout):
        odd = sorted(set(arrays) ^ set(layout))[0]
        raise ValueError(f"the array {odd!r:.60} is {'unknown' if odd in arrays else 'missing'}")
    for name, (kind, shape) in layout.items():
        values = arrays[name]
        if values.dtype.kind != kind:
            raise ValueError(f"the array {name!r} holds {values.dtype}")
        if len(values.shape) != len(shape) or any(b not in (None, a) for a, b in zip(values.shape, shape, strict=True)):
            told = tuple("any" if n is None else n for n in shape)
            raise ValueError(f"the array {name!r} has the shape {values.shape} in place of {told}")
        if values.size > _MOST:
            raise ValueError(f"the array {name!r} has {values.size:,} numbers")


def require_finite(arrays: Mapping[str, Any]) -> None:
    """Raise a ValueError where an array holds NaN or infinity."""
    for name, values in arrays.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"the array {name!r} holds a number that is not finite")

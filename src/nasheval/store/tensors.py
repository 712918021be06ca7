"""Arrays as safetensors, checked for shape and kind of number when they come back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nasheval.arrays import Array

_MOST = 1 << 31  # numbers in one array

# The kind and the shape of each array by its name. Kinds: "i" whole numbers, "f" finite numbers, "r" any real numbers.
# Shapes: None stands for any length.
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
        return dict(load(raw))
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"not a readable safetensors file ({error})") from error


def require_layout(arrays: Mapping[str, Array], layout: Layout) -> None:
    """Raise a ValueError unless there are exactly these arrays, of these kinds and shapes."""
    if set(arrays) != set(layout):
        odd = sorted(set(arrays) ^ set(layout))[0]
        raise ValueError(f"the array {odd!r:.60} is {'unknown' if odd in arrays else 'missing'}")
    for name, (kind, shape) in layout.items():
        values = arrays[name]
        if values.dtype.kind != ("i" if kind == "i" else "f"):
            raise ValueError(f"the array {name!r} holds {values.dtype}")
        if len(values.shape) != len(shape) or any(b not in (None, a) for a, b in zip(values.shape, shape, strict=True)):
            expected = tuple("any" if n is None else n for n in shape)
            raise ValueError(f"the array {name!r} has the shape {values.shape} in place of {expected}")
        if values.size > _MOST:
            raise ValueError(f"the array {name!r} has {values.size:,} numbers")
        if kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"the array {name!r} holds a number that is not finite")

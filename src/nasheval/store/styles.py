"""What was adjusted for, on disk: m and beta as safetensors, names and notes in the manifest."""

from __future__ import annotations

from typing import Any

import numpy as np

from nasheval.arrays import n_pairs
from nasheval.feedback.style import columns_of
from nasheval.files import require_fields
from nasheval.notes import Note, code_of
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.nuisance.style import Adjustment, StyleModels
from nasheval.store.folder import Files
from nasheval.store.tensors import require_layout, tensors_bytes, tensors_of

_FILE = "style.safetensors"


def pack_style(style: Adjustment | None, files: dict[str, bytes]) -> dict[str, Any] | None:
    """Add the file of an adjustment to those of a model, and return what the manifest says of it."""
    if style is None:
        return None
    arrays = {"agent": style.models.agent, "pair": style.models.pair, "beta": style.beta}
    files[_FILE] = tensors_bytes(arrays)
    return {
        "names": list(style.names),
        "curved": style.curved,
        "left_out": [[str(note), code_of(note)] for note in style.left_out],
    }


def unpack_style(entry: Any, files: Files, fit: NuisanceFit) -> Adjustment | None:
    """Return the adjustment that `pack_style` wrote; raises a ValueError or ModelFileError for anything else."""
    if entry is None:
        return None
    require_fields(entry, "'style'", {"names": list, "curved": bool, "left_out": list})
    names, left_out = entry["names"], entry["left_out"]
    if not all(type(name) is str for name in names) or len(set(names)) != len(names):
        raise ValueError("'names' in 'style' are no names of columns")
    if not all(type(note) is list and len(note) == 2 and all(type(word) is str for word in note) for note in left_out):
        raise ValueError("'left_out' in 'style' holds something other than notes")
    columns_of(fit.log.whole, names)
    arrays = files.parsed(_FILE, lambda raw: _checked(raw, len(names), fit))
    models = StyleModels(arrays["agent"], arrays["pair"])
    return Adjustment(
        fit, tuple(names), models, arrays["beta"], entry["curved"], tuple(Note(*note) for note in left_out)
    )


def _checked(raw: bytes, columns: int, fit: NuisanceFit) -> dict[str, Any]:
    arrays, K, width = tensors_of(raw), fit.log.n_agents, 1 + fit.X.network.shape[1]
    shapes = {"agent": (fit.n_folds, columns, K, width), "pair": (fit.n_folds, columns, n_pairs(K)), "beta": (columns,)}
    require_layout(arrays, {name: ("f", shape) for name, shape in shapes.items()})
    return {name: np.asarray(values, np.float64) for name, values in arrays.items()}

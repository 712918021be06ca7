"""Tables for users, in the library they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def as_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return a pandas DataFrame; without pandas one of polars; without either a pyarrow Table."""
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return import_module(library).DataFrame(dict(columns))
    return import_module("pyarrow").table(dict(columns))

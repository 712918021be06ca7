"""The functions of `pyarrow.compute`, which takes a tenth of a second to import, loaded when one is first called."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return globals().setdefault(name, getattr(import_module("pyarrow.compute"), name))

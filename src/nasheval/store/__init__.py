"""Saved models: a folder on disk, no pickle; see `nasheval.store.models`, and `nasheval.store.routers` for a part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nasheval.store.models import load as load
    from nasheval.store.models import save as save


def __getattr__(name: str) -> Any:
    """Import what saves and loads whole models when it is asked for: a router needs little of it."""
    if name not in ("load", "save"):
        raise AttributeError(f"module 'nasheval.store' has no attribute {name!r}")
    import nasheval.store.models as models

    return getattr(models, name)

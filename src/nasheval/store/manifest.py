"""`manifest.json`: what a model's folder holds, in a format with a version; strict JSON, taken apart by type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from nasheval.errors import ModelFileError
from nasheval.files import Kinds, require_fields, require_names

FORMAT = "nasheval.model"
VERSION = 1
# How to bring a manifest of an older version to the next one; the files it lists are read as that one says.
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}

_NOTHING = type(None)
_TOP: Kinds = {
    "format": str, "version": int, "package": str, "agents": list, "features": list, "parameters": dict,
    "data": dict, "metrics": dict, "stage1": dict, "policy": dict, "files": dict,
}  # fmt: skip
_DATA: Kinds = {
    "fingerprint": str, "contexts": int, "records": int, "menus": int, "voters": (int, _NOTHING), "design": str,
    "text": (str, _NOTHING), "text_kept": bool,
}  # fmt: skip


def rendered(manifest: Mapping[str, Any]) -> bytes:
    """Return a manifest as JSON, the same bytes for the same values."""
    head = {"format": FORMAT, "version": VERSION, "package": version("nasheval")}
    text = json.dumps({**head, **manifest}, ensure_ascii=False, allow_nan=False, indent=1)
    return f"{text}\n".encode()


def checked_manifest(told: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a manifest of this version's layout, brought here from an older one; a ValueError says what is wrong.

    Args:
        source: what it is called in an error.
    """
    if told.get("format") != FORMAT:
        raise ValueError(f'it does not say "format": "{FORMAT}", so this is not a saved model')
    number, by = told.get("version"), told.get("package")
    if type(number) is not int or number < 1:
        raise ValueError(f"its format version is {number!r:.40}, no whole number of 1 or more")
    if number > VERSION:
        raise ModelFileError(
            f"its format version is {number!r:.40}; it was saved by nasheval {by!r:.40}",
            source=source,
            accepted=f"versions up to {VERSION}",
            fix="upgrade nasheval to load it",
        )
    for older in range(number, VERSION):
        told = MIGRATIONS[older](told)
    require_fields(told, "top level", _TOP)
    require_fields(told["data"], "'data'", _DATA)
    require_names(told["agents"], "'agents'")
    require_names(told["features"], "'features'")
    return told

"""`manifest.json`: what a model's folder holds, in a format with a version; strict JSON, taken apart by type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from math import isfinite
from typing import Any, NoReturn

from nasheval.errors import ModelFileError

FORMAT = "nasheval.model"
VERSION = 1
# How to bring a manifest of an older version to the next one; the files it lists are read as that one says.
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}

_Kinds = type | tuple[type, ...]
_NOTHING = type(None)
_TOP: dict[str, _Kinds] = {
    "format": str, "version": int, "package": str, "agents": list, "features": list, "parameters": dict,
    "data": dict, "metrics": dict, "stage1": dict, "policy": dict, "files": dict,
}  # fmt: skip
_DATA: dict[str, _Kinds] = {
    "fingerprint": str, "contexts": int, "records": int, "menus": int, "voters": (int, _NOTHING), "design": str,
    "text": (str, _NOTHING), "text_kept": bool,
}  # fmt: skip


def rendered(manifest: Mapping[str, Any]) -> bytes:
    """Return a manifest as JSON, the same bytes for the same values."""
    head = {"format": FORMAT, "version": VERSION, "package": version("nasheval")}
    text = json.dumps({**head, **manifest}, ensure_ascii=False, allow_nan=False, indent=1)
    return f"{text}\n".encode()


def parse(raw: bytes) -> dict[str, Any]:
    """Return a JSON object; raises a ValueError for NaN, a key twice, half a character, or nesting without end."""
    try:
        found = json.loads(
            raw.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_distinct
        )
        json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("not valid JSON (nested too deeply)") from None
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"JSON that holds {type(found).__name__} in place of an object")
    return found


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
    fields(told, "top level", _TOP)
    fields(told["data"], "'data'", _DATA)
    _names(told["agents"], "'agents'")
    _names(told["features"], "'features'")
    return told


def fields(value: Any, where: str, kinds: Mapping[str, _Kinds]) -> dict[str, Any]:
    """Return a JSON object that has exactly these keys, each of its type or types; otherwise raise a ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {type(value).__name__} in place of an object")
    if set(value) != set(kinds):
        odd = sorted(set(value) ^ set(kinds))[0]
        raise ValueError(f"{where} {'has an unknown' if odd in value else 'lacks the'} key {odd!r:.60}")
    for name, kind in kinds.items():
        if type(value[name]) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise ValueError(f"{name!r} in {where} is {type(value[name]).__name__}")
    return value


def _names(value: list[Any], where: str) -> None:
    if not all(isinstance(name, str) for name in value):
        raise ValueError(f"{where} holds something other than names")
    if len(set(value)) < len(value):
        raise ValueError(f"{where} holds a name twice")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError(f"{text[:40]} is too large")
    return value

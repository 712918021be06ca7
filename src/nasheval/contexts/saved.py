"""Reading a saved encoder back: JSON is taken apart by type, and nothing in it is trusted or run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from nasheval.errors import InputError

FORMAT = "nasheval.contexts"
VERSION = 1
_FIX = "Save the encoder again with to_json()."


def parse(text: object) -> dict[str, Any]:
    """Parse a saved encoder and check that it is one of ours, in a version this release reads.

    Args:
        text: what `ContextEncoder.to_json` wrote.
    """
    if not isinstance(text, str):
        raise InputError(f"saved encoder: {type(text).__name__}. Accepted: the string that to_json() returns.")
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"saved encoder: not valid JSON ({reason}). {_FIX}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f'saved encoder: JSON without "format": "{FORMAT}". {_FIX}')
    if type(document.get("version")) is not int or document["version"] != VERSION:
        version = repr(document.get("version"))[:40]
        raise InputError(f"saved encoder: version {version}. This release reads version {VERSION}. {_FIX}")
    return document


def fields(value: object, where: str, types: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """Check that a JSON value is an object with exactly these keys and types.

    Args:
        value: the parsed JSON value.
        where: how to name it in an error.
        types: the type, or types, that each key must hold; float must be finite and str valid Unicode.
    """
    if not isinstance(value, dict):
        fail(where, f"{type(value).__name__} in place of an object")
    if set(value) != set(types):
        keys, wanted = ", ".join(sorted(value))[:200], ", ".join(sorted(types))
        fail(where, f"the keys are {keys or 'none'} in place of {wanted}")
    for key, kinds in types.items():
        if type(value[key]) not in (kinds if isinstance(kinds, tuple) else (kinds,)):
            fail(where, f"{key!r} is {type(value[key]).__name__}")
        _check_value(value[key], f"{where}, {key!r}")
    return value


def strings(value: list[Any], where: str) -> tuple[str, ...]:
    """Check that a JSON list holds distinct, valid strings.

    Args:
        value: the parsed list.
        where: how to name it in an error.
    """
    for item in value:
        if not isinstance(item, str):
            fail(where, f"{type(item).__name__} in place of a string")
        _check_value(item, where)
    if len(set(value)) < len(value):
        fail(where, "the same string twice")
    return tuple(value)


def fail(where: str, what: str) -> NoReturn:
    """Raise the one error that every fault in a saved encoder leads to."""
    raise InputError(f"saved encoder: {where}: {what}. {_FIX}")


def _check_value(value: object, where: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        fail(where, f"{value} is not finite")
    # JSON can spell half of a surrogate pair, which is no text and which Arrow cannot hold.
    if isinstance(value, str) and not value.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in value):
        fail(where, "not valid Unicode")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")

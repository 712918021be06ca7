"""Reading a saved encoder back: JSON is taken apart by type, and nothing in it is trusted or run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from nasheval.errors import InputError
from nasheval.files import Kinds, parse_json, require_fields, require_names

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
    with _refusing():
        document = parse_json(text)
    if document.get("format") != FORMAT:
        raise InputError(f'saved encoder: JSON without "format": "{FORMAT}". {_FIX}')
    if type(document.get("version")) is not int or document["version"] != VERSION:
        version = repr(document.get("version"))[:40]
        raise InputError(f"saved encoder: version {version}. This release reads version {VERSION}. {_FIX}")
    return document


def fields(value: object, where: str, kinds: Kinds) -> dict[str, Any]:
    """Return a JSON object that has exactly these keys, each of its type or types.

    Args:
        value: the parsed JSON value.
        where: how to name it in an error.
        kinds: the type, or types, that each key must hold.
    """
    with _refusing():
        return require_fields(value, where, kinds)


def strings(values: list[Any], where: str) -> tuple[str, ...]:
    """Return a JSON list of distinct strings.

    Args:
        values: the parsed list.
        where: how to name it in an error.
    """
    with _refusing():
        return require_names(values, where)


def fail(where: str, what: str) -> NoReturn:
    """Raise the one error that every fault in a saved encoder leads to."""
    raise InputError(f"saved encoder: {where}: {what}. {_FIX}")


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise InputError(f"saved encoder: {error}. {_FIX}") from error

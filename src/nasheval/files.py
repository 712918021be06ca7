"""Files on disk: strict JSON, plain files read without following links, and files written whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from math import isfinite
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, NoReturn

from nasheval.errors import InputError

Kinds = Mapping[str, type | tuple[type, ...]]  # the type, or types, that each key of a JSON object must hold


# -- JSON -------------------------------------------------------------------------------------------------------------


def parse_json(raw: bytes | str) -> dict[str, Any]:
    """Return a JSON object; raises a ValueError for NaN, a key twice, half a character, or nesting without end."""
    try:
        text = raw if isinstance(raw, str) else raw.decode("utf-8")
        value = _STRICT.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # fails at half of a surrogate pair, which JSON can spell
    except RecursionError:
        raise ValueError("not valid JSON (nested too deeply)") from None
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"JSON that holds {type(value).__name__} in place of an object")
    return value


def require_fields(value: object, where: str, kinds: Kinds) -> dict[str, Any]:
    """Return a JSON object that has exactly these keys, each of its types; else raise a ValueError that says where."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {type(value).__name__} in place of an object")
    if set(value) != set(kinds):
        odd = sorted(set(value) ^ set(kinds))[0]
        raise ValueError(f"{where} {'has an unknown' if odd in value else 'lacks the'} key {odd!r:.60}")
    for name, kind in kinds.items():
        if type(value[name]) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise ValueError(f"{name!r} in {where} is {type(value[name]).__name__}")
    return value


def require_names(values: list[Any], where: str) -> tuple[str, ...]:
    """Return a JSON list of distinct strings; otherwise raise a ValueError."""
    if not all(isinstance(name, str) for name in values):
        raise ValueError(f"{where} holds something other than strings")
    if len(set(values)) < len(values):
        raise ValueError(f"{where} holds the same string twice")
    return tuple(values)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError(f"{text[:40]} is too large")
    return value


_STRICT = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_distinct)


def json_values(value: Any) -> Any:
    """Return dictionaries, sequences and arrays as JSON can hold them; what is not a finite number becomes None."""
    if isinstance(value, Mapping):
        return {str(name): json_values(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(one) for one in value]
    if hasattr(value, "tolist"):  # an array, or a number of NumPy's
        return json_values(value.tolist())
    if hasattr(value, "isoformat"):  # a date
        return value.isoformat()
    return None if isinstance(value, float) and not isfinite(value) else value


# -- reading and writing ----------------------------------------------------------------------------------------------


def read_plain(file: Path, most: int) -> bytes:
    """Return what a plain file holds, at most so many bytes; a link, a folder or a pipe is refused, not followed."""
    if file.is_symlink():
        raise ValueError("it is a link, which is not followed")
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as opened:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a plain file")
        if status.st_size > most:
            raise ValueError(f"it has {status.st_size:,} bytes where at most {most:,} are expected")
        return opened.read(most)


def check_folder(path: Path) -> None:
    """Raise an InputError unless there is a folder to write a file into."""
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {str(path.parent)!r} to write {path.name!r} into; create it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"The folder {str(path.parent)!r} may not be written to; give another place.")


def check_file(path: Path, ending: str = "") -> None:
    """Raise an InputError where no file can be written: without a folder to hold it, or at the name of a folder.

    Args:
        ending: of the names of files of the format that is written; "": any will do.
    """
    if not path.name.lower().endswith(ending):
        raise InputError(f"{path}: what is written takes another ending; give a file whose name ends in {ending}.")
    check_folder(path)
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; give the name of a file to write.")


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file to write, durable at the end; whatever is at its name, a link too, is an OSError."""
    with open(path, "xb") as file:  # O_CREAT | O_EXCL, which follows no link
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a file to write, which is at its place once all of it is written and durable, or not at all.

    It is written under a random name in the same folder and then renamed, so that a link at its place is replaced,
    not followed; a plain file there leaves it its permissions. A pipe or a device stays and is written into at the end.
    """
    target = Path(path)
    check_file(target)
    folder = str(target.parent.resolve())
    open_files = folder in ("/dev", "/dev/fd") or folder.startswith("/proc/")  # standard output, whatever it is
    if target.exists() and (open_files or not target.is_file()):
        held = BytesIO()
        yield held
        with open(target, "ab") as stream:  # a file that standard output was redirected to is not cut off
            stream.write(held.getvalue())
        return
    partial = target.with_name(f".nasheval-{token_hex(8)}.partial")
    try:
        with new_file(partial) as file:
            if target.is_file() and not target.is_symlink():
                partial.chmod(stat.S_IMODE(target.stat().st_mode))
            yield file
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

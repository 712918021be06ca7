"""A model's folder: files in one level beside `manifest.json`, which tells the size and SHA-256 of each.

A folder is written under another name beside its place, made durable, and renamed. Reading opens plain files only,
by names that cannot lead anywhere else, and hashes what it then parses. Hashes tell damage, not forgery: whoever edits
a file can edit its hash, so every file is checked again for what it holds.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import Any

from nasheval.errors import Argument, InputError, ModelFileError
from nasheval.feedback.arrow_columns import one_line
from nasheval.files import check_folder, new_file, parse_json, read_plain, sync_folder
from nasheval.store.manifest import FORMAT, checked_manifest, rendered

MANIFEST = "manifest.json"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(json|parquet|safetensors|txt)")
_MOST_FILES = 10_000
_MOST_BYTES = 1 << 34
_MOST_MANIFEST = 1 << 26
_AGAIN = "copy the folder again from where it was saved, or save the model again"


# -- reading ----------------------------------------------------------------------------------------------------------


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn whatever goes wrong inside into a ModelFileError that names the file.

    Every exception, on purpose: a file may be damaged in more ways than the libraries that parse it have errors for.
    """
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        raise _fault(file, one_line(error)[:500]) from error


class Files:
    """The files of a saved model, each read once and checked against the manifest.

    Args:
        folder: where they are.
        told: {name: {"bytes": size, "sha256": hash}}, as in the manifest.
    """

    def __init__(self, folder: Path, told: Mapping[str, Any]) -> None:
        self.folder, self._told, self._left = folder, told, set(told)

    def path(self, name: str) -> Path:
        """Return where a file is."""
        return self.folder / name

    def read(self, name: str) -> bytes:
        """Return what a file holds."""
        if name not in self._told:
            raise _fault(self.folder / MANIFEST, f"it does not list {name!r}, which belongs to this model")
        self._left.discard(name)
        return _checked_bytes(self.path(name), self._told[name])

    def finish(self) -> None:
        """Raise where a listed file was not asked for."""
        if self._left:
            raise _fault(self.folder / MANIFEST, f"it lists {min(self._left)!r}, which is no part of this model")


def open_folder(path: str | PathLike[str]) -> tuple[dict[str, Any], Files]:
    """Return the manifest of a saved model and its files; raises a ModelFileError for anything else."""
    folder = Path(path)
    if not folder.is_dir():
        raise _fault(folder, "there is no folder here", "give the folder that save() wrote")
    with reading(folder):
        entries = [entry.name for entry in os.scandir(folder)]
    if MANIFEST not in entries:
        raise _fault(folder, f"there is no {MANIFEST} in this folder", "give the folder that save() wrote")
    place = folder / MANIFEST
    with reading(place):
        manifest = checked_manifest(parse_json(read_plain(place, _MOST_MANIFEST)), str(place))
        _check_names(manifest["files"])
    _check_listing(folder, set(entries) - {MANIFEST}, set(manifest["files"]))
    return manifest, Files(folder, manifest["files"])


def _check_names(files: Mapping[str, Any]) -> None:
    if len(files) > _MOST_FILES:
        raise ValueError(f"it lists {len(files):,} files, more than {_MOST_FILES:,}")
    for name, told in files.items():
        if not _NAME.fullmatch(name) or name == MANIFEST:
            raise ValueError(f"it lists {name!r:.80}, no name of a file of a model")
        size, digest = (told.get(key) for key in ("bytes", "sha256")) if isinstance(told, dict) else (None, None)
        if type(size) is not int or not 0 <= size <= _MOST_BYTES or len(told) != 2:
            raise ValueError(f"it tells no size that {name} could have")
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError(f"it tells no SHA-256 of {name}")


def _check_listing(folder: Path, there: set[str], listed: set[str]) -> None:
    if missing := sorted(listed - there):
        raise _fault(folder / missing[0], "this file is missing")
    if extra := sorted(there - listed):
        raise _fault(folder / extra[0], f"this is no part of the model: {MANIFEST} does not list it", "remove it")


def _checked_bytes(file: Path, told: Mapping[str, Any]) -> bytes:
    with reading(file):
        found = read_plain(file, told["bytes"])
    if len(found) != told["bytes"]:
        raise _fault(file, f"it has {len(found):,} bytes where {MANIFEST} tells of {told['bytes']:,}: it was cut off")
    if sha256(found).hexdigest() != told["sha256"]:
        raise _fault(file, f"its SHA-256 is not the one in {MANIFEST}: it was damaged or edited")
    return found


def _fault(file: Path, what: str, fix: str = _AGAIN) -> ModelFileError:
    return ModelFileError(what, source=str(file), fix=fix)


# -- writing ----------------------------------------------------------------------------------------------------------


def write_folder(
    path: str | PathLike[str], manifest: Mapping[str, Any], files: Mapping[str, bytes], *, overwrite: bool = False
) -> None:
    """Write a model's folder, all of it or nothing.

    Args:
        manifest: what it tells beside `files`.
        files: what each file holds.
        overwrite: whether to replace a saved model that is there.
    """
    target = Path(path).resolve()
    check_target(target, overwrite)
    partial = target.with_name(f".{target.name}.{token_hex(4)}.partial")
    partial.mkdir()
    try:
        _fill(partial, manifest, files)
        _swap(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(target.parent)


def check_target(target: Path, overwrite: bool) -> None:
    """Raise an InputError unless a model may be written to a place."""
    check_folder(target)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not _is_model(target):
        raise InputError(f"{str(target)!r} is there already, and is not just a saved model; give another place.")
    if not overwrite:
        advice = ("give ", Argument("overwrite", True), ", or another place.")
        raise InputError(f"There is a model at {str(target)!r} already; ", *advice)


def _is_model(target: Path) -> bool:
    """Tell whether there is nothing here but a saved model, so that replacing it loses nothing else."""
    try:
        told = parse_json(read_plain(target / MANIFEST, _MOST_MANIFEST))
        listed = told["files"] if told["format"] == FORMAT else {}
        return {entry.name for entry in os.scandir(target)} <= {MANIFEST, *listed}
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _fill(folder: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    listed = {name: {"bytes": len(held), "sha256": sha256(held).hexdigest()} for name, held in sorted(files.items())}
    for name, held in {**files, MANIFEST: rendered({**manifest, "files": listed})}.items():
        with new_file(folder / name) as file:
            file.write(held)
    sync_folder(folder)


def _swap(partial: Path, target: Path) -> None:
    """Put a finished folder in its place; what was there is back if that fails, and gone once it worked."""
    if not target.exists():
        partial.rename(target)
        return
    old = target.with_name(f"{partial.name.removesuffix('.partial')}.old")
    target.rename(old)
    try:
        partial.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)

"""A model's folder: files in one level beside `manifest.json`, strict JSON with the size and SHA-256 of each.

A folder is written under another name beside its place, made durable, and renamed. Reading opens plain files only,
by names that cannot lead anywhere else, and hashes what it then parses. Hashes tell damage, not forgery: whoever edits
a file can edit its hash, so every file is checked again for what it holds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from nasheval.errors import Argument, InputError, ModelFileError, one_line
from nasheval.files import (
    Kinds,
    check_folder,
    new_file,
    parse_json,
    read_plain,
    require_fields,
    require_names,
    sync_folder,
)

MANIFEST = "manifest.json"
FORMAT, VERSION = "nasheval.model", 1
_NOTHING = type(None)
_TOP: Kinds = {
    "format": str, "version": int, "package": str, "agents": list, "features": list, "parameters": dict,
    "data": dict, "metrics": dict, "stage1": dict, "policy": dict, "files": dict,
}  # fmt: skip
_DATA: Kinds = {
    "fingerprint": str, "contexts": int, "records": int, "menus": int, "voters": (int, _NOTHING), "design": str,
    "text": (str, list, _NOTHING), "text_kept": bool,
}  # fmt: skip
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(json|parquet|safetensors|txt)")
_MOST_FILES = 10_000
_MOST_BYTES = 1 << 34
_MOST_MANIFEST = 1 << 26
_Parsed = TypeVar("_Parsed")
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
        listed: {name: {"bytes": size, "sha256": hash}}, as in the manifest.
    """

    def __init__(self, folder: Path, listed: Mapping[str, Any]) -> None:
        self.folder, self._listed, self._unread = folder, listed, set(listed)

    def __contains__(self, name: object) -> bool:
        return name in self._listed

    def parsed(self, name: str, parse: Callable[[bytes], _Parsed]) -> _Parsed:
        """Return what `parse` makes of a file; whatever goes wrong is a ModelFileError that names the file."""
        if name not in self._listed:
            raise _fault(self.folder / MANIFEST, f"it does not list {name!r}, which belongs to this model")
        self._unread.discard(name)
        size, digest = self._listed[name]["bytes"], self._listed[name]["sha256"]
        with reading(self.folder / name):
            raw = read_plain(self.folder / name, size)
            if len(raw) != size:
                raise ValueError(f"it has {len(raw):,} bytes where {MANIFEST} tells of {size:,}: it was cut off")
            if sha256(raw).hexdigest() != digest:
                raise ValueError(f"its SHA-256 is not the one in {MANIFEST}: it was damaged or edited")
            return parse(raw)

    def finish(self) -> None:
        """Raise where a listed file was not asked for."""
        if self._unread:
            raise _fault(self.folder / MANIFEST, f"it lists {min(self._unread)!r}, which is no part of this model")


def open_folder(path: str | PathLike[str]) -> tuple[dict[str, Any], Files]:
    """Return the manifest of a saved model and its files; raises a ModelFileError for anything else."""
    folder = Path(path)
    if not folder.is_dir():
        raise _fault(folder, "there is no folder here", "give the folder that save() wrote")
    with reading(folder):
        entries = {entry.name for entry in os.scandir(folder)}
    if MANIFEST not in entries:
        raise _fault(folder, f"there is no {MANIFEST} in this folder", "give the folder that save() wrote")
    with reading(folder / MANIFEST):
        manifest = parse_json(read_plain(folder / MANIFEST, _MOST_MANIFEST))
        _check_manifest(manifest, str(folder / MANIFEST))
        _check_names(manifest["files"])
    if missing := sorted(set(manifest["files"]) - entries):
        raise _fault(folder / missing[0], "this file is missing")
    if extra := sorted(entries - {MANIFEST, *manifest["files"]}):
        raise _fault(folder / extra[0], f"this is no part of the model: {MANIFEST} does not list it", "remove it")
    return manifest, Files(folder, manifest["files"])


def _check_manifest(manifest: dict[str, Any], source: str) -> None:
    if manifest.get("format") != FORMAT:
        raise ValueError(f'it does not say "format": "{FORMAT}", so this is not a saved model')
    number, package = manifest.get("version"), manifest.get("package")
    if type(number) is not int or number < 1:
        raise ValueError(f"its format version is {number!r:.40}, no whole number of 1 or more")
    if number > VERSION:
        raise ModelFileError(
            f"its format version is {number!r:.40}; it was saved by nasheval {package!r:.40}",
            source=source,
            accepted=f"versions up to {VERSION}",
            fix="upgrade nasheval to load it",
        )
    require_fields(manifest, "top level", _TOP)
    require_fields(manifest["data"], "'data'", _DATA)
    require_names(manifest["agents"], "'agents'")
    require_names(manifest["features"], "'features'")
    if isinstance(manifest["data"]["text"], list):
        require_names(manifest["data"]["text"], "'text'")


def _check_names(files: Mapping[str, Any]) -> None:
    if len(files) > _MOST_FILES:
        raise ValueError(f"it lists {len(files):,} files, more than {_MOST_FILES:,}")
    for name, entry in files.items():
        if not _NAME.fullmatch(name) or name == MANIFEST:
            raise ValueError(f"it lists {name!r:.80}, no name of a file of a model")
        size, digest = (entry.get(key) for key in ("bytes", "sha256")) if isinstance(entry, dict) else (None, None)
        if type(size) is not int or not 0 <= size <= _MOST_BYTES or len(entry) != 2:
            raise ValueError(f"it tells no size that {name} could have")
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError(f"it tells no SHA-256 of {name}")


def _fault(file: Path, what: str, fix: str = _AGAIN) -> ModelFileError:
    return ModelFileError(what, source=str(file), fix=fix)


# -- writing ----------------------------------------------------------------------------------------------------------


def write_folder(
    path: str | PathLike[str], manifest: Mapping[str, Any], files: Mapping[str, bytes], *, overwrite: bool = False
) -> None:
    """Write a model's folder, all of it or nothing; `manifest` is without what it tells of `files`."""
    target = Path(path).resolve()
    check_target(target, overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{token_hex(4)}.partial")
    partial.mkdir()
    try:
        _fill(partial, manifest, files)
        _swap(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(target.parent)
    left = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.old")  # by a save that was cut short
    for entry in os.scandir(target.parent):
        if left.fullmatch(entry.name):
            shutil.rmtree(entry, ignore_errors=True)


def check_target(target: Path, overwrite: bool) -> None:
    """Raise an InputError unless a model may be written to a place; folders above it that are missing are made."""
    check_folder(next(folder for folder in target.parents if folder.exists()) / target.name)
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
        manifest = parse_json(read_plain(target / MANIFEST, _MOST_MANIFEST))
        listed = manifest["files"] if manifest["format"] == FORMAT else {}
        return {entry.name for entry in os.scandir(target)} <= {MANIFEST, *listed}
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _fill(folder: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    head = {"format": FORMAT, "version": VERSION, "package": version("nasheval")}
    listed = {name: {"bytes": len(raw), "sha256": sha256(raw).hexdigest()} for name, raw in sorted(files.items())}
    text = json.dumps({**head, **manifest, "files": listed}, ensure_ascii=False, allow_nan=False, indent=1)
    for name, raw in {**files, MANIFEST: f"{text}\n".encode()}.items():
        with new_file(folder / name) as file:
            file.write(raw)
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

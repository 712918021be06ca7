"""API keys: shown once, kept as SHA-256, each with its scopes.

A key holds 256 random bits, so a plain hash of it cannot be searched; what a slow hash is for are passwords.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe

from nasheval.errors import InputError, ReadError
from nasheval.files import whole_file

SCOPES = ("route", "vote", "admin")
PREFIX = "ne_"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")
_LONGEST = 200  # characters of a key that is looked up


@dataclass(frozen=True)
class Key:
    """A key as it is kept.

    Args:
        name: whose it is; stored with every vote that came with it.
        sha256: of the key.
        scopes: what it may do, of `SCOPES`.
        created: when, as text.
    """

    name: str
    sha256: str
    scopes: tuple[str, ...]
    created: str = ""


class Keys:
    """The keys of a file, read again when the file changes; a file that cannot be read leaves those read before."""

    def __init__(self, path: str) -> None:
        self.path, self._stamp = Path(path), (0, 0)
        self._keys = read_keys(self.path)
        self._stamp = self._stamped()

    def refresh(self) -> str | None:
        """Read the file again where it changed; return what is wrong with it, None where nothing is."""
        try:
            if (stamp := self._stamped()) != self._stamp:
                self._keys, self._stamp = read_keys(self.path), stamp
        except (InputError, OSError) as error:
            return " ".join(str(error).split())
        return None

    def find(self, given: str) -> Key | None:
        """Return the key that was given; takes the same time whichever it is."""
        digest = sha256(given[:_LONGEST].encode("utf-8", "replace")).hexdigest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found

    def _stamped(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_mtime_ns, status.st_size


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file; raises a ReadError where it is none."""
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _fault(path, f"it cannot be read as TOML ({error})") from None
    entries = written.get("keys", {})
    if set(written) - {"keys"} or not isinstance(entries, dict):
        raise _fault(path, "it holds something other than [keys.NAME]")
    return [_key(path, name, entry) for name, entry in entries.items()]


def _key(path: Path, name: str, entry: object) -> Key:
    if not isinstance(entry, dict) or set(entry) - {"sha256", "scopes", "created"}:
        raise _fault(path, f"the key {name!r:.80} holds something other than sha256, scopes and created")
    digest, scopes = entry.get("sha256"), entry.get("scopes")
    if not isinstance(digest, str) or not _HASH.fullmatch(digest):
        raise _fault(path, f"the key {name!r:.80} has no SHA-256")
    if not isinstance(scopes, list) or not scopes or any(scope not in SCOPES for scope in scopes):
        raise _fault(path, f"the key {name!r:.80} has scopes other than {', '.join(SCOPES)}")
    return Key(name, digest, tuple(scopes), str(entry.get("created", "")))


def new_key(path: Path, name: str, scopes: Iterable[str]) -> str:
    """Add a key to a file and return it, the only time that it can be read."""
    chosen = tuple(dict.fromkeys(scopes))
    if unknown := [scope for scope in chosen if scope not in SCOPES]:
        raise InputError(f"There is no scope {unknown[0]!r}; accepted are {', '.join(SCOPES)}, with commas.")
    if not chosen:
        raise InputError(f"A key needs a scope; accepted are {', '.join(SCOPES)}, with commas.")
    if not _NAME.fullmatch(name):
        raise InputError(f"The name {name!r} is no name of a key: use small letters, digits, - and _, such as arena-1.")
    kept = read_keys(path) if path.exists() else []
    if any(key.name == name for key in kept):
        raise InputError(f"{path} has a key {name!r} already; choose another name, or revoke that one first.")
    key = PREFIX + token_urlsafe(32)
    digest, now = sha256(key.encode()).hexdigest(), datetime.now(UTC).isoformat(timespec="seconds")
    _write(path, [*kept, Key(name, digest, chosen, now)])
    return key


def revoke(path: Path, name: str) -> None:
    """Remove a key from a file; running services forget it within seconds."""
    kept = read_keys(path)
    if all(key.name != name for key in kept):
        raise InputError(f"{path} has no key {name!r}; it has {', '.join(key.name for key in kept) or 'none'}.")
    _write(path, [key for key in kept if key.name != name])


def _write(path: Path, keys: list[Key]) -> None:
    lines = ["# API keys of a NashEval service; only hashes are kept. `nasheval keys` adds, lists and revokes them.\n"]
    for key in keys:
        scopes = ", ".join(f'"{scope}"' for scope in key.scopes)
        lines.append(f'\n[keys.{key.name}]\nsha256 = "{key.sha256}"\nscopes = [{scopes}]\n')
        lines.append(f"created = {json.dumps(key.created)}\n")
    with whole_file(path) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write("".join(lines).encode())


def _fault(path: Path, what: str) -> ReadError:
    return ReadError(what, source=str(path), fix="make one with `nasheval keys new --scope route,vote`")

"""Versions of the model: each copied into a folder of its own, so that nothing outside can change it; one serves.

Which one is the last row of the table `serving`. Rows are only added, so what served when is known for ever.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, insert, select

from nasheval.errors import InputError, ModelFileError
from nasheval.files import new_file, read_plain, sync_folder
from nasheval.serving.clock import now
from nasheval.serving.database import writing
from nasheval.serving.schema import MODELS, SERVING
from nasheval.store.folder import MANIFEST, open_folder

if TYPE_CHECKING:
    from nasheval.policy.router import Router

_LENGTH = 16  # characters of a version's name


@dataclass(frozen=True)
class Version:
    """A version of the model.

    Args:
        name: the first digits of its manifest's SHA-256, which stands for all its files.
        folder: where it lies.
        at: when it came, in seconds since 1970.
        origin: "given" to `serve`, or "refit".
        votes_until: number of the last vote that it was fitted on; 0: none of this store.
        note: a sentence.
    """

    name: str
    folder: Path
    at: float
    origin: str
    votes_until: int
    note: str


class Versions:
    """The versions that a store knows.

    Args:
        engine: of the store.
        folder: where they are kept.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder

    def add(self, model: str | Path, *, origin: str = "given", votes_until: int = 0, note: str = "") -> Version:
        """Copy a model into the folder of versions and return it; one that is there already stays as it is."""
        name = copied(Path(model), self.folder)
        row = {"version": name, "folder": name, "at": now(), "origin": origin, "votes_until": votes_until, "note": note}
        with writing(self.engine) as connection:
            if connection.execute(select(MODELS.c.version).where(MODELS.c.version == name)).first() is None:
                connection.execute(insert(MODELS).values(row))
        return self[name]

    def __getitem__(self, name: str) -> Version:
        with self.engine.connect() as connection:
            row = connection.execute(select(MODELS).where(MODELS.c.version == name)).mappings().first()
        if row is None:
            known = ", ".join(version.name for version in self.all()) or "none"
            raise InputError(f"There is no version {name!r} in this store; it has {known}.")
        return self._version(row)

    def all(self) -> list[Version]:
        """Return all versions, the oldest first."""
        with self.engine.connect() as connection:
            return [self._version(row) for row in connection.execute(select(MODELS).order_by(MODELS.c.at)).mappings()]

    def current(self) -> str | None:
        """Return the name of the version that serves; None where none does yet."""
        with self.engine.connect() as connection:
            return connection.execute(select(SERVING.c.version).order_by(SERVING.c.seq.desc()).limit(1)).scalar()

    def history(self) -> list[tuple[str, float, str]]:
        """Return (version, when, why) of each change, the latest first."""
        rows = select(SERVING.c.version, SERVING.c.at, SERVING.c.reason).order_by(SERVING.c.seq.desc())
        with self.engine.connect() as connection:
            return [(name, at, reason) for name, at, reason in connection.execute(rows)]

    def serve(self, name: str, reason: str) -> None:
        """Make a version the one that serves; running services take it up within a second or so."""
        version = self[name]
        load_version(version)  # one that cannot be loaded is refused here already
        with writing(self.engine) as connection:
            connection.execute(insert(SERVING).values(version=version.name, at=now(), reason=reason))

    def previous(self) -> str:
        """Return the version that served before the current one."""
        served = [name for name, _, _ in self.history()]
        before = next((name for name in served if name != served[0]), None)
        if before is None:
            raise InputError("No other version has served before this one, so there is none to go back to.")
        return before

    def _version(self, row: Any) -> Version:
        return Version(
            name=row["version"],
            folder=self.folder / row["folder"],
            at=row["at"],
            origin=row["origin"],
            votes_until=row["votes_until"],
            note=row["note"],
        )


def load_version(version: Version, text_encoder: str = "") -> Router:
    """Return the router of a version; a ModelFileError where its folder is not what it was."""
    from nasheval.store.routers import load_router

    if (found := version_of(version.folder)) != version.name:
        fault = f"its manifest is that of version {found}"
        raise ModelFileError(fault, source=str(version.folder), fix="serve another version")
    router = load_router(version.folder, text_encoder=text_encoder or None)
    if router is None:
        from nasheval.estimator import load

        router = load(version.folder, text_encoder=text_encoder or None).router()
    return router.ready()


def version_of(model: Path) -> str:
    """Return the version that a model's folder is."""
    open_folder(model)  # for what it says where this is none
    return sha256((model / MANIFEST).read_bytes()).hexdigest()[:_LENGTH]


def copied(model: Path, folder: Path) -> str:
    """Copy a model into its place in a folder of versions, whole or not at all; return its version."""
    manifest, _ = open_folder(model)
    name = version_of(model)
    target = folder / name
    if target.exists():
        _check_files(target, open_folder(target)[0]["files"])
        return name
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{name}.{token_hex(4)}.partial"
    partial.mkdir(mode=0o700)
    try:
        for file in (*manifest["files"], MANIFEST):
            source = model / file
            with new_file(partial / file) as copy:
                copy.write(read_plain(source, source.stat().st_size))
        _check_files(partial, manifest["files"])
        sync_folder(partial)
        if not target.exists():
            partial.rename(target)
        sync_folder(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return name


def _check_files(folder: Path, listed: dict[str, Any]) -> None:
    """Raise a ModelFileError where a file is not the one that the manifest lists."""
    for name, entry in listed.items():
        if sha256((folder / name).read_bytes()).hexdigest() != entry["sha256"]:
            fault = "its SHA-256 is not the one in manifest.json: it was damaged or edited"
            raise ModelFileError(fault, source=str(folder / name), fix="copy the model again, or save it again")

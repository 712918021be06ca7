"""A Parquet file written part by part: memory is bounded, and a run that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nasheval.errors import InputError
from nasheval.files import check_file, parse_json, read_plain, require_fields, whole_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

_MANIFEST = "manifest.json"
_MOST = 1 << 26  # bytes of a manifest
_WORDS = {"model": "the model", "input": "the input", "options": "an option", "package": "the release of nasheval"}
_KINDS = {"model": str, "input": list, "options": dict, "package": str, "size": int, "rows": int}


def fingerprint(model: str, files: Iterable[Path], options: dict[str, Any]) -> dict[str, Any]:
    """Return what tells one run from another: the model, the files with their sizes and times, and the options."""
    manifest = sha256((Path(model) / _MANIFEST).read_bytes()).hexdigest()  # it holds the hashes of all other files
    stats = [(str(file), file.stat()) for file in files]
    return {
        "model": manifest,
        "input": [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats],
        "options": {name: value for name, value in options.items() if value not in (None, "")},
        "package": version("nasheval"),
    }


class Parts:
    """The parts of a file in the folder FILE.parts beside it, with what they were made from.

    Args:
        out: the file to write in the end.
        about: as `fingerprint` gives it.
        size: rows of a part.
    """

    def __init__(self, out: Path, about: dict[str, Any], size: int) -> None:
        self.out, self.folder, self.size = out, out.with_name(f"{out.name}.parts"), size
        self._about = {**about, "size": size}
        self.rows: int | None = None  # of all parts; None before `begin`
        check_file(out)
        if (self.folder / _MANIFEST).exists():
            self.rows = self._resumed()

    def begin(self, rows: int) -> None:
        """Make the folder for so many rows."""
        self.rows = rows
        self.folder.mkdir(exist_ok=True)
        with whole_file(self.folder / _MANIFEST) as file:
            file.write(json.dumps({**self._about, "rows": rows}, indent=1).encode())

    def finished(self) -> int:
        """Return how many parts are there, whole; those after a gap do not count."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        count = 0
        while self.rows is not None and count * self.size < self.rows:
            try:
                there = pq.read_metadata(self._part(count)).num_rows
            except (OSError, pa.ArrowException):
                break
            if there != min(self.size, self.rows - count * self.size):
                break
            count += 1
        return count

    def write(self, number: int, part: pa.Table) -> None:
        """Write a part, whole or not at all."""
        import pyarrow.parquet as pq

        with whole_file(self._part(number)) as file:
            pq.write_table(part, file)

    def join(self) -> Iterator[dict[bytes, bytes]]:
        """Write the file out of all parts, one in memory at a time; yield the metadata of each; remove the folder."""
        import pyarrow.parquet as pq

        with whole_file(self.out) as file:
            schema = pq.read_schema(self._part(0)).remove_metadata()
            with pq.ParquetWriter(file, schema) as writer:
                for number in range(self.finished()):
                    part = pq.ParquetFile(self._part(number), pre_buffer=False).read()
                    yield part.schema.metadata or {}
                    writer.write_table(part.replace_schema_metadata(None))
        shutil.rmtree(self.folder)

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.parquet"

    def _resumed(self) -> int:
        """Return the rows of a run that was interrupted; raise where it was of something else."""
        file = self.folder / _MANIFEST
        try:
            found = require_fields(parse_json(read_plain(file, _MOST)), _MANIFEST, _KINDS)
        except (OSError, ValueError):
            changed = ["its manifest cannot be read, so that what it was made from"]
        else:
            changed = [word for name, word in _WORDS.items() if found[name] != self._about[name]]
            changed += ["the number of agents"] if found["size"] != self.size else []
        if changed:
            raise InputError(
                f"{str(self.folder)!r} holds a part of {self.out.name!r} that an earlier run left, but since then "
                f"{' and '.join(changed)} changed. To go on with it, give what it was made from; to start again, "
                "remove that folder, or write to another file."
            )
        return int(found["rows"])

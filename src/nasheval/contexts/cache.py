"""Vectors of texts kept on disk by content hash, so that a text is embedded once in a lifetime.

Parquet files, a 16-byte key and the bytes of a float32 vector in each row, with page checksums. What is added goes into
a file of its own, written under a temporary name and renamed, so that processes that write at once lose nothing and
readers see whole files.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nasheval.errors import InputError
from nasheval.files import whole_file

Vectors: TypeAlias = npt.NDArray[np.float32]

_LOG = logging.getLogger(__name__)
_KEY_BYTES = 16


def default_folder() -> Path:
    """Give the user's cache folder for vectors: $XDG_CACHE_HOME/nasheval/text, or ~/.cache/nasheval/text."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nasheval" / "text"


def text_keys(texts: Sequence[str]) -> pa.FixedSizeBinaryArray:
    """Hash each text to its key, (n,) of 16 bytes.

    Args:
        texts: n texts.
    """
    digests = [blake2b(text.encode(), digest_size=_KEY_BYTES).digest() for text in texts]
    return pa.array(digests, pa.binary(_KEY_BYTES))


@dataclass(frozen=True)
class VectorCache:
    """The vectors of one model at one dimension.

    Args:
        path: names the files, none of which need exist yet: those of v.parquet are that one and v.*.parquet beside
            it. Their folder is made if it does not exist.
        dim: the length of a vector.
    """

    path: Path
    dim: int

    def __post_init__(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"text cache: cannot use the folder {self.path.parent} ({error.strerror}).") from error

    def find(self, keys: pa.FixedSizeBinaryArray) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """Look keys up: vectors (n, dim), zero where unknown, and (n,) whether each is known.

        Args:
            keys: n keys, from `text_keys`.
        """
        stored = pa.concat_tables([self._schema.empty_table(), *self._tables()])
        row = pc.index_in(keys, value_set=stored["key"].combine_chunks())
        known = np.asarray(row.is_valid().to_numpy(zero_copy_only=False))
        vectors = np.zeros((len(keys), self.dim), dtype=np.float32)
        vectors[known] = self._vectors(stored["vector"].take(row.drop_null()))
        return vectors, known

    def add(self, keys: pa.FixedSizeBinaryArray, vectors: Vectors) -> None:
        """Add vectors, in a file of their own; where it cannot be written, say so in the log and go on without.

        Args:
            keys: n distinct keys, from `text_keys`.
            vectors: (n, dim).
        """
        try:
            self._write(pa.table([keys, self._column(vectors)], schema=self._schema))
        except (OSError, InputError) as error:
            _LOG.warning("text cache: cannot write %s (%s); its vectors were not kept", self.path, error)

    def _files(self) -> list[Path]:
        mine = self.path.stem + "."
        try:
            every = list(self.path.parent.iterdir())
        except FileNotFoundError:
            return []
        return [file for file in every if file.name.startswith(mine) and file.suffix == ".parquet"]

    def _tables(self) -> Iterator[pa.Table]:
        """Read the files; one that is damaged or foreign counts as empty."""
        for file in self._files():
            try:
                with file.open("rb") as opened:
                    table = pq.ParquetFile(opened, page_checksum_verification=True).read()
            except (OSError, ValueError, pa.ArrowException) as error:
                _LOG.info("text cache: %s is damaged and is ignored (%s)", file, error)
                continue
            if table.schema.equals(self._schema) and not any(column.null_count for column in table.columns):
                yield table
            else:
                _LOG.info("text cache: %s is not a cache of %d dimensions and is ignored", file, self.dim)

    def _write(self, table: pa.Table) -> None:
        with whole_file(self.path.with_name(f"{self.path.stem}.{token_hex(8)}.parquet")) as file:
            pq.write_table(table, file, compression="none", use_dictionary=False, write_page_checksum=True)

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([("key", pa.binary(_KEY_BYTES)), ("vector", pa.binary(4 * self.dim))])

    def _column(self, vectors: Vectors) -> pa.Array:
        data = np.ascontiguousarray(vectors, dtype="<f4")
        return pa.Array.from_buffers(pa.binary(4 * self.dim), len(data), [None, pa.py_buffer(data.tobytes())])

    def _vectors(self, column: pa.ChunkedArray) -> Vectors:
        flat = b"" if not len(column) else column.combine_chunks().buffers()[1]
        return np.frombuffer(flat, dtype="<f4", count=len(column) * self.dim).reshape(-1, self.dim)

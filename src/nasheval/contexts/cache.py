"""Vectors of texts kept on disk by content hash, so that a text is embedded once in a lifetime.

One Parquet file a model and dimension: a 16-byte key and the bytes of a float32 vector in each row, with page
checksums. A file is written under a temporary name and renamed, so that readers see the old one or the new one; two
processes that write at once may lose each other's additions, which only costs embedding them again.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nasheval.errors import InputError

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
        path: the Parquet file, which need not exist yet; its folder is made if it does not.
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
        """Look keys up: vectors (n, dim), zero where unknown, and (n,) whether each was found.

        Args:
            keys: n keys, from `text_keys`.
        """
        stored = self._read()
        row = pc.index_in(keys, value_set=stored["key"].combine_chunks())
        found = np.asarray(row.is_valid().to_numpy(zero_copy_only=False))
        vectors = np.zeros((len(keys), self.dim), dtype=np.float32)
        vectors[found] = self._vectors(stored["vector"].take(row.drop_null()))
        return vectors, found

    def add(self, keys: pa.FixedSizeBinaryArray, vectors: Vectors) -> None:
        """Add vectors to the file; where it cannot be written, say so in the log and go on without.

        Args:
            keys: n distinct keys, from `text_keys`.
            vectors: (n, dim).
        """
        # Read again: another process may have added to the file while this one was embedding.
        stored = self._read()
        new = pc.invert(pc.is_in(keys, value_set=stored["key"].combine_chunks()))
        added = pa.table([keys, self._column(vectors)], schema=self._schema).filter(new)
        try:
            self._write(pa.concat_tables([stored, added]))
        except OSError as error:
            _LOG.warning("text cache: cannot write %s (%s); its vectors were not kept", self.path, error.strerror)

    def _read(self) -> pa.Table:
        """Read the file; one that is absent, damaged or foreign counts as empty, and the next `add` replaces it."""
        try:
            # One open file from start to end: another process may put a new one in its place while this one is read.
            with self.path.open("rb") as file:
                table = pq.ParquetFile(file, page_checksum_verification=True).read()
        except FileNotFoundError:
            return self._schema.empty_table()
        except (OSError, ValueError, pa.ArrowException) as error:
            _LOG.info("text cache: %s is damaged and is ignored (%s)", self.path, error)
            return self._schema.empty_table()
        if not table.schema.equals(self._schema) or any(column.null_count for column in table.columns):
            _LOG.info("text cache: %s is not a cache of %d dimensions and is ignored", self.path, self.dim)
            return self._schema.empty_table()
        return table

    def _write(self, table: pa.Table) -> None:
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.stem, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                pq.write_table(table, file, compression="none", use_dictionary=False, write_page_checksum=True)
            os.replace(name, self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([("key", pa.binary(_KEY_BYTES)), ("vector", pa.binary(4 * self.dim))])

    def _column(self, vectors: Vectors) -> pa.Array:
        data = np.ascontiguousarray(vectors, dtype="<f4")
        return pa.Array.from_buffers(pa.binary(4 * self.dim), len(data), [None, pa.py_buffer(data.tobytes())])

    def _vectors(self, column: pa.ChunkedArray) -> Vectors:
        flat = b"" if not len(column) else column.combine_chunks().buffers()[1]
        return np.frombuffer(flat, dtype="<f4", count=len(column) * self.dim).reshape(-1, self.dim)

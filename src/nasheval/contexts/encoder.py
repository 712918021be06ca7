"""Context tables -> X: one fit on training rows, one matrix for trees and one for networks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, get_args

import numpy as np
import pyarrow as pa

from nasheval.arrays import large_zeros
from nasheval.contexts.columns import (
    KINDS,
    MAX_LEVELS,
    AnyColumn,
    Block,
    CategoricalColumn,
    Form,
    VectorColumn,
    column_from,
)
from nasheval.contexts.table import Column, as_table, holds_text
from nasheval.contexts.text import TextEncoder
from nasheval.contexts.values import detect_kind
from nasheval.contexts.vectors import is_vector, projection_from
from nasheval.errors import Argument, InputError, ReadError
from nasheval.files import Kinds, parse_json, require_fields, require_names

Row: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
FORMAT, VERSION = "nasheval.contexts", 1
_ABSENT = object()
_LONE = re.compile("[\ud800-\udfff]")
_ROWS = 1 << 17  # contexts encoded at a time
_SAVED: Kinds = {
    "format": str,
    "version": int,
    "columns": list,
    "text": (str, list, type(None)),
    "text_encoder": (dict, type(None)),
}


@dataclass(frozen=True)
class ContextEncoder:
    """What was learned from training contexts: turns any table with the same columns into a float32 matrix.

    Build one with `fit` or `from_json`. See `NumericColumn`, `DateColumn`, `BooleanColumn`, `CategoricalColumn` and
    `VectorColumn` for the features that a column becomes in each form and for what happens to missing values and
    unseen levels.

    Args:
        columns: the fitted columns, in the order of their features.
        text: the text column, or several, if there are any; their vectors are the last features, text_0 to
            text_{dim-1}, or {column}_text_0, ... where there are several.
        text_encoder: what embeds them.
    """

    columns: tuple[AnyColumn, ...]
    text: str | tuple[str, ...] | None = None
    text_encoder: TextEncoder | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", text_columns(self.text))
        forms: tuple[Form, ...] = get_args(Form)
        for form in forms:
            name, count = next(iter(Counter(self.feature_names(form)).most_common(1)), ("", 0))
            if count > 1:
                raise InputError(f"contexts: {count} features would be named {name!r}. Rename one of their columns.")

    @property
    def texts(self) -> tuple[str, ...]:
        """The text columns."""
        return names_of(self.text)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that `encode` needs."""
        return (*(column.name for column in self.columns), *self.texts)

    @property
    def text_size(self) -> int:
        """How many of the last features are those of texts."""
        return len(self.texts) * self.text_encoder.size if self.text_encoder else 0

    @classmethod
    def fit(
        cls,
        table: object,
        *,
        text: str | Sequence[str] | None = None,
        text_encoder: TextEncoder | None = None,
        text_dim: int | None = None,
    ) -> ContextEncoder:
        """Learn means, scales and levels from training contexts.

        Args:
            table: n >= 1 training contexts, in any form that `as_table` takes.
            text: the column that holds text to embed, or several of them.
            text_encoder: what embeds it; None for WordLlama at 64 dimensions.
            text_dim: vectors of texts and columns of vectors that have more dimensions are cut to so many by PCA.
        """
        contexts = as_table(table)
        texts = names_of(text)
        if not texts and text_encoder is not None:
            raise InputError("contexts: text_encoder= was given without text=. Name the text column with text=.")
        if contexts.num_rows == 0 and contexts.column_names:
            raise InputError("contexts: no rows. Fit needs at least one.")
        _require(contexts, texts)
        for name in texts:
            _check_text(name, contexts[name])
        plain = [name for name in contexts.column_names if name not in texts]
        fitted = [_fit_column(name, contexts[name], text_dim) for name in plain]
        fitted.sort(key=lambda column: isinstance(column, VectorColumn))  # vectors after all others, then texts
        if texts:
            text_encoder = (text_encoder or TextEncoder()).fitted([contexts[name] for name in texts], text_dim)
        return cls(tuple(fitted), text_columns(text), text_encoder)

    def encode(self, table: object, *, form: Form = "trees", vectors: Block | None = None) -> Block:
        """Encode n contexts as an (n, p) float32 matrix.

        Args:
            table: n contexts, in any form that `as_table` takes; columns that were not fitted are ignored.
            form: "trees": raw numbers, NaN where missing, ordinal categories. "network": standardised numbers,
                one-hot categories, always finite.
            vectors: what `embed` gave for the same contexts, (n, dim), so that two forms embed the text once.
        """
        contexts, width = as_table(table), len(self.feature_names(form))
        # An empty list of records has no columns to find, and nothing to encode either.
        if contexts.num_rows == 0 and not contexts.column_names:
            return np.empty((0, width), dtype=np.float32)
        _require(contexts, self.names)
        X = large_zeros((contexts.num_rows, width))
        try:
            for start in range(0, len(X), _ROWS):  # one block of a mapped X at a time, not one column
                self._write(X[start : start + _ROWS], contexts.slice(start, _ROWS), form)
        except ReadError:
            self._write(np.zeros(X.shape, np.float32), contexts, form)  # for its message, which counts all rows
            raise
        if self.text_size:
            X[:, width - self.text_size :] = self.embed(contexts) if vectors is None else vectors
        return X

    def _write(self, out: Block, contexts: pa.Table, form: Form) -> None:
        """Write the features of all columns into `out`, (n, p) of zeros."""
        start = 0
        for column in self.columns:
            stop = start + len(column.names(form))
            column.write(out[:, start:stop], contexts[column.name], form)
            start = stop

    def encode_one(self, context: Mapping[str, object] | Row) -> tuple[Block, Block] | None:
        """Encode one context of plain Python values for trees (1, p) and networks (1, q), without a table.

        Both are bit for bit what `encode` gives. None where that needs a table, or where something is wrong: then
        `encode` can tell what.

        Args:
            context: {column: value}, or the row (d,) of an array of numbers.
        """
        values = self._values(context)
        if values is None:
            return None
        trees: list[float] = []
        network: list[float] = []
        for column, value in zip(self.columns, values, strict=True):
            features = column.one(value)
            if features is None:
                return None
            trees += features[0]
            network += features[1]
        both = np.array([trees], np.float32), np.array([network], np.float32)
        if self.text_encoder is None or not isinstance(context, Mapping):
            return both
        vectors = []
        for name in self.texts:
            text = context.get(name, 0)
            if not _is_text(text):
                return None
            vectors.append(self.text_encoder.encode_one(text))
        if not self.columns and len(vectors) == 1:
            return vectors[0], vectors[0]
        return np.concatenate([both[0], *vectors], axis=1), np.concatenate([both[1], *vectors], axis=1)

    def _values(self, context: Mapping[str, object] | Row) -> list[object] | None:
        """Return the values of the columns in their order, None where some are missing."""
        if isinstance(context, Mapping):
            values = [context.get(column.name, _ABSENT) for column in self.columns]
            return None if any(value is _ABSENT for value in values) else values  # not `in`: some are arrays
        named = all(column.name == f"x{i}" for i, column in enumerate(self.columns)) and not self.texts
        fits = context.shape == (len(self.columns),) and context.dtype.kind == "f"
        return context.tolist() if named and fits else None

    def embed(self, table: object) -> Block:
        """Embed the texts of n contexts, (n, text_size), column after column; without a text column, (n, 0).

        Args:
            table: n contexts, in any form that `as_table` takes.
        """
        contexts = as_table(table)
        if self.text_encoder is None or not self.texts:
            return np.empty((contexts.num_rows, 0), dtype=np.float32)
        _require(contexts, self.texts)
        for name in self.texts:
            _check_text(name, contexts[name])
        if len(self.texts) == 1:
            return self.text_encoder.encode(contexts[self.texts[0]])
        return np.hstack([self.text_encoder.encode(contexts[name]) for name in self.texts])

    def feature_names(self, form: Form = "trees") -> tuple[str, ...]:
        """Name the p features of a form, in the order of the columns of `encode`.

        Args:
            form: "trees" or "network".
        """
        if form not in get_args(Form):
            raise InputError(f"contexts: form={form!r}. Accepted: 'trees' or 'network'.")
        dims = range(self.text_encoder.size if self.text_encoder else 0)
        prefixes = ["text"] if len(self.texts) == 1 else [f"{name}_text" for name in self.texts]
        return tuple(name for column in self.columns for name in column.names(form)) + tuple(
            f"{prefix}_{i}" for prefix in prefixes for i in dims
        )

    @property
    def categorical_features(self) -> tuple[int, ...]:
        """Indices of the ordinal categories in the form for trees."""
        return tuple(self._places(CategoricalColumn))

    @property
    def vector_features(self) -> tuple[int, ...]:
        """Indices of the dimensions of vectors and texts in the form for trees, no single one of which means much."""
        p = len(self.feature_names("trees"))
        return (*self._places(VectorColumn), *range(p - self.text_size, p))

    def _places(self, kind: type) -> Iterator[int]:
        start = 0
        for column in self.columns:
            stop = start + len(column.names("trees"))
            yield from range(start, stop) if isinstance(column, kind) else ()
            start = stop

    def to_json(self) -> str:
        """Write the encoder as JSON; `from_json` gives back one that encodes bit for bit the same."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "columns": [column.to_dict() for column in self.columns],
            "text": self.text,
            "text_encoder": None if self.text_encoder is None else _written(self.text_encoder),
        }
        return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, saved: str) -> ContextEncoder:
        """Read an encoder that `to_json` wrote; anything else is an InputError."""
        try:
            return cls._from_document(parse_json(saved))
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"saved encoder: {error}. Save the encoder again with to_json().") from error

    @classmethod
    def _from_document(cls, document: dict[str, Any]) -> ContextEncoder:
        if document.get("format") != FORMAT:
            raise ValueError(f'JSON without "format": "{FORMAT}"')
        version = document.get("version")
        if type(version) is not int or version != VERSION:
            raise ValueError(f"version {version!r:.40}. This release reads version {VERSION}")
        text, embedding = (require_fields(document, "top level", _SAVED)[name] for name in ("text", "text_encoder"))
        if (text in (None, [])) != (embedding is None) or text == []:
            raise ValueError("top level: 'text' and 'text_encoder' must both be there or both be null")
        columns = tuple(column_from(column, f"column {i}") for i, column in enumerate(document["columns"], start=1))
        if embedding is not None:
            embedding = _read(embedding)
        return cls(columns, require_names(text, "'text'") if isinstance(text, list) else text, embedding)


def names_of(text: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the text columns that an argument names, each once."""
    return () if text is None else (text,) if isinstance(text, str) else tuple(dict.fromkeys(text))


def text_columns(text: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    """Return text columns as logs and encoders name them: a name where there is one, a tuple where there are more."""
    names = names_of(text)
    return names if len(names) > 1 else names[0] if names else None


def _written(encoder: TextEncoder) -> dict[str, Any]:
    """Return a text encoder as JSON values; a function, or a model that goes by a path, under a word for it."""
    plain: dict[str, Any] = {"model": encoder.saved_name, "dim": encoder.own_dim}
    if encoder.cut is not None:
        plain["cut"] = encoder.cut.to_dict()
    if encoder.compared:
        plain["compared"] = [list(one) for one in encoder.compared]
    return plain


def _read(saved: dict[str, Any]) -> TextEncoder:
    """Return the text encoder that `_written` wrote, which fetches nothing unasked; else a ValueError."""
    values = {"cut": None, "compared": [], **saved}
    kinds: Kinds = {"model": str, "dim": int, "cut": (dict, type(None)), "compared": list}
    require_fields(values, "'text_encoder'", kinds)
    cut = None if values["cut"] is None else projection_from(values["cut"], "'cut' in 'text_encoder'")
    if cut is not None and len(cut.mean) != values["dim"]:
        raise ValueError("'cut' in 'text_encoder' does not fit 'dim'")
    for one in values["compared"]:
        if not (
            isinstance(one, list) and len(one) == 2 and type(one[0]) is str and type(one[1]) in (float, type(None))
        ):
            raise ValueError("'compared' in 'text_encoder' holds something other than names with a loss each")
    compared = tuple((name, loss) for name, loss in values["compared"])
    return TextEncoder(values["model"], values["dim"], cut, fetch=False, compared=compared)


def usable_columns(table: object) -> list[str]:
    """Return the columns that could be context: they can be encoded, have several values, and are no ids or texts."""
    contexts = as_table(table)
    return [name for name in contexts.column_names if _is_usable(name, contexts[name])]


def _is_usable(name: str, column: Column) -> bool:
    try:
        _fit_column(name, column)
    except ReadError:
        return False
    if is_vector(column.type):
        return True
    distinct, present = len(column.unique().drop_null()), len(column) - column.null_count
    return distinct > 1 and (4 * distinct <= 3 * present or pa.types.is_floating(column.type))


def _require(contexts: pa.Table, wanted: Iterable[str]) -> None:
    present = set(contexts.column_names)
    missing = [name for name in wanted if name not in present]
    if missing:
        raise InputError(
            f"contexts: no column {_listed(missing)}. Given: {_listed(contexts.column_names) or 'no columns'}. "
            f"Expected: {_listed(wanted)}. Add what is missing; a column of nulls is accepted."
        )


def _fit_column(name: str, column: Column, dim: int | None = None) -> AnyColumn:
    kind = KINDS[detect_kind(name, column)]
    fitted = VectorColumn.fit(name, column, dim) if kind is VectorColumn else kind.fit(name, column)
    if not isinstance(fitted, CategoricalColumn) or not fitted.pooled:
        return fitted
    distinct, present = len(column.unique().drop_null()), len(column) - column.null_count
    if 4 * distinct > 3 * present:  # an id or a text, whose levels are noise
        raise ReadError(
            f"{distinct:,} different values in {present:,} rows, too many for a category",
            source="contexts",
            column=name,
            accepted=f"strings that repeat, or at most {MAX_LEVELS} different ones",
            fix=("leave it out of ", Argument("context"), ", or name it with ", Argument("text")),
        )
    return fitted


def _is_text(value: object) -> TypeGuard[str | None]:
    """Tell whether a value is plain text, or none; half of a surrogate pair is no text."""
    return value is None or (type(value) is str and (value.isascii() or not _LONE.search(value)))


def _check_text(name: str, column: Column) -> None:
    if not holds_text(column.type):
        raise ReadError(f"values of type {column.type}", source="contexts", column=name, accepted="strings to embed")


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(repr(name) for name in names[:20]) + more

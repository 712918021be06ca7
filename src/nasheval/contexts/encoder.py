"""Context tables -> X: one fit on training rows, one matrix for trees and one for networks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from nasheval.arrays import large_zeros
from nasheval.contexts.columns import KINDS, MAX_LEVELS, AnyColumn, Block, CategoricalColumn, Form, column_from
from nasheval.contexts.table import Column, as_table, holds_text
from nasheval.contexts.text import TextEncoder
from nasheval.contexts.values import detect_kind
from nasheval.errors import Argument, InputError, ReadError
from nasheval.files import Kinds, parse_json, require_fields

Row: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
FORMAT, VERSION = "nasheval.contexts", 1
_ABSENT = object()
_ROWS = 1 << 17  # contexts encoded at a time
_SAVED: Kinds = {
    "format": str,
    "version": int,
    "columns": list,
    "text": (str, type(None)),
    "text_encoder": (dict, type(None)),
}


@dataclass(frozen=True)
class ContextEncoder:
    """What was learned from training contexts: turns any table with the same columns into a float32 matrix.

    Build one with `fit` or `from_json`. See `NumericColumn`, `DateColumn`, `BooleanColumn` and `CategoricalColumn` for
    the features that a column becomes in each form and for what happens to missing values and unseen levels.

    Args:
        columns: the fitted columns, in the order of their features.
        text: the text column, if there is one; its vectors are the last features, text_0 to text_{dim-1}.
        text_encoder: what embeds it.
    """

    columns: tuple[AnyColumn, ...]
    text: str | None = None
    text_encoder: TextEncoder | None = None

    def __post_init__(self) -> None:
        forms: tuple[Form, ...] = get_args(Form)
        for form in forms:
            name, count = next(iter(Counter(self.feature_names(form)).most_common(1)), ("", 0))
            if count > 1:
                raise InputError(f"contexts: {count} features would be named {name!r}. Rename one of their columns.")

    @classmethod
    def fit(cls, table: object, *, text: str | None = None, text_encoder: TextEncoder | None = None) -> ContextEncoder:
        """Learn means, scales and levels from training contexts.

        Args:
            table: n >= 1 training contexts, in any form that `as_table` takes.
            text: the column that holds text to embed.
            text_encoder: what embeds it; None for WordLlama at 64 dimensions.
        """
        contexts = as_table(table)
        if text is None and text_encoder is not None:
            raise InputError("contexts: text_encoder= was given without text=. Name the text column with text=.")
        if contexts.num_rows == 0 and contexts.column_names:
            raise InputError("contexts: no rows. Fit needs at least one.")
        if text is not None:
            _require(contexts, [text])
            _check_text(text, contexts[text])
        fitted = tuple(_fit_column(name, contexts[name]) for name in contexts.column_names if name != text)
        return cls(fitted, text, None if text is None else text_encoder or TextEncoder())

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
        _require(contexts, [*(column.name for column in self.columns), *([] if self.text is None else [self.text])])
        X = large_zeros((contexts.num_rows, width))
        try:
            for start in range(0, len(X), _ROWS):  # one block of a mapped X at a time, not one column
                self._write(X[start : start + _ROWS], contexts.slice(start, _ROWS), form)
        except ReadError:
            self._write(np.zeros(X.shape, np.float32), contexts, form)  # for its message, which counts all rows
            raise
        own = width - (self.text_encoder.dim if self.text_encoder else 0)
        X[:, own:] = self.embed(contexts) if vectors is None else vectors
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
            trees.append(features[0])
            network += features[1]
        both = np.array([trees], np.float32), np.array([network], np.float32)
        if self.text is None or self.text_encoder is None or not isinstance(context, Mapping):
            return both
        text = context.get(self.text, 0)
        if text is not None and type(text) is not str:
            return None
        vectors = self.text_encoder.encode(pa.array([text], pa.large_string()))
        return np.hstack([both[0], vectors]), np.hstack([both[1], vectors])

    def _values(self, context: Mapping[str, object] | Row) -> list[object] | None:
        """Return the values of the columns in their order, None where some are missing."""
        if isinstance(context, Mapping):
            values = [context.get(column.name, _ABSENT) for column in self.columns]
            return None if _ABSENT in values else values
        named = all(column.name == f"x{i}" for i, column in enumerate(self.columns)) and self.text is None
        fits = context.shape == (len(self.columns),) and context.dtype.kind == "f"
        return context.tolist() if named and fits else None

    def embed(self, table: object) -> Block:
        """Embed the text of n contexts, (n, dim); without a text column, (n, 0).

        Args:
            table: n contexts, in any form that `as_table` takes.
        """
        contexts = as_table(table)
        if self.text is None or self.text_encoder is None:
            return np.empty((contexts.num_rows, 0), dtype=np.float32)
        _require(contexts, [self.text])
        _check_text(self.text, contexts[self.text])
        return self.text_encoder.encode(contexts[self.text])

    def feature_names(self, form: Form = "trees") -> tuple[str, ...]:
        """Name the p features of a form, in the order of the columns of `encode`.

        Args:
            form: "trees" or "network".
        """
        if form not in get_args(Form):
            raise InputError(f"contexts: form={form!r}. Accepted: 'trees' or 'network'.")
        vectors = range(self.text_encoder.dim if self.text_encoder else 0)
        return tuple(name for column in self.columns for name in column.names(form)) + tuple(
            f"text_{i}" for i in vectors
        )

    @property
    def categorical_features(self) -> tuple[int, ...]:
        """Indices of the ordinal categories in the form for trees."""
        return tuple(i for i, column in enumerate(self.columns) if isinstance(column, CategoricalColumn))

    def to_json(self) -> str:
        """Write the encoder as JSON; `from_json` gives back one that encodes bit for bit the same."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "columns": [column.to_dict() for column in self.columns],
            "text": self.text,
            "text_encoder": {"model": encoder.model, "dim": encoder.dim} if (encoder := self.text_encoder) else None,
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
        if (text is None) != (embedding is None):
            raise ValueError("top level: 'text' and 'text_encoder' must both be there or both be null")
        columns = tuple(column_from(column, f"column {i}") for i, column in enumerate(document["columns"], start=1))
        if embedding is not None:
            embedding = TextEncoder(**require_fields(embedding, "'text_encoder'", {"model": str, "dim": int}))
        return cls(columns, text, embedding)


def usable_columns(table: object) -> list[str]:
    """Return the columns that could be context: they can be encoded, have several values, and are no ids or texts."""
    contexts = as_table(table)
    return [name for name in contexts.column_names if _is_usable(name, contexts[name])]


def _is_usable(name: str, column: Column) -> bool:
    try:
        _fit_column(name, column)
    except ReadError:
        return False
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


def _fit_column(name: str, column: Column) -> AnyColumn:
    fitted = KINDS[detect_kind(name, column)].fit(name, column)
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


def _check_text(name: str, column: Column) -> None:
    if not holds_text(column.type):
        raise ReadError(f"values of type {column.type}", source="contexts", column=name, accepted="strings to embed")


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(repr(name) for name in names[:20]) + more

"""Context tables -> X: one fit on training rows, one matrix for trees and one for networks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from nasheval.contexts.columns import KINDS, AnyColumn, Block, CategoricalColumn, Form
from nasheval.contexts.saved import FORMAT, VERSION, fail, fields, parse
from nasheval.contexts.table import Column, as_table, holds_text
from nasheval.contexts.text import TextEncoder
from nasheval.contexts.values import as_categorical, detect_kind
from nasheval.errors import Argument, InputError, ReadError

MAX_LEVELS = 50


@dataclass(frozen=True)
class ContextEncoder:
    """What was learned from training contexts: turns any table with the same columns into a float32 matrix.

    Build one with `fit` or `from_json`. See `NumericColumn`, `BooleanColumn` and `CategoricalColumn` for the features
    that a column becomes in each form and for what happens to missing values and unseen levels.

    Args:
        columns: the fitted columns, in the order of their features.
        text: the text column, if there is one; its vectors are the last features, text_0 to text_{dim-1}.
        text_encoder: what embeds it.
    """

    columns: tuple[AnyColumn, ...]
    text: str | None = None
    text_encoder: TextEncoder | None = None

    @classmethod
    def fit(
        cls,
        table: object,
        *,
        columns: Iterable[str] | None = None,
        text: str | None = None,
        text_encoder: TextEncoder | None = None,
        kinds: Mapping[str, str] | None = None,
        max_levels: int = MAX_LEVELS,
    ) -> ContextEncoder:
        """Learn means, scales and levels from training contexts.

        Args:
            table: n >= 1 training contexts, in any form that `as_table` takes.
            columns: the columns to use; None for all but the text.
            text: the column that holds text to embed.
            text_encoder: what embeds it; None for WordLlama at 64 dimensions.
            kinds: "numeric", "boolean" or "categorical" for columns whose Arrow type would say otherwise.
            max_levels: the most levels to tell apart in a category; rarer ones are one level, "other".
        """
        contexts = as_table(table)
        _check_settings(text, text_encoder, max_levels)
        names = _chosen(contexts, columns, text)
        forced = _checked_kinds(kinds or {}, names)
        if contexts.num_rows == 0 and contexts.column_names:
            raise InputError("contexts: no rows. Fit needs at least one.")
        if text is not None:
            _check_text(text, contexts[text])
        fitted = tuple(_fit_column(name, contexts[name], forced.get(name), max_levels) for name in names)
        encoder = cls(fitted, text, None if text is None else text_encoder or TextEncoder())
        encoder._check_distinct_features()
        return encoder

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
        X = np.zeros((contexts.num_rows, width), dtype=np.float32)
        start = 0
        for column in self.columns:
            stop = start + len(column.names(form))
            column.write(X[:, start:stop], contexts[column.name], form)
            start = stop
        X[:, start:] = self.embed(contexts) if vectors is None else _checked_vectors(vectors, X[:, start:].shape)
        return X

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
            "text_encoder": self.text_encoder.to_dict() if self.text_encoder else None,
        }
        return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, saved: str) -> ContextEncoder:
        """Read an encoder that `to_json` wrote; anything else is an InputError."""
        types: dict[str, type | tuple[type, ...]] = {"format": str, "version": int, "columns": list}
        types |= {"text": (str, type(None)), "text_encoder": (dict, type(None))}
        document = fields(parse(saved), "top level", types)
        if (document["text"] is None) != (document["text_encoder"] is None):
            fail("top level", "'text' and 'text_encoder' must both be there or both be null")
        columns = tuple(_column_from(column, i) for i, column in enumerate(document["columns"], start=1))
        text = document["text_encoder"]
        encoder = cls(columns, document["text"], None if text is None else TextEncoder.from_dict(text))
        encoder._check_distinct_features()
        return encoder

    def _check_distinct_features(self) -> None:
        forms: tuple[Form, ...] = get_args(Form)
        for form in forms:
            name, count = next(iter(Counter(self.feature_names(form)).most_common(1)), ("", 0))
            if count > 1:
                raise InputError(f"contexts: {count} features would be named {name!r}. Rename one of their columns.")


def _check_settings(text: str | None, text_encoder: TextEncoder | None, max_levels: int) -> None:
    if text is None and text_encoder is not None:
        raise InputError("contexts: text_encoder= was given without text=. Name the text column with text=.")
    if type(max_levels) is not int or max_levels < 1:
        raise InputError(f"contexts: max_levels={max_levels!r}. Accepted: a whole number of at least 1.")


def _chosen(contexts: pa.Table, columns: Iterable[str] | None, text: str | None) -> list[str]:
    if isinstance(columns, str):
        raise InputError(f"contexts: columns={columns!r}. Accepted: a list of names. Write columns=[{columns!r}].")
    names = contexts.column_names if columns is None else list(dict.fromkeys(columns))
    _require(contexts, names if text is None else [*names, text])
    return [name for name in names if name != text]


def _require(contexts: pa.Table, wanted: Iterable[str]) -> None:
    present = set(contexts.column_names)
    missing = [name for name in wanted if name not in present]
    if missing:
        raise InputError(
            f"contexts: no column {_listed(missing)}. Given: {_listed(contexts.column_names) or 'no columns'}. "
            f"Expected: {_listed(wanted)}. Add what is missing; a column of nulls is accepted."
        )


def _checked_kinds(kinds: Mapping[str, str], names: list[str]) -> Mapping[str, str]:
    for name, kind in kinds.items():
        if name not in names:
            raise InputError(f"contexts: kinds= names {name!r}, which is not among the columns {_listed(names)}.")
        if kind not in KINDS:
            raise InputError(
                f"contexts: kinds={{{name!r}: {kind!r}}}. Accepted: {_listed(KINDS)}. Name a text column with text=."
            )
    return kinds


def _fit_column(name: str, column: Column, kind: str | None, max_levels: int) -> AnyColumn:
    fitted = KINDS[kind or detect_kind(name, column)].fit(name, column, max_levels)
    if kind is None and isinstance(fitted, CategoricalColumn) and fitted.pooled:
        _check_repeats(name, column, max_levels)
    return fitted


def _check_repeats(name: str, column: Column, max_levels: int) -> None:
    """Refuse a column of strings that are nearly all different: it is an id or a text, and its levels are noise."""
    distinct, present = len(column.unique().drop_null()), len(column) - column.null_count
    if 4 * distinct > 3 * present:
        raise ReadError(
            f"{distinct:,} different values in {present:,} rows, too many for a category",
            source="contexts",
            column=name,
            accepted=f"strings that repeat, or at most {max_levels} different ones",
            fix=(
                *("leave it out of ", Argument("columns", flag="--context"), ", name it with ", Argument("text")),
                *(", or fit with ", as_categorical(name)),
            ),
        )


def _check_text(name: str, column: Column) -> None:
    if not holds_text(column.type):
        raise ReadError(f"values of type {column.type}", source="contexts", column=name, accepted="strings to embed")


def _checked_vectors(vectors: Block, shape: tuple[int, ...]) -> Block:
    if np.shape(vectors) != shape:
        raise InputError(f"contexts: vectors= of shape {np.shape(vectors)}. Accepted: {shape}, as embed() gives them.")
    return vectors


def _column_from(saved: Any, number: int) -> AnyColumn:
    kind = saved.get("kind") if isinstance(saved, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        fail(f"column {number}", f"its kind is not one of {_listed(KINDS)}")
    return KINDS[kind].from_dict(saved, f"column {number}")


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(repr(name) for name in names[:20]) + more

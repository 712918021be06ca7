"""The style of answers, measured column by column: from their text, from `conv_metadata`, or from columns of numbers.

Of text, and of all turns of the assistant in a conversation: its length in characters, and how many Markdown headers,
list items and bold stretches it has outside of code. `conv_metadata` of arena files counts tokens in place of
characters. A source gets one column per number and side, so that conversations are never held as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Floats
from nasheval.contexts.table import decoded, is_list, is_string
from nasheval.errors import Argument, InputError
from nasheval.feedback.readers.arena import is_message, joined_text
from nasheval.feedback.readers.parsing import to_numbers
from nasheval.feedback.readers.row_checks import several
from nasheval.feedback.readers.sources import Piece, Source
from nasheval.feedback.style import sizes

MEASURED = ("length", "headers", "lists", "bold")
AnyStyle: TypeAlias = Sequence[str] | Mapping[str, tuple[str, str]] | str | None
_METADATA = "conv_metadata"
_ANSWERS = (
    ("response_a", "response_b"), ("conversation_a", "conversation_b"), ("output_1", "output_2"),
    ("answer_a", "answer_b"), ("answer_1", "answer_2"), ("output_a", "output_b"),
)  # fmt: skip
_ENDS = (("_a", "_b"), ("_1", "_2"))
_CODE = r"(?s)```.*?(?:```|\z)"
_PATTERNS = (r"(?m)^ {0,3}#{1,6} ", r"(?m)^[ \t]*(?:[-*+]|\d{1,9}[.)]) ", r"\*\*[^*\n]+\*\*|__[^_\n]+__")
_FIELDS = ("sum_assistant_{}_tokens", "header_count_{}", "list_count_{}", "bold_count_{}")  # of `conv_metadata`


@dataclass(frozen=True)
class Style:
    """Where the style of both answers is found.

    Args:
        names: of its S columns.
        columns: of the log that it is read from.
        measure: a table of those -> (n, 2, S), NaN where it is unknown.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    measure: Callable[[pa.Table], Floats]

    @property
    def made(self) -> list[str]:
        """The columns that `added` gives a source."""
        return [f"#{name}{end}" for end in _ENDS[0] for name in self.names]

    def added(self, source: Source) -> Source:
        """Return a source that has the style as columns too."""

        def fetch(columns: list[str], text: set[str], skip: int) -> Iterator[Piece]:
            own = [name for name in columns if name not in self.made]
            wanted = list(dict.fromkeys([*own, *self.columns]))
            for file, table in source.fetch(wanted, text | set(self.columns), skip):
                values = self.measure(table).reshape(table.num_rows, -1)
                made = {name: pa.array(values[:, place]) for place, name in enumerate(self.made)}
                yield file, pa.table({name: made[name] if name in made else table[name] for name in columns})

        fields = [*source.schema, *(pa.field(name, pa.float64()) for name in self.made)]
        return replace(source, schema=pa.schema(fields), fetch=fetch)

    def of(self, table: pa.Table) -> Floats:
        """Return (n, 2, S) float32, ready to be subtracted (`nasheval.feedback.style`)."""
        values = np.stack([np.asarray(table[name]) for name in self.made], axis=1).astype(np.float64)
        values = values.reshape(table.num_rows, 2, len(self.names))
        values[~np.isfinite(values)] = np.nan
        ready = [sizes(values[:, :, place]) for place in range(len(self.names))]
        return np.stack(ready, axis=2).astype(np.float32)


def style_of(source: Source, style: AnyStyle) -> Style | None:
    """Return where a log has the style of its answers; None where it has none, or none is asked for.

    Args:
        style: as in `read_votes`.
    """
    if style is None or (not isinstance(style, str) and not len(style)):
        return None
    if style == "auto":
        return _found(source)
    columns = _named(source, style)
    flat = tuple(column for pair in columns.values() for column in pair)

    def measure(table: pa.Table) -> Floats:
        pairs = [[to_numbers(decoded(table[column]))[0] for column in pair] for pair in columns.values()]
        return np.array(pairs, np.float64).transpose(2, 1, 0)

    return Style(tuple(columns), flat, measure)


def _named(source: Source, style: AnyStyle) -> dict[str, tuple[str, str]]:
    """Return the two columns of each name."""
    if isinstance(style, Mapping):
        columns = {str(name): (str(first), str(second)) for name, (first, second) in style.items()}
    else:
        columns = {}
        for name in [style] if isinstance(style, str) else several(style or (), "style"):
            there = [(name + first, name + second) for first, second in _ENDS]
            columns[name] = next((pair for pair in there if set(pair) <= set(source.names)), there[0])
    for name, pair in columns.items():
        source.need("style", *pair)
        if name in ("position", "style"):
            raise InputError(Argument("style"), f" calls a column {name!r}, which has a meaning of its own; rename it.")
    return columns


def _found(source: Source) -> Style | None:
    """Return the style of a log whose columns tell it by their names."""
    if _METADATA in source.names and pa.types.is_struct(kind := source.schema.field(_METADATA).type):
        fields = [[form.format(side) for side in "ab"] for form in _FIELDS]
        kept = [place for place, pair in enumerate(fields) if all(kind.get_field_index(name) >= 0 for name in pair)]
        if 0 in kept:
            names = tuple(MEASURED[place] for place in kept)
            return Style(names, (_METADATA,), lambda table: _counted(table, [fields[place] for place in kept]))
    pair = next((pair for pair in _ANSWERS if set(pair) <= set(source.names)), None)
    if pair is None:
        return None
    return Style(MEASURED, pair, lambda table: np.stack([measured(table[name]) for name in pair], axis=1))


def _counted(table: pa.Table, fields: Sequence[Sequence[str]]) -> Floats:
    """Return (n, 2, S) numbers of `conv_metadata`; those of a struct, such as {h1, h2, ...}, are summed."""
    about = table[_METADATA].combine_chunks()
    numbers = [[_total(pc.struct_field(about, [name])) for name in pair] for pair in fields]
    return np.array(numbers, np.float64).transpose(2, 1, 0)


def _total(column: Any) -> Floats:
    if not pa.types.is_struct(column.type):
        return to_numbers(pa.chunked_array([column]))[0]
    parts = [pc.fill_null(_to_float(part), 0.0) for part in column.flatten()]
    total = np.sum([np.asarray(part) for part in parts], axis=0) if parts else np.zeros(len(column))
    return np.where(np.asarray(column.is_valid()), total, np.nan)


def _to_float(column: Any) -> Any:
    """Return numbers as 64-bit ones."""
    return column.cast(pa.float64())


# -- text -------------------------------------------------------------------------------------------------------------


def measured(column: pa.ChunkedArray) -> Floats:
    """Return (n, 4) characters, headers, list items and bold stretches of answers; NaN where there is none."""
    column = decoded(column)
    if is_string(column.type):
        return _of_text(_unescaped(column.combine_chunks().cast(pa.large_string())))
    if is_list(column.type) and is_message(column.type.value_type) and not pa.types.is_null(column.type.value_type):
        return np.concatenate([_of_turns(chunk) for chunk in column.chunks] or [np.zeros((0, len(MEASURED)))])
    return np.full((len(column), len(MEASURED)), np.nan)


def _of_text(text: Any) -> Floats:
    prose = pc.replace_substring_regex(text, _CODE, "")
    counts = [pc.utf8_length(text), *(pc.count_substring_regex(prose, pattern) for pattern in _PATTERNS)]
    return np.stack([np.asarray(_to_float(pc.fill_null(count, 0))) for count in counts], axis=1) + _unknown(text)


def _unknown(text: Any) -> Floats:
    return np.where(np.asarray(text.is_valid()), 0.0, np.nan)[:, None]


def _of_turns(conversations: Any) -> Floats:
    """Sum over the turns of the assistant in each conversation."""
    parent = np.asarray(pc.list_parent_indices(conversations)).astype(np.int64)
    turns = pc.list_flatten(conversations)
    said = np.asarray(
        pc.fill_null(pc.equal(pc.struct_field(turns, ["role"]).cast(pa.large_string()), "assistant"), False)
    )
    at = np.flatnonzero(said)
    values = np.nan_to_num(_of_text(joined_text(pc.struct_field(turns, ["content"]).take(pa.array(at)))))
    sums = [np.bincount(parent[at], each, len(conversations)) for each in values.T]
    some = np.bincount(parent[at], minlength=len(conversations)) > 0
    return np.where(some[:, None], np.stack(sums, axis=1), np.nan)


def _unescaped(text: Any) -> Any:
    """Return lists of strings in JSON, as the 55k release has them, with their line breaks; other text as it is."""
    some = text.drop_null()
    if not len(some) or not pc.all(pc.starts_with(some, "[")).as_py():
        return text
    return pc.replace_substring(pc.replace_substring(text, '["', ""), r"\n", "\n")

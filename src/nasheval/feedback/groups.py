"""Groups of contexts by a column of the log."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Bools, Floats, Ints
from nasheval.errors import InputError
from nasheval.feedback.arrow_columns import column_list
from nasheval.feedback.log import Feedback

_MOST_GROUPS = 500


def context_groups(log: Feedback, by: str, used: Bools) -> tuple[Ints, list[str]]:
    """Number the values of a context column that some used context has: (n_contexts,) groups, -1 for none; names."""
    column = _column(log, by)
    values = pc.dictionary_encode(pc.cast(column, "string").combine_chunks(), null_encoding="encode")
    code, names = np.asarray(values.indices), values.dictionary.to_pylist()
    kept = np.unique(code[used])
    if len(kept) > _MOST_GROUPS:
        raise InputError(f"The column {by!r} has {len(kept):,} values, more than {_MOST_GROUPS}; group by fewer.")
    number = np.full(len(names), -1)
    number[kept] = np.arange(len(kept))
    return number[code], ["(missing)" if names[g] is None else names[g] for g in kept]


def quarter_groups(log: Feedback, by: str, used: Bools) -> tuple[Ints, list[str]]:
    """Cut a context column of numbers at its quartiles over used contexts; groups as in `context_groups`."""
    values = np.asarray(pc.cast(_column(log, by), "float64").to_numpy(), np.float64)
    known = used & np.isfinite(values)
    if not known.any():
        return np.full(len(values), -1), []
    edges = np.unique(np.quantile(values[known], [0.25, 0.5, 0.75]))
    code = np.where(known, np.searchsorted(edges, values, side="right"), -1)
    kept, place = np.unique(code[known], return_inverse=True)
    code[known] = place
    return code, [_range(edges, int(part)) for part in kept]


def is_number(log: Feedback, by: str) -> bool:
    """Tell whether a context column holds numbers."""
    kind = _column(log, by).type
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def n_values(log: Feedback, by: str) -> int:
    """Return how many values a context column has, a missing one included."""
    column = _column(log, by)
    if pa.types.is_dictionary(column.type):  # which Arrow does not count
        column = column.cast(column.type.value_type)
    return int(pc.count_distinct(column, mode="all").as_py())


def _column(log: Feedback, by: str) -> pa.ChunkedArray:
    if by not in log.contexts.column_names:
        raise InputError(f"by is {by!r}, no context column; this log has {column_list(log.contexts)}.")
    return log.contexts[by]


def _range(edges: Floats, part: int) -> str:
    """Name the numbers between two neighbouring edges."""
    low, high = ("" if not 0 <= e < len(edges) else f"{edges[e]:.3g}" for e in (part - 1, part))
    return f"{low} to {high}" if low and high else f"below {high}" if high else f"{low} or more" if low else "all"

"""Groups of contexts by a column of the log, and which columns to group by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import nasheval.compute as pc
from nasheval.arrays import Bools, Floats, Ints
from nasheval.contexts.table import decoded, is_number
from nasheval.contexts.values import numbers
from nasheval.contexts.vectors import is_vector
from nasheval.errors import Argument, InputError
from nasheval.feedback.arrow_columns import column_list
from nasheval.feedback.log import Feedback

ALL = "all"  # the name of the group of all contexts
FEW_VALUES = 20  # a column of no more is grouped by its values, one of numbers with more by its quartiles
_MOST_GROUPS = 500
_LOOK = 10_000


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of contexts.

    Args:
        column: the context column that makes them.
        code: (n_contexts,) the group of each context, -1 for none.
        names: of the groups.
    """

    column: str
    code: Ints
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


def grouping_columns(
    log: Feedback, by: str | Sequence[str] | None = None, *, most: int = 16, quartiles: bool = True
) -> tuple[str, ...]:
    """Return the context columns to group by: those asked for, or the first few that make groups.

    Unasked, a column makes groups if it is not the prompt and has 2 to 20 values, or numbers of more.

    Args:
        by: the columns that were asked for; None: chosen here.
        most: how many to choose.
        quartiles: whether to choose numbers of more than 20 values.
    """
    if by is not None:
        return (by,) if isinstance(by, str) else tuple(by)
    names = [f.name for f in log.contexts.schema if f.name not in log.texts and not is_vector(f.type)]
    counts = {name: _n_values(log, name) for name in names}
    return tuple(
        name
        for name, count in counts.items()
        if 1 < count <= FEW_VALUES or (quartiles and count > 1 and is_number(log.contexts[name].type))
    )[:most]


def groups_by(log: Feedback, column: str, used: Bools) -> Groups:
    """Group contexts by the quartiles of a column of numbers with more than 20 values, by the values of any other."""
    many = is_number(context_column(log, column).type) and _n_values(log, column) > FEW_VALUES
    return _by_quartile(log, column, used) if many else by_value(log, column, used)


def by_value(log: Feedback, column: str, used: Bools) -> Groups:
    """Group contexts by the values of a column that some used context, (n_contexts,), has."""
    values = context_column(log, column).cast("string").combine_chunks().dictionary_encode(null_encoding="encode")
    code, names = np.asarray(values.indices), values.dictionary.to_pylist()
    kept = np.unique(code[used])
    if len(kept) > _MOST_GROUPS:
        raise InputError(f"The column {column!r} has {len(kept):,} values, more than {_MOST_GROUPS}; group by fewer.")
    number = np.full(len(names), -1)
    number[kept] = np.arange(len(kept))
    return Groups(column, number[code], tuple("(missing)" if names[g] is None else names[g] for g in kept))


def _by_quartile(log: Feedback, column: str, used: Bools) -> Groups:
    """Group contexts by the quartiles of a column of numbers over used contexts."""
    values = numbers(column, context_column(log, column))
    known = used & np.isfinite(values)
    if not known.any():
        return Groups(column, np.full(len(values), -1), ())
    edges = np.unique(np.quantile(values[known], [0.25, 0.5, 0.75]))
    code = np.where(known, np.searchsorted(edges, values, side="right"), -1)
    kept, place = np.unique(code[known], return_inverse=True)
    code[known] = place
    return Groups(column, code, tuple(_range(edges, int(quarter)) for quarter in kept))


def _n_values(log: Feedback, column: str) -> int:
    """Return how many values a context column has, a missing one included; of one with many, some that are too many."""
    values = context_column(log, column)
    if pa.types.is_null(values.type):
        return 1
    for rows in (_LOOK, len(values)):  # the first rows tell of most columns
        count = int(pc.count_distinct(decoded(values[:rows]), mode="all").as_py())
        if count > FEW_VALUES:
            break
    return count


def context_column(log: Feedback, column: str, name: str = "by") -> pa.ChunkedArray:
    """Return a context column that an argument, `name`, asks for."""
    if column not in log.contexts.column_names:
        raise InputError(Argument(name, column), f" is no context column; this log has {column_list(log.contexts)}.")
    if is_vector(log.contexts[column].type):
        raise InputError(Argument(name, column), " holds vectors, which make no groups; name another column.")
    return log.contexts[column]


def _range(edges: Floats, quarter: int) -> str:
    """Name the numbers between two neighbouring edges."""
    low, high = ("" if not 0 <= e < len(edges) else f"{edges[e]:.3g}" for e in (quarter - 1, quarter))
    return f"{low} to {high}" if low and high else f"below {high}" if high else f"{low} or more" if low else "all"


def chosen_contexts(log: Feedback, group: Any) -> tuple[Bools | None, str]:
    """Return (n_contexts,) which contexts are in a group, None for all of them, and its name.

    Args:
        group: None, {column: value}, a mask, or a function of the table of contexts that returns one.
    """
    if group is None or (isinstance(group, Mapping) and not group):
        return None, ALL
    if isinstance(group, Mapping):
        inside = np.ones(log.n_contexts, bool)
        for column, value in group.items():
            if column not in (names := log.contexts.column_names):
                raise InputError(f"group asks for {column!r}, no context column: {', '.join(names)}.")
            try:
                here = log.contexts[column]
                here = pc.is_null(here) if value is None else pc.fill_null(pc.equal(here, value), False)
                inside &= np.asarray(here)
            except (pa.ArrowException, TypeError):
                kind = log.contexts[column].type
                raise InputError(f"group asks for {column!r} = {value!r}; that column holds {kind}.") from None
        if not inside.any():
            raise InputError(f"No context of the log has {group!r}.")
        return inside, ", ".join(f"{column} = {value}" for column, value in group.items())
    inside = np.asarray(group(log.contexts) if callable(group) else group)
    return inside, "chosen contexts"

"""Which contexts go into which part of a split."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Bools, Floats, Ints
from nasheval.contexts.table import decoded
from nasheval.errors import InputError
from nasheval.feedback.arrow_columns import column_list

SEVERAL = 20  # voters from which on a part of them stands for all


def sole_voters(voter: Ints | None, context_offsets: Ints) -> Ints:
    """Return (n_contexts,) the voter of each context; nobody, (0,), where some have none, several or an unknown one.

    Args:
        voter: (n_records,) the voter of each record, -1 for an unknown one; records are grouped by context.
        context_offsets: (n_contexts + 1,) where the records of each context begin.
    """
    sizes, nobody = np.diff(context_offsets), np.zeros(0, np.int64)
    if voter is None or not sizes.all() or (voter < 0).any():
        return nobody
    first = voter[context_offsets[:-1]]
    return nobody if (voter != np.repeat(first, sizes)).any() else first


def at_random(voter: Ints, n_contexts: int, fraction: float, rng: np.random.Generator) -> Bools:
    """Return (n_contexts,) a random share of the contexts; of the voters, where `sole_voters` has 20 or more."""
    people = np.unique(voter)
    if len(people) < SEVERAL:
        return _first(rng.permutation(n_contexts), fraction)
    share = round(1 - fraction, 12)  # so that 1 - 0.9 is 0.1
    held = rng.permutation(people)[: round(share * len(people))]
    return np.isin(voter, held, invert=True)


def earliest(time: Floats | None, context_of: Ints, n_contexts: int, fraction: float) -> Bools:
    """Return (n_contexts,) the contexts with the earliest first record; (n_records,) times may be NaN."""
    if time is None:
        raise InputError("This log has no times; name the column when reading (time='tstamp') to split by time.")
    first = np.full(n_contexts, np.inf)
    np.minimum.at(first, context_of, np.nan_to_num(time, nan=np.inf))
    return _first(np.argsort(first, kind="stable"), fraction)


def by_column(contexts: pa.Table, column: str, fraction: float, rng: np.random.Generator) -> Bools:
    """Return (n_contexts,) random values of a context column: contexts with equal values stay together."""
    groups = _groups(contexts, column)
    order = np.argsort(rng.permutation(int(groups.max(initial=0)) + 1)[groups], kind="stable")
    return _whole_groups(_first(order, fraction), order, groups)


def _first(order: Ints, fraction: float) -> Bools:
    chosen = np.zeros(len(order), bool)
    chosen[order[: round(fraction * len(order))]] = True
    return chosen


def _groups(contexts: pa.Table, column: str) -> Ints:
    if column not in contexts.column_names:
        raise InputError(f"There is no context column {column!r}; this log has {column_list(contexts)}.")
    values = contexts[column]
    try:
        codes = pc.dictionary_encode(decoded(values).combine_chunks())
    except pa.ArrowException:
        raise InputError(f"The context column {column!r} holds {values.type}; split by a plain column.") from None
    return np.asarray(pc.fill_null(codes.indices, len(codes.dictionary)))


def _whole_groups(chosen: Bools, order: Ints, groups: Ints) -> Bools:
    """Give the group that the cut went through to the side that holds more of it."""
    last = groups[order[chosen[order]][-1]] if chosen.any() else -1
    return np.where(groups == last, chosen[groups == last].mean() >= 0.5, chosen) if last >= 0 else chosen

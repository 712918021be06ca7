"""Which contexts go into which part of a split."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Array, Bools, Ints
from nasheval.errors import InputError
from nasheval.feedback.base import Log, column_list

SEVERAL = 20  # voters from which on a part of them stands for all


def sole_voters(log: Log) -> Ints:
    """Return (n_contexts,) the voter of each context; nobody, (0,), where some have none, several or an unknown one."""
    voter, nobody = log.records.voter, np.zeros(0, np.int64)
    if voter is None or not np.diff(log.context_offsets).all() or (voter < 0).any():
        return nobody
    first = voter[log.context_offsets[:-1]]
    return nobody if (voter != first[log.context_of]).any() else np.asarray(first)


def units(log: Log) -> Ints:
    """Return (n_contexts,) what is held out whole: the voter of a context, or the context itself.

    Voters where every context has one known voter, some have several contexts, and there are 20 or more: what is
    learned of one foretells the same one, not others.
    """
    voter = sole_voters(log)
    return voter if SEVERAL <= len(np.unique(voter)) < log.n_contexts else np.arange(log.n_contexts)


def first_part(log: Log, fraction: float, *, seed: int, by: str | None) -> Bools:
    """Return (n_contexts,) which contexts belong to the first part.

    Args:
        by: None: at random, voters whole where every context has one known voter and there are 20 or more; "time": the
            earliest first; a context column: equal values stay together.
    """
    if not 0 < fraction < 1:
        raise InputError(f"The fraction is {fraction}; accepted is a number between 0 and 1, such as 0.8.")
    if by is None and len(np.unique(voter := sole_voters(log))) >= SEVERAL:
        return _first_voters(voter, fraction, seed)
    groups = None if by in (None, "time") else _groups(log, str(by))
    order = _order(log, np.random.default_rng(seed), by, groups)
    chosen = np.zeros(log.n_contexts, bool)
    chosen[order[: round(fraction * log.n_contexts)]] = True
    return chosen if groups is None else _whole_groups(chosen, order, groups)


def _first_voters(voter: Ints, fraction: float, seed: int) -> Bools:
    """Return (n_contexts,) the contexts of a share of the voters: what is learned of one foretells the same one."""
    people = np.unique(voter)
    share = round(1 - fraction, 12)  # so that 1 - 0.9 is 0.1
    held = np.random.default_rng(seed).permutation(people)[: round(share * len(people))]
    return np.isin(voter, held, invert=True)


def _order(log: Log, rng: np.random.Generator, by: str | None, groups: Ints | None) -> Ints:
    if groups is not None:
        return np.argsort(rng.permutation(int(groups.max(initial=0)) + 1)[groups], kind="stable")
    return np.argsort(_first_seen(log), kind="stable") if by == "time" else rng.permutation(log.n_contexts)


def _first_seen(log: Log) -> Array:
    if log.records.time is None:
        raise InputError("This log has no times; name the column when reading (time='tstamp') to split by time.")
    first = np.full(log.n_contexts, np.inf)
    np.minimum.at(first, log.context_of, np.nan_to_num(log.records.time, nan=np.inf))
    return first


def _groups(log: Log, column: str) -> Ints:
    if column not in log.contexts.column_names:
        raise InputError(f"There is no context column {column!r}; this log has {column_list(log.contexts)}.")
    values = log.contexts[column]
    try:
        plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
        codes = pc.dictionary_encode(plain.combine_chunks())
    except pa.ArrowException:
        raise InputError(f"The context column {column!r} holds {values.type}; split by a plain column.") from None
    return np.asarray(pc.fill_null(codes.indices, len(codes.dictionary)))


def _whole_groups(chosen: Bools, order: Ints, groups: Ints) -> Bools:
    """Give the group that the cut went through to the side that holds more of it."""
    last = groups[order[chosen[order]][-1]] if chosen.any() else -1
    return np.where(groups == last, chosen[groups == last].mean() >= 0.5, chosen) if last >= 0 else chosen

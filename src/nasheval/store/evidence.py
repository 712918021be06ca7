"""`evidence.parquet`: the log with what Stage 1 made of it, one row per context.

Its context columns and records are those of `nasheval.feedback.arrow`; beside them, for each context,

    _fold         its fold
    _propensity   out-of-fold e of each record, before the floor; of each pair of a ballot where ballots were cut
    _mu           out-of-fold mu at each pair verdict
    _voter        who gave each record, as a number: names of voters are not kept
    _vector       what its text was embedded as
    _raised       menus whose propensity lay below its floor there, where some did
    _raised_by    by what share of the floor

Texts are tags (`text_tags.tagged`) unless they were to be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from nasheval.arrays import Array, Floats, Ints, offsets_of
from nasheval.contexts.table import is_list, is_string
from nasheval.errors import InputError
from nasheval.feedback import arrow
from nasheval.feedback.log import Feedback
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.store.text_tags import tagged

EVIDENCE = "evidence.parquet"
_FOLD, _PROPENSITY, _MU, _VOTER, _VECTOR = "_fold", "_propensity", "_mu", "_voter", "_vector"
_RAISED, _RAISED_BY = "_raised", "_raised_by"
_LISTS_OF_INTS, _LISTS_OF_FLOATS = pa.large_list(pa.int32()), pa.large_list(pa.float64())
_KINDS = {
    _FOLD: pa.int16(), _PROPENSITY: _LISTS_OF_FLOATS, _MU: _LISTS_OF_FLOATS, _VOTER: _LISTS_OF_INTS,
    _RAISED: _LISTS_OF_INTS, _RAISED_BY: _LISTS_OF_FLOATS,
}  # fmt: skip
_OURS = (*_KINDS, _VECTOR)
_MANY, _RATIO = 1 << 24, 1 << 10  # values beyond which a file must have a byte for so many of them
_MOST_BYTES, _INFLATED = 1 << 28, 1 << 8  # bytes beyond which a file must have one for so many of them
_LONGEST = 2.0 + 1e-3  # of a unit vector less a mean of such
_SLACK = 1e-6  # rounding that may take a sum of probabilities above one


@dataclass(frozen=True, eq=False)
class Evidence:
    """What `evidence.parquet` holds, in flat arrays.

    Args:
        log: the log; its voters are numbers, and its texts tags unless they were kept.
        fold: (n_contexts,).
        propensity: (n_records,), or (n_verdicts,) where ballots were cut.
        mu: (n_verdicts,).
        vectors: (n_contexts, dim); None without texts.
        clipped: (n_contexts, menus) as `NuisanceFit.clipped`, a row per context; None where nothing was raised.
    """

    log: Feedback
    fold: Ints
    propensity: Floats
    mu: Floats
    vectors: Floats | None
    clipped: csr_array | None = None


# -- writing ----------------------------------------------------------------------------------------------------------


def evidence_bytes(fit: NuisanceFit, *, dim: int, tag: bool) -> bytes:
    """Return a log with its nuisances as a Parquet file.

    Args:
        dim: features of the texts, the last ones of `fit.X`.
        tag: whether to put tags in the place of texts.
    """
    log = fit.log.whole
    taken = sorted(set(_OURS) & set(log.contexts.column_names))
    if taken:
        raise InputError(f"A context column is called {taken[0]!r}, a name that saved models use; rename it and fit.")
    contexts = log.contexts
    for name in log.texts if tag else ():
        contexts = contexts.set_column(contexts.column_names.index(name), name, tagged(contexts[name]))
    table = arrow.to_arrow(replace(log, contexts=contexts, records=log.records.replace(voter=None), voters=None))
    columns = {_FOLD: pa.array(fit.fold, pa.int16())}
    columns[_PROPENSITY] = _lists(np.diff(fit.log.context_offsets), fit.raw_propensity, np.float64)
    columns[_MU] = _lists(_verdicts(log), fit.mu, np.float64)
    if log.records.voter is not None:
        columns[_VOTER] = _lists(np.diff(log.context_offsets), log.records.voter, np.int32)
    if dim:
        vectors = np.ascontiguousarray(fit.X.trees[:, -dim:], np.float32)
        columns[_VECTOR] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dim)
    if fit.clipped.nnz:
        raised = np.zeros(log.n_contexts, np.int64)
        raised[fit.looked_at] = np.diff(fit.clipped.indptr)
        columns[_RAISED] = _lists(raised, fit.clipped.indices, np.int32)
        columns[_RAISED_BY] = _lists(raised, fit.clipped.data, np.float64)
    for name, column in columns.items():
        table = table.append_column(name, column)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def _verdicts(log: Feedback) -> Ints:
    """Return (n_contexts,) how many pair verdicts each context has."""
    return np.bincount(log.context_of[log.verdicts.record], minlength=log.n_contexts)


def _lists(sizes: Ints, values: Array, kind: Any) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(offsets_of(sizes), pa.int64()), pa.array(np.asarray(values, kind)))


# -- reading ----------------------------------------------------------------------------------------------------------


def evidence_of(raw: bytes, *, n_contexts: int, n_voters: int | None, dim: int, cut: bool = False) -> Evidence:
    """Return what `evidence_bytes` wrote; raises a ValueError for anything else.

    Args:
        cut: whether ballots were cut into pairs.
        n_voters: how many voters there are, or None where the log names none.
        dim: features of the text.
    """
    table = _table(raw, n_contexts)
    own = {name: table[name].combine_chunks() for name in _OURS if name in table.column_names}
    wanted = {_FOLD, _PROPENSITY, _MU} | ({_VOTER} if n_voters is not None else set()) | ({_VECTOR} if dim else set())
    wanted |= {_RAISED, _RAISED_BY} if _RAISED in own else set()
    if set(own) != wanted:
        odd = sorted(set(own) ^ wanted)[0]
        raise ValueError(f"the column {odd!r} is {'there' if odd in own else 'not there'}, unlike manifest.json says")
    kinds = _KINDS | {_VECTOR: pa.list_(pa.float32(), dim)}
    for name, column in own.items():
        if column.type != kinds[name] or (name in (_FOLD, _VECTOR) and column.null_count):
            raise ValueError(f"the column {name!r} holds {column.type}, or a null")
    log = arrow.from_arrow(table.drop_columns(list(own)))
    records, verdicts = np.diff(log.context_offsets), _verdicts(log)
    if n_voters is not None:
        voter = _flat(own, _VOTER, records, -1, n_voters - 1)
        names = pa.array([str(number) for number in range(n_voters)], pa.string())
        log = replace(log, records=log.records.replace(voter=voter), voters=names)
    return Evidence(
        log=log,
        fold=np.asarray(own[_FOLD]),
        propensity=_flat(own, _PROPENSITY, verdicts if cut else records, 0.0, 1.0 + _SLACK),
        mu=_flat(own, _MU, verdicts, -1.0 - _SLACK, 1.0 + _SLACK),
        vectors=_flat(own, _VECTOR, dim, -_LONGEST, _LONGEST).reshape(-1, dim) if dim else None,
        clipped=_clipped(own) if _RAISED in own else None,
    )


def _table(raw: bytes, n_contexts: int) -> pa.Table:
    schema = pq.read_schema(pa.BufferReader(raw))
    texts = [name for name, kind in zip(schema.names, schema.types, strict=True) if is_string(kind)]
    with pq.ParquetFile(pa.BufferReader(raw), read_dictionary=texts, page_checksum_verification=True) as file:
        about = file.metadata
        groups = [about.row_group(group) for group in range(about.num_row_groups)]
        chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
        values, size = sum(c.num_values for c in chunks), sum(c.total_uncompressed_size for c in chunks)
        if about.num_rows != n_contexts:
            raise ValueError(f"it has {about.num_rows:,} contexts where manifest.json tells of {n_contexts:,}")
        if values > max(_MANY, _RATIO * len(raw)):
            raise ValueError(f"it claims {values:,} values in {len(raw):,} bytes")
        if size > (most := max(_MOST_BYTES, _INFLATED * len(raw))):
            raise ValueError(f"it claims to hold {size:,} bytes in {len(raw):,}")
        inner = (c.path_in_schema.split(".") for c in chunks if c.physical_type == "BYTE_ARRAY")
        if nested := [path[0] for path in inner if len(path) > 1]:
            raise ValueError(f"the column {nested[0]!r:.60} holds lists of texts, which no log has")
        table = file.read()
    table.validate(full=True)
    if (size := sum(_spelled_out(column) for column in table.columns if pa.types.is_dictionary(column.type))) > most:
        raise ValueError(f"its texts would take {size:,} bytes, in a file of {len(raw):,}")
    for name in texts:
        place, kind = table.column_names.index(name), schema.field(name).type
        table = table.set_column(place, name, table[name].cast(kind))
    if any(isinstance(kind, pa.BaseExtensionType) for kind in table.schema.types):
        raise ValueError("a column is of a type that Parquet itself does not have")
    return table


def _spelled_out(column: pa.ChunkedArray) -> int:
    """Return how many bytes a dictionary of texts would take if each row held its own."""
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
    return sum(int(pc.sum(each).cast(pa.int64()).as_py() or 0) for each in lengths)


def _flat(columns: dict[str, Any], name: str, sizes: Ints | int, low: float, high: float) -> Any:
    """Return what a column of lists holds, given how many each must hold and in which range."""
    column = columns[name]
    if column.null_count or not (np.asarray(pc.list_value_length(column)) == sizes).all():
        raise ValueError(f"the column {name!r} does not have one value for each of what it tells of")
    flat = column.flatten()
    if flat.null_count:
        raise ValueError(f"the column {name!r} holds a null")
    values = np.asarray(flat)
    if not ((values >= low) & (values <= high)).all():  # also where one is NaN
        raise ValueError(f"the column {name!r} holds a value outside {low:g} to {high:g}")
    return values


def _clipped(columns: dict[str, Any]) -> csr_array:
    """Return (n_contexts, menus) by what share of its floor each propensity lay below it."""
    sizes = np.asarray(pc.fill_null(pc.list_value_length(columns[_RAISED]), 0))
    menu = _flat(columns, _RAISED, sizes, 0, _MANY)
    share = _flat(columns, _RAISED_BY, sizes, 0.0, 1.0)
    return csr_array((share, menu, offsets_of(sizes)), shape=(len(sizes), int(menu.max(initial=-1)) + 1))


# -- which data -------------------------------------------------------------------------------------------------------


def fingerprint(log: Feedback) -> str:
    """Return a hash of what a log holds: agents, contexts, records, voters; the same for equal logs."""
    digest = sha256()
    digest.update(repr((log.agents, log.text, log.design)).encode())
    table = arrow.to_arrow(log)
    for name in table.column_names:
        digest.update(repr(name).encode())
        _digest(table[name].combine_chunks(), digest.update)
    return digest.hexdigest()


def _digest(column: Any, update: Callable[[Any], None]) -> None:
    """Tell `update` which values are missing and what the others are, whatever lies beneath the missing ones."""
    if isinstance(column, pa.ChunkedArray):  # more than one array holds
        for chunk in column.chunks:
            _digest(chunk, update)
        return
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    update(str(column.type).encode())
    update(np.packbits(np.asarray(column.is_valid())).tobytes())
    column = column.drop_null()
    if is_list(column.type):
        update(np.asarray(pc.list_value_length(column), np.int64).tobytes())
        _digest(column.flatten(), update)
    elif pa.types.is_struct(column.type):
        for field in column.flatten():
            _digest(field, update)
    elif not pa.types.is_null(column.type):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("", column.type)])) as stream:
            stream.write_batch(pa.record_batch([column], [""]))
        update(sink.getvalue())

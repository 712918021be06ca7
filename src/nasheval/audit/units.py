"""What was asked: contexts by their content, ballots by what they say, so that equal ones have equal numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import nasheval.compute as pc
from nasheval.arrays import Array, Ints
from nasheval.contexts.table import decoded
from nasheval.contexts.vectors import is_vector
from nasheval.feedback.log import Feedback


def content_of(log: Feedback) -> Ints:
    """Return (n_contexts,) a number for each context, equal where all columns are; without columns all differ."""
    code: Ints = np.zeros(log.n_contexts, np.int64)
    if not log.contexts.num_columns:
        return np.arange(log.n_contexts)
    for name in log.contexts.column_names:
        column = _numbered(log.contexts[name])
        code = _dense(code * (int(column.max(initial=0)) + 1) + column)
    return code


def said_of(log: Feedback) -> Ints:
    """Return (n_records,) a number for each record, equal where the menu, its form and the blocks are."""
    records, code = log.records, np.zeros(log.n_records, np.int64)
    for rows, entries in records.by_size():
        for column in records.block[entries].astype(np.int64).T:
            code[rows] = _dense(code[rows] * entries.shape[1] + column)
    both = np.stack([code, records.zero.astype(np.int64), log.menus.of_record.astype(np.int64)])
    return joined(*both)


def joined(*codes: Ints) -> Ints:
    """Return one number per row for several numbers of it, equal where all are."""
    whole: Ints = np.zeros(len(codes[0]), np.int64)
    for code in codes:
        least = int(code.min(initial=0))
        whole = _dense(whole * (int(code.max(initial=0)) - least + 1) + (code - least))
    return whole


def _dense(code: Array) -> Ints:
    return np.unique(code, return_inverse=True)[1].astype(np.int64).ravel()


def _numbered(column: pa.ChunkedArray) -> Ints:
    """Return (n,) a number for each value of a column."""
    if is_vector(column.type):
        vectors = column.combine_chunks()
        known = np.asarray(pc.is_valid(vectors))
        code = np.zeros(len(vectors), np.int64)
        code[known] = 1 + _rows(np.asarray(vectors.flatten()).reshape(int(known.sum()), -1))
        return code
    values = decoded(column).combine_chunks()
    if pa.types.is_nested(values.type):
        values = pa.array([repr(value) for value in values.to_pylist()])
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64)


def _rows(values: Array) -> Ints:
    whole = np.ascontiguousarray(values)
    return _dense(whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel())

"""Parquet files, read batch by batch: only the columns asked for, and never more than a batch twice in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nasheval.contexts.table import is_string

BATCH_BYTES = 1 << 26  # a batch of rows is about this large
BATCH_ROWS = 1 << 17  # and no longer than this
_BUFFER = 1 << 20  # bytes of a column that are read ahead


def parquet_batches(file: Path, schema: pa.Schema, columns: list[str], text: set[str], skip: int) -> Iterator[pa.Table]:
    """Yield some columns of a file, a batch of rows at a time; row groups inside the first `skip` rows are not read.

    `ParquetFile` without `pre_buffer` gives a batch's memory back once it was used; a pyarrow dataset, and the default
    of `ParquetFile` since release 21, keep all that they have read until the end.
    """
    # Agent names repeat millions of times: read as a dictionary they cost a few bytes per row.
    coded = [name for name in columns if name in text and is_string(schema.field(name).type)]
    with pq.ParquetFile(file, read_dictionary=coded, pre_buffer=False, buffer_size=_BUFFER) as opened:
        groups = range(opened.metadata.num_row_groups)
        while groups and (rows := opened.metadata.row_group(groups[0]).num_rows) <= skip:
            groups, skip = groups[1:], skip - rows
        rows = _batch_rows(opened.metadata, columns)
        # One thread: several keep what each has decoded, and reading takes little of the time of anything that follows.
        for batch in opened.iter_batches(rows, row_groups=list(groups), columns=columns, use_threads=False):
            table = pa.Table.from_batches([batch]).select(columns).slice(skip)
            skip = max(0, skip - batch.num_rows)
            if table.num_rows:
                yield table


def _batch_rows(about: pq.FileMetaData, columns: list[str]) -> int:
    """Return how many rows of some columns make a batch; text can be long."""
    if not about.num_row_groups or not (group := about.row_group(0)).num_rows:
        return BATCH_ROWS
    chunks = (group.column(place) for place in range(group.num_columns))
    wanted = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.split(".")[0] in columns)
    return max(1, min(BATCH_ROWS, BATCH_BYTES * group.num_rows // max(1, wanted)))

"""New contexts, read as a model's own were, block by block."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import ReadError
from nasheval.feedback.readers.arena import ARENA_55K, detect_schema
from nasheval.feedback.readers.covariates import Covariates
from nasheval.feedback.readers.row_checks import RowChecks
from nasheval.feedback.readers.sources import Source, gathered, open_source

Block: TypeAlias = tuple[pa.Table, pa.Table]  # contexts, and the columns carried over


class ContextRows:
    """The contexts of a file, without a verdict.

    Args:
        rows: the file, or some rows of it.
        encoder: of the model's contexts.
        join: as in `read_votes`; the second table is held in memory.
        keep: columns to carry over.
    """

    def __init__(
        self,
        rows: str | Source,
        encoder: ContextEncoder,
        *,
        join: Sequence[str] | None = None,
        keep: Sequence[str] = (),
    ) -> None:
        self.source, self.encoder, self.keep = open_source(rows), encoder, list(keep)
        schema = detect_schema(self.source.names)
        self._beside = Covariates(
            self.source,
            context=[column.name for column in encoder.columns],
            text=encoder.text,
            join=join,
            roles={},
            categorical=[column.name for column in encoder.columns if column.kind == "categorical"],
            prompt=schema.prompt if schema else None,
            json_text=schema is ARENA_55K,
            by_model=True,
        )
        self.source.need("keep", *self.keep)
        other = self._beside.join
        self.files: tuple[Path, ...] = (*self.source.files, *(other.source.files if other else ()))
        # What a column of a file without types holds is told from all of its rows.
        self.in_blocks = not (self.source.untyped or (other and other.source.untyped))
        if other and self.in_blocks:  # read once, not for each block
            text = [other.right, *self._beside.categorical]
            table, _ = other.source.read([other.right, *self._beside.from_join], text=text)
            self._beside.join = replace(other, source=open_source(table, name=other.source.label))

    def blocks(self, size: int, *, skip: int = 0) -> Iterator[Block]:
        """Yield blocks of so many rows, the last one shorter; all rows at once unless `in_blocks`.

        Args:
            skip: rows to leave out at the beginning, which were checked before.
        """
        for contexts, carried, _ in self._checked(size, skip):
            yield contexts, carried

    def check(self, size: int) -> int:
        """Return how many rows there are; raise at the first block with rows that the model cannot use."""
        total = 0
        for contexts, _, checks in self._checked(size, 0):
            nothing = np.zeros((1, self.encoder.text_size), np.float32)
            try:
                self.encoder.encode(contexts, vectors=nothing)
            except ReadError as error:
                file, rows, _ = checks.located(np.array(error.rows or (1,)) - 1)
                raise ReadError(**{**vars(error), "source": file, "rows": rows if error.rows else ()}) from None
            total += contexts.num_rows
        return total

    def _checked(self, size: int, skip: int) -> Iterator[tuple[pa.Table, pa.Table, RowChecks]]:
        wanted = self._beside.with_own([*self.keep, *self.source.names[:1]])
        pieces = self.source.pieces(wanted, text=self._beside.as_text, skip=skip)
        for table, files in gathered(pieces, size if self.in_blocks else sys.maxsize, self.source.label):
            checks = RowChecks(self.source.label, table.num_rows, "raise", files)
            contexts = self._beside.contexts(checks, table)
            checks.settle()
            yield contexts if contexts.num_columns else table.select([]), table.select(self.keep), checks

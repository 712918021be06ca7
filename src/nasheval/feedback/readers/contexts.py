"""Contexts of a file at which a fitted model is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from nasheval.contexts.encoder import ContextEncoder
from nasheval.feedback.readers.arena import ARENA_55K, detect_schema
from nasheval.feedback.readers.covariates import Covariates
from nasheval.feedback.readers.row_checks import RowChecks, need_columns
from nasheval.feedback.readers.sources import Source, open_source


def read_contexts(
    rows: str | Source, encoder: ContextEncoder, *, join: Sequence[str] | None = None, keep: Sequence[str] = ()
) -> tuple[pa.Table, pa.Table]:
    """Return the contexts of a file, read as the model's own were, and the columns to carry over.

    Args:
        rows: the file.
        encoder: of the model's contexts.
        join: as in `read_votes`.
        keep: columns to carry over.
    """
    source = open_source(rows)
    schema = detect_schema(source.names)
    beside = Covariates.resolve(
        source,
        context=[column.name for column in encoder.columns],
        text=encoder.text,
        join=join,
        roles={},
        categorical=[column.name for column in encoder.columns if column.kind == "categorical"],
        prompt=schema.prompt if schema else None,
        json_text=schema is ARENA_55K,
    )
    for name in keep:
        need_columns({"keep": name}, source.names, source.label)
    table = source.read([*beside.columns(), *keep, *source.names[:1]], text=beside.as_text())
    checks = RowChecks(source.label, table.num_rows, "raise")
    contexts = beside.contexts(checks, table)
    checks.settle()
    return contexts if contexts.num_columns else table.select([]), table.select(list(keep))

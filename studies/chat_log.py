"""Builds the bundled chat log, one table of votes, from the release of QLoRA: `python -m studies build-chat`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from studies.harness.files import data_file
from studies.harness.options import parser

LABELS = {1: "model_a", 2: "model_b", 3: "tie"}  # others were not parsed


def votes() -> pa.Table:
    """Return the verdicts that were parsed, prompts in the order of the release."""
    verdicts, prompts = (pq.read_table(data_file(f"oa_pairs/{name}.parquet")) for name in ("judgments", "prompts"))
    place = {prompt: row for row, prompt in enumerate(prompts["prompt_id"].to_pylist())}
    row = np.array([place[prompt] for prompt in verdicts["prompt_id"].to_pylist()])
    order = np.argsort(row, kind="stable")
    order = order[np.isin(np.asarray(verdicts["score"])[order], list(LABELS))]
    asked, said = prompts.take(pa.array(row[order])), verdicts.take(pa.array(order))
    columns = {
        "prompt_id": pa.array(row[order].astype(np.int16)),
        "language": asked["lang"],
        "prompt": asked["text"],
        "model_a": said["model_1"],
        "model_b": said["model_2"],
        "winner": pa.array([LABELS[score] for score in said["score"].to_pylist()]),
    }
    return pa.table({name: _words(column) for name, column in columns.items()})


def _words(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column if pa.types.is_integer(column.type) else column.cast("string")


def main(words: Sequence[str]) -> None:
    """Write the table."""
    options = parser("build-chat", __doc__)
    options.add_argument("--out", "-o", type=Path, default=Path("chat_votes.parquet"), help="file to write")
    file = options.parse_args(words).out
    pq.write_table(votes(), file, compression="zstd", compression_level=19)
    print(f"{file}: {file.stat().st_size:,} bytes")

"""A made-up file with the columns of arena-human-preference-140k, conversations included, where the real one is not.

Models differ in skill, and differently by language and for code, so there is something to find.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LANGUAGES = ("en", "pl", "ru", "zh", "de", "fr", "ja", "und")
WORDS = np.array(re.findall(r"\w+", """write a function that explains the history of my garden and then translate this
    poem about winter into python please list ten reasons why rivers flow what is best recipe for soup compare two
    phones fix bug in code below story"""))  # fmt: skip
LABELS = np.array(["model_a", "model_b", "tie", "both_bad"])


def write_release(path: Path, votes: int, models: Sequence[str], *, seed: int = 0, chunk: int = 20_000) -> None:
    """Write a made-up release, a row group a chunk.

    Args:
        votes: number of rows.
        models: names of the models that meet.
    """
    rng, count = np.random.default_rng(seed), len(models)
    skill = rng.normal(0, 0.6, count) + rng.normal(0, 0.4, (len(LANGUAGES), 2, count))  # by language and code
    share = rng.dirichlet(np.full(count, 3.0))  # some models are shown more often than others
    writer = None
    for start in range(0, votes, chunk):
        table = _rows(min(chunk, votes - start), start, np.array(models), skill, share, rng)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _rows(n: int, start: int, names: Any, skill: Any, share: Any, rng: np.random.Generator) -> pa.Table:
    a, b = rng.choice(len(names), n, p=share), rng.choice(len(names), n, p=share)
    b = np.where(a == b, (b + 1) % len(names), b)
    language, code = rng.choice(len(LANGUAGES), n, p=_geometric(len(LANGUAGES))), rng.random(n) < 0.3
    lead = skill[language, code * 1, a] - skill[language, code * 1, b]
    label = np.where(rng.random(n) < 1 / (1 + np.exp(-lead)), 0, 1)
    label = np.where(rng.random(n) < 0.25, rng.integers(2, 4, n), label)
    prompts = [" ".join(rng.choice(WORDS, size)) for size in rng.integers(4, 60, n)]
    number = np.arange(start, start + n)
    return pa.table(
        {
            "id": [f"{i:032x}" for i in number],
            "model_a": names[a],
            "model_b": names[b],
            "winner": LABELS[label],
            "evaluation_session_id": [f"s{i:08d}" for i in number // 2],  # two votes a session
            "evaluation_order": (number % 2 + 1).astype(np.int64),
            "conversation_a": [_conversation(prompt) for prompt in prompts],
            "conversation_b": [_conversation(prompt) for prompt in prompts],
            "category_tag": [_tags(x) for x in rng.random((n, 4)) < 0.2],
            "language": np.array(LANGUAGES)[language],
            "is_code": code,
            "timestamp": pa.array(1_745_000_000 + number * 60, pa.timestamp("s")),
        }
    )


def _geometric(n: int) -> Any:
    weight = 0.6 ** np.arange(n)
    return weight / weight.sum()


def _conversation(prompt: str) -> list[dict[str, Any]]:
    def message(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text, "image": None, "mimeType": None}]}

    return [message("user", prompt), message("assistant", "Certainly. " * 20)]


def _tags(drawn: Any) -> dict[str, Any]:
    creative, hard, strict, maths = (bool(x) for x in drawn)
    return {
        "creative_writing_v0.1": {"creative_writing": creative},
        "criteria_v0.1": {"complexity": hard},
        "if_v0.1": {"if": strict, "score": 3},
        "math_v0.1": {"math": maths},
    }

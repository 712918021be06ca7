"""What is kept of the contexts and prompts of requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from nasheval.serving.deciding import Decider
from nasheval.serving.tokens import keyed

PROMPT = "prompt"  # purpose of the hash of a prompt


@dataclass(frozen=True)
class About:
    """A context as it is kept.

    Args:
        columns: context, prompt, prompt_hash and vector, as in the tables.
        digest: of all of it, which a decision's id carries.
    """

    columns: dict[str, Any]
    digest: str


NOTHING = {"context": None, "prompt": None, "prompt_hash": None, "vector": None}


def about(decider: Decider, context: dict[str, Any], secret: bytes, *, keep_prompts: bool) -> About:
    """Return what is kept of a context: its columns, and of its texts keyed hashes and vectors, or themselves."""
    plain, texts = decider.split(context)
    columns: dict[str, Any] = dict(NOTHING)
    columns["context"] = to_json(plain).decode()
    if texts:
        hashes = {name: keyed(secret, PROMPT, text) for name, text in texts.items()}
        columns["prompt_hash"] = to_json(hashes).decode()
        columns["vector"] = decider.embedding(texts)
        if keep_prompts:
            columns["prompt"] = to_json(texts).decode()
    said = columns["context"] + (columns["prompt_hash"] or "")
    return About(columns, keyed(secret, "context", said))

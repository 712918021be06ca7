"""What the studies on real prompts share: their contexts, test sets one after another, pairs drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from studies.arrays import Ints
from studies.prompts.features import prompt_features

SPLITS = 5
FEATURES = ("is_code", "is_math", "log_tokens")  # of every prompt, beside its text
_ORDER = 0  # seed of the order in which prompts are tested: the same for every method and every run


def prompt_table(texts: Any, *, language: Any = None, **columns: Any) -> pa.Table:
    """Return the contexts: prompt_id (row numbers as text), the columns given, text, and features of the text.

    Args:
        texts: n prompts.
        language: n language codes; None: guessed.
    """
    features = prompt_features(texts, language)
    tokens = np.asarray(features["tokens"], np.float64)
    return pa.table(
        {
            "prompt_id": [str(i) for i in range(len(tokens))],
            **columns,
            "text": texts,
            "is_code": features["is_code"],
            "is_math": features["is_math"],
            "log_tokens": np.log(np.maximum(tokens, 1.0)),
        }
    )


def windows(n: int, size: int, splits: int = SPLITS) -> list[Ints]:
    """Return the prompts of each test set, (size,): evenly spaced windows of one random order, which close a circle.

    Test sets share prompts only where there are fewer than splits * size, and then as few as can be.
    """
    order = np.random.default_rng(_ORDER).permutation(n)
    starts = np.linspace(0, n, splits, endpoint=False).astype(int)
    return [order[(start + np.arange(size)) % n] for start in starts]


def others(n: int, test: Ints, most: int | None = None) -> Ints:
    """Return the prompts that are not tested, ascending; of more than `most`, so many evenly spaced ones."""
    rest = np.setdiff1d(np.arange(n), test)
    return rest if most is None or len(rest) <= most else rest[np.arange(most) * len(rest) // most]


def repeats(n: int, size: int, splits: int = SPLITS) -> float:
    """Return by how much tests of the same prompt may raise the variance of a mean over all test sets, at most.

    With c_i tests of prompt i it is sum c_i^2 / sum c_i, as if a prompt told the same every time; 1 where none is
    tested twice.
    """
    count = np.bincount(np.concatenate(windows(n, size, splits)), minlength=n)
    return float((count**2).sum() / count.sum())


def drawn_pairs(n: int, n_pairs: int, count: int, rng: np.random.Generator) -> Ints:
    """Return (n, count) different pairs for each of n prompts, uniformly at random."""
    return np.asarray(np.argsort(rng.random((n, n_pairs)), axis=1)[:, :count])

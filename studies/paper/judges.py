"""RouterBench scores -> verdicts: the label first, then one of three simulated judges (Eq. rb-label-first).

The paper asked three language models with distinct emphases. Their verdicts are not in the data, so here each judge is
a rule on what the data hold, fixed before any method was run:

- efficiency: the cheaper answer is better;
- depth: the answer of more tokens is better, as its cost over the price of its model implies, where a model's price is
  the median over prompts of what it cost a character of the prompt. Without the price, depth would be the opposite of
  efficiency; with it, the mean product of their verdicts is 0.12 (efficiency and rigour -0.32, depth and rigour 0.15);
- rigour: the answer of the model that was right more often on the 25 nearest other prompts is better (cosine of the
  embedded questions).

Each judge gives every model a number at every prompt, so each is transitive, and their majority need not be. Equal
numbers are a tie. A judge is asked only where both models are right.
"""

from __future__ import annotations

import numpy as np

import nasheval as ne
from studies.arrays import Floats

NEIGHBOURS = 25
_DIGITS = 9  # significant ones: models with one tokeniser imply the same number of tokens, up to rounding


def tastes(score: Floats, cost: Floats, length: Floats, questions: list[str]) -> dict[str, Floats]:
    """Return what each judge thinks of every answer, (n, K), larger is better.

    Args:
        score: (n, K) 0 or 1.
        cost: (n, K) in dollars.
        length: (n,) characters of the prompts, as the models saw them.
        questions: n questions without worked examples, to be embedded.
    """
    price = np.median(cost / length[:, None], axis=0)
    opinions = {"efficiency": -cost, "depth": cost / price, "rigour": accuracy_nearby(score, questions)}
    return {judge: _rounded(values) for judge, values in opinions.items()}


def accuracy_nearby(score: Floats, questions: list[str], neighbours: int = NEIGHBOURS) -> Floats:
    """Return the mean score (n, K) of each model at the nearest other questions."""
    vectors = ne.TextEncoder().encode(questions)
    near = vectors @ vectors.T
    np.fill_diagonal(near, -np.inf)
    nearest = np.argsort(-near, axis=1, kind="stable")[:, : min(neighbours, len(score) - 1)]
    return np.asarray(score[nearest].mean(axis=1))


def verdicts(score: Floats, taste: Floats) -> Floats:
    """Return the verdicts (n, K, K) of one judge (Eq. rb-label-first): labels where they differ, 0 where both fail."""
    both = (score[:, :, None] > 0) & (score[:, None, :] > 0)
    label = np.sign(score[:, :, None] - score[:, None, :])
    return np.asarray(np.where(both, np.sign(taste[:, :, None] - taste[:, None, :]), label))


def _rounded(values: Floats) -> Floats:
    size = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.maximum(np.abs(values), 1e-300))))
    return np.asarray(np.round(values * size) / size)

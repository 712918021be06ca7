"""A log in two parts: one to learn from, one to compare on."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nasheval.feedback.log import Feedback

_TEST = 0.2  # share of the contexts in the part "test"


class Part(StrEnum):
    """Which part of a log."""

    all = "all"
    train = "train"
    test = "test"


def part_of(log: Feedback, part: Part, seed: int) -> Feedback:
    """Return a part of a log; the two parts of one seed have no context in common."""
    if part is Part.all:
        return log
    train, test = split_log(log, _TEST, seed)
    return train if part is Part.train else test


def split_log(log: Feedback, holdout: float, seed: int) -> tuple[Feedback, Feedback]:
    """Return a log in two parts, the second of a share of its contexts.

    Where every context has one known voter and there are 20 or more, voters are split: what is learned of one would
    help to foretell the same one, not others.
    """
    import numpy as np

    from nasheval.feedback.splitting import SEVERAL, sole_voters

    voter = sole_voters(log)
    people = np.unique(voter)
    if len(people) < SEVERAL:
        return log.split(1 - holdout, seed=seed)
    held = np.random.default_rng(seed).permutation(people)[: round(holdout * len(people))]
    inside = np.isin(voter, held)
    return log[~inside], log[inside]

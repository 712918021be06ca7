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
    """Return a part of a log; the two parts of one seed have no context in common (see `Feedback.split`)."""
    if part is Part.all:
        return log
    train, test = log.split(1 - _TEST, seed=seed)
    return train if part is Part.train else test

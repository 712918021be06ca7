"""A log in two parts: one to learn from, one to compare on."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nasheval.arrays import Ints
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

    from nasheval.payoff.clusters import FEW

    voter = sole_voters(log)
    people = np.unique(voter)
    if len(people) < FEW:
        return log.split(1 - holdout, seed=seed)
    held = np.random.default_rng(seed).permutation(people)[: round(holdout * len(people))]
    inside = np.isin(voter, held)
    return log[~inside], log[inside]


def sole_voters(log: Feedback) -> Ints:
    """Return (n_contexts,) the voter of each context; nobody, (0,), where some have none, several or an unknown one."""
    import numpy as np

    voter, nobody = log.records.voter, np.zeros(0, np.int64)
    if voter is None or not np.diff(log.context_offsets).all() or (voter < 0).any():
        return nobody
    first = voter[log.context_offsets[:-1]]
    return nobody if (voter != first[log.context_of]).any() else np.asarray(first)

"""The contextual leaderboard: who wins in which group of contexts, with the familiar rating beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from nasheval.feedback.links import BRIDGED
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import Regularizer
from nasheval.nuisance.learners import Effort, run_all
from nasheval.payoff.inference import GroupPayoff
from nasheval.policy.pooled import ratings


@dataclass(frozen=True)
class Standing:
    """One agent in one group.

    Args:
        group: value of the context column, or "all".
        agent: its name.
        lottery: its probability in the equilibrium of the group's mean payoffs.
        lower, upper: the stability range of that probability.
        frequency: share of bootstrap draws in which it is among the winners.
        in_support: whether it is among the winners.
        rating: Bradley-Terry rating from the group's votes, Elo scale, mean 1000; NaN where they do not determine it.
        rating_error: standard error of the rating.
        votes: weight of the group's comparisons that show it.
        bridged: opponents of the group that it never met in the log, so that its payoff against them is bridged.
    """

    group: str
    agent: str
    lottery: float
    lower: float
    upper: float
    frequency: float
    in_support: bool
    rating: float
    rating_error: float
    votes: float
    bridged: int


def standings(
    log: Feedback, payoffs: Sequence[GroupPayoff], regularizer: Regularizer, effort: Effort | None = None
) -> Iterator[Standing]:
    """Yield the agents that have a vote in each group, most probable first."""
    places = range(len(payoffs))
    for rows in run_all(
        lambda g: list(_in_group(log, payoffs[g], regularizer)), places, len(places), effort or Effort()
    ):
        yield from rows


def _in_group(log: Feedback, payoff: GroupPayoff, regularizer: Regularizer) -> Iterator[Standing]:
    stability = payoff.equilibrium(regularizer)
    board = ratings(log if payoff.inside.all() else log[payoff.inside])
    rating = np.where(board.determined, board.rating, np.nan)
    order = np.lexsort((-rating, -stability.frequency.round(2), -stability.lottery.round(3)))
    unseen = ((payoff.status == BRIDGED) & payoff.present).sum(axis=1)
    for a in order[payoff.present[order]]:
        chances = (stability.lottery, stability.lower, stability.upper, stability.frequency, stability.winners)
        numbers = (each[a].item() for each in (*chances, rating, board.error, board.votes, unseen))
        yield Standing(payoff.name, log.agents[a], *numbers)


def as_frame(rows: Sequence[Standing]) -> Any:
    """Return a pandas DataFrame; without pandas one of polars; without either a pyarrow Table."""
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in fields(Standing)}
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return import_module(library).DataFrame(columns)
    return import_module("pyarrow").table(columns)

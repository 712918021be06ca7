"""The contextual leaderboard: who wins in which group of contexts, with the familiar rating beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from nasheval.arrays import Bools
from nasheval.choices import AS_VOTED
from nasheval.feedback.links import BRIDGED
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import Regularizer
from nasheval.nuisance.learners import Effort, run_all
from nasheval.payoff.inference import GroupPayoff
from nasheval.policy.pooled import ratings
from nasheval.scoring.ties import tells_nothing, tie_groups
from nasheval.scoring.tool_rules import rule_of, tool_scores


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
        tied: whether it is in the tie group: the votes do not tell it apart from the leader (`tie_groups`).
        contexts: of the group, with a vote or more.
        tool_score: by the rule of the tool that wrote the log (`tool_rules`), NaN where it has none.
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
    tied: bool
    contexts: int
    tool_score: float = np.nan


def standings(
    log: Feedback, payoffs: Sequence[GroupPayoff], regularizer: Regularizer, effort: Effort | None = None
) -> Iterator[Standing]:
    """Yield the agents that have a vote in each group, most probable first.

    Tie groups hold for all groups together. Groups whose votes tell no agents apart come last.
    """
    found = list(zip(payoffs, tie_groups(payoffs), strict=True))
    found.sort(key=lambda one: tells_nothing(*one))
    places = range(len(found))
    for rows in run_all(lambda g: list(in_group(log, *found[g], regularizer)), places, len(places), effort or Effort()):
        yield from rows


def in_group(log: Feedback, payoff: GroupPayoff, tied: Bools, regularizer: Regularizer) -> Iterator[Standing]:
    """Yield the agents that have a vote in one group, given its tie group, (K,)."""
    stability = payoff.equilibrium(regularizer)
    board = ratings(log if payoff.inside.all() else log[payoff.inside])
    rating = np.where(board.determined, board.rating, np.nan)
    order = np.lexsort((-rating, -stability.frequency.round(2), -stability.lottery.round(3)))
    unseen = ((payoff.status == BRIDGED) & payoff.present).sum(axis=1)
    contexts = np.full(len(tied), payoff.moments.n_contexts)
    beside = tool_scores(log, payoff.inside, board)
    for a in order[payoff.present[order]]:
        chances = (stability.lottery, stability.lower, stability.upper, stability.frequency, stability.winners)
        others = (rating, board.error, board.votes, unseen, tied, contexts, beside)
        numbers = (each[a].item() for each in (*chances, *others))
        yield Standing(payoff.name, log.agents[a], *numbers)


def columns_of(log: Feedback, rows: Sequence[Standing], estimand: str = AS_VOTED) -> dict[str, list[Any]]:
    """Return the columns of a leaderboard; the score of the tool that wrote the log, if any, under the tool's name.

    Where payoffs are not as voted, a column says what they are.
    """
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in fields(Standing)}
    rule, scores = rule_of(log), columns.pop("tool_score")
    if rule is not None:
        columns[rule.header] = scores
    return columns if estimand == AS_VOTED else {**columns, "estimand": [estimand] * len(rows)}


def as_frame(log: Feedback, rows: Sequence[Standing], estimand: str = AS_VOTED) -> Any:
    """Return a pandas DataFrame; without pandas one of polars; without either a pyarrow Table."""
    columns = columns_of(log, rows, estimand)
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return import_module(library).DataFrame(columns)
    return import_module("pyarrow").table(columns)

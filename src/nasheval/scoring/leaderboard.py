"""The contextual leaderboard: who wins in which group of contexts, with the familiar rating beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.feedback.groups import by_value
from nasheval.feedback.links import BRIDGED
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import Regularizer
from nasheval.payoff.inference import GroupPayoff, group_payoff, group_payoffs
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.policy.ladder import ratings

ALL = "all"  # the name of the group of all contexts


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


class Group(NamedTuple):
    """A group of contexts: its name, who is inside, (n_contexts,), and its mean payoffs."""

    name: str
    inside: Bools
    payoff: GroupPayoff


def standings(log: Feedback, groups: Sequence[Group], regularizer: Regularizer) -> Iterator[Standing]:
    """Yield the agents that have a vote in each group, most probable first."""
    for name, inside, payoff in groups:
        found = payoff.equilibrium(regularizer)
        rating, error, votes = rated(log, inside)
        order = np.lexsort((-rating, -found.frequency.round(2), -found.lottery.round(3)))
        unseen = ((payoff.status == BRIDGED) & payoff.present).sum(axis=1)
        for a in order[payoff.present[order]]:
            yield Standing(
                name,
                log.agents[a],
                float(found.lottery[a]),
                float(found.lower[a]),
                float(found.upper[a]),
                float(found.frequency[a]),
                bool(found.winners[a]),
                float(rating[a]),
                float(error[a]),
                float(votes[a]),
                int(unseen[a]),
            )


def rated(log: Feedback, inside: Bools) -> tuple[Floats, Floats, Floats]:
    """Return ratings, their errors and votes, (K,) each, from the votes at some contexts."""
    part = log if inside.all() else log[inside]
    if not part.n_records:
        nothing = np.full(log.n_agents, np.nan)
        return nothing, nothing, np.zeros(log.n_agents)
    found = ratings(part)
    return np.where(found.determined, found.rating, np.nan), found.error, found.votes


def groups_of(pseudo: PseudoOutcomes, by: str | None, **options: Any) -> list[Group]:
    """Return the groups of a context column, most contexts first; None: one of all contexts.

    Args:
        options: confidence, voters and seed, as for `group_payoff`.
    """
    if by is None:
        return [Group(ALL, np.ones(pseudo.n_contexts, bool), group_payoff(pseudo, name=ALL, **options))]
    groups = by_value(pseudo.fit.log, by, pseudo.used)
    payoffs = group_payoffs(pseudo, by, **options)
    return [Group(payoff.name, groups.code == groups.names.index(payoff.name), payoff) for payoff in payoffs]

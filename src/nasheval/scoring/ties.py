"""Tie groups: agents that the votes of a group do not tell apart from its leader, with limits that hold together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.game.regularizers import L2
from nasheval.game.solver import lotteries
from nasheval.payoff.inference import GroupPayoff


def tie_groups(payoffs: Sequence[GroupPayoff]) -> list[Bools]:
    """Return, for each group, (K,) the agents that its votes do not tell apart from its leader; a tie group.

    The leader is the winning lottery: one agent, or several where none beats all others. Another agent is told apart
    if its upper limit against that lottery is below zero. The chance of any false separation, in any of the groups, is
    at most 1 - confidence. Not to be told apart is not to be as good.
    """
    return [
        payoff.present & (upper @ best_lottery(payoff) >= 0)
        for payoff, (_, upper) in zip(payoffs, limits_together(payoffs), strict=True)
    ]


def tells_nothing(payoff: GroupPayoff, tied: Bools) -> bool:
    """Whether the votes of a group tell no agent apart from its leader."""
    return bool(tied.sum() == payoff.present.sum())


def limits_together(payoffs: Sequence[GroupPayoff]) -> list[tuple[Floats, Floats]]:
    """Return lower and upper limits (K, K) of each group's payoffs, which hold for all pairs of all groups together."""
    level = [1 - (1 - payoff.confidence) / len(payoffs) for payoff in payoffs]
    return [payoff.interval(each, bridged=False) for payoff, each in zip(payoffs, level, strict=True)]


def best_lottery(payoff: GroupPayoff) -> Floats:
    """Return (K,) the maximal lottery of a group's mean payoffs, under a slight L2 as in leaderboards."""
    return lotteries(np.clip(payoff.estimate, -1, 1)[None], L2(), payoff.present)[0]

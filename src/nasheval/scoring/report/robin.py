"""Held-out comparisons as a report shows them."""

from __future__ import annotations

from nasheval.arrays import Floats
from nasheval.scoring.contests import Contest
from nasheval.scoring.heldout import Evaluation
from nasheval.scoring.report.data import Gaps, HeldOut, RoundRobin
from nasheval.scoring.report.numbers import gappy, rounded


def held_out_of(found: Evaluation) -> HeldOut:
    """Return an evaluation as plain values."""
    cost = None if found.spending is None else rounded(found.spending.mean, 8)
    contests = tuple(_robin(contest) for contest in (found.overall, *found.groups))
    return HeldOut(found.policies, found.confidence, found.verdict, found.by, contests, cost, found.notes)


def _robin(contest: Contest) -> RoundRobin:
    return RoundRobin(
        name=contest.name,
        contexts=contest.n_contexts,
        value=_matrix(contest.value),
        lower=_matrix(contest.lower),
        upper=_matrix(contest.upper),
        same=tuple(tuple(bool(cell == 0) for cell in row) for row in contest.error),
        opponent=contest.worst_opponent,
        worst=gappy(contest.worst),
        worst_lower=gappy(contest.worst_lower),
        worst_upper=gappy(contest.worst_upper),
    )


def _matrix(values: Floats) -> tuple[Gaps, ...]:
    return tuple(gappy(row) for row in values)

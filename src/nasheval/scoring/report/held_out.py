"""Held-out comparisons as a report shows them."""

from __future__ import annotations

from nasheval.scoring.contests import Contest
from nasheval.scoring.heldout import Evaluation
from nasheval.scoring.report.data import HeldOut, RoundRobin
from nasheval.scoring.report.numbers import gappy, rounded


def held_out_of(evaluation: Evaluation) -> HeldOut:
    """Return an evaluation as plain values."""
    return HeldOut(
        policies=evaluation.policies,
        confidence=evaluation.confidence,
        verdict=evaluation.verdict,
        by=evaluation.by,
        contests=tuple(_round_robin(contest) for contest in (evaluation.overall, *evaluation.groups)),
        cost=None if evaluation.spending is None else rounded(evaluation.spending.mean, 8),
        notes=evaluation.notes,
    )


def _round_robin(contest: Contest) -> RoundRobin:
    return RoundRobin(
        name=contest.name,
        contexts=contest.n_contexts,
        value=tuple(map(gappy, contest.value)),
        lower=tuple(map(gappy, contest.lower)),
        upper=tuple(map(gappy, contest.upper)),
        same=tuple(tuple(bool(cell == 0) for cell in row) for row in contest.error),
        opponent=contest.worst_opponent,
        worst=gappy(contest.worst),
        worst_lower=gappy(contest.worst_lower),
        worst_upper=gappy(contest.worst_upper),
    )

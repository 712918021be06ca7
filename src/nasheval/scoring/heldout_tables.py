"""How held-out scores are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nasheval.payoff.drawing import listing
from nasheval.scoring.contests import Contest
from nasheval.scoring.spending import Spending

if TYPE_CHECKING:
    from rich.table import Table


def round_robin_table(title: str, contest: Contest) -> Table:
    """Draw each pair of policies with the one that leads first, the clearest first."""
    a, b = np.triu_indices(len(contest.policies), 1)
    ahead = contest.value[a, b] >= 0
    first, second = np.where(ahead, a, b), np.where(ahead, b, a)
    order = np.lexsort((-contest.value[first, second], -contest.lower[first, second]))
    rows = [
        (contest.policies[p], contest.policies[q],
         *_signed(contest.value[p, q], contest.error[p, q], contest.lower[p, q], contest.upper[p, q]),
         f"{contest.effective[p, q]:,.0f}", _verdict(contest.lower[p, q], contest.error[p, q]))
        for p, q in zip(first[order], second[order], strict=True)
    ]  # fmt: skip
    numbers = ("value", "error", "lower", "upper", "effective n", "verdict")
    return listing(title, ("policy", "over"), numbers, rows, len(rows))


def policy_table(title: str, contest: Contest, spending: Spending | None) -> Table:
    """Draw each policy with its worst single opponent, and what it costs."""
    names, numbers = ("policy", "opponent"), ["it wins", "lower", "upper"]
    rows = [(name, *_worst(contest, p)) for p, name in enumerate(contest.policies)]
    if spending is not None:
        numbers += ["cost", "lower", "upper"]
        costs = zip(spending.mean, spending.lower, spending.upper, strict=True)
        rows = [(*row, *(f"{cost:.4g}" for cost in cell)) for row, cell in zip(rows, costs, strict=True)]
    return listing(title, names, numbers, rows, len(rows))


def group_table(title: str, groups: tuple[Contest, ...]) -> Table:
    """Draw each group and policy: its value against the first policy, and its worst single opponent."""
    first = groups[0].policies[0]
    rows = [
        (group.name, name, f"{group.n_contexts:,}", *_signed(group.value[p, 0], group.lower[p, 0], group.upper[p, 0]),
         *_worst(group, p))
        for group in groups
        for p, name in enumerate(group.policies)
    ]  # fmt: skip
    numbers = ("contexts", f"over {first}", "lower", "upper", "opponent", "it wins", "lower", "upper")
    return listing(title, ("group", "policy"), numbers, rows, len(rows))


def _worst(contest: Contest, p: int) -> tuple[str, ...]:
    numbers = (contest.worst[p], contest.worst_lower[p], contest.worst_upper[p])
    return contest.worst_opponent[p], *_signed(*numbers)


def _signed(*numbers: float) -> tuple[str, ...]:
    return tuple(f"{number:+.3f}" for number in numbers)


def _verdict(lower: float, error: float) -> str:
    return "beats" if lower > 0 else "the same" if error == 0 else "not told apart"

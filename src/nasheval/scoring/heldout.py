"""Policies judged on a held-out log, without knowing the truth: the result, and how it comes from nuisances.

The head-to-head value of two policies is E[pi_a(X)' A(X) pi_b(X)] (Eq. eval-game-value). Its one-step estimate is the
mean over the log's contexts of sum_jk pi_a,j pi_b,k Gamma_jk (Eqs. payoff-pseudo-outcome, payoff-one-step): right if
either the outcome model or the propensities are, and with an error of second order if both are a little wrong. The
nuisances are cross-fitted on the held-out log itself, so no policy is judged by the model it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.feedback.groups import Groups, by_value
from nasheval.nuisance.nuisance_diagnostics import NuisanceDiagnostics
from nasheval.payoff.clusters import Cluster, Speaks
from nasheval.payoff.intervals import checked_level
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.scoring.contests import Arena, Contest, Inference
from nasheval.scoring.spending import Costs, Spending, costs_of, measure_spending

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How P policies do on a held-out log; prints as tables, the verdict first.

    Args:
        overall: over all contexts: `overall.value[a, b]` is what policy a wins against policy b.
        groups: the same over each value of the column `by`, most contexts first; empty without one.
        by: the context column that makes the groups.
        spending: what the policies cost; None where no costs were given.
        confidence: of the intervals.
        notes: what to know before trusting it.
    """

    overall: Contest
    groups: tuple[Contest, ...]
    by: str | None
    spending: Spending | None
    confidence: float
    notes: tuple[str, ...]

    @property
    def policies(self) -> tuple[str, ...]:
        """(P,) names of the policies."""
        return self.overall.policies

    @property
    def agents(self) -> tuple[str, ...]:
        """(K,) names of the agents."""
        return self.overall.agents

    @property
    def value(self) -> Floats:
        """(P, P) what the row policy wins against the column policy; antisymmetric."""
        return self.overall.value

    @property
    def lower(self) -> Floats:
        """(P, P) lower ends of intervals that hold for all pairs of policies together."""
        return self.overall.lower

    @property
    def upper(self) -> Floats:
        """(P, P) upper ends of the same."""
        return self.overall.upper

    @cached_property
    def beats(self) -> Bools:
        """(P, P) whether the row policy beats the column policy: its value is above 0 at the stated confidence."""
        return self.lower > 0

    @property
    def best(self) -> str | None:
        """The policy that beats every other; None where no policy does."""
        winners = np.flatnonzero(self.beats.sum(axis=1) == len(self.policies) - 1)
        return self.policies[winners[0]] if len(winners) and len(self.policies) > 1 else None

    def compare(self, one: str, other: str) -> str:
        """Say in words how two policies compare, such as "ours beats bt by 0.031 [0.012, 0.050]"."""
        a, b = self.policies.index(one), self.policies.index(other)
        if self.value[a, b] < 0:
            a, b = b, a
        numbers = f"{self.value[a, b]:.3f} [{self.lower[a, b]:.3f}, {self.upper[a, b]:.3f}]"
        if self.beats[a, b]:
            return f"{self.policies[a]} beats {self.policies[b]} by {numbers}"
        if self.overall.error[a, b] == 0:
            return f"{one} and {other} agree at every context"
        return f"{self.policies[a]} and {self.policies[b]} are not told apart: {numbers}"

    @property
    def verdict(self) -> str:
        """Which policy to take, in a sentence."""
        if len(self.policies) == 1:
            return f"{self.policies[0]} is alone; give two policies or more to compare them."
        if len(self.policies) == 2:
            return f"{self.compare(*self.policies)}."
        if self.best is not None:
            a = self.policies.index(self.best)
            nearest = min((b for b in range(len(self.policies)) if b != a), key=lambda b: self.lower[a, b])
            return f"{self.best} is best; its closest rival: {self.compare(self.best, self.policies[nearest])}."
        left = [name for b, name in enumerate(self.policies) if not self.beats[:, b].any()]
        return f"No policy beats all others; beaten by none: {', '.join(left) or 'none of them'}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "policies": list(self.policies),
            "agents": list(self.agents),
            "confidence": self.confidence,
            "verdict": self.verdict,
            "best": self.best,
            "overall": self.overall.to_dict(),
            "by": self.by,
            "groups": [group.to_dict() for group in self.groups],
            "spending": None if self.spending is None else self.spending.to_dict(),
            "notes": list(self.notes),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the verdict, the round robin, each policy's worst opponent and cost, the groups and the notes."""
        from rich.text import Text

        from nasheval.payoff.drawing import warnings
        from nasheval.scoring.heldout_tables import group_table, policy_table, round_robin_table

        yield Text(self.verdict, style="bold")
        level = f"{self.confidence:.0%}"
        if len(self.policies) > 1:
            yield round_robin_table(f"Head to head over {self.overall.n_contexts:,} contexts, intervals of {level} for "
                                    "all pairs together", self.overall)  # fmt: skip
        yield policy_table(f"Worst single opponent, intervals of {level} over all agents", self.overall, self.spending)
        if self.groups:
            yield group_table(f"By {self.by}, intervals of {level} over all agents and groups", self.groups)
        yield from warnings(self.notes)

    def __str__(self) -> str:
        from nasheval.payoff.drawing import plain

        return plain(self)


def score(
    pseudo: PseudoOutcomes,
    lotteries: Mapping[str, Floats],
    *,
    by: str | None = None,
    costs: Costs | None = None,
    cluster: Cluster | None = None,
    voters: Speaks | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """Score lotteries on a log whose nuisances are fitted.

    Args:
        pseudo: Gamma of the log.
        lotteries: for each policy (n_contexts, K) lotteries, agents as in the log.
        by: the context column that makes groups.
        costs: {agent: cost}, or {agent: context column that holds it}.
        cluster, voters: as in `group_payoff`.
        confidence: of the intervals.
        seed: of the draws that critical values come from.
    """
    log, level = pseudo.fit.log, checked_level(confidence)
    stacked = np.stack(list(lotteries.values()))
    arena = Arena.of(pseudo, tuple(lotteries), stacked)
    how = Inference(cluster, level, seed, voters)
    [overall] = arena.contests(Groups("", np.zeros(log.n_contexts, np.int64), ("all",)), how)
    contests = [] if by is None else arena.contests(by_value(log, by, pseudo.used), how)
    contests.sort(key=lambda contest: -contest.n_contexts)
    spending = None if costs is None else measure_spending(stacked, costs_of(log, costs), pseudo.used, level)
    return Evaluation(overall, tuple(contests), by, spending, level, _notes(pseudo, overall))


def _notes(pseudo: PseudoOutcomes, overall: Contest) -> tuple[str, ...]:
    unused = int((~pseudo.used).sum())
    left_out = f"{unused:,} of {pseudo.n_contexts:,} contexts have no record and are left out."
    return (*([left_out] if unused else []), *overall.notes(), *NuisanceDiagnostics.of(pseudo.fit).warnings())

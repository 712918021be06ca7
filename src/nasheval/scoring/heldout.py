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
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.stats import t

from nasheval.arrays import Bools, Floats
from nasheval.choices import AS_VOTED
from nasheval.feedback.groups import Groups, by_value
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import L2
from nasheval.nuisance.nuisance_diagnostics import NuisanceDiagnostics
from nasheval.payoff.adjusted import name_of
from nasheval.payoff.clusters import Speaks
from nasheval.payoff.drawing import listing, warnings
from nasheval.payoff.grouped import Cluster
from nasheval.payoff.intervals import checked_level
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.policy.terms import AnyCosts, Terms
from nasheval.scoring.contests import Arena, Contest
from nasheval.scoring.contrasts import responses
from nasheval.scoring.metrics import expected_cost
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table


@dataclass(frozen=True, eq=False)
class Spending:
    """Expected cost of P policies, in the user's units, with an interval for each policy alone.

    Args:
        mean, error, lower, upper: (P,) over the contexts that are scored.
    """

    mean: Floats
    error: Floats
    lower: Floats
    upper: Floats

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {name: getattr(self, name).tolist() for name in ("mean", "error", "lower", "upper")}


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
        estimand: what values are made of: payoffs "as voted", or "at equal style".
        planned: votes about which a decision is expected, where intervals of values hold at every look; None: at one.
    """

    overall: Contest
    groups: tuple[Contest, ...]
    by: str | None
    spending: Spending | None
    confidence: float
    notes: tuple[str, ...]
    estimand: str = AS_VOTED
    planned: int | None = None

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
        return f"No significant difference between {self.policies[a]} and {self.policies[b]}: {numbers}"

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
            "estimand": self.estimand,
            "planned": self.planned,
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

        yield Text(self.verdict, style="bold")
        level, about = f"{self.confidence:.0%}", "" if self.estimand == AS_VOTED else f" {self.estimand},"
        if len(self.policies) > 1:
            size = f"{self.overall.n_contexts:,} contexts"
            looks = "" if self.planned is None else ", and at every look"
            title = f"Head to head{about} over {size}, intervals of {level} for all pairs together{looks}"
            yield round_robin_table(title, self.overall)
        yield policy_table(f"Worst single opponent, intervals of {level} over all agents", self.overall, self.spending)
        if self.groups:
            yield group_table(f"By {self.by}, intervals of {level} over all agents and groups", self.groups)
        yield from warnings(self.notes)

    def __str__(self) -> str:
        return plain(self)


def score(
    pseudo: PseudoOutcomes,
    lotteries: Mapping[str, Floats],
    *,
    by: str | None = None,
    costs: AnyCosts | None = None,
    cluster: Cluster | None = None,
    voters: Speaks | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    planned: int | None = None,
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
        planned: as in `Arena`.
    """
    log, level = pseudo.fit.log, checked_level(confidence)
    stacked = np.stack(list(lotteries.values()))
    how: dict[str, Any] = {"cluster": cluster, "voters": voters, "planned": planned}
    arena = Arena(pseudo, tuple(lotteries), stacked, *responses(pseudo, stacked), level, seed, **how)
    [overall] = arena.contests(Groups("", np.zeros(log.n_contexts, np.int64), ("all",)))
    contests = [] if by is None else arena.contests(by_value(log, by, pseudo.used))
    contests.sort(key=lambda contest: -contest.n_contexts)
    spending = None if costs is None else measure_spending(stacked, costs_of(log, costs), pseudo.used, level)
    notes, estimand = _notes(pseudo, overall), name_of(pseudo.style)
    return Evaluation(overall, tuple(contests), by, spending, level, notes, estimand, planned)


def _notes(pseudo: PseudoOutcomes, overall: Contest) -> tuple[str, ...]:
    unused = int((~pseudo.used).sum())
    left_out = f"{unused:,} of {pseudo.n_contexts:,} contexts have no record and are left out."
    return (*([left_out] if unused else []), *overall.notes(), *NuisanceDiagnostics.of(pseudo.fit).warnings())


def measure_spending(lotteries: Floats, costs: Floats, used: Bools, confidence: float) -> Spending:
    """Return what policies spend, (P, n, K) lotteries at costs (K,) or (n, K), over the contexts that are used, (n,).

    Contexts are the sample, and with a single one there is no telling how far its cost is from others'.
    """
    spent = np.stack([expected_cost(lottery, costs, reduce=False)[used] for lottery in lotteries])
    n = spent.shape[1]
    mean = spent.mean(axis=1)
    error = spent.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(spent), np.inf)
    half = error * t.ppf((1 + confidence) / 2, max(n - 1, 1))
    return Spending(mean, error, mean - half, mean + half)


def costs_of(log: Feedback, costs: AnyCosts) -> Floats:
    """Return the costs of the log's agents, (K,), or (n_contexts, K) where some depend on the context."""
    return cast(Floats, Terms(L2(), costs).costs_at(log.agents, log.contexts))  # None without costs only


# -- tables -----------------------------------------------------------------------------------------------------------


def round_robin_table(title: str, contest: Contest) -> Table:
    """Draw each pair of policies with the one that leads first, the clearest first."""
    a, b = np.triu_indices(len(contest.policies), 1)
    ahead = contest.value[a, b] >= 0
    first, second = np.where(ahead, a, b), np.where(ahead, b, a)
    order = np.lexsort((-contest.value[first, second], -contest.lower[first, second]))
    rows = [
        (contest.policies[p], contest.policies[q],
         *_signed(contest.value[p, q], contest.error[p, q], contest.lower[p, q], contest.upper[p, q]),
         f"{contest.effective[p, q]:,.0f}",
         "beats" if contest.lower[p, q] > 0 else "the same" if contest.error[p, q] == 0 else "not significant")
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

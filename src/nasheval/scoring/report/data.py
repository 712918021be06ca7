"""What a report shows, as plain values that JSON can hold; agents are numbers into `ReportData.agents`."""

from __future__ import annotations

from dataclasses import dataclass

Numbers = tuple[float, ...]
Gaps = tuple[float | None, ...]  # None where votes do not tell


@dataclass(frozen=True)
class Facts:
    """How large the log is.

    Args:
        voters: None where they are unknown.
        pairs_seen, pairs: pairs of agents compared at least once, and all.
        pairs_bridged, pairs_unknown: pairs never compared, connected through others or by nothing.
        only_a_ladder: whether the comparisons have no loop, so that no cycle can be seen.
        unseen: what was made of pairs never compared: "model", "tie" or "refuse".
        design, design_reason: how the log came about.
    """

    contexts: int
    records: int
    voters: int | None
    menus: int
    pairs_seen: int
    pairs: int
    pairs_bridged: int
    pairs_unknown: int
    only_a_ladder: bool
    unseen: str
    design: str
    design_reason: str


@dataclass(frozen=True)
class Payoffs:
    """Mean payoffs of the pairs of S agents, in the order of `pair_index`, (S (S - 1) / 2,) each.

    Args:
        agents: (S,).
        estimate: payoff of the first agent of a pair over the second.
        low, high: the ends of simultaneous intervals.
        votes: verdicts of the pair.
        status: 0 seen, 1 bridged, 2 unknown, 3 elsewhere, as in `nasheval.payoff.bridging.STATUS_NAMES`.
        allowed_low, allowed_high: what any transitive voters allow (`GroupPayoff.allowed`); None for seen pairs.
    """

    agents: tuple[int, ...]
    estimate: Numbers
    low: Numbers
    high: Numbers
    votes: tuple[int, ...]
    status: tuple[int, ...]
    allowed_low: Gaps
    allowed_high: Gaps


@dataclass(frozen=True)
class Preferences:
    """Certain preferences and the cycles they make.

    Args:
        agents: those that are drawn.
        edges: (winner, loser, estimate) of the certain preferences among them.
        cycles: the clearest cycles, each agent beating the next.
        n_cycles: how many there are.
    """

    agents: tuple[int, ...]
    edges: tuple[tuple[int, int, float], ...]
    cycles: tuple[tuple[int, ...], ...]
    n_cycles: int


@dataclass(frozen=True)
class GroupView:
    """One group of contexts, with numbers of all K agents; those without a vote in it are no candidates there.

    Args:
        column: the context column of the group; "" for all contexts.
        name: its value there.
        contexts: contexts with a pseudo-outcome.
        order: the agents with a vote in the group, best first, as in the leaderboard; no table shows the others.
        winners: agents in the winner set of the group's mean payoffs.
        lottery, lower, upper, frequency: (K,) as in `Standing`.
        won: (K,) share of the group's contexts at which the agent is in the winner set; None where none of them was
            solved.
        rating, rating_error, votes, bridged: (K,) as in `Standing`; None where votes do not determine a rating.
        payoffs: of the first agents in `order`.
        preferences: what is certain.
        notes: what to know before trusting the intervals.
    """

    column: str
    name: str
    contexts: int
    order: tuple[int, ...]
    winners: tuple[int, ...]
    lottery: Numbers
    lower: Numbers
    upper: Numbers
    frequency: Numbers
    won: Gaps
    rating: Gaps
    rating_error: Gaps
    votes: Numbers
    bridged: tuple[int, ...]
    payoffs: Payoffs
    preferences: Preferences
    notes: tuple[str, ...]


@dataclass(frozen=True)
class FrontierPoint:
    """What a way of choosing agents costs, and what the best opponent wins from it on the estimated games.

    Args:
        name: of the agent, or what else it is.
        kind: "price" (the equilibrium at a cost weight), "agent" (always that one) or "policy" (the model's own).
        cost_weight: of a "price".
        cost: mean over contexts, in the user's units.
        exploitability: mean over contexts, on the estimated payoffs.
    """

    name: str
    kind: str
    cost_weight: float | None
    cost: float
    exploitability: float


@dataclass(frozen=True)
class Bins:
    """Predictions against what was observed, (bins,) each; see `nasheval.nuisance.diagnostics.Calibration`."""

    predicted: Numbers
    observed: Numbers
    error: Numbers
    count: tuple[int, ...]


@dataclass(frozen=True)
class Histogram:
    """Counts (bins,) between edges (bins + 1,)."""

    edges: Numbers
    count: tuple[int, ...]


@dataclass(frozen=True)
class ThinPair:
    """A pair of agents, its votes and the number that they count as."""

    first: int
    second: int
    votes: int
    effective: float


@dataclass(frozen=True)
class Trust:
    """What speaks for the estimates and what against them.

    Args:
        r2, r2_within, log_loss: of the outcome model out of fold, as in `NuisanceDiagnostics`.
        outcome, propensity: calibration.
        overlap: propensities of records, before the floor, in bins even in their logarithm.
        smallest: smallest of them.
        floor, clipped_share: the part of their menu's share that smaller ones were raised to, 0 where propensities are
            known; and how many were raised.
        propensity_model: which was chosen and why, in words; None where none was chosen.
        propensity_check: where propensities fit worst, in words; None where that cannot be told.
        effective: effective votes of pairs, in bins even in their logarithm; the first holds pairs never compared.
        thinnest: the pairs with fewest effective votes.
        warnings: in words.
    """

    verdicts: int
    r2: float | None
    r2_within: float | None
    log_loss: float | None
    outcome: Bins
    propensity: Bins | None
    overlap: Histogram
    smallest: float | None
    floor: float
    clipped_share: float
    propensity_model: str | None
    propensity_check: str | None
    effective: Histogram
    thinnest: tuple[ThinPair, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class RoundRobin:
    """P policies on a held-out log, over one group of contexts.

    Args:
        name: of the group.
        contexts: that were scored.
        value, lower, upper: (P, P) what the row wins against the column, with its interval.
        same: (P, P) whether two policies agree at every context.
        opponent: (P,) the single agent that does best against each policy.
        worst, worst_lower, worst_upper: (P,) what it wins.
    """

    name: str
    contexts: int
    value: tuple[Gaps, ...]
    lower: tuple[Gaps, ...]
    upper: tuple[Gaps, ...]
    same: tuple[tuple[bool, ...], ...]
    opponent: tuple[str, ...]
    worst: Gaps
    worst_lower: Gaps
    worst_upper: Gaps


@dataclass(frozen=True)
class HeldOut:
    """How policies did on a held-out log.

    Args:
        policies: P names.
        confidence: of the intervals.
        verdict: which to take, in a sentence.
        by: the column of the groups.
        contests: over all contexts first, then over the groups.
        cost: (P,) what the policies spend; None where no costs were given.
        notes: what to know before trusting it.
    """

    policies: tuple[str, ...]
    confidence: float
    verdict: str
    by: str | None
    contests: tuple[RoundRobin, ...]
    cost: Numbers | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ReportData:
    """Everything a report shows.

    Args:
        title: of the page.
        created: the day it was made.
        version: of the package.
        agents: names of the K agents.
        confidence: of intervals and stability ranges.
        facts: the size of the log.
        findings: what stands out, one sentence per finding.
        columns: context columns that contexts are grouped by.
        groups: all contexts first, then the groups of each column.
        frontier: cost against exploitability; empty where no costs are known.
        trust: diagnostics and warnings.
        held_out: None without an evaluation.
        settings: (name, value) of what the model was fitted with.
        notes: on what the page leaves out.
    """

    title: str
    created: str
    version: str
    agents: tuple[str, ...]
    confidence: float
    facts: Facts
    findings: tuple[str, ...]
    columns: tuple[str, ...]
    groups: tuple[GroupView, ...]
    frontier: tuple[FrontierPoint, ...]
    trust: Trust
    held_out: HeldOut | None
    settings: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

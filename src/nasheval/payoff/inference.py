"""How sure we can be of a group's mean payoffs, of its equilibrium, and of its cycles.

The mean of Gamma over a group is the one-step estimate of its mean payoff (Eq. payoff-one-step), and Gamma less that
mean is its influence function, from which `nasheval.payoff.clusters` takes its variance and `nasheval.payoff.intervals`
its intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from nasheval.arrays import Bools, Floats, Ints
from nasheval.choices import AS_VOTED
from nasheval.errors import InputError
from nasheval.feedback.groups import ALL, Groups, by_value
from nasheval.feedback.links import BRIDGED, SEEN
from nasheval.game.checks import games_of
from nasheval.notes import Note, few
from nasheval.payoff.adjusted import name_of
from nasheval.payoff.bridging import STATUS_NAMES, allowed_by_transitivity, pair_matrix
from nasheval.payoff.clusters import Moments, Speaks, cluster_notes, group_moments
from nasheval.payoff.cycles import Cycle, as_cycles, find_cycles, signs
from nasheval.payoff.drawing import listing, warnings
from nasheval.payoff.grouped import Cluster
from nasheval.payoff.intervals import (
    checked_level,
    critical_value,
    draws_for,
    known_means,
    limits,
    normal_scale,
    student_draws,
    studentised_draws,
)
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.stability import Stability as Stability
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from nasheval.game.regularizers import Regularizer

_DRAWN = 1 << 25  # payoffs in all drawn games together, unless that is too few games
_LEAST_GAMES, _LEAST_DRAWN = 200, 100  # to draw, and to be solved where each takes long
_HELD = 1 << 23  # payoffs in games held at a time
_WORK = 1 << 30  # agents^2 times agents that play, in all solved games together
_WINNER = 1e-3  # an agent with more than this of the lottery is in the winner set


@dataclass(frozen=True, eq=False)
class GroupPayoff:
    """The mean payoff matrix of a group of contexts, with intervals that hold for all pairs together.

    A standard error that rests on few clusters is itself uncertain, so a critical value c of the normal law is turned
    into that of Student's t at the same level, pair by pair. A pair with fewer than two effective votes in the group
    has the interval [-1, 1]. Intervals are cut to [-1, 1]; estimates are not.

    The interval of a bridged pair (`status`) is that of the bridge, not of votes on the pair; `allowed` is what any
    transitive voters allow. A bridged pair never counts as certain in `beats` and `cycles`.

    Args:
        name: of the group.
        agents: names of the K agents.
        inside: (n_contexts,) the contexts of the group.
        moments: means and how uncertain they are.
        confidence: of the intervals, all pairs together.
        draws: bootstrap draws of the equilibrium; fewer with more than 180 agents: of the usual 1,000 with 300 agents
            372, or about 100 where nearly all play because little is known.
        seed: of the draws.
        allowed_agents: (K,) the agents that may be candidates; None: all.
        estimand: what payoffs are of: "as voted" or "at equal style".
    """

    name: str
    agents: tuple[str, ...]
    inside: Bools
    moments: Moments
    confidence: float = 0.95
    draws: int = 1000
    seed: int = 0
    allowed_agents: Bools | None = None
    estimand: str = AS_VOTED

    @cached_property
    def estimate(self) -> Floats:
        """(K, K) one-step estimates of the mean payoffs, antisymmetric; 0 where nothing is known of the pair."""
        return self._matrix(self.moments.mean, -self.moments.mean)

    @cached_property
    def error(self) -> Floats:
        """(K, K) standard errors; infinite where the votes cannot tell."""
        return self._matrix(np.where(self._known, self.moments.error, np.inf))

    @cached_property
    def status(self) -> Ints:
        """(K, K) seen, bridged, unknown or elsewhere: `nasheval.payoff.bridging.STATUS_NAMES` in that order."""
        return pair_matrix(self.moments.status, len(self.agents))

    @cached_property
    def present(self) -> Bools:
        """(K,) the agents with a vote in the group that are allowed; the others are no candidates there."""
        voted = np.asarray(pair_matrix(self.moments.votes, len(self.agents)).sum(axis=1) > 0)
        return voted if self.allowed_agents is None else voted & self.allowed_agents

    @cached_property
    def allowed(self) -> tuple[Floats, Floats]:
        """(K, K) lower and upper bounds on each mean payoff that any transitive voters with the seen means obey."""
        return allowed_by_transitivity(np.clip(self.estimate, -1, 1), self.status == SEEN)

    @property
    def lower(self) -> Floats:
        """(K, K) lower ends of the simultaneous intervals."""
        return self._interval[0]

    @property
    def upper(self) -> Floats:
        """(K, K) upper ends of the simultaneous intervals."""
        return self._interval[1]

    @cached_property
    def _interval(self) -> tuple[Floats, Floats]:
        return self.interval()

    def interval(
        self, confidence: float | None = None, *, simultaneous: bool = True, bridged: bool = True
    ) -> tuple[Floats, Floats]:
        """Return lower and upper ends, (K, K) each.

        Args:
            confidence: None: that of the group.
            simultaneous: for all pairs together, or for each pair alone.
            bridged: whether pairs that were never compared have an interval too; else theirs is [-1, 1].
        """
        level = self.confidence if confidence is None else checked_level(confidence)
        critical = np.full(len(self._known), float(norm.ppf((1 + level) / 2)))
        if simultaneous:  # seen pairs hold together, bridged ones together with all pairs
            critical[:] = critical_value([self.moments], level, self.seed, only=self._seen)
            others = self._known & ~self._seen
            if bridged and others.any():
                critical[others] = critical_value([self.moments], level, self.seed)
        if not bridged:
            critical[~self._seen] = np.inf
        low, high = (np.clip(end, -1, 1) for end in limits(self.moments, critical, alone=not simultaneous))
        return self._matrix(low, -high), self._matrix(high, -low)

    @cached_property
    def _known(self) -> Bools:
        """(n_pairs,) pairs of which it is known how uncertain they are."""
        return known_means(self.moments)

    @cached_property
    def _seen(self) -> Bools:
        """(n_pairs,) the known pairs that the votes of the group themselves tell of."""
        return np.asarray(self._known & (self.moments.status == SEEN))

    def equilibrium(self, regularizer: Regularizer | None = None) -> Stability:
        """Return the equilibrium of the mean payoffs among the agents of the group, and how far the bootstrap moves it.

        Pairs of which the votes say nothing are drawn uniformly from [-1, 1]. Agents without a vote in the group get 0.

        Args:
            regularizer: of the game; None: L2(1e-3).
        """
        from nasheval.game.regularizers import L2
        from nasheval.game.solver import lotteries

        if not self.present.any():
            raise InputError(f"Nobody has a vote in the group {self.name!r}: it has no candidates and no equilibrium.")
        omega = regularizer or L2(1e-3)
        lottery = lotteries(np.clip(self.estimate, -1, 1)[None], omega, self.present)[0]
        drawn = self._drawn(omega)
        lower, upper = np.quantile(drawn, [(1 - self.confidence) / 2, (1 + self.confidence) / 2], axis=0)
        lower, upper = np.minimum(lower, lottery), np.maximum(upper, lottery)
        frequency = (drawn > _WINNER).mean(axis=0)
        return Stability(self.agents, lottery, lower, upper, frequency, lottery > _WINNER, self.confidence)

    def _drawn(self, omega: Regularizer) -> Floats:
        """Return (draws, K) the equilibria of drawn games; fewer where many agents play, and each takes long."""
        from nasheval.game.solver import lotteries

        drawn, work = [], 0
        for games in self._games():
            drawn.append(lotteries(games, omega, self.present))
            work += len(self.agents) ** 2 * int((drawn[-1] > 0).sum())
            if work > _WORK:
                break
        return np.concatenate(drawn)

    def _games(self) -> Iterator[Floats]:
        """Yield (some draws, K, K) games, payoffs drawn from their uncertainty."""
        known, K, rng = self._known, len(self.agents), np.random.default_rng(self.seed)
        unknown = np.random.default_rng((self.seed, 1))
        mean, error = self.moments.mean[known], self.moments.error[known]
        draws, most = min(self.draws, max(_LEAST_GAMES, _DRAWN // K**2)), max(_LEAST_DRAWN, _HELD // K**2)
        for normal in studentised_draws(self.moments, draws, rng, most=most):
            means = np.empty((len(normal), len(known)))
            means[:, ~known] = unknown.uniform(-1, 1, (len(normal), int((~known).sum())))
            means[:, known] = mean + error * student_draws(normal, self.moments.freedom[known])
            yield games_of(np.clip(means, -1, 1, out=means), K)

    def beats(self) -> Bools:
        """Return (K, K) which agent certainly beats which: the chance of any wrong entry is at most 1 - confidence.

        Only pairs that were compared in the group can be certain.
        """
        return self._beats.copy()

    @cached_property
    def _beats(self) -> Bools:
        sign, seen, moments = np.zeros(len(self._known)), self._seen, self.moments
        least = np.sign(moments.mean) * np.maximum(np.abs(moments.mean) - moments.bias, 0.0)
        scale = normal_scale(least[seen] / moments.error[seen], moments.freedom[seen])
        blocks = studentised_draws(moments, draws_for(int(seen.sum())), np.random.default_rng(self.seed), only=seen)
        sign[seen] = signs(scale, np.concatenate(list(blocks)), self.confidence)
        return np.asarray(self._matrix(sign, -sign) > 0)

    def cycles(self) -> tuple[Cycle, ...]:
        """Return the cycles that hold: the chance that any of them is false is at most 1 - confidence."""
        return as_cycles(find_cycles(self._beats), self.agents, self.estimate, self.error)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """What a reader should know before trusting the intervals."""
        return tuple(_notes(self))

    def _matrix(self, upper: Floats, lower: Floats | None = None) -> Floats:
        return pair_matrix(upper, len(self.agents), lower)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw each pair with the agent that leads first, the clearest pairs first, and the notes."""
        j, k = np.triu_indices(len(self.agents), 1)
        ahead = self.estimate[j, k] >= 0
        first, second = np.where(ahead, j, k), np.where(ahead, k, j)
        order = np.lexsort((-self.estimate[first, second], -self.lower[first, second]))
        columns = [each[first, second] for each in (self.estimate, self.error, self.lower, self.upper)]
        votes, status = self.moments.votes, self.moments.status
        rows = (
            (self.agents[first[p]], self.agents[second[p]], *(f"{column[p]:+.3f}" for column in columns),
             f"{votes[p]:,}", STATUS_NAMES[status[p]])
            for p in order
        )  # fmt: skip
        about = "" if self.estimand == AS_VOTED else f", {self.estimand}"
        title = f"Mean payoffs of {self.name}{about}: {self.moments.n_contexts:,} contexts, "
        title += f"intervals of {self.confidence:.0%} for all pairs together"
        numbers = ("payoff", "error", "lower", "upper", "votes", "pair was")
        yield listing(title, ("agent", "over"), numbers, rows, len(order))
        yield from warnings(self.notes)

    def __str__(self) -> str:
        return plain(self)


# -- groups -----------------------------------------------------------------------------------------------------------


def group_payoffs(
    pseudo: PseudoOutcomes,
    groups: Groups,
    *,
    confidence: float = 0.95,
    cluster: Cluster | None = None,
    voters: Speaks | None = None,
    draws: int = 1000,
    seed: int = 0,
    voteless: bool = False,
) -> list[GroupPayoff]:
    """Return the mean payoffs of groups of contexts; every group payoff of the package is made here.

    Each group's intervals hold for its own pairs together, not for all groups together.

    Args:
        cluster: "context", "voter" (contexts fixed) or "both"; None: chosen by `voters`.
        voters: whom the intervals speak for: "panel", these very voters, or "population", others like them (needs
            names); None: the population with 20 named voters or more, the panel with fewer.
        voteless: whether to keep groups in which nobody has a vote, and so nobody is a candidate.
    """
    level, agents = checked_level(confidence), pseudo.fit.log.agents
    moments = group_moments(pseudo.estimand, groups.code, len(groups), cluster, voters)
    estimand = name_of(pseudo.style)
    payoffs = (
        GroupPayoff(name, agents, groups.code == g, each.floored(), level, draws, seed, estimand=estimand)
        for g, (name, each) in enumerate(zip(groups.names, moments, strict=True))
    )
    return [payoff for payoff in payoffs if voteless or payoff.present.any()]


def group_payoff(
    pseudo: PseudoOutcomes, contexts: Bools | None = None, *, name: str = ALL, **options: Any
) -> GroupPayoff:
    """Return the mean payoffs of one group of contexts.

    Args:
        contexts: (n_contexts,) which contexts; None: all.
        options: as for `group_payoffs`.
    """
    inside = np.ones(pseudo.n_contexts, bool) if contexts is None else np.asarray(contexts)
    if inside.shape != (pseudo.n_contexts,) or inside.dtype.kind != "b":
        given = f"{inside.shape} of {inside.dtype}"
        raise InputError(f"contexts has shape {given}; accepted are booleans, one per context.")
    return group_payoffs(pseudo, Groups("", inside.astype(np.int64) - 1, (name,)), voteless=True, **options)[0]


def payoffs_by(pseudo: PseudoOutcomes, by: str | None, **options: Any) -> list[GroupPayoff]:
    """Return the mean payoffs of each value of a context column, most contexts first; None: of all contexts.

    Values without a single vote are left out.

    Args:
        options: as for `group_payoffs`.
    """
    if by is None:
        return [group_payoff(pseudo, **options)]
    payoffs = group_payoffs(pseudo, by_value(pseudo.fit.log, by, pseudo.used), **options)
    return sorted(payoffs, key=lambda payoff: -payoff.moments.n_contexts)


# -- saying -----------------------------------------------------------------------------------------------------------


def _notes(group: GroupPayoff) -> Iterator[Note]:
    moments, status, present = group.moments, group.moments.status, group.present
    yield from cluster_notes(moments.n_clusters, moments.cluster, moments.panel)
    absent = [agent for agent, here in zip(group.agents, present, strict=True) if not here]
    if absent:
        yield Note(f"no candidates here, without a vote in this group: {few(absent)}", "absent-agents")
    here = (present[:, None] & present[None, :])[np.triu_indices(len(group.agents), 1)]
    counts = {name: int((here & (status == code)).sum()) for code, name in enumerate(STATUS_NAMES)}
    if counts["bridged"]:
        tied = not moments.mean[status == BRIDGED].any()
        how = "given as ties" if tied else "bridged through others"
        holds = "" if tied else "; their intervals hold for the bridge, not for votes on the pair"
        yield Note(f"pairs never compared, {how}: {counts['bridged']:,}{holds}", "bridged-pairs")
    if counts["unknown"]:
        text = f"pairs that nothing connects: {counts['unknown']:,}; both sides stay among the winners, because no vote"
        yield Note(f"{text} tells which is better", "unknown-pairs")
    if counts["elsewhere"]:
        text = f"pairs compared elsewhere but not here, whose interval is [-1, 1]: {counts['elsewhere']:,}"
        yield Note(text, "elsewhere-pairs")
    thin = int((here & (status == SEEN) & (moments.freedom <= 0)).sum())
    if thin:
        yield Note(f"pairs with fewer than two effective votes here, whose interval is [-1, 1]: {thin:,}", "thin-pairs")
    if (moments.bias > 0).any():
        wider = f"intervals are up to {moments.bias.max():.3f} wider on either side for it"
        yield Note(f"propensities of rare pairs were raised; {wider}", "raised-propensities")

"""How sure we can be of a group's mean payoffs, of its equilibrium, and of its cycles.

The mean of Gamma over a group is the one-step estimate of its mean payoff (Eq. payoff-one-step), and Gamma less that
mean is its influence function, from which `nasheval.payoff.clusters` takes its covariance and
`nasheval.payoff.intervals` its intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from nasheval.arrays import Bools, Floats
from nasheval.errors import InputError
from nasheval.payoff.clusters import FEW, Cluster, Moments, group_moments
from nasheval.payoff.cycles import Cycle, as_cycles, find_cycles, signs
from nasheval.payoff.groups import context_groups
from nasheval.payoff.intervals import (
    checked_level,
    critical_value,
    half_widths,
    known_means,
    normal_scale,
    student,
    studentised_draws,
)
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.stability import Stability, measure_stability

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from nasheval.game.regularizers import Regularizer

_SIGN_DRAWS = 10_000  # of the bootstrap, to tell signs


@dataclass(frozen=True, eq=False)
class GroupPayoff:
    """The mean payoff matrix of a group of contexts, with intervals that hold for all pairs together.

    A standard error that rests on few clusters is itself uncertain, so a critical value c of the normal law is turned
    into that of Student's t at the same level, pair by pair. A pair with fewer than two effective votes in the group
    has the interval [-1, 1]. Intervals are cut to [-1, 1]; estimates are not.

    Args:
        name: of the group.
        agents: names of the K agents.
        moments: means and their covariance.
        confidence: of the intervals, all pairs together.
        draws: bootstrap draws of the equilibrium.
        seed: of the draws.
    """

    name: str
    agents: tuple[str, ...]
    moments: Moments
    confidence: float = 0.95
    draws: int = 1000
    seed: int = 0

    @cached_property
    def estimate(self) -> Floats:
        """(K, K) one-step estimates of the mean payoffs, antisymmetric; 0 where no menu holds the pair."""
        return self._matrix(self.moments.mean, -self.moments.mean)

    @cached_property
    def error(self) -> Floats:
        """(K, K) standard errors; infinite where the votes cannot tell."""
        found = np.where(self._known, self.moments.error, np.inf)
        return self._matrix(found, found)

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

    def interval(self, confidence: float | None = None, *, simultaneous: bool = True) -> tuple[Floats, Floats]:
        """Return lower and upper ends, (K, K) each.

        Args:
            confidence: None: that of the group.
            simultaneous: for all pairs together, or for each pair alone.
        """
        level = self.confidence if confidence is None else checked_level(confidence)
        c = self.critical(level) if simultaneous else float(norm.ppf((1 + level) / 2))
        mean, half = self.moments.mean, half_widths(self.moments, c)
        low, high = np.clip(mean - half, -1, 1), np.clip(mean + half, -1, 1)
        return self._matrix(low, -high), self._matrix(high, -low)

    def critical(self, confidence: float) -> float:
        """Return the quantile of the largest studentised |mean - truth| over pairs, on the normal scale."""
        return critical_value([self.moments], confidence, self.seed)

    @cached_property
    def _known(self) -> Bools:
        """(n_pairs,) pairs of which the votes tell how uncertain they are."""
        return known_means(self.moments)

    def _normal(self, draws: int) -> Floats:
        """Return (draws, known pairs) studentised bootstrap means."""
        return studentised_draws(self.moments, draws, np.random.default_rng(self.seed))

    def equilibrium(self, regularizer: Regularizer | None = None, *, threshold: float = 1e-3) -> Stability:
        """Return the equilibrium of the mean payoffs and how far it moves under the bootstrap.

        Pairs of which the votes say nothing are drawn uniformly from [-1, 1].

        Args:
            regularizer: of the game; None: L2(1e-3).
            threshold: an agent with more than this of the lottery is in the winner set.
        """
        K = len(self.agents)
        rng = np.random.default_rng((self.seed, 1))
        means = rng.uniform(-1, 1, (self.draws, len(self._known)))
        z = student(self._normal(self.draws), self.moments.freedom[self._known])
        means[:, self._known] = self.moments.mean[self._known] + self.moments.error[self._known] * z
        games, (j, k) = np.zeros((self.draws, K, K)), np.triu_indices(K, 1)
        games[:, j, k] = np.clip(means, -1, 1)
        games -= games.transpose(0, 2, 1).copy()
        return measure_stability(self.agents, self.estimate, games, regularizer, threshold, self.confidence)

    def beats(self, confidence: float | None = None) -> Bools:
        """Return (K, K) which agent certainly beats which: the chance of any wrong entry is at most 1 - confidence.

        Args:
            confidence: None: that of the group.
        """
        level = self.confidence if confidence is None else checked_level(confidence)
        sign, known = np.zeros(len(self._known)), self._known
        ratio = self.moments.mean[known] / self.moments.error[known]
        sign[known] = signs(normal_scale(ratio, self.moments.freedom[known]), self._normal(_SIGN_DRAWS), level)
        return self._matrix(sign, -sign) > 0

    def cycles(self, confidence: float | None = None, *, longest: int = 6) -> tuple[Cycle, ...]:
        """Return the cycles that hold: the chance that any of them is false is at most 1 - confidence.

        Args:
            confidence: None: that of the group.
            longest: most agents in a cycle; those of more than three are given where no edge cuts them short.
        """
        return as_cycles(find_cycles(self.beats(confidence), longest), self.agents, self.estimate, self.error)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before trusting the intervals."""
        bare = int((self.moments.freedom <= 0).sum())
        return tuple(note for note in (
            f"{self.moments.n_clusters} clusters (by {self.moments.cluster}): standard errors are rough below {FEW}"
            if self.moments.n_clusters < FEW else "",
            "few contexts: taken as fixed, with voters as clusters" if self.moments.cluster == "voter" else "",
            f"pairs with fewer than two effective votes here, whose interval is [-1, 1]: {bare}" if bare else "",
        ) if note)  # fmt: skip

    def _matrix(self, upper: Floats, lower: Floats) -> Floats:
        found, (j, k) = np.zeros((len(self.agents), len(self.agents))), np.triu_indices(len(self.agents), 1)
        found[j, k], found[k, j] = upper + 0.0, lower + 0.0  # no negative zeros
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an infinite standard error is None."""
        return {
            "group": self.name,
            "agents": list(self.agents),
            "contexts": self.moments.n_contexts,
            "clusters": self.moments.n_clusters,
            "cluster": self.moments.cluster,
            "confidence": self.confidence,
            "estimate": self.estimate.tolist(),
            "error": [[None if np.isinf(cell) else float(cell) for cell in row] for row in self.error],
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "votes": self._matrix(self.moments.votes, self.moments.votes).astype(int).tolist(),
            "notes": list(self.notes),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the pairs, the clearest first, and the notes."""
        from nasheval.payoff.tables import pair_table, warnings

        yield pair_table(
            f"Mean payoffs of {self.name}: {self.moments.n_contexts:,} contexts, "
            f"intervals of {self.confidence:.0%} for all pairs together",
            self.agents, self.estimate, self.error, self.lower, self.upper, self.moments.votes,
        )  # fmt: skip
        yield from warnings(self.notes)

    def __str__(self) -> str:
        from nasheval.payoff.tables import plain

        return plain(self)


# -- groups -----------------------------------------------------------------------------------------------------------


def group_payoff(
    pseudo: PseudoOutcomes,
    contexts: Bools | None = None,
    *,
    name: str = "all",
    confidence: float = 0.95,
    cluster: Cluster | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> GroupPayoff:
    """Return the mean payoffs of one group of contexts.

    Args:
        contexts: (n_contexts,) which contexts; None: all.
        cluster: "context", "voter" (contexts fixed) or "both"; None: "both" with 20 voters or more, "voter" with those
            and fewer than 20 contexts, "context" otherwise.
    """
    inside = np.ones(pseudo.n_contexts, bool) if contexts is None else np.asarray(contexts)
    if inside.shape != (pseudo.n_contexts,) or inside.dtype.kind != "b":
        raise InputError(f"contexts has shape {inside.shape} of {inside.dtype}; accepted are booleans, one a context.")
    moments = group_moments(pseudo, inside.astype(np.int64) - 1, 1, cluster)[0].of_verdicts()
    return GroupPayoff(name, pseudo.fit.log.agents, moments, checked_level(confidence), draws, seed)


def group_payoffs(
    pseudo: PseudoOutcomes,
    by: str,
    *,
    confidence: float = 0.95,
    cluster: Cluster | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[GroupPayoff, ...]:
    """Return the mean payoffs of the contexts of each value of a context column, most contexts first.

    Each group's intervals hold for its own pairs together, not for all groups together. Values without a single
    pseudo-outcome are left out.
    """
    code, names = context_groups(pseudo.fit.log, by, pseudo.used)
    moments = group_moments(pseudo, code, len(names), cluster)
    order = sorted(range(len(names)), key=lambda g: -moments[g].n_contexts)
    level, agents = checked_level(confidence), pseudo.fit.log.agents
    return tuple(GroupPayoff(names[g], agents, moments[g].of_verdicts(), level, draws, seed) for g in order)

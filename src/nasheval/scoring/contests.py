"""How policies do over a group of contexts: against each other, and against each single agent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import rel_entr

from nasheval.arrays import Bools, Floats
from nasheval.feedback.groups import Groups
from nasheval.files import json_values
from nasheval.notes import once
from nasheval.payoff.anytime import anytime_value
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.clusters import Moments, Speaks, cluster_notes, group_moments
from nasheval.payoff.grouped import FEW, Cluster
from nasheval.payoff.intervals import critical_value, known_means, limits
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.scoring.contrasts import Contrasts, against_agents, head_to_head

_SAME = 1e-12  # lotteries that differ by no more than rounding are the same
_SLACK = 0.02  # of the chance that an interval fails, what its cut may take


@dataclass(frozen=True, eq=False)
class Contest:
    """Values of P policies over a group of contexts, with intervals that hold together.

    `value[a, b]` estimates E[pi_a' A pi_b], what policy a wins against policy b (Eq. eval-game-value); it is
    antisymmetric. `against[p, j]` estimates E[e_j' A pi_p], what agent j, playing alone everywhere, wins against p.
    Intervals of `value` hold for all pairs of policies together, those of `against` for all agents against one policy;
    in contests by group, for all groups too. They rest on Student's t where few contexts (or voters) bear on a value,
    are widened by what pairs that were never compared could add, and are cut, as the values are, to what policies that
    differ no more than these can win from each other at all (`most_at_stake`); that is all there is where fewer than
    two effective clusters bear on a value.

    Args:
        name: of the group.
        policies: P names.
        agents: K names.
        n_contexts: contexts of the group that have a pseudo-outcome.
        n_clusters: clusters that the errors rest on.
        cluster: by what.
        value, error, lower, upper: (P, P); an infinite error says that the votes cannot tell.
        effective: (P, P) effective number (Kish) of clusters whose verdicts bear on the value.
        untold: (P, P) how far pairs that were never compared could move the value.
        panel: how many named voters the intervals speak for, and no others; 0: for the population.
        against, against_error, against_lower, against_upper: (P, K).
    """

    name: str
    policies: tuple[str, ...]
    agents: tuple[str, ...]
    n_contexts: int
    n_clusters: int
    cluster: Cluster
    value: Floats
    error: Floats
    lower: Floats
    upper: Floats
    effective: Floats
    untold: Floats
    against: Floats
    against_error: Floats
    against_lower: Floats
    against_upper: Floats
    panel: int = 0

    @property
    def worst_opponent(self) -> tuple[str, ...]:
        """(P,) the agent that does best against each policy."""
        return tuple(self.agents[j] for j in self.against.argmax(axis=1))

    @property
    def worst(self) -> Floats:
        """(P,) what that agent wins, max_j E[e_j' A pi]: an estimate of a lower bound on exploitability.

        A largest estimate errs upwards; its interval does not. It is below 0 where a policy beats every single agent.
        Exploitability lets the opponent see the context and is at least this, and at least 0. The maximal lottery of
        the mean payoffs brings this to 0 by construction, however badly it serves single contexts, so a low value is no
        proof of a good policy: between policies, `value` decides.
        """
        return self.against.max(axis=1)

    @property
    def worst_lower(self) -> Floats:
        """(P,) lower ends of the intervals of `worst`: the policy's exploitability is above that."""
        return self.against_lower.max(axis=1)

    @property
    def worst_upper(self) -> Floats:
        """(P,) upper ends of the intervals of `worst`; exploitability has no such bound."""
        return self.against_upper.max(axis=1)

    def notes(self) -> Iterator[str]:
        """Say what a reader should know before trusting the intervals."""
        yield from once(cluster_notes(self.n_clusters, self.cluster, self.panel))
        a, b = np.triu_indices(len(self.policies), 1)
        for p, q in zip(a, b, strict=True):
            if self.effective[p, q] < FEW and self.error[p, q] > 0:
                yield (
                    f"{self.policies[p]} against {self.policies[q]} rests on {self.effective[p, q]:.1f} effective "
                    f"clusters (by {self.cluster}): they agree nearly everywhere, or few verdicts tell them apart."
                )
        if self.untold.max(initial=0.0) > 0:
            yield (
                f"Some policies play agents against each other that this log never compares; their values use what "
                f"bridges those pairs, and intervals are up to {self.untold.max():.3f} wider on either side, as if "
                f"nothing were known of them."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an infinite error is None."""
        plain = {
            name: json_values(getattr(self, name))
            for name in ("value", "error", "lower", "upper", "effective", "untold", "against", "against_error",
                         "against_lower", "against_upper", "worst", "worst_lower", "worst_upper")
        }  # fmt: skip
        return {
            "group": self.name,
            "contexts": self.n_contexts,
            "clusters": self.n_clusters,
            "cluster": self.cluster,
            "voters": "panel" if self.panel else "population",
            **plain,
            "worst_opponent": list(self.worst_opponent),
        }


@dataclass(frozen=True, eq=False)
class Arena:
    """The log and the lotteries, ready to be scored over any groups of contexts.

    Args:
        pseudo: Gamma of the log.
        policies: P names.
        lotteries: (P, n_contexts, K), agents as in the log.
        response: (P, n_contexts, K) plug-in payoffs of the agents against the policies.
        bridged: (P, n_contexts, K) what bridged pairs add to them; None without any.
        confidence: of intervals that hold together.
        seed: of the draws that critical values come from.
        cluster, voters: as in `group_payoff`.
        planned: votes about which a decision is expected, where intervals hold at every look; None: at one look.
    """

    pseudo: PseudoOutcomes
    policies: tuple[str, ...]
    lotteries: Floats
    response: Floats
    bridged: Floats | None
    confidence: float
    seed: int
    cluster: Cluster | None
    voters: Speaks | None
    planned: int | None = None

    def contests(self, groups: Groups) -> list[Contest]:
        """Return the contest of each group of contexts, their intervals holding for all groups together."""
        added = [None] * len(self.policies) if self.bridged is None else self.bridged
        each = zip(self.lotteries, self.response, added, strict=True)
        single = [self._means(against_agents(self.pseudo, *one), groups) for one in each]
        if len(self.policies) > 1:
            pairs = self._means(head_to_head(self.pseudo, self.lotteries, self.response, self.bridged), groups)
        else:
            pairs = [_Means(one.moments, *[np.zeros(0)] * 6) for one in single[0]]
        return [self._contest(name, pairs[g], [one[g] for one in single]) for g, name in enumerate(groups.names)]

    def _means(self, values: Contrasts, groups: Groups) -> list[_Means]:
        inside = [values.estimand.used & (groups.code == g) for g in range(len(groups))]
        stakes = [values.reach[rows].mean(axis=0) for rows in inside]
        moments = group_moments(values.estimand, groups.code, len(groups), self.cluster, self.voters)
        family = [each.floored(np.maximum(stake, _SAME)) for each, stake in zip(moments, stakes, strict=True)]
        c = self._critical(family)
        slack = (1 - self.confidence) * _SLACK / max(1, len(groups) * values.estimand.n_columns)
        return [_of_group(values, rows, each, c, slack) for rows, each in zip(inside, family, strict=True)]

    def _critical(self, family: list[Moments]) -> float:
        """Return how many errors wide intervals are on either side."""
        if self.planned is None:
            return critical_value(family, self.confidence, self.seed)
        means = sum(int(known_means(moments).sum()) for moments in family)
        votes = self.pseudo.fit.log.n_records
        return anytime_value(votes, self.planned, (1 - self.confidence) / (2 * max(means, 1)))

    def _contest(self, name: str, pairs: _Means, single: list[_Means]) -> Contest:
        P, moments = len(self.policies), pairs.moments
        return Contest(
            name=name,
            policies=self.policies,
            agents=self.pseudo.fit.log.agents,
            n_contexts=moments.n_contexts,
            n_clusters=moments.n_clusters,
            cluster=moments.cluster,
            value=pair_matrix(pairs.mean, P, -pairs.mean),
            error=pair_matrix(pairs.error, P),
            lower=pair_matrix(pairs.lower, P, -pairs.upper),
            upper=pair_matrix(pairs.upper, P, -pairs.lower),
            effective=pair_matrix(pairs.effective, P),
            untold=pair_matrix(pairs.untold, P),
            against=np.stack([one.mean for one in single]),
            against_error=np.stack([one.error for one in single]),
            against_lower=np.stack([one.lower for one in single]),
            against_upper=np.stack([one.upper for one in single]),
            panel=moments.panel,
        )


@dataclass(frozen=True, eq=False)
class _Means:
    """Means of C values over one group, with errors and simultaneous intervals, (C,) each."""

    moments: Moments
    mean: Floats
    error: Floats
    lower: Floats
    upper: Floats
    untold: Floats
    effective: Floats


def _of_group(values: Contrasts, inside: Bools, moments: Moments, c: float, slack: float) -> _Means:
    """Return the means over one group; an interval is as wide as if pairs never compared could be anything."""
    reach = values.reach[inside]
    same = reach.max(axis=0) <= _SAME
    n = np.inf if moments.cluster == "voter" else moments.n_contexts
    most = most_at_stake(reach.mean(axis=0), n, slack)
    nothing = np.zeros(values.estimand.n_columns)
    untold = nothing if values.untold is None else values.untold[inside].mean(axis=0)
    bridged = nothing if values.bridged is None else values.bridged[inside].mean(axis=0)
    error = np.where(same, 0.0, np.where(known_means(moments), moments.error, np.inf))
    mean = np.where(same, 0.0, moments.mean)
    low, high = (
        np.where(same, 0.0, np.clip(end + side * untold, -most, most))
        for end, side in zip(limits(moments, c), (-1, 1), strict=True)
    )
    value = np.clip(mean + np.where(same, 0.0, bridged), -most, most)
    return _Means(moments, value, error, low, high, untold, moments.effective)


def most_at_stake(reach: Floats, n: float, slack: float) -> Floats:
    """Return upper bounds on means of numbers from 0 to 1, (C,), given their means over n contexts (Chernoff).

    Args:
        reach: (C,) sample means.
        n: contexts; infinite where they are not a sample.
        slack: the chance that a bound fails.
    """
    if not np.isfinite(n):
        return reach
    low, high = reach.copy(), np.ones(len(reach))
    for _ in range(60):  # the divergence of Bernoulli(reach) from Bernoulli(middle) grows with middle
        middle = (low + high) / 2
        inside = rel_entr(reach, middle) + rel_entr(1 - reach, 1 - middle) <= -np.log(slack) / n
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high

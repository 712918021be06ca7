"""The familiar ladder of Bradley-Terry ratings, and which votes keep its first agent there.

To first order a vote moves the scores by its surprise times the inverse Hessian (the influence function of logistic
regression), over one less its leverage; who leads without some votes is then told by fitting anew, which takes no time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums
from nasheval.audit.margins import Margin
from nasheval.audit.search import Items, Standings
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.game.scores import fit_scores, score_hessian
from nasheval.policy.pooled import RIDGE, ratings


@dataclass(frozen=True, eq=False)
class Ratings:
    """Scores (K,), and (K,) which agent of those that are rated leads."""

    score: Floats
    winners: Bools
    meetings: Floats


class Ladder:
    """The ladder of the votes of some contexts; agents whose rating all votes do not determine are not on it."""

    def __init__(self, log: Feedback, inside: Bools) -> None:
        verdicts = log.verdicts
        here = inside[log.context_of[verdicts.record]] & (verdicts.zero != Zero.CENSORED)
        self.vote = verdicts.record[here]
        self.j, self.k = verdicts.j[here].astype(np.int64), verdicts.k[here].astype(np.int64)
        self.z, self.weight, self.K = verdicts.z[here], log.records.weights[self.vote], log.n_agents
        full = ratings(log if inside.all() else log[inside])
        self.rated = full.determined & (full.votes > 0)
        self._latest: tuple[bytes, Ratings, Floats] | None = None

    def without(self, gone: Bools) -> Ratings:
        """Return the scores without some votes, (n_votes,), and who leads."""
        left = ~gone[self.vote]
        j, k, z, weight = (each[left] for each in (self.j, self.k, self.z, self.weight))
        meetings = bin_sums(j * self.K + k, weight, self.K**2).reshape(self.K, self.K)
        meetings = meetings + meetings.T
        lead = bin_sums(j, weight * z, self.K) - bin_sums(k, weight * z, self.K)
        exact = 1e-9 * max(1.0, 1e-4 * float(meetings.sum(axis=1).max(initial=0.0)))  # as `ratings`
        score = fit_scores(lead[None], meetings, ridge=RIDGE, tolerance=exact)[0]
        rated = np.where(self.rated & (meetings.sum(axis=1) > 0), score, -np.inf)
        return Ratings(score, np.arange(self.K) == rated.argmax(), meetings)

    def margins(self, standings: Standings) -> list[Margin]:
        """Return how far each agent is below the first; slopes are (K,), in the scores."""
        assert isinstance(standings, Ratings)
        first, score = int(standings.winners.argmax()), standings.score
        return [
            Margin(int(b), "enters", float(score[first] - score[b]), np.eye(self.K)[first] - np.eye(self.K)[b])
            for b in np.flatnonzero(self.rated & ~standings.winners)
        ]

    def effects(self, margin: Margin, gone: Bools, items: Items) -> Floats:
        """Return (items,) how much a distance on the ladder changes, to first order, when each item goes."""
        score, inverse = self._state(gone)
        half, along = np.tanh((score[self.j] - score[self.k]) / 2), inverse @ margin.slope
        spread = inverse[self.j, self.j] + inverse[self.k, self.k] - 2 * inverse[self.j, self.k]
        leverage = np.minimum(self.weight * (1 - half**2) / 4 * spread, 0.9)
        moved = -(along[self.j] - along[self.k]) * self.weight * (self.z - half) / 2 / (1 - leverage)
        item = items.of_vote[self.vote]
        left = ~gone[self.vote] & (item >= 0)
        return bin_sums(item[left], moved[left], items.size)

    def _state(self, gone: Bools) -> tuple[Floats, Floats]:
        """Return the scores without some votes, and the inverse Hessian there; the latest are kept."""
        key = np.packbits(gone).tobytes()
        if self._latest is None or self._latest[0] != key:
            now = self.without(gone)
            self._latest = key, now, np.linalg.inv(score_hessian(now.score[None], now.meetings, RIDGE)[0])
        return self._latest[1].score, self._latest[2]

    def deserted(self, items: Items) -> list[tuple[int, Ints]]:
        """Return nobody: an agent loses its place on a ladder to another, not to nobody."""
        return []

"""Tan's marginal sensitivity model: how far means could be off if votes were selected by something unmeasured.

Suppose a hidden trait drives both which menu is asked and what is said, so that the odds that a menu was asked where
the verdict would be z are up to L times more, or less, than the odds that the model of propensities gives at the
context. The weight 1 / e of a verdict then lies between 1 + (1/e - 1) / L and 1 + (1/e - 1) L, and the mean of all
weights is still one per context (Tan 2006; Zhao, Small and Bhattacharya 2019). The largest mean that such weights
allow puts the large ones on verdicts above a quantile q of level L / (1 + L), the small ones below (Dorn and Guo 2023):

    upper = mean + E[(1 - e) D],   D = (L^s - 1) (Z - q),   s = 1 where Z > q, else -1,

and D is never negative. This holds for any q that depends on the context alone, and is sharp at the quantile (Dorn, Guo
and Kallus 2024), so a poor guess of q makes bounds wide, not wrong. E[(1 - e) D] is a mean over the verdicts of the
pair, by their weights; what is a mean without selection keeps its double robustness.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums, readonly
from nasheval.payoff.clusters import Moments, group_moments
from nasheval.payoff.inference import GroupPayoff
from nasheval.payoff.pseudo import PseudoOutcomes

_SLIGHT = 1e-12


@dataclass(frozen=True, eq=False)
class Tilts:
    """The verdicts of a log, ready for bounds at any strength; v counts pair verdicts.

    Args:
        pseudo: of the log.
        z: (v,) verdicts, at equal style where payoffs are.
        high, low: (v,) chance of a verdict above 0, and below, by the outcome model and the share of ties.
        unasked: (v,) 1 - e.
        weight: (v,) how much each counts, as in `Estimand.weight`.
    """

    pseudo: PseudoOutcomes
    z: Floats
    high: Floats
    low: Floats
    unasked: Floats
    weight: Floats

    @classmethod
    def of(cls, pseudo: PseudoOutcomes) -> Tilts:
        """Return those of a log's pseudo-outcomes."""
        fit, log = pseudo.fit, pseudo.fit.log
        z, record = log.verdicts.z.astype(np.float64), log.verdicts.record
        if pseudo.style is not None:  # what a verdict at equal style would be: the residual beside a prediction
            z = np.clip(fit.mu + pseudo.residual, -1.0, 1.0)
        mu = np.clip(fit.mu, -1.0, 1.0)
        column, size = log.menus.column_of_verdict, len(log.menus.columns)
        count = np.maximum(np.bincount(column, minlength=size), 1)
        tie = np.minimum((bin_sums(column, 1.0 - np.abs(z), size) / count)[column], 1 - np.abs(mu))
        e = np.minimum(fit.e[record], 1.0)
        return cls(pseudo, z, (1 - tie + mu) / 2, (1 - tie - mu) / 2, 1 - e, pseudo.estimand.weight)

    def moved(self, strength: float, *, up: bool) -> Floats:
        """Return (v,) (1 - e) D, what selection of a strength may add to a payoff, or take off it."""
        z, high, low = (self.z, self.high, self.low) if up else (-self.z, self.low, self.high)
        top = 1.0 / (1.0 + strength)
        quantile = np.where(high >= top, 1.0, np.where(low >= 1 - top, -1.0, 0.0))
        above = z - quantile
        return np.where(above > 0, strength - 1.0, 1.0 / strength - 1.0) * above * self.unasked

    def widths(self, inside: Bools, strength: float) -> tuple[Floats, Floats]:
        """Return (n_pairs,) twice how far a group's means could be below, and above, what they seem.

        Pairs without a verdict in the group have the width of the whole log; bridged pairs what the others give them.

        Args:
            inside: (n_contexts,) the group.
        """
        rows = np.flatnonzero(inside[self.pseudo.context])
        below, above = (self.side(inside, rows, strength, up=up)[0] for up in (False, True))
        return below, above

    def mapped(self, group: GroupPayoff, limit: Floats, strength: float, *, up: bool) -> Floats:
        """Return (n_pairs,) the bounds that there would be were the limits of the means, without selection, the means.

        Of a few votes the spread says too little: without a single upset none can be weighed up. The limits of means
        know how many upsets there may be. The bound rises with the mean, and is concave in it, so that the mean over
        contexts is no more than the bound at the mean.
        """
        here, size = group.inside[self.pseudo.context], self.pseudo.n_pairs
        pair, weight = self.pseudo.pair[here], self.weight[here]
        unasked, tie = (
            np.nan_to_num(_mean(pair, each[here], weight, size)) for each in (self.unasked, 1.0 - np.abs(self.z))
        )
        mean = limit if up else -limit
        tie, top = np.minimum(tie, 1 - np.abs(mean)), 1.0 / (1.0 + strength)
        high, low = (1 - tie + mean) / 2, (1 - tie - mean) / 2
        worst = np.maximum(top - high - tie, 0.0)  # of the top share, what must be verdicts below 0
        tail = (np.minimum(high, top) - np.minimum(worst, low)) / top
        bound = mean + unasked * (1 - 1 / strength) * (tail - mean)
        return np.asarray(bound if up else -bound)

    def bounded(self, group: GroupPayoff, strength: float, *, up: bool) -> Moments:
        """Return the moments of the payoffs' upper bounds, or of their lower ones, in a group."""
        width = bridged_widths(self.pseudo, group.moments.mean, *self.widths(group.inside, strength))[int(up)]
        tilted = readonly(self.tilted(group.inside, strength, up=up))
        estimand, code = replace(self.pseudo.estimand, correction=tilted), np.where(group.inside, 0, -1)
        moments = group_moments(estimand, code, 1, group.moments.cluster)[0].floored()
        return replace(moments, mean=moments.mean + (width if up else -width))

    def tilted(self, inside: Bools, strength: float, *, up: bool) -> Floats:
        """Return (v,) corrections whose means are as uncertain as the bounds, and have the same sums as they had."""
        tilted = np.array(self.pseudo.estimand.correction)
        rows = np.flatnonzero(inside[self.pseudo.context])
        tilted[rows] = self.side(inside, rows, strength, up=up)[1]
        return tilted

    def side(self, inside: Bools, rows: Ints, strength: float, *, up: bool) -> tuple[Floats, Floats]:
        """Return (n_pairs,) widths of a group on one side, and the tilted corrections of its rows."""
        here, size = self._at(rows), self.pseudo.n_pairs
        pair, moved = self.pseudo.pair[rows], here.moved(strength, up=up)
        total, n = bin_sums(pair, here.weight, size), int((inside & self.pseudo.used).sum())
        width = _mean(pair, moved, here.weight, size)
        bare = np.isnan(width)
        if bare.any():
            width[bare] = np.nan_to_num(_mean(self.pseudo.pair, self.moved(strength, up=up), self.weight, size)[bare])
        even = np.divide(n, total, out=np.zeros(size), where=total > 0)  # weights then sum to the contexts
        own = (moved - width[pair]) * even[pair] * here.weight
        return width, self.pseudo.estimand.correction[rows] + (own if up else -own)

    def _at(self, rows: Ints) -> Tilts:
        """Return some of the verdicts."""
        each = (self.z, self.high, self.low, self.unasked, self.weight)
        return Tilts(self.pseudo, *(column[rows] for column in each))


def _mean(pair: Ints, values: Floats, weight: Floats, size: int) -> Floats:
    """Return (size,) weighted means of values by pair; NaN where there are none."""
    total = bin_sums(pair, weight, size)
    sums = bin_sums(pair, weight * values, size)
    return np.divide(sums, total, out=np.full(size, np.nan), where=total > _SLIGHT)


def bridged_widths(pseudo: PseudoOutcomes, mean: Floats, below: Floats, above: Floats) -> tuple[Floats, Floats]:
    """Return widths, (n_pairs,) twice, with those of bridged pairs: what all others give them together, at most."""
    bridge = pseudo.estimand.bridge
    if bridge is None:
        return below, above
    K, tangent = len(pseudo.fit.log.agents), bridge.at(mean[None])
    slope = bridge.incidence @ tangent.moved(np.zeros(K, np.int64), np.eye(K))  # (n_pairs, b)
    rise, fall = np.maximum(slope, 0.0), np.maximum(-slope, 0.0)
    below, above, old = below.copy(), above.copy(), (below, above)
    below[bridge.pairs] = rise.T @ old[0] + fall.T @ old[1]
    above[bridge.pairs] = rise.T @ old[1] + fall.T @ old[0]
    return below, above

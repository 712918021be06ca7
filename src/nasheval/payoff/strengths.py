"""How strongly to apply the correction h: one common strength, and one per pair that is shrunk toward it.

With c = Gamma - f(mu) at a held-out context, the strength of least squared error is sum h c / sum h^2: over many pairs
their common one, over one pair its raw one. Three rules, in this order:

1. A pair that debiasing moves significantly in all contexts or in some group of them (`nasheval.payoff.moves`) is
   corrected in any case: at its raw strength, and at no less than a half.
2. The other pairs have one common strength, which is 0 unless it lowers the held-out error by more than one standard
   error.
3. Their own strengths are the raw ones shrunk toward the common one by empirical Bayes,

       s_p = common + t^2 / (t^2 + v_p) (raw_p - common),

   with v_p the sampling variance of raw_p, clustered by context, and t^2 by how much the raw strengths scatter around
   the common one beyond that (by moments, at least 0). A pair within one standard error of the common strength keeps
   it; and all do unless strengths chosen without a fold lower the error on that fold, all folds together, by two
   standard errors more than the common one does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums

CandidateName = Literal["per-pair", "shared"]

_LEAST_MOVED = 0.5  # strength of a pair that debiasing moves significantly
_CLEARLY = 2.0  # standard errors by which strengths per pair must win over the common one


@dataclass(frozen=True)
class Strength:
    """How strongly the plug-in surface is corrected, and what that wins on held-out folds.

    Args:
        strength: the common s of pairs that debiasing does not move significantly (of all, if it moves every pair),
            from 0 (the plug-in) to 1 (the whole correction).
        gain: by how much best * h lowers the held-out squared error to Gamma per context, summed over those pairs.
        gain_error: its standard error, clustered by context.
        best: the common s of least held-out error, before the rule that a gain within its standard error is none.
        candidate: "per-pair" or "shared".
        trees: trees of each model of h.
        chosen: False where the strength was given.
        per_pair: (n_pairs,) what is applied; () means the common s for every pair.
        pairs_gain: by how much `per_pair` * h lowers it, summed over all pairs; NaN where the strength was given. Where
            pairs depart from the common strength, each fold is scored at strengths chosen without it.
        pairs_gain_error: its standard error.
    """

    strength: float
    gain: float
    gain_error: float
    best: float
    candidate: CandidateName
    trees: int
    chosen: bool = True
    per_pair: tuple[float, ...] = ()
    pairs_gain: float = np.nan
    pairs_gain_error: float = np.nan

    def of_pairs(self, n_pairs: int) -> Floats:
        """Return (n_pairs,) the strength of each pair."""
        return np.array(self.per_pair) if self.per_pair else np.full(n_pairs, self.strength)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-fold h beside the corrections that it should foretell.

    Args:
        context, pair: (c,) where a verdict was observed.
        correction: (c,) Gamma - f(mu) there; it is 0 elsewhere.
        h: (c,) h there.
        sampled: (m,) contexts at which h is known for every pair.
        dense: (m, n_pairs) h there.
        used: (n_contexts,) which contexts have a pseudo-outcome.
        fold: (n_contexts,) their folds.
    """

    context: Ints
    pair: Ints
    correction: Floats
    h: Floats
    sampled: Ints
    dense: Floats
    used: Bools
    fold: Ints

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return int(self.dense.shape[1])

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    def gains(self, strengths: Floats) -> Floats:
        """Return (used contexts,) by how much h lowers the squared error of each, summed over pairs.

        Args:
            strengths: (n_folds, n_pairs) those for the contexts of each fold.
        """
        s = strengths[self.fold[self.context], self.pair]
        agreed = bin_sums(self.context, s * self.h * self.correction, len(self.used))
        size = np.full(len(self.used), np.nan)
        size[self.sampled] = ((strengths[self.fold[self.sampled]] * self.dense) ** 2).sum(axis=1)
        missing = np.nanmean(size) if len(self.sampled) else 0.0  # sampled contexts stand in for the others
        return np.asarray((2 * agreed - np.where(np.isnan(size), missing, size))[self.used])

    def choose(self, moved: Bools, candidate: CandidateName, trees: int) -> Strength:
        """Return strengths, chosen on all folds.

        Args:
            moved: (n_pairs,) pairs that debiasing moves significantly.
            candidate, trees: what h is.
        """
        seen = np.bincount(self.pair, minlength=self.n_pairs) > 0
        rest = ~moved if (~moved & seen).any() else np.ones(self.n_pairs, bool)
        one = np.broadcast_to(rest.astype(np.float64), (self.n_folds, self.n_pairs))
        whole, double = self.gains(one), self.gains(2 * one)  # per context 2 (h c) - h^2 and 4 (h c) - 4 h^2
        size = whole - double / 2
        agreed = (whole + size) / 2

        def shared(without: int | None) -> tuple[float, tuple[float, float], float]:
            """Return the common strength; its gain, and itself, before the rule of one standard error."""
            mean_agreed, mean_size = self.moments(without)[:2]
            total = float(mean_size[rest].sum())
            best = float(np.clip(mean_agreed[rest].sum() / total, 0, 1)) if total > 0 else 0.0
            kept = slice(None) if without is None else self.fold[self.used] != without
            gain, error = _mean((2 * best * agreed - best**2 * size)[kept])
            return best if gain > error else 0.0, (gain, error), best

        def strengths(without: int | None, *, separate: bool) -> Floats:
            raw, variance = self.moments(without)[2:]
            common = shared(without)[0]
            own = shrunk(raw, variance, common, rest) if separate else np.full(self.n_pairs, common)
            least = np.clip(np.nan_to_num(raw), _LEAST_MOVED, 1)
            return np.where(moved, np.maximum(own, least), own)

        per_pair = strengths(None, separate=False)
        pairs_gain = self.gains(np.tile(per_pair, (self.n_folds, 1)))
        apart = self.gains(np.stack([strengths(b, separate=True) for b in range(self.n_folds)]))
        more, error = _mean(apart - pairs_gain)
        if more > _CLEARLY * error:
            per_pair, pairs_gain = strengths(None, separate=True), apart
        common, gain, best = shared(None)
        listed = tuple(per_pair.tolist())
        return Strength(common, *gain, best, candidate, trees, True, listed, *_mean(pairs_gain))

    def moments(self, without: int | None = None) -> tuple[Floats, Floats, Floats, Floats]:
        """Return (n_pairs,) each: means of h c and of h^2 per context, raw strength, and its sampling variance.

        Args:
            without: a fold to leave out, or None.
        """
        from nasheval.payoff.grouped import FEW

        folds = np.arange(self.n_folds) != (-1 if without is None else without)
        observed, squares, contexts = (each[folds].sum(axis=0) for each in self._sums)
        n, m = np.maximum(contexts, 1.0)
        (agreed, agreed_squared, crossed), (size, size_squared) = observed[1:] / n, squares / m
        known = (size > 0) & (observed[0] >= FEW)  # with fewer, the variance is a guess
        raw, variance = np.full((2, self.n_pairs), np.nan)
        np.divide(agreed, size, out=raw, where=known)
        spread = agreed_squared - 2 * raw * crossed + raw**2 * size_squared
        np.divide(spread, n * size**2, out=variance, where=known)
        return agreed, size, raw, variance

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, Floats]:
        """Sums over the contexts of each fold.

        Where a verdict was observed, (n_folds, 4, n_pairs): how many, h c, (h c)^2 and h^3 c. At sampled contexts,
        (n_folds, 2, n_pairs): h^2 and h^4. And (n_folds, 2) numbers of used and of sampled contexts.
        """
        shape, hc = (self.n_folds, self.n_pairs), self.h * self.correction
        key = self.fold[self.context].astype(np.int64) * self.n_pairs + self.pair
        values = (None, hc, hc**2, self.h**2 * hc)
        observed = [np.bincount(key, each, shape[0] * shape[1]).reshape(shape).astype(np.float64) for each in values]
        folds = self.fold[self.sampled]
        squares = [self.dense[folds == b] ** 2 for b in range(self.n_folds)]
        contexts = [np.bincount(f, minlength=self.n_folds) for f in (self.fold[self.used], folds)]
        return (
            np.stack(observed, axis=1),
            np.array([[each.sum(axis=0), (each**2).sum(axis=0)] for each in squares]),
            np.stack(contexts, axis=1).astype(np.float64),
        )


def shrunk(raw: Floats, variance: Floats, common: float, rest: Bools) -> Floats:
    """Return (n_pairs,) strengths in [0, 1]: raw ones, shrunk toward the common one by empirical Bayes.

    Args:
        raw: (n_pairs,) strengths of least held-out error; NaN where unknown.
        variance: (n_pairs,) their sampling variances; NaN where unknown.
        rest: (n_pairs,) pairs that share the common strength; the others do not enter, and get it as it is.
    """
    known = np.isfinite(raw) & np.isfinite(variance) & (variance > 0) & rest
    gap, v = raw[known] - common, variance[known]
    spread = max(0.0, float(((gap**2 / v) - 1).sum() / (1 / v).sum())) if len(v) else 0.0
    strengths = np.full(len(raw), common)
    strengths[known] += np.where(gap**2 > v, spread / (spread + v), 0.0) * gap
    return np.asarray(np.clip(strengths, 0.0, 1.0))


def _mean(gains: Floats) -> tuple[float, float]:
    """Return the mean over contexts and its standard error."""
    if len(gains) < 2:
        return (float(gains.mean()) if len(gains) else 0.0), np.inf
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))

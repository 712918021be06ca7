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

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums
from nasheval.payoff.clusters import FEW

LEAST_MOVED = 0.5  # strength of a pair that debiasing moves significantly

_CLEARLY = 2.0  # standard errors by which strengths per pair must win over the common one


@dataclass(frozen=True, eq=False)
class Choice:
    """Strengths, and what they win on held-out contexts.

    Args:
        common: of the pairs that do not move significantly (of all, if every pair does), after the rule of one
            standard error.
        best: the same before the rule.
        best_gain: the fall in squared error per context at `best`, summed over those pairs, and its standard error.
        per_pair: (n_pairs,) strengths to apply.
        gain: the fall in squared error per context at strengths per pair, summed over all pairs, and its standard
            error. Where pairs depart from the common strength, each fold is scored at strengths chosen without it.
    """

    common: float
    best: float
    best_gain: tuple[float, float]
    per_pair: Floats
    gain: tuple[float, float]


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

    def choose(self, moved: Bools) -> Choice:
        """Return strengths, chosen on all folds.

        Args:
            moved: (n_pairs,) pairs that debiasing moves significantly.
        """
        rest = ~moved if (~moved & self._seen).any() else np.ones(self.n_pairs, bool)
        sums, gains = _Sums.of(self), _Line.of(self, rest)
        common, best, best_gain = self._common(sums, gains, rest, None)

        def strengths(without: int | None, *, separate: bool) -> Floats:
            pairs, centre = sums.moments(without), self._common(sums, gains, rest, without)[0]
            own = shrunk(pairs.raw, pairs.variance, centre, rest) if separate else np.full(self.n_pairs, centre)
            least = np.clip(np.nan_to_num(pairs.raw), LEAST_MOVED, 1)
            return np.where(moved, np.maximum(own, least), own)

        alike = strengths(None, separate=False)
        together = self.gains(np.tile(alike, (self.n_folds, 1)))
        apart = self.gains(np.stack([strengths(b, separate=True) for b in range(self.n_folds)]))
        more, error = _mean(apart - together)
        if more > _CLEARLY * error:
            return Choice(common, best, best_gain, strengths(None, separate=True), _mean(apart))
        return Choice(common, best, best_gain, alike, _mean(together))

    @cached_property
    def _seen(self) -> Bools:
        return np.bincount(self.pair, minlength=self.n_pairs) > 0

    def _common(
        self, sums: _Sums, gains: _Line, rest: Bools, without: int | None
    ) -> tuple[float, float, tuple[float, float]]:
        """Return the common strength of some pairs chosen without a fold, the same before the rule, and its gain."""
        pairs = sums.moments(without)
        total = float(pairs.size[rest].sum())
        best = float(np.clip(pairs.agreed[rest].sum() / total, 0, 1)) if total > 0 else 0.0
        kept = slice(None) if without is None else self.fold[self.used] != without
        gain, error = _mean((2 * best * gains.agreed - best**2 * gains.size)[kept])
        return best if gain > error else 0.0, best, (gain, error)


@dataclass(frozen=True, eq=False)
class _Line:
    """(used contexts,) sums over some pairs of h c, and of h^2: a common strength s wins 2 s (h c) - s^2 h^2."""

    agreed: Floats
    size: Floats

    @staticmethod
    def of(held: HeldOut, pairs: Bools) -> _Line:
        one = np.broadcast_to(pairs.astype(np.float64), (held.n_folds, held.n_pairs))
        whole, double = held.gains(one), held.gains(2 * one)  # 2 a - q and 4 a - 4 q
        size = whole - double / 2
        return _Line((whole + size) / 2, size)


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


@dataclass(frozen=True, eq=False)
class _Moments:
    """Per pair: mean of h c and of h^2 per context, raw strength agreed / size, and its sampling variance."""

    agreed: Floats
    size: Floats
    raw: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the contexts of each fold, (n_folds, n_pairs) each, and the number of contexts, (n_folds, 1).

    Args:
        observed: number of h c.
        agreed, agreed_squared, crossed: of h c, (h c)^2 and h^3 c, over used contexts.
        size, size_squared: of h^2 and h^4, over sampled contexts.
        used, sampled: numbers of contexts.
    """

    observed: Floats
    agreed: Floats
    agreed_squared: Floats
    crossed: Floats
    size: Floats
    size_squared: Floats
    used: Floats
    sampled: Floats

    @staticmethod
    def of(held: HeldOut) -> _Sums:
        shape = held.n_folds, held.n_pairs
        key = held.fold[held.context].astype(np.int64) * held.n_pairs + held.pair
        hc, square = held.h * held.correction, held.h**2

        def total(values: Floats | None) -> Floats:
            return np.bincount(key, values, shape[0] * shape[1]).reshape(shape).astype(np.float64)

        folds = held.fold[held.sampled]
        sizes = [held.dense[folds == b] ** 2 for b in range(shape[0])]
        return _Sums(
            total(None), total(hc), total(hc**2), total(square * hc),
            np.stack([each.sum(axis=0) for each in sizes]), np.stack([(each**2).sum(axis=0) for each in sizes]),
            *(np.bincount(f, minlength=shape[0])[:, None].astype(np.float64) for f in (held.fold[held.used], folds)),
        )  # fmt: skip

    def moments(self, without: int | None) -> _Moments:
        """Return the moments of each pair over all folds, or all but one."""
        kept = np.arange(len(self.used)) != (-1 if without is None else without)
        n, m = (max(1.0, float(each[kept].sum())) for each in (self.used, self.sampled))
        agreed, agreed_squared, crossed = (
            each[kept].sum(axis=0) / n for each in (self.agreed, self.agreed_squared, self.crossed)
        )
        size, size_squared = (each[kept].sum(axis=0) / m for each in (self.size, self.size_squared))
        known = (size > 0) & (self.observed[kept].sum(axis=0) >= FEW)  # with fewer, the variance is a guess
        raw = np.divide(agreed, size, out=np.full(len(size), np.nan), where=known)
        variance = np.full(len(size), np.nan)
        spread = agreed_squared - 2 * raw * crossed + raw**2 * size_squared
        np.divide(spread, n * size**2, out=variance, where=known)
        return _Moments(agreed, size, raw, variance)


def _mean(gains: Floats) -> tuple[float, float]:
    """Return the mean over contexts and its standard error."""
    if len(gains) < 2:
        return (float(gains.mean()) if len(gains) else 0.0), np.inf
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))

"""The correction h of the plug-in surface, learned from observed residuals, and how strongly to apply it.

The debiased surface is f(mu) + h with h_jk(x) = E[Gamma_jk - f(mu) | x]. It is learned as the minimiser of

    sum over observed verdicts of  w |df/du_m| / e  (D sign(df/du_m) (Z - mu) - h(x))^2,    D = sum_m |df/du_m|,

(over R_i under "draws") and applied at a strength per pair (`nasheval.payoff.strengths`), chosen on held-out folds;
docs/method.md, "The corrected second stage", tells why, what a strength below 1 gives up, and why the held-out score,
which is not nested, is too low rather than too high.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums, offsets_of
from nasheval.boosting import begin, binned, take
from nasheval.nuisance.learners import Effort, Features
from nasheval.payoff.grouped import FEW
from nasheval.payoff.moves import moved_pairs
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.strengths import CandidateName, HeldOut, Strength
from nasheval.payoff.surfaces import Boosting, PairSurface, SharedSurface, Surface, binned_pairs, grow_all

if TYPE_CHECKING:
    from lightgbm import Booster

_MOST_PAIRS = 200  # with more, pairs must share strength: a model per pair is not tried
_SCORED = 1 << 20  # predictions of h that its held-out size is measured on
_LEARNED = 1 << 21  # cells that each copy of h without a fold learns from at most: copies choose its strength only
_STAGES = (0.1, 1 / 3, 1.0)  # of all trees, at which the held-out error is looked at
_LAST = 0.2  # share of the work that the fit on all cells is
_TREES: dict[str, Any] = {"trees": 150, "leaves": 15, "rate": 0.1, "least": 50}  # of h, unless given


@dataclass(frozen=True)
class Cells:
    """What was observed of each context and pair, verdicts joined; pairs ascending, then contexts.

    Args:
        context, pair: (c,) where.
        weight: (c,) sum over verdicts of w |df/du| / e.
        target: (c,) their weighted mean of D sign(df/du) (Z - mu).
        correction: (c,) Gamma - f(mu).
        n_pairs: number of pairs.
    """

    context: Ints
    pair: Ints
    weight: Floats
    target: Floats
    correction: Floats
    n_pairs: int

    @staticmethod
    def of(pseudo: PseudoOutcomes) -> Cells:
        """Join the verdicts of each context and pair; squared error in h depends on their weighted mean only."""
        weight = pseudo.estimand.weight
        seen = weight > 0
        key = pseudo.pair[seen].astype(np.int64) * pseudo.n_contexts + pseudo.context[seen]
        keys, place = np.unique(key, return_inverse=True)
        target = pseudo.spread * np.sign(pseudo.slope) * pseudo.residual
        total = bin_sums(place, weight[seen], len(keys))
        mean = bin_sums(place, (weight * target)[seen], len(keys)) / total
        correction = bin_sums(place, pseudo.estimand.correction[seen], len(keys))
        return Cells(keys % pseudo.n_contexts, keys // pseudo.n_contexts, total, mean, correction, pseudo.n_pairs)

    @cached_property
    def offsets(self) -> Ints:
        """(n_pairs + 1,) where the cells of each pair begin."""
        return offsets_of(np.bincount(self.pair, minlength=self.n_pairs))

    def of_pair(self, pair: int) -> slice:
        """Return the cells of a pair."""
        return slice(int(self.offsets[pair]), int(self.offsets[pair + 1]))


# -- two forms of h ---------------------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A form of h: how large it is, and what begins to learn it on some cells, (c,) booleans."""

    name: CandidateName
    trees: int
    begin: Callable[[Bools], Surface]


def _per_pair(X: Features, cells: Cells, boosting: Boosting, n_jobs: int) -> Candidate:
    """One model per pair; a number where cells are too few to split once, and 0 where there are fewer than 20."""
    params = boosting.params()
    data = binned(X.trees, X.categorical, params) if X.trees.shape[1] else None

    def one(pair: int, kept: Bools) -> Booster | float:
        place = cells.of_pair(pair)
        rows = np.arange(place.start, place.stop)[kept[place]]
        if len(rows) < min(FEW, 2 * boosting.least):
            return 0.0
        weight, target = cells.weight[rows], cells.target[rows]
        if data is None or len(rows) < 2 * boosting.least:
            return float(np.average(target, weights=weight))
        return begin(take(data, cells.context[rows], target, weight / weight.mean()), params)

    def row(kept: Bools) -> Surface:
        return PairSurface.of([one(pair, kept) for pair in range(cells.n_pairs)], n_jobs)

    return Candidate("per-pair", boosting.trees, row)


def _shared(X: Features, cells: Cells, boosting: Boosting, n_agents: int) -> Candidate:
    """One model of (x, j, k) for all pairs."""
    data, params = binned_pairs(X, cells.context, cells.pair, n_agents, boosting)
    known = np.diff(cells.offsets) > 0

    def one(kept: Bools) -> Surface:
        rows = np.flatnonzero(kept)
        weight = cells.weight[rows]
        model = begin(take(data, rows, cells.target[rows], weight / weight.mean()), params)
        return SharedSurface(model, known, n_agents)

    return Candidate("shared", boosting.trees, one)


# -- choosing ---------------------------------------------------------------------------------------------------------


def learn_correction(
    pseudo: PseudoOutcomes, *, strength: float | None = None, boosting: Boosting | None = None, effort: Effort
) -> tuple[Surface | None, Strength]:
    """Return the surface h fitted on all cells (None where its strength is zero) and its strength.

    Args:
        strength: s, or None to choose it on held-out folds.
        boosting: of one model per pair; the shared model has the same with four times the leaves.
    """
    cells = Cells.of(pseudo)
    candidates = _candidates(pseudo, cells, boosting or Boosting(**_TREES, seed=effort.seed), effort.n_jobs)
    candidate, chosen = _race(candidates, pseudo, cells, effort)
    if strength is not None:
        same = (float(strength),) * len(chosen.per_pair)
        kept = {"gain": chosen.gain, "gain_error": chosen.gain_error, "best": chosen.best}
        chosen = Strength(strength, **kept, candidate=chosen.candidate, trees=chosen.trees, chosen=False, per_pair=same)
    if not any(chosen.per_pair):
        effort.advance(_LAST)
        return None, chosen
    surface = candidate.begin(np.ones(len(cells.pair), bool))
    grow_all(surface.boosters, chosen.trees, effort.share(_LAST))
    return surface.freed().only(np.asarray(chosen.per_pair) != 0), chosen


def _candidates(pseudo: PseudoOutcomes, cells: Cells, boosting: Boosting, n_jobs: int) -> list[Candidate]:
    X, wider = pseudo.fit.X, replace(boosting, leaves=4 * boosting.leaves)
    left = len(cells.pair) - np.bincount(pseudo.fit.fold[cells.context], minlength=1).max()  # in the smallest fit
    candidates = [_shared(X, cells, wider, pseudo.fit.log.n_agents)] if left >= 2 * wider.least else []
    if cells.n_pairs <= _MOST_PAIRS or not candidates:
        candidates.append(_per_pair(X, cells, boosting, n_jobs))
    return candidates


def _race(
    candidates: Sequence[Candidate], pseudo: PseudoOutcomes, cells: Cells, effort: Effort
) -> tuple[Candidate, Strength]:
    """Return the form of h, and its size, of largest held-out gain; the better of small ones is grown while it pays."""
    fold, moved = pseudo.fit.fold[cells.context], moved_pairs(pseudo)
    share = (1 - _LAST) / (len(candidates) + len(_STAGES) - 1)
    kept = [_some(fold != b, effort.seed + b) for b in range(pseudo.fit.n_folds)]
    surfaces = [[c.begin(rows) for rows in kept] for c in candidates]

    def scored(place: int, stage: float) -> Strength:
        candidate, without = candidates[place], surfaces[place]  # h, learned without each fold
        trees = max(1, round(stage * candidate.trees))
        grow_all([model for surface in without for model in surface.boosters], trees, effort.share(share))
        return _held_out([surface.freed() for surface in without], pseudo, cells).choose(moved, candidate.name, trees)

    first = [scored(place, _STAGES[0]) for place in range(len(candidates))]
    best = max(first, key=_gains)
    winner = first.index(best)
    for stage in range(1, len(_STAGES)):
        if best.gain <= best.gain_error and best.pairs_gain <= best.pairs_gain_error:  # there is nothing to refine
            effort.advance(share * (len(_STAGES) - stage))
            break
        best = max(best, scored(winner, _STAGES[stage]), key=_gains)
    return candidates[winner], best


def _some(kept: Bools, seed: int) -> Bools:
    """Return (c,) which cells to learn from: those kept, or as many of them as pay for their time."""
    if (rows := np.flatnonzero(kept)).size <= _LEARNED:
        return kept
    some = np.zeros(len(kept), bool)
    some[np.random.default_rng((seed, 5)).choice(rows, _LEARNED, replace=False, shuffle=False)] = True
    return some


def _gains(strength: Strength) -> tuple[float, float]:
    return strength.pairs_gain, strength.gain


def _held_out(surfaces: Sequence[Surface], pseudo: PseudoOutcomes, cells: Cells) -> HeldOut:
    """Predict h out of fold, at every pair of sampled contexts and at the cells of the others."""
    X, fold, sampled = pseudo.fit.X, pseudo.fit.fold, pseudo.sampled(_SCORED // max(1, pseudo.n_pairs))
    dense, h = np.zeros((len(sampled), cells.n_pairs)), np.zeros(len(cells.pair))
    place = np.full(pseudo.n_contexts, -1)
    place[sampled] = np.arange(len(sampled))
    inside = place[cells.context] >= 0
    for b, surface in enumerate(surfaces):
        rows = np.flatnonzero(fold[sampled] == b)
        dense[rows] = surface.predict(X[sampled[rows]])
        others = np.flatnonzero(~inside & (fold[cells.context] == b))
        h[others] = surface.cells(X, cells.context[others], cells.pair[others])
    h[inside] = dense[place[cells.context[inside]], cells.pair[inside]]
    return HeldOut(cells.context, cells.pair, cells.correction, h, sampled, dense, pseudo.used, fold)

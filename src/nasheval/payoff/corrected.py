"""The correction h of the plug-in surface, learned from observed residuals, and how strongly to apply it.

The debiased surface is f(mu) + h with h_jk(x) = E[Gamma_jk - f(mu) | x] = sum_m df/du_m (mu0^m - mu^m)(x) at the true
propensities. Regressing Gamma - f(mu), which is zero wherever nothing was observed and large where something was, is
noisy. The same h is the minimiser of

    sum over observed verdicts of  w |df/du_m| / e  (D sign(df/du_m) (Z - mu) - h(x))^2,    D = sum_m |df/du_m|,

(over R_i under "draws"), because given x the weights of a pair's menus have means proportional to |df/du_m|, which sum
to D. For a linear aggregator D is 1 and this is (w_m / e) (Z - mu - h)^2. It is a ratio (Hajek) form: wrong
propensities shift it only where the residuals differ from zero, so it stays right where either nuisance is.

h is learned from residuals of models that did not see them, one fold's model each, and added to the plug-in surface of
all folds' models, whose error is a little smaller.

Each pair has a strength s_p in [0, 1], chosen on held-out folds by squared error to Gamma, see
`nasheval.payoff.strengths`. At s_p = 1 the surface f + h is Neyman orthogonal; a smaller one gives up part of that,
which it does only where the held-out error says that h is mostly noise and debiasing does not move the pair
significantly.

The score is not nested: h for a fold is learned from residuals whose nuisances saw that fold, so that h there repeats
the fold's own noise with the opposite sign and the score is too low, not too high (`python -m benchmarks.nesting`, 15
pairs, 3,000 duels: gain of h per context by the score and on fresh contexts -0.99 and -0.34 for trees, -0.77 and -0.22
for stumps, 0.72 and 0.89 for an intercept; nested scores are right within 0.02). Strengths chosen by a nested score
would lower the error by no more than a further 0.02 per context, at three times the cost of the nuisances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums, offsets_of
from nasheval.errors import InputError
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.trees import binned
from nasheval.payoff.clusters import FEW
from nasheval.payoff.moves import moved_pairs
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.strengths import HeldOut
from nasheval.payoff.surfaces import (
    Boosting,
    PairSurface,
    SharedSurface,
    Surface,
    agent_bins,
    begin,
    freed,
    grow,
    with_agents,
)  # fmt: skip

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

CandidateName = Literal["per-pair", "shared"]

_MOST_PAIRS = 200  # with more, pairs must share strength: a model a pair is not tried
_SCORED = 1 << 20  # predictions of h that its held-out size is measured on
_STAGES = (0.1, 1 / 3, 1.0)  # of all trees, at which the held-out error is looked at
_LAST = 0.2  # share of the work that the fit on all cells is
_TREES: dict[str, Any] = {"trees": 150, "leaves": 15, "rate": 0.1, "least": 50}  # of h, unless given


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
        per_pair: (n_pairs,) what is applied (`nasheval.payoff.strengths`); () means the common s for every pair.
        pairs_gain: by how much `per_pair` * h lowers it, summed over all pairs; NaN where the strength was given.
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


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


class Candidate(Protocol):
    """A form of h: models on some cells, grown step by step."""

    @property
    def name(self) -> CandidateName:
        """What it is called."""
        ...

    @property
    def boosting(self) -> Boosting:
        """How its trees are boosted."""
        ...

    def start(self, keep: Sequence[Ints], effort: Effort) -> Growth:
        """Return models of h, one surface for each set of cells."""
        ...


class Growth(Protocol):
    """Models of h on several sets of cells."""

    def grow(self, trees: int) -> Sequence[Surface]:
        """Grow them to a number of trees; return one surface for each set of cells."""
        ...


@dataclass(frozen=True)
class PerPair:
    """One model per pair; a number where cells are too few to split once, and 0 where there are fewer than 20."""

    X: Features
    cells: Cells
    boosting: Boosting
    name: CandidateName = "per-pair"

    def start(self, keep: Sequence[Ints], effort: Effort) -> _PairGrowth:
        """Return models of h, one row of pairs for each set of cells."""
        data = binned(self.X, np.arange(len(self.X)), self.boosting.params()) if self.X.trees.shape[1] else None
        rows = [tuple(self._begin(data, part, pair) for pair in range(self.cells.n_pairs)) for part in keep]
        return _PairGrowth(rows, effort)

    def _begin(self, data: Dataset | None, kept: Ints, pair: int) -> Booster | float:
        place = self.cells.of_pair(pair)
        rows = np.arange(place.start, place.stop)[kept[place]]
        if len(rows) < min(FEW, 2 * self.boosting.least):
            return 0.0
        weight, target = self.cells.weight[rows], self.cells.target[rows]
        if data is None or len(rows) < 2 * self.boosting.least:
            return float(np.average(target, weights=weight))
        return begin(data, self.cells.context[rows], target, weight / weight.mean(), self.boosting.params())


@dataclass(frozen=True)
class _PairGrowth:
    rows: list[tuple[Booster | float, ...]]
    effort: Effort

    def grow(self, trees: int) -> list[Surface]:
        """Grow every model."""
        grow([m for row in self.rows for m in row if not isinstance(m, float)], trees, self.effort)
        return [PairSurface.of(row, self.effort.n_jobs) for row in self.rows]


@dataclass(frozen=True)
class Shared:
    """One model of (x, j, k) for all pairs."""

    X: Features
    cells: Cells
    boosting: Boosting
    n_agents: int
    name: CandidateName = "shared"

    def start(self, keep: Sequence[Ints], effort: Effort) -> _SharedGrowth:
        """Return models of h, one for each set of cells."""
        params = agent_bins(self.X, self.n_agents, self.boosting.params())
        table = with_agents(self.X, self.cells.context, self.cells.pair, self.n_agents)
        data = binned(table, np.arange(len(table)), params)
        known = np.diff(self.cells.offsets) > 0
        return _SharedGrowth([self._begin(data, np.flatnonzero(part), params) for part in keep], self, known, effort)

    def _begin(self, data: Dataset, rows: Ints, params: dict[str, Any]) -> Booster:
        weight = self.cells.weight[rows]
        return begin(data, rows, self.cells.target[rows], weight / weight.mean(), params)


@dataclass(frozen=True)
class _SharedGrowth:
    models: list[Booster]
    candidate: Shared
    known: Any
    effort: Effort

    def grow(self, trees: int) -> list[Surface]:
        """Grow every model."""
        grow(self.models, trees, self.effort)
        return [SharedSurface(model, self.known, self.candidate.n_agents) for model in self.models]


# -- choosing ---------------------------------------------------------------------------------------------------------


def learn_correction(
    pseudo: PseudoOutcomes, *, strength: float | None = None, boosting: Boosting | None = None, effort: Effort
) -> tuple[Surface | None, Strength]:
    """Return the surface h fitted on all cells (None where its strength is zero) and its strength.

    Args:
        strength: s, or None to choose it on held-out folds.
        boosting: of one model a pair; the shared model has the same with four times the leaves.
    """
    if strength is not None and not 0 <= strength <= 1:
        raise InputError(f"strength is {strength!r}; accepted is a number from 0 to 1, or None to choose it.")
    cells = Cells.of(pseudo)
    candidates = _candidates(pseudo, cells, boosting or Boosting(**_TREES, seed=effort.seed))
    candidate, chosen = _race(candidates, pseudo, cells, effort)
    if strength is not None:
        chosen = _as_given(chosen, strength)
    if not any(chosen.per_pair):
        effort.advance(_LAST)
        return None, chosen
    every = [np.ones(len(cells.pair), bool)]
    return _freed(candidate.start(every, effort.share(_LAST)).grow(chosen.trees)[0]), chosen


def _candidates(pseudo: PseudoOutcomes, cells: Cells, boosting: Boosting) -> list[Candidate]:
    X, wider = pseudo.fit.X, replace(boosting, leaves=4 * boosting.leaves)
    left = len(cells.pair) - np.bincount(pseudo.fit.fold[cells.context], minlength=1).max()  # in the smallest fit
    found: list[Candidate] = [Shared(X, cells, wider, pseudo.fit.log.n_agents)] if left >= 2 * wider.least else []
    if cells.n_pairs <= _MOST_PAIRS or not found:
        found.append(PerPair(X, cells, boosting))
    return found


def _as_given(chosen: Strength, strength: float) -> Strength:
    given = (float(strength),) * len(chosen.per_pair)
    return replace(chosen, strength=strength, chosen=False, per_pair=given, pairs_gain=np.nan, pairs_gain_error=np.nan)


def _race(
    candidates: Sequence[Candidate], pseudo: PseudoOutcomes, cells: Cells, effort: Effort
) -> tuple[Candidate, Strength]:
    """Return the form of h, and its size, of largest held-out gain; the better of small ones is grown while it pays."""
    fold, moved = pseudo.fit.fold[cells.context], moved_pairs(pseudo)
    keep = [fold != b for b in range(pseudo.fit.n_folds)]
    share = (1 - _LAST) / (len(candidates) + len(_STAGES) - 1)
    lines = [(c, c.start(keep, effort.share(share))) for c in candidates]

    def scored(candidate: Candidate, growth: Growth, stage: int) -> Strength:
        trees = _stage(candidate, stage)
        return _score(growth.grow(trees), pseudo, cells, moved, candidate.name, trees)

    first = [scored(candidate, growth, 0) for candidate, growth in lines]
    best = max(first, key=_gains)
    candidate, growth = lines[first.index(best)]
    for stage in range(1, len(_STAGES)):
        if best.gain <= best.gain_error and best.pairs_gain <= best.pairs_gain_error:  # there is nothing to refine
            effort.advance(share * (len(_STAGES) - stage))
            break
        best = max(best, scored(candidate, growth, stage), key=_gains)
    return candidate, best


def _gains(strength: Strength) -> tuple[float, float]:
    return strength.pairs_gain, strength.gain


def _stage(candidate: Candidate, stage: int) -> int:
    return max(1, round(_STAGES[stage] * candidate.boosting.trees))


def _score(
    surfaces: Sequence[Surface], pseudo: PseudoOutcomes, cells: Cells, moved: Bools, name: CandidateName, trees: int
) -> Strength:
    """Return the strengths of least held-out error, and their gains.

    Args:
        surfaces: h, learned without each fold.
        moved: (n_pairs,) pairs that are corrected in any case.
    """
    choice = _held_out(surfaces, pseudo, cells).choose(moved)
    per_pair = tuple(choice.per_pair.tolist())
    return Strength(choice.common, *choice.best_gain, choice.best, name, trees, True, per_pair, *choice.gain)


def _held_out(surfaces: Sequence[Surface], pseudo: PseudoOutcomes, cells: Cells) -> HeldOut:
    """Predict h out of fold, at every pair of sampled contexts and at the cells of the others."""
    X, fold, sampled = pseudo.fit.X, pseudo.fit.fold, _sampled(pseudo)
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


def _sampled(pseudo: PseudoOutcomes) -> Ints:
    rows = np.flatnonzero(pseudo.used)
    most = max(1, _SCORED // max(1, pseudo.n_pairs))
    return rows if len(rows) <= most else np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def _freed(surface: Surface) -> Surface:
    """Return the surface without the data its models were fitted on."""
    if isinstance(surface, SharedSurface):
        return replace(surface, model=freed(surface.model))
    assert isinstance(surface, PairSurface)
    return PairSurface.from_strings(surface.to_strings(), surface.models.n_jobs)

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

The strength s in [0, 1] is chosen on held-out folds by squared error to Gamma. At s = 1 the surface f + h is Neyman
orthogonal; a smaller s gives up part of that, which it does only where the held-out error says that h is mostly noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from nasheval.arrays import Floats, Ints, offsets_of
from nasheval.errors import InputError
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.trees import binned
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.surfaces import (
    Boosting,
    PairSurface,
    SharedSurface,
    Surface,
    agent_bins,
    begin,
    freed,
    grow,
    portion,
    with_agents,
)  # fmt: skip

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

CandidateName = Literal["per-pair", "shared"]

_MOST_PAIRS = 200  # with more, pairs must share strength: a model a pair is not tried
_SCORED = 1 << 20  # predictions of h that its held-out size is measured on
_CHUNK = 1 << 20  # of those at once
_STAGES = (0.1, 1 / 3, 1.0)  # of all trees, at which the held-out error is looked at
_LAST = 0.2  # share of the work that the fit on all cells is
_TREES: dict[str, Any] = {"trees": 150, "leaves": 15, "rate": 0.1, "least": 50}  # of h, unless given


@dataclass(frozen=True)
class Strength:
    """How strongly the plug-in surface is corrected, and what that wins on held-out folds.

    Args:
        strength: s, from 0 (the plug-in) to 1 (the whole correction).
        gain: by how much s h lowers the held-out mean squared error to Gamma, a context (all pairs together).
        gain_error: its standard error, clustered by context.
        best: the s of least held-out error, before the rule that a gain within its standard error is none.
        candidate: "per-pair" or "shared".
        trees: trees of each model of h.
        chosen: False where the strength was given.
    """

    strength: float
    gain: float
    gain_error: float
    best: float
    candidate: CandidateName
    trees: int
    chosen: bool = True

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
        weight = pseudo.share * np.abs(pseudo.slope)
        seen = weight > 0
        key = pseudo.pair[seen].astype(np.int64) * pseudo.n_contexts + pseudo.context[seen]
        keys, place = np.unique(key, return_inverse=True)
        target = pseudo.spread * np.sign(pseudo.slope) * pseudo.residual
        total = np.bincount(place, weight[seen], len(keys))
        mean = np.bincount(place, (weight * target)[seen], len(keys)) / total
        correction = np.bincount(place, pseudo.correction[seen], len(keys))
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
    """One model a pair; a pair with too few cells to split once is left as it is."""

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
        if len(rows) < 2 * self.boosting.least:
            return 0.0
        weight, target = self.cells.weight[rows], self.cells.target[rows]
        if data is None:
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
    candidate, best = _race(candidates, pseudo, cells, effort)
    chosen = _settled(best, strength)
    if chosen.strength == 0:
        effort.advance(_LAST)
        return None, chosen
    every = [np.ones(len(cells.pair), bool)]
    return _freed(candidate.start(every, portion(effort, _LAST)).grow(chosen.trees)[0]), chosen


def _candidates(pseudo: PseudoOutcomes, cells: Cells, boosting: Boosting) -> list[Candidate]:
    X, wider = pseudo.fit.X, replace(boosting, leaves=4 * boosting.leaves)
    left = len(cells.pair) - np.bincount(pseudo.fit.fold[cells.context], minlength=1).max()  # in the smallest fit
    found: list[Candidate] = [Shared(X, cells, wider, pseudo.fit.log.n_agents)] if left >= 2 * wider.least else []
    if cells.n_pairs <= _MOST_PAIRS or not found:
        found.append(PerPair(X, cells, boosting))
    return found


def _settled(best: Strength, given: float | None) -> Strength:
    """Apply the one-standard-error rule, or the strength that was given."""
    if given is not None:
        return replace(best, strength=given, chosen=False)
    return best if best.gain > best.gain_error else replace(best, strength=0.0)


def _race(
    candidates: Sequence[Candidate], pseudo: PseudoOutcomes, cells: Cells, effort: Effort
) -> tuple[Candidate, Strength]:
    """Return the form of h, and its size, of largest held-out gain; the better of small ones is grown while it pays."""
    fold = pseudo.fit.fold[cells.context]
    keep = [fold != b for b in range(pseudo.fit.n_folds)]
    share = (1 - _LAST) / (len(candidates) + len(_STAGES) - 1)
    lines = [(c, c.start(keep, portion(effort, share))) for c in candidates]
    first = [_score(growth.grow(_stage(c, 0)), pseudo, cells, c.name, _stage(c, 0)) for c, growth in lines]
    best = max(first, key=lambda found: found.gain)
    candidate, growth = lines[first.index(best)]
    for stage in range(1, len(_STAGES)):
        if best.gain <= best.gain_error:  # there is nothing to refine
            effort.advance(share * (len(_STAGES) - stage))
            break
        found = _score(growth.grow(_stage(candidate, stage)), pseudo, cells, candidate.name, _stage(candidate, stage))
        best = max(best, found, key=lambda each: each.gain)
    return candidate, best


def _stage(candidate: Candidate, stage: int) -> int:
    return max(1, round(_STAGES[stage] * candidate.boosting.trees))


def _score(
    surfaces: Sequence[Surface], pseudo: PseudoOutcomes, cells: Cells, name: CandidateName, trees: int
) -> Strength:
    """Return s = sum h (Gamma - f) / sum h^2 over held-out contexts and pairs, within [0, 1], and its gain."""
    agreed, size = _held_out(surfaces, pseudo, cells)
    total = float(size.sum())
    s = float(np.clip(agreed.sum() / total, 0, 1)) if total > 0 else 0.0
    gain = 2 * s * agreed - s**2 * size
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else np.inf
    return Strength(s, float(gain.mean()), error, s, name, trees)


def _held_out(surfaces: Sequence[Surface], pseudo: PseudoOutcomes, cells: Cells) -> tuple[Floats, Floats]:
    """Return for each context that has a pseudo-outcome the sums over pairs of h (Gamma - f), and of h^2, out of fold.

    The second sum needs h at every pair; where that would be too many, other contexts stand in for some.
    """
    X, fold = pseudo.fit.X, pseudo.fit.fold
    agreed, size = np.zeros(pseudo.n_contexts), np.full(pseudo.n_contexts, np.nan)
    sampled = _sampled(pseudo)
    others = np.flatnonzero(~np.isin(cells.context, sampled))
    for b, surface in enumerate(surfaces):
        for part in _parts(sampled[fold[sampled] == b], cells.n_pairs):
            h = surface.predict(X[part])
            agreed[part], size[part] = pseudo.corrections[part].multiply(h).sum(axis=1), (h**2).sum(axis=1)
        rows = others[fold[cells.context[others]] == b]
        told = surface.cells(X, cells.context[rows], cells.pair[rows]) * cells.correction[rows]
        agreed += np.bincount(cells.context[rows], told, pseudo.n_contexts)
    size = np.where(np.isnan(size), np.nanmean(size), size)
    return agreed[pseudo.used], size[pseudo.used]


def _sampled(pseudo: PseudoOutcomes) -> Ints:
    rows = np.flatnonzero(pseudo.used)
    most = max(1, _SCORED // max(1, pseudo.n_pairs))
    return rows if len(rows) <= most else np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def _parts(rows: Ints, width: int) -> Iterator[Ints]:
    step = max(1, _CHUNK // max(1, width))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def _freed(surface: Surface) -> Surface:
    """Return the surface without the data its models were fitted on."""
    if isinstance(surface, SharedSurface):
        return replace(surface, model=freed(surface.model))
    assert isinstance(surface, PairSurface)
    return PairSurface.from_strings(surface.to_strings(), surface.models.n_jobs)

"""Propensities chosen among several models by how well they foretell the menus of contexts they did not see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.engine import one_thread
from nasheval.feedback.log import Feedback
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.nuisance.learners import (
    Effort,
    Features,
    FoldModels,
    RecordModels,
    cells_of,
    records_of,
    require_draws,
    sampled,
)
from nasheval.nuisance.softmax import AgentSoftmax, Multinomial
from nasheval.nuisance.strata import Marginal, Strata
from nasheval.nuisance.trees import TreePropensity

SHARES = "shares"
_IN_USE = "in use"
_MOST_MENUS = 20_000  # for a softmax over agents
_FEW_MENUS = 50  # for a softmax over menus, and for trees
_MENU_CELLS = 1 << 19  # records x menus that slopes per menu are fitted on; more contexts than that are sampled
_TREE_CELLS = 1 << 17  # the same of trees
_FEWEST = 50  # contexts of a training set for them
_TREES = {"num_iterations": 80, "num_leaves": 7}
_SCORED_CELLS = 1 << 25  # records x menus on which candidates are compared; more records than that are sampled
_CHUNK_CELLS = 1 << 21
_FOLDS = 5  # where the training sets leave no record out
_SMALLEST = 1e-12


@dataclass(frozen=True)
class BestPropensity:
    """Whichever of several propensity models has the lowest log loss out of fold; for logs that draw menus.

    The candidates: shares of the menus, shares within strata of some columns (`Strata`), a softmax over agents on top
    of either (`AgentSoftmax`), and where menus are few slopes per menu (`Multinomial`) and LightGBM
    (`TreePropensity`). The model of each training set is scored at the records outside it, by weight; shares are kept
    unless another wins more than one standard error.
    """

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> ChosenModels:
        """Fit all candidates and keep the best; see `Learner.fit`."""
        require_draws(log)
        with one_thread():
            leaves_out = (~train[:, log.context_of]).any()
            masks = train if leaves_out else _inner(log, train[0], effort.seed)
            candidates = dict(_candidates(log, X, masks, effort))
            losses = _losses(log, X, masks, candidates, effort.seed)
            best = losses.best()
            models = candidates[best]
            if not leaves_out:
                models = dict(_candidates(log, X, train, effort.share(0.0))).get(best, models)
            return ChosenModels(models, Choice(best, losses.mean, *losses.gain(best)))


@dataclass(frozen=True)
class Choice:
    """Which propensity model was chosen, and why.

    Args:
        name: what it is, in words.
        losses: weighted mean log loss per record out of fold, of each candidate by name.
        gain: the loss of the shares less that of the chosen candidate.
        gain_error: its standard error, records of one context (or voter, see `units`) taken together.
    """

    name: str
    losses: dict[str, float]
    gain: float
    gain_error: float

    def __str__(self) -> str:
        if self.name == SHARES:
            return "shares of the menus; out of fold no model of the context foretells them better"
        return (
            f"{self.name}: out of fold its log loss per record is {self.gain:.4f} ± {self.gain_error:.4f} below shares"
        )


@dataclass(frozen=True)
class ChosenModels:
    """The propensity models that were chosen.

    Args:
        models: of the chosen candidate.
        choice: which, and why.
    """

    models: FoldModels
    choice: Choice

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) propensities; see `FoldModels.predict`."""
        return self.models.predict(X, fold)

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) propensities of menus columns[i] at rows[i] of X."""
        return cells_of(self.models, X, fold, rows, columns)


def _candidates(log: Feedback, X: Features, train: Bools, effort: Effort) -> Iterator[tuple[str, FoldModels]]:
    quiet = effort.share(0.0)
    shares = Marginal().fit(log, X, train, quiet)
    yield SHARES, shares
    effort.advance(0.1)
    strata = Strata().fit(log, X, train, quiet)
    by = f"shares by {' and '.join(strata.columns)}" if strata.columns else ""
    if by:
        yield by, strata
    effort.advance(0.2)
    if len(log.menus) <= _MOST_MENUS:
        plain = replace(shares, shares=tuple(share.astype(np.float32) for share in shares.shares))
        softmax = AgentSoftmax(plain).fit(log, X, train, quiet)
        if softmax.penalty is not None:
            yield "softmax over agents", softmax
        if by and softmax.penalty is not None:
            both = AgentSoftmax(strata, penalties=(softmax.penalty,)).fit(log, X, train, quiet)
            if both.penalty is not None:
                yield f"softmax over agents on {by}", both
    effort.advance(0.5)
    if 2 <= len(log.menus) <= _FEW_MENUS and train.sum(axis=1).min() >= _FEWEST:
        slopes = Multinomial(curved=True)
        yield "softmax over menus", slopes.fit(log, X, _thinned(log, train, _MENU_CELLS, effort.seed), quiet)
        trees = TreePropensity(_TREES)
        yield "trees", trees.fit(log, X, _thinned(log, train, _TREE_CELLS, effort.seed), quiet)
    effort.advance(0.2)


def best_rival(fit: NuisanceFit) -> tuple[str, float, float] | None:
    """Return the candidate that foretells menus best, by how much it beats the propensities of a fit, and the error.

    None where there is nothing to compare: propensities that are known, chosen this way already, or of inclusion.
    """
    models, log = fit.propensity_models, fit.log
    comparable = log.design == "draws" and log.contexts.num_columns > 0 and log.n_records > 0
    if not comparable or fit.is_known or isinstance(models, ChosenModels | RecordModels):
        return None
    train = np.arange(fit.n_folds)[:, None] != fit.fold[None, :]
    candidates: dict[str, FoldModels] = dict(_candidates(log, fit.X, train, Effort()))
    losses = _losses(log, fit.X, train, {**candidates, _IN_USE: models}, 0)
    best = min(candidates, key=lambda name: losses.mean[name])
    return best, *losses.gain(best, over=_IN_USE)


# -- comparing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Losses:
    """Log losses of candidates at the same records: (N,) of each candidate, with weights and units."""

    record: dict[str, Floats]
    weight: Floats
    unit: Ints

    @property
    def mean(self) -> dict[str, float]:
        total = max(float(self.weight.sum()), 1e-300)
        return {name: float(self.weight @ loss) / total for name, loss in self.record.items()}

    def best(self) -> str:
        """Return the candidate with the lowest loss; the shares unless it wins more than one standard error."""
        lowest = min(self.mean, key=lambda name: self.mean[name])
        gain, error = self.gain(lowest)
        return lowest if gain > error else SHARES

    def gain(self, name: str, over: str = SHARES) -> tuple[float, float]:
        """Return by how much a candidate beats another, and its standard error by unit."""
        total = max(float(self.weight.sum()), 1e-300)
        gain = self.weight * (self.record[over] - self.record[name]) / total
        off = gain - gain.sum() * self.weight / total
        sums = np.bincount(np.unique(self.unit, return_inverse=True)[1], off)
        return float(gain.sum()), float(np.sqrt(sums @ sums * len(sums) / max(len(sums) - 1, 1)))


def _losses(log: Feedback, X: Features, train: Bools, candidates: dict[str, FoldModels], seed: int) -> _Losses:
    """Score every candidate's model of each training set at the records outside it."""
    rng = np.random.default_rng(seed)
    most = max(1000, _SCORED_CELLS // len(log.menus) // len(train)) if len(log.menus) else 1
    record: dict[str, list[Floats]] = {name: [] for name in candidates}
    scored: list[Ints] = []
    for fold, seen in enumerate(train):
        rows = sampled(records_of(log, ~seen), most, rng)
        scored.append(rows)
        for name, models in candidates.items():
            e = cells_of(models, X, fold, log.context_of[rows], log.menus.of_record[rows])
            record[name].append(-np.log(np.maximum(e, _SMALLEST)))
    rows = np.concatenate(scored)
    joined = {name: np.concatenate(losses) for name, losses in record.items()}
    return _Losses(joined, log.records.weights[rows], log.units[log.context_of[rows]])


def _inner(log: Feedback, seen: Bools, seed: int) -> Bools:
    """Return (5, n_contexts) training sets inside one that leaves no record out."""
    unit = np.unique(log.units, return_inverse=True)[1]
    fold = np.random.default_rng(seed).permutation(int(unit.max(initial=0)) + 1)[unit] % _FOLDS
    return (np.arange(_FOLDS)[:, None] != fold) & seen


def _thinned(log: Feedback, train: Bools, cells: int, seed: int) -> Bools:
    """Return training sets with some of their units at random, about cells / M records in all."""
    share = cells / max(1, len(log.menus)) / max(1, log.n_records)
    if share >= 1:
        return train
    unit = np.unique(log.units, return_inverse=True)[1]
    return train & (np.random.default_rng(seed).random(int(unit.max()) + 1) < share)[unit]

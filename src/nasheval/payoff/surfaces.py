"""Surfaces over contexts and pairs: one model a pair, or one boosted model of (x, j, k) for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, n_pairs
from nasheval.boosting import begin, binned, complete, freed, grow, take
from nasheval.nuisance.columns import ColumnModels
from nasheval.nuisance.learners import Effort, Features, run_all
from nasheval.nuisance.sklearn_models import fitted

if TYPE_CHECKING:
    from lightgbm import Booster

_CELLS = 1 << 22  # numbers in a table of (x, j, k) rows held at once


@dataclass(frozen=True)
class Boosting:
    """How trees are boosted; the defaults are those of the second stage.

    Args:
        trees: number of trees.
        leaves: most leaves a tree.
        rate: learning rate.
        least: fewest rows in a leaf.
        seed: of anything LightGBM draws.
        more: other LightGBM parameters.
    """

    trees: int = 300
    leaves: int = 7
    rate: float = 0.05
    least: int = 100
    seed: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)

    def params(self) -> dict[str, Any]:
        """Return these as LightGBM parameters: one thread, deterministic."""
        named = {"num_leaves": self.leaves, "learning_rate": self.rate, "min_data_in_leaf": self.least}
        return complete({"max_depth": -1, **named, "seed": self.seed, **self.more}, objective="regression")


@runtime_checkable
class Regressor(Protocol):
    """A scikit-learn regressor; clones of it are fitted."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit to (n, q) features and (n,) labels."""
        ...

    def predict(self, X: Any) -> Any:
        """Return (n,) predictions."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return its settings by name."""
        ...


class Surface(Protocol):
    """A function of a context and a pair j < k."""

    def predict(self, X: Features) -> Floats:
        """Return (n, n_pairs) values, 0 for pairs it does not know."""
        ...

    def cells(self, X: Features, rows: Ints, pairs: Ints) -> Floats:
        """Return (cells,) values at rows[i] of X and pairs[i]."""
        ...


@dataclass(frozen=True)
class PairSurface:
    """One model a pair; a pair without one is 0, and some are just a number.

    Args:
        models: one row of n_pairs models.
    """

    models: ColumnModels

    def predict(self, X: Features) -> Floats:
        """Return (n, n_pairs) values."""
        return self.models.predict(X, 0)

    def cells(self, X: Features, rows: Ints, pairs: Ints) -> Floats:
        """Return (cells,) values at rows[i] of X and pairs[i]."""
        return self.models.cells(X, 0, rows, pairs)

    @staticmethod
    def of(models: Sequence[Booster | float], n_jobs: int = 1) -> PairSurface:
        """Return the surface of one model a pair."""
        return PairSurface(ColumnModels((tuple(models),), -np.inf, np.inf, n_jobs))


@dataclass(frozen=True)
class RegressorSurface:
    """One scikit-learn regressor a pair, on the contexts' network form; a pair without one is 0.

    Args:
        models: one row of n_pairs models.
    """

    models: ColumnModels

    def predict(self, X: Features) -> Floats:
        """Return (n, n_pairs) values."""
        return self.models.predict(X, 0)

    def cells(self, X: Features, rows: Ints, pairs: Ints) -> Floats:
        """Return (cells,) values at rows[i] of X and pairs[i]."""
        return self.models.cells(X, 0, rows, pairs)


@dataclass(frozen=True)
class SharedSurface:
    """One model of (x, j, k), with j and k as categories; 0 for pairs that it was not shown.

    Args:
        model: the model.
        known: (n_pairs,) which pairs it was shown.
        n_agents: K.
    """

    model: Booster
    known: Bools
    n_agents: int

    def predict(self, X: Features) -> Floats:
        """Return (n, n_pairs) values."""
        pairs, found = np.flatnonzero(self.known), np.zeros((len(X), n_pairs(self.n_agents)))
        step = max(1, _CELLS // max(1, len(pairs) * (X.trees.shape[1] + 2)))
        for start in range(0, len(X), step):
            rows = np.arange(start, min(start + step, len(X)))
            values = self.cells(X, np.repeat(rows, len(pairs)), np.tile(pairs, len(rows)))
            found[rows[:, None], pairs] = values.reshape(len(rows), len(pairs))
        return found

    def cells(self, X: Features, rows: Ints, pairs: Ints) -> Floats:
        """Return (cells,) values at rows[i] of X and pairs[i]."""
        step, found = max(1, _CELLS // (X.trees.shape[1] + 2)), np.zeros(len(rows))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            table = with_agents(X, rows[part], pairs[part], self.n_agents).trees
            found[part] = np.where(self.known[pairs[part]], self.model.predict(table, num_threads=1), 0.0)
        return found


def with_agents(X: Features, rows: Ints, pairs: Ints, n_agents: int) -> Features:
    """Return the contexts `rows` with the agents j and k of `pairs` as two more columns for trees."""
    j, k = np.triu_indices(n_agents, 1)
    table = np.empty((len(rows), X.trees.shape[1] + 2), X.trees.dtype)
    np.take(X.trees, rows, axis=0, out=table[:, :-2], mode="clip")  # "clip" writes into `out` without a buffer
    table[:, -2], table[:, -1] = j[pairs], k[pairs]
    places = (*X.categorical, X.trees.shape[1], X.trees.shape[1] + 1)
    return Features(table, table[:, :0], places)


def agent_bins(X: Features, n_agents: int, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters under which no agent falls into a bin of leftovers."""
    bins = [int(params["max_bin"])] * X.trees.shape[1] + [max(int(params["max_bin"]), n_agents + 2)] * 2
    return {**params, "max_bin_by_feature": bins}


# -- growing ----------------------------------------------------------------------------------------------------------


def grow_all(models: Sequence[Booster], trees: int, effort: Effort) -> None:
    """Grow every model to a number of trees, `effort.n_jobs` models at a time."""
    run_all(lambda model: grow(model, trees), models, max(1, len(models)), effort)


def fit_pairs(X: Features, labels: Floats, known: Bools, boosting: Boosting, effort: Effort) -> PairSurface:
    """Fit one model a known pair on labels, (n, n_pairs)."""
    if not X.trees.shape[1]:
        return PairSurface.of([float(mean) if k else 0.0 for mean, k in zip(labels.mean(axis=0), known, strict=True)])
    params, rows = boosting.params(), np.arange(len(X))
    data = binned(X.trees, X.categorical, params)

    def fit(pair: int) -> Booster | float:
        if not known[pair]:
            return 0.0
        model = begin(take(data, rows, np.ascontiguousarray(labels[:, pair])), params)
        grow(model, boosting.trees)
        return freed(model)

    return PairSurface.of(run_all(fit, range(len(known)), len(known), effort), effort.n_jobs)


def fit_regressors(X: Features, labels: Floats, known: Bools, regressor: Regressor, effort: Effort) -> RegressorSurface:
    """Fit a clone of a regressor a known pair on labels, (n, n_pairs)."""

    def fit(pair: int) -> Any:
        if not known[pair]:
            return 0.0
        label = np.ascontiguousarray(labels[:, pair])
        return fitted(regressor, X.network, label, None, effort.seed) if X.network.shape[1] else float(label.mean())

    models = run_all(fit, range(len(known)), len(known), effort)
    return RegressorSurface(ColumnModels((tuple(models),), -np.inf, np.inf, form="network"))


def fit_shared(X: Features, labels: Floats, known: Bools, boosting: Boosting, n_agents: int) -> SharedSurface:
    """Fit one model of (x, j, k) on labels, (n, n_pairs), of the known pairs."""
    pairs = np.flatnonzero(known)
    table = with_agents(X, np.repeat(np.arange(len(X)), len(pairs)), np.tile(pairs, len(X)), n_agents)
    params = agent_bins(X, n_agents, boosting.params())
    rows = np.arange(len(table))
    data = binned(table.trees, table.categorical, params)
    model = begin(take(data, rows, labels[:, pairs].ravel()), params)
    grow(model, boosting.trees)
    return SharedSurface(freed(model), known, n_agents)

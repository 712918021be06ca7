"""Surfaces over contexts and pairs: one model per pair, or one boosted model of (x, j, k) for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, n_pairs, offsets_of, runs
from nasheval.boosting import Bins, begin, binned, complete, freed, grow, take
from nasheval.engine import run_threads
from nasheval.forests.forest import Forest
from nasheval.forests.packed import AtPairs, Packed
from nasheval.nuisance.columns import ColumnModels
from nasheval.nuisance.learners import Effort, Features, run_all
from nasheval.nuisance.links import Link
from nasheval.nuisance.sklearn_models import fitted

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

_CELLS = 1 << 22  # numbers in a table of (x, j, k) rows held at once


@dataclass(frozen=True)
class Boosting:
    """How trees are boosted; the defaults are those of the second stage.

    Args:
        trees: number of trees.
        leaves: most leaves of a tree.
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


@dataclass(frozen=True)
class PairSurface:
    """One model per pair: boosted trees, or scikit-learn regressors on the contexts' network form; some are a number.

    Args:
        models: one row of n_pairs models.
    """

    models: ColumnModels

    @property
    def pairs(self) -> Ints | None:
        """The pairs that `values` are of; None: all."""
        return None

    def values(self, X: Features) -> Floats:
        """Return (n, n_pairs) values, 0 for pairs without a model."""
        return self.models.predict(X, 0)

    predict = values

    def cells(self, X: Features, rows: Ints, pairs: Ints) -> Floats:
        """Return (cells,) values at rows[i] of X and pairs[i]."""
        return self.models.cells(X, 0, rows, pairs)

    @property
    def boosters(self) -> list[Booster]:
        """Those of its models that can grow."""
        return [model for model in self.models.models[0] if not isinstance(model, float)]

    def freed(self) -> PairSurface:
        """Return the surface as it is now, without the data its trees were fitted on."""
        models = [model if isinstance(model, float) else freed(model) for model in self.models.models[0]]
        return PairSurface.of(models, self.models.n_jobs)

    def only(self, pairs: Bools) -> PairSurface:
        """Return the surface that is 0 at all but some pairs, (n_pairs,), and costs nothing at the others."""
        models = zip(self.models.models[0], pairs, strict=True)
        return PairSurface.of([model if kept else 0.0 for model, kept in models], self.models.n_jobs)

    @staticmethod
    def of(models: Sequence[Forest | Booster | float], n_jobs: int = 1) -> PairSurface:
        """Return the surface of one boosted model per pair."""
        return PairSurface(ColumnModels((tuple(models),), -np.inf, np.inf, n_jobs))


@dataclass(frozen=True)
class SharedSurface:
    """One model of (x, j, k), with j and k as categories; 0 for pairs that it does not know.

    Args:
        model: the model.
        known: (n_pairs,) the pairs that it was shown, or those of them that it is asked for.
        n_agents: K.
    """

    model: Forest | Booster
    known: Bools
    n_agents: int

    def predict(self, X: Features) -> Floats:
        """Return (n, n_pairs) values, 0 for pairs that it does not know."""
        values, pairs = self.values(X), self.pairs
        if pairs is None:
            return values
        wide = np.zeros((len(X), n_pairs(self.n_agents)))
        wide[:, pairs] = values
        return wide

    def values(self, X: Features) -> Floats:
        """Return (n, len(pairs)) values at the pairs that it knows."""
        known = np.flatnonzero(self.known)
        values = np.empty((len(X), len(known)))
        if self._at_pairs is not None:
            self._at_pairs.predict(X.trees, values)
            return values
        step = max(1, _CELLS // max(1, len(known) * (X.trees.shape[1] + 2)))
        for start in range(0, len(X), step):
            rows = np.arange(start, min(start + step, len(X)))
            cells = self.cells(X, np.repeat(rows, len(known)), np.tile(known, len(rows)))
            values[rows] = cells.reshape(len(rows), len(known))
        return values

    def cells(self, X: Features, rows: Ints, pairs: Ints) -> Floats:
        """Return (cells,) values at rows[i] of X and pairs[i]."""
        step, values = max(1, _CELLS // (X.trees.shape[1] + 2)), np.zeros(len(rows))
        for start in range(0, len(rows), step):
            chunk = slice(start, start + step)
            table = with_agents(X, rows[chunk], pairs[chunk], self.n_agents).trees
            if isinstance(self.model, Forest):
                own = Packed.of([self.model]).predict(table)[:, 0]
            else:
                own = self.model.predict(table, num_threads=1)
            values[chunk] = np.where(self.known[pairs[chunk]], own, 0.0)
        return values

    @property
    def is_grown(self) -> bool:
        """Whether its model will not grow any more."""
        return isinstance(self.model, Forest)

    def of_agents(self, X: Features, rows: Ints, agents: Ints) -> tuple[Ints, Ints, Ints, Floats]:
        """Return the values of all pairs that it knows of agents[i] at rows[i] of X, seen from that agent.

        These are one after another: i, the other agent, the pair, and the value, which changes its sign where the agent
        is the pair's second. Its model is one that is grown.
        """
        assert self._at_pairs is not None
        offsets, places, others, pairs, signs = self._meetings
        sizes = np.diff(offsets)[agents]
        values = self._at_pairs.of_agents(X.trees, rows, agents, offsets, places)
        at = runs(offsets[agents], sizes)
        return np.repeat(np.arange(len(rows)), sizes), others[at], pairs[at], values * signs[at]

    @cached_property
    def _meetings(self) -> tuple[Ints, Ints, Ints, Ints, Floats]:
        """Where the pairs of each agent begin, (K + 1,); their places in `pairs`, other agents, numbers and signs."""
        known = np.flatnonzero(self.known)
        j, k = (agents[known] for agents in np.triu_indices(self.n_agents, 1))
        agent, other = np.concatenate([j, k]), np.concatenate([k, j])
        order = np.argsort(agent, kind="stable")
        place = order % max(1, len(known))
        offsets = offsets_of(np.bincount(agent, minlength=self.n_agents)).astype(np.int64)
        return offsets, place, other[order], known[place], np.where(order < len(known), 1.0, -1.0)

    @cached_property
    def pairs(self) -> Ints | None:
        """The pairs that it knows; None: all."""
        return None if self.known.all() else np.flatnonzero(self.known)

    @cached_property
    def _at_pairs(self) -> AtPairs | None:
        """The model evaluated at the agents of the pairs that it knows."""
        j, k = (agents[self.known] for agents in np.triu_indices(self.n_agents, 1))
        return AtPairs.of(self.model, j, k) if isinstance(self.model, Forest) else None

    @property
    def boosters(self) -> list[Booster]:
        """The model, while it can grow."""
        return [self.model]

    def freed(self) -> SharedSurface:
        """Return the surface as it is now, without the data its model was fitted on."""
        return replace(self, model=freed(self.model))

    def only(self, pairs: Bools) -> SharedSurface:
        """Return the surface that is 0 at all but some pairs, (n_pairs,), and costs nothing at the others."""
        return replace(self, known=self.known & pairs)


Surface: TypeAlias = PairSurface | SharedSurface  # a function of a context and a pair j < k


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


# -- fitting ----------------------------------------------------------------------------------------------------------


def grow_all(models: Sequence[Booster], trees: int, effort: Effort) -> None:
    """Grow every model to a number of trees, `effort.n_jobs` models at a time."""
    share = 1.0 / max(1, len(models))
    run_threads(lambda model: grow(model, trees), models, effort.n_jobs, lambda: effort.advance(share))


def fit_pairs(X: Features, labels: Floats, known: Bools, learner: Boosting | Regressor, effort: Effort) -> PairSurface:
    """Fit boosted trees, or a clone of a regressor, per known pair on labels, (n, n_pairs)."""
    trees = learner if isinstance(learner, Boosting) else None
    form, params, means = X.network if trees is None else X.trees, {}, labels.mean(axis=0)
    if trees is not None and form.shape[1]:
        params = trees.params()
        bins = Bins(form, X.categorical, params)

    def fit(pair: int) -> Any:
        if not known[pair] or not form.shape[1]:
            return float(means[pair]) if known[pair] else 0.0
        label = np.ascontiguousarray(labels[:, pair])
        if trees is None:
            return fitted(learner, form, label, None, effort.seed)
        model = begin(take(bins[0], np.arange(len(X)), label), params)
        grow(model, trees.trees)
        return freed(model)

    models = run_all(fit, range(len(known)), len(known), effort)
    if trees is None:
        return PairSurface(ColumnModels((tuple(models),), -np.inf, np.inf, form="network"))
    return PairSurface.of(models, effort.n_jobs)


def fit_shared(X: Features, labels: Floats, known: Bools, boosting: Boosting, n_agents: int) -> SharedSurface:
    """Fit one model of (x, j, k) on labels, (n, n_pairs), of the known pairs."""
    pairs = np.flatnonzero(known)
    contexts, agents = np.repeat(np.arange(len(X)), len(pairs)), np.tile(pairs, len(X))
    data, params = binned_pairs(X, contexts, agents, n_agents, boosting)
    model = begin(take(data, np.arange(len(contexts)), labels[:, pairs].ravel()), params)
    grow(model, boosting.trees)
    return SharedSurface(freed(model), known, n_agents)


def binned_pairs(
    X: Features, rows: Ints, pairs: Ints, n_agents: int, boosting: Boosting
) -> tuple[Dataset, dict[str, Any]]:
    """Return the table of `with_agents` cut into bins, and the parameters to fit it with."""
    params = agent_bins(X, n_agents, boosting.params())
    table = with_agents(X, rows, pairs, n_agents)
    return binned(table.trees, table.categorical, params), params


@dataclass(frozen=True, eq=False)
class StyleSurface:
    """What makes payoffs as voted those at equal style: beta'm(x), a line per agent and a number per pair, and a form.

    Args:
        agent: (K, 1 + q) intercepts, and slopes in the features for networks.
        pair: (n_pairs,).
        link: how it moves payoffs.
    """

    agent: Floats
    pair: Floats
    link: Link

    def equal(self, payoffs: Floats, style: Floats) -> Floats:
        """Return payoffs at equal style, given those as voted and what `predict` says of the same pairs."""
        return self.link.value(self.link.index(payoffs) - style)

    def predict(self, X: Features) -> Floats:
        """Return (n, n_pairs) beta'm."""
        at = X.network @ self.agent[:, 1:].T + self.agent[:, 0]
        j, k = np.triu_indices(len(self.agent), 1)
        return np.asarray(at[:, j] - at[:, k] + self.pair, np.float64)

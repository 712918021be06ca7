"""Nuisances by any scikit-learn estimator: a clone a pair, one shared model, a classifier a menu; and an intercept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort, Features, records_of
from nasheval.nuisance.trees import Task, inclusion_tasks, outcome_tasks, run_all, shrunken_means

Estimator = Any  # a scikit-learn estimator; the package is imported only where one is cloned
_ROWS = 1 << 17  # rows that a shared model predicts at a time


@dataclass(frozen=True)
class EstimatorModels:
    """Fitted estimators, one for each fold and column; some are just a number.

    Args:
        models: models[fold][column].
        low, high: predictions are clipped to this range.
    """

    models: tuple[tuple[Estimator, ...], ...]
    low: float
    high: float

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, columns) predictions of the models of a fold."""
        found = np.empty((len(X), len(self.models[fold])))
        for column, model in enumerate(self.models[fold]):
            found[:, column] = _predicted(model, X.network)
        return np.clip(found, self.low, self.high, out=found)

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) predictions at rows[i] of X and column columns[i] only."""
        found = np.empty(len(columns))
        for column in np.unique(columns):
            place = np.flatnonzero(columns == column)
            found[place] = _predicted(self.models[fold][column], X.network[rows[place]])
        return np.clip(found, self.low, self.high, out=found)


def _predicted(model: Estimator, x: Floats) -> Floats:
    if isinstance(model, float) or not len(x):
        return np.full(len(x), model if isinstance(model, float) else 0.0)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x)[:, 1])
    return np.asarray(model.predict(x), np.float64)


@dataclass(frozen=True)
class PerPair:
    """mu^m_jk: a clone of any scikit-learn regressor for each menu and pair, on the contexts' network form.

    Args:
        regressor: what to clone.
        least: a column with fewer rows predicts the shrunken mean of its pair (`shrunken_means`).
    """

    regressor: Estimator
    least: int = 10

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> EstimatorModels:
        """Fit one clone for each fold and column; see `Learner.fit`."""
        tasks = outcome_tasks(log, train, self.least if X.network.shape[1] else np.inf)
        return _fit_all(self.regressor, X, train, tasks, len(log.menus.columns), effort, -1.0)


@dataclass(frozen=True)
class Intercept:
    """mu^m_jk: the mean verdict of each column, whatever the context (`shrunken_means`).

    Args:
        prior: how many votes the value that is shrunken to is worth.
    """

    prior: float = 10.0

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> EstimatorModels:
        """Average on each training set; see `Learner.fit`."""
        means = [shrunken_means(log, seen, self.prior) for seen in train]
        effort.advance(1.0)
        return EstimatorModels(tuple(tuple(row.tolist()) for row in means), -1.0, 1.0)


@dataclass(frozen=True)
class Shared:
    """mu^m_jk: one scikit-learn regressor for all menus and pairs.

    Its features are the context's network form, j and k one-hot, and the menu's size and form; so menus of the same
    size and form share their predictions. It is trained on both orientations, (x, j, k) with z and (x, k, j) with -z,
    and predicts half the difference of the two, which is antisymmetric whatever the regressor.

    Args:
        regressor: what to clone.
    """

    regressor: Estimator

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> SharedModels:
        """Fit one clone on each training set; see `Learner.fit`."""
        asked, place = _asked(log)
        models = run_all(lambda seen: self._fit_one(log, X, seen, asked, place, effort.seed), train, len(train), effort)
        return SharedModels(tuple(models), readonly(asked), readonly(place), log.n_agents)

    def _fit_one(self, log: Feedback, X: Features, seen: Bools, asked: Ints, place: Ints, seed: int) -> Estimator:
        verdicts = log.verdicts
        rows = np.flatnonzero(seen[log.context_of[verdicts.record]])
        if not len(rows):
            return 0.0
        x = X.network[log.context_of[verdicts.record[rows]]]
        question, z = asked[place[log.menus.column_of_verdict[rows]]], verdicts.z[rows].astype(np.float64)
        both = np.vstack([_joined(x, question, log.n_agents), _joined(x, _flipped(question), log.n_agents)])
        weight = None if log.records.weight is None else np.tile(log.records.weight[verdicts.record[rows]], 2)
        return fitted(self.regressor, both, np.concatenate([z, -z]), weight, seed)


@dataclass(frozen=True)
class SharedModels:
    """One estimator a fold for all columns.

    Args:
        models: fitted estimators, or numbers where there was nothing to fit.
        asked: (questions, 4) the distinct (j, k, menu size, menu form).
        place: (P,) which of them each column asks.
        n_agents: K.
    """

    models: tuple[Estimator, ...]
    asked: Ints
    place: Ints
    n_agents: int

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, P) predictions of the model of a fold."""
        n = len(self.asked)
        found, step = np.empty((len(X), n)), max(1, _ROWS // max(n, 1))
        for start in range(0, len(X), step):
            x = X.network[start : start + step]
            cells = np.repeat(np.arange(len(x)), n), np.tile(np.arange(n), len(x))
            found[start : start + step] = self._at(x, *cells, fold).reshape(len(x), n)
        return np.asarray(found[:, self.place])

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) predictions at rows[i] of X and column columns[i] only."""
        chunks = [slice(start, start + _ROWS) for start in range(0, len(rows), _ROWS)]
        parts = [self._at(X.network, rows[chunk], self.place[columns[chunk]], fold) for chunk in chunks]
        return np.concatenate([np.zeros(0), *parts])

    def _at(self, x: Floats, rows: Ints, questions: Ints, fold: int) -> Floats:
        model, asked = self.models[fold], self.asked[questions]
        ahead = _predicted(model, _joined(x[rows], asked, self.n_agents))
        behind = _predicted(model, _joined(x[rows], _flipped(asked), self.n_agents))
        return np.clip((ahead - behind) / 2, -1.0, 1.0)


def _asked(log: Feedback) -> tuple[Ints, Ints]:
    """Return the distinct (j, k, menu size, menu form), (questions, 4), and which of them each column asks, (P,)."""
    menus, columns = log.menus, log.menus.columns
    each = np.column_stack([columns.j, columns.k, menus.sizes[columns.menu], menus.form[columns.menu]])
    asked, place = np.unique(each.astype(np.int64), axis=0, return_inverse=True)
    return asked, place.ravel()


def _flipped(asked: Ints) -> Ints:
    return asked[:, [1, 0, 2, 3]]


def _joined(x: Floats, asked: Ints, n_agents: int) -> Floats:
    """Return (n, q + 2 K + 2) features: context, j and k one-hot, size and form."""
    table = np.zeros((len(x), x.shape[1] + 2 * n_agents + 2), np.float32)
    rows, q = np.arange(len(x)), x.shape[1]
    table[:, :q] = x
    table[rows, q + asked[:, 0]] = 1.0
    table[rows, q + n_agents + asked[:, 1]] = 1.0
    table[:, -2:] = asked[:, 2:]
    return table


@dataclass(frozen=True)
class SklearnPropensity:
    """e^m by any scikit-learn classifier, on the contexts' network form.

    Under inclusion a clone for each menu, on all training contexts; under draws one clone over all menus, so that the
    propensities sum to one.

    Args:
        classifier: what to clone; it needs `predict_proba`.
    """

    classifier: Estimator

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> EstimatorModels | MenuModels:
        """Fit the clones; see `Learner.fit`."""
        if log.design == "draws":
            models = run_all(lambda seen: self._over_menus(log, X, seen, effort), train, len(train), effort)
            return MenuModels(tuple(models), len(log.menus))
        tasks = inclusion_tasks(log, train, bool(X.network.shape[1]))
        return _fit_all(self.classifier, X, train, tasks, len(log.menus), effort, 0.0)

    def _over_menus(self, log: Feedback, X: Features, seen: Bools, effort: Effort) -> Estimator:
        records = records_of(log, seen)
        label, weight = log.menus.of_record[records], log.records.weights[records]
        if not X.network.shape[1] or len(np.unique(label)) < 2:
            return readonly(np.bincount(label, weight, len(log.menus)) / weight.sum())
        given = None if log.records.weight is None else weight
        return fitted(self.classifier, X.network[log.context_of[records]], label, given, effort.seed)


@dataclass(frozen=True)
class MenuModels:
    """Classifiers over all menus, one a fold.

    Args:
        models: fitted classifiers, or (M,) shares where there was nothing to fit.
        n_menus: M.
    """

    models: tuple[Estimator, ...]
    n_menus: int

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) probabilities, rows sum to one; a menu that the fold never saw has probability zero."""
        model = self.models[fold]
        found = np.zeros((len(X), self.n_menus))
        if isinstance(model, np.ndarray):
            found[:] = model
        elif len(X):
            found[:, model.classes_] = model.predict_proba(X.network)
        return found


def _fit_all(
    estimator: Estimator,
    X: Features,
    train: Bools,
    tasks: Iterator[Task],
    columns: int,
    effort: Effort,
    low: float,
) -> EstimatorModels:
    contexts = [np.flatnonzero(seen) for seen in train]

    def fit_one(task: Task) -> Estimator:
        if task.constant is not None:
            return task.constant
        return fitted(estimator, X.network[contexts[task.fold][task.rows]], task.label, task.weight, effort.seed)

    found = run_all(fit_one, tasks, len(train) * columns, effort)
    rows = tuple(tuple(found[fold * columns : (fold + 1) * columns]) for fold in range(len(train)))
    return EstimatorModels(rows, low, 1.0)


def fitted(estimator: Estimator, x: Floats, label: Floats, weight: Floats | None, seed: int) -> Estimator:
    """Return a fitted clone; its seed is `seed` where it takes one and has none."""
    from sklearn.base import clone

    model = clone(estimator)
    if "random_state" in model.get_params() and model.get_params()["random_state"] is None:
        model.set_params(random_state=seed)
    return model.fit(x, label) if weight is None else model.fit(x, label, sample_weight=weight)

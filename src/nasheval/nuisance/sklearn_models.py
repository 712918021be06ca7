"""Nuisances by any scikit-learn estimator: a clone per pair, a classifier per menu; and an intercept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.feedback.log import Feedback
from nasheval.nuisance.columns import (
    ColumnModels,
    MenuModels,
    Task,
    fit_columns,
    inclusion_tasks,
    outcome_tasks,
    shrunken_means,
)
from nasheval.nuisance.learners import Effort, Features, records_of, run_all

Estimator = Any  # a scikit-learn estimator; the package is imported only where one is cloned


@dataclass(frozen=True)
class PerPair:
    """mu^m_jk: a clone of any scikit-learn regressor for each menu and pair, on the contexts' network form.

    Args:
        regressor: what to clone.
        least: a column with fewer rows predicts the shrunken mean of its pair (`shrunken_means`).
    """

    regressor: Estimator
    least: int = 10

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> ColumnModels:
        """Fit one clone for each fold and column; see `Learner.fit`."""
        tasks = outcome_tasks(log, train, self.least if X.network.shape[1] else np.inf)
        return _fit_columns(self.regressor, X, train, tasks, len(log.menus.columns), effort, -1.0)


@dataclass(frozen=True)
class Intercept:
    """mu^m_jk: the mean verdict of each column, whatever the context (`shrunken_means`).

    Args:
        prior: how many votes the value that is shrunken to is worth.
    """

    prior: float = 10.0

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> ColumnModels:
        """Average on each training set; see `Learner.fit`."""
        means = [shrunken_means(log, seen, self.prior) for seen in train]
        effort.advance(1.0)
        return ColumnModels(tuple(tuple(row.tolist()) for row in means), -1.0, 1.0)


@dataclass(frozen=True)
class SklearnPropensity:
    """e^m by any scikit-learn classifier, on the contexts' network form.

    Under inclusion a clone for each menu, on all training contexts; under draws one clone over all menus, so that the
    propensities sum to one.

    Args:
        classifier: what to clone; it needs `predict_proba`.
    """

    classifier: Estimator

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> ColumnModels | MenuModels:
        """Fit the clones; see `Learner.fit`."""
        if log.design == "draws":
            folds = range(len(train))
            models = run_all(lambda fold: self._over_menus(log, X, train[fold], effort), folds, len(train), effort)
            return MenuModels(tuple(models), len(log.menus))
        tasks = inclusion_tasks(log, train, bool(X.network.shape[1]))
        return _fit_columns(self.classifier, X, train, tasks, len(log.menus), effort, 0.0)

    def _over_menus(self, log: Feedback, X: Features, seen: Bools, effort: Effort) -> Estimator:
        records = records_of(log, seen)
        label, weight = log.menus.of_record[records], log.records.weights[records]
        if not X.network.shape[1] or len(np.unique(label)) < 2:
            return readonly(np.bincount(label, weight, len(log.menus)) / weight.sum())
        x, weighed = X.network[log.context_of[records]], log.records.weight is not None
        return fitted(self.classifier, x, label, weight if weighed else None, effort.seed)


def _fit_columns(
    estimator: Estimator, X: Features, train: Bools, tasks: Iterator[Task], columns: int, effort: Effort, low: float
) -> ColumnModels:
    contexts = [np.flatnonzero(seen) for seen in train]

    def fit(task: Task) -> Estimator:
        return fitted(estimator, X.network[contexts[task.fold][task.rows]], task.label, task.weight, effort.seed)

    return ColumnModels(fit_columns(fit, tasks, len(train), columns, effort), low, 1.0, form="network")


def fitted(estimator: Estimator, x: Floats, label: Floats | Ints, weight: Floats | None, seed: int) -> Estimator:
    """Return a fitted clone; its seed is `seed` where it takes one and has none."""
    from sklearn.base import clone

    model = clone(estimator)
    if "random_state" in model.get_params() and model.get_params()["random_state"] is None:
        model.set_params(random_state=seed)
    return model.fit(x, label) if weight is None else model.fit(x, label, sample_weight=weight)

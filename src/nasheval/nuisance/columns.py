"""One model per fold and column: what each is fitted on, and how they predict together.

A column is a pair of a menu for outcome models, and a menu for propensities. Its model is a forest, a LightGBM booster
or any scikit-learn estimator; where there is too little to fit, it is just a number. Forests, regressors made of trees
and linear ones predict together, all columns of a fold at once; any other is asked one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.engine import run_threads
from nasheval.feedback.log import Feedback
from nasheval.forests.packed import Packed
from nasheval.forests.sklearn_trees import forest_of
from nasheval.nuisance.learners import Effort, Features, run_all

_SMALL = 1 << 15  # predictions that are made before threads have started


@dataclass(frozen=True)
class Tuned:
    """What a search of hyperparameters found.

    Args:
        params: the best setting with its number of trees, for `TreeOutcome`, `TreePropensity` or a payoff regressor.
        loss: its cross-validated loss, squared error or log loss, mean over the problems.
        settings: number of settings that were looked at, the number of trees aside.
        fits: number of models that were fitted for it.
    """

    params: dict[str, float]
    loss: float
    settings: int
    fits: int


@dataclass(frozen=True)
class ColumnModels:
    """One model per fold and column; some are just a number.

    Args:
        models: models[fold][column].
        low, high: predictions are clipped to this range.
        n_jobs: threads that predict.
        form: "trees": forests or boosters, on that form of the contexts; "network": scikit-learn estimators, on that.
        tuned: the settings that were found for each fold, where they were searched.
    """

    models: tuple[tuple[Any, ...], ...]
    low: float
    high: float
    n_jobs: int = 1
    form: Literal["trees", "network"] = "trees"
    tuned: tuple[Tuned, ...] = ()

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, columns) predictions of the models of a fold."""
        models, table = self.models[fold], np.ascontiguousarray(getattr(X, self.form))
        together = self._together(fold)
        if together is not None:
            values = together.predict(table)
            return np.clip(values, self.low, self.high, out=values)
        values = np.empty((len(X), len(models)))

        def fill(column: int) -> None:
            values[:, column] = _predicted(models[column], table)

        run_threads(fill, range(len(models)), 1 if values.size < _SMALL else self.n_jobs)
        return np.clip(values, self.low, self.high, out=values)

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) predictions at rows[i] of X and column columns[i] only."""
        table, together = getattr(X, self.form), self._together(fold)
        if together is not None:
            return np.clip(together.cells(table, rows, columns), self.low, self.high)
        values = np.empty(len(columns))
        for column, chosen in enumerate(grouped(columns, len(self.models[fold]))):
            if len(chosen):
                values[chosen] = _predicted(self.models[fold][column], table[rows[chosen]])
        return np.clip(values, self.low, self.high, out=values)

    def mean(self, X: Features) -> Floats:
        """Return (n, columns) the mean of `predict` over all folds."""
        if self._packed is not None:
            table = np.ascontiguousarray(getattr(X, self.form))
            return self._packed.means(table, len(self.models), self.low, self.high)
        total = np.asarray(self.predict(X, 0), np.float64)
        for fold in range(1, len(self.models)):
            total += self.predict(X, fold)
        return np.divide(total, len(self.models), out=total)

    def _together(self, fold: int) -> Packed | Linear | None:
        """Return the models of a fold as one, where they can be."""
        if fold not in self._joined:
            width = len(self.models[fold])
            packed = self._packed and self._packed.part(fold * width, (fold + 1) * width)
            self._joined[fold] = packed or _joined(self.models[fold])
        return self._joined[fold]

    @cached_property
    def _joined(self) -> dict[int, Packed | Linear | None]:
        return {}

    @cached_property
    def _packed(self) -> Packed | None:
        """The models of all folds as one, fold by fold, where all are trees or numbers."""
        joined = _joined([model for row in self.models for model in row])
        return joined if isinstance(joined, Packed) else None


@dataclass(frozen=True, eq=False)
class Linear:
    """Linear regressors as one matrix, and numbers; in 64 bits, where their own sums are of 32.

    Args:
        slopes: (features, columns), or (0, columns) where all are numbers.
        intercepts: (columns,).
    """

    slopes: Floats
    intercepts: Floats

    def predict(self, table: Floats) -> Floats:
        """Return (n, columns) predictions at the rows of a table."""
        return table[:, : len(self.slopes)].astype(np.float64) @ self.slopes + self.intercepts

    def cells(self, table: Floats, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) predictions at rows[i] of the table and column columns[i]."""
        slopes = self.slopes[:, columns].T
        return np.sum(table[rows, : len(self.slopes)] * slopes, axis=1) + self.intercepts[columns]


def _joined(models: Sequence[Any]) -> Packed | Linear | None:
    """Return models of a kind as one."""
    fitted = [model for model in models if not isinstance(model, float)]
    if all(_is_linear(model) for model in fitted):
        slopes = np.zeros((fitted[0].coef_.size if fitted else 0, len(models)))
        intercepts = np.zeros(len(models))
        for column, model in enumerate(models):
            if isinstance(model, float):
                intercepts[column] = model
            else:
                slopes[:, column], intercepts[column] = np.ravel(model.coef_), model.intercept_
        return Linear(slopes, intercepts)
    forests = [model if isinstance(model, float) else forest_of(model) for model in models]
    known = [model for model in forests if model is not None]
    return Packed.of(known) if len(known) == len(forests) else None


def _is_linear(model: Any) -> bool:
    """Tell whether a regressor is one of scikit-learn's linear models, which predict x @ coef_ + intercept_."""
    own, kind = type(model).__module__.startswith("sklearn."), getattr(type(model), "_decision_function", None)
    return own and getattr(kind, "__qualname__", "").split(".")[0] in ("LinearModel", "ElasticNet")


def _predicted(model: Any, table: Floats) -> Floats:
    """Return (n,) predictions of one model."""
    if isinstance(model, float) or not len(table):
        return np.full(len(table), model if isinstance(model, float) else 0.0)
    if hasattr(model, "num_trees"):  # a booster
        return np.asarray(model.predict(np.ascontiguousarray(table), num_threads=1))
    from sklearn import config_context

    with config_context(assume_finite=True, skip_parameter_validation=True):  # contexts are finite, and were checked
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(table)[:, 1])
        return np.asarray(model.predict(table), np.float64)


@dataclass(frozen=True)
class MenuModels:
    """Classifiers over all M menus, one per fold.

    Args:
        models: boosters, scikit-learn classifiers, or (M,) shares where there was nothing to fit.
        n_menus: M.
    """

    models: tuple[Any, ...]
    n_menus: int

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) probabilities, rows sum to one; a menu that a classifier never saw has probability zero."""
        model = self.models[fold]
        if hasattr(model, "num_trees"):  # a booster
            return np.asarray(model.predict(np.ascontiguousarray(X.trees), num_threads=1))
        e = np.zeros((len(X), self.n_menus))
        if isinstance(model, np.ndarray):
            e[:] = model
        elif len(X):
            e[:, model.classes_] = model.predict_proba(X.network)
        return e


@dataclass(frozen=True)
class Task:
    """One fit: some rows of a fold's training contexts with their labels.

    Args:
        fold: the fold whose training contexts these are.
        rows: (n,) places among the training contexts of that fold, ascending, a context once for each of its records.
        label: (n,) what to predict.
        weight: (n,) weights, or None for ones.
        constant: the prediction where there is nothing to fit; then the arrays are not looked at.
    """

    fold: int
    rows: Ints
    label: Floats
    weight: Floats | None = None
    constant: float | None = None


def fit_columns(
    fit: Callable[[Task], Any], tasks: Iterable[Task], folds: int, columns: int, effort: Effort
) -> tuple[tuple[Any, ...], ...]:
    """Return models[fold][column], `effort.n_jobs` fitted at a time; tasks come fold by fold and column by column."""
    models = run_all(lambda t: fit(t) if t.constant is None else t.constant, tasks, folds * columns, effort)
    return tuple(tuple(models[fold * columns : (fold + 1) * columns]) for fold in range(folds))


def outcome_tasks(log: Feedback, train: Bools, least: float) -> Iterator[Task]:
    """Yield the fit of each fold and column; a column with fewer rows than `least` is a constant."""
    verdicts, columns = log.verdicts, log.menus.columns
    context, z = log.context_of[verdicts.record], verdicts.z.astype(np.float64)
    weight = None if log.records.weight is None else log.records.weight[verdicts.record]
    groups = grouped(log.menus.column_of_verdict, len(columns))
    for fold, seen in enumerate(train):
        place, means = np.cumsum(seen) - 1, shrunken_means(log, seen)
        for column, rows in enumerate(groups):
            rows = rows[seen[context[rows]]]
            constant = float(means[column]) if len(rows) < least else None
            w = None if weight is None else weight[rows]
            yield Task(fold, place[context[rows]], z[rows], w, constant)


def inclusion_tasks(log: Feedback, train: Bools, fittable: bool = True) -> Iterator[Task]:
    """Yield the fit of each fold and menu: which of the training contexts include the menu."""
    groups = grouped(log.menus.of_record, len(log.menus))
    for fold, seen in enumerate(train):
        place, n = np.cumsum(seen) - 1, int(seen.sum())
        for records in groups:
            contexts = log.context_of[records]
            included = np.zeros(n)
            included[place[contexts[seen[contexts]]]] = 1.0
            total = float(included.sum())
            constant = None if fittable and 0 < total < n else (total + 0.5) / (n + 1)
            yield Task(fold, np.arange(n), included, None, constant)


def grouped(number: Ints, groups: int) -> list[Ints]:
    """Return for each group the rows that belong to it, ascending."""
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number, minlength=groups))[:-1])


def shrunken_means(log: Feedback, contexts: Bools, prior: float = 10.0) -> Floats:
    """Return (P,) mean verdict of each column over some contexts, shrunken to its pair's, and that to zero.

    Args:
        contexts: (n_contexts,) which contexts to look at.
        prior: how many votes the value that is shrunken to is worth.
    """
    columns, verdicts = log.menus.columns, log.verdicts
    rows = np.flatnonzero(contexts[log.context_of[verdicts.record]])
    weight, column = log.records.weights[verdicts.record[rows]], log.menus.column_of_verdict[rows]
    total = np.bincount(column, weight * verdicts.z[rows], len(columns))
    count = np.bincount(column, weight, len(columns))
    of_pair = np.bincount(columns.pair, total) / (np.bincount(columns.pair, count) + prior)
    return readonly((total + prior * of_pair[columns.pair]) / (count + prior))

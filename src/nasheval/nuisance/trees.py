"""LightGBM nuisances as printed in the paper: a regressor per menu and pair, a classifier per menu.

Every fit uses one thread, and fits run side by side in threads (LightGBM works outside Python's lock), which needs no
copies of the data. Contexts are cut into bins once per fold, on its training contexts only, and each fit takes its rows
of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.boosting import binned, boosted, complete, loss_curve, predicted, take
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.nuisance.columns import ColumnModels, Task, fit_columns, inclusion_tasks, outcome_tasks
from nasheval.nuisance.learners import Effort, Features, held_out, records_of, run_all

if TYPE_CHECKING:
    from lightgbm import Booster

_MOST_CLASSES = 50


@dataclass(frozen=True)
class TreeModels(ColumnModels):
    """Boosted trees, one model per fold and column; some are just a number."""

    def _table(self, X: Features) -> Floats:
        return np.ascontiguousarray(X.trees)

    def _predicted(self, model: Booster | float, table: Floats) -> Floats:
        return predicted(model, table)


@dataclass(frozen=True)
class TreeMenuModels:
    """Boosted multinomial models, one per fold.

    Args:
        boosters: one for each fold, with a class for each menu.
    """

    boosters: tuple[Booster, ...]

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) probabilities, rows sum to one."""
        return np.asarray(self.boosters[fold].predict(np.ascontiguousarray(X.trees), num_threads=1))


@dataclass(frozen=True)
class TreeOutcome:
    """mu^m_jk: a LightGBM regressor for each menu and pair, squared error on the records of that menu.

    A column with fewer rows than two leaves need predicts the shrunken mean of its pair (`shrunken_means`): LightGBM
    could not split it either.

    Args:
        params: LightGBM parameters; what is missing is the middle of the paper's grid.
    """

    params: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> TreeModels:
        """Fit one model for each fold and column; see `Learner.fit`."""
        params = complete(self.params, objective="regression")
        tasks = outcome_tasks(log, train, 2 * params["min_data_in_leaf"] if X.trees.shape[1] else np.inf)
        return _fit_columns(X, train, tasks, len(log.menus.columns), params, effort)


@dataclass(frozen=True)
class TreePropensity:
    """e^m by LightGBM, log loss.

    Under inclusion a classifier for each menu, S^m in {0, 1} on all training contexts; a menu that all or none of them
    include predicts (included + 1/2) / (contexts + 1). Under draws one model with a class for each of 2 to 50 menus, so
    that propensities sum to one, with the number of trees that does best on a fifth of the training contexts.

    Args:
        params: LightGBM parameters; what is missing is the middle of the paper's grid. Under draws "num_iterations" is
            the most trees per menu.
    """

    params: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> TreeModels | TreeMenuModels:
        """Fit what the log's design asks for; see `Learner.fit`."""
        if log.design == "inclusion":
            tasks = inclusion_tasks(log, train, bool(X.trees.shape[1]))
            return _fit_columns(X, train, tasks, len(log.menus), complete(self.params, objective="binary"), effort)
        if not 2 <= len(log.menus) <= _MOST_CLASSES or not X.trees.shape[1]:
            raise InputError(
                f"LightGBM cannot tell {len(log.menus)} menus apart by {X.trees.shape[1]} features; accepted are 2 to "
                f"{_MOST_CLASSES} menus and one feature or more. Use propensity='multinomial' or 'marginal'."
            )
        params = complete(self.params, objective="multiclass", num_class=len(log.menus), seed=effort.seed)
        return TreeMenuModels(tuple(run_all(lambda seen: _over_menus(log, X, seen, params), train, len(train), effort)))


def _fit_columns(
    X: Features, train: Bools, tasks: Iterable[Task], columns: int, params: Mapping[str, Any], effort: Effort
) -> TreeModels:
    params = {"seed": effort.seed, **params}
    data = [binned(X.trees[seen], X.categorical, params) if X.trees.shape[1] else None for seen in train]

    def fit(task: Task) -> Booster:
        return boosted(take(data[task.fold], task.rows, task.label, task.weight), params)

    low = -1.0 if params["objective"] == "regression" else 0.0
    return TreeModels(fit_columns(fit, tasks, len(train), columns, effort), low, 1.0, effort.n_jobs)


def _over_menus(log: Feedback, X: Features, seen: Bools, params: Mapping[str, Any]) -> Booster:
    records = records_of(log, seen)
    context, weight = log.context_of[records], log.records.weights[records]
    rows, menu = (np.cumsum(seen) - 1)[context], log.menus.of_record[records].astype(np.float64)
    held = held_out(log.units[context], np.random.default_rng(params["seed"]))
    data = binned(X.trees[seen], X.categorical, params)
    kept, test = (take(data, rows[side], menu[side], weight[side]) for side in (~held, held))
    trees = int(loss_curve(kept, test, params).argmin()) + 1
    return boosted(take(data, rows, menu, weight), {**params, "num_iterations": trees})

"""LightGBM nuisances as printed in the paper: a regressor per menu and pair, a classifier per menu.

Every fit uses one thread, and fits run side by side in threads (LightGBM works outside Python's lock), which needs no
copies of the data. Contexts are cut into bins once per fold, on its training contexts only, and each fit takes its rows
of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.boosting import Bins, binned, boosted, complete, loss_curve, take
from nasheval.errors import Argument, InputError
from nasheval.feedback.log import Feedback
from nasheval.forests.forest import Forest
from nasheval.nuisance.columns import (
    ColumnModels,
    MenuModels,
    Task,
    fit_columns,
    inclusion_tasks,
    outcome_tasks,
    shrunken_means,
)
from nasheval.nuisance.learners import Effort, Features, held_out, records_of, run_all

if TYPE_CHECKING:
    from lightgbm import Booster

_MOST_CLASSES = 50


@dataclass(frozen=True)
class TreeOutcome:
    """mu^m_jk: a LightGBM regressor for each menu and pair, squared error on the records of that menu.

    A column with fewer rows than two leaves need predicts the shrunken mean of its pair (`shrunken_means`): LightGBM
    could not split it either.

    Args:
        params: LightGBM parameters; what is missing is the middle of the paper's grid.
    """

    params: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> ColumnModels:
        """Fit one model for each fold and column; see `Learner.fit`."""
        params = complete(self.params, objective="regression")
        tasks = outcome_tasks(log, train, 2 * params["min_data_in_leaf"] if X.trees.shape[1] else np.inf)
        return _fit_columns(X, train, tasks, len(log.menus.columns), params, effort)


@dataclass(frozen=True)
class StoppedTrees:
    """`TreeOutcome`, of which all, a half, a quarter, ... or none of the trees are kept, whichever predicts best.

    On few votes per pair the printed hundred trees follow noise. Each fold's models are judged by their squared error
    on the contexts that the fold holds out, summed over folds, menus and pairs, and all keep the same number of trees;
    without trees a column is the shrunken mean of its pair. No model is fitted twice. A fold's models never see the
    contexts they predict; those contexts have a say in that one number only.

    Args:
        learner: what grows the trees; its number of trees is the most.
    """

    learner: TreeOutcome = field(default_factory=TreeOutcome)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> ColumnModels:
        """Fit one model for each fold and column, and keep as many of their trees as help; see `Learner.fit`."""
        models = self.learner.fit(log, X, train, effort)
        most = int(complete(self.learner.params)["num_iterations"])
        numbers = np.unique([0, *(most >> step for step in range(most.bit_length()))])
        means = np.array([shrunken_means(log, seen) for seen in train])
        cut = {int(trees): _first_trees(models, int(trees), means) for trees in numbers}
        losses = {trees: _held_out_loss(own, models, log, X, train) for trees, own in cut.items()}
        return cut[min(losses, key=losses.__getitem__)] if any(losses.values()) else models


def _held_out_loss(cut: ColumnModels, grown: ColumnModels, log: Feedback, X: Features, train: Bools) -> float:
    """Return the squared error on held-out contexts, at the columns that have trees; 0 if nothing is held out."""
    context, column = log.context_of[log.verdicts.record], log.menus.column_of_verdict
    weight, loss = log.records.weights[log.verdicts.record], 0.0
    for fold, seen in enumerate(train):
        has_trees = np.array([not isinstance(model, float) for model in grown.models[fold]])
        rows = np.flatnonzero(~seen[context] & has_trees[column])
        error = cut.cells(X, fold, context[rows], column[rows]) - log.verdicts.z[rows]
        loss += float(error**2 @ weight[rows])
    return loss


def _first_trees(models: ColumnModels, trees: int, means: Floats) -> ColumnModels:
    """Return models cut to their first trees; without any, they are the means, (folds, columns)."""
    import lightgbm as lgb

    def first(model: Forest | Booster | float, without: float) -> Forest | Booster | float:
        if isinstance(model, float) or not trees:
            return model if isinstance(model, float) else without
        if isinstance(model, Forest):
            return model.first(trees)
        return lgb.Booster(model_str=model.model_to_string(num_iteration=trees))

    kept = (map(first, row, without.tolist()) for row, without in zip(models.models, means, strict=True))
    return replace(models, models=tuple(map(tuple, kept)))


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

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> ColumnModels | MenuModels:
        """Fit what the log's design asks for; see `Learner.fit`."""
        if log.design == "inclusion":
            tasks = inclusion_tasks(log, train, bool(X.trees.shape[1]))
            return _fit_columns(X, train, tasks, len(log.menus), complete(self.params, objective="binary"), effort)
        if not 2 <= len(log.menus) <= _MOST_CLASSES or not X.trees.shape[1]:
            raise InputError(
                f"LightGBM cannot tell {len(log.menus)} menus apart by {X.trees.shape[1]} features; accepted are 2 to "
                f"{_MOST_CLASSES} menus and one feature or more. Use ",
                *(Argument("propensity", "multinomial", flag="--propensity-model multinomial"), " or 'marginal'."),
            )
        params = complete(self.params, objective="multiclass", num_class=len(log.menus), seed=effort.seed)
        models = run_all(lambda fold: _over_menus(log, X, train[fold], params), range(len(train)), len(train), effort)
        return MenuModels(tuple(models), len(log.menus))


def _fit_columns(
    X: Features, train: Bools, tasks: Iterable[Task], columns: int, params: Mapping[str, Any], effort: Effort
) -> ColumnModels:
    params = {"seed": effort.seed, **params}
    bins = Bins(X.trees, X.categorical, params, train)

    def fit(task: Task) -> Forest | Booster:
        return boosted(take(bins[task.fold], task.rows, task.label, task.weight), params)

    low = -1.0 if params["objective"] == "regression" else 0.0
    return ColumnModels(fit_columns(fit, tasks, len(train), columns, effort), low, 1.0, effort.n_jobs)


def _over_menus(log: Feedback, X: Features, seen: Bools, params: Mapping[str, Any]) -> Forest | Booster:
    records = records_of(log, seen)
    context, weight = log.context_of[records], log.records.weights[records]
    rows, menu = (np.cumsum(seen) - 1)[context], log.menus.of_record[records].astype(np.float64)
    unit = log.units[context]
    unit = unit if len(unit) and (unit != unit[0]).any() else context  # one voter alone is parted by contexts
    held = held_out(unit, np.random.default_rng(params["seed"]))
    data = binned(X.trees[seen], X.categorical, params)
    kept, test = (take(data, rows[side], menu[side], weight[side]) for side in (~held, held))
    trees = int(loss_curve(kept, test, params).argmin()) + 1
    return boosted(take(data, rows, menu, weight), {**params, "num_iterations": trees})

"""Hyperparameters of LightGBM models: the paper's grids in full, or settings drawn from them at random.

Both judge a setting by three-fold cross-validation with early stopping, at most 1,000 trees. The paper lists numbers of
trees and stops early as well; here the number of trees is read off one fit, whose loss after every tree tells what any
smaller number gives. So the 1,296 settings of the nuisances' table are 432 with three fits each, and the 1,944 of the
payoff's are 486, and what is found is at least as good as the best of the listed numbers that were reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.boosting import binned, complete, loss_curve, take
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.nuisance.columns import ColumnModels, Tuned, inclusion_tasks, outcome_tasks
from nasheval.nuisance.learners import Effort, Features, run_all
from nasheval.nuisance.trees import TreeOutcome, TreePropensity

if TYPE_CHECKING:
    from lightgbm import Dataset

Grid = Mapping[str, Sequence[float]]
Setting = Mapping[str, float]
Search = Literal["trees", "fast", "paper"]

# Table nuisance-ht-grid.
NUISANCE_GRID: Grid = {
    "learning_rate": (0.01, 0.1), "num_leaves": (7, 15, 31), "max_depth": (7, 10),
    "min_data_in_leaf": (30, 50, 100, 200), "lambda_l2": (0.0, 0.1, 1.0), "feature_fraction": (0.6, 0.8, 1.0),
    "num_iterations": (50, 100, 200),
}  # fmt: skip
# Table payoff-ht-grid.
PAYOFF_GRID: Grid = {
    "learning_rate": (0.02, 0.05, 0.1), "num_leaves": (15, 31, 62), "max_depth": (10, 15),
    "min_data_in_leaf": (50, 100, 200), "lambda_l2": (0.0, 0.1, 1.0), "feature_fraction": (0.6, 0.8, 1.0),
    "num_iterations": (50, 100, 200, 400),
}  # fmt: skip
MOST_TREES = 1000
_FOLDS = 3  # folds of the cross-validation
_LEAST = 200  # rows below which a search would choose noise


@dataclass(frozen=True, eq=False)
class Problem:
    """One model to tune: some rows with labels, in three folds for cross-validation.

    Args:
        X: contexts, encoded.
        rows: (n,) a row of X for each label, ascending.
        label: (n,) what to predict.
        weight: (n,) weights, or None for ones.
        objective: LightGBM's "regression" or "binary".
        seed: of the folds and of the fits.
        params: LightGBM parameters that every setting shares.
        context: (n,) the context of each label, kept in one fold; None: a row of X is a context.
    """

    X: Features
    rows: Ints
    label: Floats
    weight: Floats | None = None
    objective: str = "regression"
    seed: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    context: Ints | None = None
    _binned: dict[int, tuple[Dataset, Dataset]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def fold(self) -> Ints:
        """(n,) the fold of each row, 0 to 2."""
        contexts, place = np.unique(self.rows if self.context is None else self.context, return_inverse=True)
        fold = np.random.default_rng(self.seed).permutation(np.arange(len(contexts)) % _FOLDS)
        return fold[place]

    def datasets(self, fold: int) -> tuple[Dataset, Dataset]:
        """Return the contexts outside and inside a fold, in bins that the inside had no say in."""
        if fold not in self._binned:
            kept, held = (self.X.trees[self.rows[rows]] for rows in (self.fold != fold, self.fold == fold))
            categorical, params = self.X.categorical, complete(self.params, objective=self.objective)
            outside = binned(kept, categorical, params)
            self._binned[fold] = outside, binned(held, categorical, params, outside)
        return self._binned[fold]

    def __getstate__(self) -> dict[str, Any]:
        """Travel without the bins, which are made anew."""
        return {**vars(self), "_binned": {}}

    def curve(self, setting: Setting, fold: int) -> Floats:
        """Return (trees,) the loss on a fold after each tree of a model fitted outside it, until it stops falling."""
        chosen = {"seed": self.seed, **self.params, **setting, "num_iterations": MOST_TREES}
        params = complete(chosen, objective=self.objective)
        sides = zip(self.datasets(fold), (self.fold != fold, self.fold == fold), strict=True)
        outside, inside = (
            take(data, np.arange(len(rows)), self.label[rows], None if self.weight is None else self.weight[rows])
            for data, rows in ((data, np.flatnonzero(side)) for data, side in sides)
        )
        return loss_curve(outside, inside, params)


def settings_of(grid: Grid) -> list[Setting]:
    """Return every setting of a grid, the number of trees left out."""
    from sklearn.model_selection import ParameterGrid

    return list(ParameterGrid({name: list(values) for name, values in grid.items() if name != "num_iterations"}))


def check_search(how: Search | None) -> None:
    """Raise an InputError for what is no way to search."""
    if how is not None and how not in ("fast", "paper"):
        raise InputError(f"tune is {how!r}; accepted are False, 'fast' and 'paper'.")


def search(problems: Sequence[Problem], grid: Grid, how: Search = "fast", effort: Effort | None = None) -> Tuned:
    """Return the setting of a grid with the lowest cross-validated loss, one setting for all problems.

    Args:
        problems: what to tune on; their losses are averaged.
        how: "paper": every setting. "fast": a tenth of them, at least two, drawn at random.
    """
    from sklearn.utils.random import sample_without_replacement

    check_search(how)
    if not problems:
        raise InputError("There is nothing to tune on: no menu has enough records.")
    effort, settings = effort or Effort(), settings_of(grid)
    if how == "fast":
        most = min(len(settings), max(2, len(settings) // 10))
        settings = [settings[s] for s in sample_without_replacement(len(settings), most, random_state=effort.seed)]
    calls = list(product(settings, range(_FOLDS), range(len(problems))))
    curves = run_all(lambda call: problems[call[2]].curve(call[0], call[1]), calls, len(calls), effort)
    per_setting = len(calls) // len(settings)
    means = [_mean_curve(curves[start : start + per_setting]) for start in range(0, len(calls), per_setting)]
    best = min(range(len(settings)), key=lambda s: float(means[s].min()))
    params = {**settings[best], "num_iterations": int(means[best].argmin()) + 1}
    return Tuned(params, float(means[best].min()), len(settings), len(calls))


def stop_early(problems: Sequence[Problem], setting: Setting, effort: Effort | None = None) -> Tuned:
    """Choose the number of trees of one setting, the same for all problems, on a third of each problem's contexts."""
    places = range(len(problems))
    curves = run_all(lambda place: problems[place].curve(setting, 0), places, len(problems), effort or Effort())
    mean = _mean_curve(curves)
    return Tuned({"num_iterations": int(mean.argmin()) + 1}, float(mean.min()), 1, len(problems))


def _mean_curve(curves: Sequence[Floats]) -> Floats:
    """Return the mean of several curves; one that ended early stays where it was."""
    longest = max(map(len, curves))
    return np.asarray(np.mean([np.append(c, np.full(longest - len(c), c[-1])) for c in curves], axis=0))


# -- nuisances that tune themselves -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TunedTrees:
    """A LightGBM nuisance whose hyperparameters are searched on training contexts, one setting for all its columns.

    Args:
        learner: `TreeOutcome` or `TreePropensity`; parameters of its own that the grid does not hold are kept.
        how: "fast" or "paper", see `search`; "trees": only the number of trees, see `stop_early`.
        columns: the search looks at the columns with the most records, at most this many.
        per_fold: True: each fold searches its own training contexts, so that nothing it predicts was seen. False: one
            search on the training contexts of the first fold, five times cheaper; the other folds' settings have then
            seen contexts that they predict, which is seven numbers' worth of leakage.
    """

    learner: TreeOutcome | TreePropensity
    how: Search = "fast"
    columns: int = 3
    per_fold: bool = True

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> ColumnModels:
        """Search and fit on each training set; see `Learner.fit`."""
        if isinstance(self.learner, TreePropensity) and log.design == "draws":
            raise InputError(
                "Only classifiers per menu are tuned, and this log draws menus; fit TreePropensity itself."
            )
        n_searches = len(train) if self.per_fold else 1
        tuned = [self.tune(log, X, seen, effort.share(0.5 / n_searches)) for seen in train[:n_searches]]
        tuned *= len(train) // n_searches
        each = effort.share(0.5 / len(train))
        fitted: list[ColumnModels] = []
        for best, seen in zip(tuned, train, strict=True):
            learner = replace(self.learner, params={**self.learner.params, **best.params})
            models = learner.fit(log, X, seen[None], each)
            assert isinstance(models, ColumnModels)
            fitted.append(models)
        return replace(fitted[0], models=tuple(models.models[0] for models in fitted), tuned=tuple(tuned))

    def tune(self, log: Feedback, X: Features, seen: Bools, effort: Effort) -> Tuned:
        """Search on some contexts; where no column has enough records, return no parameters, which are the defaults."""
        problems = self.problems(log, X, seen, effort.seed)
        if not problems:
            effort.advance(1.0)
            return Tuned({}, float("nan"), 0, 0)
        if self.how == "trees":
            return stop_early(problems, {}, effort)
        return search(problems, NUISANCE_GRID, self.how, effort)

    def problems(self, log: Feedback, X: Features, seen: Bools, seed: int = 0) -> list[Problem]:
        """Return the columns to tune on, those with the most records first."""
        if not X.trees.shape[1]:
            return []
        if isinstance(self.learner, TreeOutcome):
            tasks, objective = outcome_tasks(log, seen[None], _LEAST), "regression"
        else:
            tasks, objective = inclusion_tasks(log, seen[None]), "binary"
        usable = [task for task in tasks if task.constant is None]
        usable.sort(key=lambda task: float(np.count_nonzero(task.label)), reverse=True)
        inside, params = X[seen], self.learner.params
        return [Problem(inside, t.rows, t.label, t.weight, objective, seed, params) for t in usable[: self.columns]]

"""Hyperparameters of LightGBM models: the paper's grids in full, or a fast search over them.

Both judge a setting by three-fold cross-validation with early stopping, at most 1,000 trees. The paper lists numbers of
trees and stops early as well; here the number of trees is read off one fit, whose loss after every tree tells what any
smaller number gives. So the 1,296 settings of the nuisances' table are 432 with three fits each, and the 1,944 of the
payoff's are 486, and what is found is at least as good as the best of the listed numbers that were reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.trees import (
    TreeModels,
    TreeOutcome,
    TreePropensity,
    binned,
    complete,
    inclusion_tasks,
    loss_curve,
    outcome_tasks,
    run_all,
    take,
)

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
_PARTS = 3  # folds of the cross-validation
_LEAST = 200  # rows below which a search would choose noise
_FIRST, _KEEP = 40, (12, 4)  # settings that the fast search starts with, and that it keeps after each part


@dataclass(frozen=True, eq=False)
class Problem:
    """One model to tune: some rows with labels, cut into three parts for cross-validation.

    Args:
        X: contexts, encoded.
        rows: (n,) a row of X for each label, ascending.
        label: (n,) what to predict.
        weight: (n,) weights, or None for ones.
        objective: LightGBM's "regression" or "binary".
        seed: of the parts and of the fits.
        params: LightGBM parameters that every setting shares.
        context: (n,) the context of each label, kept in one part; None: a row of X is a context.
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
    def part(self) -> Ints:
        """(n,) the part of each row, 0 to 2."""
        contexts, place = np.unique(self.rows if self.context is None else self.context, return_inverse=True)
        part = np.random.default_rng(self.seed).permutation(np.arange(len(contexts)) % _PARTS)
        return np.asarray(part[place])

    def datasets(self, part: int) -> tuple[Dataset, Dataset]:
        """Return the contexts outside and inside a part, in bins that the inside had no say in."""
        import lightgbm as lgb

        if part not in self._binned:
            outside = binned(self.X, self.rows[self.part != part], complete(self.params, objective=self.objective))
            table = np.ascontiguousarray(self.X.trees[self.rows[self.part == part]])
            inside = lgb.Dataset(table, np.zeros(len(table)), reference=outside, params=outside.params).construct()
            self._binned[part] = outside, inside
        return self._binned[part]

    def curve(self, setting: Setting, part: int) -> Floats:
        """Return (trees,) the loss on a part after each tree of a model fitted outside it, until it stops falling."""
        given = {"seed": self.seed, **self.params, **setting, "num_iterations": MOST_TREES}
        params = complete(given, objective=self.objective)
        outside, inside = (self._labelled(data, self.part == part, i) for i, data in enumerate(self.datasets(part)))
        return loss_curve(outside, inside, params)

    def _labelled(self, data: Dataset, held: Bools, inside: int) -> Dataset:
        rows = np.flatnonzero(held == bool(inside))
        return take(data, np.arange(len(rows)), self.label[rows], None if self.weight is None else self.weight[rows])


@dataclass(frozen=True)
class Tuned:
    """What a search found.

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


def settings_of(grid: Grid) -> list[Setting]:
    """Return every setting of a grid, the number of trees left out."""
    names = [name for name in grid if name != "num_iterations"]
    return [dict(zip(names, values, strict=True)) for values in product(*(grid[name] for name in names))]


@dataclass
class _Scores:
    """The curves seen so far: curves[setting][part][problem]."""

    problems: Sequence[Problem]
    effort: Effort
    share: float
    curves: dict[int, dict[int, list[Floats]]] = field(default_factory=dict)
    told: float = 0.0

    def look(self, settings: Mapping[int, Setting], parts: Iterable[int]) -> None:
        """Fit what has not been fitted yet."""
        todo = [(s, p) for s in settings for p in parts if p not in self.curves.get(s, {})]
        calls = [(s, p, problem) for s, p in todo for problem in self.problems]
        told = replace(self.effort, advance=self.advance).share(len(calls) * self.share)
        found = run_all(lambda call: call[2].curve(settings[call[0]], call[1]), calls, len(calls), told)
        for (s, p, _), curve in zip(calls, found, strict=True):
            self.curves.setdefault(s, {}).setdefault(p, []).append(curve)

    def advance(self, share: float) -> None:
        """Tell of some work done, never of more than all."""
        share = min(share, 1.0 - self.told)
        self.told += share
        self.effort.advance(share)

    def best(self, setting: int) -> tuple[float, int]:
        """Return the lowest mean loss of a setting over its parts and problems, and the number of trees for it."""
        mean = _mean_curve([curve for part in self.curves[setting].values() for curve in part])
        return float(mean.min()), int(mean.argmin()) + 1

    @property
    def fits(self) -> int:
        return sum(len(curves) for parts in self.curves.values() for curves in parts.values())

    def promise(self, setting: int) -> float:
        """Return the loss of a setting on the first part; a setting that no part has judged comes last."""
        return float(np.mean([c.min() for c in self.curves[setting][0]])) if setting in self.curves else np.inf

    @property
    def chosen(self) -> int:
        """The best of the settings that all parts have judged."""
        whole = [s for s, parts in self.curves.items() if len(parts) == _PARTS]
        return min(whole, key=lambda s: self.best(s)[0])

    def result(self, settings: Sequence[Setting]) -> Tuned:
        """Return the best setting with what it took to find it."""
        loss, trees = self.best(self.chosen)
        return Tuned({**settings[self.chosen], "num_iterations": trees}, loss, len(self.curves), self.fits)


def search(problems: Sequence[Problem], grid: Grid, how: Search = "fast", effort: Effort | None = None) -> Tuned:
    """Return the setting of a grid with the lowest cross-validated loss, one setting for all problems.

    Args:
        problems: what to tune on; their losses are averaged.
        how: "paper": every setting on every part. "fast": successive halving, where what grows is the number of parts a
            setting is judged on: 40 settings drawn from the grid on one part, the best 12 on two, the best 4 on three;
            then, from the best, one hyperparameter changed at a time, until that no longer helps; then settings that
            an additive model of the losses likes best, until a tenth of the grid's fits are spent.
    """
    if how not in ("fast", "paper"):
        raise InputError(f"tune is {how!r}; accepted are False, 'fast' and 'paper'.")
    if not problems:
        raise InputError("There is nothing to tune on: no menu has enough records.")
    settings, given = settings_of(grid), effort or Effort()
    whole = len(settings) * _PARTS * len(problems)
    if how == "paper":
        scores = _Scores(problems, given, 1.0 / whole)
        scores.look(dict(enumerate(settings)), range(_PARTS))
    else:
        scores = _Scores(problems, given, 10.0 / whole)
        _halve(scores, settings, np.random.default_rng(given.seed))
        _climb(scores, settings, whole // 10)
        _predict(scores, settings, whole // 10)
    scores.advance(1.0)
    return scores.result(settings)


def stop_early(problems: Sequence[Problem], setting: Setting, effort: Effort | None = None) -> Tuned:
    """Choose the number of trees of one setting, the same for all problems, on a third of each problem's contexts."""
    curves = run_all(lambda problem: problem.curve(setting, 0), problems, len(problems), effort or Effort())
    mean = _mean_curve(curves)
    return Tuned({"num_iterations": int(mean.argmin()) + 1}, float(mean.min()), 1, len(problems))


def _mean_curve(curves: Sequence[Floats]) -> Floats:
    """Return the mean of several curves; one that ended early stays where it was."""
    longest = max(map(len, curves))
    return np.asarray(np.mean([np.append(c, np.full(longest - len(c), c[-1])) for c in curves], axis=0))


def _halve(scores: _Scores, settings: Sequence[Setting], rng: np.random.Generator) -> None:
    first = min(_FIRST, max(2, len(settings) // 10))
    alive = [int(s) for s in rng.choice(len(settings), first, replace=False)]
    for part, keep in enumerate((*_KEEP, 1)):
        scores.look({s: settings[s] for s in alive}, range(part + 1))
        alive = sorted(alive, key=lambda s: scores.best(s)[0])[: min(keep, max(1, len(alive) // 2))]


def _climb(scores: _Scores, settings: Sequence[Setting], budget: int) -> None:
    """Go from the best setting to its neighbours, the most promising on one part first, while the budget lasts."""
    number = {tuple(setting.values()): s for s, setting in enumerate(settings)}
    here = -1
    while here != (here := scores.chosen):
        near = [number[key] for key in _neighbours(settings, here)]
        for parts in (1, _PARTS):
            for s in sorted(near, key=scores.promise):
                left = budget - scores.fits >= len(scores.problems) * _PARTS
                if left and scores.chosen == here:
                    scores.look({s: settings[s]}, range(parts))


def _predict(scores: _Scores, settings: Sequence[Setting], budget: int) -> None:
    """Spend what is left on the settings that a sum of one effect a value, fitted to the first part, likes best."""
    levels = [(name, value) for name in settings[0] for value in sorted({setting[name] for setting in settings})]
    table = np.array([[float(setting[name] == value) for name, value in levels] for setting in settings])
    while budget - scores.fits >= len(scores.problems) * _PARTS:
        seen = list(scores.curves)
        effects = np.linalg.lstsq(table[seen], np.array([scores.promise(s) for s in seen]), rcond=None)[0]
        new = [int(s) for s in np.argsort(table @ effects, kind="stable") if s not in scores.curves][:1]
        if not new:
            return
        scores.look({s: settings[s] for s in new}, range(_PARTS))


def _neighbours(settings: Sequence[Setting], here: int) -> list[tuple[float, ...]]:
    """Return the settings that differ from one in one hyperparameter."""
    centre, found = settings[here], []
    for name in centre:
        others = sorted({setting[name] for setting in settings} - {centre[name]})
        found += [tuple({**centre, name: value}.values()) for value in others]
    return found


def compare_searches(problem: Problem, grid: Grid = NUISANCE_GRID, effort: Effort | None = None) -> tuple[Tuned, Tuned]:
    """Return what the fast search and the whole grid find on one problem, in that order."""
    return search([problem], grid, "fast", effort), search([problem], grid, "paper", effort)


# -- nuisances that tune themselves -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TunedModels(TreeModels):
    """Boosted trees with the settings that were found, one for each fold."""

    tuned: tuple[Tuned, ...] = ()


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

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> TunedModels:
        """Search and fit on each training set; see `Learner.fit`."""
        n_searches = len(train) if self.per_fold else 1
        tuned = [self.tune(log, X, seen, effort.share(0.5 / n_searches)) for seen in train[:n_searches]]
        tuned *= len(train) // n_searches
        each = effort.share(0.5 / len(train))
        models = [
            replace(self.learner, params={**self.learner.params, **found.params}).fit(log, X, seen[None], each)
            for found, seen in zip(tuned, train, strict=True)
        ]
        rows = tuple(one.models[0] for one in models)
        return TunedModels(rows, models[0].low, models[0].high, effort.n_jobs, tuple(tuned))

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

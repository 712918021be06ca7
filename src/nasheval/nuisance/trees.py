"""LightGBM nuisances as printed in the paper: a regressor a menu and pair, a classifier a menu.

Every fit uses one thread, and fits run side by side in threads (LightGBM works outside Python's lock), which needs no
copies of the data. Contexts are cut into bins once a fold, on its training contexts only, and each fit takes its rows
of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort, Features, records_of

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

T = TypeVar("T")
R = TypeVar("R")

# The middle of the paper's grid (Table nuisance-ht-grid).
DEFAULTS: Mapping[str, Any] = {
    "num_iterations": 100, "num_leaves": 15, "learning_rate": 0.1, "min_data_in_leaf": 50, "max_depth": 7,
    "lambda_l2": 0.0, "feature_fraction": 1.0, "max_bin": 63,
}  # fmt: skip
# Shared bins must not depend on one fit's leaf size: hence no filtering of features beforehand.
_FIXED = {
    "num_threads": 1, "deterministic": True, "force_col_wise": True, "verbosity": -1, "feature_pre_filter": False
}  # fmt: skip
_SAME = {
    "n_estimators": "num_iterations", "num_boost_round": "num_iterations", "min_child_samples": "min_data_in_leaf",
    "reg_lambda": "lambda_l2", "colsample_bytree": "feature_fraction", "random_state": "seed",
}  # fmt: skip
_MOST_CLASSES = 50
_CONSTANT = "constant "  # starts the text of a model that is one number


def complete(params: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return LightGBM parameters with the defaults filled in; scikit-learn's names for them are understood."""
    given = {_SAME.get(name, name): value for name, value in params.items()}
    refused = sorted(set(given) & set(_FIXED))
    if refused:
        raise InputError(f"params sets {', '.join(refused)}, which the package sets itself; leave it out.")
    return {**DEFAULTS, **more, **given, **_FIXED}


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


def binned(X: Features, rows: Bools | Ints, params: Mapping[str, Any]) -> Dataset:
    """Cut some contexts into bins; `take` takes rows of them."""
    import lightgbm as lgb

    table = np.ascontiguousarray(X.trees[rows])
    names = [f"x{column}" for column in range(table.shape[1])]
    return lgb.Dataset(
        table, np.zeros(len(table)), feature_name=names, categorical_feature=list(X.categorical), params=dict(params)
    ).construct()


def take(data: Dataset, rows: Ints, label: Floats, weight: Floats | None = None) -> Dataset:
    """Return rows of a binned dataset with labels; rows ascend and may repeat."""
    part = data.subset([])
    part.used_indices = rows.astype(np.int32)  # `subset` would sort it as a Python list
    part.construct().set_label(label)
    if weight is not None:
        part.set_weight(weight)
    return part


def boosted(data: Dataset, params: Mapping[str, Any]) -> Booster:
    """Fit one model and return it without its training data."""
    import lightgbm as lgb

    booster = lgb.Booster(dict(params), data)
    for _ in range(params["num_iterations"]):
        if booster.update():  # no leaf can be split any more
            break
    return lgb.Booster(model_str=booster.model_to_string())


def loss_curve(data: Dataset, held: Dataset, params: Mapping[str, Any], patience: int = 50) -> Floats:
    """Return (trees,) the loss on held-out rows after each tree, until it has not fallen for `patience` trees."""
    import lightgbm as lgb

    booster = lgb.Booster(dict(params), data).add_valid(held, "held")
    losses: list[float] = []
    best = 0
    for tree in range(params["num_iterations"]):
        ended = booster.update()
        losses.append(booster.eval_valid()[0][2])
        best = tree if losses[tree] < losses[best] else best
        if ended or tree - best >= patience:
            break
    return np.asarray(losses)


def fit_all(
    X: Features, train: Bools, tasks: Iterable[Task], columns: int, params: Mapping[str, Any], effort: Effort
) -> TreeModels:
    """Fit every task, `effort.n_jobs` at a time; tasks come fold by fold and column by column.

    Args:
        train: (folds, n_contexts) which contexts each fold may see.
    """
    settings = {"seed": effort.seed, **params}
    data = [binned(X, rows, settings) if X.trees.shape[1] else None for rows in train]

    def fit_one(task: Task) -> Booster | float:
        if (binned_fold := data[task.fold]) is None or task.constant is not None:
            return task.constant or 0.0
        return boosted(take(binned_fold, task.rows, task.label, task.weight), settings)

    found = run_all(fit_one, tasks, len(train) * columns, effort)
    rows = tuple(tuple(found[fold * columns : (fold + 1) * columns]) for fold in range(len(train)))
    low = -1.0 if params["objective"] == "regression" else 0.0
    return TreeModels(rows, low, 1.0, effort.n_jobs)


def run_all(call: Callable[[T], R], arguments: Iterable[T], n_calls: int, effort: Effort) -> list[R]:
    """Return call(argument) for each argument, `effort.n_jobs` threads at a time, telling `effort` of each."""
    from joblib import Parallel, delayed

    run = Parallel(n_jobs=effort.n_jobs, backend="threading", return_as="generator")
    found = []
    for result in run(delayed(call)(argument) for argument in arguments):
        found.append(result)
        effort.advance(1.0 / n_calls)
    return found


@dataclass(frozen=True)
class TreeModels:
    """Boosted trees, one model for each fold and column; some are just a number.

    Args:
        models: models[fold][column].
        low, high: predictions are clipped to this range.
        n_jobs: threads that predict.
    """

    models: tuple[tuple[Booster | float, ...], ...]
    low: float
    high: float
    n_jobs: int = 1

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, columns) predictions of the models of a fold."""
        models = self.models[fold]
        table = np.ascontiguousarray(X.trees)
        found = np.empty((len(X), len(models)))

        def fill(column: int) -> None:
            found[:, column] = _predicted(models[column], table)

        small = len(X) * len(models) < 1 << 15  # done before the threads have started
        run_all(fill, range(len(models)), len(models), Effort(n_jobs=1 if small else self.n_jobs))
        return np.clip(found, self.low, self.high, out=found)

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) predictions at rows[i] of X and column columns[i] only."""
        order = np.argsort(columns, kind="stable")
        ends = np.cumsum(np.bincount(columns, minlength=len(self.models[fold])))
        found = np.empty(len(columns))
        for column in np.unique(columns):
            place = order[ends[column - 1] if column else 0 : ends[column]]
            found[place] = _predicted(self.models[fold][column], np.ascontiguousarray(X.trees[rows[place]]))
        return np.clip(found, self.low, self.high, out=found)

    def to_strings(self) -> tuple[tuple[str, ...], ...]:
        """Return the text of every model, texts[fold][column]; `from_strings` predicts bit for bit the same."""
        return tuple(tuple(map(_text, row)) for row in self.models)

    @classmethod
    def from_strings(cls, texts: Sequence[Sequence[str]], *, low: float, high: float, n_jobs: int = 1) -> TreeModels:
        """Read models that `to_strings` wrote."""
        return cls(tuple(tuple(map(_model, row)) for row in texts), low, high, n_jobs)


@dataclass(frozen=True)
class TreeMenuModels:
    """Boosted multinomial models, one a fold.

    Args:
        boosters: one for each fold, with a class for each menu.
    """

    boosters: tuple[Booster, ...]

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) probabilities, rows sum to one."""
        return np.asarray(self.boosters[fold].predict(np.ascontiguousarray(X.trees), num_threads=1))

    def to_strings(self) -> tuple[str, ...]:
        """Return the text of each fold's model; `from_strings` predicts bit for bit the same."""
        return tuple(map(_text, self.boosters))

    @classmethod
    def from_strings(cls, texts: Sequence[str]) -> TreeMenuModels:
        """Read models that `to_strings` wrote."""
        import lightgbm as lgb

        return cls(tuple(lgb.Booster(model_str=text) for text in texts))


def _predicted(model: Booster | float, table: Floats) -> Floats:
    if isinstance(model, float) or not len(table):
        return np.full(len(table), model if isinstance(model, float) else 0.0)
    return np.asarray(model.predict(table, num_threads=1))


def _text(model: Booster | float) -> str:
    return f"{_CONSTANT}{model!r}" if isinstance(model, float) else str(model.model_to_string())


def _model(text: str) -> Booster | float:
    import lightgbm as lgb

    return float(text.removeprefix(_CONSTANT)) if text.startswith(_CONSTANT) else lgb.Booster(model_str=text)


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
        return fit_all(X, train, tasks, len(log.menus.columns), params, effort)


@dataclass(frozen=True)
class TreePropensity:
    """e^m: a LightGBM classifier for each menu, S^m in {0, 1} on all training contexts, binary log loss.

    For logs whose menus are included independently. A menu that all or none of the training contexts include predicts
    (included + 1/2) / (contexts + 1).

    Args:
        params: LightGBM parameters; what is missing is the middle of the paper's grid.
    """

    params: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> TreeModels:
        """Fit one model for each fold and menu; see `Learner.fit`."""
        if log.design != "inclusion":
            raise InputError(
                "This log draws one menu a record, so the propensities of its menus sum to one, which a classifier "
                "a menu does not know; use propensity='multinomial', 'marginal' or 'known'."
            )
        params = complete(self.params, objective="binary")
        tasks = inclusion_tasks(log, train, bool(X.trees.shape[1]))
        return fit_all(X, train, tasks, len(log.menus), params, effort)


@dataclass(frozen=True)
class TreeMultinomial:
    """P(the menu drawn is m | x): one LightGBM model with a class for each menu, so that propensities sum to one.

    For logs that draw one menu a record, and 2 to 50 menus. The number of trees is the one that does best on a fifth of
    the training contexts.

    Args:
        params: LightGBM parameters; "num_iterations" is the most trees a menu.
    """

    params: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> TreeMenuModels:
        """Fit one model on each training set; see `Learner.fit`."""
        require_draws(log)
        if not 2 <= len(log.menus) <= _MOST_CLASSES or not X.trees.shape[1]:
            raise InputError(
                f"LightGBM cannot tell {len(log.menus)} menus apart by {X.trees.shape[1]} features; accepted are 2 to "
                f"{_MOST_CLASSES} menus and one feature or more. Use propensity='multinomial' or 'marginal'."
            )
        params = complete(self.params, objective="multiclass", num_class=len(log.menus), seed=effort.seed)
        boosters = run_all(lambda seen: _over_menus(log, X, seen, params), train, len(train), effort)
        return TreeMenuModels(tuple(boosters))


def _over_menus(log: Feedback, X: Features, seen: Bools, params: Mapping[str, Any]) -> Booster:
    records = records_of(log, seen)
    context, weight = log.context_of[records], log.records.weights[records]
    rows, menu = (np.cumsum(seen) - 1)[context], log.menus.of_record[records].astype(np.float64)
    held, data = held_out(log.units[context], np.random.default_rng(params["seed"])), binned(X, seen, params)
    parts = [take(data, rows[part], menu[part], weight[part]) for part in (~held, held)]
    trees = int(loss_curve(parts[0], parts[1], params).argmin()) + 1
    return boosted(take(data, rows, menu, weight), {**params, "num_iterations": trees})


def require_draws(log: Feedback) -> None:
    """Refuse a log whose menus are included independently."""
    if log.design != "draws":
        raise InputError(
            f"A multinomial propensity is for logs that draw one menu a record; this one includes menus independently "
            f"({log.how_designed.reason}). Use propensity='lightgbm' or 'marginal', or read it with design='draws'."
        )


def held_out(unit: Ints, rng: np.random.Generator, share: float = 0.2) -> Bools:
    """Return (n,) which rows to hold out, given the unit of each, such as its context: all rows of a unit or none."""
    found, place = np.unique(unit, return_inverse=True)
    chosen = rng.permutation(len(found)) < max(1, round(share * len(found)))
    return np.asarray(chosen[place])


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

"""LightGBM in one place: parameters, binned tables, and training one tree at a time on one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.errors import InputError
from nasheval.forests.forest import Forest, read_booster

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

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


def complete(params: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return LightGBM parameters with the defaults filled in; scikit-learn's names for them are understood."""
    renamed = {_SAME.get(name, name): value for name, value in params.items()}
    refused = sorted(set(renamed) & set(_FIXED))
    if refused:
        raise InputError(f"params sets {', '.join(refused)}, which the package sets itself; leave it out.")
    return {**DEFAULTS, **more, **renamed, **_FIXED}


def binned(
    table: Floats, categorical: Sequence[int], params: Mapping[str, Any], like: Dataset | None = None
) -> Dataset:
    """Cut the columns of a table into bins, or into those of a binned table; `take` takes rows of it."""
    import lightgbm as lgb

    names = [f"x{column}" for column in range(table.shape[1])]
    return lgb.Dataset(
        np.ascontiguousarray(table),
        np.zeros(len(table)),
        like,
        feature_name=names,
        categorical_feature=list(categorical),
        params=dict(params),
    ).construct()


class Bins:
    """A table cut into bins for each of some training sets, when first asked for; copies that travel do so anew.

    Args:
        rows: which rows of the table each training set has, [set]; by default one set has all.
    """

    def __init__(
        self, table: Floats, categorical: Sequence[int], params: Mapping[str, Any], rows: Any = (slice(None),)
    ) -> None:
        self._made_of = table, categorical, params, rows
        self._made: dict[int, Dataset] = {}
        self._lock = Lock()

    def __getitem__(self, place: int) -> Dataset:
        """Return the binned table of one training set."""
        with self._lock:
            if place not in self._made:
                table, categorical, params, rows = self._made_of
                self._made[place] = binned(table[rows[place]], categorical, params)
            return self._made[place]

    def __reduce__(self) -> tuple[type[Bins], tuple[Any, ...]]:
        return Bins, self._made_of


def take(data: Dataset, rows: Ints, label: Floats, weight: Floats | None = None) -> Dataset:
    """Return rows of a binned table with labels; rows ascend and may repeat."""
    chosen = data.subset([])
    chosen.used_indices = rows.astype(np.int32)  # `subset` would sort it as a Python list
    chosen.construct().set_label(label)
    if weight is not None:
        chosen.set_weight(weight)
    return chosen


def begin(data: Dataset, params: Mapping[str, Any]) -> Booster:
    """Return a model without trees yet."""
    import lightgbm as lgb

    return lgb.Booster(dict(params), data)


def grow(model: Booster, trees: int) -> None:
    """Grow a model to a number of trees, in whatever thread this is."""
    model.reset_parameter({"verbosity": -1})  # LightGBM keeps its log level per thread, and this may be a new one
    _update(model, trees)


def _update(model: Booster, trees: int) -> None:
    for _ in range(model.current_iteration(), trees):
        if model.update():  # no leaf can be split any more
            break


def freed(model: Booster) -> Forest | Booster:
    """Return a model without the data it was fitted on: its trees, or a booster where they are of an unknown kind."""
    import lightgbm as lgb

    return read_booster(model) or lgb.Booster(model_str=model.model_to_string())


def boosted(data: Dataset, params: Mapping[str, Any]) -> Forest | Booster:
    """Fit one model and return it without its training data."""
    model = begin(data, params)
    _update(model, params["num_iterations"])
    return freed(model)


def loss_curve(data: Dataset, held: Dataset, params: Mapping[str, Any], patience: int = 50) -> Floats:
    """Return (trees,) the loss on held-out rows after each tree, until it has not fallen for `patience` trees."""
    model = begin(data, params).add_valid(held, "held")
    losses: list[float] = []
    best = 0
    for tree in range(params["num_iterations"]):
        ended = model.update()
        losses.append(model.eval_valid()[0][2])
        best = tree if losses[tree] < losses[best] else best
        if ended or tree - best >= patience:
            break
    return np.array(losses)

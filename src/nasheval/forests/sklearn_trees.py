"""Trees of scikit-learn's regressors, and of LightGBM's that look like one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nasheval.arrays import Array
from nasheval.forests.forest import Forest, forest_of_trees, read_booster

_TREES = ("DecisionTreeRegressor", "ExtraTreeRegressor")
_AVERAGES = ("RandomForestRegressor", "ExtraTreesRegressor")


def forest_of(model: Any) -> Forest | None:
    """Return the trees of a fitted regressor, bit for bit its predictions at finite numbers; None if it has others."""
    if isinstance(model, Forest):
        return model
    if hasattr(model, "booster_") and type(model).__module__.startswith("lightgbm."):
        return read_booster(model.booster_)
    name = type(model).__name__ if type(model).__module__.startswith("sklearn.") else ""
    if name in _TREES:
        return forest_of_trees(model.n_features_in_, False, [_tree(model)])
    if name in _AVERAGES:
        return forest_of_trees(model.n_features_in_, True, [_tree(tree) for tree in model.estimators_])
    if name == "GradientBoostingRegressor" and hasattr(model.init_, "constant_"):
        grown = [_tree(tree, model.learning_rate) for tree in model.estimators_[:, 0]]
        return forest_of_trees(model.n_features_in_, False, [_number(model.init_.constant_), *grown])
    if name == "HistGradientBoostingRegressor":
        return _of_histograms(model)
    return None


def _of_histograms(model: Any) -> Forest | None:
    nodes = [own[0].nodes for own in model._predictors]
    if any(tree["is_categorical"].any() for tree in nodes) or model.loss in ("poisson", "gamma"):
        return None
    grown = [
        {
            "feature": tree["feature_idx"].astype(np.int64), "threshold": tree["num_threshold"],
            "left": np.where(tree["is_leaf"], -1, tree["left"].astype(np.int64)),
            "right": tree["right"].astype(np.int64), "value": tree["value"],
        }
        for tree in nodes
    ]  # fmt: skip
    return forest_of_trees(model.n_features_in_, False, [_number(model._baseline_prediction), *grown])


def _tree(model: Any, scale: float = 1.0) -> Mapping[str, Array]:
    tree = model.tree_
    own = {"feature": tree.feature, "threshold": tree.threshold, "left": tree.children_left}
    return {**own, "right": tree.children_right, "value": scale * tree.value[:, 0, 0]}


def _number(value: Any) -> Mapping[str, Array]:
    """Return a tree of one leaf."""
    nothing = np.zeros(1, np.int64)
    return {
        **dict.fromkeys(("feature", "threshold", "right"), nothing), "left": nothing - 1, "value": np.ravel(value)[:1]
    }  # fmt: skip

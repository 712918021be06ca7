"""One model of boosted or averaged trees as flat arrays: what LightGBM's text says of its predictions, and no more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Array, Bools, Floats, Ints, offsets_of

if TYPE_CHECKING:
    from lightgbm import Booster

NUMBERS = (
    "num_leaves", "num_cat", "split_feature", "threshold", "decision_type", "left_child", "right_child", "leaf_value"
)  # fmt: skip
CATEGORIES = ("cat_boundaries", "cat_threshold")
REALS = ("threshold", "leaf_value")
_WAYS = {
    "identity": "(regression|regression_l1|huber|fair|quantile|mape)",
    "square": "(regression|regression_l1|huber|fair|quantile|mape) sqrt",
    "exp": "(poisson|gamma|tweedie)( sqrt)?( tweedie_variance_power:[.0-9]+)?",
    "sigmoid": "binary sigmoid:1",
}
LINKS = tuple(_WAYS)  # what is made of the sum of a model's trees


@dataclass(frozen=True, eq=False)
class Forest:
    """A model of T trees, in LightGBM's own terms; the numbers of all trees stand one after another.

    Args:
        width: number of features.
        objective: LightGBM's name of the loss, with its settings; it tells what is made of the sum of the trees.
        average: whether trees are averaged rather than added up.
        num_leaves, num_cat: (T,) leaves, and splits by category, of each tree.
        split_feature, threshold, decision_type: (nodes,) how each node decides; `threshold` is the number of its
            category set, within the tree, where it decides by category.
        left_child, right_child: (nodes,) nodes, within the tree, or ~leaf.
        leaf_value: (leaves,).
        cat_boundaries, cat_threshold: where the category sets of each tree begin, and their bits in words of 32.
    """

    width: int
    objective: str
    average: bool
    num_leaves: Ints
    num_cat: Ints
    split_feature: Ints
    threshold: Floats
    decision_type: Ints
    left_child: Ints
    right_child: Ints
    leaf_value: Floats
    cat_boundaries: Ints
    cat_threshold: Ints

    @property
    def n_trees(self) -> int:
        """T."""
        return len(self.num_leaves)

    @cached_property
    def link(self) -> int:
        """The place in `LINKS` of what is made of the sum of the trees."""
        return next(place for place, way in enumerate(_WAYS.values()) if re.fullmatch(way, self.objective))

    def first(self, trees: int) -> Forest:
        """Return the first trees of the model."""
        ends = {name: int(offsets_of(sizes)[min(trees, self.n_trees)]) for name, sizes in self.sizes().items()}
        return replace(self, **{name: getattr(self, name)[:end] for name, end in ends.items()})

    def sizes(self) -> dict[str, Ints]:
        """Return, for each array, (T,) how many of its numbers each tree has."""
        one, nodes = np.ones(self.n_trees, np.int64), self.num_leaves - 1
        bounds = np.where(self.num_cat > 0, self.num_cat + 1, 0)
        words = np.zeros(self.n_trees, np.int64)
        last = np.cumsum(bounds)[self.num_cat > 0] - 1
        words[self.num_cat > 0] = self.cat_boundaries[last]
        own = {"num_leaves": one, "num_cat": one, "leaf_value": self.num_leaves, "cat_boundaries": bounds}
        return {name: own.get(name, nodes) for name in (*NUMBERS, CATEGORIES[0])} | {CATEGORIES[1]: words}


def known_objective(objective: str) -> bool:
    """Tell whether predictions of a model can be made from its trees."""
    return any(re.fullmatch(way, objective) for way in _WAYS.values())


def read_booster(model: Booster) -> Forest | None:
    """Return a LightGBM model as arrays; None for linear trees, several classes or a loss of another kind."""
    text = str(model.model_to_string()).split("\nend of trees")[0]
    head, _, trees = text.partition("\nTree=")
    settings = dict(line.partition("=")[::2] for line in head.split("\n"))
    objective = settings.get("objective", "custom")
    if not known_objective(objective) or settings["num_tree_per_iteration"] != "1" or "\nis_linear=1" in trees:
        return None
    lists = {key: re.findall(rf"^{key}=(.*)$", trees, re.MULTILINE) for key in (*NUMBERS, *CATEGORIES)}
    numbers = {key: numbers_of(key, " ".join(own)) for key, own in lists.items()}
    return Forest(int(settings["max_feature_idx"]) + 1, objective, "average_output" in settings, **numbers)


def numbers_of(key: str, text: str) -> Any:
    """Return the numbers of a line of a model, of the type that its key has."""
    kind = float if key in REALS else int
    return np.array(list(map(kind, text.split())), np.float64 if key in REALS else np.int64)


def tree_lines(forest: Forest) -> list[str]:
    """Return the trees of a model as LightGBM writes them, without what predictions do not need."""
    ends = {key: offsets_of(sizes) for key, sizes in forest.sizes().items()}
    words = {key: _words(key, getattr(forest, key)) for key in ends}
    lines = []
    for tree in range(forest.n_trees):
        kept = ends if forest.num_cat[tree] else NUMBERS
        own = (f"{key}={' '.join(words[key][ends[key][tree] : ends[key][tree + 1]])}" for key in kept)
        lines += [f"Tree={tree}", *own, "is_linear=0", "shrinkage=1", "", ""]
    return lines


def _words(key: str, values: Array) -> list[str]:
    return [f"{value:.17g}" for value in values.tolist()] if key in REALS else list(map(str, values.tolist()))


def forest_of_trees(width: int, average: bool, trees: list[Mapping[str, Array]]) -> Forest:
    """Return a model of trees that split numbers only, none of them missing.

    Args:
        trees: of each, "feature", "threshold", "left", "right" and "value" of all nodes, leaves among them, whose
            "left" is -1; a child follows its parent.
    """
    numbers: dict[str, list[Array]] = {key: [] for key in (*NUMBERS, *CATEGORIES)}
    for tree in trees:
        leaf: Bools = np.asarray(tree["left"] < 0)
        place = np.where(leaf, -np.cumsum(leaf, dtype=np.int64), np.cumsum(~leaf) - 1)  # -1 is leaf 0, -2 is leaf 1
        own = {
            "num_leaves": [leaf.sum()], "num_cat": [0], "leaf_value": np.asarray(tree["value"])[leaf],
            "split_feature": tree["feature"][~leaf], "threshold": tree["threshold"][~leaf],
            "decision_type": np.zeros((~leaf).sum(), int),
            "left_child": place[tree["left"][~leaf]], "right_child": place[tree["right"][~leaf]],
        }  # fmt: skip
        for key, values in own.items():
            numbers[key].append(np.asarray(values))
    joined: dict[str, Any] = {
        key: np.concatenate([*own, np.zeros(0)]).astype(np.float64 if key in REALS else np.int64)
        for key, own in numbers.items()
    }
    return Forest(width, "regression", average, **joined)

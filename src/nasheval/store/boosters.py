"""LightGBM models as text, reduced to what predictions need, and checked before a tree is walked.

Whoever walks a tree trusts it: a child that points outside it, or back to its parent, is followed. So a file is taken
apart here first. Every line has its place, every list its length, every number its range, and every tree is a tree.
LightGBM itself is not needed to read one. A file holds one model after another, each a number or the number of lines
that follow:

    model 0 constant 0.25
    model 1 lines 18
    tree
    version=v4
    ...
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Ints, offsets_of
from nasheval.forests.forest import CATEGORIES, NUMBERS, REALS, Forest, numbers_of, read_booster, tree_lines
from nasheval.store.settings import unsavable

if TYPE_CHECKING:
    from lightgbm import Booster

_OBJECTIVES = ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "poisson", "gamma", "tweedie")
_OBJECTIVE = re.compile(rf"objective=({'|'.join(_OBJECTIVES)})( sqrt)?( tweedie_variance_power:[.0-9]+)?")
_WHOLE, _REAL = "-?[0-9]+", "-?(?:[0-9.]+(?:e[-+]?[0-9]+)?|inf)"
_LISTS = {key: f"{key}=(?P<{key}>(?:{one}(?: {one})*)?)\n" for key, one in
          ((key, _REAL if key in REALS else _WHOLE) for key in (*NUMBERS, *CATEGORIES))}  # fmt: skip
_TREE = re.compile(
    "Tree=(?P<number>[0-9]+)\n"
    + "".join(_LISTS[key] for key in NUMBERS)
    + f"(?:{''.join(_LISTS[key] for key in CATEGORIES)})?is_linear=0\nshrinkage=1\n\n\n"
)
_START = re.compile(r"model (?P<number>[0-9]{1,9}) (constant (?P<constant>[^ ]+)|lines (?P<lines>[0-9]{1,9}))")
_END = ["end of trees", "", "pandas_categorical:null"]
_CATEGORICAL = 1  # bit of a decision type
_LARGEST_TYPE = 11  # categorical, default left, and three kinds of missing values


# -- writing ----------------------------------------------------------------------------------------------------------


def models_text(models: Sequence[Forest | Booster | float], what: str) -> str:
    """Return the text of models, some of which are just a number; `what` is their name in an error."""
    lines: list[str] = []
    for number, model in enumerate(models):
        if isinstance(model, float):
            lines.append(f"model {number} constant {model!r}")
            continue
        own = _lines(model, what)
        lines += [f"model {number} lines {len(own)}", *own]
    return "\n".join([*lines, ""])


def _lines(model: Forest | Booster, what: str) -> list[str]:
    forest = model if isinstance(model, Forest) else read_booster(model)
    if forest is None or not _OBJECTIVE.fullmatch(objective := f"objective={forest.objective}"):
        kind = "an unknown objective" if forest is None else objective
        raise unsavable(what, f"a LightGBM model with linear trees, several classes or {kind}")
    return [*_head(objective, forest.width, forest.average), *tree_lines(forest), *_END]


def _head(objective: str, width: int, average: bool) -> list[str]:
    fixed = ["tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"]
    names, infos = " ".join(f"x{i}" for i in range(width)), " ".join(["none"] * width)
    shape = [f"max_feature_idx={width - 1}", objective, *(["average_output"] if average else [])]
    return [*fixed, *shape, f"feature_names={names}", f"feature_infos={infos}", ""]


# -- reading ----------------------------------------------------------------------------------------------------------


def models_of(text: str, count: int, width: int) -> tuple[Forest | float, ...]:
    """Return the `count` models, of `width` features, that `models_text` wrote; a ValueError for anything else."""
    lines, place = text.split("\n"), 0
    models: list[Forest | float] = []
    for number in range(count):
        start = _START.fullmatch(lines[place] if place < len(lines) else "")
        if start is None or int(start["number"]) != number:
            raise ValueError(f"model {number} of {count} does not begin where it should")
        end = place + 1 + int(start["lines"] or 0)
        constant = start["constant"]
        if constant and (not re.fullmatch(_REAL, constant) or not np.isfinite(float(constant))):
            raise ValueError(f"a model is {constant!r:.40}, no finite number")
        models.append(float(constant) if constant else forest_of_lines(lines[place + 1 : end], width))
        place = end
    if lines[place:] != [""]:
        raise ValueError(f"something follows the last of {count} models")
    return tuple(models)


def forest_of_lines(lines: list[str], width: int) -> Forest:
    """Return the model, of `width` features, of some lines; raises a ValueError where a walk could stumble."""
    head = lines[: lines.index("") + 1] if "" in lines else []
    objective = head[6] if len(head) > 6 else ""
    if not _OBJECTIVE.fullmatch(objective) or head != _head(objective, width, average="average_output" in head):
        raise ValueError(f"a model does not begin as one with {width} features does")
    if lines[-len(_END) :] != _END:
        raise ValueError("a model ends too early")
    values, sizes = _trees("".join(f"{line}\n" for line in lines[len(head) : -len(_END)]))
    _check_trees(values, sizes, width)
    return Forest(width, objective.partition("=")[2], "average_output" in head, **values)


Numbers = dict[str, Any]  # for each key one array over all trees


def _trees(text: str) -> tuple[Numbers, Numbers]:
    """Take the text of all trees apart: the numbers of each key, flat, and (trees,) how many of them each tree has."""
    trees: list[re.Match[str]] = []
    while (place := trees[-1].end() if trees else 0) < len(text):
        tree = _TREE.match(text, place)
        if tree is None or int(tree["number"]) != len(trees):
            raise ValueError(
                f"tree {len(trees)} of a model is not laid out as it should be: it lacks a line, or holds something "
                "other than numbers"
            )
        trees.append(tree)
    lists = {key: [tree[key] or "" for tree in trees] for key in (*NUMBERS, *CATEGORIES)}
    sizes = {key: np.array([len(values.split()) for values in own]) for key, own in lists.items()}
    return {key: _numbers(key, own) for key, own in lists.items()}, sizes


def _numbers(key: str, lists: list[str]) -> Any:
    try:
        values = numbers_of(key, " ".join(lists))
    except OverflowError as error:
        raise ValueError(f"{key!r} of a tree is out of range") from error
    if key != "threshold" and not np.isfinite(values).all():  # a split at infinity parts missing values from the rest
        raise ValueError(f"{key!r} of a tree is not finite")
    return values


def _check_trees(values: Numbers, sizes: Numbers, width: int) -> None:
    leaves = values["num_leaves"]
    _require((sizes["num_leaves"] == 1).all() and (sizes["num_cat"] == 1).all(), "a tree has two sizes")
    _require((leaves >= 1).all() and (values["num_cat"] >= 0).all(), "a tree has no leaves")
    for name in ("split_feature", "threshold", "decision_type", "left_child", "right_child"):
        _require(np.array_equal(sizes[name], leaves - 1), f"{name!r} of a tree has the wrong length")
    _require(np.array_equal(sizes["leaf_value"], leaves), "'leaf_value' of a tree has the wrong length")
    _require(_within(values["split_feature"], 0, width - 1), "a tree splits a feature that is not there")
    _require(_within(values["decision_type"], 0, _LARGEST_TYPE), "a tree decides in an unknown way")
    _check_children(values, leaves)
    _check_categories(values, sizes, leaves)


def _check_children(values: Numbers, leaves: Ints) -> None:
    """Every node but the root has one parent, which comes before it, and every leaf has one."""
    nodes = leaves - 1
    tree, starts = np.repeat(np.arange(len(nodes)), nodes), offsets_of(nodes)[:-1].astype(np.int64)
    own = np.arange(int(nodes.sum())) - starts[tree]
    children = np.concatenate([values["left_child"], values["right_child"]])
    tree, parent = np.tile(tree, 2), np.tile(own, 2)
    inner = children >= 0  # a leaf l is written as ~l
    _require((children[inner] > parent[inner]).all(), "a tree leads back to where it came from")
    _require((children < nodes[tree]).all() and (~children < leaves[tree]).all(), "a tree leads out of itself")
    seen = np.bincount((starts[tree] + children)[inner], minlength=len(own))
    _require(np.array_equal(seen, own > 0), "a node of a tree has two parents, or none")
    ends = offsets_of(leaves)[:-1].astype(np.int64)
    seen = np.bincount((ends[tree] + ~children)[~inner], minlength=int(leaves.sum()))
    alone = np.repeat(leaves == 1, leaves)
    _require(np.array_equal(seen, ~alone), "a leaf of a tree has two parents, or none")


def _check_categories(values: Numbers, sizes: Numbers, leaves: Ints) -> None:
    number = values["num_cat"]
    by_category = (values["decision_type"] & _CATEGORICAL) > 0
    _require(np.array_equal(sizes["cat_boundaries"], np.where(number > 0, number + 1, 0)), "a tree's categories differ")
    _require(not sizes["cat_threshold"][number == 0].any(), "a tree has categories and no split by them")
    chosen = values["threshold"][by_category]
    most = np.repeat(number, leaves - 1)[by_category]
    _require(bool(((chosen >= 0) & (chosen < most) & (chosen == np.floor(chosen))).all()), "a tree lacks a category")
    _require(_within(values["cat_threshold"], 0, 2**32 - 1), "a tree's categories are out of range")
    ends = offsets_of(sizes["cat_boundaries"])
    for tree in np.flatnonzero(number > 0):
        bounds = values["cat_boundaries"][ends[tree] : ends[tree + 1]].tolist()
        rising = all(low <= high for low, high in pairwise(bounds))
        _require(bounds[0] == 0 and rising and bounds[-1] == sizes["cat_threshold"][tree], "a tree's categories differ")


def _within(values: Ints, low: int, high: int) -> bool:
    return bool(((values >= low) & (values <= high)).all())


def _require(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)

"""LightGBM models as text, reduced to what predictions need, and checked before LightGBM sees it.

LightGBM trusts what it reads: a child that points outside its tree, or back to its parent, is followed. So a file is
taken apart here first. Every line has its place, every list its length, every number its range, and every tree is a
tree. A file holds one model after another, each a number or the number of lines that follow:

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

from nasheval.arrays import Bools, Floats, Ints, offsets_of
from nasheval.store.plain import unsavable

if TYPE_CHECKING:
    from lightgbm import Booster

_OBJECTIVES = ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "poisson", "gamma", "tweedie")
_OBJECTIVE = re.compile(rf"objective=({'|'.join(_OBJECTIVES)})( sqrt)?( tweedie_variance_power:[.0-9]+)?")
_WHOLE = ("num_leaves", "num_cat", "split_feature", "decision_type", "left_child", "right_child")
_REAL = ("threshold", "leaf_value")
_CATEGORIES = ("cat_boundaries", "cat_threshold")
_FIRST = (
    "num_leaves", "num_cat", "split_feature", "threshold", "decision_type", "left_child", "right_child", "leaf_value"
)  # fmt: skip
_WHOLE_LIST = re.compile(r"(-?[0-9]+( -?[0-9]+)*)?")
_REAL_LIST = re.compile(r"(-?([0-9.]+(e[-+]?[0-9]+)?|inf)( -?([0-9.]+(e[-+]?[0-9]+)?|inf))*)?")
_START = re.compile(r"model (?P<number>[0-9]{1,9}) (constant (?P<constant>[^ ]+)|lines (?P<lines>[0-9]{1,9}))")
_END = ["end of trees", "", "pandas_categorical:null"]
_CATEGORICAL = 1  # bit of a decision type
_LARGEST_TYPE = 11  # categorical, default left, and three kinds of missing values


# -- writing ----------------------------------------------------------------------------------------------------------


def models_text(models: Sequence[Booster | float], what: str) -> str:
    """Return the text of models, some of which are just a number.

    Args:
        what: what they are called in an error.
    """
    lines: list[str] = []
    for number, model in enumerate(models):
        if isinstance(model, float):
            lines.append(f"model {number} constant {model!r}")
            continue
        own = booster_lines(str(model.model_to_string()), what)
        lines += [f"model {number} lines {len(own)}", *own]
    return "\n".join([*lines, ""])


def booster_lines(text: str, what: str) -> list[str]:
    """Return LightGBM's text of a model, in lines, without what predictions do not need."""
    head, *blocks = text.split("\nend of trees")[0].split("\nTree=")
    told = head.split("\n")
    objective = next((line for line in told if line.startswith("objective=")), "objective=custom")
    if not _OBJECTIVE.fullmatch(objective) or "num_tree_per_iteration=1" not in told or "is_linear=1" in text:
        raise unsavable(what, f"a LightGBM model with linear trees, several classes or {objective}")
    width = next(int(line.removeprefix("max_feature_idx=")) for line in told if line.startswith("max_feature_idx="))
    lines = _head(objective, width + 1, average="average_output" in told)
    for number, block in enumerate(blocks):
        values = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
        kept = [name for name in (*_FIRST, *_CATEGORIES) if name in values]
        lines += [f"Tree={number}", *(f"{name}={values[name]}" for name in kept), "is_linear=0", "shrinkage=1", "", ""]
    return [*lines, *_END]


def _head(objective: str, width: int, average: bool) -> list[str]:
    fixed = ["tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"]
    names, infos = " ".join(f"x{i}" for i in range(width)), " ".join(["none"] * width)
    shape = [f"max_feature_idx={width - 1}", objective, *(["average_output"] if average else [])]
    return [*fixed, *shape, f"feature_names={names}", f"feature_infos={infos}", ""]


# -- reading ----------------------------------------------------------------------------------------------------------


def models_of(text: str, count: int, width: int) -> tuple[Booster | float, ...]:
    """Return the models that `models_text` wrote; raises a ValueError for anything else.

    Args:
        count: how many there must be.
        width: number of features of each.
    """
    lines, found, place = text.split("\n"), [], 0
    for number in range(count):
        told = _START.fullmatch(lines[place] if place < len(lines) else "")
        if told is None or int(told["number"]) != number:
            raise ValueError(f"model {number} of {count} does not begin where it should")
        place += 1
        if told["constant"]:
            found.append(_constant(told["constant"]))
        else:
            found.append(booster_of(lines[place : place + int(told["lines"])], width))
            place += int(told["lines"])
    if lines[place:] != [""]:
        raise ValueError(f"something follows the last of {count} models")
    return tuple(found)


def _constant(told: str) -> float:
    if not _REAL_LIST.fullmatch(told) or not np.isfinite(float(told)):
        raise ValueError(f"a model is {told!r:.40}, no finite number")
    return float(told)


def booster_of(lines: list[str], width: int) -> Booster:
    """Return the model of some lines, checked; raises a ValueError where LightGBM could stumble.

    Args:
        width: number of features.
    """
    import lightgbm as lgb

    head = lines[: lines.index("") + 1] if "" in lines else []
    objective = head[6] if len(head) > 6 else ""
    if not _OBJECTIVE.fullmatch(objective) or head != _head(objective, width, average="average_output" in head):
        raise ValueError(f"a model does not begin as one with {width} features does")
    if lines[-len(_END) :] != _END:
        raise ValueError("a model ends too early")
    _check_trees(_Trees.of(lines[len(head) : -len(_END)]), width)
    try:
        return lgb.Booster(model_str="\n".join([*lines, ""]))
    except lgb.basic.LightGBMError as error:
        raise ValueError(f"LightGBM cannot read a model ({error})") from error


class _Trees:
    """The numbers of several trees, flat.

    Args:
        values: for each key one array over all trees.
        sizes: for each key (trees,) how many of them each tree has.
    """

    def __init__(self, values: dict[str, Any], sizes: dict[str, Ints]) -> None:
        self.values, self.sizes = values, sizes

    @staticmethod
    def of(lines: list[str]) -> _Trees:
        """Take the lines of all trees apart."""
        told: dict[str, list[str]] = {name: [] for name in (*_FIRST, *_CATEGORIES)}
        place, number = 0, 0
        while place < len(lines):
            categories = _CATEGORIES if lines[place + 2 : place + 3] != ["num_cat=0"] else ()
            keys = (*_FIRST, *categories)
            block = lines[place : place + len(keys) + 5]
            if block[:1] != [f"Tree={number}"] or block[len(keys) + 1 :] != ["is_linear=0", "shrinkage=1", "", ""]:
                raise ValueError(f"tree {number} of a model is not laid out as it should be")
            for name, line in zip(keys, block[1:], strict=False):
                if not line.startswith(f"{name}="):
                    raise ValueError(f"tree {number} of a model lacks {name!r}")
                told[name].append(line[len(name) + 1 :])
            for name in set(_CATEGORIES) - set(keys):
                told[name].append("")
            place, number = place + len(block), number + 1
        return _Trees({k: _numbers(k, v) for k, v in told.items()}, {k: _counts(v) for k, v in told.items()})


def _numbers(name: str, told: list[str]) -> Any:
    joined, whole = " ".join(value for value in told if value), name not in _REAL
    if not (_WHOLE_LIST if whole else _REAL_LIST).fullmatch(joined):
        raise ValueError(f"{name!r} of a tree holds something other than numbers")
    found = np.array(joined.split(), np.int64 if whole else np.float64)
    if name != "threshold" and not np.isfinite(found).all():  # a split at infinity parts missing values from the rest
        raise ValueError(f"{name!r} of a tree is not finite")
    return found


def _counts(told: list[str]) -> Ints:
    return np.array([value.count(" ") + 1 if value else 0 for value in told], np.int64)


def _check_trees(trees: _Trees, width: int) -> None:
    values, sizes = trees.values, trees.sizes
    leaves = values["num_leaves"]
    _require((sizes["num_leaves"] == 1).all() and (sizes["num_cat"] == 1).all(), "a tree has two sizes")
    _require((leaves >= 1).all() and (values["num_cat"] >= 0).all(), "a tree has no leaves")
    for name in ("split_feature", "threshold", "decision_type", "left_child", "right_child"):
        _require(np.array_equal(sizes[name], leaves - 1), f"{name!r} of a tree has the wrong length")
    _require(np.array_equal(sizes["leaf_value"], leaves), "'leaf_value' of a tree has the wrong length")
    _require(_within(values["split_feature"], 0, width - 1), "a tree splits a feature that is not there")
    _require(_within(values["decision_type"], 0, _LARGEST_TYPE), "a tree decides in an unknown way")
    _check_children(values, leaves)
    _check_categories(trees, leaves)


def _check_children(values: dict[str, Any], leaves: Ints) -> None:
    """Every node but the root has one parent, which comes before it, and every leaf has one."""
    nodes = leaves - 1
    tree, starts = np.repeat(np.arange(len(nodes)), nodes), offsets_of(nodes)[:-1].astype(np.int64)
    own = np.arange(int(nodes.sum())) - starts[tree]
    children = np.concatenate([values["left_child"], values["right_child"]])
    tree, parent = np.tile(tree, 2), np.tile(own, 2)
    inner = children >= 0  # a leaf l is told as ~l
    _require((children[inner] > parent[inner]).all(), "a tree leads back to where it came from")
    _require((children < nodes[tree]).all() and (~children < leaves[tree]).all(), "a tree leads out of itself")
    seen = np.bincount((starts[tree] + children)[inner], minlength=len(own))
    _require(np.array_equal(seen, own > 0), "a node of a tree has two parents, or none")
    ends = offsets_of(leaves)[:-1].astype(np.int64)
    seen = np.bincount((ends[tree] + ~children)[~inner], minlength=int(leaves.sum()))
    alone = np.repeat(leaves == 1, leaves)
    _require(np.array_equal(seen, ~alone), "a leaf of a tree has two parents, or none")


def _check_categories(trees: _Trees, leaves: Ints) -> None:
    values, sizes, number = trees.values, trees.sizes, trees.values["num_cat"]
    by_category: Bools = (values["decision_type"] & _CATEGORICAL) > 0
    _require(np.array_equal(sizes["cat_boundaries"], np.where(number > 0, number + 1, 0)), "a tree's categories differ")
    chosen: Floats = values["threshold"][by_category]
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

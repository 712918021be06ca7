"""Models of trees packed for compiled code: several side by side, or one model of (x, j, k) at all pairs of agents."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nasheval.arrays import Array, Bools, Floats, Ints, offsets_of, runs
from nasheval.forests.forest import Forest

# A node asks for the feature what >> 4 and decides by what & 15, LightGBM's decision type: numbers go left up to `cut`,
# categories where they are among the bits of the `cut` words from `low` on. A child below 0 is ~leaf.
_NODE = np.dtype([("cut", "f4"), ("what", "i4"), ("left", "i4"), ("right", "i4"), ("low", "i4")], align=True)
_CATEGORICAL = 1
_ZERO = np.float32(1e-35)  # what LightGBM takes for zero
_DEPTH = 6  # steps through a tree, roughly


@dataclass(frozen=True, eq=False)
class Packed:
    """Models side by side; a number is a tree of one leaf.

    Args:
        nodes, words, values, roots: of all trees; a root below 0 is ~leaf.
        trees: (models + 1,) where the trees of each model begin.
        links, divisors: (models,) what is made of the sum of its trees.
        width: number of features; 0 where all models are numbers.
    """

    nodes: Array
    words: Ints
    values: Floats
    roots: Ints
    trees: Ints
    links: Ints
    divisors: Floats
    width: int

    @staticmethod
    def of(models: Sequence[Forest | float]) -> Packed:
        """Pack models and numbers."""
        forests = [model for model in models if isinstance(model, Forest)]
        numbers = np.array([model for model in models if not isinstance(model, Forest)], np.float64)
        nodes, words, values, roots = _joined(forests)
        is_forest = np.array([isinstance(model, Forest) for model in models], bool)
        sizes = np.ones(len(models), np.int64)
        sizes[is_forest] = [forest.n_trees for forest in forests]
        of_forest = np.repeat(is_forest, sizes)
        all_roots = np.empty(len(of_forest), np.int32)
        all_roots[of_forest], all_roots[~of_forest] = roots, ~(len(values) + np.arange(len(numbers)))
        links, divisors = np.zeros(len(models), np.int8), np.ones(len(models))
        links[is_forest] = [forest.link for forest in forests]
        divisors[is_forest] = [max(1, forest.n_trees) if forest.average else 1 for forest in forests]
        trees, width = offsets_of(sizes).astype(np.int64), forests[0].width if forests else 0
        return Packed(nodes, words, np.append(values, numbers), all_roots, trees, links, divisors, width)

    def part(self, start: int, stop: int) -> Packed:
        """Return the models start, ..., stop - 1, on the same memory."""
        first, last = self.trees[start], self.trees[stop]
        of_models = self.links[start:stop], self.divisors[start:stop]
        trees = self.trees[start : stop + 1] - first
        return Packed(self.nodes, self.words, self.values, self.roots[first:last], trees, *of_models, self.width)

    @cached_property
    def grown(self) -> Bools:
        """(models,) whether a prediction takes a walk; the others are numbers whatever the row is."""
        splits = offsets_of((self.roots >= 0).astype(np.int64))
        return (self.links > 0) | (np.diff(splits[self.trees]) > 0)

    @cached_property
    def _numbers(self) -> Floats:
        """(models,) the predictions of those that are numbers."""
        numbers, fixed = np.zeros(len(self.links)), np.flatnonzero(~self.grown)
        sizes = np.diff(self.trees)[fixed]
        for tree in range(int(sizes.max(initial=0))):  # one after another, as compiled code adds them up
            has = fixed[sizes > tree]
            numbers[has] += self.values[~self.roots[self.trees[has] + tree]]
        return numbers / self.divisors

    def predict(self, table: Floats) -> Floats:
        """Return (n, models) predictions at the rows of a table."""
        return self.means(table, 1, -np.inf, np.inf)

    def means(self, table: Floats, folds: int, low: float, high: float) -> Floats:
        """Return (n, models / folds) means over the folds, of models that stand fold by fold, clipped before.

        Args:
            low, high: to which each prediction is clipped.
        """
        n, columns = len(table), len(self.links) // folds
        if n == 1 and not (self.links.any() or walks_are_compiled()):
            values = self._one(as_lightgbm_sees(table, self.width) if self.width else table)
            return _mean(np.clip(values, low, high).reshape(folds, columns))[None]
        grown, numbers = self._columns(folds, low, high)
        out = np.empty((n, columns))
        out[:] = numbers
        if len(grown):
            from nasheval.forests.kernels import walk_means
            from nasheval.game.compiled import spread

            work = _DEPTH * n * len(self.roots) / columns
            spread(walk_means, len(grown), work, *self._model(table), grown, folds, low, high, out)
        return out

    def _columns(self, folds: int, low: float, high: float) -> tuple[Ints, Floats]:
        """Return the columns that take a walk in some fold, and (columns,) the means of the others."""
        if (folds, low, high) not in self._known:
            grown = self.grown.reshape(folds, -1).any(axis=0)
            numbers = np.clip(self._numbers, low, high).reshape(folds, -1)
            self._known[folds, low, high] = np.flatnonzero(grown), _mean(numbers)
        return self._known[folds, low, high]

    @cached_property
    def _known(self) -> dict[tuple[int, float, float], tuple[Ints, Floats]]:
        return {}

    def cells(self, table: Floats, rows: Ints, models: Ints) -> Floats:
        """Return (cells,) predictions of models[i] at rows[i] of a table."""
        from nasheval.forests.kernels import walk
        from nasheval.game.compiled import spread

        order, out = np.argsort(models, kind="stable"), np.empty(len(rows))
        ends = offsets_of(np.bincount(models, minlength=len(self.links))).astype(np.int64)
        work = _DEPTH * len(self.roots) * len(out) / max(1, len(self.links)) ** 2
        spread(walk, len(self.links), work, *self._model(table), ends, rows[order].astype(np.int64), order, out)
        return out

    def _model(self, table: Floats) -> tuple[Array, ...]:
        """Return the first arguments of compiled code."""
        seen = as_lightgbm_sees(table if self.width else table[:, :0], self.width)
        return seen, self.nodes, self.words, self.values, self.roots, self.trees, self.links, self.divisors

    def _one(self, table: Floats) -> Floats:
        """Return (1, models) the same predictions at one row, without compiled code."""
        left, _ = self.ways(table)
        following, place = np.where(left, self.nodes["left"], self.nodes["right"]), self.roots
        while (place >= 0).any():
            place = np.where(place >= 0, following[np.maximum(place, 0)], place)
        leaves, sizes, total = self.values[~place], np.diff(self.trees), np.zeros((1, len(self.links)))
        for tree in range(int(sizes.max(initial=0))):  # one after another, as compiled code adds them up
            has = np.flatnonzero(sizes > tree)
            total[0, has] += leaves[self.trees[has] + tree]
        return total / self.divisors

    def ways(self, table: Floats) -> tuple[Bools, Bools]:
        """Return (nodes,) whether each goes left at a table of one row, and right; both where it has no such column."""
        column = self.nodes["what"] >> 4
        known = column < table.shape[1]
        left = np.ones(len(column), bool)
        left[known] = goes_left(self.nodes[known], table[0, column[known], None], self.words)[:, 0]
        return left, ~(left & known)


@dataclass(frozen=True, eq=False)
class AtPairs:
    """One model of (x, j, k), its last two features the agents j < k, evaluated beforehand at pairs of agents.

    Of the nodes only those that ask for x are left to decide. The pairs that the others lead to the same leaves,
    whatever x is, are one group.

    Args:
        packed: the model.
        group_of: (trees, pairs) the group of each pair.
        ends, groups: (leaves + 1,) where the groups that reach each leaf begin in `groups`.
        most: the largest number of groups of a tree.
        tree_of: (leaves,) the tree of each leaf.
    """

    packed: Packed
    group_of: Ints
    ends: Ints
    groups: Ints
    most: int
    tree_of: Ints

    @staticmethod
    def of(forest: Forest, j: Ints, k: Ints) -> AtPairs:
        """Evaluate a model at the pairs (j[i], k[i])."""
        packed, most = Packed.of([forest]), int(max(j.max(initial=0), k.max(initial=0))) + 1
        reached = [_reached(packed, feature, most)[1] for feature in (forest.width - 2, forest.width - 1)]
        ends = offsets_of(forest.num_leaves)
        kind = np.uint16 if len(j) < 1 << 16 else np.uint32
        group_of, leaves, groups = np.empty((forest.n_trees, len(j)), kind), [], []
        for tree in range(forest.n_trees):
            own = slice(int(ends[tree]), int(ends[tree + 1]))
            inside = reached[0][own][:, j] & reached[1][own][:, k]
            first, group_of[tree] = _equal_columns(inside)
            leaf, group = np.nonzero(inside[:, first])
            leaves.append(np.bincount(leaf, minlength=own.stop - own.start))
            groups.append(group.astype(kind))
        tree_of = np.repeat(np.arange(forest.n_trees), forest.num_leaves)
        joined = np.concatenate([*groups, np.zeros(0, kind)])
        starts = offsets_of(np.concatenate([*leaves, np.zeros(0, np.int64)])).astype(np.int64)
        return AtPairs(packed, group_of, starts, joined, int(group_of.max(initial=0)) + 1, tree_of)

    def predict(self, table: Floats, out: Floats) -> None:
        """Write the predictions at the rows of a table of x, one column per pair, into `out`."""
        trees, x = self.packed, as_lightgbm_sees(table, self.packed.width - 2)
        if len(table) == 1 and not (trees.links.any() or walks_are_compiled()):
            out[0] = self._one(x) / trees.divisors
            return
        from nasheval.forests.kernels import walk_pairs
        from nasheval.game.compiled import spread

        model = trees.nodes, trees.words, trees.values, trees.roots, int(trees.links[0]), float(trees.divisors[0])
        at = self.group_of, self.ends, self.groups, self.most
        spread(walk_pairs, len(table), 3.0 * self.group_of.size, x, *model, *at, out)

    def of_agents(self, table: Floats, rows: Ints, agents: Ints, offsets: Ints, places: Ints) -> Floats:
        """Return what `predict` says of the pairs of agents[i] at rows[i] of a table, one after another.

        Args:
            offsets, places: places[offsets[a]:offsets[a + 1]] are the pairs of agent a.
        """
        from nasheval.forests.kernels import walk_agents
        from nasheval.game.compiled import spread

        trees, x = self.packed, as_lightgbm_sees(table, self.packed.width - 2)
        first = offsets_of(np.diff(offsets)[agents]).astype(np.int64)
        out = np.empty(int(first[-1]))
        model = trees.nodes, trees.words, trees.values, trees.roots, int(trees.links[0]), float(trees.divisors[0])
        at = self.group_of, self.ends, self.groups, self.most, *self._near(len(offsets) - 1)
        work = _DEPTH * len(self.group_of) * (1.0 + len(out) / max(1, len(rows)))
        spread(walk_agents, len(rows), work, x, *model, *at, rows, agents, offsets, places, first, out)
        return out

    def _near(self, n_agents: int) -> tuple[Bools, Bools]:
        """Return (K, nodes) and (K, leaves) whether some pair of an agent may be led there."""
        if n_agents not in self._known_near:
            j, k = (_reached(self.packed, self.packed.width - back, n_agents) for back in (2, 1))
            nodes, leaves = (np.ascontiguousarray((first | second).T) for first, second in zip(j, k, strict=True))
            self._known_near[n_agents] = nodes, leaves
        return self._known_near[n_agents]

    @cached_property
    def _known_near(self) -> dict[int, tuple[Bools, Bools]]:
        return {}

    def _one(self, table: Floats) -> Floats:
        """Return (pairs,) the sums of the trees at one row, without compiled code."""
        left, right = self.packed.ways(table)
        nodes, level, reached = self.packed.nodes, self.packed.roots, []
        while len(level):
            reached.append(~level[level < 0])
            at = level[level >= 0]
            level = np.concatenate([nodes["left"][at[left[at]]], nodes["right"][at[right[at]]]])
        leaves = np.concatenate([*reached, np.zeros(0, np.int64)])
        sizes = self.ends[leaves + 1] - self.ends[leaves]
        own, total = np.zeros((len(self.group_of), self.most)), np.zeros(self.group_of.shape[1])
        places = np.repeat(self.tree_of[leaves], sizes), self.groups[runs(self.ends[leaves], sizes)]
        own[places] = np.repeat(self.packed.values[leaves], sizes)
        for tree, group in enumerate(self.group_of):  # one after another, as compiled code adds them up
            total += own[tree, group]
        return total


def _mean(values: Floats) -> Floats:
    """Return (columns,) the mean over folds, given (folds, columns), added up from the first to the last."""
    return np.asarray(np.add.accumulate(values, axis=0)[-1] / len(values))


def walks_are_compiled() -> bool:
    """Tell whether compiled code is at hand; loading it takes a second, which one context does not."""
    return "nasheval.forests.kernels" in sys.modules


def as_lightgbm_sees(table: Floats, width: int) -> Floats:
    """Return a table of `width` features as 32-bit numbers, those next to zero as zero."""
    if table.shape[1] != width:  # compiled code would read past its end
        raise ValueError(f"a table of {table.shape[1]} features for trees of {width}")
    if table.dtype != np.float32:
        with np.errstate(over="ignore"):
            table = table.astype(np.float32)
    return np.where(np.abs(table) <= _ZERO, np.float32(0), table)


def _joined(forests: Sequence[Forest]) -> tuple[Array, Ints, Floats, Ints]:
    """Return the nodes, words of category sets, leaf values and roots of all trees of some models."""

    def flat(name: str, kind: type) -> Array:
        return np.concatenate([*(getattr(forest, name) for forest in forests), np.zeros(0, kind)]).astype(kind)

    leaves = flat("num_leaves", np.int64)
    inner = leaves - 1
    first_node, first_leaf = offsets_of(inner)[:-1].astype(np.int64), offsets_of(leaves)[:-1].astype(np.int64)
    tree = np.repeat(np.arange(len(leaves)), inner)
    nodes = np.zeros(len(tree), _NODE)
    kind, cut = flat("decision_type", np.int64), flat("threshold", np.float64)
    nodes["what"] = flat("split_feature", np.int64) << 4 | kind
    for side in ("left", "right"):
        child = flat(f"{side}_child", np.int64)
        nodes[side] = np.where(child >= 0, child + first_node[tree], child - first_leaf[tree])
    nodes["cut"] = _rounded_down(cut)
    if (by_set := (kind & _CATEGORICAL) > 0).any():
        low, count = _sets(forests, cut[by_set].astype(np.int64), tree[by_set])
        nodes["low"][by_set], nodes["cut"][by_set] = low, count
    roots = np.where(inner > 0, first_node, ~first_leaf).astype(np.int32)
    return nodes, flat("cat_threshold", np.int64).astype(np.uint32), flat("leaf_value", np.float64), roots


def _sets(forests: Sequence[Forest], number: Ints, tree: Ints) -> tuple[Ints, Ints]:
    """Return where the words of category sets begin, and how many they are, by their number within a tree."""
    sizes = [forest.sizes() for forest in forests]
    first_bound = offsets_of(np.concatenate([own["cat_boundaries"] for own in sizes])).astype(np.int64)
    first_word = offsets_of(np.concatenate([own["cat_threshold"] for own in sizes])).astype(np.int64)
    bounds = np.concatenate([forest.cat_boundaries for forest in forests])
    place = first_bound[tree] + number
    return first_word[tree] + bounds[place], bounds[place + 1] - bounds[place]


def _rounded_down(cut: Floats) -> Floats:
    """Return the largest 32-bit numbers that are no larger: for 32-bit values, the same decisions."""
    with np.errstate(over="ignore"):
        near = cut.astype(np.float32)
    return np.where(near > cut, np.nextafter(near, np.float32(-np.inf)), near)


def _reached(packed: Packed, feature: int, most: int) -> tuple[Bools, Bools]:
    """Return (nodes, most) and (leaves, most) whether a value 0, ..., most - 1 of a feature can lead there."""
    nodes, leaf = packed.nodes, np.ones((len(packed.values), most), bool)
    inside = np.ones((len(nodes), most), bool)
    goes = {"left": inside.copy(), "right": inside.copy()}
    asks = nodes["what"] >> 4 == feature
    goes["left"][asks] = goes_left(nodes[asks], np.arange(most, dtype=np.float32), packed.words)
    goes["right"][asks] = ~goes["left"][asks]
    level = packed.roots[packed.roots >= 0]
    while len(level):
        below = []
        for side, allowed in goes.items():
            child, reach = nodes[side][level], inside[level] & allowed[level]
            inner = child >= 0
            inside[child[inner]], leaf[~child[~inner]] = reach[inner], reach[~inner]
            below.append(child[inner])
        level = np.concatenate(below)
    return inside, leaf


def goes_left(nodes: Array, values: Floats, words: Ints) -> Bools:
    """Return whether each node goes left at values, which broadcast against (nodes, 1); as compiled code decides."""
    kind, cut = nodes["what"][:, None] & 15, nodes["cut"][:, None]
    missing, is_nan = kind >> 2, np.isnan(values)  # 0: nothing is missing, 1: zero is, 2: NaN is
    default = np.where(missing == 2, is_nan, (missing == 1) & (is_nan | (values == 0)))
    by_number = np.where(default, kind & 2 > 0, np.where(is_nan, np.float32(0), values) <= cut)
    if not len(words):
        return by_number
    with np.errstate(invalid="ignore"):
        sound = (values > -1) & (values < 2.0**31)
        code = np.where(sound, values, 0).astype(np.int64)
    place = np.minimum(nodes["low"][:, None] + (code >> 5), len(words) - 1)
    by_set = sound & (code >> 5 < cut) & ((words[place] >> (code & 31).astype(np.uint32)) & 1 > 0)
    return np.where(kind & _CATEGORICAL, by_set, by_number)


def _equal_columns(table: Bools) -> tuple[Ints, Ints]:
    """Return the first of each group of equal columns, and (columns,) the group of each."""
    bits = np.packbits(table, axis=0)
    wide = np.zeros((table.shape[1], -(-len(bits) // 8) * 8), np.uint8)
    wide[:, : len(bits)] = bits.T
    keys = wide.view(np.uint64 if wide.shape[1] == 8 else f"V{wide.shape[1]}").ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first, group.ravel()

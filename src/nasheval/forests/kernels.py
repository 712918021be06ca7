"""Compiled walks through packed trees; see `nasheval.forests.packed` for what the arrays hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nasheval.arrays import Array, Bools, Floats, Ints
from nasheval.game.compiled import compiled


@compiled
def _next(node: Any, value: Any, words: Ints) -> Any:
    """Return the child that LightGBM goes to from a node."""
    kind = node["what"] & 15
    if kind & 1:  # by category: the words of its set begin at `low`, and there are `cut` of them
        if not -1 < value < 2147483648.0:  # no category, or missing
            return node["right"]
        code = int(value)
        inside = code >> 5 < node["cut"] and (words[node["low"] + (code >> 5)] >> (code & 31)) & 1
        return node["left"] if inside else node["right"]
    missing = kind >> 2  # 0: none, 1: zero, 2: NaN
    if value != value:
        if missing == 2:
            return node["left"] if kind & 2 else node["right"]
        value = np.float32(0)
    if missing == 1 and value == 0:
        return node["left"] if kind & 2 else node["right"]
    return node["left"] if value <= node["cut"] else node["right"]


@compiled
def _linked(total: float, link: int) -> float:
    """Return what is made of a sum of trees; the order is that of `LINKS`."""
    if link == 1:
        return total * total if total > 0 else -total * total
    if link == 2:
        return math.exp(total)
    if link == 3:
        return 1.0 / (1.0 + math.exp(-total))
    return total


@compiled
def _said(row: Floats, model: int, nodes: Array, words: Ints, values: Floats, roots: Ints, trees: Ints) -> float:
    """Return the sum of a model's trees at one row, (features,)."""
    total = 0.0
    for tree in range(trees[model], trees[model + 1]):
        place = roots[tree]
        while place >= 0:
            node = nodes[place]
            place = _next(node, row[node["what"] >> 4], words)
        total += values[~place]
    return total


@compiled
def walk(
    start: int, stop: int, table: Floats, nodes: Array, words: Ints, values: Floats, roots: Ints, trees: Ints,
    links: Ints, divisors: Floats, cells: Ints, rows: Ints, places: Ints, out: Floats,
) -> None:  # fmt: skip
    """Write the predictions of models start, ..., stop - 1 into `out`.

    Args:
        table: (n, features) float32.
        trees: (models + 1,) where the trees of each model begin in `roots`.
        cells: (models + 1,) where its cells begin in `rows` and `places`.
        rows, places: of a cell, its row of the table, and its place in `out`.
    """
    for model in range(start, stop):
        for cell in range(cells[model], cells[model + 1]):
            total = _said(table[rows[cell]], model, nodes, words, values, roots, trees)
            out[places[cell]] = _linked(total / divisors[model], links[model])


@compiled
def walk_means(
    start: int, stop: int, table: Floats, nodes: Array, words: Ints, values: Floats, roots: Ints, trees: Ints,
    links: Ints, divisors: Floats, grown: Ints, folds: int, low: float, high: float, out: Floats,
) -> None:  # fmt: skip
    """Write means over folds, each clipped to [low, high], into the columns grown[start], ..., of `out`, (n, columns).

    Models stand fold by fold; the other arrays are those of `walk`.
    """
    width = out.shape[1]
    for column in grown[start:stop]:
        for row in range(len(table)):
            mean = 0.0
            for model in range(column, folds * width, width):
                total = _said(table[row], model, nodes, words, values, roots, trees)
                one = _linked(total / divisors[model], links[model])
                one = low if one < low else high if one > high else one
                mean = one if model == column else mean + one
            out[row, column] = mean / folds


@compiled
def walk_pairs(
    start: int, stop: int, table: Floats, nodes: Array, words: Ints, values: Floats, roots: Ints, link: int,
    divisor: float, group_of: Ints, ends: Ints, groups: Ints, most: int, out: Floats,
) -> None:  # fmt: skip
    """Write the predictions of a model of (x, j, k) at contexts start, ..., stop - 1 and all pairs into `out`.

    Contexts decide where a tree asks for them; where it asks for an agent both ways are gone, and a leaf gives its
    value to the groups of pairs that reach it.

    Args:
        table: (n, features of x) float32.
        group_of: (trees, pairs) the group of each pair.
        ends, groups: (leaves + 1,) where the groups of each leaf begin in `groups`.
        most: the largest number of groups of a tree.
        out: (n, pairs).
    """
    pairs = out.shape[1]
    stack, total, own = np.empty(len(values) + 1, np.int32), np.empty(pairs), np.empty(most)
    for row in range(start, stop):
        total[:] = 0.0
        for tree in range(len(roots)):
            stack[0], top = roots[tree], 1
            while top:
                top -= 1
                place = stack[top]
                while place >= 0:
                    node = nodes[place]
                    column = node["what"] >> 4
                    if column < table.shape[1]:
                        place = _next(node, table[row, column], words)
                    else:
                        stack[top], place = node["right"], node["left"]
                        top += 1
                for i in range(ends[~place], ends[~place + 1]):
                    own[groups[i]] = values[~place]
            for pair in range(pairs):
                total[pair] += own[group_of[tree, pair]]
        for pair in range(pairs):
            out[row, pair] = _linked(total[pair] / divisor, link)


@compiled
def walk_agents(
    start: int, stop: int, table: Floats, nodes: Array, words: Ints, values: Floats, roots: Ints, link: int,
    divisor: float, group_of: Ints, ends: Ints, groups: Ints, most: int, near_nodes: Bools, near_leaves: Bools,
    rows: Ints, agents: Ints, offsets: Ints, places: Ints, first: Ints, out: Floats,
) -> None:  # fmt: skip
    """Write what `walk_pairs` writes, but of the pairs of agents[i] at rows[i] alone, from out[first[i]] on.

    Args:
        near_nodes, near_leaves: (K, nodes) and (K, leaves) whether some pair of an agent may be led there.
        offsets, places: places[offsets[a]:offsets[a + 1]] are the pairs of agent a.
    """
    stack, own = np.empty(len(values) + 1, np.int32), np.empty(most)
    for i in range(start, stop):
        agent, x = agents[i], table[rows[i]]
        mine, total = places[offsets[agent] : offsets[agent + 1]], out[first[i] : first[i + 1]]
        inner, outer = near_nodes[agent], near_leaves[agent]
        total[:] = 0.0
        for tree in range(len(roots) if len(mine) else 0):
            stack[0], top = roots[tree], 1
            while top:
                top -= 1
                place = stack[top]
                while place >= 0:
                    node = nodes[place]
                    column = node["what"] >> 4
                    if column < table.shape[1]:
                        place = _next(node, x[column], words)
                        continue
                    left, right = node["left"], node["right"]
                    goes_right = inner[right] if right >= 0 else outer[~right]
                    if inner[left] if left >= 0 else outer[~left]:
                        place = left
                        if goes_right:
                            stack[top] = right
                            top += 1
                    else:
                        place = right
                for at in range(ends[~place], ends[~place + 1]):
                    own[groups[at]] = values[~place]
            for pair in range(len(mine)):
                total[pair] += own[group_of[tree, mine[pair]]]
        for pair in range(len(mine)):
            total[pair] = _linked(total[pair] / divisor, link)

"""Which menus to ask next: tasks to hand out, each drawn with a probability that is written down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nasheval.arrays import Array, Bools, Floats, Ints, is_whole
from nasheval.contexts.table import as_table
from nasheval.errors import Argument, InputError
from nasheval.files import check_file, whole_file

_MOST_SIZE = 10


@dataclass(frozen=True, eq=False)
class Tasks:
    """Menus to ask, one row per task; what the voters say is filled in, and the file is a log.

    Args:
        table: `task`, the columns of its context, and
            of two agents: `model_a` and `model_b` as they are to be shown, `winner`, empty, and `propensity`;
            of more: one row per agent, `agent`, its `place` as shown, `rank`, empty, and `propensity` of the menu.
        size: agents of a menu.
        floor: the least share of its probability under uniform asking that a pair keeps.
        effective: mean number of pairs that are asked, as uniform asking of so many would spread votes.
    """

    table: pa.Table
    size: int
    floor: float
    effective: float

    def __len__(self) -> int:
        return len(self.table) if self.size == 2 else len(self.table) // self.size

    @property
    def propensity(self) -> Floats:
        """(rows,) the probability with which each row's menu was drawn at its context."""
        return np.asarray(self.table["propensity"])

    def write(self, path: str | Path) -> None:
        """Write the tasks as Parquet."""
        from pyarrow import parquet

        check_file(Path(path), ".parquet")

        with whole_file(Path(path)) as file:
            parquet.write_table(self.table, file)


def draw_pairs(chance: Floats, rng: np.random.Generator) -> Ints:
    """Return (n,) one pair of each row of chances, (n, n_pairs)."""
    ends = np.cumsum(chance, axis=1)
    place = (ends < rng.random(len(chance))[:, None] * ends[:, -1:]).sum(axis=1)
    return np.minimum(place, chance.shape[1] - 1)


def draw_menus(chance: Floats, able: Bools, size: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Return (n, size) the agents of one menu per row, in the order to be shown, and (n,) the chance of each menu.

    A pair is drawn from its chances and filled up with others, all alike; a menu's chance is the sum of those of its
    pairs, over the number of ways to fill a pair up.

    Args:
        chance: (n, n_pairs) rows sum to one.
        able: (n, K) which agents may be asked.
        size: of a menu, at least two.
    """
    n, K = able.shape
    j, k = np.triu_indices(K, 1)
    pair = draw_pairs(chance, rng)
    order = np.where(able, rng.random((n, K)), 2.0)
    order[np.arange(n), j[pair]], order[np.arange(n), k[pair]] = -2.0, -1.0
    menu = np.argsort(order, axis=1)[:, :size]
    menu = np.take_along_axis(menu, np.argsort(rng.random((n, size)), axis=1), axis=1)
    inside = np.zeros((n, K), bool)
    inside[np.arange(n)[:, None], menu] = True
    total = np.where(inside[:, j] & inside[:, k], chance, 0.0).sum(axis=1)
    others = able.sum(axis=1) - 2
    ways = np.ones(n)
    for taken in range(size - 2):
        ways = ways * (others - taken) / (taken + 1)
    return menu, total / ways


def drawn_contexts(pool: pa.Table, n: int, rng: np.random.Generator) -> pa.Table:
    """Return n contexts of a pool at random, each at most once more than any other."""
    rounds = [rng.permutation(len(pool)) for _ in range(-(-n // len(pool)))]
    return pool.take(pa.array(np.concatenate(rounds)[:n])).combine_chunks()


def tasks_of(
    contexts: pa.Table, menu: Ints, propensity: Floats, agents: tuple[str, ...], floor: float, effective: float
) -> Tasks:
    """Return tasks as a table, contexts (n rows), menus (n, size) and their chances (n,)."""
    n, size = menu.shape
    names: Array = np.array(agents, dtype=object)
    taken = {"task", "propensity", *(("model_a", "model_b", "winner") if size == 2 else ("agent", "place", "rank"))}
    if clash := sorted(taken & set(contexts.column_names)):
        raise InputError(f"The contexts have columns named {', '.join(clash)}, which tasks need; rename them.")
    rows = np.repeat(np.arange(n), 1 if size == 2 else size)
    columns: dict[str, Any] = {"task": pa.array([f"t{i:07d}" for i in range(n)]).take(pa.array(rows))}
    columns |= {name: contexts[name].take(pa.array(rows)) for name in contexts.column_names}
    if size == 2:
        columns |= {"model_a": pa.array(names[menu[:, 0]]), "model_b": pa.array(names[menu[:, 1]])}
        columns["winner"] = pa.nulls(n, pa.string())
    else:
        columns |= {"agent": pa.array(names[menu.ravel()]), "place": pa.array(np.tile(np.arange(1, size + 1), n))}
        columns["rank"] = pa.nulls(n * size, pa.int64())
    columns["propensity"] = pa.array(propensity[rows])
    return Tasks(pa.table(columns), size, floor, effective)


def checked_tasks(n: object, size: object, agents: int) -> tuple[int, int]:
    """Return how many tasks to draw, of how many agents each, checked."""
    if not is_whole(n, 1):
        raise InputError(Argument("n", n, flag="--menus"), "; accepted is a whole number of 1 or more.")
    if not is_whole(size, 2, min(agents, _MOST_SIZE)):
        most = min(agents, _MOST_SIZE)
        raise InputError(Argument("size", size), f"; accepted is a number of agents per menu from 2 to {most}.")
    return int(n), int(size)  # type: ignore[call-overload]


def pool_of(contexts: object, own: pa.Table, needed: list[str]) -> pa.Table:
    """Return the contexts to ask at: those that are given, with the columns the model knows, or those of its log."""
    if contexts is None:
        return own
    table = as_table(contexts)
    if missing := [name for name in needed if name not in table.column_names]:
        raise InputError(
            f"The contexts to ask at have no column {', '.join(map(repr, missing))}, which the model knows."
        )
    if not len(table):
        raise InputError("There is no context to ask at; give a table with at least one row.")
    return table

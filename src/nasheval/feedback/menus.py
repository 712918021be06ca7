"""The menu catalogue Q: which sets of agents were compared, in which form, how often."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from math import prod

import numpy as np

from nasheval.arrays import Ints, offsets_of, pair_index, readonly, runs
from nasheval.feedback.partition import Zero
from nasheval.feedback.records import Records

# Forms of a question. E[Z] differs between them on the same agents, so they are part of a menu's key.
ORDER, BEST_WORST, PARTIAL = 0, -1, -2  # rank all (ties allowed); best and worst; rank as many as you like
# A form r > 0 is the question "choose the best r".

OFTEN = 30  # times that a menu must be asked for a payoff that averages over menus

_DENSE = 1 << 22  # keys below this are counted in a table rather than sorted


@dataclass(frozen=True)
class PairColumns:
    """One column for each pair j < k of each menu: how outcome regressions mu^m_jk are laid out.

    Args:
        offsets: (M + 1,) columns of menu m are offsets[m]:offsets[m + 1], in the order (0, 1), (0, 2), ..., (1, 2), ...
        menu: (P,) menu of each column, ascending.
        left, right: (P,) where its agents stand in the catalogue's `agent`.
        j, k: (P,) its agents, j < k.
        pair: (P,) the number of that pair among all pairs of agents (`pair_index`).
    """

    offsets: Ints
    menu: Ints
    left: Ints
    right: Ints
    j: Ints
    k: Ints
    pair: Ints

    def __len__(self) -> int:
        return len(self.menu)


@dataclass(frozen=True)
class MenuCatalogue:
    """The menus of a log, each a set of agents and a form of question.

    Args:
        offsets: (M + 1,) agents of menu m are agent[offsets[m]:offsets[m + 1]].
        agent: agent numbers, ascending inside a menu.
        form: (M,) ORDER, BEST_WORST, PARTIAL, or r for "choose the best r".
        of_record: (n,) the menu of each record.
        n_agents: K.
    """

    offsets: Ints
    agent: Ints
    form: Ints
    of_record: Ints
    n_agents: int

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "n_agents":
                object.__setattr__(self, field.name, readonly(getattr(self, field.name)))

    def __len__(self) -> int:
        return len(self.form)

    @property
    def sizes(self) -> Ints:
        """(M,) number of agents in each menu."""
        return np.diff(self.offsets)

    @cached_property
    def counts(self) -> Ints:
        """(M,) number of records on each menu."""
        return readonly(np.bincount(self.of_record, minlength=len(self)))

    def members(self, menu: int) -> Ints:
        """Return the agent numbers of one menu."""
        return self.agent[self.offsets[menu] : self.offsets[menu + 1]]

    @cached_property
    def columns(self) -> PairColumns:
        """The pairs of every menu, one column each."""
        sizes = self.sizes.astype(np.int64)
        offsets = offsets_of(sizes * (sizes - 1) // 2)
        left, right = np.empty(int(offsets[-1]), np.int64), np.empty(int(offsets[-1]), np.int64)
        for size in sorted(set(sizes.tolist())):  # `np.unique` would import masked arrays
            rows = np.flatnonzero(sizes == size)
            one, other = np.triu_indices(size, 1)
            place = offsets[rows][:, None] + np.arange(len(one))
            left[place], right[place] = self.offsets[rows][:, None] + one, self.offsets[rows][:, None] + other
        j, k = self.agent[left].astype(np.int64), self.agent[right].astype(np.int64)
        menu = np.repeat(np.arange(len(self)), np.diff(offsets))
        return PairColumns(offsets, menu, left, right, j, k, pair_index(j, k, self.n_agents))

    @cached_property
    def column_of_verdict(self) -> Ints:
        """The column of each pair verdict of the log, verdicts in the order of `pair_verdicts`."""
        offsets = self.columns.offsets
        return runs(offsets[:-1][self.of_record], np.diff(offsets)[self.of_record])


def catalogue(records: Records, n_agents: int) -> MenuCatalogue:
    """List the distinct (agents, form) of the records, smallest menus first, then by agents, then by form."""
    form = forms(records)
    of_record = np.zeros(len(records), np.int32)
    sizes, agents, menu_form, n_menus = [], [], [], 0
    for rows, entries in records.by_size():
        members, asked, place = _distinct(records.agent[entries], form[rows], n_agents)
        of_record[rows] = place + n_menus
        n_menus += len(asked)
        sizes.append(np.full(len(asked), entries.shape[1]))
        agents.append(members.ravel())
        menu_form.append(asked)
    joined = [np.concatenate(column) if column else np.zeros(0, np.int16) for column in (sizes, agents, menu_form)]
    return MenuCatalogue(offsets_of(joined[0]), joined[1], joined[2], of_record, n_agents)


def forms(records: Records) -> Ints:
    """Return the form of question behind each record, read off its blocks and its `Zero` code."""
    form = np.where(records.zero == Zero.LAST, PARTIAL, ORDER).astype(np.int16)
    censored = np.flatnonzero(records.zero == Zero.CENSORED)
    if len(censored):
        starts, sizes = records.offsets[:-1][censored], records.sizes[censored]
        blocks = records.block[runs(starts, sizes)]
        owner = np.repeat(np.arange(len(censored)), sizes)
        three = np.bincount(owner[blocks == 2], minlength=len(censored)) > 0
        chosen = np.bincount(owner[blocks == 0], minlength=len(censored))
        form[censored] = np.where(three, BEST_WORST, chosen)
    return form


def _distinct(members: Ints, form: Ints, n_agents: int) -> tuple[Ints, Ints, Ints]:
    """Return the distinct rows of (agents, form), and for each input row which of them it is."""
    low, high = int(form.min(initial=0)), int(form.max(initial=0))
    radix = [*([n_agents] * members.shape[1]), high - low + 1]
    bound = prod(radix)  # exact, where a float would overflow on a menu of 200
    if bound >= 2**62:
        rows, place = np.unique(np.column_stack([members, form]), axis=0, return_inverse=True)
        return rows[:, :-1], rows[:, -1].astype(np.int16), place.ravel()
    key = np.ravel_multi_index([*members.T, form - low], radix)
    if bound > min(_DENSE, 8 * len(key)):
        keys, place = np.unique(key, return_inverse=True)
    else:
        present = np.bincount(key, minlength=bound) > 0
        keys, place = np.flatnonzero(present), (np.cumsum(present) - 1)[key]
    *columns, asked = np.unravel_index(keys, radix)
    return np.stack(columns, axis=1).astype(members.dtype), (asked + low).astype(np.int16), place

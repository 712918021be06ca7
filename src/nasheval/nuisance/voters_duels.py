"""What the voters of several models say of two agents, without a transcendental per pair.

With s = exp(u / 2), the margin of a Davidson duel between agents j and k is

    (s_j^2 - s_k^2) / (s_j^2 + s_k^2 + nu s_j s_k + bad),

where nu weighs ties and bad weighs "both are bad"; nu = bad = 0 is Plackett-Luce. It is evaluated in NumPy at one
context, and compiled at many or where the compiled form is loaded: the same operations in the same order, so that both
give the same bits.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, offsets_of

_COMPILED = "nasheval.nuisance.voters_compiled"
LARGEST = 40.0  # of log s around the middle of the utilities: s^2 stays a normal number
_COST = 6.0  # operations of one margin, roughly
_GAP = 8  # margins that take as long as a new run: shorter gaps in a run are filled


def is_compiled() -> bool:
    """Tell whether the compiled form is loaded."""
    return _COMPILED in sys.modules


@dataclass(frozen=True, eq=False)
class Pairs:
    """Columns of answers, each on two agents.

    Args:
        column: (c,) ascending.
        left, right: (c,) the agents.
    """

    column: Ints
    left: Ints
    right: Ints

    @cached_property
    def runs(self) -> Ints:
        """(runs, 4) first place, left, right and length of stretches of one left agent and consecutive right ones.

        A gap of a few right agents is part of its run; `place` tells which places hold the columns.
        """
        last = np.append(self._starts[1:], len(self.column))[: len(self._starts)] - 1
        length = self.right[last] - self.right[self._starts] + 1
        first = offsets_of(length)[:-1]
        return np.stack([first, self.left[self._starts], self.right[self._starts], length], axis=1).astype(np.int64)

    @cached_property
    def place(self) -> Ints:
        """(c,) the place of each column in the runs, laid end to end."""
        size = np.diff(np.append(self._starts, len(self.column)))
        return np.asarray(np.repeat(self.runs[:, 0] - self.runs[:, 2], size) + self.right)

    @cached_property
    def _starts(self) -> Ints:
        """The columns that begin a run."""
        ahead = np.diff(self.right)
        joined = (np.diff(self.left) == 0) & (ahead > 0) & (ahead <= _GAP)
        return np.flatnonzero(np.concatenate([[True], ~joined]))[: len(self.column)]


@dataclass(frozen=True, eq=False)
class Electorate:
    """The voters of F folds with M members of V voters each, at n contexts.

    Args:
        s: (F, M, n, V, K) exp of half the utilities, around `middle`.
        middle: (F, M, n, V) the middle of each voter's utilities.
        weight: (F, M, V) shares, summing to one in a fold.
        lean: (F, M, n, V) lean to ties.
        tie: (F, M, T) log tie weights.
    """

    s: Floats
    middle: Floats
    weight: Floats
    lean: Floats
    tie: Floats

    @staticmethod
    def of(u: Floats, weight: Floats, lean: Floats, tie: Floats) -> Electorate:
        """Return the voters with utilities u, (F, M, n, V, K), which are overwritten."""
        u, middle = _centred(u) if is_compiled() else _centred_in_numpy(u)
        return Electorate(np.exp(u, out=u), middle, weight, lean, tie)

    @staticmethod
    def of_one(out: Floats, taste: Floats, lean: Floats, weight: Floats, tie: Floats) -> Electorate:
        """Return the voters at one context, with the bits of `of`, from what their networks put out (`Stack`)."""
        from nasheval.nuisance.voters_compiled import halves_of_one

        folds, members, voters = weight.shape
        u = np.empty((folds, members, 1, voters, taste.shape[3]), np.float32)
        middle, leaning = np.empty((2, folds, members, 1, voters), np.float32)
        halves_of_one(out, taste, lean, LARGEST, u, middle, leaning)
        return Electorate(np.exp(u, out=u), middle, weight, leaning, tie)

    def duels(self, pairs: Pairs, nu: Floats, bad: Floats) -> Floats:
        """Return (n, c) the sum over folds of what their voters say of the pairs, float64.

        Args:
            nu, bad: (F, M, n, V).
        """
        n = self.s.shape[2]
        if n == 1 and not is_compiled():
            return self._in_numpy(pairs, nu, bad)
        from nasheval.nuisance.voters_compiled import duel_contexts, spread

        total = np.empty((n, len(pairs.column)))
        work = _COST * self.weight.size * len(pairs.column)
        spread(duel_contexts, n, work, self.s, nu, bad, self.weight, pairs.runs, pairs.place, total)
        return total

    def of_agents(self, rows: Ints, agents: Ints, nu: Floats, bad: Floats) -> Floats:
        """Return (m, K) what `duels` would say of agents[i] against every agent, at the context rows[i]."""
        from nasheval.nuisance.voters_compiled import duel_agents, spread

        total = np.empty((len(rows), self.s.shape[-1]))
        work = _COST * self.weight.size * total.shape[1]
        spread(duel_agents, len(rows), work, self.s, nu, bad, self.weight, rows, agents, total)
        return total

    def favourites(self, up: Bools) -> Ints:
        """Return (n,) who of some agents, (K,), wins most often against one in the middle of each voter's utilities."""
        from nasheval.nuisance.voters_compiled import favour, spread

        favourite = np.empty(self.s.shape[2], np.int64)
        spread(favour, len(favourite), 2.0 * self.weight.size * len(up), self.s, self.weight, up, favourite)
        return favourite

    def _in_numpy(self, pairs: Pairs, nu: Floats, bad: Floats) -> Floats:
        folds, agents = len(self.s), self.s.shape[-1]
        s = self.s.reshape(folds, -1, agents)
        nu, bad, weight = (values.reshape(folds, -1, 1) for values in (nu, bad, self.weight))
        left, right = s[..., pairs.left], s[..., pairs.right]
        both = left * right
        left *= left
        right *= right
        with np.errstate(over="ignore"):
            both *= nu
            margin = left - right
            left += right
            left += both
            left += bad
        margin /= left
        margin *= weight
        each = np.add.reduce(margin, axis=1)
        return np.asarray(np.add.reduce(each.astype(np.float64), axis=0)[None])


def _centred(u: Floats) -> tuple[Floats, Floats]:
    """Return half of what utilities (..., K) are off the middle of their row, cut at LARGEST, and the middles (...)."""
    from nasheval.nuisance.voters_compiled import centre

    u, middle = np.ascontiguousarray(u), np.empty(u.shape[:-1], u.dtype)
    centre(u.reshape(-1, u.shape[-1]), middle.reshape(-1), LARGEST)
    return u, middle


def _centred_in_numpy(u: Floats) -> tuple[Floats, Floats]:
    """Return the same bits without compiled code; u is overwritten."""
    middle = np.maximum.reduce(u, axis=-1)  # `u.max` takes longer to call
    middle += np.minimum.reduce(u, axis=-1)
    middle *= np.float32(0.5)
    u -= middle[..., None]
    u *= np.float32(0.5)
    return np.minimum(np.maximum(u, np.float32(-LARGEST), out=u), np.float32(LARGEST), out=u), middle

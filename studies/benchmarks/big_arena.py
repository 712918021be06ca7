"""An arena with known truth that is drawn as fast as it is read: millions of votes on hundreds of agents.

Contexts are 20 numbers in [-1, 1] and a group of five. Voters of three types give agent j at context x a utility that
is linear in a few numbers of x, their bends and the group, and prefer j to k with probability sigmoid(u_j - u_k); a
tenth of verdicts are ties. Which pair is asked depends on the context: each group, on either side of the first number,
asks a fifth of the agents four times as often. Nothing loops over votes, agents or pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import nasheval as ne
from studies.arrays import Array, Floats

COLUMNS, GROUP = 20, "group"
GROUPS = ("code", "law", "letters", "sums", "travel")
NUMBERS = tuple(f"x{c:02d}" for c in range(COLUMNS))
TYPES, TIES, OFTEN = np.array([0.5, 0.3, 0.2]), 0.1, 4.0
_CHUNK = 500_000  # votes drawn at a time
_SCALES = np.r_[0.8, np.full(5, 0.4), 0.8, 0.6, 0.5, 0.4, 0.3, 0.5, 0.5]  # deviations of the coefficients


@dataclass(frozen=True, eq=False)
class Arena:
    """K agents, and the voters who judge them.

    Args:
        coefficients: (types, features, K) utilities are features(x) @ coefficients.
        chance: (groups x 2, K) how often each cell of contexts asks each agent first.
    """

    coefficients: Floats
    chance: Floats

    @classmethod
    def of(cls, agents: int, seed: int = 0) -> Arena:
        """Return the arena of a number of agents."""
        rng = np.random.default_rng((seed, agents, 13))
        shared = rng.normal(size=(len(_SCALES), agents)) * _SCALES[:, None]
        own = 0.7 * rng.normal(size=(len(TYPES), len(_SCALES), agents)) * _SCALES[:, None]
        weight = np.where(rng.random((2 * len(GROUPS), agents)) < 0.2, OFTEN, 1.0)
        return cls(shared + own, weight / weight.sum(axis=1, keepdims=True))

    @property
    def agents(self) -> list[str]:
        """Names of the K agents."""
        return [f"model-{a:03d}" for a in range(self.chance.shape[1])]

    def log(self, votes: int, *, seed: int = 0, voters: int = 0) -> ne.Feedback:
        """Return a log; `voters` names that many voters, 0 none."""
        table, voter = pa.concat_tables(self.tables(votes, seed=seed, voters=voters)), "voter" if voters else None
        return ne.read_votes(table, context=[*NUMBERS, GROUP], agents=self.agents, design="draws", voter=voter)

    def tables(self, votes: int, *, seed: int = 0, voters: int = 0) -> Iterator[pa.Table]:
        """Yield the votes in chunks: the two agents, the verdict, the columns of the context, and the voter."""
        for number, start in enumerate(range(0, votes, _CHUNK)):
            rng, n = np.random.default_rng((seed, number, 17)), min(_CHUNK, votes - start)
            x, group = drawn_contexts(rng, n)
            j, k = self._asked(rng, x, group)
            wins = rng.random(n) < (1 + self.margins(x, group, j, k) / (1 - TIES)) / 2
            verdict = np.where(rng.random(n) < TIES, 2, np.where(wins, 0, 1))
            columns: dict[str, Any] = {"model_a": _coded(j, self.agents), "model_b": _coded(k, self.agents)}
            columns["winner"] = _coded(verdict, ["model_a", "model_b", "tie"])
            columns |= context_columns(x, group)
            if voters:
                columns["voter"] = rng.integers(voters, size=n)
            yield pa.table(columns)

    def margins(self, x: Floats, group: Array, j: Array, k: Array) -> Floats:
        """Return (n,) E[Z_jk] at n contexts, each with its own pair."""
        F, total = features(x, group), np.zeros(len(x))
        for share, coefficients in zip(TYPES, self.coefficients, strict=True):
            gap = np.einsum("nf,fn->n", F, coefficients[:, j] - coefficients[:, k])
            total += share * np.tanh(gap / 2)
        return (1 - TIES) * total

    def payoff(self, x: Floats, group: Array) -> Floats:
        """Return A(x), (n, K, K): for few contexts."""
        u = np.einsum("nf,vfk->vnk", features(x, group), self.coefficients)
        gaps = np.tanh((u[:, :, :, None] - u[:, :, None, :]) / 2)
        return np.asarray((1 - TIES) * np.einsum("v,vnjk->njk", TYPES, gaps))

    def pair_chance(self, x: Floats, group: Array, j: Array, k: Array) -> Floats:
        """Return (n,) how likely each context was to ask its pair, in either order."""
        p = self.chance[_cell(x, group)]
        first, second = (np.take_along_axis(p, side[:, None], axis=1)[:, 0] for side in (j, k))
        return np.asarray(first * second / (1 - first) + first * second / (1 - second))

    def _asked(self, rng: np.random.Generator, x: Floats, group: Array) -> tuple[Array, Array]:
        """Return (n,) the agents shown first and second: drawn one after the other, without the first."""
        cell, n = _cell(x, group), len(x)
        j, k, u = np.empty(n, np.int32), np.empty(n, np.int32), rng.random((2, n))
        for number, p in enumerate(self.chance):
            rows, ends = np.flatnonzero(cell == number), np.cumsum(p)
            first = np.minimum(np.searchsorted(ends, u[0, rows], "right"), len(p) - 1)
            place = u[1, rows] * (1 - p[first])  # on the line without the first agent's stretch
            place += np.where(place >= ends[first] - p[first], p[first], 0.0)
            second = np.minimum(np.searchsorted(ends, place, "right"), len(p) - 1)
            second += np.where(second == first, np.where(first + 1 < len(p), 1, -1), 0)  # of a draw on the very edge
            j[rows], k[rows] = first, second
        return j, k


def drawn_contexts(rng: np.random.Generator, n: int) -> tuple[Floats, Array]:
    """Return (n, 20) numbers and (n,) groups."""
    return rng.uniform(-1, 1, (n, COLUMNS)).astype(np.float32), rng.integers(len(GROUPS), size=n)


def context_columns(x: Floats, group: Array) -> dict[str, Any]:
    """Return contexts as the columns that the estimator sees."""
    return {name: x[:, c] for c, name in enumerate(NUMBERS)} | {GROUP: _coded(group, list(GROUPS))}


def features(x: Floats, group: Array) -> Floats:
    """Return (n, 13) what utilities are linear in: a constant, the group, five numbers and two bends."""
    n = len(x)
    bends = (3 * x[:, 0] ** 2 - 1, np.sin(np.pi * x[:, 1]))
    return np.column_stack([np.ones(n), np.eye(len(GROUPS))[group], x[:, :5], *bends])


def _cell(x: Floats, group: Array) -> Array:
    return np.asarray(2 * group + (x[:, 0] > 0))


def _coded(codes: Array, words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32), words)

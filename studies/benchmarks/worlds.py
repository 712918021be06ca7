"""Arenas with known truth, as people have them: selection, many agents, few votes, voters with contexts of their own.

Every world is a function of a seed that returns a log and the exact mean payoffs behind it (`WORLDS`, by name). A world
has ten populations of agents and the seed's last digit picks one, so that the truth of a population is computed once;
what is drawn anew with every seed is the log. Contexts are a language, en or fi, and two numbers in [-1, 1], `length`
and `difficulty`. Voters of type v give agent j at context x the utility u_v(x, j), and prefer j to k with probability
sigmoid(u_v(x, j) - u_v(x, k) + twist_jk(x)); a twist is antisymmetric and makes verdicts that no utilities represent.

Truth is the mean over the population that contexts are drawn from, by 2 x 4,096 points of a Sobol sequence (the mean
over one more sequence differs by less than 1e-4; see tests/test_benchmarks_worlds.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import norm, qmc

import nasheval as ne
from studies.arrays import Array

POPULATIONS = 10
TIES = 0.1  # share of verdicts that are ties, in the worlds that have any
OFTEN = 12.0  # how much more often selected pairs are asked where they are
BETWEEN = 0.9  # share of the variance of contexts that is between voters
DAYS = 100 * 86_400.0  # seconds over which agents enter


@dataclass(frozen=True, eq=False)
class Contexts:
    """n contexts.

    Args:
        language: (n,) -1 for en, 1 for fi, 0 where the world has no languages.
        x: (n, 2) length and difficulty.
    """

    language: Array
    x: Array

    def __len__(self) -> int:
        return len(self.x)

    def table(self) -> pa.Table:
        """Return the columns that the estimator sees."""
        columns: dict[str, Any] = {"length": self.x[:, 0], "difficulty": self.x[:, 1]}
        if self.language.any():
            columns = {"language": np.where(self.language > 0, "fi", "en"), **columns}
        return pa.table(columns)


@dataclass(frozen=True, eq=False)
class Population:
    """K agents and the types of voters who judge them.

    Args:
        coefficients: (types, features, K) utilities are features(x) @ coefficients.
        twist: (3, K, K) antisymmetric; twist(x) = twist[0] + language twist[1] + bend twist[2].
        mix: (types,) shares of the types.
        ties: share of ties.
    """

    coefficients: Array
    twist: Array
    mix: Array
    ties: float = 0.0

    @property
    def n_agents(self) -> int:
        """K."""
        return int(self.coefficients.shape[2])

    def margins(self, at: Contexts, j: Array, k: Array, mix: Array | None = None) -> Array:
        """Return (n,) E[Z_jk] at n contexts, each with its own pair (j, k).

        Args:
            mix: (n, types) shares of the types at each context; None: those of the population.
        """
        u = np.einsum("nf,vfk->vnk", features(at), self.coefficients)
        rows = np.arange(len(at))
        twist = np.einsum("nf,fn->n", twist_features(at), self.twist[:, j, k])
        shares = np.broadcast_to(self.mix, (len(at), len(self.mix))) if mix is None else mix
        gaps = np.tanh((u[:, rows, j] - u[:, rows, k] + twist) / 2)
        return np.asarray((1 - self.ties) * np.einsum("nv,vn->n", shares, gaps))

    def payoffs(self, at: Contexts, mix: Array | None = None) -> Array:
        """Return (K, K) mean payoffs over some contexts; `mix` as in `margins`."""
        shares = np.broadcast_to(self.mix, (len(at), len(self.mix))) if mix is None else mix
        u, mean = np.einsum("nf,vfk->vnk", features(at), self.coefficients), np.zeros((self.n_agents,) * 2)
        for j in range(self.n_agents - 1):
            later = slice(j + 1, None)
            twist = twist_features(at) @ self.twist[:, j, later]
            gaps = np.tanh((u[:, :, j, None] - u[:, :, later] + twist) / 2)
            mean[j, later] = (1 - self.ties) * np.einsum("nv,vnk->k", shares, gaps) / len(at)
        return mean - mean.T


def features(at: Contexts) -> Array:
    """Return (n, 6) what utilities are linear in: a constant, the language, both numbers, and two bends of them."""
    length, difficulty = at.x.T
    return np.stack(
        [np.ones(len(at)), at.language, length, difficulty, length**2 - 1 / 3, np.sin(np.pi * difficulty)], axis=1
    )


def twist_features(at: Contexts) -> Array:
    """Return (n, 3) what twists are linear in: a constant, the language, and a bend of the first number."""
    return np.stack([np.ones(len(at)), at.language, 3 * at.x[:, 0] ** 2 - 1], axis=1)


SCALES = (0.7, 0.6, 0.8, 0.5, 1.2, 0.5)  # deviations of the coefficients of each feature


def population(
    number: int, K: int, *, types: int = 2, twist: float = 0.8, ties: float = TIES, scales: Sequence[float] = SCALES
) -> Population:
    """Return one of the populations of K agents.

    Args:
        twist: deviation of the part of a pair's verdicts that no utilities represent, and of how it varies.
    """
    rng = np.random.default_rng((number, K, types, 11))
    shape, scale = (len(scales), K), np.asarray(scales)[:, None]
    shared = rng.normal(size=shape) * scale
    own = rng.normal(size=(types, *shape)) * scale * (0.7 if types > 1 else 0.0)
    bend = np.triu(rng.normal(size=(3, K, K)) * twist, 1)
    mix = np.array([0.6, 0.4] if types == 2 else [1.0])
    return Population(shared + own, bend - bend.transpose(0, 2, 1), mix, ties)


# -- what a seed gives ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Simulated:
    """A log and what is true of it.

    Args:
        log: what the estimator sees.
        truth: (K, K) mean payoffs by group; "all" is the whole log.
        inside: (n_contexts,) who is in each group but "all".
        selected: (pairs,) pairs j < k, in the order of `np.triu_indices`, whose asking depends on the context, or that
            the world is about.
        there: the group in which the selected pairs are asked most; "" for none.
        with_propensity: makes the same log with the true chance of each record's menu, where the log does not say it.
        random: whether which pair is asked depends on nothing at all.
    """

    log: ne.Feedback
    truth: dict[str, Array]
    inside: dict[str, Array] = field(default_factory=dict)
    selected: Array = field(default_factory=lambda: np.zeros(0, bool))
    there: str = ""
    with_propensity: Callable[[], ne.Feedback] | None = None
    random: bool = False


World = Callable[[int], Simulated]

GROUPS: dict[str, dict[str, Callable[[Contexts], Array]]] = {
    "none": {},
    "language": {"en": lambda at: at.language < 0, "fi": lambda at: at.language > 0},
    "length": {"edges": lambda at: np.abs(at.x[:, 0]) > 0.5, "centre": lambda at: np.abs(at.x[:, 0]) <= 0.5},
}


def members(at: Contexts, by: str) -> dict[str, Array]:
    """Return (n,) who is in each group of `GROUPS`."""
    return {name: member(at) for name, member in GROUPS[by].items()}


def sample(rng: np.random.Generator, n: int) -> Contexts:
    """Return n contexts, languages even and numbers uniform."""
    return Contexts(rng.choice((-1.0, 1.0), n), rng.uniform(-1, 1, (n, 2)))


@cache
def everywhere() -> Contexts:
    """Return 8,192 contexts that stand for all: the same Sobol points in both languages."""
    x = 2 * qmc.Sobol(2, scramble=False).random_base2(12) - 1
    return Contexts(np.repeat((-1.0, 1.0), len(x)), np.concatenate([x, x]))


@cache
def described(people: Callable[[int], Population], number: int, by: str) -> tuple[Population, dict[str, Array]]:
    """Return a population with its (K, K) mean payoffs, over all contexts and over each group."""
    agents, at = people(number), everywhere()
    inside = {"all": np.ones(len(at), bool), **members(at, by)}
    truth = {name: agents.payoffs(Contexts(at.language[who], at.x[who])) for name, who in inside.items()}
    return agents, truth


def picked(number: int, K: int, count: int) -> Array:
    """Return (pairs,) which pairs of a population are selected, some at random."""
    chosen = np.zeros(K * (K - 1) // 2, bool)
    chosen[np.random.default_rng((number, K, 5)).permutation(len(chosen))[:count]] = True
    return chosen


def listed(pairs: Sequence[tuple[int, int]], K: int) -> Array:
    """Return (pairs,) which pairs j < k are in a list."""
    j, k = np.triu_indices(K, 1)
    return np.asarray([pair in pairs for pair in zip(j.tolist(), k.tolist(), strict=True)])


def duels(at: Contexts, j: Array, k: Array, z: Array, *, agents: int, **columns: Any) -> ne.Feedback:
    """Return the log of one verdict z (1: j wins, -1: k wins, 0: a tie) for each context.

    Args:
        columns: propensity, voter or time of each verdict.
    """
    names, contexts = agent_names(agents), at.table()
    options: dict[str, Any] = {name: name for name in columns}
    duel = {"model_a": names[j], "model_b": names[k], "winner": np.array(["model_b", "tie", "model_a"])[z + 1]}
    table = contexts
    for name, values in {**duel, **columns}.items():
        table = table.append_column(name, pa.array(values))
    return ne.read_votes(table, context=contexts.column_names, agents=names.tolist(), **options)


def agent_names(K: int) -> Array:
    """Return the names of K agents."""
    return np.array([f"a{a:02d}" for a in range(K)])


def verdicts(rng: np.random.Generator, margin: Array, ties: float) -> Array:
    """Return (n,) verdicts whose means are the margins."""
    wins = rng.random(len(margin)) < (1 + margin / (1 - ties)) / 2
    return np.where(rng.random(len(margin)) < ties, 0, np.where(wins, 1, -1))


# -- draws ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """A world in which each context draws one pair.

    Args:
        K: agents.
        n: contexts of a log, or a function of the seed.
        people: number -> population.
        lift: how many times as often the selected pairs are asked as the others, (n,), at some contexts.
        selected: how many pairs are selected, or which, as (j, k).
        groups: of contexts.
        there: the group in which the selected pairs are asked most.
        pairs: those that are asked; None: all.
        known: whether the log says the propensities.
    """

    K: int
    n: int | Callable[[int], int]
    people: Callable[[int], Population]
    lift: Callable[[Contexts], Array] | None = None
    selected: int | tuple[tuple[int, int], ...] = 0
    groups: str = "none"
    there: str = ""
    pairs: tuple[tuple[int, int], ...] | None = None
    known: bool = False

    def __call__(self, seed: int) -> Simulated:
        number = seed % POPULATIONS
        people, truth = described(self.people, number, self.groups)
        rng = np.random.default_rng((seed, self.K, 7))
        at = sample(rng, self.n if isinstance(self.n, int) else self.n(seed))
        count = self.selected
        chosen = picked(number, self.K, count) if isinstance(count, int) else listed(count, self.K)
        pair, e = self._asked(rng, at, chosen)
        j, k = (side[pair] for side in np.triu_indices(self.K, 1))
        z = verdicts(rng, people.margins(at, j, k), people.ties)
        plain, full = (partial(duels, at, j, k, z, agents=self.K, **more) for more in ({}, {"propensity": e}))
        log, with_propensity = (full(), None) if self.known else (plain(), full)
        inside, random = members(at, self.groups), self.lift is None
        return Simulated(log, truth, inside, chosen, self.there, with_propensity, random)

    def _asked(self, rng: np.random.Generator, at: Contexts, chosen: Array) -> tuple[Array, Array]:
        """Return (n,) the pair that each context draws, and its probability there."""
        if self.pairs is not None:
            places = np.flatnonzero(listed(self.pairs, self.K))
            return rng.choice(places, len(at)), np.full(len(at), 1 / len(places))
        often, seldom = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        if self.lift is None:
            return rng.integers(len(chosen), size=len(at)), np.full(len(at), 1 / len(chosen))
        lift = self.lift(at)
        total = lift * len(often) + len(seldom)
        from_often = rng.random(len(at)) < lift * len(often) / total
        pair = np.where(from_often, rng.choice(often, len(at)), rng.choice(seldom, len(at)))
        return pair, np.where(from_often, lift, 1.0) / total


def by_language(at: Contexts) -> Array:
    """Ask selected pairs 12 times as often in fi."""
    return np.where(at.language > 0, OFTEN, 1.0)


def u_shaped(at: Contexts) -> Array:
    """Ask selected pairs up to 12 times as often toward both ends of the first number."""
    return np.asarray(OFTEN ** (at.x[:, 0] ** 2))


def tiny(at: Contexts) -> Array:
    """Ask two pairs of six with probability 0.0046 each in fi and 0.03 in en."""
    e = np.where(at.language > 0, 0.0046, 0.03)
    return np.asarray(4 * e / (1 - 2 * e))


def arena(K: int, n: int, selected: int, selection: str) -> Draws:
    """Return K agents under one kind of selection: "category", "u-shaped" or "random"."""
    people = partial(population, K=K)
    if selection == "category":
        return Draws(K, n, people, by_language, selected, "language", "fi")
    if selection == "u-shaped":
        return Draws(K, n, people, u_shaped, selected, "length", "edges")
    return Draws(K, n, people, None, selected, "language")


def unanimous(number: int) -> Population:
    """Return three agents of whom the first beats the others by about 0.94."""
    people = population(number, 3, types=1, twist=0.0, ties=0.0, scales=(0.0, 0.2, 0.2, 0.2, 0.2, 0.2))
    people.coefficients[:, 0] = (3.65, 0.1, -0.1)
    return people


def bradley_terry(number: int, K: int) -> Population:
    """Return K agents whom one type of voters judges by Bradley-Terry at every context."""
    return population(number, K, types=1, twist=0.0, ties=0.0, scales=(0.8, 0.4, 0.5, 0.3, 0.4, 0.3))


# -- inclusion, time, voters ------------------------------------------------------------------------------------------


EIGHT, TWELVE = partial(population, K=8), partial(population, K=12)


def inclusion(seed: int, *, n: int = 1000, selected: int = 7) -> Simulated:
    """Return a log whose contexts include each pair by itself: selected ones 0.4 in fi and 0.05 in en, others 0.12."""
    number = seed % POPULATIONS
    people, truth = described(EIGHT, number, "language")
    K, rng = people.n_agents, np.random.default_rng((seed, 8, 3))
    at, chosen = sample(rng, n), picked(number, K, selected)
    e = np.where(chosen, np.where(at.language > 0, 0.4, 0.05)[:, None], 0.12)
    context, pair = np.nonzero(rng.random(e.shape) < e)
    j, k = (side[pair] for side in np.triu_indices(K, 1))
    z = verdicts(rng, people.margins(Contexts(at.language[context], at.x[context]), j, k), people.ties)
    names = agent_names(K).tolist()
    partitions = [_ordered(names[a], names[b], won) for a, b, won in zip(j, k, z, strict=True)]
    how: dict[str, Any] = {"agents": names, "context_of": context.tolist(), "design": "inclusion"}
    log = ne.Feedback.from_partitions(at.table(), partitions, **how)
    with_propensity = partial(
        ne.Feedback.from_partitions, at.table(), partitions, propensity=e[context, pair].tolist(), **how
    )
    return Simulated(log, truth, members(at, "language"), chosen, "fi", with_propensity)


def _ordered(one: str, other: str, z: int) -> tuple[tuple[str, ...], ...]:
    return ((one, other),) if z == 0 else ((one,), (other,)) if z > 0 else ((other,), (one,))


def entering(seed: int, *, n: int = 6000) -> Simulated:
    """Return a log of six agents that are there from the start and six that enter one by one, until 80% of the time.

    The share of fi goes from 0.3 to 0.7 meanwhile, so that late agents are asked more often in fi.
    """
    people, truth = described(TWELVE, seed % POPULATIONS, "language")
    K, rng = people.n_agents, np.random.default_rng((seed, 12, 2))
    when, entry = rng.random(n), np.r_[np.zeros(K // 2), np.linspace(0.1, 0.8, K - K // 2)]
    at = replace(sample(rng, n), language=np.where(rng.random(n) < 0.3 + 0.4 * when, 1.0, -1.0))
    present = (entry <= when[:, None]).sum(axis=1)
    one = rng.integers(present)
    other = (one + 1 + rng.integers(present - 1)) % present
    j, k = np.minimum(one, other), np.maximum(one, other)
    z = verdicts(rng, people.margins(at, j, k), people.ties)
    log = duels(at, j, k, z, agents=K, time=DAYS * when)
    late = np.flatnonzero(entry > 0.4)[0]
    return Simulated(log, truth, members(at, "language"), np.triu_indices(K, 1)[1] >= late, "fi")


def own_contexts(seed: int, *, voters: int, K: int = 3) -> Simulated:
    """Return a log of named voters, each with a type and a place of its own, from which 90% of a context comes.

    Who comes next is drawn evenly. The truth of 20 voters or more is the population's, that of fewer the panel's: the
    mean over these voters, each with its own population of contexts.
    """
    people = population(seed % POPULATIONS, K, twist=0.0, scales=(0.3, 0.0, 0.9, 0.9, 0.0, 0.0))
    rng = np.random.default_rng((seed, voters, 1))
    place, kind = rng.normal(size=(voters, 2)), rng.choice(len(people.mix), voters, p=people.mix)
    n = 600 if voters == 19 else 1200  # three voters need 300 records each before they are told apart
    who, types = rng.integers(voters, size=n), np.eye(len(people.mix))
    at = Contexts(np.zeros(n), np.sqrt(BETWEEN) * place[who] + np.sqrt(1 - BETWEEN) * rng.normal(size=(n, 2)))
    pair = rng.integers(K * (K - 1) // 2, size=n)
    j, k = (side[pair] for side in np.triu_indices(K, 1))
    z = verdicts(rng, people.margins(at, j, k, types[kind[who]]), people.ties)
    log = duels(at, j, k, z, agents=K, voter=[f"v{v}" for v in who])
    points = norm.ppf(qmc.Sobol(2, scramble=False).random_base2(10 if voters < 20 else 13) + 2.0**-15)
    if voters >= 20:
        truth = people.payoffs(Contexts(np.zeros(len(points)), points))
    else:
        x = (np.sqrt(BETWEEN) * place[:, None] + np.sqrt(1 - BETWEEN) * points).reshape(-1, 2)
        truth = people.payoffs(Contexts(np.zeros(len(x)), x), types[np.repeat(kind, len(points))])
    return Simulated(log, {"all": truth}, random=True)


SIZES = {4: (2000, 2), 22: (10_000, 15), 60: (12_000, 100)}  # agents: contexts of a log, selected pairs

WORLDS: dict[str, World] = {
    **{
        f"{selection}-{K}": arena(K, *SIZES[K], selection)
        for K in SIZES
        for selection in ("category", "u-shaped", "random")
    },
    "inclusion-8": inclusion,
    "entering-12": entering,
    **{f"voters-{voters}": partial(own_contexts, voters=voters) for voters in (3, 19, 60)},
    "unanimous-3": Draws(3, lambda seed: 126 + seed * 29 % 175, unanimous, None, ((0, 1), (0, 2))),
    "tiny-4": Draws(4, 8000, partial(population, K=4), tiny, 2, "language", "fi", known=True),
    "star-6": Draws(6, 3000, partial(bradley_terry, K=6), pairs=tuple((0, k) for k in range(1, 6))),
    "chain-5": Draws(5, 3000, partial(bradley_terry, K=5), pairs=tuple((k, k + 1) for k in range(4))),
}

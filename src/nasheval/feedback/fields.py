"""The hidden state of the paper's simulation: fields, voters, menus, selection and answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np

from nasheval.arrays import Floats, Ints, int_dtype, offsets_of, readonly, runs
from nasheval.feedback.menus import ORDER, MenuCatalogue
from nasheval.feedback.partition import Zero

Menu = tuple[int, ...]

# Table syn-config.
LENGTH_SCALE = 0.5  # of the fields
EPSILON = 0.1  # share of a voter's weight that is spread over all criteria
ALPHA = 20.0  # Dirichlet concentration of the rest, inside the voter's preferred group
E_MIN, E_MAX = 0.25, 0.75  # lowest and highest inclusion probability of a menu
ETA = 2.0  # scale of the selection logit

ALL_TRIPLES = 10  # winner feedback asks all triples of up to this many agents

# What is drawn, as the first number of a SeedSequence spawn key. The values fix every draw: add new ones at the end.
SHARED, CRITERION, CALIBRATION, PERMUTATION, POOL, DIRECTION, DIRECTIONS, TRAIN, TEST, MENUS, RECORDS = range(11)


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return the generator at one place of the seed's tree, whatever else was or will be drawn."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


@dataclass(frozen=True)
class FourierField:
    """A random function of the context with several standardised outputs (Eq. syn-rff).

    Args:
        frequencies: (D, d) omega_b.
        phases: (D,) phi_b.
        coefficients: (D, outputs) V_ba.
        mean: (outputs,) mean of the raw field on the calibration contexts.
        scale: (outputs,) its standard deviation there.
    """

    frequencies: Floats
    phases: Floats
    coefficients: Floats
    mean: Floats
    scale: Floats

    @classmethod
    def draw(cls, rng: np.random.Generator, outputs: int, features: int, calibration: Floats) -> FourierField:
        """Draw a field and standardise it on `calibration`, (n_cal, d)."""
        frequencies = rng.normal(0.0, 1.0 / LENGTH_SCALE, (features, calibration.shape[1]))
        phases = rng.uniform(0.0, 2 * np.pi, features)
        coefficients = rng.standard_normal((features, outputs))
        raw = cls(frequencies, phases, coefficients, np.zeros(outputs), np.ones(outputs))(calibration)
        return cls(*map(readonly, (frequencies, phases, coefficients, raw.mean(axis=0), raw.std(axis=0))))

    def __call__(self, X: Floats) -> Floats:
        """Return the field at X, (n, d), as (n, outputs)."""
        waves = X @ self.frequencies.T
        waves += self.phases
        np.cos(waves, out=waves)
        values: Floats = waves @ self.coefficients
        values *= sqrt(2.0 / len(self.phases))
        values -= self.mean
        values /= self.scale
        return values


@dataclass(frozen=True)
class Performance:
    """The performance vectors r_j(x) of all agents (Eq. syn-vector-performance).

    Args:
        shared: the field s, K outputs.
        criterion: the field h, K * p outputs, agent by agent.
        specialization: (K, p) C_jt.
        amplitudes: (a_s, a_c, a_h).
    """

    shared: FourierField
    criterion: FourierField
    specialization: Floats
    amplitudes: tuple[float, float, float]

    def __call__(self, X: Floats) -> Floats:
        """Return r at X, (n, d), as (n, K, p)."""
        a_s, a_c, a_h = self.amplitudes
        r = self.criterion(X).reshape(len(X), *self.specialization.shape)
        np.tanh(r, out=r)
        r *= a_h
        r += a_s * self.shared(X)[:, :, None]
        r += a_c * self.specialization
        return r


def specialization(places: Ints, groups: int, criteria: int) -> Floats:
    """Return C, (K, p), from the permutation a_j, (K,) (Eq. syn-specialization).

    The group offsets o_g are ceil(g K / G), spread evenly round the circle of K places: (0, 2, 4) for K = 5 and G = 3.
    The equation counts modulo K, so its profiles stand on a circle, and majorities cycle because no two of
    them lie close together. Stretching 0, 2, 4 to 0, (K-1)/2, K-1 would put the last profile next to the first: for
    large K those two groups would agree on almost every pair and outvote the third, and the cycles would be gone.
    """
    agents = len(places)
    offsets = -(-np.arange(groups) * agents // groups)
    by_group = 2.0 - 2.0 / (agents - 1) * ((places[:, None] - offsets) % agents)
    return readonly(np.repeat(by_group, criteria, axis=1))


def voter_weights(rng: np.random.Generator, voters: int, *, groups: int, criteria: int) -> Floats:
    """Return w, (V, p), of the first V voters of the pool (Eq. syn-voter-weights); voter v prefers group v mod G."""
    theta = np.zeros((voters, groups, criteria))
    # row by row from one stream, so a larger pool begins with the smaller one
    theta[np.arange(voters), np.arange(voters) % groups] = rng.dirichlet(np.full(criteria, ALPHA), voters)
    p = groups * criteria
    return readonly(EPSILON / p + (1.0 - EPSILON) * theta.reshape(voters, p))


def preference_places(utilities: Floats) -> Ints:
    """Return the place of each agent in each voter's order, 0 is best, (..., K); equal utilities by agent number."""
    order = np.argsort(-utilities, axis=-1, kind="stable")
    places = np.empty(order.shape, int_dtype(order.shape[-1]))
    np.put_along_axis(places, order, np.arange(order.shape[-1], dtype=places.dtype), axis=-1)
    return places


@dataclass(frozen=True)
class SelectionLaw:
    """Which menus a context is asked (Eq. syn-selection).

    Args:
        direction: (d,) b, of any length.
        agent_directions: (K, d) one such direction per agent, for menus drawn one per context.
    """

    direction: Floats
    agent_directions: Floats

    def inclusion(self, X: Floats) -> Floats:
        """Return e0(x), (n,), the same for every menu."""
        return self._level(X, self.direction[None])[:, 0]

    def one(self, X: Floats, menus: MenuCatalogue) -> Floats:
        """Return the probability that the one menu asked is m, (n, M), rows sum to one.

        Each menu has the level of Eq. syn-selection along its own direction, the sum of its agents' directions, and the
        levels are divided by their sum. So no probability is below E_MIN / (E_MAX M): overlap holds at every x.
        """
        directions = np.add.reduceat(self.agent_directions[menus.agent], menus.offsets[:-1], axis=0)
        level = self._level(X, directions)
        level /= level.sum(axis=1, keepdims=True)
        return level

    def _level(self, X: Floats, directions: Floats) -> Floats:
        unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        level: Floats = (X - 0.5) @ unit.T
        level *= ETA * sqrt(12.0) / 2.0
        np.tanh(level, out=level)  # sigma(z) = (1 + tanh(z / 2)) / 2, which cannot overflow
        level *= (E_MAX - E_MIN) / 2.0
        level += (E_MAX + E_MIN) / 2.0
        return level


# -- menus ------------------------------------------------------------------------------------------------------------


def default_menus(agents: int, rng: np.random.Generator) -> dict[str, list[Menu]]:
    """Return the catalogue of each modality (appendix section "Menus, selection, and feedback")."""
    triples = cyclic_triples(agents)
    if agents <= ALL_TRIPLES:
        winner: set[Menu] = set(combinations(range(agents), 3))
    else:  # each relabelling covers every pair, so a pair is in about three menus, as for K = 5
        names = [rng.permutation(agents).tolist() for _ in range(3)]
        winner = {_menu(name[j] for j in menu) for name in names for menu in triples}
    return {"pairwise": list(combinations(range(agents), 2)), "ranking": triples, "winner": list(winner)}


def cyclic_triples(agents: int) -> list[Menu]:
    """Return triples that cover every pair, turned round the circle of K agents; Eq. syn-ranking-menus for K = 5.

    Turning {0, a, a + b} through all K places covers every pair at distance a, b or a + b. The longest distance not yet
    covered is split into a + b so that as many as possible of the two are new, the shorter as short as possible.
    """
    new, menus = set(range(1, agents // 2 + 1)), set()
    while new:
        whole = max(*new, 2)  # distance 1 is covered by 2 = 1 + 1
        a = max(range(1, whole // 2 + 1), key=lambda step: (len({step, whole - step} & new), -step))
        menus |= {_menu(((i + step) % agents) for step in (0, a, whole)) for i in range(agents)}
        new -= {a, whole - a, whole}
    return sorted(menus)


def listed(menus: list[Menu], agents: int, *, winner: bool) -> MenuCatalogue:
    """Return menus as a catalogue without records, in the order in which `menus.catalogue` lists those of a log."""
    menus = sorted(menus, key=lambda menu: (len(menu), menu))
    sizes = np.array([len(menu) for menu in menus])
    form = np.where((sizes > 2) & winner, 1, ORDER).astype(np.int16)  # the best of two is a plain duel
    agent = np.array([a for menu in menus for a in menu], int_dtype(agents))
    return MenuCatalogue(offsets_of(sizes), agent, form, np.zeros(0, np.int32), agents)


def _menu(agents: Iterable[int]) -> Menu:
    return tuple(sorted(int(agent) for agent in agents))


# -- answers ----------------------------------------------------------------------------------------------------------


def answers(
    places: Ints, menus: MenuCatalogue, modality: str, context: Ints, menu: Ints, voter: Ints
) -> tuple[Ints, Ints]:
    """Return the flat (agent, rank) entries of the records, given each voter's order, (n, V, K)."""
    sizes = menus.sizes[menu]
    agent = menus.agent[runs(menus.offsets[:-1][menu], sizes)]
    rank = places[np.repeat(context, sizes), np.repeat(voter, sizes), agent]
    return agent, revealed(rank, offsets_of(sizes), modality)


def revealed(places: Ints, offsets: Ints, modality: str) -> Ints:
    """Return the ranks that an answer reveals: all of them, or only who is best of a menu (Eq. syn-winner-verdict).

    Args:
        places: (..., entries) place in the voter's order of each agent of each menu.
        offsets: where the menus start on the last axis.
    """
    if modality != "winner" or len(offsets) == 1:
        return places
    best = np.minimum.reduceat(places, offsets[:-1], axis=-1)
    beaten: Ints = (places != np.repeat(best, np.diff(offsets), axis=-1)).astype(np.int8)
    return beaten


def zero_codes(modality: str, sizes: Ints) -> Ints | Zero:
    """Return what a shared block means: not asked, where only the winner of more than two was."""
    if modality != "winner":
        return Zero.TIE
    return np.where(sizes > 2, np.int8(Zero.CENSORED), np.int8(Zero.TIE))

"""The hidden state of the paper's simulation: fields, voters, menus, selection and answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np

from nasheval.arrays import Floats, Ints, int_dtype, offsets_of, readonly, runs
from nasheval.feedback.menus import ORDER, MenuCatalogue

Menu = tuple[int, ...]

# Table syn-config.
GROUPS, CRITERIA = 3, 12  # G and p: the criteria come in groups of equal size
LENGTH_SCALE = 0.5  # of the fields
EPSILON = 0.1  # share of a voter's weight that is spread over all criteria
ALPHA = 20.0  # Dirichlet concentration of the rest, inside the voter's preferred group
E_MIN, E_MAX = 0.25, 0.75  # lowest and highest inclusion probability of a menu
ETA = 2.0  # scale of the selection logit

ALL_TRIPLES = 10  # winner feedback asks all triples of up to this many agents

# What is drawn, as the first number of a SeedSequence spawn key. The values fix every draw: add new ones at the end.
SHARED, CRITERION, CALIBRATION, PERMUTATION, POOL, DIRECTION, DIRECTIONS, TRAIN, TEST, MENUS, RECORDS = range(11)


@dataclass(frozen=True)
class FourierField:
    """A random function of the context with several outputs, standardised on calibration contexts (Eq. syn-rff)."""

    frequencies: Floats  # (D, d) omega_b
    phases: Floats  # (D,) phi_b
    coefficients: Floats  # (D, outputs) V_ba
    mean: Floats  # (outputs,) of the raw field on the calibration contexts
    scale: Floats  # (outputs,) its standard deviation there

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


def specialization(places: Ints) -> Floats:
    """Return C, (K, p), from the permutation a_j, (K,) (Eq. syn-specialization).

    The group offsets o_g are ceil(g K / G), spread evenly round the circle of K places: (0, 2, 4) for K = 5 and G = 3.
    The equation counts modulo K, so its profiles stand on a circle, and majorities cycle because no two of
    them lie close together. Stretching 0, 2, 4 to 0, (K-1)/2, K-1 would put the last profile next to the first: for
    large K those two groups would agree on almost every pair and outvote the third, and the cycles would be gone.
    """
    agents = len(places)
    offsets = -(-np.arange(GROUPS) * agents // GROUPS)
    by_group = 2.0 - 2.0 / (agents - 1) * ((places[:, None] - offsets) % agents)
    return readonly(np.repeat(by_group, CRITERIA // GROUPS, axis=1))


def voter_weights(rng: np.random.Generator, voters: int) -> Floats:
    """Return w, (V, p), of the first V voters of the pool (Eq. syn-voter-weights); voter v prefers group v mod G."""
    theta = np.zeros((voters, GROUPS, CRITERIA // GROUPS))
    # row by row from one stream, so a larger pool begins with the smaller one
    theta[np.arange(voters), np.arange(voters) % GROUPS] = rng.dirichlet(np.full(theta.shape[2], ALPHA), voters)
    return readonly(EPSILON / CRITERIA + (1.0 - EPSILON) * theta.reshape(voters, CRITERIA))


def preference_places(utilities: Floats) -> Ints:
    """Return the place of each agent in each voter's order, 0 is best, (..., K); equal utilities by agent number."""
    order = np.argsort(-utilities, axis=-1, kind="stable")
    places = np.empty(order.shape, int_dtype(order.shape[-1]))
    np.put_along_axis(places, order, np.arange(order.shape[-1], dtype=places.dtype), axis=-1)
    return places


def selection_levels(X: Floats, directions: Floats) -> Floats:
    """Return the level e of Eq. syn-selection at X, (n, d), along each of (D, d) directions of any length, (n, D)."""
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    level: Floats = (X - 0.5) @ unit.T
    level *= ETA * sqrt(12.0) / 2.0
    np.tanh(level, out=level)  # sigma(z) = (1 + tanh(z / 2)) / 2, which cannot overflow
    level *= (E_MAX - E_MIN) / 2.0
    level += (E_MAX + E_MIN) / 2.0
    return level


def draw_probabilities(X: Floats, menus: MenuCatalogue, by_agent: Floats) -> Floats:
    """Return the probability that the one menu drawn at X is m, (n, M), rows sum to one.

    Each menu has the level of Eq. syn-selection along its own direction, the sum of its agents' directions `by_agent`,
    (K, d), and the levels are divided by their sum. So no probability is below E_MIN / (E_MAX M): overlap holds.
    """
    level = selection_levels(X, np.add.reduceat(by_agent[menus.agent], menus.offsets[:-1], axis=0))
    level /= level.sum(axis=1, keepdims=True)
    return level


def questions(e: Floats, n_menus: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return context and menu of each question, contexts ascending; e is (n,) for inclusion, (n, M) for one draw."""
    if e.ndim == 1:
        context, menu = np.nonzero(rng.random((len(e), n_menus)) < e[:, None])
        return context, menu
    below = np.cumsum(e, axis=1) <= rng.random((len(e), 1))
    return np.arange(len(e)), np.minimum(below.sum(axis=1), n_menus - 1)  # sums may fall short of one by rounding


# -- menus ------------------------------------------------------------------------------------------------------------


def catalogue(modality: str, agents: int, rng: np.random.Generator) -> MenuCatalogue:
    """Return the menus of a modality without records (appendix section "Menus, selection, and feedback").

    Their order is that in which `menus.catalogue` lists the menus of a log.
    """
    menus: list[Menu] = [*combinations(range(agents), 2)] if modality == "pairwise" else cyclic_triples(agents)
    if modality == "winner" and agents <= ALL_TRIPLES:
        menus = [*combinations(range(agents), 3)]
    elif modality == "winner":  # each relabelling covers every pair, so a pair is in about three menus, as for K = 5
        names = [rng.permutation(agents) for _ in range(3)]
        menus = sorted({_menu(name[[*menu]]) for name in names for menu in menus})
    sizes = np.full(len(menus), len(menus[0]))
    form = np.full(len(menus), 1 if modality == "winner" else ORDER, np.int16)
    agent = np.array(menus, int_dtype(agents)).ravel()
    return MenuCatalogue(offsets_of(sizes), agent, form, np.zeros(0, np.int32), agents)


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

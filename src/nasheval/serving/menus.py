"""Which menu to show a voter, and with what probability it was drawn."""

from __future__ import annotations

from itertools import combinations
from math import comb
from random import Random

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.errors import InputError
from nasheval.planning.asking import asking


def menu_of(lottery: Floats, payoff: Floats | None, size: int, floor: float, random: Random) -> tuple[list[int], float]:
    """Return a menu of agent numbers in the order to show them, and the probability of that menu in any order.

    A pair is drawn from the exploration distribution (`nasheval.planning.asking`); a larger menu is such a pair and
    agents drawn uniformly from the others.

    Args:
        lottery: (K,) over the K agents that are up.
        payoff: (K, K) their estimated game, or None.
        size: agents in the menu.
        floor: share of pairs that is drawn uniformly.
        random: draws.
    """
    K = len(lottery)
    if not 2 <= size <= K:
        raise InputError(f"size is {size}; accepted is a whole number from 2 to {K}, the number of agents that are up.")
    chances = asking(lottery[None], payoff=None if payoff is None else payoff[None], floor=floor)[0]
    j, k = np.triu_indices(K, 1)
    upto = np.cumsum(chances)
    drawn = int(np.searchsorted(upto, random.random() * upto[-1], side="right"))
    menu = [int(j[drawn]), int(k[drawn])]
    rest = [agent for agent in range(K) if agent not in menu]
    menu += random.sample(rest, size - 2)
    random.shuffle(menu)
    return menu, menu_propensity(chances, menu, K)


def menu_propensity(chances: Floats, menu: list[int] | Ints, K: int) -> float:
    """Return the probability of a menu, in any order, under probabilities (n_pairs,) of the pair it began with."""
    pairs = (tuple(sorted(pair)) for pair in combinations(menu, 2))
    inside = sum(float(chances[j * K - j * (j + 1) // 2 + k - j - 1]) for j, k in pairs)
    return inside / comb(K - 2, len(menu) - 2)

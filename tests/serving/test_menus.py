"""Menus to show: their probabilities sum to one, are what is drawn, and none is out of reach."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.planning.asking import asking
from nasheval.serving.menus import menu_of, menu_propensity


def lottery_of(K, seed):
    return np.random.default_rng(seed).dirichlet(np.full(K, 0.4))


@given(st.integers(2, 7), st.integers(0, 50), st.data())
@settings(max_examples=40)
def test_probabilities_of_all_menus_of_a_size_sum_to_one(K, seed, data):
    size = data.draw(st.integers(2, K))
    chances = asking(lottery_of(K, seed)[None], floor=0.2)[0]
    menus = [menu_propensity(chances, list(menu), K) for menu in combinations(range(K), size)]
    assert sum(menus) == pytest.approx(1.0)
    assert min(menus) > 0


def test_three_of_four_by_hand():
    chances = np.array([0.1, 0.2, 0.3, 0.15, 0.05, 0.2])  # 01 02 03 12 13 23
    # a pair inside {0, 1, 3}, and then one of two others
    assert menu_propensity(chances, [3, 0, 1], 4) == pytest.approx((0.1 + 0.3 + 0.05) / 2)
    assert menu_propensity(chances, [2, 1], 4) == pytest.approx(0.15)
    assert menu_propensity(chances, [0, 1, 2, 3], 4) == pytest.approx(1.0)


@pytest.mark.parametrize("size", [2, 3])
def test_menus_are_drawn_as_often_as_is_said_and_in_either_order(size):
    K, n, random, pi = 4, 6000, Random(0), lottery_of(4, 3)
    said, drawn, first = {}, Counter(), Counter()
    for _ in range(n):
        menu, propensity = menu_of(pi, None, size, 0.2, random)
        said[tuple(sorted(menu))] = propensity
        drawn[tuple(sorted(menu))] += 1
        first[menu[0] < menu[1]] += 1
    assert len(said) == len(list(combinations(range(K), size)))
    for menu, propensity in said.items():
        assert abs(drawn[menu] / n - propensity) < 4 * np.sqrt(propensity / n)
    assert abs(first[True] / n - 0.5) < 0.03


def test_a_size_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="size is 4; accepted is a whole number from 2 to 3"):
        menu_of(lottery_of(3, 0), None, 4, 0.2, Random(0))

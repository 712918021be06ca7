"""From lotteries to agents: winners, utilities and draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.policy.choosing import choose, winner_sets

PI = np.array([[0.5, 0.4995, 0.0005, 0.0], [0.0, 0.002, 0.998, 0.0], [0.25, 0.25, 0.25, 0.25]])
AGENTS = ("a", "b", "c", "d")
NOTHING = [{"i": 0}] * 3


def test_winners_have_more_than_a_thousandth():
    assert winner_sets(PI, AGENTS) == [["a", "b"], ["b", "c"], ["a", "b", "c", "d"]]
    assert winner_sets(np.array([[0.001, 0.999]]), "ab") == [["b"]]
    many = [str(k) for k in range(2_000)]
    assert winner_sets(np.full((1, 2_000), 1 / 2_000), many) == [many]


def test_the_most_probable_agent_is_the_default_and_ties_go_to_the_first():
    assert choose(PI, AGENTS, NOTHING) == ["a", "c", "a"]


def test_a_function_is_asked_about_winners_only_and_sees_the_context():
    asked = []

    def utility(agent, context):
        asked.append((agent, context["i"]))
        return -abs(AGENTS.index(agent) - context["i"])

    assert choose(PI, AGENTS, [{"i": 3}, {"i": 1}, {"i": 2}], utility=utility) == ["b", "b", "c"]
    assert asked == [("a", 3), ("b", 3), ("b", 1), ("c", 1), ("a", 2), ("b", 2), ("c", 2), ("d", 2)]


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_draws_are_reproducible_and_never_outside_the_support(seed, K):
    pi = np.random.default_rng(seed).dirichlet(np.full(K, 0.3), 50)
    pi[:, 0] *= pi[:, 0] > 0.5
    pi = np.where(pi.sum(1, keepdims=True) > 0, pi, 1.0)
    pi /= pi.sum(1, keepdims=True)
    names = [f"m{k}" for k in range(K)]
    drawn = choose(pi, names, [], seed=seed)
    assert (pi[np.arange(50), [names.index(name) for name in drawn]] > 0).all()
    assert drawn == choose(pi, names, [], seed=seed)


def test_draws_have_the_frequencies_of_the_lottery():
    pi = np.array([0.5, 0.0, 0.3, 0.2])
    drawn = choose(np.tile(pi, (100_000, 1)), AGENTS, [], seed=0)
    count = np.array([drawn.count(agent) for agent in AGENTS])
    assert count[1] == 0
    assert np.abs(count - 1e5 * pi).max() < 4 * np.sqrt(1e5 * 0.25)


def test_what_cannot_be_chosen_from_is_refused():
    with pytest.raises(InputError, match="utility is nan for 'a' at context 0; give a finite number"):
        choose(PI, AGENTS, NOTHING, utility=lambda agent, context: np.nan)
    with pytest.raises(InputError, match="utility is 3; accepted is a function of an agent's name and a context"):
        choose(PI, AGENTS, NOTHING, utility=3)
    with pytest.raises(InputError, match="both given"):
        choose(PI, AGENTS, NOTHING, utility=lambda agent, context: 1.0, seed=0)

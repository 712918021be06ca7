"""Who is asked next: probabilities against brute force."""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.serving.turns import Turn, Turns


def play(agents, lottery, down, draw, first=None, again=None):
    """Ask until one that is up is found; return the turn and how often the game was solved."""
    solved = []

    async def solve(rest):
        solved.append(tuple(rest))
        return lottery if len(solved) == 1 else again(rest)

    async def run():
        turns = Turns(agents, solve, draw, first)
        while (turn := await turns.next()) is not None:
            if turn.agent not in down:
                return turn
        return None

    return asyncio.run(run()), solved


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.data())
def test_propensity_is_the_share_among_those_that_did_not_fail(weights, data):
    agents = [f"a{k}" for k in range(len(weights))]
    lottery = {agent: weight / sum(weights) for agent, weight in zip(agents, weights, strict=True)}
    down = set(data.draw(st.lists(st.sampled_from(agents), max_size=len(agents) - 1, unique=True)))
    shares = iter(data.draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=9, max_size=9)))
    tried = []

    async def run():
        turns = Turns(agents, lambda rest: asyncio.sleep(0, lottery), lambda: next(shares))
        while (turn := await turns.next()) is not None:
            if turn.agent not in down:
                return turn
            tried.append(turn.agent)
        return None

    turn = asyncio.run(run())
    if turn is not None:
        rest = sum(lottery[agent] for agent in agents if agent not in tried)
        assert turn.propensity == pytest.approx(lottery[turn.agent] / rest)
    assert (turn is None) == (down == set(agents))


def test_frequencies_given_failures_are_the_stated_propensities():
    rng = np.random.default_rng(0)
    lottery, down = {"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05}, {"a", "d"}
    counts = Counter(play(list(lottery), lottery, down, rng.random)[0].agent for _ in range(4000))
    assert counts["b"] / 4000 == pytest.approx(0.3 / 0.45, abs=0.03)  # four standard errors


def test_where_all_winners_failed_the_rest_is_solved_anew():
    again = lambda rest: dict.fromkeys(rest, 1 / len(rest))  # noqa: E731
    turn, solved = play("abc", {"a": 0.9995, "b": 0.0005, "c": 0.0}, {"a"}, lambda: 0.0, again=again)
    assert solved == [("a", "b", "c"), ("b", "c")]
    assert turn == Turn("b", 0.5)


def test_without_a_draw_the_most_probable_agent_is_taken():
    turn, _ = play("abc", {"a": 0.3, "b": 0.5, "c": 0.2}, set(), None)
    assert turn == Turn("b", 1.0)
    assert play("abc", {"a": 0.3, "b": 0.5, "c": 0.2}, {"b"}, None)[0].agent == "a"


def test_who_comes_first_is_asked_without_solving():
    turn, solved = play("abc", {"a": 1.0}, set(), lambda: 0.5, first=Turn("c", 0.2))
    assert (turn, solved) == (Turn("c", 0.2), [])
    turn, solved = play("abc", {"a": 1.0}, set(), lambda: 0.5, first=Turn("z", 0.2))
    assert turn == Turn("a", 1.0)


def test_everyone_down_is_an_end():
    again = lambda rest: dict.fromkeys(rest, 1 / len(rest))  # noqa: E731
    assert play("ab", {"a": 1.0, "b": 0.0}, {"a", "b"}, lambda: 0.999999, again=again)[0] is None

"""The pluralistic leaderboard: by hand, against a literal transcription, and what its theory promises."""

from __future__ import annotations

from itertools import combinations
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from nasheval.errors import ConvergenceError, InputError
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.policy import pluralistic
from nasheval.policy.baselines import PluralisticLeaderboard
from nasheval.policy.pluralistic import (
    inferred_places,
    iterated_rounding,
    outvoted,
    pluralistic_ranking,
    satisfied,
    stable_lottery,
    top_of,
)

from .hand import duels, of_log


def random_places(seed, most=7):
    """Rankings of some camps with noise, (n, K)."""
    rng = np.random.default_rng(seed)
    K, n, camps = int(rng.integers(2, most)), int(rng.integers(1, 40)), int(rng.integers(1, 5))
    centre = rng.normal(size=(camps, K))
    noise = rng.choice([0.0, 0.5, 2.0])  # without, many contexts have the same ranking
    u = centre[rng.integers(camps, size=n)] + noise * rng.normal(size=(n, K))
    return np.argsort(np.argsort(-u, axis=1), axis=1), rng.permutation(K)


# -- a literal transcription ------------------------------------------------------------------------------------------


def transcribed(rankings, order, epsilon):
    """The ranking, context by context and committee by committee; `rankings` are lists of agents, best first."""
    agents = list(order)

    def best(ranking, committee):
        return min(ranking.index(c) for c in committee)

    def mean_place(a):
        return sum(ranking.index(a) for ranking in rankings) / len(rankings)

    usual = sorted(agents, key=lambda a: (mean_place(a), agents.index(a)))
    ranking, checkpoint = [], 1
    while checkpoint <= len(agents):
        voters, left, t = list(rankings), checkpoint, 0
        while left > 0 and voters:
            alpha = 1 / 2 + 4 * epsilon
            seats = min(left, ceil((1 - alpha) * alpha**t * checkpoint))
            committees = list(combinations(agents, seats))
            b = [
                [sum(x.index(a) < best(x, C) for x in voters) / len(voters) for C in committees]
                for a in range(len(agents))
            ]
            delta = lottery_of(b)
            support = [i for i in range(len(committees)) if delta[i] > 1e-9]
            unhappy = {}
            for i in support:
                unhappy[i] = []
                for x in voters:
                    no_better = sum(delta[h] for h in support if best(x, committees[i]) <= best(x, committees[h]))
                    if no_better < 1 / 4 + 2 * epsilon - epsilon - 1e-9:
                        unhappy[i].append(x)
            chosen = min(support, key=lambda i: len(unhappy[i]))
            ranking += [a for a in usual if a in committees[chosen] and a not in ranking]
            voters, left, t = unhappy[chosen], left - seats, t + 1
        checkpoint *= 2
    return ranking + [a for a in usual if a not in ranking]


def lottery_of(b):
    L = len(b[0])
    rows = [[*row, -1.0] for row in b]
    found = linprog([0.0] * L + [1.0], A_ub=rows, b_ub=[0.0] * len(b), A_eq=[[1.0] * L + [0.0]], b_eq=[1.0])
    return found.x[:L]


def committees_of(order, seats):
    return order[np.array(list(combinations(range(len(order)), seats)))]


@settings(max_examples=60)
@given(st.integers(0, 100_000))
def test_the_ranking_is_that_of_the_transcription(seed):
    places, order = random_places(seed)
    rankings = [[int(a) for a in np.argsort(row)] for row in places]
    assert pluralistic_ranking(places, order).tolist() == transcribed(rankings, order.tolist(), 0.01)


@settings(max_examples=40)
@given(st.integers(0, 100_000), st.integers(1, 3))
def test_checkpoints_that_follow_do_not_change_the_winners(seed, winners):
    places, order = random_places(seed)
    short, full = (pluralistic_ranking(places, order, winners=count) for count in (winners, None))
    assert short[:winners].tolist() == full[:winners].tolist()
    assert sorted(short) == list(range(places.shape[1]))


# -- by hand ----------------------------------------------------------------------------------------------------------


def test_five_camps_in_a_circle_by_hand():
    # Camp i ranks i, i + 1, ..., i + 4 (mod 5). The stable lottery over single agents is uniform: each is preferred to
    # it by (4 + 3 + 2 + 1) / 25 = 2/5. Agent 0 satisfies every camp but 1, where it is last: the lottery's agents that
    # camp 1 likes no better weigh 1/5 < 0.26. All agents do alike, so the first, 0, is checkpoint 1. Checkpoint 2 takes
    # 0 again and then the favourite of camp 1.
    places = (np.arange(5) - np.arange(5)[:, None]) % 5
    order = np.arange(5)
    lottery, value = stable_lottery(outvoted(places, committees_of(order, 1)))
    assert lottery == pytest.approx(np.full(5, 0.2), abs=1e-9)
    assert value == pytest.approx(0.4)
    assert [c.tolist() for c in iterated_rounding(places, order, 1)] == [[0]]
    assert [c.tolist() for c in iterated_rounding(places, order, 2)] == [[0], [1]]
    assert pluralistic_ranking(places, order, winners=2)[:2].tolist() == [0, 1]
    assert pluralistic_ranking(places, np.array([3, 1, 0, 2, 4]), winners=2)[:2].tolist() == [3, 4]


def test_a_majority_and_a_minority_by_hand():
    # 3 to 1 for a: a is preferred to {b} by 3/4, b to {a} by 1/4, so the lottery is (3/4, 1/4), beaten by 3/16
    places = np.array([[0, 1], [0, 1], [0, 1], [1, 0]])
    lottery, value = stable_lottery(outvoted(places, np.array([[0], [1]])))
    assert lottery == pytest.approx([0.75, 0.25])
    assert value == pytest.approx(3 / 16)
    happy = satisfied(places, np.array([[0], [1]]), lottery, 0.26)
    assert happy.tolist() == [[True, False]] * 3 + [[True, True]]  # the minority can live with a, at 3/4


def test_scores_of_a_context_by_hand():
    # a over b over c: (L + I) u = (1, 0, -1) has u = (1/2, 0, -1/2); a over b alone: (1/3, -1/3, 0), so a, c, b
    said = [partition.ranking(["a", "b"]), partition.ranking(["b", "c"]), partition.ranking(["a", "b"])]
    log = Feedback.from_partitions(np.zeros((3, 1)), said, agents=list("abc"), context_of=[0, 0, 2])
    assert inferred_places(log, np.arange(3)).tolist() == [[0, 1, 2], [0, 2, 1]]


def test_scores_minimise_the_printed_objective():
    rng = np.random.default_rng(0)
    names, K = list("abcdef"), 6
    context_of = np.sort(rng.integers(12, size=80))
    said, design, target = [], [], []
    for _ in context_of:
        j, k = rng.choice(K, 2, replace=False)
        z = int(rng.integers(-1, 2))
        said.append((names[j], names[k], {1: names[j], 0: "tie", -1: names[k]}[z]))
        design.append(np.eye(K)[j] - np.eye(K)[k])
        target.append(z)
    log = duels(said, agents=names, contexts={"i": list(range(12))}, context_of=context_of.tolist())
    order = rng.permutation(K)
    found = inferred_places(log, order)
    for row, i in enumerate(np.unique(context_of)):
        A, z = np.array(design)[context_of == i], np.array(target)[context_of == i]
        u = np.linalg.lstsq(np.vstack([A, np.eye(K)]), np.r_[z, np.zeros(K)], rcond=None)[0]
        expected = sorted(range(K), key=lambda a: (-round(u[a], 8), order.tolist().index(a)))
        assert np.argsort(found[row]).tolist() == expected


def test_chunks_change_nothing(monkeypatch):
    log = duels([("a", "b", "a"), ("b", "c", "c"), ("a", "c", "tie")] * 5)
    whole = inferred_places(log, np.arange(3))
    monkeypatch.setattr(pluralistic, "_CELLS", 20)
    assert (inferred_places(log, np.arange(3)) == whole).all()


# -- what theory promises ---------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(0, 100_000), st.integers(1, 4))
def test_no_agent_is_preferred_to_the_stable_lottery_by_more_than_one_in_k_plus_one(seed, k):
    places, order = random_places(seed)
    k = min(k, places.shape[1])
    b = outvoted(places, committees_of(order, k))
    lottery, value = stable_lottery(b)
    assert value <= 1 / (k + 1) + 1e-9
    assert (b @ lottery).max() == pytest.approx(value, abs=1e-9)


@settings(max_examples=60)
@given(st.integers(0, 100_000), st.integers(1, 3), st.floats(0.05, 0.95))
def test_some_committee_leaves_no_more_than_the_threshold_unsatisfied(seed, k, threshold):
    places, order = random_places(seed)
    committees = committees_of(order, min(k, places.shape[1]))
    lottery, _ = stable_lottery(outvoted(places, committees))
    drawn = np.flatnonzero(lottery > 1e-9)
    happy = satisfied(places, committees[drawn], lottery[drawn], threshold)
    assert happy.mean(axis=0).max() >= 1 - threshold - 1e-6
    # whoever is satisfied and prefers an agent to the committee prefers it to a share `threshold` of the lottery
    best = np.stack([places[:, c].min(axis=1) for c in committees[drawn]], axis=1)
    for a in range(places.shape[1]):
        before = places[:, [a]] < best
        assert (before @ lottery[drawn] >= threshold - 1e-6)[(happy & before).any(axis=1)].all()


@settings(max_examples=30)
@given(st.integers(0, 100_000), st.integers(1, 8))
def test_committees_fill_no_more_seats_than_there_are(seed, size):
    places, order = random_places(seed, most=9)
    committees = list(iterated_rounding(places, order, min(size, places.shape[1])))
    assert 1 <= sum(len(c) for c in committees) <= min(size, places.shape[1])


# -- from a log -------------------------------------------------------------------------------------------------------


def test_the_lottery_is_uniform_over_the_first_of_those_up():
    ranking = np.array([3, 1, 0, 2])
    assert top_of(ranking, np.array([True] * 4), 3) == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])
    assert top_of(ranking, np.array([True, False, True, True]), 3) == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert top_of(ranking, np.array([True, False, True, True]), 2) == pytest.approx([1 / 2, 0, 1 / 2])
    assert top_of(ranking, np.array([True, False, True, False]), 3) == pytest.approx([0.5, 0.5])


def test_the_favourite_of_all_is_first_and_ties_follow_the_seed():
    log = duels([("a", "b", "a"), ("a", "c", "a"), ("a", "d", "a")] * 4)
    learner = PluralisticLeaderboard(winners=1)
    assert learner.fit(of_log(log)).predict_proba(np.zeros((2, 1))).tolist() == [[1, 0, 0, 0]] * 2
    lotteries = {tuple(PluralisticLeaderboard(seed=seed).fit(of_log(log)).lottery()) for seed in range(12)}
    assert len(lotteries) > 1
    again = [tuple(PluralisticLeaderboard(seed=5).fit(of_log(log)).lottery()) for _ in range(2)]
    assert again[0] == again[1]


def test_what_cannot_be_ranked_is_refused(monkeypatch):
    log = duels([("a", "b", "a")], agents=list("abcd"))
    with pytest.raises(InputError, match="winners is 0"):
        PluralisticLeaderboard(winners=0)
    with pytest.raises(InputError, match="no records"):
        PluralisticLeaderboard().fit(of_log(log.keep_records(np.array([False]))))
    monkeypatch.setattr(pluralistic, "_MOST_AGENTS", 3)
    with pytest.raises(InputError, match=r"has 4 agents, and .* lists all committees of up to 3"):
        PluralisticLeaderboard().fit(of_log(log))


def test_a_program_that_fails_is_not_handed_out(monkeypatch):
    class Failed:
        status, message = 4, "Numerical difficulties."

    monkeypatch.setattr(pluralistic, "linprog", lambda *given, **more: Failed())
    with pytest.raises(ConvergenceError, match="Numerical difficulties"):
        stable_lottery(np.ones((2, 2)))

"""Baselines that pool all contexts: maximal lottery, ladder, Nash averaging, best single agent, uniform."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2
from nasheval.game.scores import fit_scores
from nasheval.game.solver import solve
from nasheval.policy.baselines import BestSingle, MaximalLottery, PooledBT, Uniform, ratings
from nasheval.policy.pooled import mean_payoff, pooled_margins

from .hand import antisymmetric, counted, duels, of_log

RPS = np.array([[0.0, 1, -1], [-1, 0, 1], [1, -1, 0]])
AT = [{"i": 0.0}, {"i": 1.0}]


# -- the maximal lottery ----------------------------------------------------------------------------------------------


def test_verdicts_are_pooled_by_pair():
    # a over b 3 to 1: margin 1/2; b over c 2 to 0: margin 1; a and c never met: a tie
    log = counted([[0, 3, 0], [1, 0, 2], [0, 0, 0]])
    policy = MaximalLottery(regularizer=L2(0.0)).fit(of_log(log))
    assert pooled_margins(log).tolist() == [[0, 0.5, 0], [-0.5, 0, 1], [0, -1, 0]]
    # against p of a and 1 - p of c, b wins 1 - p - p / 2: any p of 2/3 or more will do, and 2/3 has the least norm
    assert policy.predict_proba(AT) == pytest.approx(np.array([[2 / 3, 0, 1 / 3]] * 2))


def test_a_cycle_is_solved_among_those_up():
    # margins 1/2 (a over b), 1/4 (b over c), 1/4 (c over a): weights are those of the opposite pair, 1/4 : 1/4 : 1/2
    log = counted([[0, 3, 3], [1, 0, 5], [5, 3, 0]])
    policy = MaximalLottery(regularizer=L2(0.0)).fit(of_log(log))
    assert policy.lottery() == pytest.approx([0.25, 0.25, 0.5])
    assert policy.lottery() is policy.lottery()  # solved once
    assert policy.predict_proba(AT, agents=["a", "b"]).tolist() == [[1, 0, 0]] * 2
    assert policy.predict_proba(AT, agents=["c", "a"]).tolist() == [[0, 0, 1]] * 2


def test_the_lottery_is_the_solution_of_the_pooled_game_with_costs():
    rng = np.random.default_rng(0)
    log = counted(rng.integers(1, 9, (4, 4)) * (1 - np.eye(4, dtype=int)))
    M, costs = np.nan_to_num(log.pair_counts.margin), np.array([4.0, 1, 2, 3])
    named = dict(zip(log.agents, costs, strict=True))
    for more in ({"cost_weight": 0.3}, {"budget": 1.5}, {"budget": SoftBudget(1.5, 0.0, 1.0, 0.1)}):
        found = MaximalLottery(costs=named, **more).fit(of_log(log)).lottery()
        assert found == pytest.approx(solve(M, costs=costs, **more).strategy, abs=1e-12)
        some = MaximalLottery(costs=named, **more).fit(of_log(log)).lottery(["c", "b"])
        up = np.array([False, True, True, False])
        assert some == pytest.approx(solve(M, costs=costs, available=up, **more).strategy, abs=1e-12)
        assert some[~up].max() == 0
    with pytest.raises(InputError, match=r"budget 0\.5"):
        MaximalLottery(costs=named, budget=0.5).fit(of_log(log))
    with pytest.raises(InputError, match="none were given"):
        MaximalLottery(budget=0.5).fit(of_log(log))


def test_weights_of_records_count():
    log = duels([("a", "b", "a"), ("a", "b", "b")], weight=[3.0, 1.0])
    assert pooled_margins(log)[0, 1] == pytest.approx(0.5)


# -- the ladder -------------------------------------------------------------------------------------------------------


def test_three_wins_to_one_by_hand():
    found = ratings(counted([[0, 3], [1, 0]]))
    assert found.score == pytest.approx([np.log(3) / 2, -np.log(3) / 2], abs=1e-6)
    assert found.rating == pytest.approx([1095.424, 904.576], abs=1e-3)  # 400 log10(3) = 190.848 points apart
    # the difference has variance 1 / (4 * 3/4 * 1/4) = 4/3, an agent's distance to the mean a quarter of it
    assert found.error == pytest.approx(400 / np.log(10) * np.sqrt(1 / 3) * np.ones(2), rel=1e-4)
    assert found.votes.tolist() == [4, 4]
    assert found.determined.all()


def test_ties_are_half_wins_and_what_was_not_asked_is_left_out():
    tied = duels([("a", "b", "a")] * 2 + [("a", "b", "tie"), ("a", "b", "both_bad"), ("a", "b", "b")])
    assert ratings(tied).score == pytest.approx([np.log(3 / 2) / 2, -np.log(3 / 2) / 2], abs=1e-6)
    # the winner of three says as much as its two duels: the order of the other two was not asked
    best = "aaabbc"
    asked = Feedback.from_partitions(np.zeros((6, 1)), [partition.winner(w, "abc") for w in best])
    implied = [(w, other, w) for w in best for other in "abc" if other != w]
    told = duels(implied, contexts={"i": list(range(6))}, context_of=np.repeat(range(6), 2).tolist())
    one, other = ratings(asked), ratings(told)
    assert one.votes.tolist() == [9, 8, 7]
    assert one.rating == pytest.approx(other.rating)
    assert one.error == pytest.approx(other.error)


def random_ladder(seed=0, K=6, n=600):
    """Duels by a Bradley-Terry model with one tie in six."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=K)
    pairs = np.array([rng.choice(K, 2, replace=False) for _ in range(n)])
    first = rng.random(n) < 1 / (1 + np.exp(s[pairs[:, 1]] - s[pairs[:, 0]]))
    tie = rng.random(n) < 1 / 6
    names = np.array(list("abcdefgh"[:K]))
    said = np.where(tie, "tie", np.where(first, names[pairs[:, 0]], names[pairs[:, 1]]))
    return duels([(names[j], names[k], w) for (j, k), w in zip(pairs, said, strict=True)], agents=list(names))


def test_the_ladder_agrees_with_choix():
    choix = pytest.importorskip("choix", reason="choix is not installed: the ladder has no such witness here")
    log = random_ladder()
    won = log.pair_counts.wins + log.pair_counts.ties / 2
    assert ratings(log).score == pytest.approx(choix.ilsr_pairwise_dense(won, tol=1e-12), abs=1e-7)


def test_the_ladder_agrees_with_evalica():
    evalica = pytest.importorskip("evalica", reason="evalica is not installed: the ladder has no such witness here")
    log = random_ladder()
    j, k, z = log.verdicts.j, log.verdicts.k, log.verdicts.z
    winner = [{1: evalica.Winner.X, -1: evalica.Winner.Y, 0: evalica.Winner.Draw}[int(v)] for v in z]
    names = np.array(log.agents)
    found = evalica.bradley_terry(names[j].tolist(), names[k].tolist(), winner, tolerance=1e-12, limit=10_000)
    theirs = np.log(found.scores.reindex(names).to_numpy())
    assert ratings(log).score == pytest.approx(theirs - theirs.mean(), abs=1e-6)


def test_standard_errors_are_those_of_a_bootstrap_over_contexts():
    # five votes per context that agree: the error is that of contexts, not of votes
    rng = np.random.default_rng(0)
    n = 200
    first = rng.random(n) < 0.7
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    said = [(*pairs[i % 3], pairs[i % 3][0] if first[i] else pairs[i % 3][1]) for i in range(n) for _ in range(5)]
    log = duels(said, contexts={"i": list(range(n))}, context_of=np.repeat(np.arange(n), 5))
    drawn = [ratings(log[rng.integers(n, size=n)]).rating for _ in range(300)]
    assert ratings(log).error == pytest.approx(np.std(drawn, axis=0), rel=0.15)


def test_an_agent_that_never_lost_is_first_and_its_rating_is_not_determined():
    found = ratings(counted([[0, 4, 4, 0], [0, 0, 3, 0], [0, 1, 0, 0], [0, 0, 0, 0]]))
    assert np.isfinite(found.rating).all()
    assert found.rating.argmax() == 0
    assert found.determined.tolist() == [False, True, True, False]
    assert found.error[[0, 3]].tolist() == [np.inf, np.inf]
    assert found.rating[[1, 2]] == pytest.approx([1095.424, 904.576], abs=1e-2)  # as if a had never played
    assert found.error[1] == pytest.approx(400 / np.log(10) * np.sqrt(1 / 3), rel=1e-2)


def test_the_best_rated_of_those_up_is_chosen():
    policy = PooledBT().fit(of_log(counted([[0, 3, 4], [1, 0, 3], [1, 1, 0]])))
    assert policy.predict_proba(AT).tolist() == [[1, 0, 0]] * 2
    assert policy.lottery(["c", "b"]).tolist() == [0, 1, 0]
    with pytest.raises(InputError, match="ridge is -1"):
        ratings(counted([[0, 1], [1, 0]]), ridge=-1)


def test_two_hundred_agents_with_millions_of_votes_settle():
    rng = np.random.default_rng(0)
    s = rng.normal(size=200)
    votes = np.triu(rng.poisson(200, (200, 200)), 1)
    won = np.triu(rng.binomial(votes, 1 / (1 + np.exp(s[None, :] - s[:, None]))), 1)
    wins = (won + (votes - won).T).astype(float)
    found = fit_scores((wins - wins.T).sum(axis=1)[None], wins + wins.T, ridge=1e-6, tolerance=1e-8)[0]
    assert found == pytest.approx(s - s.mean(), abs=0.1)


def test_problems_may_differ_in_who_met_whom():
    rng = np.random.default_rng(1)
    wins = rng.poisson(5, (3, 6, 6)) * (1 - np.eye(6))
    lead, meetings = (wins - wins.swapaxes(1, 2)).sum(axis=2), wins + wins.swapaxes(1, 2)
    alone = [fit_scores(lead[[i]], meetings[i], ridge=1.0, tolerance=1e-12)[0] for i in range(3)]
    assert fit_scores(lead, meetings, ridge=1.0, tolerance=1e-12) == pytest.approx(np.array(alone), abs=1e-12)


# -- points of reference ----------------------------------------------------------------------------------------------


def test_uniform_is_uniform_over_those_up():
    policy = Uniform().fit(of_log(counted(np.ones((4, 4), int) - np.eye(4, dtype=int))))
    assert policy.predict_proba(AT).tolist() == [[0.25] * 4] * 2
    assert policy.predict_proba(AT, agents=["b", "d"]).tolist() == [[0, 0.5, 0, 0.5]] * 2


class Pseudo:
    """Pseudo-outcomes of three pairs, in chunks (n, 3)."""

    n_pairs = 3

    def __init__(self, *chunks):
        self.given = chunks

    def chunks(self):
        for gamma in self.given:
            yield np.arange(len(gamma)), np.asarray(gamma)


def test_the_best_single_agent_is_best_against_the_others_up():
    payoff = antisymmetric([[0, -0.2, 0.9], [0, 0, 0.4], [0, 0, 0]])
    stage1 = of_log(counted([[0, 1, 1], [0, 0, 1], [0, 0, 0]]))
    stage1.pseudo = Pseudo(payoff[None, *np.triu_indices(3, 1)])
    policy = BestSingle().fit(stage1)
    assert policy.lottery().tolist() == [1, 0, 0]  # 0.7 against 0.6, as for Borda
    assert policy.lottery(["a", "b"]).tolist() == [0, 1, 0]


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_one_lottery_for_all_takes_any_contexts(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 5)), int(rng.integers(0, 3))
    policy = Uniform().fit(of_log(counted([[0, 1], [1, 0]])))
    assert policy.predict_proba(rng.normal(size=(n, d))).shape == (n, 2)
    with pytest.raises(InputError, match="contexts"):
        policy.predict_proba("prompt")
    with pytest.raises(InputError, match="at least one name"):
        policy.predict_proba(np.zeros((1, 1)), agents=[])


def test_best_single_averages_pseudo_outcomes():
    stage1 = of_log(counted([[0, 1, 1], [0, 0, 1], [0, 0, 0]]))
    stage1.pseudo = Pseudo([[0.5, 0.0, 0.0], [-0.1, 0.0, 2.0]], [[-1.0, 0.3, 0.1]])
    policy = BestSingle().fit(stage1)
    assert mean_payoff(stage1) == pytest.approx(antisymmetric([[0, -0.2, 0.1], [0, 0, 0.7], [0, 0, 0]]))
    assert policy.lottery().tolist() == [0, 1, 0]

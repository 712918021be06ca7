"""Means without some votes, nuisances as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.audit.margins import game_of, margins
from nasheval.audit.removal import Removal
from nasheval.audit.search import Items
from nasheval.feedback.groups import by_value
from nasheval.game.regularizers import L2, Entropy
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.inference import group_payoff, payoffs_by

from .worlds import duels, model_of, plain_stage1


def removal_of(stage1, group=None, **options):
    payoff = group_payoff(stage1.pseudo, group)
    return Removal(stage1.pseudo, payoff, L2(), **options)


def test_with_even_menus_the_mean_is_that_of_the_votes_left():
    wins = [("a", "b")] * 6 + [("b", "a")] * 2 + [("a", "c")] * 4 + [("b", "c")] * 3
    removal, gone = removal_of(plain_stage1(wins)), np.zeros(len(wins), bool)
    gone[:3] = True
    mean, votes = removal.means(gone)
    assert mean == pytest.approx([1 / 5, 1, 1])  # a beats b in 3 of the 5 votes left
    assert votes.tolist() == [5, 4, 3]


def test_without_none_gone_it_is_the_leaderboard():
    stage1 = model_of(duels()).stage1_
    removal = removal_of(stage1)
    mean, votes = removal.means(np.zeros(stage1.log.n_records, bool))
    assert mean == pytest.approx(removal.group.moments.mean, abs=1e-12)
    assert votes.tolist() == removal.group.moments.votes.tolist()


@pytest.mark.parametrize("design", ["draws", "inclusion"])
def test_a_context_with_two_votes_keeps_the_other(design):
    wins = [("a", "b"), ("b", "a"), ("a", "b"), ("a", "b"), ("b", "a"), ("a", "b")]
    removal = removal_of(plain_stage1(wins, e=1.0, design=design, repeat=2))
    gone = np.array([False, True, False, False, False, False])
    mean, _ = removal.means(gone)
    assert mean == pytest.approx([(1 + 1 + 0) / 3])


def test_votes_of_all_contexts_but_the_group_do_not_matter():
    stage1 = model_of(duels()).stage1_
    groups = by_value(stage1.log, "group", stage1.pseudo.used)
    inside = groups.code == 0
    removal = removal_of(stage1, inside)
    gone = ~inside[stage1.log.context_of]
    assert removal.means(gone)[0] == pytest.approx(removal.mean, abs=1e-12)


def test_a_prediction_is_near_a_refit():
    log = duels(n=800, agents=3)
    model = model_of(log, propensity="marginal")
    removal = removal_of(model.stage1_)
    gone = np.random.default_rng(0).random(log.n_records) < 0.1
    again = model_of(log.keep_records(~gone), propensity="marginal").payoff_interval().estimate
    predicted = pair_matrix(removal.means(gone)[0], 3, -removal.means(gone)[0])
    before = removal.group.estimate
    assert np.abs(predicted - again).max() < 0.35 * np.abs(before - again).max()


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.booleans())
def test_effects_are_the_slopes_of_removal(seed, voters):
    log = duels(n=200, agents=4, seed=seed, voters=12 if voters else 0)
    removal = removal_of(model_of(log).stage1_)
    own = log.records.voter if voters else np.arange(log.n_records)
    items = Items(np.asarray(own, np.int64), int(own.max()) + 1)
    nobody = np.zeros(log.n_records, bool)
    found = removal.margins(removal.without(nobody))
    slope = removal._seen_slope(found[0].slope)
    effect = removal.effects(found[0], nobody, items)
    moved = np.array([(removal.means(items.gone(np.array([i])))[0] - removal.mean) @ slope for i in range(items.size)])
    strong = np.argsort(effect)[:5]
    close = 0.05 if not voters else 0.35  # all of a voter's votes go together, and weights rise with each
    assert np.abs(effect - moved)[strong].max() <= close * np.abs(moved[strong]).max()


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([L2(1e-3), L2(0.05), Entropy(0.1)]))
def test_margins_have_the_slopes_of_finite_differences(seed, omega):
    rng, K = np.random.default_rng(seed), 5
    A = np.triu(rng.uniform(-0.9, 0.9, (K, K)), 1)
    game = game_of(A - A.T, np.ones(K, bool), omega)
    pairs = np.triu_indices(K, 1)
    for margin in margins(game, omega):
        step = 1e-6
        for p in range(len(pairs[0])):
            moved = game.payoff.copy()
            j, k = pairs[0][p], pairs[1][p]
            moved[j, k] += step
            moved[k, j] -= step
            other = game_of(moved, np.ones(K, bool), omega)
            if (other.winners != game.winners).any():
                continue
            again = [m for m in margins(other, omega) if (m.agent, m.change) == (margin.agent, margin.change)]
            scale = max(1.0, np.abs(margin.slope).max())
            assert (again[0].value - margin.value) / step == pytest.approx(margin.slope[p], abs=2e-3 * scale)


def test_bridged_pairs_move_with_those_that_were_compared():
    wins = [("a", "b")] * 7 + [("b", "a")] * 3 + [("b", "c")] * 6 + [("c", "b")] * 4
    removal, gone = removal_of(plain_stage1(wins)), np.zeros(20, bool)
    gone[:4] = True  # a is no better than b now
    mean, _ = removal.means(gone)
    assert mean[0] == pytest.approx(0)
    assert mean[1] == pytest.approx(mean[2], abs=0.06)  # a and c were never compared: a is as b


def test_payoffs_by_group_have_their_own_votes():
    model = model_of(duels(n=400))
    for payoff in payoffs_by(model.stage1_.pseudo, "group"):
        removal = Removal(model.stage1_.pseudo, payoff, L2())
        assert len(removal.vote) == payoff.inside[model.stage1_.log.context_of].sum()

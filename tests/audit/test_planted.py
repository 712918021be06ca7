"""Votes that look planted."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import nasheval as ne
from nasheval.audit.crowd import crowd_of
from nasheval.audit.evidence import agreement_of, rhythm_of, strength, surges
from nasheval.audit.planted import _named, planted
from nasheval.audit.tastes import GRID, LOYAL, fit_tastes
from nasheval.audit.without import winners_without
from nasheval.game.regularizers import L2
from nasheval.game.solver import lotteries
from nasheval.payoff.inference import group_payoff

from .crowds import fitted, world


def judged(simulated, found):
    plants = np.array([simulated.plants[name] for name in found.voters])
    return plants, found.named & plants, found.named & ~plants


@pytest.mark.parametrize("name", ["loyal", "for several", "against", "many ties", "sixty agents", "beside fans"])
def test_planters_are_found_and_honest_voters_are_not_named(name):
    simulated, stage1 = world(name)
    found = planted(stage1)
    plants, hits, false = judged(simulated, found)
    assert roc_auc_score(plants, found.score) > 0.95
    assert false.sum() <= 4
    assert hits.sum() >= (3 if name == "against" else 5)


@pytest.mark.parametrize("name", ["honest", "honest, alike", "honest, varied", "strong fans", "minority"])
def test_nobody_is_named_where_nobody_plants(name):
    found = planted(world(name, 1)[1])
    assert found.named.sum() <= 2
    if not found.named.any():
        assert "None of" in found.lines()[0]


def test_a_burst_adds_to_the_suspicion_and_makes_a_surge():
    simulated, stage1 = world("loyal in a burst")
    found = planted(stage1)
    plants, hits, _ = judged(simulated, found)
    assert hits.sum() == plants.sum()
    [surge] = found.surges
    assert surge.wins > surge.expected + 40
    assert surge.voters >= 10
    assert surge.end - surge.start < 36_000
    assert any(surge.agent in line and "UTC" in line for line in found.lines())


def test_it_says_what_was_found():
    _, stage1 = world("loyal")
    found = planted(stage1)
    named = int(found.named.sum())
    assert f"{named} voters of 500" in found.lines()[0]
    assert "Without their votes the winners over all contexts" in found.lines()[1]
    [table] = found.listings()
    assert all(len(row) == len(table.names) + len(table.numbers) for row in table.rows)
    assert table.rows[0][1].startswith("for agent-")
    [chart] = found.charts()
    assert len(chart.labels) == len(chart.values) == len(chart.marked)
    assert json.loads(json.dumps(found.to_dict()))["voters"][0]["named"]
    assert planted(stage1).score.tolist() == found.score.tolist()


def test_what_cannot_be_told_is_said():
    rng = np.random.default_rng(0)
    votes = pd.DataFrame({"model_a": "a", "model_b": "b", "winner": rng.choice(["model_a", "model_b"], 60)})
    votes["x"] = rng.normal(size=60)
    nobody = planted(fitted(ne.read_votes(votes, context=["x"])))
    assert "names no voters" in nobody.lines()[0]
    assert nobody.listings() == nobody.charts() == []
    few = planted(fitted(ne.read_votes(votes.assign(v=rng.integers(3, size=60)), context=["x"], voter="v")))
    assert "3 voters nobody stands out" in few.lines()[0]
    with pytest.raises(ne.InputError, match="level is 2"):
        planted(fitted(ne.read_votes(votes, context=["x"])), level=2)


def test_one_voter_with_half_the_votes_is_said():
    assert any("50% of the votes" in line for line in planted(world("half by one", planters=0)[1]).lines())


def test_loyalty_is_told_from_all_cells_by_hand():
    stage1 = world("loyal", honest=40, votes=1500)[1]
    crowd = crowd_of(stage1)
    tastes = fit_tastes(crowd)
    row = int(tastes.votes.argmax())
    voter, agent = tastes.voter[row], tastes.agent[row]
    honest, wins, losses, expected = np.zeros(len(GRID)), 0, 0, 0.0
    for u, j, k, z, logit in zip(crowd.voter, crowd.j, crowd.k, crowd.z, crowd.logit, strict=True):
        if u == voter and z and agent in (j, k):
            side = 1 if agent == j else -1
            won, about = side * z > 0, side * logit
            honest += -np.log1p(np.exp(-(about + GRID))) if won else -np.log1p(np.exp(about + GRID))
            wins, losses, expected = wins + won, losses + (not won), expected + 1 / (1 + np.exp(-about))
    marginal = np.log(np.exp(honest) @ tastes.weight[agent])
    assert (tastes.wins[row], tastes.votes[row]) == (wins, wins + losses)
    assert tastes.expected[row] == pytest.approx(expected)
    assert tastes.honest[row] == pytest.approx(marginal)
    loyal = np.log(np.mean(LOYAL**wins * (1 - LOYAL) ** losses))
    assert tastes.factor[row, 0] == pytest.approx(loyal - marginal)
    np.testing.assert_allclose(tastes.weight.sum(axis=1), 1)


def test_tastes_are_as_spread_as_they_are():
    narrow, wide = (
        fit_tastes(crowd_of(world(name, 1)[1])).spread.mean() for name in ("honest, alike", "honest, varied")
    )
    assert narrow < 0.15
    assert wide > 2 * narrow


def test_agreement_has_unit_variance_among_honest_voters():
    crowd = crowd_of(world("honest", 1)[1])
    agreement = agreement_of(crowd, fit_tastes(crowd))
    assert agreement.score.std() == pytest.approx(1.0, abs=0.2)
    assert (agreement.odds < 0).all()


def test_planters_at_random_agree_least():
    simulated, stage1 = world("at random")
    found = planted(stage1)
    plants, _, false = judged(simulated, found)
    assert roc_auc_score(plants, found.score) > 0.95
    assert false.sum() <= 2


def test_strength_is_one_where_nothing_is_odd():
    assert strength(np.array([1.0, 0.5, 1 / np.e])) == pytest.approx(1.0)
    assert strength(np.array([0.01]))[0] == pytest.approx(1 / (np.e * 0.01 * np.log(100)))


def test_a_rhythm_is_the_median_gap():
    _, stage1 = world("loyal in a burst")
    crowd = crowd_of(stage1)
    planter = crowd.names(np.arange(500)).index("voter-0495")
    rhythm, records = rhythm_of(crowd), stage1.log.records
    for voter in (0, 7, planter):
        gaps = np.sort(np.diff(np.sort(records.time[records.voter == voter])))
        assert rhythm.gap[voter] == gaps[len(gaps) // 2]
    assert rhythm.score[planter] > 3
    assert rhythm_of(crowd_of(world("loyal, no times")[1])) is None


def test_no_surge_among_honest_voters():
    assert [surges(crowd_of(world(name, 1)[1])) for name in ("honest", "minority")] == [(), ()]


def test_named_are_those_of_whom_few_are_expected_to_be_honest():
    assert _named(np.array([0.99, 0.97, 0.93, 0.85, 0.1]), 0.05).tolist() == [True, True, True, False, False]
    assert not _named(np.array([0.79, 0.5]), 0.4).any()


def test_winners_without_nobody_are_those_of_the_mean_payoffs():
    stage1 = world("loyal")[1]
    whole = group_payoff(stage1.pseudo)
    lottery = lotteries(np.clip(whole.estimate, -1, 1)[None], L2(1e-3), whole.present)[0]
    nobody = np.zeros(stage1.log.n_records, bool)
    assert set(winners_without(stage1, nobody)) == {stage1.agents[a] for a in np.flatnonzero(lottery > 1e-3)}
    gone = stage1.log.records.voter < 200  # each context is one voter's, so leaving out contexts is the oracle
    kept = group_payoff(stage1.pseudo, ~gone)
    lottery = lotteries(np.clip(kept.estimate, -1, 1)[None], L2(1e-3), kept.present)[0]
    assert set(winners_without(stage1, gone)) == {stage1.agents[a] for a in np.flatnonzero(lottery > 1e-3)}
    assert winners_without(stage1, ~nobody) == []


def test_planted_votes_that_decide_are_said_to():
    simulated, stage1 = world("loyal", 1, planters=10, each=400, honest=200, votes=10_000)
    found = planted(stage1)
    _, hits, _ = judged(simulated, found)
    assert hits.sum() == 10
    assert found.winners != found.winners_without
    assert f"are {', '.join(found.winners_without[:1])}" in found.lines()[1]


def test_half_of_normal_scores_lie_within_their_quartiles():
    crowd = crowd_of(world("honest, varied", 1)[1])
    score = agreement_of(crowd, fit_tastes(crowd)).score
    assert (np.abs(score) < norm.ppf(0.75)).mean() == pytest.approx(0.5, abs=0.08)

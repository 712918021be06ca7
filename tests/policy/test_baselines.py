"""Every baseline through Stage 1: the protocol, those that are up, and that the same is the same again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from nasheval.errors import InputError
from nasheval.feedback.world import SyntheticWorld
from nasheval.game.regularizers import L2
from nasheval.game.solver import solve
from nasheval.payoff.stage1 import fit_stage1
from nasheval.policy import baselines
from nasheval.policy.base import Policy, PolicyLearner
from nasheval.policy.pooled import mean_payoff

COSTS = [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.fixture(scope="module")
def world():
    return SyntheticWorld(seed=70)


@pytest.fixture(scope="module")
def stage1(world):
    log = world.feedback("pairwise", voters=3, n=300)
    side = np.where(log.contexts[0].to_numpy() > 0.5, "right", "left")
    log = replace(log, contexts=log.contexts.append_column("side", pa.array(side)))
    return fit_stage1(log, outcome="lightgbm", propensity="marginal", second_stage="per-pair", folds=2)


LEARNERS = {
    "BT plug-in": baselines.BradleyTerry(),
    "BT debiased": baselines.BradleyTerry(payoff="debiased"),
    "BT-Reg": baselines.RegularizedBT(),
    "Borda": baselines.Borda(),
    "BT-cost": baselines.BudgetedBT(costs=COSTS, budget=2.5),
    "pooled BT": baselines.PooledBT(),
    "maximal lottery": baselines.MaximalLottery(),
    "robust": baselines.RobustMaximalLottery("side"),
    "pluralistic": baselines.PluralisticLeaderboard(),
    "best single": baselines.BestSingle(),
    "best by group": baselines.BestByGroup(),
    "uniform": baselines.Uniform(),
}


def test_every_public_baseline_is_tried():
    tried = {type(learner).__name__ for learner in LEARNERS.values()}
    assert tried == set(baselines.__all__) - {"Ratings", "ratings"}


@pytest.mark.parametrize("name", LEARNERS)
def test_every_baseline_is_a_policy(name, stage1):
    learner = LEARNERS[name]
    assert isinstance(learner, PolicyLearner)
    policy = learner.fit(stage1)
    assert isinstance(policy, Policy)
    assert policy.agents == stage1.agents
    at = stage1.log.contexts.slice(0, 40)
    pi = policy.predict_proba(at)
    assert pi.shape == (40, 5)
    assert pi.min() >= 0
    assert pi.sum(axis=1) == pytest.approx(np.ones(40))
    assert (learner.fit(stage1).predict_proba(at) == pi).all()
    up = [stage1.agents[i] for i in (3, 0, 1)]
    some = policy.predict_proba(at, agents=up)
    assert some[:, [2, 4]].max() == 0
    assert some.sum(axis=1) == pytest.approx(np.ones(40))
    alone = policy.predict_proba(at, agents=[stage1.agents[0]])
    assert alone.tolist() == [[1, 0, 0, 0, 0]] * 40


def test_contextual_baselines_take_the_payoffs_of_stage1(stage1):
    at = stage1.log.contexts.slice(0, 60)
    X = stage1.features(at)
    plug_in, debiased = stage1.plug_in.predict(X), stage1.payoff.predict(X)
    borda = baselines.Borda().fit(stage1).predict_proba(at)
    assert borda.argmax(axis=1).tolist() == debiased.sum(axis=2).argmax(axis=1).tolist()
    plain = baselines.BradleyTerry().fit(stage1).predict_proba(at)
    assert plain.argmax(axis=1).tolist() == plug_in.sum(axis=2).argmax(axis=1).tolist()
    assert (plain != borda).any()
    same = baselines.BradleyTerry(payoff="debiased").fit(stage1).predict_proba(at)
    assert (same == borda).all()


def test_contexts_one_by_one_are_those_together(stage1):
    at = stage1.log.contexts.slice(0, 5)
    policy = baselines.RegularizedBT().fit(stage1)
    single = np.concatenate([policy.predict_proba(at.slice(i, 1)) for i in range(5)])
    assert policy.predict_proba(at) == pytest.approx(single, abs=1e-9)


def test_the_pooled_lottery_is_that_of_the_log(stage1):
    M = np.nan_to_num(stage1.log.pair_counts.margin)
    policy = baselines.MaximalLottery(regularizer=L2(0.01)).fit(stage1)
    assert policy.lottery() == pytest.approx(solve(M, regularizer=L2(0.01)).strategy)


def test_the_best_single_agent_of_a_world_with_a_clear_one_is_found(world, stage1):
    X = world.test_contexts(2000)
    payoff = world.payoff(X, "pairwise", voters=3).mean(axis=0)
    found = baselines.BestSingle().fit(stage1)
    assert np.abs(mean_payoff(stage1) - payoff).max() < 0.25  # 300 contexts
    assert payoff.mean(axis=1)[found.lottery().argmax()] >= payoff.mean(axis=1).max() - 0.1


def test_the_best_agent_by_group_is_best_among_the_contexts_of_each_group(stage1):
    policy, side = baselines.BestByGroup("side").fit(stage1), stage1.log.contexts["side"].to_numpy(zero_copy_only=False)
    payoffs, (j, k) = np.zeros((stage1.log.n_contexts, 5, 5)), np.triu_indices(5, 1)
    used = np.zeros(stage1.log.n_contexts, bool)
    for rows, gamma in stage1.pseudo.chunks():
        payoffs[rows[:, None], j, k], payoffs[rows[:, None], k, j], used[rows] = gamma, -gamma, True
    for value in ("left", "right"):
        mean = payoffs[used & (side == value)].mean(axis=0)
        found = policy.predict_proba([{"side": value}])[0]
        assert found.argmax() == mean.sum(axis=1).argmax()
        few = policy.predict_proba([{"side": value}], agents=["a1", "a3"])[0]
        assert few.argmax() == (1 if mean[1, 3] > 0 else 3)
    elsewhere = policy.predict_proba([{"side": "middle"}, {"side": None}])
    assert (elsewhere == baselines.BestSingle().fit(stage1).lottery()).all()
    assert (
        baselines.BestByGroup().fit(stage1).predict_proba([{"side": "left"}])
        == policy.predict_proba([{"side": "left"}])
    ).all()


def test_the_best_agent_by_group_needs_a_column_of_groups(world, stage1):
    with pytest.raises(InputError, match="no context column"):
        baselines.BestByGroup("colour").fit(stage1)
    bare = replace(stage1, nuisances=replace(stage1.nuisances, log=world.feedback("pairwise", voters=3, n=300)))
    with pytest.raises(InputError, match="2 to 20 values"):
        baselines.BestByGroup().fit(bare)

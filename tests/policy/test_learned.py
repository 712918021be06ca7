"""The learned policy: recovery on known worlds, finite differences, NumPy against PyTorch, mixtures, early stopping."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import InputError
from nasheval.game.costs import HardBudget, LinearCost, SoftBudget
from nasheval.game.gaps import gap
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import solve
from nasheval.nuisance.learners import Effort, Features
from nasheval.payoff.stage1 import fit_stage1
from nasheval.policy import learned_contexts
from nasheval.policy.base import Policy, PolicyLearner
from nasheval.policy.exact import ExactPolicy
from nasheval.policy.learned import LearnedPolicy
from nasheval.policy.learned_contexts import gather, mixable, mixtures
from nasheval.policy.learned_training import OUTPUTS, Network, Recipe, _Trainer, affordable, forward, initial
from nasheval.policy.terms import strengthened
from nasheval.scoring import metrics

from .worlds import of_function, smooth_payoff, stepped_payoff

SMALL = {"hidden": (16, 16), "waves": 8, "augment": 0, "epochs": 3}


def contexts(n, d=2, seed=0):
    return np.random.default_rng(seed).random((n, d))


def smooth_world(n=300):
    return of_function(smooth_payoff, 4, contexts(n))


# -- recovery ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regularizer", [L2(0.1), Entropy(0.1)])
def test_the_regularised_gap_of_a_smooth_world_goes_below_a_thousandth(regularizer):
    learner = LearnedPolicy(regularizer, hidden=(64, 64), waves=64, augment=4_000, epochs=25, rate=5e-3)
    policy = learner.fit(of_function(smooth_payoff, 4, contexts(2_000)))
    test = contexts(2_000, seed=1)
    A, pi = smooth_payoff(test), policy.predict_proba(test)
    assert gap(pi, A, regularizer=regularizer).mean() < 1e-3
    assert policy.training.gap < 1e-3
    uniform = np.full(pi.shape, 0.25)
    assert gap(uniform, A, regularizer=regularizer).mean() > 0.1  # so it was not easy
    assert np.abs(pi - solve(A, regularizer=regularizer).strategy).max(axis=1).mean() < 0.03


def test_payoffs_of_one_and_minus_one_do_not_get_it_stuck():
    # Where a lottery sits on the wrong agent neither output has a gradient: hence the annealing.
    learner = LearnedPolicy(hidden=(64, 64), waves=64, augment=6_000, epochs=20, rate=5e-3)
    policy = learner.fit(of_function(stepped_payoff, 4, contexts(2_000)))
    test = contexts(2_000, seed=1)
    A, pi = stepped_payoff(test), policy.predict_proba(test)
    exact = solve(A).strategy
    assert metrics.exploitability(A, pi) < 0.02
    assert metrics.support_f1(pi, exact) > 0.97
    assert (pi == 0).mean() > 0.7


def test_the_papers_network_learns_too():
    learner = LearnedPolicy.paper(regularizer=L2(0.1), tune=None, hidden=(64, 64), rate=1e-3, epochs=60, batch=128)
    policy = learner.fit(of_function(smooth_payoff, 4, contexts(1_500)))
    test = contexts(500, seed=1)
    pi = policy.predict_proba(test)
    assert (pi > 0).all()
    assert "wave" not in policy.network.parameters
    A = smooth_payoff(test)
    assert gap(pi, A, regularizer=L2(0.1)).mean() < 0.2 * gap(np.full(pi.shape, 0.25), A, regularizer=L2(0.1)).mean()


# -- the loss ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_gradient_of_the_loss_is_that_of_finite_differences(output):
    stage1 = smooth_world(60)
    games = gather(stage1.payoff, stage1.encoder, stage1.nuisances.X, None, extra=0, held_out=0.1, rng=generator())
    recipe = Recipe(output=output, hidden=(5, 4), waves=6)
    trainer = _Trainer(games, L2(0.3), recipe, 4, Effort())
    rng, rows = generator(), trainer.fit
    trainer.p = {
        name: (p.detach().double() + 0.2 * torch.from_numpy(rng.standard_normal(p.shape))).requires_grad_()
        for name, p in trainer.p.items()
    }
    trainer.x, trainer.pairs = trainer.x.double(), trainer.pairs.double()

    def loss():
        return trainer._gaps(rows, L2(0.3)).mean()

    loss().backward()
    for p in trainer.p.values():
        place, step = tuple(rng.integers(0, p.shape)), 1e-6
        with torch.no_grad():
            p[place] += step
            above = loss().item()
            p[place] -= 2 * step
            below = loss().item()
            p[place] += step
        assert p.grad[place].item() == pytest.approx((above - below) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_held_out_gap_is_the_mean_gap_at_the_contexts_held_out(output):
    stage1 = smooth_world()
    policy = LearnedPolicy(L2(0.2), output=output, held_out=0.3, **SMALL).fit(stage1)
    games = gather(stage1.payoff, stage1.encoder, stage1.nuisances.X, None, extra=0, held_out=0.3, rng=generator())
    assert games.held.sum() == 90
    A = np.zeros((90, 4, 4))
    A[:, *np.triu_indices(4, 1)] = games.pairs[games.held]
    gaps = gap(policy.network.lotteries(games.x[games.held]), A - A.swapaxes(1, 2), regularizer=L2(0.2))
    assert policy.training.gap == pytest.approx(gaps.mean(), abs=1e-6)


def generator():
    return np.random.default_rng(0)


# -- the network ------------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.sampled_from(OUTPUTS), st.integers(0, 4), st.integers(1, 6), st.sampled_from([0, 7]), st.integers(0, 99))
def test_numpy_and_pytorch_agree(output, inputs, agents, waves, seed):
    rng = np.random.default_rng(seed)
    p = initial(inputs, agents, (9, 8), waves, 1.5, rng)
    p["head"] = rng.standard_normal(p["head"].shape).astype(np.float32)
    x = rng.standard_normal((20, inputs)).astype(np.float32)
    theirs = forward({name: torch.from_numpy(values) for name, values in p.items()}, torch.from_numpy(x), output)
    ours = Network(output, p).lotteries(x)
    assert ours == pytest.approx(theirs.numpy(), abs=1e-5)
    assert ours.sum(axis=1) == pytest.approx(np.ones(20), abs=1e-12)


def test_an_untrained_network_is_uniform():
    p = initial(3, 4, (9, 8), 7, 1.0, generator())
    for output in OUTPUTS:
        assert (Network(output, p).lotteries(np.ones((2, 3), np.float32)) == 0.25).all()


@pytest.mark.parametrize("waves", [0, 8])
@pytest.mark.parametrize("output", OUTPUTS)
def test_arrays_there_and_back(output, waves):
    policy = LearnedPolicy(output=output, **{**SMALL, "waves": waves}).fit(smooth_world(50))
    arrays = policy.network.to_arrays()
    assert all(isinstance(values, np.ndarray) and values.dtype != object for values in arrays.values())
    again = replace(policy, network=Network.from_arrays(arrays))
    assert (again.predict_proba(contexts(20)) == policy.predict_proba(contexts(20))).all()


# -- asking -----------------------------------------------------------------------------------------------------------


def test_the_payoff_is_not_asked_unless_some_agents_are_down():
    stage1 = smooth_world()
    policy = LearnedPolicy(**SMALL).fit(stage1)
    assert isinstance(LearnedPolicy(), PolicyLearner)
    assert isinstance(policy, Policy)
    asked, test = stage1.payoff.asked, contexts(30)
    assert (policy.predict_proba(test, agents=["d", "c", "b", "a"]) == policy.predict_proba(test)).all()
    assert stage1.payoff.asked == asked
    some = policy.predict_proba(test, agents=["a", "c"])
    assert (some == ExactPolicy().fit(stage1).predict_proba(test, agents=["a", "c"])).all()
    assert policy.predict_proba(test[:0]).shape == (0, 4)


def test_a_budget_is_kept_at_every_context():
    x = contexts(400, d=3)
    stage1 = of_function(lambda x: smooth_payoff(np.asarray(x)[:, :2]), 4, x)
    costs = {"a": 1.0, "b": "x2", "c": 2.0, "d": 3.0}
    settings = {"hidden": (32, 32), "waves": 32, "augment": 1_200, "epochs": 12, "batch": 64, "rate": 5e-3}
    policy = LearnedPolicy(L2(0.1), costs=costs, budget=1.2, **settings).fit(stage1)
    test = contexts(300, d=3, seed=1)
    priced = np.stack([np.ones(300), test[:, 2], np.full(300, 2.0), np.full(300, 3.0)], axis=1)
    pi = policy.predict_proba(test)
    assert ((pi * priced).sum(axis=1) <= 1.2 + 1e-9).all()
    assert pi.sum(axis=1) == pytest.approx(np.ones(300))
    terms = {"regularizer": L2(0.1), "costs": priced, "budget": 1.2}
    A, plain = smooth_payoff(test[:, :2]), affordable(np.full((300, 4), 0.25), priced, 1.2)
    left = gap(pi, A, **terms)
    assert (left > -1e-6).all()
    assert left.mean() < 0.25 * gap(plain, A, **terms).mean()


def test_lotteries_beyond_the_budget_are_mixed_with_the_cheapest_agent_by_hand():
    pi = np.array([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    costs = np.array([1.0, 3.0, 1.0])
    expected = [[0.25, 0.5, 0.25], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    assert affordable(pi, costs, 2.0) == pytest.approx(np.array(expected))
    assert affordable(torch.from_numpy(pi), torch.from_numpy(costs), 2.0).numpy() == pytest.approx(np.array(expected))
    assert affordable(pi, costs, 1.0)[0] == pytest.approx([0.5, 0.0, 0.5])


@pytest.mark.parametrize("budget", [None, SoftBudget(1.5, 0.1, 1.0, 0.2)])
def test_costs_make_dear_agents_rarer(budget):
    stage1, test = smooth_world(600), contexts(200, seed=1)
    settings = {"regularizer": L2(0.1), **SMALL, "augment": 1_000, "epochs": 10}
    costs = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    free = LearnedPolicy(**settings).fit(stage1).predict_proba(test)
    paid = LearnedPolicy(costs=costs, cost_weight=0.5, budget=budget, **settings).fit(stage1).predict_proba(test)
    assert metrics.expected_cost(paid, [1, 2, 3, 4]) < metrics.expected_cost(free, [1, 2, 3, 4]) - 0.3


# -- contexts ---------------------------------------------------------------------------------------------------------


def table_of(age, height, kind, member):
    return pa.table({"age": age, "height": height, "kind": kind, "member": member})


def test_mixtures_are_contexts_in_both_forms():
    log = table_of([10.0, 30.0, None, 50.0], [1.0, 2.0, 3.0, 5.0], ["x", "y", None, "x"], [True, False, None, True])
    encoder = ContextEncoder.fit(log)
    X = Features.of(encoder, log)
    one, other = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 0])
    found = mixtures(X, mixable(encoder), one, other, np.array([0.5, 0.75, 0.5, 1.0]))
    # numbers are mixed where both are known; everything else is that of the first
    by_hand = table_of(
        [20.0, 30.0, None, 50.0], [1.5, 2.25, 4.0, 5.0], ["x", "y", None, "x"], [True, False, None, True]
    )
    expected = Features.of(encoder, by_hand)
    assert found.trees == pytest.approx(expected.trees, nan_ok=True)
    assert found.network == pytest.approx(expected.network, abs=1e-6)
    assert found.categorical == X.categorical


def test_texts_and_vectors_are_mixed():
    class Words:
        size = 2

    encoder = ContextEncoder((*ContextEncoder.fit(pa.table({"kind": ["x", "y"]})).columns,), "prompt", Words())
    numeric, source = mixable(encoder)
    assert numeric.tolist() == [False, True, True]
    assert source.tolist() == [-1, -1, 1, 2]
    vectors = ContextEncoder.fit(pa.table({"v": [[1.0, 2.0], None], "kind": ["x", "y"], "n": [1, 2]})).columns
    numeric, source = mixable(ContextEncoder(vectors, "prompt", Words()))
    assert numeric.tolist() == [False, True, True, True, True, True]
    assert source.tolist() == [-1, -1, 1, 2, 3, -1, 4, 5], "the flag of a missing vector is not mixed"


def test_mixtures_come_from_training_contexts_and_have_payoffs_and_costs_of_their_own():
    stage1 = smooth_world(100)
    costs = np.repeat(contexts(100)[:, :1], 4, axis=1)  # each agent costs x0
    games = gather(stage1.payoff, stage1.encoder, stage1.nuisances.X, costs, extra=500, held_out=0.2, rng=generator())
    assert games.x.shape == (600, 2)
    assert games.held.sum() == 20
    scale, mean = contexts(100).std(axis=0), contexts(100).mean(axis=0)
    x = games.x * scale + mean
    assert games.costs[:, 0] == pytest.approx(x[:, 0], abs=1e-5)
    assert games.pairs == pytest.approx(smooth_payoff(x)[:, *np.triu_indices(4, 1)], abs=1e-4)
    train = x[20:100]
    assert (x[100:] >= train.min(axis=0) - 1e-6).all()
    assert (x[100:] <= train.max(axis=0) + 1e-6).all()


def test_contexts_are_drawn_where_their_games_would_not_fit(monkeypatch):
    monkeypatch.setattr(learned_contexts, "_CELLS", 6 * 50)
    stage1 = smooth_world(40)
    options = {"held_out": 0.1, "rng": generator()}
    assert len(gather(stage1.payoff, stage1.encoder, stage1.nuisances.X, None, extra=99, **options).x) == 50
    stage1 = smooth_world(70)
    assert len(gather(stage1.payoff, stage1.encoder, stage1.nuisances.X, None, extra=99, **options).x) == 50


# -- training ---------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_network():
    first, second, other = (
        LearnedPolicy(**{**SMALL, "augment": 50}).fit(smooth_world(), Effort(seed=seed)) for seed in (1, 1, 2)
    )
    assert (first.predict_proba(contexts(9)) == second.predict_proba(contexts(9))).all()
    assert (first.predict_proba(contexts(9)) != other.predict_proba(contexts(9))).any()


def test_training_stops_when_the_held_out_gap_falls_no_more_and_keeps_the_best_epoch():
    shares = []
    learner = LearnedPolicy.paper(tune=None, hidden=(8, 8), rate=0.3, epochs=60, patience=4)
    training = learner.fit(smooth_world(100), Effort(advance=shares.append)).training
    assert training.gap == min(training.gaps)
    assert training.epoch == 1 + int(np.argmin(training.gaps))
    assert len(training.gaps) == training.epoch + 4 < 60
    assert sum(shares) == pytest.approx(1.0)


def test_patience_waits_for_the_annealing():
    policy = LearnedPolicy(**{**SMALL, "epochs": 10, "rate": 1e-9, "patience": 1}).fit(smooth_world(50))
    assert len(policy.training.gaps) >= 6


def test_the_papers_grid_has_54_settings_and_the_best_is_kept():
    (middle,) = LearnedPolicy.paper(tune=None)._recipes(20_000)
    assert (middle.hidden, middle.rate, middle.weight_decay, middle.batch) == ((128, 128), 3e-4, 1e-5, 256)
    recipes = list(LearnedPolicy.paper()._recipes(20_000))
    assert len({(r.hidden, r.rate, r.weight_decay, r.batch) for r in recipes}) == len(recipes) == 54
    assert {(r.epochs, r.patience, r.output, r.waves, r.schedule) for r in recipes} == {
        (500, 30, "softmax", 0, "constant")
    }
    shares = []
    policy = LearnedPolicy(**{**SMALL, "tune": "fast"}).fit(smooth_world(), Effort(advance=shares.append))
    assert [tried.recipe.hidden for tried in policy.tried] == [(64, 64), (128, 128), (256, 256)]
    assert policy.training.gap == min(tried.gap for tried in policy.tried)
    assert sum(shares) == pytest.approx(1.0)


def test_the_regulariser_is_annealed_under_costs_too():
    recipe, costs = Recipe(), np.array([1.0, 2.0])
    omega = HardBudget(LinearCost(L2(0.01), costs), costs, 1.5)
    assert recipe.omega_at(omega, 0.0).kappa == 10
    assert recipe.omega_at(omega, 0.25).kappa == pytest.approx(0.1)
    assert recipe.omega_at(omega, 0.45).kappa == pytest.approx(0.01)
    assert recipe.omega_at(omega, 0.5) is omega
    assert strengthened(Entropy(0.1, [0.5, 0.5]), 1.0) == Entropy(1.0, [0.5, 0.5])
    assert replace(recipe, schedule="constant").omega_at(omega, 0.0) is omega
    rates = [recipe.rate_at(progress) for progress in np.linspace(0, 1, 11)]
    assert max(rates) == pytest.approx(recipe.rate) == rates[3]
    assert rates[-1] == pytest.approx(0, abs=1e-12)


def test_contexts_without_columns_have_one_lottery():
    games = smooth_payoff(np.ones((1, 2)))[0]
    stage1 = of_function(lambda x: np.tile(games, (len(x), 1, 1)), 4, pa.table({"same": np.ones(40)}))
    pi = LearnedPolicy(L2(0.1), **{**SMALL, "epochs": 60}).fit(stage1).predict_proba([{"same": 1.0}, {"same": 1.0}])
    assert (pi[0] == pi[1]).all()
    assert gap(pi, np.stack([games, games]), regularizer=L2(0.1)).max() < 0.05


def test_on_a_fitted_stage_1():
    world = ne.SyntheticWorld(seed=70)
    stage1 = fit_stage1(world.feedback("ranking", n=300), outcome="lightgbm", second_stage="none", folds=2)
    policy = LearnedPolicy(L2(0.1), **{**SMALL, "augment": 300, "epochs": 8}).fit(stage1)
    test = np.asarray(world.test_contexts(100))
    A, pi = stage1.payoffs(test), policy.predict_proba(test)
    uniform = np.full(pi.shape, 0.2)
    assert gap(pi, A, regularizer=L2(0.1)).mean() < 0.7 * gap(uniform, A, regularizer=L2(0.1)).mean()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu():
    settings = {**SMALL, "augment": 500, "epochs": 5, "costs": {"a": 1, "b": 2, "c": 3, "d": 4}, "budget": 2.0}
    cpu, cuda = (LearnedPolicy(L2(0.1), **settings).fit(smooth_world(), Effort(device=d)) for d in ("cpu", "cuda"))
    assert cuda.training.gap == pytest.approx(cpu.training.gap, rel=0.05, abs=1e-3)
    assert cuda.predict_proba(contexts(9)) == pytest.approx(cpu.predict_proba(contexts(9)), abs=0.05)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"output": "relu"}, "'relu'.*'softmax' and 'sparsemax'"),
        ({"schedule": "fast"}, "'annealed' and 'constant'"),
        ({"tune": "all"}, "'all'.*'fast' and 'paper'"),
        ({"augment": -1}, "augment is -1"),
        ({"held_out": 1.0}, "held_out is 1.0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch": 0}, "batch is 0"),
        ({"rate": 0.0}, "rate is 0.0"),
        ({"hidden": ()}, r"hidden is \(\)"),
        ({"waves": -1}, "waves -1"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_at_once(options, told):
    with pytest.raises(InputError, match=told):
        LearnedPolicy(**options)


def test_one_context_is_too_few():
    with pytest.raises(InputError, match="at least 2 contexts"):
        LearnedPolicy(**SMALL).fit(smooth_world(1))

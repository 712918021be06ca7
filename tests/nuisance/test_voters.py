"""The latent voters: their answers against enumeration, no leakage, recovery of a known world."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

import nasheval as ne
from nasheval.errors import InputError
from nasheval.nuisance import voters
from nasheval.nuisance.crossfit import make_folds
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.voters import VoterModels, Voters

QUICK = Voters(voters=3, hidden=(32,), epochs=4, weight_decay=0.1, members=1)


def fitted(log, X, train, learner=QUICK, seed=0):
    return learner.fit(log, X, train, Effort(seed=seed))


def features(log):
    return Features.of(ne.ContextEncoder.fit(log.contexts), log.contexts)


def folds(log, n=2):
    return np.arange(n)[:, None] != make_folds(log, n, seed=0)[None, :]


@pytest.fixture(scope="module", params=["pairwise", "ranking", "winner"])
def case(request):
    log = ne.SyntheticWorld(seed=70).feedback(request.param, voters=3, n=400)
    X = features(log)
    return request.param, log, X, folds(log)


def enumerated(utilities, menu, winner_only):
    """E[Z] of one voter by Plackett-Luce, summed over every order of the menu."""
    total = np.zeros((len(menu), len(menu)))
    for order in permutations(range(len(menu))):
        chance = 1.0
        for place in range(len(menu)):
            left = [np.exp(utilities[menu[i]]) for i in order[place:]]
            chance *= left[0] / sum(left)
        rank = np.argsort(order)
        told = np.where(rank == 0, 0, 1) if winner_only else rank
        total += chance * np.sign(told[None, :] - told[:, None])
    return total


def test_predictions_are_the_voters_mean_answers(case):
    from nasheval.nuisance.voters_network import forward_one

    modality, log, X, train = case
    models = fitted(log, X, train)
    x = np.ascontiguousarray(X.network[:3], np.float32)
    p = {name: values[0, 0] for name, values in models.parameters.items()}
    u, weight, _ = forward_one(p, x, models.shape)
    found, columns = models.predict(X[:3], 0), log.menus.columns
    for i in range(3):
        for m in range(len(log.menus)):
            menu = log.menus.members(m).tolist()
            expected = sum(weight[v, 0] * enumerated(u[v][:, i], menu, modality == "winner") for v in range(3))
            for c in range(columns.offsets[m], columns.offsets[m + 1]):
                j, k = menu.index(columns.j[c]), menu.index(columns.k[c])
                assert found[i, c] == pytest.approx(expected[j, k], abs=1e-4)


def assert_cells_are_predictions(models, log, X):
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(len(X), size=500), rng.integers(len(log.menus.columns), size=500)
    found = models.cells(X, 1, rows, columns)
    np.testing.assert_allclose(found, models.predict(X, 1)[rows, columns], atol=1e-6)


@pytest.mark.parametrize("held", [64, 1 << 21])
def test_single_cells_are_those_of_all_predictions(case, held, monkeypatch):
    monkeypatch.setattr(voters, "_CELLS", held)
    _, log, X, train = case
    assert_cells_are_predictions(fitted(log, X, train, replace(QUICK, epochs=1, members=2)), log, X)


def test_a_fold_never_sees_what_it_is_to_predict(case):
    modality, log, X, train = case
    changed = ne.SyntheticWorld(seed=70).feedback(modality, voters=1, n=400)  # other answers, same contexts
    mixed = ne.Feedback.concat([log[train[0]], changed[~train[0]]])
    order = np.argsort(np.concatenate([np.flatnonzero(train[0]), np.flatnonzero(~train[0])]))
    assert set(log.menus.counts > 0) == {True}
    one, other = fitted(log, X, train[:1]), fitted(mixed[order], X, train[:1])
    np.testing.assert_array_equal(one.predict(X, 0), other.predict(X, 0))


def test_same_seed_same_model_and_another_seed_another(case):
    _, log, X, train = case
    first = fitted(log, X, train).predict(X, 1)
    np.testing.assert_array_equal(first, fitted(log, X, train).predict(X, 1))
    assert not np.array_equal(first, fitted(log, X, train, seed=1).predict(X, 1))


def test_margins_stay_within_bounds(case):
    _, log, X, train = case
    assert np.abs(fitted(log, X, train).predict(X, 0)).max() <= 1


def test_a_known_world_is_recovered_better_than_by_pooling():
    world = ne.SyntheticWorld(seed=70)
    log = world.feedback("pairwise", voters=3, n=3_000)
    X, learner = features(log), Voters(voters=4, hidden=(128, 128), epochs=25)
    models = learner.fit(log, X, np.ones((1, log.n_contexts), bool), Effort())
    points = world.test_contexts(500)
    test = Features.of(ne.ContextEncoder.fit(log.contexts), points)
    truth = world.outcome(points, "pairwise", voters=3).values
    pooled = log.pair_counts.margin[log.menus.columns.j, log.menus.columns.k]
    error = np.sqrt(np.mean((models.predict(test, 0) - truth) ** 2))
    assert error < 0.8 * np.sqrt(np.mean((pooled - truth) ** 2))
    assert models.held_out_loss[0] < models.pooled_loss[0]


def test_ties_both_bad_and_mixed_forms_in_one_log():
    rng = np.random.default_rng(0)
    said = [
        [ne.partition.duel("a", "b", rng.choice(["a", "b", "tie", "both_bad"])) for _ in range(120)],
        [ne.partition.ranking(rng.permutation(["a", "b", "c"]).tolist()) for _ in range(60)],
        [ne.partition.winner(rng.choice(["a", "c", "d"]), ["a", "c", "d"]) for _ in range(60)],
        [ne.partition.best_worst(*rng.permutation(["a", "b", "c", "d"])[:2], "abcd") for _ in range(60)],
        [ne.partition.top(rng.choice(list("abcd"), 2, replace=False).tolist(), "abcd") for _ in range(60)],
        [ne.partition.weak([["a", "b"], ["c"]]) for _ in range(20)],
    ]
    partitions = [part for group in said for part in group]
    log = ne.Feedback.from_partitions(rng.normal(size=(len(partitions), 2)), partitions)
    X = features(log)
    models = fitted(log, X, folds(log))
    found = models.predict(X, 0)
    assert isinstance(models, VoterModels)
    assert_cells_are_predictions(models, log, X)
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= 1


def test_malformed_settings_are_refused():
    with pytest.raises(InputError, match=r"voters is 0; accepted is a whole number of 1 or more, or None\."):
        Voters(voters=0)

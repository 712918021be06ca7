"""Voters with names: when they are told apart, what that is worth, and that it leaves nothing else changed."""

from __future__ import annotations

import numpy as np
import pytest

import nasheval as ne
from nasheval.nuisance.crossfit import make_folds
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.voters import VoterModels, Voters
from nasheval.nuisance.voters_network import Shape, forward_one
from nasheval.nuisance.voters_records import names_of, questions_of, tables_of
from nasheval.nuisance.voters_train import Data, Recipe, Schedule, Task, train

N, EACH, K = 300, 24, 4
PAIRS = np.triu_indices(K, 1)


def judged(seed, n=N, each=EACH, judges=3, by_context=False):
    """Duels of four agents by judges who disagree; utilities (judges, n, K), and the log with the judges' names.

    Args:
        by_context: whether the first input decides who judges.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    u = 2 * np.einsum("nd,jdk->jnk", x, rng.normal(size=(judges, 2, K))) + 2 * rng.normal(size=(judges, 1, K))
    context = np.repeat(np.arange(n), each)
    name = rng.integers(judges, size=n * each)
    if by_context:
        name = np.digitize(x[context, 0], np.quantile(x[:, 0], np.arange(1, judges) / judges))
    j, k = (side[rng.integers(len(side), size=n * each)] for side in (np.arange(K), np.arange(1, K)))
    k = (j + k) % K
    won = rng.random(n * each) < 1 / (1 + np.exp(u[name, context, k] - u[name, context, j]))
    said = [ne.partition.duel("abcd"[a], "abcd"[b], "abcd"[a if w else b]) for a, b, w in zip(j, k, won, strict=True)]
    made = {"agents": "abcd", "context_of": context}
    return ne.Feedback.from_partitions(x, said, **made, voter=name), ne.Feedback.from_partitions(x, said, **made), u


def fitted(log, learner=None, n_folds=2):
    X = Features.of(ne.ContextEncoder.fit(log.contexts), log.contexts)
    fold = make_folds(log, n_folds, seed=0)
    models = (learner or Voters(weight_decay=0.3, members=2)).fit(log, X, np.arange(n_folds)[:, None] != fold, Effort())
    out = np.zeros((log.n_contexts, len(log.menus.columns)))
    for f in range(n_folds):
        out[fold == f] = models.predict(X, f)[fold == f]
    return models, X, out


@pytest.mark.slow
def test_names_tell_the_population_better():
    named, nameless, u = judged(0)
    truth = np.tanh((u[..., PAIRS[0]] - u[..., PAIRS[1]]) / 2).mean(axis=0)
    (models, X, mine), (plain, _, other) = fitted(named), fitted(nameless)
    assert (models.n_voters == np.maximum(2 * plain.n_voters, 3)).all()
    assert np.sqrt(((mine - truth) ** 2).mean()) < 0.75 * np.sqrt(((other - truth) ** 2).mean())
    again = VoterModels.from_arrays(models.to_arrays(), named)
    np.testing.assert_array_equal(again.predict(X, 1), models.predict(X, 1))
    assert models.parameters.keys() == plain.parameters.keys()


def test_names_that_go_with_the_context_are_not_taken():
    """Who judges where is all that names tell, and the mean over the named would be wrong everywhere."""
    named, nameless, _ = judged(1, by_context=True)
    np.testing.assert_array_equal(fitted(named)[2], fitted(nameless)[2])


def test_what_is_given_is_not_chosen_by_names():
    named, nameless, _ = judged(2, n=200, each=6)
    learner = Voters(voters=3, weight_decay=0.3, epochs=2)
    np.testing.assert_array_equal(fitted(named, learner)[2], fitted(nameless, learner)[2])


def test_who_is_told_apart():
    """Few voters, all known, hundreds of records each."""
    log, nameless, _ = judged(3, n=100, each=10)
    np.testing.assert_array_equal(names_of(log), log.records.voter)
    few, crowd = judged(3, n=80, each=10)[0], judged(3, n=1000, each=8, judges=20)[0]
    some = log.records.replace(voter=np.where(np.arange(log.n_records) < 1, -1, log.records.voter))
    unknown = type(log)(log.agents, log.contexts, log.context_offsets, some, given_design=log.how_designed)
    assert not any(names_of(one).any() for one in (nameless, few, crowd, unknown))
    said = tables_of(log, questions_of(log), names_of(log))
    assert sum(len(table.name) for table in said) > sum(len(table.name) for table in tables_of(log, questions_of(log)))
    found = np.concatenate([np.repeat(table.name, table.count) for table in said])
    np.testing.assert_array_equal(np.bincount(found), np.bincount(log.records.voter))


def test_held_out_loss_is_the_populations():
    """With names as without: minus the log of the mean likelihood over latent voters, at the weights returned."""
    log, _, _ = judged(4, n=60, each=30)
    name, questions = names_of(log), questions_of(log)
    x = Features.of(ne.ContextEncoder.fit(log.contexts), log.contexts).network.astype(np.float32)
    data = Data(x, tables_of(log, questions, name), questions, np.bincount(name) / len(name))
    fit, check = np.arange(40), np.arange(40, 60)
    common = {"fit": fit, "check": check, "pooled": np.zeros(K), "tie": np.zeros(0)}
    tasks = [Task(**common, recipe=Recipe(3, 0.1, named=bool(i)), seed=(i,), group=i) for i in range(2)]
    shape = Shape(2, K, 3, (16,), 0)
    found = train(data, tasks, shape, Schedule(epochs=6, batch=4))
    assert "named" not in found.parameters
    assert (found.epoch > 0).all()
    for i in range(2):
        u, weight, _ = forward_one({key: values[i] for key, values in found.parameters.items()}, x, shape)
        total = []
        for table in data.tables:
            context = np.repeat(np.arange(60), np.diff(table.offsets))
            better, worse = (u[:, table.agents[side], context] for side in range(2))
            mean = (weight / (1 + np.exp(worse - better))).sum(axis=0)
            total += np.repeat(-np.log(mean), table.count)[np.repeat(context, table.count) >= 40].tolist()
        np.testing.assert_allclose(found.loss[i], np.mean(total), rtol=1e-4)

"""Propensities under inclusion where agents are new: their menus share one model of where newcomers are asked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import nasheval as ne
from nasheval.nuisance.crossfit import make_folds
from nasheval.nuisance.joining_propensity import Joining, JoiningModels
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.strata import Marginal


def world(seed, n=600, *, by_language):
    """Pairs of a, b, c included one by one with chance 0.5; d is asked with chance 0.2 (or in fi only, 0.4)."""
    rng = np.random.default_rng(seed)
    fi = rng.random(n) < 0.5
    context_of, said, names = [], [], "abc"
    for row in range(n):
        for j, k in ("ab", "ac", "bc"):
            if rng.random() < 0.5:
                context_of.append(row)
                said.append(ne.partition.duel(j, k, j))
        if rng.random() < (0.4 * fi[row] if by_language else 0.2):
            context_of.append(row)
            said.append(ne.partition.duel("d", names[rng.integers(3)], "d"))
    contexts = pa.table({"language": np.where(fi, "fi", "en")})
    log = ne.Feedback.from_partitions(contexts, said, context_of=context_of, design="inclusion", agents=list("abcd"))
    table = fi.astype(np.float32)[:, None]
    return log, Features(table, table, (), ("language",)), fi


def fitted(log, X):
    fold = make_folds(log, 2)
    return Joining(Marginal(), 3).fit(log, X, np.arange(2)[:, None] != fold, Effort())


def test_newcomers_menus_have_the_chance_that_they_were_asked_with():
    log, X, _ = world(0, by_language=False)
    models = fitted(log, X)
    assert isinstance(models, JoiningModels)
    new = np.array([3 in log.menus.members(m) for m in range(len(log.menus))])
    e = models.predict(X, 0)
    np.testing.assert_allclose(e[:, new], 0.2 / 3, atol=0.025)
    np.testing.assert_allclose(e[:, ~new], 0.5, atol=0.06)


def test_where_newcomers_are_asked_is_learned_from_all_their_menus_together():
    log, X, fi = world(1, by_language=True)
    e = fitted(log, X).predict(X, 1)
    new = np.array([3 in log.menus.members(m) for m in range(len(log.menus))])
    np.testing.assert_allclose(e[fi][:, new].sum(axis=1), 0.4, atol=0.08)
    assert (e[~fi][:, new].sum(axis=1) < 0.05).all()


def test_corrections_have_weights_of_mean_one_by_menu():
    sums = []
    for seed in range(3):
        log, X, _ = world(seed, n=2000, by_language=False)
        models, fold = fitted(log, X), make_folds(log, 2)
        e = np.stack([models.predict(X, f) for f in range(2)])[
            fold[log.context_of], log.context_of, log.menus.of_record
        ]
        new = np.array([3 in log.menus.members(m) for m in range(len(log.menus))])[log.menus.of_record]
        sums.append((1 / e[new]).sum() / 3 / log.n_contexts)
    np.testing.assert_allclose(np.mean(sums), 1, atol=0.06)


def test_a_log_without_newcomers_is_left_to_the_learner():
    log, X, _ = world(2, by_language=False)
    alone = log.keep_agents("abc")
    assert not isinstance(fitted(alone, X), JoiningModels)

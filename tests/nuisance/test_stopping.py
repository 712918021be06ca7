"""Trees are kept where they help on held-out contexts, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import nasheval as ne
from nasheval.contexts.encoder import ContextEncoder
from nasheval.nuisance.columns import shrunken_means
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.outcome import choose_outcome
from nasheval.nuisance.trees import StoppedTrees, TreeOutcome

pytest.importorskip("lightgbm")


def star(slope, n=300, seed=0):
    """Votes on three models against one base; the first of two context columns moves them by `slope`."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    wins = rng.random((n, 3)) < 1 / (1 + np.exp(-np.array([1.0, 0.0, -1.0]) - slope * X[:, :1]))
    names = ["m0", "m1", "m2"]
    asked = [(m, won) for row in wins for m, won in zip(names, row, strict=True)]
    partitions = [((m,), ("base",)) if won else (("base",), (m,)) for m, won in asked]
    log = ne.Feedback.from_partitions(
        X, partitions, context_of=np.repeat(np.arange(n), 3).tolist(), agents=["base", *names]
    )
    return log, Features.of(ContextEncoder.fit(log.contexts), log.contexts), np.arange(3)[:, None] != np.arange(n) % 3


def counts(models):
    return {0 if isinstance(model, float) else model.n_trees for row in models.models for model in row}


def test_contexts_that_say_nothing_get_few_trees_or_none():
    log, X, train = star(slope=0.0)
    models = choose_outcome("lightgbm").fit(log, X, train, Effort())
    assert max(counts(models)) <= 6
    assert counts(TreeOutcome().fit(log, X, train, Effort())) == {100}


def test_contexts_that_decide_keep_trees_and_these_are_the_first_of_the_printed_ones():
    log, X, train = star(slope=6.0)
    models = choose_outcome("lightgbm").fit(log, X, train, Effort())
    (trees,) = counts(models)
    assert trees >= 25
    plain = TreeOutcome({"num_iterations": trees}).fit(log, X, train, Effort())
    for fold in range(3):
        assert np.array_equal(models.predict(X, fold), plain.predict(X, fold))


def test_the_number_of_trees_has_the_least_held_out_error():
    """Against a loop over numbers of trees and plain fits of each."""
    log, X, train = star(slope=1.0)
    context, column, z = log.context_of[log.verdicts.record], log.menus.column_of_verdict, log.verdicts.z
    errors = {}
    for trees in (1, 2, 4, 8, 16):
        plain = TreeOutcome({"num_iterations": trees}).fit(log, X, train, Effort())
        mu = np.array([plain.predict(X, fold)[context, column] for fold in range(3)])
        errors[trees] = float((((mu - z) ** 2) * ~train[:, context]).sum())
    mu = np.array([shrunken_means(log, seen)[column] for seen in train])
    errors[0] = float((((mu - z) ** 2) * ~train[:, context]).sum())
    models = StoppedTrees(TreeOutcome({"num_iterations": 16})).fit(log, X, train, Effort(n_jobs=2))
    assert counts(models) == {min(errors, key=errors.get)}


def test_without_trees_a_column_is_the_shrunken_mean_of_its_pair():
    log, X, train = star(slope=0.0, n=150, seed=1)
    models = StoppedTrees(TreeOutcome({"learning_rate": 1.0, "min_data_in_leaf": 5})).fit(log, X, train, Effort())
    assert counts(models) == {0}
    assert np.array_equal(models.predict(X[:2], 1)[0], shrunken_means(log, train[1]))


def test_where_nothing_is_held_out_trees_are_as_printed():
    log, X, train = star(slope=0.0)
    whole = np.ones_like(train)
    models, printed = (learner.fit(log, X, whole, Effort()) for learner in (StoppedTrees(), TreeOutcome()))
    assert counts(models) == counts(printed)
    assert np.array_equal(models.predict(X, 0), printed.predict(X, 0))


def test_the_paper_and_trees_given_by_hand_are_as_printed():
    paper = ne.NashEval.paper()
    assert isinstance(paper.outcome, TreeOutcome)
    assert choose_outcome(paper.outcome) is paper.outcome
    log, X, train = star(slope=0.0)
    assert counts(choose_outcome(paper.outcome).fit(log, X, train, Effort())) == {100}

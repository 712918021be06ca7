"""A stack of learners: its weights, and that what is held out stays held out."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import InputError
from nasheval.feedback.world import SyntheticWorld
from nasheval.nuisance.crossfit import crossfit, make_folds
from nasheval.nuisance.learners import Effort, Features, cells_of
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.stack import Stack, simplex_weights, weigh
from nasheval.nuisance.strata import Marginal
from nasheval.nuisance.trees import TreeOutcome

WORLD = SyntheticWorld(seed=3, features=16, calibration=64)


def features(log):
    return Features.of(ContextEncoder.fit(log.contexts), log.contexts)


def folds(n, k=2):
    return np.arange(k)[:, None] != (np.arange(n) % k)[None, :]


@dataclass(frozen=True)
class Truth:
    """Predicts the world's own regression plus a constant, and keeps what it was trained on."""

    shift: float = 0.0
    seen: list = field(default_factory=list)

    def fit(self, log, X, train, effort):
        self.seen.append(train)
        effort.advance(1.0)
        return self

    def predict(self, X, fold):
        return WORLD.outcome(X.trees, "pairwise", 3).values + self.shift


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10_000))
def test_simplex_weights_are_optimal(n, seed):
    """No point of a fine grid on the simplex does better."""
    rng = np.random.default_rng(seed)
    residual = rng.normal(size=(rng.integers(1, 8), n)) * rng.uniform(0.1, 3, n)
    gram = residual.T @ residual
    found = simplex_weights(gram)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    grid = np.array([p for p in product(np.linspace(0, 1, 11), repeat=n) if abs(sum(p) - 1) < 1e-9])
    assert found @ gram @ found <= np.einsum("gi,ij,gj->g", grid, gram, grid).min() + 1e-9 * np.trace(gram)


def test_simplex_weights_by_hand():
    """Independent errors of variances 1 and 3 are weighted 3 to 1; who errs along with a better one is out."""
    assert simplex_weights(np.diag([1.0, 3.0])) == pytest.approx([0.75, 0.25])
    assert simplex_weights(np.array([[1.0, 2.0], [2.0, 4.0]])) == pytest.approx([1, 0])
    assert simplex_weights(np.zeros((2, 2))).sum() == pytest.approx(1)


def test_weights_of_complementary_and_of_redundant_learners():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2000, 2))
    context = np.arange(2000)
    weights, losses = weigh(noise, np.ones(2000), context)
    assert weights == pytest.approx([0.5, 0.5], abs=0.05)
    assert losses == pytest.approx((noise**2).mean(axis=0))
    weights, _ = weigh(np.column_stack([noise[:, 0], 2 * noise[:, 0] + 0.1 * noise[:, 1]]), np.ones(2000), context)
    assert weights.tolist() == [1.0, 0.0]
    weights, _ = weigh(noise, np.where(context < 1000, 1e-9, 1.0), context)
    assert weights == pytest.approx(weigh(noise[1000:], np.ones(1000), context[1000:])[0], abs=1e-3)


def test_a_stack_that_only_seems_better_is_not_used():
    """Ten contexts whose halves contradict each other: the best single learner remains."""
    residual = np.array([[0.5, 1.0], [1.0, -1.0]] * 5)
    weights, _ = weigh(residual, np.ones(10), np.arange(10))
    assert sorted(weights.tolist()) == [0.0, 1.0]
    assert weights[0] == 1.0


def test_without_held_out_verdicts_the_weights_are_equal():
    weights, losses = weigh(np.zeros((0, 4)), np.zeros(0), np.zeros(0, int))
    assert weights.tolist() == [0.25] * 4
    assert np.isnan(losses).all()


def test_learners_see_four_fifths_and_then_all():
    log, told = WORLD.feedback("pairwise", 3, 100), []
    learner, train = Truth(), folds(100)
    Stack([learner, Intercept()]).fit(log, features(log), train, Effort(advance=told.append))
    inner, whole = learner.seen
    assert np.array_equal(whole, train)
    assert not (inner & ~train).any()
    assert inner.sum(axis=1).tolist() == [40, 40]
    assert sum(told) == pytest.approx(1)


def test_voters_are_held_out_whole():
    log, voter = WORLD.feedback("pairwise", 3, 100, selection="one"), np.repeat(np.arange(25), 4)
    known = type(log)(
        log.agents, log.contexts, log.context_offsets, log.records.replace(voter=voter), given_design=log.how_designed,
        voters=tuple(map(str, range(25))),
    )  # fmt: skip
    learner, train = Truth(), np.ones((1, 100), bool)
    Stack([learner, Intercept()]).fit(known, features(known), train, Effort())
    held = ~learner.seen[0][0]
    assert held.sum() == 20
    assert len(np.unique(voter[held])) == 5


def test_the_truth_gets_the_weight():
    log = WORLD.feedback("pairwise", 3, 1500)
    stack = Stack([Intercept(), Truth(), Truth(0.5)])
    fit = crossfit(log, features(log), outcome=stack, propensity=Marginal(), fold=make_folds(log, 3))
    assert fit.outcome_models.weights.shape == (3, 3)
    assert (fit.outcome_models.weights[:, 1] > 0.9).all()
    assert (fit.outcome_models.losses[:, 1] < fit.outcome_models.losses[:, 2]).all()


def test_predictions_are_weighted_means():
    log = WORLD.feedback("pairwise", 3, 600)
    X, train = features(log), folds(600)
    learners = [Intercept(), TreeOutcome({"num_iterations": 20})]
    models = Stack(learners).fit(log, X, train, Effort())
    for fold in range(2):
        parts = [learner.fit(log, X, train, Effort()).predict(X, fold) for learner in learners]
        expected = sum(w * p for w, p in zip(models.weights[fold], parts, strict=True))
        assert models.predict(X, fold) == pytest.approx(expected, abs=1e-12)
        rows, columns = np.arange(0, 600, 7), np.arange(0, 600, 7) % 10
        assert models.cells(X, fold, rows, columns) == pytest.approx(expected[rows, columns], abs=1e-12)


def test_what_is_held_out_leaves_no_trace():
    """Verdicts of fold 0 turned around: the weights and predictions of fold 0 stay."""
    log = WORLD.feedback("pairwise", 3, 400)
    X, train = features(log), folds(400)
    hidden = np.repeat(~train[0][log.context_of], 2)
    turned = type(log)(
        log.agents, log.contexts, log.context_offsets,
        log.records.replace(block=np.where(hidden, 1 - log.records.block, log.records.block)),
        given_design=log.how_designed,
    )  # fmt: skip
    stack = Stack([Intercept(), TreeOutcome({"num_iterations": 10})])
    before, after = (stack.fit(one, X, train, Effort()) for one in (log, turned))
    assert np.array_equal(before.weights[0], after.weights[0])
    assert np.array_equal(before.predict(X, 0), after.predict(X, 0))
    assert not np.array_equal(before.predict(X, 1), after.predict(X, 1))


def test_cells_of_models_that_only_know_rows():
    X = features(WORLD.feedback("pairwise", 3, 50))
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 50, 80), rng.integers(0, 10, 80)
    assert np.array_equal(cells_of(Truth(), X, 0, rows, columns), Truth().predict(X, 0)[rows, columns])


def test_one_learner_is_no_stack():
    with pytest.raises(InputError, match="two or more"):
        Stack([Intercept()])

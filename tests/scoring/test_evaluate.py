"""`evaluate`: from policies and logs to held-out scores."""

from __future__ import annotations

import numpy as np
import pytest

from nasheval.errors import InputError
from nasheval.nuisance.learners import Effort
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.payoff.stage1 import fit_stage1
from nasheval.scoring.evaluate import evaluate, lotteries_of

from .logs import Fixed, best_response, duels, soft, worst_response

FAST = {"outcome": Intercept(), "folds": 2, "verbose": False}


def test_policies_are_aligned_by_name():
    log, _ = duels(np.random.default_rng(6), 300)
    plain = Fixed("abcd", lambda x: soft(x, 1))
    turned = Fixed("dbca", lambda x: soft(x, 1)[:, [3, 1, 2, 0]])
    few = Fixed("cb", lambda x: soft(x, 3, 2))
    found = evaluate({"plain": plain, "turned": turned, "few": few}, log, propensity="marginal", **FAST)
    assert found.compare("plain", "turned") == "plain and turned agree at every context"
    assert found.value[0, 2] == found.value[1, 2] != 0
    np.testing.assert_array_equal(lotteries_of("few", few, log)[:, [0, 3]], 0.0)


class Constant:
    """A learner that plays what won most often; it notes the Stage 1 it was given."""

    def __init__(self):
        self.seen = []

    def fit(self, stage1, effort=None):
        self.seen.append(stage1)
        best = int(stage1.payoffs(stage1.log.contexts).mean(axis=(0, 2)).argmax())
        return Fixed(stage1.agents, lambda x: np.tile(np.eye(4)[best], (len(x), 1)))


def test_unfitted_policies_share_one_stage1_of_the_training_log():
    train, _ = duels(np.random.default_rng(7), 300)
    test, _ = duels(np.random.default_rng(8), 300)
    one, two = Constant(), Constant()
    policies = {"one": one, "two": two, "fixed": Fixed("abcd", lambda x: soft(x, 1))}
    found = evaluate(policies, test, train=train, propensity="marginal", **FAST)
    assert one.seen == two.seen
    assert one.seen[0].log is train
    assert found.value[0, 1] == 0
    stage1 = fit_stage1(train, outcome=Intercept(), propensity="marginal", folds=2, effort=Effort())
    again = evaluate(policies, test, train=stage1, propensity="marginal", **FAST)
    assert one.seen[1] is stage1
    np.testing.assert_allclose(again.value, found.value)


class Slow(Constant):
    """A learner that takes an effort."""

    def fit(self, stage1, effort=None):
        assert effort.seed == 3
        return super().fit(stage1)


class Estimator:
    """What a fitted estimator looks like: its policy is an attribute."""

    def __init__(self, policy=None):
        if policy is not None:
            self.policy_ = policy

    def fit(self, log):
        raise AssertionError("must not be fitted again")

    def predict_proba(self, contexts):
        return self.policy_.predict_proba(contexts)


def test_learners_that_take_long_and_fitted_estimators_are_understood():
    train, _ = duels(np.random.default_rng(7), 100)
    test, _ = duels(np.random.default_rng(8), 200)
    inside = Fixed("abcd", lambda x: soft(x, 1))
    policies = {"slow": Slow(), "ours": Estimator(inside), "inside": inside}
    found = evaluate(policies, test, train=train, propensity="marginal", seed=3, **FAST)
    assert found.compare("ours", "inside") == "ours and inside agree at every context"
    with pytest.raises(InputError, match="'ours' is not fitted; call its fit"):
        evaluate({"ours": Estimator()}, test, train=train, **FAST)


def test_it_does_the_same_again():
    log, _ = duels(np.random.default_rng(9), 300)
    policies = {"one": Fixed("abcd", lambda x: soft(x, 1)), "two": Fixed("abcd", lambda x: soft(x, 2))}
    one, two = (evaluate(policies, log, by="side", **FAST).to_dict() for _ in range(2))
    assert one == two


def test_a_handful_of_contexts_says_little_and_says_so():
    log, _ = duels(np.random.default_rng(10), 4)
    policies = {"one": Fixed("abcd", best_response), "two": Fixed("abcd", worst_response)}
    found = evaluate(policies, log, outcome=Intercept(), propensity="marginal", verbose=False)
    assert found.best is None
    assert any("rough below 20" in note for note in found.notes)
    assert any("fewer than 30 effective votes" in note for note in found.notes)


def test_what_cannot_be_evaluated_is_refused():
    log, _ = duels(np.random.default_rng(11), 60)
    good = Fixed("abcd", lambda x: soft(x, 1))

    def refused(message, policies, test=log, **more):
        with pytest.raises(InputError, match=message):
            evaluate(policies, test, **{**FAST, "propensity": "marginal", **more})

    refused("at least one policy", {})
    refused("accepted is something with agents", {"bt": "bt"})
    refused("bt: not fitted, and train is None", {"bt": Constant()})
    refused("the same log", {"bt": Constant()}, train=log)
    refused("plays 'z', which the test log never names", {"bt": Fixed("abz", lambda x: soft(x, 1, 3))})
    refused(r"shape \(60, 3\)", {"bt": Fixed("abcd", lambda x: soft(x, 1, 3))})
    refused("do not sum to 1", {"bt": Fixed("abcd", lambda x: 2 * soft(x, 1))})
    refused("no context column", {"bt": good}, by="language")
    refused("confidence is 95", {"bt": good}, confidence=95)
    refused("cluster is 'judge'", {"bt": good}, cluster="judge")
    refused("no records", {"bt": good}, log.keep_records(np.zeros(log.n_records, bool)))
    refused("costs has none for 'b'", {"bt": good}, costs={"a": 1})
    refused("column 'price' holds what 'a' costs", {"bt": good}, costs=dict.fromkeys("abcd", "price"))
    refused("finite numbers, one per agent", {"bt": good}, costs=dict.fromkeys("abcd", float("nan")))


def test_costs_may_be_context_columns():
    log, x = duels(np.random.default_rng(12), 200)
    policies = {"one": Fixed("abcd", lambda x: soft(x, 1))}
    found = evaluate(policies, log, costs={"a": "x0", "b": 1.0, "c": "x1", "d": 0}, propensity="marginal", **FAST)
    each = (soft(x, 1) * np.stack([x[:, 0], np.ones(200), x[:, 1], np.zeros(200)], axis=1)).sum(axis=1)
    assert found.spending.mean == pytest.approx([each.mean()])
    assert found.spending.error == pytest.approx([each.std(ddof=1) / np.sqrt(200)])

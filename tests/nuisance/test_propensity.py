"""Known, marginal and multinomial propensities, and which of them a log's design allows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import ranking
from nasheval.feedback.records import Records
from nasheval.feedback.world import SyntheticWorld
from nasheval.nuisance import softmax as module
from nasheval.nuisance.choice import BestPropensity
from nasheval.nuisance.crossfit import crossfit, make_folds
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.propensity import Known, choose_propensity
from nasheval.nuisance.sklearn_models import Intercept, SklearnPropensity
from nasheval.nuisance.softmax import Multinomial
from nasheval.nuisance.strata import Marginal, menu_shares, raw_shares
from nasheval.nuisance.trees import TreePropensity
from nasheval.nuisance.tuning import TunedTrees

WORLD = SyntheticWorld(seed=3, features=16, calibration=64)


def features(log):
    return Features.of(ContextEncoder.fit(log.contexts), log.contexts)


def folds(n, k=2):
    return np.arange(k)[:, None] != (np.arange(n) % k)[None, :]


def duels(pairs, *, n=None, agents="abc", design="draws", contexts=None, context_of=None, **columns):
    records = Records.build(
        sizes=np.full(len(pairs), 2), agent=np.array(pairs).ravel(), rank=np.tile([0, 1], len(pairs)), **columns
    )
    return Feedback.from_records(
        records, agents=agents, contexts=contexts, context_of=context_of, n_contexts=n, design=design
    )


# -- which ------------------------------------------------------------------------------------------------------------


def test_what_is_chosen():
    one, many = WORLD.feedback("pairwise", 1, 30, selection="one"), WORLD.feedback("pairwise", 1, 30)
    known = WORLD.feedback("pairwise", 1, 30, known_propensity=True)
    bare = duels([(0, 1), (0, 2)])
    assert isinstance(choose_propensity("auto", one), BestPropensity)
    assert choose_propensity("auto", many) == TunedTrees(TreePropensity(), how="trees", columns=5, per_fold=False)
    assert isinstance(choose_propensity("auto", known), Known)
    assert isinstance(choose_propensity("auto", bare), Marginal)
    assert isinstance(choose_propensity("known", known), Known)
    assert choose_propensity("lightgbm", many) == TreePropensity()
    assert choose_propensity("auto", many, tune="fast") == TunedTrees(TreePropensity(), how="fast")
    assert isinstance(choose_propensity("multinomial", one), Multinomial)
    assert isinstance(choose_propensity("marginal", one), Marginal)
    assert isinstance(choose_propensity("marginal", many), Marginal)
    assert isinstance(choose_propensity(lambda X: X, many), Known)
    mine = Marginal()
    assert choose_propensity(mine, many) is mine


def test_many_menus_are_modelled_by_context():
    pairs = [(j, k) for j in range(21) for k in range(j + 1, 21)]
    names = [f"m{j}" for j in range(21)]
    log = duels(pairs, agents=names, contexts=pa.table({"x": np.arange(float(len(pairs)))}))
    assert isinstance(choose_propensity("auto", log), BestPropensity)


def test_a_classifier_is_wrapped():
    linear = pytest.importorskip("sklearn.linear_model")
    assert isinstance(
        choose_propensity(linear.LogisticRegression(), WORLD.feedback("pairwise", 1, 30)), SklearnPropensity
    )


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("known", "carries none"),
        ("multinomial", "includes menus independently"),
        ("logistic", "'logistic'; accepted are 'auto', 'known'"),
        (3, "3; accepted are 'auto'"),
    ],
)
def test_what_makes_no_sense(choice, words):
    with pytest.raises(InputError, match=words):
        choose_propensity(choice, WORLD.feedback("pairwise", 1, 30))


# -- known ------------------------------------------------------------------------------------------------------------


def test_known_record_by_record():
    log = WORLD.feedback("pairwise", 1, 60, known_propensity=True)
    fit = crossfit(log, features(log), outcome=Intercept(), propensity=Known(), fold=make_folds(log, 3))
    assert np.array_equal(fit.raw_propensity, log.records.propensity)
    with pytest.raises(InputError, match="record by record only"):
        fit.propensity_models.predict(fit.X, 0)
    with pytest.raises(InputError, match="carries none"):
        Known().fit(WORLD.feedback("pairwise", 1, 60), features(log), folds(60), Effort())


def test_known_by_a_rule():
    log = WORLD.feedback("pairwise", 1, 60)
    n_menus = len(log.menus)
    rule = Known(lambda X: np.repeat(WORLD.propensity(X.trees)[:, None], n_menus, axis=1))
    fit = crossfit(log, features(log), outcome=Intercept(), propensity=rule, fold=make_folds(log, 3))
    assert fit.raw_propensity == pytest.approx(WORLD.propensity(fit.X.trees)[log.context_of])


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda X: np.ones(len(X)), "shape"),
        (lambda X: np.zeros((len(X), 10)), "outside"),
        (lambda X: X.trees[:, :3], "10 menus"),
    ],
)
def test_rules_that_give_no_propensities(rule, words):
    log = WORLD.feedback("pairwise", 1, 60)
    models = Known(rule).fit(log, features(log), folds(60), Effort())
    with pytest.raises(InputError, match=words):
        models.predict(features(log), 0)


# -- marginal ---------------------------------------------------------------------------------------------------------


def test_marginal_draws_by_hand():
    """Contexts u, u, u, v: ab, ab, ac, bc; weights 1, 2, 1, 4. Shares 3, 1, 4 of 8, half a record added to each."""
    table = pa.table({"g": ["u", "u", "u", "v"]})
    log = duels([(0, 1), (0, 1), (0, 2), (1, 2)], contexts=table, weight=np.array([1.0, 2.0, 1.0, 4.0]))
    X, train = features(log), np.ones((1, 4), bool)
    overall = np.array([3.5, 1.5, 4.5]) / 9.5
    assert Marginal().fit(log, X, train, Effort()).predict(X, 0) == pytest.approx(np.tile(overall, (4, 1)))


def test_marginal_inclusion_by_hand():
    """Context 0 asks ab twice, which includes it once; context 2 asks nothing."""
    log = duels([(0, 1), (0, 1), (0, 2), (0, 1)], context_of=[0, 0, 0, 1], n=3, design="inclusion")
    X = Features(np.zeros((3, 1), np.float32), np.zeros((3, 1), np.float32))
    e = Marginal().fit(log, X, np.array([[True, True, True], [True, False, True]]), Effort())
    assert e.predict(X, 0)[0] == pytest.approx([2.5 / 4, 1.5 / 4])
    assert e.predict(X, 1)[0] == pytest.approx([1.5 / 3, 1.5 / 3])


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from([(0, 1), (0, 2), (1, 2)]), st.sampled_from("uvw")), min_size=4, max_size=30))
def test_marginal_draws_sum_to_one(rows):
    log = duels([pair for pair, _ in rows], contexts=pa.table({"g": [g for _, g in rows]}))
    X = features(log)
    e = Marginal().fit(log, X, folds(len(rows)), Effort()).predict(X, 1)
    assert (e > 0).all()
    assert e.sum(axis=1) == pytest.approx(1)


def test_light_records_are_smoothed_lightly():
    """Ten records of a tenth share one vote; a menu that was not drawn gets half a light record, not half a vote."""
    pairs = [(0, 1)] * 30 + [(0, 2)] * 10
    log = duels(pairs, context_of=np.repeat(np.arange(4), 10), n=4, weight=np.full(40, 0.1))
    shares = menu_shares(log, np.array([True, True, True, False]))
    assert shares == pytest.approx(np.array([3.05, 0.05]) / 3.1)
    assert raw_shares(log) == pytest.approx([0.75, 0.25])


def test_raw_shares_of_inclusion_are_of_contexts():
    log = duels([(0, 1), (0, 2), (0, 1)], context_of=[0, 0, 1], n=4, design="inclusion")
    assert raw_shares(log) == pytest.approx([2 / 4, 1 / 4])


# -- multinomial ------------------------------------------------------------------------------------------------------


def test_multinomial_draws_are_near_the_truth():
    log = WORLD.feedback("pairwise", 1, 4000, selection="one")
    X, told = features(log), []
    models = Multinomial().fit(log, X, folds(4000), Effort(advance=told.append))
    e, true = models.predict(X, 0), WORLD.propensity(X.trees, "pairwise", selection="one")
    assert np.allclose(e.sum(axis=1), 1, atol=1e-12)
    assert ((e - true) ** 2).mean() < 0.4 * ((true - true.mean(axis=0)) ** 2).mean()
    assert sum(told) == pytest.approx(1)
    again = Multinomial().fit(log, X, folds(4000), Effort(n_jobs=2))
    assert np.array_equal(again.theta, models.theta)


def test_where_contexts_do_not_matter_the_shares_remain():
    """Menus drawn whatever the context: the strongest shrinkage is chosen, or no slopes at all."""
    rng = np.random.default_rng(0)
    pairs = np.array([(0, 1), (0, 2), (1, 2)])[rng.choice(3, 600, p=[0.5, 0.3, 0.2])]
    log = duels(pairs, contexts=pa.table({f"x{c}": rng.random(600) for c in range(30)}))
    X = features(log)
    e = Multinomial().fit(log, X, np.ones((1, 600), bool), Effort()).predict(X, 0)
    assert np.abs(e - menu_shares(log, np.ones(600, bool))).max() < 0.12
    assert np.abs(e - menu_shares(log, np.ones(600, bool))).mean() < 0.03


def test_many_menus_have_a_softmax_over_agents(monkeypatch):
    monkeypatch.setattr(module, "_FREE_MENUS", 5)
    log = WORLD.feedback("pairwise", 1, 3000, selection="one")
    X = features(log)
    models = Multinomial().fit(log, X, folds(3000), Effort())
    assert isinstance(models, module.AgentSoftmaxModels)
    e, true = models.predict(X, 0), WORLD.propensity(X.trees, "pairwise", selection="one")
    assert np.allclose(e.sum(axis=1), 1, atol=1e-12)
    assert ((e - true) ** 2).mean() < 0.5 * ((true - true.mean(axis=0)) ** 2).mean()


def drawn(x, menu, weight):
    return module._Draws(x, np.zeros(len(x), int), menu, weight, np.arange(len(x)))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_the_gradient_is_that_of_the_loss(seed):
    rng = np.random.default_rng(seed)
    draws = drawn(rng.random((20, 3)), rng.integers(0, 4, 20), rng.uniform(0.5, 2, 20))
    offset, theta = rng.normal(size=4), rng.normal(size=(3, 4))
    gradient = module._loss(draws, offset, theta)[1]
    for place in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[place] = 1e-5
        up, down = (module._loss(draws, offset, theta + sign * step)[0] for sign in (1, -1))
        assert gradient[place] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-6)


def test_the_ridge_is_scikit_learns():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x, menu = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    draws = drawn(x, menu, np.ones(300))
    theta = module._fitted(draws, np.zeros(3), 5.0, np.zeros((2, 3)))
    theirs = linear.LogisticRegression(C=0.2, fit_intercept=False, tol=1e-8, max_iter=1000).fit(x, menu)
    assert theta == pytest.approx(theirs.coef_.T, abs=1e-3)


def test_records_are_sampled_where_there_are_too_many():
    log = WORLD.feedback("pairwise", 1, 2500, selection="one")
    every = np.ones(2500, bool)
    draws = module._draws(log, features(log), every, lambda X: X.network, np.zeros_like, 1, np.random.default_rng(0))
    assert len(draws.menu) == 2000
    assert (np.diff(draws.unit) > 0).all()


def test_a_context_may_draw_often():
    told = [ranking(["a", "b"])] * 3 + [ranking(["b", "c"])] * 3
    log = Feedback.from_partitions(np.array([[0.0], [1.0]]), told, context_of=[0, 0, 0, 1, 1, 1], design="draws")
    X = features(log)
    e = Multinomial().fit(log, X, np.ones((1, 2), bool), Effort()).predict(X, 0)
    assert e.sum(axis=1) == pytest.approx(1)


def test_a_training_set_too_small_to_hold_any_out_predicts_the_shares():
    log = WORLD.feedback("pairwise", 1, 3, selection="one")
    X = features(log)
    train = np.array([[True, False, False]])
    models = Multinomial().fit(log, X, train, Effort())
    np.testing.assert_allclose(models.predict(X, 0), np.tile(menu_shares(log, train[0]), (3, 1)))


def test_menus_of_voters_that_were_held_out_keep_half_a_voters_share():
    """Forty voters of nine contexts each always see one menu of their own: a new one's is foretold by none."""
    rng, people = np.random.default_rng(0), 40
    menus = [tuple(rng.choice(6, 3, replace=False)) for _ in range(people)]
    ranked = [[("abcdef"[a],) for a in menus[r // 9]] for r in range(9 * people)]
    x = np.repeat(rng.normal(size=(people, 2)), 9, axis=0)
    log = Feedback.from_partitions(x, ranked, voter=[str(r // 9) for r in range(9 * people)], design="draws")
    shares = menu_shares(log, np.arange(9 * people) >= 9)
    assert shares.sum() == pytest.approx(1)
    unseen = shares[log.menus.of_record[0]]
    assert unseen >= 4.5 / (9 * people + 4.5 * len(log.menus))
    fit = crossfit(log, features(log), outcome=Intercept(), propensity=Multinomial(), fold=make_folds(log, 5))
    assert np.median(fit.raw_propensity) > 0.5 / people  # not a model of who sees what

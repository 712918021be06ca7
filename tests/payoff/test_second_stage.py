"""The second stage: what each form recovers, the strength of the correction, and the shape of what is predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from nasheval.errors import InputError
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.feedback.world import SyntheticWorld
from nasheval.nuisance.learners import Effort, Features
from nasheval.payoff import corrected
from nasheval.payoff.aggregators import Cubic, Mean, Weighted
from nasheval.payoff.corrected import Cells
from nasheval.payoff.moves import moved_pairs
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.second_stage import SECOND_STAGES, PayoffModel, fit_payoff
from nasheval.payoff.surfaces import Boosting, PairSurface

from .nuisances import (
    Given,
    arbitrary_fit,
    constant,
    duel_fit,
    duel_log,
    features,
    linear_margins,
    ragged_log,
    true_fit,
)

FAST = Boosting(trees=40, leaves=7, rate=0.2, least=20)


def duels(n=1200, share=1.0, **more):
    centre, slope = linear_margins(4)
    log, x = duel_log(np.random.default_rng(0), n, centre, 2 * slope, **more)
    return log, x, centre, 2 * slope, duel_fit(log, x, centre, 2 * slope, share=share, one=more.get("one", False))


def rmse(model, centre, slope, seed=1):
    x = np.random.default_rng(seed).uniform(-1, 1, (400, 2))
    truth = np.clip(centre + slope * x[:, :1], -1, 1)
    return float(np.sqrt(((model.predict_pairs(features(x)) - truth) ** 2).mean()))


def test_every_form_recovers_the_truth_from_true_nuisances():
    _, _, centre, slope, fit = duels(n=4000)
    slow = Boosting(trees=40, leaves=4, rate=0.1)
    found = {form: rmse(fit_payoff(pseudo_outcomes(fit), form, boosting=slow), centre, slope) for form in SECOND_STAGES}
    assert found["none"] < 1e-12
    assert found["corrected"] < 0.02
    assert found["per-pair"] < 0.15
    assert found["shared"] < 0.2
    assert float(np.sqrt((centre**2).mean())) > 0.3  # what knowing nothing would cost


def test_a_perfect_outcome_model_is_left_alone():
    centre, slope = linear_margins(4)
    left_alone = 0
    for seed in range(12):
        log, x = duel_log(np.random.default_rng(seed), 600, centre, slope)
        model = fit_payoff(pseudo_outcomes(duel_fit(log, x, centre, slope, share=1.0)), boosting=FAST)
        left_alone += model.surface is None
        assert (model.surface is None) == (not any(model.strength.per_pair))
        assert (model.strength.strength == 0) == (model.strength.gain <= model.strength.gain_error)
    assert left_alone >= 8  # one standard error is passed by chance at times, and 5% of the logs move somewhere


@pytest.mark.parametrize("one", [False, True])
def test_an_intercept_is_corrected_in_full(one):
    log, _x, centre, slope, fit = duels(n=6000 if one else 1200, one=one)
    empty = type(fit)(log, fit.X, fit.fold, constant(np.zeros(6)), fit.propensity_models)
    pseudo = pseudo_outcomes(empty)
    model = fit_payoff(pseudo, boosting=FAST)
    assert np.mean(model.strength.per_pair) > 0.75
    assert model.strength.pairs_gain > 5 * model.strength.pairs_gain_error
    ours, plain = rmse(model, centre, slope), rmse(fit_payoff(pseudo, "none"), centre, slope)
    assert ours < 0.45 * plain
    assert ours < 1.1 * rmse(fit_payoff(pseudo, "per-pair", boosting=FAST), centre, slope)


def test_wrong_propensities_cost_nothing_where_the_outcome_model_is_good():
    log, _, centre, slope, fit = duels()
    for e in (0.1, 0.95):
        wrong = type(fit)(log, fit.X, fit.fold, fit.outcome_models, constant(np.full(6, e)))
        assert rmse(fit_payoff(pseudo_outcomes(wrong), boosting=FAST), centre, slope) < 0.03


def test_a_given_strength_is_obeyed():
    _, _, _, _, fit = duels(share=0.5)
    pseudo = pseudo_outcomes(fit)
    X = fit.X[:50]
    half, whole = (fit_payoff(pseudo, strength=s, boosting=FAST) for s in (0.5, 1.0))
    plain = fit_payoff(pseudo, "none").predict_pairs(X)
    assert not half.strength.chosen
    assert half.strength.per_pair == (0.5,) * 6
    np.testing.assert_allclose(half.predict_pairs(X), np.clip(plain + half.correction(X), -1, 1), atol=1e-12)
    np.testing.assert_allclose(half.correction(X), whole.correction(X) / 2, atol=1e-12)
    assert not fit_payoff(pseudo, "none").correction(X).any()
    np.testing.assert_array_equal(fit_payoff(pseudo, strength=0.0, boosting=FAST).predict_pairs(X), plain)


@pytest.mark.parametrize("aggregator", [Mean(), Weighted(lambda menu: 1.0 + ("a" in menu)), Cubic(2.0)])
@pytest.mark.parametrize("design", ["inclusion", "draws"])
def test_cells_average_to_the_correction_of_the_plug_in(aggregator, design):
    """The weighted mean target of a pair is D sum df (Z - mu) w/e over sum |df| w/e: a ratio form of the correction."""
    log, x = ragged_log(design=design)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x), aggregator)
    cells = Cells.of(pseudo)
    np.testing.assert_allclose(
        np.bincount(cells.pair, cells.correction, 10), pseudo.estimand.corrections.sum(axis=0), atol=1e-12
    )
    order = cells.pair * log.n_contexts + cells.context
    assert (np.diff(order) > 0).all()
    for c in range(0, len(cells.pair), 7):
        rows = np.flatnonzero((pseudo.context == cells.context[c]) & (pseudo.pair == cells.pair[c]))
        weight = [pseudo.share[v] * abs(pseudo.slope[v]) for v in rows]
        assert cells.weight[c] == pytest.approx(sum(weight))
        total = sum(w * pseudo.spread[v] * pseudo.residual[v] for w, v in zip(weight, rows, strict=True))
        assert cells.target[c] * cells.weight[c] == pytest.approx(total)


@pytest.mark.parametrize("aggregator", [Mean(), Cubic(2.0)])
def test_the_sparse_form_aims_at_the_debiased_surface(aggregator):
    """With constant margins of three menus, the weighted mean target is f(mu) + sum df (mu0 - mu) - f(mu)."""
    world = SyntheticWorld(seed=1)
    log = world.feedback("winner", n=20_000)
    P = len(log.menus.columns)
    mu = np.random.default_rng(0).uniform(-0.4, 0.4, P)
    pseudo = pseudo_outcomes(
        true_fit(world, log, "winner", mu=lambda x, fold: np.broadcast_to(mu, (len(x), P))), aggregator
    )
    cells = Cells.of(pseudo)
    mean = np.bincount(cells.pair, cells.weight * cells.target) / np.bincount(cells.pair, cells.weight)
    mu0 = world.outcome(world.contexts(20_000), "winner").values.mean(axis=0)
    slope = pseudo.aggregation.derivative(mu[None])[0]
    expected = np.bincount(pseudo.aggregation.pair, slope * (mu0 - mu))
    np.testing.assert_allclose(mean, expected, atol=0.03)


def test_copies_without_a_fold_learn_from_some_cells_and_h_from_all(monkeypatch):
    log, _, _, _, fit = duels(n=3_000)
    empty = type(fit)(log, fit.X, fit.fold, constant(np.zeros(6)), fit.propensity_models)
    pseudo, learned, begin = pseudo_outcomes(empty), [], corrected.begin
    monkeypatch.setattr(corrected, "begin", lambda data, params: learned.append(data.num_data()) or begin(data, params))
    monkeypatch.setattr(corrected, "_MOST_PAIRS", 0)  # the shared model alone
    monkeypatch.setattr(corrected, "_LEARNED", 700)
    first, again = (fit_payoff(pseudo, boosting=FAST) for _ in range(2))
    assert learned == [*[700] * fit.n_folds, len(Cells.of(pseudo).pair)] * 2
    assert first.strength == again.strength
    np.testing.assert_array_equal(first.predict(fit.X), again.predict(fit.X))
    monkeypatch.undo()
    assert abs(first.strength.strength - fit_payoff(pseudo, boosting=FAST).strength.strength) < 0.5


def test_the_common_strength_is_the_least_squares_one():
    _log, _, _, _, fit = duels(n=600, share=0.0)
    pseudo = pseudo_outcomes(fit)
    surface = PairSurface.of([0.1 * p for p in range(6)])
    held = corrected._held_out([surface, surface], pseudo, Cells.of(pseudo))
    choice = held.choose(np.zeros(6, bool), "per-pair", 1)
    gamma, f = pseudo.dense(np.arange(600)), pseudo.plugin(np.arange(600))
    h = np.broadcast_to(0.1 * np.arange(6), f.shape)
    s = np.clip((h * (gamma - f)).sum() / (h**2).sum(), 0, 1)
    gains = ((gamma - f) ** 2 - (gamma - f - s * h) ** 2).sum(axis=1)
    assert choice.best == pytest.approx(s)
    assert choice.gain == pytest.approx(gains.mean())
    assert choice.gain_error == pytest.approx(gains.std(ddof=1) / np.sqrt(600))


# -- one pair that no utilities can represent -------------------------------------------------------------------------

ODD = 5  # the pair whose verdicts contradict the utilities


def odd_world(seed, n=6000):
    """Eight agents with utilities that change with the context, and an outcome model that knows nothing but these.

    Returns the pseudo-outcomes, and the centre and slope of the true margins.
    """
    utility, change = np.linspace(-0.3, 0.3, 8), 0.2 * np.cos(np.arange(8))
    j, k = np.triu_indices(8, 1)
    centre, slope = utility[j] - utility[k], change[j] - change[k]
    centre[ODD], slope[ODD] = 0.6, 0.1
    known = centre.copy(), slope.copy()
    centre[ODD], slope[ODD] = -0.8, 0.15
    log, x = duel_log(np.random.default_rng(seed), n, centre, slope, K=8, one=True)
    fit = duel_fit(log, x, *known, share=1.0, one=True)
    return pseudo_outcomes(fit), centre, slope


def errors(model, centre, slope):
    """Return the root mean square errors of the odd pair, and of the others together."""
    x = np.random.default_rng(1).uniform(-1, 1, (400, 2))
    square = (model.predict_pairs(features(x)) - centre - slope * x[:, :1]) ** 2
    return float(np.sqrt(square[:, ODD].mean())), float(np.sqrt(np.delete(square, ODD, axis=1).mean()))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_pair_that_no_utilities_represent_is_corrected_and_the_others_are_not_harmed(seed):
    pseudo, centre, slope = odd_world(seed)
    model = fit_payoff(pseudo, boosting=FAST)
    ours, whole, plain = (
        errors(each, centre, slope)
        for each in (model, fit_payoff(pseudo, strength=1.0, boosting=FAST), fit_payoff(pseudo, "none"))
    )
    assert plain[0] > 1.3
    assert ours[0] < min(0.3, 1.3 * whole[0] + 0.05)
    assert ours[1] < 0.05  # the plug-in is right there
    assert whole[1] > 0.1  # which the whole correction would spoil
    assert model.strength.per_pair[ODD] > 0.85


def test_corrections_are_multiplied_pair_by_pair():
    pseudo, _, _ = odd_world(0)
    model = fit_payoff(pseudo, boosting=FAST)
    X = pseudo.fit.X[:50]
    expected = np.array(model.strength.per_pair) * model.surface.predict(X)
    np.testing.assert_allclose(model.correction(X), expected, atol=1e-15)
    assert np.abs(model.correction(X)[:, ODD]).min() > 1


def test_a_pair_that_moves_is_never_left_at_the_plug_in():
    """What counts is a move in some group, however little the pair's correction wins over all contexts."""
    centre, slope = linear_margins(4)
    log, x = duel_log(np.random.default_rng(0), 3000, centre, slope)
    columns = log.menus.columns.pair
    wrong = Given(
        lambda x, fold: (centre + slope * x[:, :1] + 0.5 * (x[:, 1:] > 0.5) * (np.arange(6) == 2))[:, columns]
    )
    fit = duel_fit(log, x, centre, slope)
    pseudo = pseudo_outcomes(type(fit)(log, fit.X, fit.fold, wrong, fit.propensity_models))
    assert moved_pairs(pseudo).tolist() == [False, False, True, False, False, False]
    assert fit_payoff(pseudo, boosting=FAST).strength.per_pair[2] >= 0.5


def test_a_pair_with_few_verdicts_is_corrected_by_a_number():
    """Sixty verdicts per pair cannot be split once; their mean residual still says that the outcome model is off."""
    pseudo, centre, slope = odd_world(0, n=60 * 28)
    model = fit_payoff(pseudo)
    assert errors(model, centre, slope)[0] < 0.5
    assert errors(fit_payoff(pseudo, "none"), centre, slope)[0] > 1.3


def test_the_strength_is_about_the_same_on_a_sample_of_contexts(monkeypatch):
    _, _, _, _, fit = duels(share=0.0)
    pseudo = pseudo_outcomes(fit)
    whole = fit_payoff(pseudo, boosting=FAST).strength
    monkeypatch.setattr(corrected, "_SCORED", 6 * 300)
    part = fit_payoff(pseudo, boosting=FAST).strength
    assert part.best == pytest.approx(whole.best, abs=0.1)
    assert part.gain == pytest.approx(whole.gain, rel=0.15)


@pytest.mark.parametrize("form", SECOND_STAGES)
def test_payoffs_are_antisymmetric_clipped_and_zero_where_not_identified(form):
    log, x = ragged_log(n=120)
    fit = arbitrary_fit(log, x)
    tied = pseudo_outcomes(fit, unseen="tie")
    strength = 1.0 if form == "corrected" else None
    check_payoffs(fit_payoff(tied, form, boosting=Boosting(trees=5, least=5), strength=strength), fit)
    if form == "per-pair":
        check_payoffs(fit_payoff(tied, form, boosting=LinearRegression()), fit)


def check_payoffs(model, fit):
    A = model.predict(fit.X)
    assert A.shape == (120, 5, 5)
    np.testing.assert_array_equal(A, -A.transpose(0, 2, 1))
    assert not np.signbit(A[:, range(5), range(5)]).any()
    assert np.abs(A).max() <= 1
    assert (A[:, 1:4, 4] == 0).all()
    j, k = np.triu_indices(5, 1)
    np.testing.assert_array_equal(model.predict_pairs(fit.X), A[:, j, k])
    assert model.predict(fit.X[:0]).shape == (0, 5, 5)


# -- any regressor ----------------------------------------------------------------------------------------------------


def test_a_regressor_a_pair_is_least_squares_on_unclipped_pseudo_outcomes():
    """Against the normal equations, solved by hand; only predictions are clipped."""
    _, _, _, _, fit = duels(n=300, share=0.2)
    pseudo = pseudo_outcomes(fit)
    model = fit_payoff(pseudo, "per-pair", boosting=LinearRegression())
    gamma, rows = pseudo.dense(np.arange(300)), np.column_stack([np.ones(300), fit.X.network])
    assert np.abs(gamma).max() > 1
    coefficients = np.linalg.solve(rows.T @ rows, rows.T @ gamma)
    np.testing.assert_allclose(model.surface.predict(fit.X), rows @ coefficients, atol=1e-5)
    np.testing.assert_allclose(model.predict_pairs(fit.X), np.clip(rows @ coefficients, -1, 1), atol=1e-5)
    place, pairs = np.arange(60), np.arange(60) % 6
    np.testing.assert_allclose(model.surface.cells(fit.X, place, pairs), (rows @ coefficients)[place, pairs], atol=1e-5)


def test_a_regressor_without_columns_gives_means():
    log, _, _, _, fit = duels(n=200)
    X = Features(np.zeros((200, 0), np.float32), np.zeros((200, 0), np.float32))
    pseudo = pseudo_outcomes(type(fit)(log, X, fit.fold, constant(np.zeros(6)), constant(np.full(6, 0.45))))
    model = fit_payoff(pseudo, "per-pair", boosting=LinearRegression())
    np.testing.assert_allclose(model.predict_pairs(X)[0], pseudo.dense(np.arange(200)).mean(axis=0), atol=1e-12)


def test_a_regressor_takes_the_seed_and_is_itself_left_alone():
    _, _, _, _, fit = duels(n=200)
    tree, told = DecisionTreeRegressor(max_features=1, max_depth=3), []
    found = [
        fit_payoff(pseudo_outcomes(fit), "per-pair", boosting=tree, effort=Effort(seed=seed, advance=told.append))
        for seed in (0, 0, 1)
    ]
    first, second, third = (model.predict(fit.X) for model in found)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)
    assert not hasattr(tree, "tree_")
    assert sum(told) == pytest.approx(3.0)


@pytest.mark.parametrize("form", ["corrected", "shared", "none"])
def test_other_forms_take_no_regressor(form):
    _, _, _, _, fit = duels(n=50)
    told = f"boosting is DummyRegressor.* with second_stage='{form}'; accepted are a Boosting, None, and for 'per-pair'"
    with pytest.raises(InputError, match=told):
        fit_payoff(pseudo_outcomes(fit), form, boosting=DummyRegressor())
    with pytest.raises(InputError, match="boosting is 'mlp'"):
        fit_payoff(pseudo_outcomes(fit), "per-pair", boosting="mlp")


def test_predictions_are_the_same_in_chunks(monkeypatch):
    from nasheval.payoff import second_stage, surfaces

    _, _, _, _, fit = duels(n=300)
    pseudo = pseudo_outcomes(fit)
    models = [fit_payoff(pseudo, boosting=FAST, strength=1.0), fit_payoff(pseudo, "shared", boosting=FAST)]
    whole = [model.predict(fit.X) for model in models]
    monkeypatch.setattr(second_stage, "_CELLS", 100)
    monkeypatch.setattr(surfaces, "_CELLS", 100)
    for model, expected in zip(models, whole, strict=True):
        np.testing.assert_array_equal(model.predict(fit.X), expected)


def test_fits_are_deterministic_on_any_number_of_threads():
    _, _, _, _, fit = duels(n=400, share=0.3)
    for form in ("corrected", "per-pair", "shared"):
        found = [
            fit_payoff(pseudo_outcomes(fit), form, boosting=FAST, effort=Effort(n_jobs=jobs)).predict(fit.X)
            for jobs in (1, 2)
        ]
        np.testing.assert_array_equal(*found)


def test_cells_of_a_surface_are_those_of_whole_rows():
    log, x = ragged_log(n=200)
    fit = arbitrary_fit(log, x)
    for form in ("per-pair", "shared"):
        model = fit_payoff(pseudo_outcomes(fit), form, boosting=Boosting(trees=5, least=5))
        rows, pairs = np.arange(50), np.arange(50) % 10
        np.testing.assert_array_equal(
            model.surface.cells(fit.X, rows, pairs), model.surface.predict(fit.X[:50])[rows, pairs]
        )


def test_categories_and_missing_values_are_taken():
    _, x, _centre, _slope, fit = duels(n=600, share=0.0)
    trees = np.column_stack([np.floor(2 * x[:, 0] + 2), x]).astype(np.float32)
    trees[::7, 1] = np.nan
    X = Features(trees, x, (0,))
    mixed = type(fit)(fit.log, X, fit.fold, constant(np.zeros(6)), Given(lambda x, fold: np.full((len(x), 6), 0.45)))
    for form in ("corrected", "per-pair", "shared"):
        assert np.isfinite(fit_payoff(pseudo_outcomes(mixed), form, boosting=FAST).predict(X)).all()


@pytest.mark.parametrize("form", SECOND_STAGES)
def test_contexts_without_columns_give_means(form):
    log, _x, centre, _, fit = duels(n=600)
    X = Features(np.zeros((600, 0), np.float32), np.zeros((600, 0), np.float32))
    bare = type(fit)(log, X, fit.fold, constant(np.zeros(6)), constant(np.full(6, 0.45)))
    model = fit_payoff(pseudo_outcomes(bare), form, boosting=FAST)
    found = model.predict_pairs(X)
    assert (found == found[0]).all()
    assert form == "none" or np.abs(found[0] - centre).max() < 0.3


def test_progress_adds_up_to_one():
    _, _, _, _, fit = duels(n=300, share=0.0)
    good = duels(n=300)[-1]
    for nuisances in (fit, good):
        for form in ("corrected", "per-pair", "shared"):
            told = []
            fit_payoff(pseudo_outcomes(nuisances), form, boosting=FAST, effort=Effort(advance=told.append))
            assert sum(told) == pytest.approx(1.0)


def test_too_few_votes_are_no_obstacle():
    log, x = ragged_log(n=8)
    model = fit_payoff(pseudo_outcomes(arbitrary_fit(log, x)))
    assert model.strength.strength in (0.0, pytest.approx(model.strength.best))
    assert np.isfinite(model.predict(features(x))).all()


def test_votes_at_one_context_only_are_no_obstacle():
    duel = partition.duel("a", "b", "a")
    log = Feedback.from_partitions(np.zeros((6, 1)), [duel] * 300, agents=["a", "b"], context_of=[2] * 300)
    model = fit_payoff(pseudo_outcomes(arbitrary_fit(log, np.zeros((6, 1)))))
    assert model.strength.strength == 0
    nothing = Feedback.from_partitions(np.zeros((6, 1)), [], agents=["a", "b"], context_of=[])
    pseudo = pseudo_outcomes(arbitrary_fit(nothing, np.zeros((6, 1))))
    for form in ("corrected", "none"):
        assert not fit_payoff(pseudo, form).predict(features(np.zeros((6, 1)))).any()
    for form in ("shared", "per-pair"):
        with pytest.raises(InputError, match="This log has no records"):
            fit_payoff(pseudo, form)


def test_a_correction_is_the_same_when_its_trees_answer_for_some_pairs_only():
    _, x, _, _, fit = duels(n=2000)
    rows, some = features(x[:50]), np.array([0.5, 0, 0, 0.2, 0, 0])
    whole = fit_payoff(pseudo_outcomes(fit), boosting=FAST, strength=1.0)
    whole = replace(whole, strength=replace(whole.strength, per_pair=tuple(some)))
    for surface in (whole.surface, PairSurface.of([0.1 * p for p in range(6)])):
        payoffs = [replace(whole, surface=one).predict_pairs(rows) for one in (surface, surface.only(some != 0))]
        np.testing.assert_array_equal(*payoffs)
        assert not np.array_equal(payoffs[0], replace(whole, surface=None).predict_pairs(rows))


def test_what_cannot_be_is_refused(monkeypatch):
    from nasheval.payoff import second_stage

    _, _, _, _, fit = duels(n=100)
    pseudo = pseudo_outcomes(fit)
    with pytest.raises(InputError, match="second_stage is 'best'; accepted are 'corrected'"):
        fit_payoff(pseudo, "best")
    with pytest.raises(InputError, match="strength is 2"):
        fit_payoff(pseudo, strength=2.0)
    monkeypatch.setattr(second_stage, "_MOST_ROWS", 10)
    with pytest.raises(InputError, match="use 'corrected'"):
        fit_payoff(pseudo, "shared")
    assert isinstance(fit_payoff(pseudo, "none"), PayoffModel)

"""What style is worth: m and beta against dense least squares, links against finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.links import Curved, Straight
from nasheval.nuisance.style import StyleModels, _Votes, fit_models, fit_style
from tests.payoff.nuisances import Given, features

BETA = np.array([0.2, -0.1])


def duels(n=600, K=4, seed=0, *, effect=BETA, constant=False, missing=0.0, curve=False, q=1):
    """Graded verdicts h(skill + slope x + effect'd) without noise; styles are of agents, of contexts and of answers."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, q))
    skill, bend = rng.uniform(-0.2, 0.2, K), rng.uniform(-0.1, 0.1, K)
    j = rng.integers(K, size=n)
    k = (j + rng.integers(1, K, n)) % K
    own = 0.0 if constant else rng.uniform(-0.5, 0.5, (n, 2, len(effect)))
    base, lean = rng.uniform(-1, 1, (K, len(effect))), rng.uniform(-0.5, 0.5, (K, len(effect)))
    styles = np.stack([base[a] + lean[a] * x[:, :1] for a in (j, k)], axis=1) + own
    styles = styles.astype(np.float32).astype(np.float64)
    index = skill[j] - skill[k] + (bend[j] - bend[k]) * x[:, 0] + (styles[:, 0] - styles[:, 1]) @ effect
    z = np.tanh(index) if curve else index
    styles[rng.random(n) < missing, 0, 0] = np.nan
    records = Records.build(
        sizes=np.full(n, 2),
        agent=np.stack([j, k], axis=1).ravel(),
        rank=np.stack([z < 0, z > 0], axis=1).ravel().astype(int),
        grade=np.abs(z),
        shown=np.tile([0, 1], n),
        weight=rng.uniform(0.5, 1.5, n),
        style=styles.reshape(2 * n, -1),
    )
    names = tuple(f"s{i}" for i in range(len(effect)))
    log = Feedback.from_records(
        records,
        agents=[f"a{i}" for i in range(K)],
        contexts=pa.table({f"x{i}": x[:, i] for i in range(q)}),
        style=names,
    )
    return log, x.astype(np.float32), (skill, bend, base, lean)


def fitted(log, x, truth, *, effect=BETA):
    """Nuisances whose outcomes as voted are the truth: those at equal style and what style adds on average."""
    skill, bend, base, lean = truth
    column = log.menus.columns
    j, k = np.triu_indices(log.n_agents, 1)
    j, k = j[column.pair], k[column.pair]

    def mu(x, fold):
        at = x[:, :1] * ((bend[j] - bend[k]) + (lean[j] - lean[k]) @ effect)
        return at + skill[j] - skill[k] + (base[j] - base[k]) @ effect

    e = Given(lambda x, fold: np.full((len(x), len(log.menus)), 1 / len(log.menus)), known=True)
    return NuisanceFit(log, features(x), make_folds(log, 3), Given(mu), e)


def test_beta_is_found_where_outcomes_are_known():
    log, x, truth = duels()
    style = fit_style(fitted(log, x, truth), "style")
    assert style.names == ("s0", "s1")
    np.testing.assert_allclose(style.beta, BETA, atol=0.01)
    assert not style.curved


def test_beta_does_not_depend_on_the_order_of_agents():
    log, x, truth = duels()
    order = [2, 0, 3, 1]
    turned = log.keep_agents([f"a{i}" for i in order])
    other = fit_style(fitted(turned, x, tuple(each[order] for each in truth)), "style")
    np.testing.assert_allclose(other.beta, fit_style(fitted(log, x, truth), "style").beta, atol=1e-6)


def test_records_of_unknown_style_are_left_to_their_mean():
    log, x, truth = duels(missing=0.2)
    style = fit_style(fitted(log, x, truth), "style")
    unknown = np.isnan(log.records.style).any(axis=1).reshape(-1, 2).any(axis=1)
    assert unknown.sum() > 50
    assert not style.rest[unknown].any()
    assert not style.score[unknown].any()
    np.testing.assert_allclose(style.residual[unknown], (log.verdicts.z - style.fit.mu)[unknown])
    np.testing.assert_allclose(style.beta, BETA, atol=0.02)


def test_style_that_agents_alone_decide_is_left_out_and_said():
    log, x, truth = duels(constant=True)
    style = fit_style(fitted(log, x, truth), ("style", "position"))
    assert style.names == ("position",)
    assert [note.code for note in style.left_out] == ["no-variation"] * 2
    assert "s0 cannot be told from agents" in style.left_out[0]


def test_a_column_that_repeats_another_is_left_out():
    log, x, truth = duels()
    twice = log.records.style[:, [0, 0]] * np.array([1, 2], np.float32)
    log = replace(log, records=log.records.replace(style=twice))
    assert fit_style(fitted(log, x, truth), "style").names == ("s0",)


def test_the_reference_always_first_is_no_position():
    log, x, truth = duels(K=2)
    log = replace(log, records=log.records.replace(shown=np.tile([0, 1], len(log.records)).astype(np.int8)))
    style = fit_style(fitted(log, x, truth), ("position", "s0"))
    assert style.names == ("s0",)
    assert "every pair was always shown in one order" in style.left_out[0]


def test_a_column_that_is_mostly_unknown_is_left_out_and_others_stay():
    log, x, truth = duels()
    style = log.records.style.copy()
    style[: int(1.5 * len(log.records)), 1] = np.nan
    log = replace(log, records=log.records.replace(style=style))
    found = fit_style(fitted(log, x, truth), "style")
    assert found.names == ("s0",)
    assert "s1 is unknown in most votes" in found.left_out[0]


def test_nothing_is_left_to_adjust_for():
    log, x, truth = duels(constant=True)
    style = fit_style(fitted(log, x, truth), "style")
    assert (style.names, style.beta.shape) == ((), (0,))
    np.testing.assert_allclose(style.residual, log.verdicts.z - style.fit.mu)
    assert style.score.shape == (len(log.verdicts), 0)


# -- m ----------------------------------------------------------------------------------------------------------------


def test_slopes_are_those_of_dense_ridge():
    rng = np.random.default_rng(1)
    v, K, q, S = 80, 4, 3, 2
    j = rng.integers(K, size=v)
    k = (j + rng.integers(1, K, v)) % K
    pair = np.zeros(v, np.int64)
    votes = _Votes(
        rng.normal(size=(v, q)), np.arange(v), j, k, pair, rng.uniform(0.5, 2, v), rng.normal(size=(v, S)), K
    )
    found = votes._slopes(np.zeros((S, K, 1 + q)), 0.1)
    design = np.zeros((v, K, q))
    design[np.arange(v), j], design[np.arange(v), k] = votes.X, -votes.X
    design = design.reshape(v, K * q) * np.sqrt(votes.weight)[:, None]
    right = design.T @ (votes.d * np.sqrt(votes.weight)[:, None])
    dense = np.linalg.solve(design.T @ design + 0.2 * votes.weight.sum() / K * np.eye(K * q), right)
    np.testing.assert_allclose(found, dense.T.reshape(S, K, q), atol=1e-6)


def test_intercepts_are_those_of_least_squares():
    rng = np.random.default_rng(2)
    v, K = 60, 5
    j = rng.integers(K, size=v)
    k = (j + rng.integers(1, K, v)) % K
    votes = _Votes(
        np.zeros((v, 0)), np.arange(v), j, k, np.zeros(v, np.int64), rng.uniform(0.5, 2, v), rng.normal(size=(v, 1)), K
    )
    design = np.eye(K)[j] - np.eye(K)[k]
    root = np.sqrt(votes.weight)
    dense = np.linalg.lstsq(design * root[:, None], votes.d[:, 0] * root, rcond=None)[0]
    found = votes._intercepts(votes.d)[0]
    np.testing.assert_allclose(found - found.mean(), dense - dense.mean(), atol=1e-6)


def test_m_foretells_what_agents_and_contexts_decide():
    log, x, truth = duels(n=2000, constant=True)
    d = log.records.style[::2].astype(float) - log.records.style[1::2]
    fit = fitted(log, x, truth)
    models = fit_models(fit, d)
    context, pair = np.arange(len(d)), log.menus.columns.pair[log.menus.column_of_verdict]
    assert np.abs(models.cells(fit.X, fit.fold, context, pair) - d).max() < 0.05


def test_the_forms_of_m_agree():
    rng = np.random.default_rng(3)
    K, S, q, n = 4, 2, 3, 12
    models = StyleModels(rng.normal(size=(3, S, K, 1 + q)), rng.normal(size=(3, S, 6)))
    X, fold = features(rng.normal(size=(n, q)).astype(np.float32)), np.arange(n) % 3
    row, pair = np.repeat(np.arange(n), 6), np.tile(np.arange(6), n)
    cells = models.cells(X, fold[row], row, pair).reshape(n, 6, S)
    for s, weight in enumerate(np.eye(S)):
        by_fold = np.stack([models.surface(X[[i]], weight, fold[i])[0] for i in range(n)])
        np.testing.assert_allclose(cells[:, :, s], by_fold, atol=1e-5)
        average = np.mean([models.surface(X, weight, f) for f in range(3)], axis=0)
        np.testing.assert_allclose(models.surface(X, weight), average, atol=1e-5)


# -- links ------------------------------------------------------------------------------------------------------------


def test_a_curve_is_what_its_means_say():
    rng = np.random.default_rng(4)
    rest, beta = rng.normal(size=(300, 2)), np.array([0.5, -0.3])
    rest -= rest.mean(axis=0)
    curve, u, step = Curved.of(rest, beta), np.array([-1.5, -0.2, 0.0, 0.7]), 1e-4
    moved = rest @ beta
    mean = np.tanh(u[:, None] + moved).mean(axis=1)
    np.testing.assert_allclose(curve.index(mean), u, atol=1e-3)
    np.testing.assert_allclose(curve.slope(u), (np.tanh(u + step) - np.tanh(u - step)) / (2 * step), atol=1e-6)
    rise = (np.tanh(u[:, None] + step + moved) - np.tanh(u[:, None] - step + moved)).mean(axis=1) / (2 * step)
    np.testing.assert_allclose(curve.mean_slope(u), rise, atol=1e-3)
    steep = 1 - np.tanh(u[:, None] + moved) ** 2
    np.testing.assert_allclose(curve.centre(u), steep @ rest / steep.sum(axis=1, keepdims=True), atol=1e-3)


@pytest.mark.parametrize("curved", [False, True])
def test_slopes_of_payoffs_in_beta_are_finite_differences(curved):
    log, x, truth = duels()
    style = replace(fit_style(fitted(log, x, truth), "style"), curved=curved)
    mu, m, step = np.linspace(-0.7, 0.7, 5), np.linspace(-1, 1, 5), 1e-3
    for s in range(2):
        both = [replace(style, beta=style.beta + sign * step * np.eye(2)[s]) for sign in (1, -1)]
        slope = style.slopes(mu, m, 2 * m * style.beta[s], s)
        high, low = (
            one.equal(mu, 2 * m * style.beta[s] + sign * step * m) for one, sign in zip(both, (1, -1), strict=True)
        )
        np.testing.assert_allclose(-(high - low) / (2 * step), slope, atol=2e-2)


def test_a_straight_line_changes_nothing():
    u = np.linspace(-1, 1, 3)
    line = Straight()
    assert (line.index(u) == u).all()
    assert (line.value(u) == u).all()
    assert (line.mean_slope(u) == 1).all()


def test_a_curve_is_taken_where_verdicts_level_off():
    strong = np.array([1.0, -0.6])
    log, x, truth = duels(n=3000, effect=strong, curve=True)
    base = fitted(log, x, truth, effect=strong)
    rng = np.random.default_rng(0)
    rest = rng.uniform(-0.5, 0.5, (4000, 2, 2)) @ strong
    spread = rest[:, 0] - rest[:, 1]
    level = np.linspace(-6, 6, 400)
    table = np.array([np.tanh(u + spread).mean() for u in level])
    straight = base.outcome_models.function
    curved = replace(base, outcome_models=Given(lambda x, fold: np.interp(straight(x, fold), level, table)))
    style = fit_style(curved, "style")
    assert style.curved
    np.testing.assert_allclose(style.beta, strong, atol=0.06)

"""Propensities of draws: the right model is found out of fold, at any number of menus."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nasheval.contexts.encoder import ContextEncoder
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance import choice as module
from nasheval.nuisance.choice import BestPropensity, ChosenModels
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.strata import Marginal

from .selection import drawn_log, duel_log, relative_error


def fitted(log, X, learner, seed=0, folds=3):
    fold = make_folds(log, folds, seed=seed)
    train = np.arange(folds)[:, None] != fold
    return NuisanceFit(log, X, fold, None, learner.fit(log, X, train, Effort(seed=seed)))


def out_of_fold(fit):
    e = np.empty((fit.log.n_contexts, len(fit.log.menus)))
    for contexts, values in fit.out_of_fold(fit.propensity_models, e.shape[1]):
        e[contexts] = values
    return e


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_agents", "n", "kind", "most"),
    [
        (22, 6000, "clique", 0.5),
        (22, 6000, "pairs", 0.5),
        (4, 2000, "u-shape", 0.3),
        (40, 10_000, "clique", 0.8),
        (22, 6000, "clique u-shape", 0.3),
    ],
)
def test_selection_by_context_is_found(n_agents, n, kind, most):
    """Out-of-fold propensities are much nearer to the truth than shares, and the choice says what they win."""
    log, X, true = drawn_log(n_agents, n, kind)
    best, shares = fitted(log, X, BestPropensity()), fitted(log, X, Marginal())
    e = out_of_fold(best)
    assert e.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert relative_error(e, true) < most * relative_error(out_of_fold(shares), true)
    choice = best.propensity_models.choice
    assert choice.gain > 4 * choice.gain_error > 0
    assert choice.gain == pytest.approx(choice.losses["shares"] - choice.losses[choice.name])
    rows = np.arange(log.n_records)
    loss = -np.log(e[log.context_of, log.menus.of_record[rows]]).mean()
    assert loss == pytest.approx(choice.losses[choice.name], rel=1e-6)
    assert "below shares" in str(choice)


@pytest.mark.parametrize(("n_agents", "n"), [(4, 1000), (22, 3000)])
def test_under_random_assignment_the_choice_is_no_worse_than_shares(n_agents, n):
    for seed in range(3):
        log, X, true = drawn_log(n_agents, n, "random", seed)
        best, shares = fitted(log, X, BestPropensity(), seed), fitted(log, X, Marginal(), seed)
        error = relative_error(out_of_fold(best), true), relative_error(out_of_fold(shares), true)
        assert error[0] < 1.5 * error[1]


def test_the_same_seed_gives_the_same():
    log, X, _ = drawn_log(8, 1500, "u-shape clique")
    one, two = (out_of_fold(fitted(log, X, BestPropensity(), seed=7)) for _ in range(2))
    assert np.array_equal(one, two)


def test_records_are_the_cells_of_predictions():
    log, X, _ = drawn_log(5, 600, "u-shape")
    fit = fitted(log, X, BestPropensity())
    e = out_of_fold(fit)
    assert fit.raw_propensity == pytest.approx(e[log.context_of, log.menus.of_record])
    assert isinstance(fit.propensity_models, ChosenModels)


def test_menus_of_five_with_light_records():
    """Ballots of 5 of 7 agents, one agent asked more often in one language; each ballot comes as ten light records."""
    rng = np.random.default_rng(0)
    german = rng.random(1200) < 0.5
    weight = np.where(german[:, None], np.r_[8.0, np.ones(6)], 1.0)
    score = rng.gumbel(size=(1200, 7)) + np.log(weight)
    menus = np.sort(np.argsort(-score, axis=1)[:, :5], axis=1)
    records = Records.build(
        sizes=np.full(12000, 5), agent=np.repeat(menus, 10, axis=0).ravel(), rank=np.tile(np.arange(5), 12000),
        weight=np.full(12000, 0.1),
    )  # fmt: skip
    log = Feedback.from_records(
        records, agents="abcdefg", contexts=pa.table({"language": np.where(german, "de", "en")}),
        context_of=np.repeat(np.arange(1200), 10), design="draws",
    )  # fmt: skip
    X = Features.of(ContextEncoder.fit(log.contexts), log.contexts)
    fit = fitted(log, X, BestPropensity())
    assert "language" in fit.propensity_models.choice.name or "softmax" in fit.propensity_models.choice.name
    first = np.isin(log.menus.agent.reshape(-1, 5), 0).any(axis=1)
    e = out_of_fold(fit)[:, first].sum(axis=1)
    for value in (False, True):
        asked = (menus[german == value] == 0).any(axis=1).mean()
        assert e[german == value].mean() == pytest.approx(asked, abs=0.03)
    # a context is one unit: its ten records say one thing ten times, and the error knows
    assert fit.propensity_models.choice.gain_error > 0


def test_heavy_records_count_more():
    """One pair is asked in German, another in English, by weight: without weights the languages look alike."""
    rng = np.random.default_rng(0)
    german, pair = rng.random(2000) < 0.5, rng.integers(0, 2, 2000)
    log = duel_log(
        np.array([(0, 1), (0, 2)])[pair], 3, {"language": np.where(german, "de", "en")},
        weight=np.where(german == (pair == 0), 3.0, 1.0),
    )  # fmt: skip
    X = Features.of(ContextEncoder.fit(log.contexts), log.contexts)
    e = out_of_fold(fitted(log, X, BestPropensity()))
    assert e[german, 0].mean() == pytest.approx(0.75, abs=0.03)
    assert e[~german, 0].mean() == pytest.approx(0.25, abs=0.03)


def test_training_sets_that_leave_nothing_out():
    log, X, true = drawn_log(4, 1500, "u-shape")
    models = BestPropensity().fit(log, X, np.ones((1, 1500), bool), Effort())
    assert models.choice.gain > 0
    assert relative_error(models.predict(X, 0), true) < 0.5 * relative_error(
        np.tile(true.mean(axis=0), (1500, 1)), true
    )


def test_large_logs_are_sampled(monkeypatch):
    """With small limits few records are scored and seen by trees; the result is still sound."""
    monkeypatch.setattr(module, "_SCORED_CELLS", 1)
    monkeypatch.setattr(module, "_TREE_CELLS", 6 * 500)
    log, X, true = drawn_log(4, 6000, "u-shape")
    assert module._thinned(log, np.ones((1, 6000), bool), 6 * 500, 0).sum() < 700
    e = out_of_fold(fitted(log, X, BestPropensity()))
    assert relative_error(e, true) < 0.5


def test_progress_adds_up_to_one():
    log, X, _ = drawn_log(4, 400, "random")
    told = []
    train = np.arange(2)[:, None] != np.arange(400) % 2
    BestPropensity().fit(log, X, train, Effort(advance=told.append))
    assert sum(told) == pytest.approx(1)


def test_a_log_without_records():
    nothing = np.zeros(0, np.int64)
    records = Records.build(sizes=nothing, agent=nothing, rank=nothing)
    log = Feedback.from_records(records, agents="ab", contexts=pa.table({"x": np.arange(4.0)}), design="draws")
    X = Features.of(ContextEncoder.fit(log.contexts), log.contexts)
    assert out_of_fold(fitted(log, X, BestPropensity(), folds=2)).shape == (4, 0)

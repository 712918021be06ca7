"""Diagnostics against hand computation."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Group

from nasheval.contexts.encoder import ContextEncoder
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.feedback.world import SyntheticWorld
from nasheval.nuisance import nuisance_diagnostics as module
from nasheval.nuisance.crossfit import NuisanceFit, crossfit, make_folds
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.nuisance_diagnostics import Calibration, NuisanceDiagnostics, calibrate
from nasheval.nuisance.propensity import Known
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.softmax import Multinomial
from nasheval.nuisance.strata import Marginal
from nasheval.nuisance.trees import TreePropensity
from nasheval.payoff.drawing import nuisance_tables
from nasheval.terminal import plain

WORLD = SyntheticWorld(seed=3, features=16, calibration=64)


@dataclass(frozen=True)
class Table:
    """Predictions looked up by the context's number, which is its feature."""

    values: np.ndarray

    def predict(self, X, fold):
        return self.values[X.trees[:, 0].astype(int)]


def fit_of(log, mu, e):
    x = np.arange(log.n_contexts, dtype=np.float32)[:, None]
    return NuisanceFit(log, Features(x, x), make_folds(log, 2), Table(mu), Table(e))


def duels(pairs, won, context_of, n, *, agents="abc", design="inclusion", **columns):
    rank = np.column_stack([1 - np.array(won), np.array(won)]).ravel()  # 1: j won, 0: k won, 0.5: a tie
    records = Records.build(sizes=np.full(len(pairs), 2), agent=np.array(pairs).ravel(), rank=rank, **columns)
    table = pa.table({"x": np.arange(float(n))})
    return Feedback.from_records(records, agents=agents, contexts=table, context_of=np.array(context_of), design=design)


@pytest.fixture
def golden():
    """Three contexts; a beats b at 0 and 1 and ties at 2, b loses to c at 0; c and a never meet."""
    log = duels(
        [(0, 1), (1, 2), (0, 1), (0, 1)], [1, 0, 1, 0.5], [0, 0, 1, 2], 3, weight=np.array([1.0, 1.0, 2.0, 1.0])
    )
    mu = np.array([[0.5, -0.5], [0.8, 0.0], [0.2, 0.0]])
    e = np.array([[0.5, 0.25], [0.4, 0.3], [0.005, 0.2]])
    return fit_of(log, mu, e)


def test_the_golden_log(golden):
    found = NuisanceDiagnostics.of(golden)
    z, mu, w = np.array([1, -1, 1, 0]), np.array([0.5, -0.5, 0.8, 0.2]), np.array([1, 1, 2, 1])
    error = (w * (z - mu) ** 2).sum()
    mean = (w * z).sum() / 5
    assert found.r2 == pytest.approx(1 - error / (w * (z - mean) ** 2).sum())
    within = np.array([3 / 4, -1, 3 / 4, 3 / 4])  # of the pair a, b: 1, 1 (twice), 0; of b, c: -1
    assert found.r2_within == pytest.approx(1 - error / (w * (z - within) ** 2).sum())
    p = (1 + mu) / 2
    loss = -np.log([p[0], 1 - p[1], p[2]]) @ [1, 1, 2] - (np.log(p[3]) + np.log(1 - p[3])) / 2
    assert found.log_loss == pytest.approx(loss / 5)
    assert found.smallest == 0.005
    assert found.quantiles[0] == (0.0, 0.005)
    assert found.quantiles[-1] == (1.0, 0.5)
    assert (found.floor, found.clipped_share) == (0.05, 0.25)
    weights = np.array([1 / 0.5, 2 / 0.4, 1 / 0.05])  # all contexts ask a, b: the floor is 0.05
    assert found.votes.tolist() == [3, 0, 1]
    assert found.effective == pytest.approx([weights.sum() ** 2 / (weights**2).sum(), 0, 1])


def drawn(found):
    return plain(Group(*nuisance_tables(found)))


def test_the_golden_log_in_words(golden):
    found = NuisanceDiagnostics.of(golden)
    words = " ".join(found.warnings())
    assert "25% of records have a propensity below 0.05 of their menu's share" in words
    assert "2 pairs have fewer than 30 effective votes; fewest: b and c, whose 1 votes count as 1.0" in words
    text = drawn(found)
    assert "4 verdicts out of fold" in text
    assert "a and b" in text
    values = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert values["agents"] == ["a", "b", "c"]
    assert values["votes"] == [3, 0, 1]
    assert values["outcome"]["count"] == found.outcome.count.tolist()


def test_calibration_by_hand():
    """Twenty predictions in ten bins of two."""
    predicted = np.arange(20) / 20
    observed = np.tile([0.0, 1.0], 10)
    found = calibrate(predicted, observed)
    assert found.count.tolist() == [2] * 10
    assert found.predicted == pytest.approx(predicted.reshape(10, 2).mean(axis=1))
    assert found.observed.tolist() == [0.5] * 10
    assert found.error == pytest.approx([0.5 / np.sqrt(2)] * 10)
    assert found.distance == pytest.approx(np.abs(predicted.reshape(10, 2).mean(axis=1) - 0.5).mean())


def test_equal_predictions_share_a_bin():
    found = calibrate(np.full(50, 0.3), np.repeat([0.0, 1.0], 25), np.repeat([1.0, 3.0], 25))
    assert found.count.tolist() == [50]
    assert found.observed == pytest.approx([0.75])
    assert len(calibrate(np.zeros(0), np.zeros(0)).count) == 0


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(-1, 1), st.sampled_from([-1.0, 0.0, 1.0])), min_size=1, max_size=60))
def test_bins_add_up_to_the_whole(rows):
    predicted, observed = (np.array(column) for column in zip(*rows, strict=True))
    found = calibrate(predicted, observed)
    assert found.count.sum() == len(rows)
    assert len(found.count) <= 10
    assert found.count @ found.predicted == pytest.approx(predicted.sum(), abs=1e-9)
    assert found.count @ found.observed == pytest.approx(observed.sum(), abs=1e-9)
    assert (np.diff(found.predicted) > -1e-12).all()


@pytest.mark.parametrize("chunk", [7, 1 << 21])
@pytest.mark.parametrize("design", ["inclusion", "draws"])
def test_propensity_calibration_by_brute_force(design, chunk, monkeypatch):
    """Over all cells: the totals, and in every bin the mean propensity and how often menus were asked."""
    monkeypatch.setattr(module, "_CHUNK_CELLS", chunk)
    rng = np.random.default_rng(0)
    n, records = 60, 150
    pairs = np.array([(0, 1), (0, 2), (1, 2)])[rng.integers(0, 3, records)]
    context_of = np.sort(rng.integers(0, n, records))
    log = duels(pairs, rng.integers(0, 2, records), context_of, n, design=design)
    e = rng.choice([0.1, 0.2, 0.4], (n, 3), p=[0.3, 0.3, 0.4])
    found = NuisanceDiagnostics.of(fit_of(log, np.zeros((n, 3)), e)).propensity
    asked, trials = np.zeros((n, 3)), np.ones((n, 3))
    for context, menu in zip(log.context_of, log.menus.of_record, strict=True):
        asked[context, menu] += 1
    if design == "inclusion":
        asked = np.minimum(asked, 1)
    else:
        trials = np.repeat(np.bincount(log.context_of, minlength=n)[:, None], 3, axis=1)
    assert found.predicted == pytest.approx([0.1, 0.2, 0.4])
    for bin_, value in enumerate((0.1, 0.2, 0.4)):
        assert found.count[bin_] == trials[e == value].sum()
        assert found.observed[bin_] == pytest.approx(asked[e == value].sum() / trials[e == value].sum())


def test_contexts_are_thinned_out_where_there_are_too_many_cells(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CELLS", 100)
    log = WORLD.feedback("pairwise", 1, 100)
    fit = fit_of(log, np.zeros((100, 10)), np.full((100, 10), 0.5))
    assert NuisanceDiagnostics.of(fit).propensity.count.sum() == 100


def encoded(log):
    return Features.of(ContextEncoder.fit(log.contexts), log.contexts)


def test_of_true_nuisances_there_is_nothing_to_warn():
    log, X = WORLD.feedback("pairwise", 3, 3000), WORLD.contexts(3000)
    mu, e = WORLD.outcome(X, "pairwise", 3).values, np.repeat(WORLD.propensity(X)[:, None], 10, axis=1)
    found = NuisanceDiagnostics.of(fit_of(log, mu, e))
    assert found.warnings() == []
    assert 0 < found.r2_within < found.r2 < 1
    assert found.log_loss < np.log(2)
    assert (found.effective < found.votes).all()


def test_bad_nuisances_are_named():
    log = WORLD.feedback("pairwise", 3, 1500)
    rng = np.random.default_rng(0)
    bad = fit_of(log, rng.uniform(-1, 1, (1500, 10)), np.full((1500, 10), 0.9))
    words = " ".join(NuisanceDiagnostics.of(bad).warnings())
    assert "explains none" in words
    assert "Predicted verdicts are off" in words
    assert "Propensities do not fit where x" in words


def test_draws_and_known_propensities():
    log = WORLD.feedback("pairwise", 3, 1500, selection="one", known_propensity=True)
    X, fold = encoded(log), make_folds(log, 2)
    known, free = (
        NuisanceDiagnostics.of(crossfit(log, X, outcome=Intercept(), propensity=e, fold=fold, effort=Effort()))
        for e in (Known(), Multinomial())
    )
    assert known.propensity is None
    assert known.to_dict()["propensity"] is None
    assert drawn(known)
    assert free.propensity.count.sum() == 1500 * 10
    assert free.propensity.count @ free.propensity.predicted == pytest.approx(1500)
    assert free.propensity.count @ free.propensity.observed == pytest.approx(1500)
    assert not free.propensity.is_off(0.05)


def test_trees_are_calibrated_on_the_simulation():
    log = WORLD.feedback("pairwise", 3, 4000)
    propensity = TreePropensity({"num_leaves": 7, "num_iterations": 30})
    fit = crossfit(log, encoded(log), outcome=Intercept(), propensity=propensity, fold=make_folds(log, 2))
    found = NuisanceDiagnostics.of(fit).propensity
    assert isinstance(found, Calibration)
    assert found.distance < 0.03


def test_a_log_without_records():
    nothing = np.zeros(0, np.int64)
    log = Feedback.from_records(
        Records.build(sizes=nothing, agent=nothing, rank=nothing), agents="ab", contexts=pa.table({"x": np.arange(4.0)})
    )
    fit = crossfit(log, encoded(log), outcome=Intercept(), propensity=Marginal(), fold=make_folds(log, 2))
    found = NuisanceDiagnostics.of(fit)
    assert found.warnings()[0] == "There are no verdicts."
    assert found.to_dict()["r2"] is None
    assert drawn(found)

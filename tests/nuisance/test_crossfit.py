"""Folds, and predictions by models that never saw what they predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Barrier

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance import crossfit as module
from nasheval.nuisance.crossfit import NuisanceFit, crossfit, make_folds
from nasheval.nuisance.learners import Effort, Features, records_of


def log_of(n=40, records=90, seed=0, design="inclusion", **columns):
    rng = np.random.default_rng(seed)
    context_of = np.sort(rng.integers(0, n, records))
    agent = np.concatenate([np.sort(rng.choice(4, 2, replace=False)) for _ in range(records)])
    built = Records.build(sizes=np.full(records, 2), agent=agent, rank=rng.integers(0, 2, len(agent)), **columns)
    contexts = pa.table({"g": pa.chunked_array([["a", "b"] * (n // 4), ["c", None] * (n // 4)]), "x": rng.random(n)})
    voters = None if columns.get("voter") is None else pa.array([f"v{v}" for v in range(columns["voter"].max() + 1)])
    return Feedback.from_records(
        built, agents="abcd", contexts=contexts, context_of=context_of, voters=voters, design=design
    )


def plain_features(log):
    x = log.contexts["x"].to_numpy().astype(np.float32)[:, None]
    return Features(x, x)


# -- folds ------------------------------------------------------------------------------------------------------------


@given(st.integers(2, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, n))), st.integers(0, 9))
def test_folds_are_of_equal_size(size, seed):
    n, folds = size
    log = Feedback.from_records(
        Records.build(sizes=np.array([2]), agent=np.array([0, 1]), rank=np.array([0, 1])), agents="ab", n_contexts=n
    )
    fold = make_folds(log, folds, seed=seed)
    counts = np.bincount(fold, minlength=folds)
    assert counts.sum() == n
    assert counts.max() - counts.min() <= 1
    assert np.array_equal(fold, make_folds(log, folds, seed=seed))


def test_folds_depend_on_the_seed():
    log = log_of()
    assert not np.array_equal(make_folds(log, seed=0), make_folds(log, seed=1))


def one_voter_a_context(people, contexts=120):
    rng = np.random.default_rng(0)
    duels = [(("a",), ("b",))] * contexts
    return Feedback.from_partitions(
        rng.normal(size=(contexts, 1)), duels, voter=(np.arange(contexts) % people).tolist()
    )


def test_voters_of_several_contexts_stay_together_unasked():
    log = one_voter_a_context(30)
    fold = make_folds(log, 5, seed=1)
    assert all(len(np.unique(fold[log.records.voter == name])) == 1 for name in range(30))


@pytest.mark.parametrize("people", [3, 19, 120])
def test_few_voters_and_voters_of_one_context_change_nothing(people):
    log = one_voter_a_context(people)
    assert np.array_equal(
        make_folds(log, 5, seed=1),
        make_folds(replace(log, voters=None, records=replace(log.records, voter=None)), 5, seed=1),
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"folds": 1}, "accepted are 2 to 40"),
        ({"folds": 41}, "accepted are 2 to 40"),
    ],
)
def test_folds_that_cannot_be(options, words):
    with pytest.raises(InputError, match=words):
        make_folds(log_of(), **{"folds": 5, **options})


# -- predictions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tagged:
    """Predicts fold + column / 100 + the context's feature / 1000, so that a wrong cell shows."""

    width: int

    def predict(self, X, fold):
        return fold + np.arange(self.width) / 100 + X.trees[:, :1].astype(float) / 1000


class TaggedCells(Tagged):
    def cells(self, X, fold, rows, columns):
        return self.predict(X, fold)[rows, columns]


class Recorded(Tagged):
    def of_records(self):
        return np.linspace(0.001, 0.9, 90)


@dataclass(frozen=True)
class Remembers:
    """A learner that keeps what it was given."""

    seen: list
    width: int

    def fit(self, log, X, train, effort):
        self.seen.append(train)
        effort.advance(0.25)
        effort.advance(0.75)
        return Tagged(self.width)


def fit_of(log, outcome=Tagged, propensity=Tagged, folds=3, **options):
    columns, menus = len(log.menus.columns), len(log.menus)
    fold = make_folds(log, folds)
    return NuisanceFit(log, plain_features(log), fold, outcome(columns), propensity(menus), **options)


@pytest.mark.parametrize(("models", "n_jobs"), [(Tagged, 1), (TaggedCells, 1), (TaggedCells, 3)])
@pytest.mark.parametrize("cells", [1, 50, 1 << 23])
def test_every_verdict_and_record_gets_its_own_prediction(models, n_jobs, cells, monkeypatch):
    monkeypatch.setattr(module, "_CELLS", cells)
    monkeypatch.setattr(module, "_BLOCK", cells)
    log = log_of()
    fit = fit_of(log, models, models, n_jobs=n_jobs)
    x = fit.X.trees[:, 0].astype(float)
    for record in range(log.n_records):
        context, menu = log.context_of[record], log.menus.of_record[record]
        expected = fit.fold[context] + menu / 100 + x[context] / 1000
        assert fit.raw_propensity[record] == pytest.approx(expected, abs=1e-12)
        assert fit.mu[record] == pytest.approx(expected, abs=1e-12)  # a duel: menu m has column m
    rows = np.concatenate([contexts for contexts, _ in fit.outcomes()])
    assert sorted(rows.tolist()) == list(range(log.n_contexts))


class Known(Recorded):
    known = True


class Fixed(Tagged):
    """The same small propensity for every menu and context."""

    def predict(self, X, fold):
        return np.full((len(X), self.width), 0.01)


@pytest.mark.parametrize("design", ["inclusion", "draws"])
def test_the_floor_is_a_twentieth_of_the_menus_share(design):
    log = log_of(design=design)
    fit = fit_of(log, propensity=Recorded)
    for menu in range(len(log.menus)):
        rows = np.flatnonzero(log.menus.of_record == menu)
        of = len(rows) / log.n_records if design == "draws" else len(set(log.context_of[rows])) / log.n_contexts
        assert fit.floors[menu] == pytest.approx(0.05 * of)
    floor = fit.floors[log.menus.of_record]
    assert np.array_equal(fit.raw_propensity, np.linspace(0.001, 0.9, 90))
    assert np.array_equal(fit.e, np.maximum(fit.raw_propensity, floor))
    assert fit.clipped_share == (fit.raw_propensity < floor).mean() > 0


def test_known_propensities_are_never_raised():
    fit = fit_of(log_of(design="draws"), propensity=Known)
    assert fit.is_known
    assert not fit.floors.any()
    assert np.array_equal(fit.e, fit.raw_propensity)
    assert fit.clipped_share == 0
    assert not fit.clipped.nnz


def test_clipping_is_what_the_floor_keeps_from_the_correction():
    log = log_of(design="draws")
    fit = fit_of(log, propensity=Fixed)
    expected = np.maximum(1 - 0.01 / fit.floors, 0)
    assert (expected > 0).any()
    assert np.array_equal(fit.looked_at, np.arange(log.n_contexts))
    assert fit.clipped.toarray() == pytest.approx(np.tile(expected, (log.n_contexts, 1)))


def test_learners_are_given_the_other_folds_and_progress_is_shared():
    log, seen, told = log_of(), [], []
    fold = make_folds(log, 5)
    learner = Remembers(seen, len(log.menus))
    fit = crossfit(
        log, plain_features(log), outcome=learner, propensity=learner, fold=fold, effort=Effort(advance=told.append)
    )
    assert fit.n_folds == 5
    for train in seen:
        assert train.shape == (5, log.n_contexts)
        assert all(np.array_equal(train[f], fold != f) for f in range(5))
    assert told == [0.125, 0.375, 0.125, 0.375]


@dataclass
class Meets:
    """Fits only while another does."""

    other: Barrier
    models: object

    def fit(self, log, X, train, effort):
        self.other.wait(timeout=60)
        return self.models


def test_propensities_are_learned_while_a_device_trains():
    log, meeting = log_of(), Barrier(2)
    fit = crossfit(
        log, plain_features(log), outcome=Meets(meeting, "mu"), propensity=Meets(meeting, "e"),
        fold=make_folds(log, 5), effort=Effort(device="cuda"),
    )  # fmt: skip
    assert (fit.outcome_models, fit.propensity_models) == ("mu", "e")


def test_records_of_contexts():
    log = log_of()
    wanted = np.arange(log.n_contexts) % 3 == 0
    assert records_of(log, wanted).tolist() == [r for r in range(log.n_records) if log.context_of[r] % 3 == 0]


def test_a_log_without_records():
    nothing = np.zeros(0, np.int64)
    log = Feedback.from_records(
        Records.build(sizes=nothing, agent=nothing, rank=nothing), agents="ab", contexts=pa.table({"x": np.arange(4.0)})
    )
    fit = fit_of(log, folds=2)
    assert (len(fit.mu), len(fit.e), fit.clipped_share) == (0, 0, 0.0)


def test_units_are_voters_only_where_that_matters():
    assert np.array_equal(one_voter_a_context(30).units, np.arange(120) % 30)
    for people in (3, 19, 120):
        assert np.array_equal(one_voter_a_context(people).units, np.arange(120))

"""The check of propensities: its level, its power, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from nasheval.contexts.encoder import ContextEncoder
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance import balance as module
from nasheval.nuisance.balance import check_propensities, never_asked
from nasheval.nuisance.choice import BestPropensity
from nasheval.nuisance.crossfit import NuisanceFit, crossfit, make_folds
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.nuisance_diagnostics import NuisanceDiagnostics
from nasheval.nuisance.propensity import Known
from nasheval.nuisance.sklearn_models import Intercept, SklearnPropensity
from nasheval.nuisance.strata import Marginal

from .selection import drawn_log, duel_log


@dataclass(frozen=True)
class Rule:
    """The same propensities everywhere, known or not."""

    shares: np.ndarray
    known: bool = True

    def predict(self, X, fold):
        return np.tile(self.shares, (len(X), 1))


def checked(log, X, learner, seed=0):
    fold = make_folds(log, 3, seed=seed)
    models = learner.fit(log, X, np.arange(3)[:, None] != fold, Effort(seed=seed))
    return check_propensities(NuisanceFit(log, X, fold, None, models))


def features(log):
    return Features.of(ContextEncoder.fit(log.contexts), log.contexts)


@pytest.mark.slow
@pytest.mark.parametrize("learner", [Marginal(), Known(lambda X: np.full((len(X), 6), 1 / 6)), BestPropensity()])
def test_the_level_is_held_under_random_assignment(learner):
    """Of 60 logs with p = 0.05 each, more than 8 fire with a chance below 0.3%."""
    n, logs = (500, 12) if isinstance(learner, BestPropensity) else (1000, 60)
    found = [checked(*drawn_log(4, n, "random", seed)[:2], learner, seed) for seed in range(logs)]
    assert sum(one.is_off for one in found) <= (3 if logs == 12 else 8)
    assert min(one.p_value for one in found) < 0.9  # and it is no constant


@pytest.mark.parametrize(
    ("n_agents", "n", "kind", "times"), [(22, 6000, "clique", 2.5), (22, 6000, "pairs", 3), (4, 1500, "u-shape", 2)]
)
def test_shares_are_caught_where_selection_depends_on_the_context(n_agents, n, kind, times):
    found = [checked(*drawn_log(n_agents, n, kind, seed, times)[:2], Marginal(), seed) for seed in range(5)]
    assert sum(one.is_off for one in found) >= 4
    assert all(one.column == ("length" if kind == "u-shape" else "language") for one in found if one.is_off)


@pytest.mark.slow
def test_a_model_of_the_context_is_not_blamed():
    log, X, _ = drawn_log(10, 4000, "clique u-shape")
    assert checked(log, X, Marginal()).p_value < 1e-6
    assert not checked(log, X, BestPropensity()).is_off


def grouped(counts, *, repeat=1):
    """Return a log of pairs of three agents; counts are {group: how often each pair}; records repeat at a context."""
    rows = [(g, pair) for g, times in counts.items() for pair, n in zip([(0, 1), (0, 2), (1, 2)], times, strict=True)
            for _ in range(n)]  # fmt: skip
    contexts = {"language": [g for g, _ in rows]}
    pairs = [pair for _, pair in rows for _ in range(repeat)]
    return duel_log(pairs, 3, contexts, context_of=np.repeat(np.arange(len(rows)), repeat))


def test_observed_and_expected_by_hand():
    """300 draws in each language; by known thirds, a00 and a01 should meet 100 times where language is de."""
    log = grouped({"de": (160, 70, 70), "en": (100, 100, 100)})
    fit = NuisanceFit(log, features(log), make_folds(log, 2), None, Rule(np.full(3, 1 / 3)))
    found = check_propensities(fit)
    assert (found.column, found.group, found.what) == ("language", "de", ("a00", "a01"))
    assert (found.observed, found.expected) == (160, pytest.approx(100))
    assert found.n_tests == 4
    # by menu and by agent the same three cells; the cell at 160 decides: Poisson with mean 100, doubled twice
    assert found.p_value < 1e-4
    assert str(found) == (
        "Propensities do not fit where language is de (p < 0.001): a00 and a01 were compared 160 times, 100 expected"
    )


def test_estimated_shares_have_learned_from_the_group():
    """With the same shares a group of half the log varies half as much about what it helped to estimate."""
    log = grouped({"de": (120, 90, 90), "en": (80, 110, 110)})
    fold = make_folds(log, 2)
    known, estimated = (
        check_propensities(NuisanceFit(log, features(log), fold, None, Rule(np.full(3, 1 / 3), known)))
        for known in (True, False)
    )
    assert estimated.p_value < known.p_value


def test_records_that_repeat_are_no_more_evidence():
    """Each draw written down ten times: counts are ten times as large, and the p-value about the same."""
    once, often = (grouped({"de": (45, 30, 25), "en": (30, 35, 35)}, repeat=times) for times in (1, 10))
    p = [
        check_propensities(NuisanceFit(log, features(log), make_folds(log, 2), None, Rule(np.full(3, 1 / 3)))).p_value
        for log in (once, often)
    ]
    assert 0.001 < p[0] < 1
    assert p[1] == pytest.approx(p[0], rel=0.5)


def test_voters_who_see_one_menu_only_are_no_more_evidence():
    """Sixty voters, ten contexts each, always the same random pair: as draws they would be far too uneven."""
    fired = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pair, language = rng.integers(0, 3, 60), rng.choice(["de", "en"], 60)
        pairs = np.array([(0, 1), (0, 2), (1, 2)])[np.repeat(pair, 10)]
        records = Records.build(
            sizes=np.full(600, 2), agent=pairs.ravel(), rank=np.tile([0, 1], 600), voter=np.repeat(np.arange(60), 10)
        )
        log = Feedback.from_records(
            records, agents="abc", contexts=pa.table({"language": np.repeat(language, 10)}), design="draws",
            voters=[str(v) for v in range(60)],
        )  # fmt: skip
        fired += check_propensities(
            NuisanceFit(log, features(log), make_folds(log, 3), None, Rule(np.full(3, 1 / 3)))
        ).is_off
    assert fired <= 3


def test_light_records_are_no_more_evidence():
    """Weights of a tenth, one record per context: p-values are those of the records, not of their weights."""
    log = grouped({"de": (45, 30, 25), "en": (30, 35, 35)})
    light = replace(log, records=log.records.replace(weight=np.full(200, 0.1)))
    p = [
        check_propensities(NuisanceFit(one, features(one), make_folds(one, 2), None, Rule(np.full(3, 1 / 3)))).p_value
        for one in (log, light)
    ]
    assert p[1] == pytest.approx(p[0], rel=1e-3)


def test_inclusion_is_checked_too():
    rng = np.random.default_rng(0)
    warm = rng.random(2000) < 0.5
    asked = rng.random((2000, 2)) < np.where(warm[:, None], [0.5, 0.3], [0.2, 0.3])
    context, menu = np.nonzero(asked)
    pairs = np.array([(0, 1), (0, 2)])[menu]
    records = Records.build(sizes=np.full(len(menu), 2), agent=pairs.ravel(), rank=np.tile([0, 1], len(menu)))
    table = pa.table({"warm": np.where(warm, "yes", "no"), "noise": rng.normal(size=2000)})
    log = Feedback.from_records(
        records, agents="abc", contexts=table, context_of=context, n_contexts=2000, design="inclusion"
    )
    wrong = checked(log, features(log), Marginal())
    assert (wrong.column, wrong.what) == ("warm", ("a", "b"))
    assert not checked(log, features(log), SklearnPropensity(LogisticRegression())).is_off


def test_contexts_are_thinned_out_where_there_are_too_many_cells(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CELLS", 6 * 700)
    log, X, _ = drawn_log(4, 2000, "u-shape")
    fit = NuisanceFit(log, X, make_folds(log, 2), None, Rule(np.full(6, 1 / 6)))
    assert len(module._Cells(fit).context) <= 700
    assert check_propensities(fit).is_off


def test_no_column_no_check():
    log = duel_log([(0, 1)] * 40, 2, {"word": ["same"] * 40})
    assert check_propensities(NuisanceFit(log, features(log), make_folds(log, 2), None, Rule(np.ones(1)))) is None


@pytest.mark.slow
def test_a_sample_of_contexts_has_learned_less(monkeypatch):
    """Shares of 6,000 draws, checked on 300 of them: a group's variance is hardly smaller for having been learned."""
    monkeypatch.setattr(module, "_MOST_CELLS", 6 * 300)
    found = [checked(*drawn_log(4, 6000, "random", seed)[:2], Marginal(), seed) for seed in range(40)]
    assert sum(one.is_off for one in found) <= 6


# -- never asked ------------------------------------------------------------------------------------------------------


def test_pairs_never_asked_in_a_group_are_named():
    log = grouped({"de": (0, 60, 40), "en": (40, 30, 30), "fr": (2, 1, 0)})
    (one,) = never_asked(log)
    assert one[:4] == ("language", "de", "a00", "a01")
    assert one.expected == pytest.approx(42 * 100 / 203)  # fr expects less than ten of anything


def test_diagnostics_say_all_of_it():
    log = grouped({"de": (0, 160, 140), "en": (100, 100, 100)})
    fit = crossfit(log, features(log), outcome=Intercept(), propensity=Marginal(), fold=make_folds(log, 2))
    found = NuisanceDiagnostics.of(fit)
    words = " ".join(found.warnings())
    assert "Propensities do not fit where language is" in words
    assert "Means are debiased only as far as the outcome model is right there" in words
    assert "Never asked, though often elsewhere: a00 and a01 where language is de (50 expected)" in words
    assert "corrects for it" not in words
    assert "in full" not in words
    plain = found.to_dict()
    assert plain["never_asked"] == [["language", "de", "a00", "a01", 50.0]]
    assert plain["check"]["column"] == "language"
    assert plain["choice"] is None
    best = crossfit(log, features(log), outcome=Intercept(), propensity=BestPropensity(), fold=make_folds(log, 2))
    better = NuisanceDiagnostics.of(best)
    assert better.choice.name != "shares"
    assert "Propensity model: " in better.lines()[-1]
    assert not better.check.is_off

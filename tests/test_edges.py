"""Odd and hostile input to the estimator: a clear error before any work, or the obvious meaning."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError as SklearnNotFitted
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeRegressor

import nasheval as ne
from nasheval.errors import InputError, NashEvalError
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Entropy
from nasheval.payoff import stage1
from nasheval.payoff.aggregators import Mean
from nasheval.policy.exact import ExactPolicy
from nasheval.scoring.report import gather

COSTS = {"a": 1.0, "b": 2.0, "c": 3.0}
QUICK = {
    "outcome": DecisionTreeRegressor(max_depth=2, min_samples_leaf=10), "second_stage": "none",
    "propensity": "marginal", "folds": 2, "n_jobs": 1, "verbose": False,
}  # fmt: skip


def duels(n=90, **options):
    rng = np.random.default_rng(0)
    contexts = pd.DataFrame({"language": rng.choice(["de", "en"], n), "length": rng.normal(size=n)})
    contexts.loc[::9, "language"] = None
    pairs = [("a", "b"), ("b", "c"), ("c", "a")]
    said = [ne.partition.duel(*pairs[i % 3], pairs[i % 3][int(rng.random() < 0.3)]) for i in range(n)]
    return ne.Feedback.from_partitions(contexts, said, **options)


@pytest.fixture(scope="module")
def fitted():
    return ne.NashEval(**QUICK, costs=COSTS).fit(duels())


# -- what can be known before a fit is checked before it ---------------------------------------------------------------


def _no_work(*arguments, **options):
    raise AssertionError("the contexts were encoded before the settings were checked")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"policy": "x"}, "policy is 'x'"),
        ({"policy": ExactPolicy}, "policy is <class"),
        ({"costs": {"a": 1}}, "costs has none for 'b'"),
        ({"costs": {**COSTS, "c": np.nan}}, "costs says nan for 'c'"),
        ({"costs": {**COSTS, "c": None}}, "costs says nan for 'c'"),
        ({"costs": "abc"}, "not a number: 'abc'"),
        ({"costs": COSTS, "cost_weight": "x"}, "'x' was given"),
        ({"costs": COSTS, "cost_weight": None}, "None was given"),
        ({"costs": COSTS, "budget": 0.5}, "the cheapest agent costs 1"),
        ({"costs": COSTS, "budget": np.inf}, "budget is inf; accepted is a finite number, a SoftBudget, or None"),
        ({"costs": COSTS, "budget": np.nan}, "budget is nan"),
        ({"costs": COSTS, "budget": "x"}, "budget is 'x'"),
        ({"costs": COSTS, "budget": True}, "budget is True"),
        ({"budget": 2.0}, "need costs"),
        ({"regularizer": 3}, "regularizer is 3; accepted are L2"),
        ({"regularizer": L2}, "regularizer is <class"),
        ({"regularizer": Entropy(0.1, [0.5, 0.5])}, r"reference of Entropy has shape \(2,\); with 3 agents"),
        ({"aggregator": "x"}, "aggregator is 'x'"),
        ({"aggregator": Mean}, "aggregator is <class"),
        ({"folds": "2"}, "folds='2': accepted are 2 to 90"),
        ({"folds": 2.5}, "folds=2.5"),
        ({"folds": True}, "folds=True"),
        ({"folds": 91}, "folds=91"),
        ({"tune": "x"}, "tune is 'x'; accepted are False, 'fast' and 'paper'"),
        ({"tune": True}, "tune is True"),
        ({"policy": "learned", "tune": "x"}, "tune is 'x'"),
        ({"random_state": -1}, "random_state is -1"),
        ({"random_state": 2**31}, "random_state is 2147483648"),
        ({"random_state": "1"}, "random_state is '1'"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"n_jobs": "2"}, "n_jobs is '2'"),
        ({"second_stage": "x"}, "second_stage is 'x'"),
        ({"second_stage": "corrected", "strength": "x"}, "strength is 'x'"),
        ({"second_stage": "corrected", "strength": 2}, "strength is 2"),
        ({"strength": 0.5}, "only second_stage='corrected' has one"),
        ({"boosting": "x"}, "boosting is 'x'"),
        ({"outcome": "x"}, "outcome is 'x'"),
        ({"propensity": "x"}, "propensity is 'x'"),
        ({"unseen": "x"}, "unseen is 'x'"),
        ({"availability": "x"}, "availability='x' is no context column"),
        ({"device": "x"}, "device is 'x'"),
        ({"engine": "x"}, "engine is 'x'"),
    ],
)
def test_settings_are_checked_before_the_work(monkeypatch, settings, said):
    monkeypatch.setattr(stage1.ContextEncoder, "fit", _no_work)
    with pytest.raises(InputError, match=said):
        ne.NashEval(**{**QUICK, **settings}).fit(duels())


def test_one_context_is_too_few():
    with pytest.raises(InputError, match="Contexts of this log: 1; cross-fitting needs at least 2"):
        ne.NashEval(**QUICK).fit(duels()[:1])


@pytest.mark.parametrize(
    "make",
    [
        lambda: L2("a"),
        lambda: L2(None),
        lambda: L2([1, 2]),
        lambda: L2(True),
        lambda: Entropy("a"),
        lambda: Entropy(0.1, "abc"),
        lambda: Entropy(0.1, [[0.5, 0.5], [1.0]]),
        lambda: SoftBudget("a", 1, 1, 1),
        lambda: SoftBudget(1, 1, 1, None),
        lambda: ne.solve(np.zeros((3, 3)), costs=[1, 2, 3], budget=np.inf),
        lambda: ne.solve(np.zeros((3, 3)), costs=[1, 2, 3], budget="x"),
        lambda: ne.solve(np.zeros((3, 3)), costs=[1, 2, 3], cost_weight="x"),
    ],
)
def test_terms_of_a_game_that_are_no_numbers(make):
    with pytest.raises(InputError):
        make()


# -- asking ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.predict_proba([{"language": "de", "length": 0.0}]),
        lambda model: model.predict([{"language": "de", "length": 0.0}]),
        lambda model: model.leaderboard(),
        lambda model: model.payoff([{"language": "de", "length": 0.0}]),
        lambda model: model.explain({"language": "de", "length": 0.0}),
        lambda model: model.router(),
        lambda model: model.save("nowhere"),
    ],
)
def test_an_unfitted_model_raises_our_error_and_scikit_learns(ask):
    with pytest.raises(SklearnNotFitted, match="call fit first") as caught:
        ask(ne.NashEval())
    assert isinstance(caught.value, NashEvalError)


def test_groups_that_are_none(fitted):
    with pytest.raises(InputError, match="group asks for 'cat', no context column: language, length"):
        fitted.payoff_interval({"cat": 3})
    with pytest.raises(InputError, match="'language' = 3; that column holds large_string"):
        fitted.payoff_interval({"language": 3})


def test_a_group_of_missing_values(fitted):
    missing = fitted.payoff_interval({"language": None})
    assert missing.inside.tolist() == [i % 9 == 0 for i in range(90)]


@pytest.mark.parametrize("changed", [{"budget": np.inf}, {"budget": "x"}, {"cost_weight": "x"}])
def test_terms_that_are_changed_are_checked_too(fitted, changed):
    with pytest.raises(InputError, match=f"{next(iter(changed))} is"):
        fitted.predict_proba([{"language": "de", "length": 0.0}], **changed)


# -- odd columns and odd logs ------------------------------------------------------------------------------------------


def with_column(values):
    log = duels()
    return replace(log, contexts=log.contexts.append_column("odd", values))


ODD = {
    "nothing but nulls": pa.nulls(90),
    "integers above 2^53": pa.array([2**53 + 1 + i for i in range(90)]),
    "unsigned above 2^63": pa.array([2**63 + i for i in range(90)], pa.uint64()),
    "dates": pa.array([date(2024, 1, 1) + timedelta(i) for i in range(89)] + [None]),
    "times": pa.array([datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=i) for i in range(90)]),
}


@pytest.mark.parametrize("column", ODD.values(), ids=ODD)
def test_odd_columns_are_fitted_saved_and_shown(column, tmp_path):
    log = with_column(column)
    model = ne.NashEval(**{**QUICK, "outcome": "lightgbm"}).fit(log)
    assert model.diagnostics().warnings()
    json.dumps(model.explain(log.contexts.slice(3, 1)).to_dict())
    assert len(gather(model.stage1_).groups) > 1
    model.save(tmp_path / "model")
    loaded = ne.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(log.contexts), model.predict_proba(log.contexts))
    one = log.contexts.slice(0, 1).to_pylist()[0]
    np.testing.assert_array_equal(loaded.router()(one), model.predict_proba(log.contexts.slice(0, 1))[0])


def test_explanations_show_four_digits(fitted):
    shown = str(fitted.explain({"language": "de", "length": 0.12345}))
    assert not re.search(r"\d\.\d{8}", shown)
    assert re.search(r"-?\d\.\d{3,4} ", shown)


def test_names_with_half_a_character():
    records = [{"model_a": "a\ud800", "model_b": "b", "winner": "tie"}]
    with pytest.raises(InputError, match="column 'model_a': text that is not valid Unicode"):
        ne.read_votes(records)
    with pytest.raises(InputError, match="half of a character; rename it"):
        ne.Feedback.from_partitions(np.zeros((1, 1)), [(("a\ud800",), ("b",))])


def test_weights_that_drown_all_others():
    with pytest.raises(InputError, match=r"weight of record 3 is 1e\+300; accepted is a number up to 1,000,000,000"):
        duels(weight=[1.0, 1.0, 1.0, 1e300] + [1.0] * 86)


def test_datasets_of_hugging_face_are_contexts(fitted):
    datasets = pytest.importorskip("datasets")
    contexts = duels().contexts.slice(0, 20)
    dataset = datasets.Dataset.from_dict(contexts.to_pydict())
    np.testing.assert_array_equal(fitted.predict_proba(dataset), fitted.predict_proba(contexts))
    some = fitted.predict_proba(dataset.select([3, 1]))
    np.testing.assert_array_equal(some, fitted.predict_proba(contexts.take([3, 1])))
    with pytest.raises(InputError, match="dictionary of datasets with 'train'"):
        fitted.predict_proba(datasets.DatasetDict({"train": dataset}))


# -- scikit-learn's searches -------------------------------------------------------------------------------------------


def test_a_search_over_settings_splits_a_log():
    log, tried = duels(), {"outcome__max_depth": [1, 2]}
    search = GridSearchCV(ne.NashEval(**QUICK), tried, cv=3, error_score="raise").fit(log)
    assert search.best_params_["outcome__max_depth"] in (1, 2)
    rows = np.arange(30, 90)  # the first of three parts is held out
    model = ne.NashEval(**QUICK).set_params(outcome__max_depth=2).fit(log[rows])
    assert search.cv_results_["split0_test_score"][1] == model.score(log[:30])


def test_the_score_is_minus_the_squared_error_of_verdicts(fitted, monkeypatch):
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.5, 2, 60)
    said = [(("c",), ("a", "b")) if i % 4 else ne.partition.winner("c", ("a", "b", "c")) for i in range(60)]
    contexts = duels().contexts.slice(0, 60)
    log = ne.Feedback.from_partitions(contexts, said, agents=["c", "b", "a"], weight=weight)
    A, total, errors = fitted.payoff(contexts), 0.0, 0.0
    for i in range(60):  # the order of a and b behind a winner was not asked; of the others it is a tie
        told = {("c", "a"): 1.0, ("c", "b"): 1.0} | ({("a", "b"): 0.0} if i % 4 else {})
        for (one, other), z in told.items():
            j, k = fitted.agents_.index(one), fitted.agents_.index(other)
            total, errors = total + weight[i], errors + weight[i] * (z - A[i, j, k]) ** 2
    monkeypatch.setattr("nasheval.scoring.evaluate.chunk_of", lambda agents: 7)
    np.testing.assert_allclose(fitted.score(log), -errors / total)
    with pytest.raises(InputError, match="The model does not know 'd'"):
        fitted.score(ne.Feedback.from_partitions(contexts, [(("a",), ("d",))] * 60))


def test_the_leaderboard_is_what_its_docstring_says(fitted, monkeypatch):
    assert isinstance(fitted.leaderboard(), pd.DataFrame)
    for missing, kind in ((["pandas"], "polars"), (["pandas", "polars"], "pyarrow")):
        monkeypatch.setattr(
            "nasheval.scoring.leaderboard.find_spec", lambda name, gone=missing: name not in gone or None
        )
        table = fitted.leaderboard()
        assert type(table).__module__.startswith(kind)
        assert list(table["agent"])


def test_a_report_of_more_groups_than_it_shows_says_so():
    log = with_column(pa.array([f"g{i % 31}" for i in range(90)]))
    report = gather(ne.NashEval(**QUICK).fit(log).stage1_, by="odd")
    assert len(report.groups) == 31  # all contexts, and 30 of the 31 groups
    assert any("odd has 31 groups; the 30 with most contexts are shown" in note for note in report.notes)
    [found] = [text for text in report.findings if "By odd" in text]
    assert "30 largest groups" in found

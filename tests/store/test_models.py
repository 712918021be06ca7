"""A model that was saved and loaded, here or in a new process, answers bit for bit the same."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nasheval.errors import InputError, NashEvalError
from nasheval.estimator import NashEval, load
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import Entropy
from nasheval.nuisance.propensity import KnownModels
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.tuning import TunedTrees
from nasheval.payoff.aggregators import Cubic, Weighted
from nasheval.policy.learned import LearnedEquilibria

from .small import (
    BOTH,
    LEARNED,
    TREES,
    VOTERS,
    WORLD,
    answers,
    fitted,
    manifest,
    mixed_log,
    paper_log,
    refused,
    set_told,
)

COSTS = {"a0": 1.0, "a1": 2.0, "a2": 0.5, "a3": 1.5, "a4": 3.0}
PAPER = {
    "voters, corrected, inclusion": {"outcome": VOTERS, "second_stage": "corrected"},
    "voters, none, draws": {"outcome": VOTERS, "second_stage": "none", "selection": "one"},
    "trees, shared, inclusion": {"outcome": TREES, "second_stage": "shared"},
    "trees, per-pair, draws": {"outcome": TREES, "second_stage": "per-pair", "selection": "one"},
    "stack, corrected, draws": {"outcome": BOTH, "second_stage": "corrected", "selection": "one"},
    "voters, shared, winners, learned": {"outcome": VOTERS, "second_stage": "shared", "modality": "winner",
                                         "policy": LEARNED, "aggregator": Cubic(2.0)},
    "trees, none, costs": {"outcome": TREES, "second_stage": "none", "costs": COSTS, "cost_weight": 0.3,
                           "budget": SoftBudget(1.0, 0.1, 0.2, 0.3)},
    "trees, corrected, entropy, learned": {"outcome": TREES, "second_stage": "corrected", "policy": "learned",
                                           "regularizer": Entropy(0.1), "budget": 2.0, "costs": COSTS},
}  # fmt: skip


def paper_model(selection="inclusion", modality="pairwise", **options):
    return fitted(paper_log(selection, modality), **options)


@pytest.fixture(scope="module")
def models(monkeypatch_module):
    monkeypatch_module.setattr("nasheval.policy.learned._SEEN", 500)  # epochs enough for a network to be one
    monkeypatch_module.setattr("nasheval.policy.learned._CONTEXTS", 200)
    return {name: paper_model(**options) for name, options in PAPER.items()}


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def X():  # noqa: N802
    return WORLD.test_contexts(40)


@pytest.mark.parametrize("name", PAPER)
def test_a_loaded_model_answers_as_the_one_that_was_saved(models, X, name, tmp_path):
    models[name].save(tmp_path / "model")
    assert answers(load(tmp_path / "model"), X) == answers(models[name], X)


_ASK = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from small import answers
from nasheval.estimator import load
X = np.load(sys.argv[2])
for folder in sys.argv[3:]:
    print(answers(load(folder), X))
assert not {"torch", "lightgbm"} & set(sys.modules)
"""


@pytest.mark.slow
def test_a_new_process_gives_the_same_bits(models, X, tmp_path):
    folders = []
    for number, model in enumerate(models.values()):
        folders.append(tmp_path / f"model{number}")
        model.save(folders[-1])
    np.save(tmp_path / "X.npy", X)
    told = [sys.executable, "-W", "error", "-c", _ASK, Path(__file__).parent, tmp_path / "X.npy", *folders]
    found = subprocess.run([str(word) for word in told], capture_output=True, text=True, check=False, env=os.environ)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == [answers(model, X) for model in models.values()]


@pytest.mark.parametrize("policy", ["exact", LEARNED], ids=["exact", "learned"])
def test_contexts_of_every_kind_with_voters_and_weights_come_back(tmp_path, policy):
    log = mixed_log()
    model = fitted(log, outcome=VOTERS, policy=policy)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert answers(again, log.contexts) == answers(model, log.contexts)
    for by in ("language", "code"):
        assert again.leaderboard(by=by).equals(model.leaderboard(by=by))
        assert again.cycles(by=by) == model.cycles(by=by)
    known = again.diagnostics().to_dict(), model.diagnostics().to_dict()
    for told in known:  # the only thing that is lost: how well a model of the propensity fits
        told["nuisances"].pop("propensity")
        told.pop("warnings")
    assert known[0] == known[1]
    assert list(again.feature_names_in_) == ["size", "language", "code"]
    assert again.agents_ == ("a", "b", "c", "d")
    assert isinstance(again.policy_, LearnedEquilibria) == (policy is LEARNED)


def test_settings_come_back(models, tmp_path):
    for number, model in enumerate(models.values()):
        model.save(tmp_path / str(number))
        again = load(tmp_path / str(number))
        mine, theirs = model.get_params(), again.get_params()
        assert set(mine) == set(theirs)
        assert all(repr(mine[name]) == repr(theirs[name]) for name in mine)


def test_the_same_model_is_the_same_bytes_and_a_loaded_one_saves_as_it_was(models, tmp_path):
    for number, model in enumerate(models.values()):
        folders = [tmp_path / f"{number}-{copy}" for copy in "abc"]
        model.save(folders[0])
        model.save(folders[1])
        load(folders[0]).save(folders[2])
        held = [{file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders]
        assert held[0] == held[1] == held[2]


def test_the_manifest_tells_a_reader_what_this_is(tmp_path):
    log = mixed_log()
    model = fitted(log)
    model.save(tmp_path / "model")
    told = manifest(tmp_path / "model")
    assert told["format"] == "nasheval.model"
    assert told["agents"] == list("abcd")
    assert told["data"]["contexts"] == log.n_contexts
    assert told["data"]["records"] == log.n_records
    assert told["metrics"]["r2"] == model.diagnostics().nuisances.r2
    assert told["parameters"]["outcome"] == {"is": "TreeOutcome", "params": {"is": "mapping", "items": [
        ["num_iterations", 5], ["num_leaves", 4], ["min_data_in_leaf", 5]]}}  # fmt: skip


def test_names_of_voters_are_not_kept(tmp_path):
    fitted(mixed_log()).save(tmp_path / "model")
    assert not any(b"example.org" in file.read_bytes() for file in (tmp_path / "model").iterdir())
    log = load(tmp_path / "model").stage1_.log
    assert log.voters.to_pylist() == [str(number) for number in range(25)]


def test_propensities_are_known_at_the_records(tmp_path):
    model = fitted(mixed_log(), propensity="multinomial")
    model.save(tmp_path / "model")
    fit = load(tmp_path / "model").stage1_.nuisances
    assert isinstance(fit.propensity_models, KnownModels)
    np.testing.assert_array_equal(fit.e, model.stage1_.nuisances.e)


def test_weights_of_menus_come_back(tmp_path):
    log = paper_log(modality="winner")
    menus = [tuple(log.agents[a] for a in log.menus.members(m)) for m in range(len(log.menus))]
    given = Weighted({menu: 1.0 + number for number, menu in enumerate(menus)})
    model = fitted(log, aggregator=given, second_stage="none")
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.aggregator == given
    np.testing.assert_array_equal(again.stage1_.pseudo.estimand.correction, model.stage1_.pseudo.estimand.correction)


def test_searched_trees_and_intercepts_come_back(tmp_path, X):
    searched = fitted(paper_log(n=300), outcome=TunedTrees(TREES, how="trees"), second_stage="none")
    searched.save(tmp_path / "searched")
    again = load(tmp_path / "searched")
    assert again.stage1_.nuisances.outcome_models.tuned
    assert answers(again, X) == answers(searched, X)
    plain = fitted(paper_log(), outcome=Intercept(), second_stage="corrected")
    plain.save(tmp_path / "plain")
    assert answers(load(tmp_path / "plain"), X) == answers(plain, X)


@pytest.mark.parametrize(("outcome", "stage"), [(VOTERS, "corrected"), (TREES, "per-pair"), (TREES, "shared")], ids=str)
def test_a_log_without_context_columns_comes_back(tmp_path, outcome, stage):
    log = paper_log("one")
    bare = type(log).from_records(log.records, agents=log.agents, context_of=log.context_of, n_contexts=log.n_contexts)
    model = fitted(bare, outcome=outcome, second_stage=stage)
    model.save(tmp_path / "model")
    again, here = load(tmp_path / "model"), [{}] * 3
    assert again.leaderboard().equals(model.leaderboard())
    np.testing.assert_array_equal(again.predict_proba(here), model.predict_proba(here))
    np.testing.assert_array_equal(again.payoff(here), model.payoff(here))


# -- strengths of the correction --------------------------------------------------------------------------------------

STRENGTH = "stage1/payoff/strength"


@pytest.fixture
def corrected(tmp_path):
    """A saved model whose ten pairs have strengths of their own."""
    model = fitted(paper_log(n=300), outcome=Intercept(), second_stage="corrected", strength=1.0)
    assert model.stage1_.payoff.surface is not None
    chosen = {"per_pair": (0.0, 0.25, *[0.75] * 8), "pairs_gain": 0.1, "pairs_gain_error": 0.01}
    strength = replace(model.stage1_.payoff.strength, strength=0.4, chosen=True, **chosen)
    model.stage1_ = replace(model.stage1_, payoff=replace(model.stage1_.payoff, strength=strength))
    model.save(tmp_path / "model")
    return model, tmp_path / "model"


def test_strengths_of_pairs_come_back(corrected, X):
    model, folder = corrected
    again = load(folder)
    assert again.stage1_.payoff.strength == model.stage1_.payoff.strength
    features = again.stage1_.features(X)
    moved = again.stage1_.payoff.correction(features)
    np.testing.assert_array_equal(moved, model.stage1_.payoff.correction(features))
    assert not moved[:, 0].any()
    assert moved[:, 1:].any()


def test_a_model_saved_before_pairs_had_strengths_has_the_common_one(corrected, X):
    model, folder = corrected
    for name in ("per_pair", "pairs_gain", "pairs_gain_error"):
        set_told(f"{STRENGTH}/{name}", ...)(folder)
    again = load(folder).stage1_
    surface = model.stage1_.payoff.surface.predict(again.features(X))
    np.testing.assert_array_equal(again.payoff.correction(again.features(X)), 0.4 * surface)


@pytest.mark.parametrize(
    ("per_pair", "words"),
    [
        ({"is": "tuple", "items": [0.5] * 9}, "one number per pair"),
        ([0.5] * 10, "one number per pair"),
        (0.5, "one number per pair"),
        ({"is": "tuple", "items": [1.5] + [0.5] * 9}, "no share from 0 to 1"),
        ({"is": "tuple", "items": ["1"] + [0.5] * 9}, "no share from 0 to 1"),
        ({"is": "tuple", "items": [{"is": "float", "value": "nan"}] * 10}, "no share from 0 to 1"),
        ({"is": "tuple", "items": [0.0] * 10}, "surface"),
    ],
    ids=["too few", "a list", "a number", "above one", "text", "not a number", "all zero with a surface"],
)
def test_strengths_that_cannot_be_are_refused(corrected, per_pair, words):
    set_told(f"{STRENGTH}/per_pair", per_pair)(corrected[1])
    refused(corrected[1], words)


# -- what cannot be saved ---------------------------------------------------------------------------------------------


def _ridge():
    from sklearn.linear_model import Ridge

    return Ridge()


def _logistic():
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


def _known(X):
    return np.full((len(X), 10), 0.5)


def _baseline():
    from nasheval.policy.bradley_terry import BradleyTerry

    return BradleyTerry()


UNSAVABLE = {
    "a regressor": (lambda: {"outcome": _ridge()}, "outcome is a Ridge"),
    "a classifier": (lambda: {"propensity": _logistic()}, "propensity is a LogisticRegression"),
    "a payoff regressor": (
        lambda: {"boosting": _ridge(), "second_stage": "per-pair"}, "boosting is a Ridge"
    ),
    "a rule": (lambda: {"propensity": _known}, "propensity is the function _known"),
    "weights by a function": (lambda: {"aggregator": Weighted(lambda menu: 1.0)}, "aggregator.weights is the function"),
    "a baseline": (lambda: {"policy": _baseline()}, "policy is a BradleyTerry"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSAVABLE)
def test_what_has_no_safe_form_is_named(name, tmp_path):
    options, told = UNSAVABLE[name]
    model = fitted(paper_log(), **options())
    with pytest.raises(InputError, match=told) as caught:
        model.save(tmp_path / "model")
    assert "fit again" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_fitted_regressor_is_named_even_where_the_setting_is_not_told(tmp_path):
    model = fitted(paper_log(), outcome=_ridge()).set_params(outcome="voters")
    with pytest.raises(InputError, match="outcome model is a Ridge"):
        model.save(tmp_path / "model")
    model = fitted(paper_log(), boosting=_ridge(), second_stage="per-pair").set_params(boosting=None)
    with pytest.raises(InputError, match="its payoff model is made of scikit-learn regressors"):
        model.save(tmp_path / "model")


def test_a_lightgbm_model_of_an_unusual_kind_is_named(tmp_path):
    linear = fitted(paper_log(), outcome=type(TREES)(params={**TREES.params, "linear_tree": True}))
    with pytest.raises(InputError, match="linear trees"):
        linear.save(tmp_path / "model")


def test_a_setting_that_is_not_finite_is_named(tmp_path):
    model = fitted(paper_log()).set_params(cost_weight=float("nan"))
    with pytest.raises(InputError, match="cost_weight is nan"):
        model.save(tmp_path / "model")


def test_a_context_column_by_one_of_our_names_is_named(tmp_path):
    log = paper_log()
    table = log.contexts.append_column("_mu", pa.nulls(log.n_contexts, pa.float64()))
    log = type(log).from_records(log.records, agents=log.agents, contexts=table, context_of=log.context_of)
    with pytest.raises(InputError, match="'_mu'"):
        fitted(log).save(tmp_path / "model")


def test_an_unfitted_model_is_refused(tmp_path):
    with pytest.raises(NashEvalError, match="call fit first"):
        NashEval().save(tmp_path / "model")

"""The estimator: scikit-learn's conventions, every answer against the stage that gives it."""

from __future__ import annotations

import inspect
import json
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import estimator_checks
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.errors import InputError
from nasheval.feedback.groups import chosen_contexts
from nasheval.game.solver import solve
from nasheval.nuisance.learners import Features
from nasheval.nuisance.voters import Voters
from nasheval.payoff import on_card
from nasheval.payoff.surfaces import Boosting
from nasheval.policy.exact import ExactPolicy
from nasheval.policy.learned import LearnedPolicy
from nasheval.scoring.explain import nearest_contexts
from nasheval.scoring.report import gather

STUMPS = DecisionTreeRegressor(max_depth=2, min_samples_leaf=10)
QUICK = {"outcome": STUMPS, "folds": 2, "n_jobs": 1, "verbose": False}


def make_log(n=600):
    """Duels of three agents that go round: a beats b beats c beats a where code, plain order elsewhere."""
    rng = np.random.default_rng(0)
    contexts = pd.DataFrame({"language": rng.choice(["de", "en"], n), "length": rng.normal(size=n)})
    said = []
    for language in contexts["language"]:
        first, second = rng.permutation(["a", "b", "c"])[:2]
        better = {("a", "b"): "a", ("b", "c"): "b", ("a", "c"): "c" if language == "de" else "a"}
        winner = better[min(first, second), max(first, second)]
        loser = second if winner == first else first
        said.append(ne.partition.duel(first, second, winner if rng.random() < 0.95 else loser))
    return ne.Feedback.from_partitions(contexts, said), contexts


@pytest.fixture(scope="module")
def fitted():
    log, contexts = make_log()
    return ne.NashEval(**QUICK, second_stage="none", propensity="marginal").fit(log), contexts


# -- conventions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "check",
    [
        "check_no_attributes_set_in_init",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimator_cloneable",
        "check_estimator_repr",
    ],
)
def test_scikit_learns_checks(check):
    """Those that ask for an (X, y) of numbers do not apply, nor the one that allows no frozen object as a default."""
    getattr(estimator_checks, check)("NashEval", ne.NashEval())


def test_every_argument_is_a_parameter_and_is_kept():
    names = [name for name in inspect.signature(ne.NashEval.__init__).parameters if name != "self"]
    model = ne.NashEval()
    assert sorted(model.get_params(deep=False)) == sorted(names)
    for name in names:
        given = object()
        assert getattr(ne.NashEval(**{name: given}), name) is given
    assert model.set_params(folds=3).folds == 3


def test_a_clone_has_the_same_settings_and_is_not_fitted(fitted):
    model, contexts = fitted
    copy = clone(model)
    assert repr(copy) == repr(model)
    with pytest.raises(NotFittedError):
        copy.predict_proba(contexts)


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.predict([[1]]),
        lambda m: m.winners([[1]]),
        lambda m: m.payoff([[1]]),
        lambda m: m.leaderboard(),
        lambda m: m.payoff_interval(),
        lambda m: m.cycles(),
        lambda m: m.explain([[1]]),
        lambda m: m.diagnostics(),
    ],
)
def test_nothing_can_be_asked_before_fit(ask):
    with pytest.raises(NotFittedError):
        ask(ne.NashEval())


def test_repr_shows_what_was_changed():
    assert repr(ne.NashEval()) == "NashEval()"
    assert repr(ne.NashEval(folds=3, outcome="stack")) == "NashEval(folds=3, outcome='stack')"


def test_same_seed_same_lotteries():
    log, contexts = make_log(120)
    one, two = (ne.NashEval(**QUICK, random_state=3).fit(log).predict_proba(contexts) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_fit_takes_a_path_or_a_frame(tmp_path):
    votes = pd.DataFrame({"model_a": ["a", "b", "c"] * 20, "model_b": ["b", "c", "a"] * 20,
                          "winner": ["model_a", "model_b", "tie"] * 20})  # fmt: skip
    votes.to_csv(tmp_path / "votes.csv", index=False)
    for given in (votes, tmp_path / "votes.csv", str(tmp_path / "votes.csv")):
        assert ne.NashEval(**QUICK).fit(given).agents_ == ("a", "b", "c")


def test_a_log_without_context_columns():
    said = [ne.partition.duel(*pair, pair[0]) for pair in ("ab", "bc", "ca")] * 20
    log = ne.Feedback.from_partitions([{} for _ in said], said)
    model = ne.NashEval(**{**QUICK, "outcome": "voters"}).fit(log)
    np.testing.assert_allclose(model.predict_proba([{}, {}]), 1 / 3, atol=0.1)
    np.testing.assert_allclose(model.leaderboard()["lottery"], 1 / 3, atol=0.1)


def test_silence_and_progress(capsys):
    log, _ = make_log(60)
    ne.NashEval(**QUICK).fit(log)
    assert capsys.readouterr() == ("", "")


def test_a_saved_model_answers_on_a_card_where_there_is_one(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    torch_solver, asked = import_module("nasheval.game.torch_solver"), []
    log, contexts = make_log(200)
    outcome = Voters(voters=2, hidden=(4,), epochs=1, weight_decay=0.3, members=1)
    priced = {"costs": {"a": 1.0, "b": 2.0, "c": 3.0}, "propensity": "marginal", "second_stage": "none"}
    ne.NashEval(**{**QUICK, **priced, "outcome": outcome}).fit(log).save(tmp_path / "model")
    model = ne.load(tmp_path / "model")
    questions = (lambda: model.predict_proba(contexts), lambda: model.predict_proba(contexts, cost_weight=0.2))
    expected, game = [question() for question in questions], model.payoff(contexts)
    lotteries = torch_solver.lotteries
    monkeypatch.setattr(torch_solver, "lotteries", lambda A, *rest: asked.append(len(A)) or lotteries(A, *rest))
    for name, value in {"has_card": lambda: True, "CARD": "cpu", "LEAST": 1}.items():
        monkeypatch.setattr(on_card, name, value)
    for question, answer in zip(questions, expected, strict=True):
        assert question() == pytest.approx(answer, abs=1e-3)
    assert asked == [200, 200]
    assert model.payoff(contexts) == pytest.approx(game, abs=1e-6)


# -- answers ----------------------------------------------------------------------------------------------------------


def test_lotteries_solve_the_estimated_game(fitted):
    model, contexts = fitted
    expected = solve(model.payoff(contexts), regularizer=ne.L2(1e-3)).strategy
    np.testing.assert_allclose(model.predict_proba(contexts), expected, atol=1e-12)


def test_a_cycle_is_found_where_it_is(fitted):
    model, contexts = fitted
    de = contexts[contexts["language"] == "de"][:5]
    assert model.winners(de)[0] == ["a", "b", "c"]
    found = model.cycles(by="language")
    assert [cycle.agents for cycle in found["de"]] in ([("a", "b", "c")], [("b", "c", "a")], [("c", "a", "b")])
    assert found["en"] == ()


def test_predict_takes_the_most_probable_a_winner_by_utility_or_a_draw(fitted):
    model, contexts = fitted
    lotteries = model.predict_proba(contexts)
    assert model.predict(contexts) == [model.agents_[k] for k in lotteries.argmax(axis=1)]
    last = model.predict(contexts, utility=lambda agent, context: "abc".index(agent))
    assert last == [max(winners) for winners in model.winners(contexts)]
    assert model.predict(contexts, seed=1) == model.predict(contexts, seed=1) != model.predict(contexts, seed=2)


def test_agents_that_are_down_get_nothing(fitted):
    model, contexts = fitted
    lotteries = model.predict_proba(contexts[:20], agents=["a", "c"])
    assert (lotteries[:, 1] == 0).all()
    np.testing.assert_allclose(lotteries.sum(axis=1), 1)
    with pytest.raises(InputError, match="agents= names 'z'; the policy knows"):
        model.predict_proba(contexts, agents=["z"])


def test_budget_and_cost_weight_may_change_after_the_fit():
    log, contexts = make_log(120)
    model = ne.NashEval(**QUICK, costs={"a": 3.0, "b": 1.0, "c": 2.0}).fit(log)
    costs = np.array([3.0, 1.0, 2.0])
    assert (model.predict_proba(contexts, budget=1.5) @ costs <= 1.5 + 1e-9).all()
    np.testing.assert_allclose(model.predict_proba(contexts, cost_weight=50.0)[:, 1], 1, atol=1e-6)
    again = ne.NashEval(**QUICK, costs=model.costs, budget=1.5).fit(log).predict_proba(contexts)
    np.testing.assert_allclose(model.predict_proba(contexts, budget=1.5), again, atol=1e-9)


def test_a_group_is_named_by_values_a_mask_or_a_rule(fitted):
    model, contexts = fitted
    english = (contexts["language"] == "en").to_numpy()
    by_value = model.payoff_interval({"language": "en"})
    np.testing.assert_allclose(by_value.estimate, model.payoff_interval(english).estimate)
    np.testing.assert_allclose(
        by_value.estimate, model.payoff_interval(lambda t: t["language"].to_numpy() == "en").estimate
    )
    assert by_value.name == "language = en"
    assert chosen_contexts(model.stage1_.log, None) == (None, "all")
    with pytest.raises(InputError, match=r"group asks for 'lang', no context column: language, length\."):
        model.payoff_interval({"lang": "en"})
    with pytest.raises(InputError, match=r"No context of the log has \{'language': 'fr'\}\."):
        model.payoff_interval({"language": "fr"})
    with pytest.raises(InputError, match=r"group asks for 'language' = 1; that column holds .*string"):
        model.payoff_interval({"language": 1})
    with pytest.raises(InputError, match=r"group asks for 'length' = 'x'; that column holds double"):
        model.payoff_interval({"length": "x"})
    assert model.payoff_interval({}).name == "all"


def test_the_leaderboard_is_a_frame_of_groups_and_agents(fitted):
    model, _ = fitted
    board = model.leaderboard(by="language")
    columns = {"group", "agent", "lottery", "lower", "upper", "in_support", "rating", "votes"}
    assert columns <= set(board.columns)
    assert set(board["group"]) == {"de", "en"}
    for _, part in board.groupby("group"):
        assert part["lottery"].sum() == pytest.approx(1)
        assert (part["lower"] <= part["lottery"] + 1e-9).all()
        assert (part["lottery"] <= part["upper"] + 1e-9).all()
    best = board[(board["group"] == "en") & board["in_support"]]
    assert best["agent"].tolist() == ["a"]
    assert model.leaderboard()["group"].unique().tolist() == ["all"]
    assert board[board["group"] == "en"].sort_values("rating")["agent"].tolist() == ["c", "b", "a"]


def test_a_group_in_which_nobody_has_a_vote_is_left_out(tmp_path):
    """Each pair was asked with a probability, so a context that was asked nothing counts too."""
    log, contexts = make_log(240)
    silent = pd.DataFrame({"language": ["fr"] * 10, "length": np.linspace(-1, 1, 10)})
    said = [log.records.blocks(r) for r in range(log.n_records)]
    table = pd.concat([contexts, silent], ignore_index=True)
    asked = {"agents": ["a", "b", "c"], "context_of": np.arange(240), "design": "inclusion"}
    log = ne.Feedback.from_partitions(table, [[["abc"[a] for a in block] for block in one] for one in said], **asked)
    quick = {**QUICK, "outcome": "lightgbm", "propensity": "marginal"}
    model = ne.NashEval(**quick, second_stage="none").fit(log)
    assert model.stage1_.pseudo.used.all()
    assert set(model.leaderboard(by="language")["group"]) == set(model.cycles(by="language")) == {"de", "en"}
    report = gather(model.stage1_, by=["language"], draws=20)
    assert {view.name for view in report.groups} == {"all", "de", "en"}
    group = model.payoff_interval({"language": "fr"})
    assert (group.lower[0, 1], group.upper[0, 1]) == (-1, 1)
    assert "without a vote in this group: a, b, c" in str(group)
    with pytest.raises(InputError, match="Nobody has a vote in the group 'language = fr'"):
        group.equilibrium()
    model.save(tmp_path / "model")
    board = CliRunner().invoke(app, ["leaderboard", str(tmp_path / "model"), "--by", "language", "--format", "json"])
    assert {row["group"] for row in json.loads(board.stdout)} == {"de", "en"}
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(tmp_path / "model"), "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert page.exists()


def test_an_explanation_holds_the_game_the_neighbours_and_their_votes(fitted):
    model, contexts = fitted
    found, X = model.explain(contexts.iloc[[7]].to_dict("records")[0]), model.stage1_.features(contexts.iloc[[7]])
    np.testing.assert_allclose(found.lottery, model.predict_proba(contexts.iloc[[7]])[0])
    np.testing.assert_allclose(found.payoff, model.payoff(contexts.iloc[[7]])[0])
    assert found.contexts[0] == 7
    assert found.distance[0] == pytest.approx(0, abs=1e-6)
    assert {vote.context for vote in found.votes} <= set(nearest_contexts(model.stage1_.nuisances.X, X, 50)[0])
    assert sorted(found.votes, key=lambda vote: -vote.weight) == list(found.votes)
    assert list(found.shown) == ["language", "length"]
    assert 0 < sum(vote.weight for vote in found.votes) <= 1 + 1e-9
    assert found.to_dict()["votes"][0]["said"] in {f"{x} > {y}" for x in "abc" for y in "abc" if x != y}
    assert "The votes that weigh most" in str(found)
    with pytest.raises(InputError, match="2 contexts were given; give one"):
        model.explain(contexts[:2])


def test_of_contexts_equally_near_the_first_rows_count():
    """Whatever the processor: which of equal numbers a partial sort keeps depends on it."""
    table = np.repeat([[0.0], [1.0]], [70, 60], axis=0)[np.random.default_rng(0).permutation(130)]
    logged, here = Features(table, table), Features(np.ones((1, 1)), np.ones((1, 1)))
    rows, distance = nearest_contexts(logged, here, 5)
    assert rows.tolist() == np.flatnonzero(table == 1)[:5].tolist()
    assert not distance.any()


def test_evaluation_uses_the_stage_1_of_a_fitted_model_again(monkeypatch):
    train, test = make_log(300)[0].split(0.5, seed=0)
    model, fits = ne.NashEval(**QUICK).fit(train), []
    module = import_module("nasheval.scoring.evaluate")
    fit_stage1 = module.fit_stage1
    monkeypatch.setattr(module, "fit_stage1", lambda log, **more: fits.append(log) or fit_stage1(log, **more))
    policies = {"ours": model, "bt": ne.baselines.BradleyTerry()}
    found = ne.evaluate(policies, test, train=train, outcome=STUMPS, folds=2, verbose=False)
    assert len(fits) == 1
    assert fits[0] is test
    assert found.value.shape == (2, 2)


@pytest.mark.parametrize("tune", [False, "fast"])
def test_any_regressor_may_learn_the_payoffs(tune):
    """A search is for boosting; a regressor that was given stays."""
    log, contexts = make_log()
    stage = {"second_stage": "per-pair", "boosting": STUMPS, "propensity": "marginal", "tune": tune}
    model = ne.NashEval(**QUICK, **stage).fit(log)
    assert {type(one) for one in model.stage1_.payoff.surface.models.models[0]} == {DecisionTreeRegressor}
    german = (contexts["language"] == "de").to_numpy()
    a_against_c = model.payoff(contexts)[:, 0, 2]
    assert a_against_c[german].mean() < -0.6
    assert a_against_c[~german].mean() > 0.6


def test_the_strength_of_the_correction_can_be_given(tmp_path):
    log, contexts = make_log(300)
    quick = {**QUICK, "outcome": "lightgbm", "propensity": "marginal"}
    whole, none = (ne.NashEval(**quick, strength=strength).fit(log) for strength in (1.0, 0.0))
    assert set(whole.stage1_.payoff.strength.per_pair) == {1.0}
    plug_in = whole.stage1_.plug_in.predict(whole.stage1_.features(contexts))
    assert not np.allclose(whole.payoff(contexts), plug_in)
    np.testing.assert_array_equal(none.payoff(contexts), plug_in)
    whole.save(tmp_path / "model")
    again = ne.load(tmp_path / "model")
    assert again.strength == 1.0
    np.testing.assert_allclose(again.payoff(contexts), whole.payoff(contexts))


# -- the paper's ------------------------------------------------------------------------------------------------------


def test_the_printed_algorithm_has_the_papers_settings():
    model = ne.NashEval.paper()
    expected = {"num_iterations": 100, "num_leaves": 15, "learning_rate": 0.1, "min_data_in_leaf": 50, "max_depth": 7}
    assert dict(model.outcome.params) == dict(model.propensity.params) == expected
    assert (model.boosting.trees, model.boosting.leaves, model.boosting.rate, model.boosting.least) == (
        300,
        7,
        0.05,
        100,
    )
    assert (model.second_stage, model.folds, model.regularizer) == ("shared", 5, ne.L2(1e-3))
    assert isinstance(model.policy, LearnedPolicy)
    assert (model.policy.output, model.policy.tune) == ("softmax", None)
    assert ne.NashEval.paper(costs={"a": 1.0}, cost_weight=0.5).policy.cost_weight == 0.5
    changed = ne.NashEval.paper(regularizer=ne.Entropy(0.1), tune="fast")
    assert changed.policy.regularizer == changed.regularizer == ne.Entropy(0.1)
    assert changed.policy.tune == changed.tune == "fast"
    assert ne.NashEval.paper(rho=0.5).policy.regularizer == ne.L2(0.5)
    default = ne.NashEval.paper(policy=None, regularizer=None, boosting=None)
    assert isinstance(default.policy, LearnedPolicy)
    assert (default.regularizer, default.boosting) == (ne.L2(1e-3), Boosting())


@pytest.mark.parametrize("design", ["inclusion", "one"])
def test_the_printed_algorithm_runs_under_both_designs(design):
    log = ne.SyntheticWorld(seed=70).feedback("pairwise", voters=3, n=150, selection=design)
    policy = LearnedPolicy.paper(tune=None, epochs=2, hidden=(8, 8))
    model = ne.NashEval.paper(policy=policy, folds=2, boosting=Boosting(trees=5), n_jobs=1, verbose=False).fit(log)
    assert model.predict_proba(log.contexts).shape == (150, 5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outcome": "trees"}, "outcome is 'trees'; accepted are"),
        ({"propensity": "none"}, "propensity is 'none'; accepted are"),
        ({"second_stage": "two"}, "second_stage is 'two'; accepted are"),
        ({"strength": 2.0}, "strength is 2.0; accepted is a number from 0 to 1"),
        ({"second_stage": "shared", "strength": 1.0}, "only second_stage='corrected' has one"),
        ({"policy": "nash"}, "policy is 'nash'; accepted are 'exact', 'learned'"),
        ({"device": "tpu"}, "device is 'tpu'; accepted are 'auto', 'cpu' and 'cuda'"),
        ({"engine": "spark"}, "engine is 'spark'; accepted are 'local' and 'ray'"),
        ({"folds": 1}, "folds"),
        (
            {"cost_weight": -1.0, "costs": {"a": 1, "b": 2, "c": 3}},
            "cost_weight is a finite number at least 0; -1.0 was given",
        ),
        ({"budget": 2.0}, "budget"),
    ],
)
def test_malformed_settings_are_named(settings, message):
    log, _ = make_log(40)
    with pytest.raises(InputError, match=message):
        ne.NashEval(**{**QUICK, **settings}).fit(log)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"policy": "nash"}, "policy is 'nash'; accepted are 'exact', 'learned'"),
        ({"policy": None}, "policy is None; accepted are 'exact', 'learned'"),
        ({"budget": 2.0}, "Cost weights and budgets need costs; none were given"),
        ({"policy": "learned", "cost_weight": 2.0}, "Cost weights and budgets need costs; none were given"),
        ({"policy": LearnedPolicy(budget=2.0)}, "Cost weights and budgets need costs; none were given"),
        ({"costs": {"a": 1, "b": 2, "c": 3, "d": 4}}, "costs names 'd', no agent"),
        ({"costs": {"a": 1, "b": 2, "c": "price"}}, "column 'price' holds what 'c' costs"),
        ({"availability": "region"}, "availability='region' is no context column"),
        ({"regularizer": "l2"}, "regularizer is 'l2'; accepted are"),
        ({"policy": ExactPolicy(regularizer="l2")}, "regularizer is 'l2'; accepted are"),
        ({"random_state": -1}, "random_state is -1; accepted is a whole number of 0 or more"),
        ({"random_state": None}, "random_state is None; accepted is a whole number of 0 or more"),
    ],
)
def test_settings_of_stage_2_are_checked_before_stage_1(monkeypatch, settings, message):
    monkeypatch.setattr("nasheval.estimator.fit_stage1", lambda *log, **more: pytest.fail("Stage 1 was begun"))
    with pytest.raises(InputError, match=message):
        ne.NashEval(**{**QUICK, **settings}).fit(make_log(40)[0])

"""`model.update` and `nasheval update`: new agents, new votes, everything that can be asked afterwards."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.nuisance.extended import ExtendedModels
from nasheval.nuisance.stack import Stack
from nasheval.nuisance.trees import TreeOutcome
from nasheval.nuisance.voters import Voters
from nasheval.payoff.bridging import STATUS_NAMES
from nasheval.payoff.surfaces import Boosting
from nasheval.policy.learned import LearnedPolicy

VOTERS = Voters(voters=2, hidden=(8,), epochs=3, weight_decay=0.3, members=1)
TREES = TreeOutcome(params={"num_iterations": 5, "num_leaves": 4, "min_data_in_leaf": 5})
OUTCOMES = {"voters": VOTERS, "trees": TREES, "stack": Stack((VOTERS, TREES)), "ridge": Ridge()}
HOW = {"boosting": Boosting(trees=8, leaves=4, rate=0.2, least=10), "folds": 2, "n_jobs": 1, "verbose": False}
STRENGTH = dict(zip("abcdnm", (0.6, 0.0, -0.4, 0.3, 1.2, -1.0), strict=True))
AT = pa.table({"x": [-1.0, 0.0, 1.0], "language": ["en", "fi", "en"]})


def votes(pairs, seed=0, *, voter=None, language=None, always=False, **columns):
    """Duels with Bradley-Terry strengths, n being better where x is large."""
    rng = np.random.default_rng(seed)
    n = len(pairs)
    x = rng.normal(size=n)
    spoken = rng.choice(["en", "fi"], n) if language is None else [language] * n
    said = []
    for (j, k), at in zip(pairs, x, strict=True):
        gap = STRENGTH[j] - STRENGTH[k] + at * ((j == "n") - (k == "n"))
        said.append(ne.partition.duel(j, k, j if always or rng.random() < 1 / (1 + np.exp(-gap)) else k))
    table = pa.table({"x": x, "language": spoken})
    return ne.Feedback.from_partitions(table, said, design="draws", voter=voter, **columns)


def pairs_of(n, seed=0, agents="abcd"):
    rng = np.random.default_rng(seed + 100)
    return [tuple(rng.choice(list(agents), 2, replace=False)) for _ in range(n)]


def against(n, newcomer="n", agents="abcd"):
    return [(newcomer, agents[i % len(agents)]) for i in range(n)]


OLD = votes(pairs_of(240))
NEW = votes(against(80), 1)


def fitted(log=OLD, outcome=VOTERS, **options):
    return ne.NashEval(outcome=outcome, **{**HOW, **options}).fit(log)


@pytest.fixture(scope="module")
def models():
    return {name: fitted(outcome=outcome) for name, outcome in OUTCOMES.items()}


@pytest.fixture(scope="module")
def newer(models):
    return {name: model.update(NEW) for name, model in models.items()}


def sound(model, contexts=AT):
    """Hold what every fitted model must hold, and ask everything once."""
    A, K = model.payoff(contexts), len(model.agents_)
    assert A.shape == (contexts.num_rows, K, K)
    assert np.isfinite(A).all()
    np.testing.assert_allclose(A, -A.transpose(0, 2, 1), atol=1e-12)
    assert np.abs(A).max() <= 1
    np.testing.assert_allclose(model.predict_proba(contexts).sum(axis=1), 1)
    group = model.payoff_interval()
    assert (group.lower <= group.upper).all()
    assert set(model.leaderboard()["agent"]) <= set(model.agents_)
    assert len(model.leaderboard(by="language"))
    model.cycles()
    assert str(model.decision())
    model.diagnostics().to_dict()
    assert model.explain({"x": 0.0, "language": "en"}).to_dict()["lottery"]
    row = {"x": 0.0, "language": "fi"}
    np.testing.assert_array_equal(model.router()(row), model.predict_proba([row])[0])
    return model


# -- what an update is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_newcomer_is_placed_and_nothing_else_moves(models, newer, name):
    before, after = models[name], sound(newer[name])
    assert after.agents_ == ("a", "b", "c", "d", "n")
    assert before.agents_ == ("a", "b", "c", "d")
    np.testing.assert_allclose(after.payoff(AT)[:, :4, :4], before.payoff(AT), atol=1e-6)
    assert (after.payoff(AT)[:, 4, 2] > 0.1).all()  # c is the weakest
    assert after.update_.newcomers == {"n": 80}
    assert after.stage1_.log.n_records == 320
    assert after.stage1_.last_fit.records == 240
    assert after.leaderboard()["votes"].sum() == 2 * 320


@pytest.mark.parametrize("name", [name for name in OUTCOMES if name != "ridge"])  # which cannot be saved
def test_saved_loaded_and_updated_again(models, newer, name, tmp_path):
    newer[name].save(tmp_path / "newer")
    again = ne.load(tmp_path / "newer")
    np.testing.assert_array_equal(again.payoff(AT), newer[name].payoff(AT))
    assert again.leaderboard().equals(newer[name].leaderboard())
    assert again.stage1_.fitted == newer[name].stage1_.fitted
    models[name].save(tmp_path / "old")
    late = ne.load(tmp_path / "old").update(NEW)
    np.testing.assert_allclose(late.payoff(AT), newer[name].payoff(AT), atol=1e-6)
    more = votes(against(40, "m"), 2)
    np.testing.assert_allclose(again.update(more).payoff(AT), newer[name].update(more).payoff(AT), atol=1e-6)
    late.save(tmp_path / "late")
    np.testing.assert_array_equal(ne.load(tmp_path / "late").payoff(AT), late.payoff(AT))


@pytest.mark.parametrize("name", OUTCOMES)
def test_parts_one_after_the_other_are_as_all_at_once(models, newer, name):
    more = votes(against(30, "n") + against(30, "m"), 3)
    once = models[name].update(ne.Feedback.concat([NEW, more]))
    twice = newer[name].update(more)
    assert once.agents_ == twice.agents_ == ("a", "b", "c", "d", "n", "m")
    np.testing.assert_allclose(once.payoff(AT), twice.payoff(AT), atol=1e-5)
    np.testing.assert_allclose(once.payoff_interval().lower, twice.payoff_interval().lower, atol=1e-5)


def test_the_same_seed_gives_the_same_model(models):
    first, second = (models["voters"].update(NEW) for _ in range(2))
    np.testing.assert_array_equal(first.payoff(AT), second.payoff(AT))


@pytest.mark.parametrize("stage", ["shared", "per-pair", "none"])
def test_every_second_stage_keeps_its_pairs_and_takes_the_newcomers(stage, tmp_path):
    model = fitted(outcome=TREES, second_stage=stage)
    after = sound(model.update(NEW))
    np.testing.assert_allclose(after.payoff(AT)[:, :4, :4], model.payoff(AT), atol=1e-9)
    assert np.abs(after.payoff(AT)[:, 4, :4]).min() > 0
    after.save(tmp_path / "m")
    np.testing.assert_array_equal(ne.load(tmp_path / "m").payoff(AT), after.payoff(AT))


# -- awkward newcomers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["voters", "trees"])
@pytest.mark.parametrize(
    ("log", "status"),
    [
        (votes([("n", "a")] * 60, 4), ["seen", "bridged", "bridged", "bridged"]),
        (votes(against(60), 5, always=True), ["seen"] * 4),
        (votes(against(60), 6, language="fi"), ["seen"] * 4),
        (votes([("n", "m")] * 40, 7), ["unknown"] * 4),
        (votes([("n", "a")], 8), ["seen", "bridged", "bridged", "bridged"]),
    ],
    ids=["star", "unanimous", "one language", "only each other", "one vote"],
)
def test_awkward_newcomers(models, name, log, status):
    after = sound(models[name].update(log))
    assert [STATUS_NAMES[code] for code in after.stage1_.status[4, :4]] == status
    group = after.payoff_interval()
    unknown = np.array(status) == "unknown"
    assert (group.lower[4, :4][unknown] == -1).all()
    assert (group.upper[4, :4][unknown] == 1).all()
    if log.n_records == 1:
        assert (group.upper[4, :4] - group.lower[4, :4] == 2).all()


def test_two_agents_and_a_third():
    model = fitted(votes(pairs_of(120, agents="ab")))
    assert sound(model.update(votes(against(60, agents="ab"), 9))).agents_ == ("a", "b", "n")


def test_rankings_with_a_newcomer(models):
    rng = np.random.default_rng(10)
    said = [ne.partition.ranking(["n", *rng.permutation(list("abcd"))[:3].tolist()]) for _ in range(60)]
    contexts = pa.table({"x": rng.normal(size=60), "language": rng.choice(["en", "fi"], 60)})
    log = ne.Feedback.from_partitions(contexts, said)
    for name in ("voters", "trees", "stack"):
        assert (sound(models[name].update(log)).payoff(AT)[:, 4, :4] > 0.2).all()


def test_voters_who_are_known_stay_in_their_folds_and_keep_their_names():
    old = votes(pairs_of(240), voter=[f"v{i % 40}" for i in range(240)])
    after = fitted(old).update(votes(against(80), 1, voter=[f"v{i % 60}" for i in range(80)]))
    log, fold = after.stage1_.log, after.stage1_.nuisances.fold
    assert len(log.voters) == 60
    assert all(len(set(fold[log.sole_voters == v].tolist())) == 1 for v in range(60))
    sound(after).payoff_interval(voters="population")


def test_voters_of_a_loaded_model_are_others_than_those_who_came_later(tmp_path):
    old = votes(pairs_of(240), voter=[f"v{i % 40}" for i in range(240)])
    fitted(old).save(tmp_path / "m")
    more = votes(against(80), 1, voter=[str(i % 40) for i in range(80)])  # called as the numbers of those before
    after = ne.load(tmp_path / "m").update(more)
    assert len(after.stage1_.log.voters) == 80
    assert len(after.update(votes(against(8), 2, voter=["3"] * 8)).stage1_.log.voters) == 80
    assert any("voters" in note for note in after.update_.notes)


def test_texts_that_were_not_kept_stay_tags(tmp_path):
    def vectors(texts):
        return np.array([[len(text), text.count("e"), 1.0] for text in texts], np.float32)

    def log(pairs, seed, word):
        plain = votes(pairs, seed)
        prompts = pa.array([f"{word} {'e' * (i % 9)}" for i in range(len(pairs))])
        said = [ne.partition.duel(*pair, pair[i % 2]) for i, pair in enumerate(pairs)]
        table = plain.contexts.append_column("prompt", prompts)
        return ne.Feedback.from_partitions(table, said, text="prompt", design="draws")

    model = fitted(log(pairs_of(120), 0, "old"), outcome=TREES, text_encoder=vectors)
    model.save(tmp_path / "m")
    more = log(against(60), 1, "secret")
    after = ne.load(tmp_path / "m", text_encoder=vectors).update(more)
    kept = after.stage1_.log.contexts["prompt"].to_pylist()
    assert all(text.startswith("text ") for text in kept)
    at = AT.append_column("prompt", pa.array(["old ee", "secret eee", "neither"]))
    np.testing.assert_allclose(after.payoff(at), model.update(more).payoff(at), atol=1e-6)
    after.save(tmp_path / "n")
    again = ne.load(tmp_path / "n", text_encoder=vectors)
    np.testing.assert_array_equal(again.payoff(at), after.payoff(at))
    assert b"secret" not in (tmp_path / "n" / "evidence.parquet").read_bytes()


def test_known_propensities_carry_over():
    old = votes(pairs_of(240), propensity=[1 / 6] * 240)
    model = fitted(old, propensity="known")
    after = sound(model.update(votes(against(80), 1, propensity=[1 / 4] * 80)))
    np.testing.assert_allclose(after.stage1_.nuisances.e, [1 / 6 * 0.75] * 240 + [1 / 4 * 0.25] * 80)
    with pytest.raises(ne.InputError, match="propensity of every vote"):
        model.update(NEW)


def test_newcomers_need_costs_where_all_have_them_and_a_learned_policy_is_trained_anew():
    model = fitted(costs=dict.fromkeys("abcd", 1.0), cost_weight=0.1)
    with pytest.raises(ne.InputError, match="n"):
        model.update(NEW)
    assert sound(model.update(NEW, costs=dict.fromkeys("abcdn", 1.0))).costs["n"] == 1.0
    assert "n" not in model.costs
    network = fitted(policy=LearnedPolicy(hidden=(8,), waves=4, epochs=1, augment=0))
    assert sound(network.update(NEW)).predict_proba(AT).shape == (3, 5)


def test_candidates_by_column_are_those_of_all_votes():
    after = fitted(availability="language").update(votes(against(60), 1, language="fi"))
    lottery = after.predict_proba(AT)
    assert (lottery[[0, 2], 4] == 0).all()
    assert lottery[1, 4] > 0


def test_payoffs_at_equal_style_are_updated_too():
    def with_place(log, seed):
        shown = np.random.default_rng(seed).permuted(np.tile([0, 1], (log.n_records, 1)), axis=1).ravel()
        return replace(log, records=log.records.replace(shown=shown.astype(np.int8)))

    after = fitted(with_place(OLD, 0), adjust="position").update(with_place(NEW, 1))
    assert sound(after).stage1_.estimand == "at equal position"
    assert after.as_voted().agents_ == after.agents_
    assert after.adjustment() is not None


def test_agents_that_were_never_compared_before_are_now(models):
    model = fitted(votes([("a", "b"), ("b", "c"), ("c", "d")] * 60), outcome=TREES)
    assert STATUS_NAMES[model.stage1_.status[0, 3]] == "bridged"
    after = sound(model.update(votes([("a", "d")] * 60, 11)))
    assert STATUS_NAMES[after.stage1_.status[0, 3]] == "seen"
    assert after.update_.newcomers == {}
    assert isinstance(after.stage1_.nuisances.outcome_models, ExtendedModels)


def test_what_is_no_log_of_such_votes_is_refused(models):
    with pytest.raises(ne.InputError, match="no context column 'language'"):
        models["trees"].update(ne.Feedback.from_partitions(AT.select(["x"]), [ne.partition.duel("a", "b", "a")] * 3))
    with pytest.raises(ne.InputError, match="not fitted"):
        ne.NashEval().update(NEW)


# -- the command ------------------------------------------------------------------------------------------------------


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture
def folder(tmp_path, models):
    models["trees"].save(tmp_path / "model")
    for name, log in (("new", NEW), ("both", ne.Feedback.concat([NEW, votes(against(9, "m"), 2)]))):
        j, k = np.array(log.agents)[log.records.agent].reshape(-1, 2).T
        winner = np.where(log.verdicts.z > 0, "model_a", "model_b")
        pq.write_table(
            pa.table({"model_a": j, "model_b": k, "winner": winner, **{c: log.contexts[c] for c in AT.column_names}}),
            tmp_path / f"{name}.parquet",
        )
    return tmp_path


def test_the_command_says_what_is_new_and_where_it_stands(folder):
    result = run("update", folder / "model", folder / "both.parquet", "-o", folder / "newer", "--min-votes", 20)
    assert result.exit_code == 0, result.output
    assert "80 new votes; new agents: n (80 votes)" in result.stdout
    assert "Left out, too few votes: m (9)" in result.stdout
    assert "n: place 1 of 5" in result.stdout
    assert "full refit is due" in result.stdout
    assert ne.load(folder / "newer").agents_ == ("a", "b", "c", "d", "n")


def test_the_command_for_machines(folder):
    words = ("update", folder / "model", folder / "new.parquet", "-o", folder / "newer", "--format", "json")
    told = json.loads(run(*words).stdout)
    assert told["newcomers"] == {"n": 80}
    assert [change["name"] for change in told["changes"]][-1] == "votes since"
    [row] = told["standings"]
    assert row["payoff_lower"] <= row["payoff_estimate"] <= row["payoff_upper"]
    again = run(*words)
    assert again.exit_code == 1
    assert "already" in str(again.exception)


def test_the_command_refuses_the_votes_of_the_model(folder):
    model = ne.NashEval(outcome=TREES, **HOW).fit(
        ne.read_votes(folder / "new.parquet", context=list(AT.column_names), text=None)
    )
    model.save(folder / "own")
    result = run("update", folder / "own", folder / "new.parquet", "-o", folder / "out")
    assert result.exit_code == 1
    assert "was fitted on" in str(result.exception)
    assert not (folder / "out").exists()


def test_votes_without_voters_and_names_that_differ_by_case_are_told():
    model = fitted(votes(pairs_of(240), voter=[f"v{i % 30}" for i in range(240)]), outcome=Ridge())
    nameless = model.update(votes(pairs_of(40, 1), 1)).update_
    assert any("each counts as a voter of its own" in note for note in nameless.notes)
    named = model.update(votes(pairs_of(40, 1), 1, voter=["v1"] * 40)).update_
    assert not any("voter of its own" in note for note in named.notes)
    slip = ne.Feedback.from_partitions(
        AT, [ne.partition.duel("A", "b", "b")] * 3, design="draws", voter=["v1", "v2", "v3"]
    )
    assert any("'A' is new, and differs from 'a' only by case" in note for note in model.update(slip).update_.notes)

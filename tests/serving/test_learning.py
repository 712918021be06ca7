"""Learning again from a store: the log is what was voted, the gate is sequential, and the loop closes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.errors import InputError
from nasheval.serving.exporting import votes_of
from nasheval.serving.learning import gate, log_of, refit, saved
from nasheval.serving.versions import Versions

from .small import AGENTS, COSTS, fitted, votes


def run(*words, status=0):
    done = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "160", "NO_COLOR": "1"})
    assert done.exit_code == status, (done.output, done.exception)
    return done.stdout


def contexts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [{"size": float(rng.normal()), "language": str(rng.choice(["en", "de"]))} for _ in range(count)]


def truth(context):
    """Return what each agent is worth: the first is best in English, the last in German."""
    sign = 1 if context["language"] == "en" else -1
    return {agent: -1.2 * sign * place for place, agent in enumerate(AGENTS)}


def vote(client, count, seed=0, **more):
    """Have a crowd vote on proposed menus of two."""
    rng = np.random.default_rng(seed)
    for number, context in enumerate(contexts(count, seed)):
        body = {"context": context, **more}
        proposed = client.post("/v1/compare", json=body).json()
        first, second = proposed["menu"]
        worth = truth(context)
        wins = rng.random() < 1 / (1 + np.exp(worth[second] - worth[first]))
        said = {"decision_id": proposed["decision_id"], "winner": first if wins else second, "voter": f"v{number % 40}"}
        assert client.post("/v1/feedback", json=said).status_code == 201


def exploitability(client, count=60):
    """Return the mean true exploitability of what is served."""
    total = 0.0
    for context in contexts(count, 99):
        shares = client.post("/v1/route", json={"context": context}).json()["lottery"]
        worth = np.array([truth(context)[agent] for agent in AGENTS])
        payoff = np.tanh((worth[:, None] - worth[None, :]) / 2)
        total += float((payoff @ np.array([shares[agent] for agent in AGENTS])).max())
    return total / count


@pytest.fixture
def collected(served, tmp_path):
    client = served()
    vote(client, 120)
    service = client.app.state.service
    return client, service, Versions(service.engine, tmp_path / "models")


def test_a_log_of_votes_has_their_propensities_contexts_and_voters(collected, model):
    _, service, _ = collected
    log, note = log_of(votes_of(service.engine), ne.load(model), "auto")
    assert (log.n_records, log.n_contexts, log.design) == (120, 120, "draws")
    assert log.contexts.column_names == ["size", "language"]
    assert log.contexts["size"].to_pylist() == [one["size"] for one in contexts(120)]
    assert len(log.voters) == 40
    # each menu's propensity is that of the exploration distribution of the model that served
    decider, starts = service.decider, log.records.offsets
    for record in range(5):
        context = {name: log.contexts[name][record].as_py() for name in ("size", "language")}
        asked = frozenset(log.agents[agent] for agent in log.records.agent[starts[record] : starts[record + 1]])
        drawn = (decider.menu(context, decider.answer(context), 2) for _ in range(300))
        chances = {frozenset(menu): propensity for menu, propensity in drawn}
        assert log.records.propensity[record] == pytest.approx(chances[asked])
    assert note == "all menus were proposed by the service, with known propensities"


def test_votes_on_menus_of_the_callers_own_are_left_out_or_propensities_estimated(collected, model):
    client, service, _ = collected
    for _ in range(10):
        client.post("/v1/feedback", json={"menu": ["a", "b"], "winner": "a", "context": contexts(1)[0]})
    everything = votes_of(service.engine)
    log, note = log_of(everything, ne.load(model), "auto")
    assert (log.n_records, log.records.propensity is None) == (120, False)
    assert "10 votes on menus of the caller's own are left out" in note
    log, note = log_of(everything, ne.load(model), "all")
    assert (log.n_records, log.records.propensity) == (130, None)
    assert "estimated" in note


def test_an_update_adds_the_votes_since_to_what_the_model_that_serves_has_learned(collected, model, tmp_path):
    *_, versions = collected
    base = ne.load(model)
    made = refit(versions, update=True)
    assert made.model.stage1_.log.n_records == base.stage1_.log.n_records + 120
    assert set(made.model.agents_) == set(base.agents_)
    new = saved(versions, made, tmp_path / "updated")
    assert new.votes_until == made.until
    versions.serve(new.name, "for a test")
    with pytest.raises(InputError, match="There are no votes in this store yet"):
        refit(versions, update=True)


def test_an_update_on_the_command_line_says_what_is_new(collected, tmp_path):
    store, models = f"sqlite:///{tmp_path}/votes.db", ["--models", tmp_path / "models"]
    said = " ".join(run("refit", store, "-o", tmp_path / "new", "--update", *models).split())
    assert "was updated with 120 votes" in said
    assert "full refit" in said


def test_a_skip_teaches_nothing(collected, model):
    client, service, _ = collected
    proposed = client.post("/v1/compare", json={}).json()
    client.post("/v1/feedback", json={"decision_id": proposed["decision_id"], "zero": "skip"})
    everything = votes_of(service.engine)
    assert len(everything) == 121
    assert log_of(everything, ne.load(model), "auto")[0].n_records == 120


@pytest.mark.usefixtures("collected")
def test_an_export_is_a_log_that_fit_reads(tmp_path):
    path = tmp_path / "votes.parquet"
    run("export", f"sqlite:///{tmp_path}/votes.db", "--parquet", path, "--quiet")
    assert pq.read_table(path).num_rows == 120
    log = ne.read(path)
    assert (log.n_records, log.design, log.contexts.column_names) == (120, "draws", ["size", "language"])
    assert log.records.propensity is not None
    said = json.loads(run("check", path, "--format", "json"))
    assert said["read"]["used"] == 120
    run("fit", path, "--outcome", "lightgbm", "--folds", 2, "--holdout", 0, "-o", tmp_path / "m", "--quiet")
    assert ne.load(tmp_path / "m").agents_ == AGENTS


def test_prompts_that_were_not_kept_are_learned_from_by_their_vectors(served, text_model, tmp_path):
    client = served(model=str(text_model))
    vote(client, 80, prompt="write a poem")
    service = client.app.state.service
    versions = Versions(service.engine, tmp_path / "models")
    made = refit(versions)
    version = saved(versions, made, tmp_path / "new")
    service.versions.serve(version.name, "test")
    encoder = made.model.stage1_.encoder.text_encoder
    [tag] = set(made.model.stage1_.log.contexts["prompt"].to_pylist())
    assert tag != "write a poem"
    assert np.array_equal(encoder.encode([tag]), service.decider.encoder.text_encoder.encode(["write a poem"]))
    path = tmp_path / "votes.parquet"
    run("export", f"sqlite:///{tmp_path}/votes.db", "--parquet", path, "--quiet")
    assert ne.read(path).contexts.column_names == ["size", "language", "prompt_vector"]


def test_what_cannot_be_learned_from_is_told(served, tmp_path):
    client = served()
    versions = client.app.state.service.versions
    with pytest.raises(InputError, match="There are no votes in this store yet"):
        refit(versions)
    for _ in range(30):
        client.post("/v1/feedback", json={"menu": ["a", "b"], "winner": "a", "context": contexts(1)[0]})
    with pytest.raises(InputError, match="c, d had no vote yet, and would be lost"):
        refit(versions, use="all")
    with pytest.raises(InputError, match="holdout is 2"):
        refit(versions, holdout=2)
    with pytest.raises(InputError, match="No other version has served before"):
        versions.previous()


def test_a_version_that_is_better_is_promoted_and_back_again(served, tmp_path):
    """The first model was fitted on votes of a world upside down."""
    upside = votes(300, agents=AGENTS[::-1])
    fitted(upside, costs=COSTS).save(tmp_path / "first")
    client = served(model=str(tmp_path / "first"))
    vote(client, 600, seed=1)
    store, models = f"sqlite:///{tmp_path}/votes.db", ["--models", tmp_path / "models"]
    said = json.loads(run("refit", store, "-o", tmp_path / "new", "--holdout", 0.5, "--format", "json", *models))
    assert said["votes"] == 300
    versions = client.app.state.service.versions
    old = versions.current()
    found, _ = gate(versions, versions[said["version"]])
    assert found.votes == 300
    assert found.decision == "promote"
    told = json.loads(run("promote", "--store", store, "--planned", 300, "--format", "json", *models))
    assert (told["version"], told["decision"], told["serves"]) == (said["version"], "promote", True)
    assert versions.current() == said["version"]
    assert f"promote {old}: back" in " ".join(run("promote", "--store", store, "--back", *models).split())
    assert versions.current() == old
    assert [name for name, _, _ in versions.history()] == [old, said["version"], old]


def test_a_version_that_is_no_better_waits(served, other, tmp_path):
    client = served()
    vote(client, 60)
    client.app.state.service.versions.add(other)
    before = client.app.state.service.versions.current()
    store, models = f"sqlite:///{tmp_path}/votes.db", ["--models", tmp_path / "models"]
    run("promote", "--store", store, *models, status=11)
    assert client.app.state.service.versions.current() == before


def test_the_loop_ends_below_half_of_the_first_exploitability(served, tmp_path):
    upside = votes(200, agents=AGENTS[::-1])
    fitted(upside, costs=COSTS).save(tmp_path / "first")
    client = served(model=str(tmp_path / "first"))
    first = exploitability(client)
    versions = client.app.state.service.versions
    for place in range(2):
        vote(client, 250, seed=10 + place)
        version = saved(versions, refit(versions), tmp_path / f"round{place}")
        client.app.state.service.versions.serve(version.name, "test")
        client.app.state.service._look()
        assert client.app.state.service.decider.version == version.name
    assert exploitability(client) < first / 2


def test_keys_on_the_command_line(tmp_path):
    file = tmp_path / "keys.toml"
    key = run("keys", "new", "--file", file, "--scope", "route,vote").strip()
    assert key.startswith("ne_")
    assert run("keys", "list", "--file", file).split()[:2] == ["key-1", "route,vote"]
    run("keys", "revoke", "key-1", "--file", file)
    assert json.loads(run("keys", "list", "--file", file, "--format", "json")) == []


def test_serving_on_the_command_line_tells_what_is_missing(tmp_path, model):
    for words, said in (
        (["serve", model, "--host", "0.0.0.0"], "can be reached from other machines"),
        (["serve", model, "--keys", tmp_path / "none.toml"], "There is no file"),
        (["refit", tmp_path / "none.db", "-o", tmp_path / "m"], "there is no store here"),
        (["promote"], "Give OLD, NEW and VOTES, or the store"),
        (["promote", "old", "--store", "votes.db"], "name the version with --to"),
        (["export", "votes.db"], "Say what to write"),
    ):
        done = CliRunner().invoke(app, [*map(str, words)])
        assert isinstance(done.exception, InputError)
        assert said in str(done.exception)

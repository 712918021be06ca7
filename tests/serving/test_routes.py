"""Decide, compare, vote: what each route answers, on both stores."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sqlalchemy import select

from nasheval.estimator import load
from nasheval.feedback.partition import Partition, Zero, best_worst, duel, ranking, scores, top, winner
from nasheval.serving.database import open_store
from nasheval.serving.exporting import votes_of
from nasheval.serving.schema import DECISIONS, VOTES
from nasheval.serving.tokens import opened

from .small import COSTS, HERE, until


def rows(client, table=VOTES):
    service = client.app.state.service
    with service.engine.connect() as connection:
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def compared(client, **body):
    answer = client.post("/v1/compare", json={"context": HERE, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def voted(client, **body):
    return client.post("/v1/feedback", json=body)


def refused(answer, status, code, argument):
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    error = answer.json()["error"]
    assert (error["code"], error["argument"]) == (code, argument), error
    return error["message"]


def test_route_answers_as_the_model_does(client, model):
    fitted = load(model)
    for context in (HERE, {"language": "de"}, {}):
        said = client.post("/v1/route", json={"context": context}).json()
        whole = {"size": None, "language": None, **context}
        [lottery] = fitted.predict_proba([whole])
        assert said["lottery"] == dict(zip(fitted.agents_, lottery.tolist(), strict=True))
        assert said["winners"] == fitted.winners([whole])[0]
        assert said["propensity"] == said["lottery"][said["agent"]] > 0
        assert said["expected_cost"] == pytest.approx(sum(COSTS[name] * p for name, p in said["lottery"].items()))


def test_budget_weight_and_agents_change_the_lottery_as_in_the_model(client, model):
    fitted = load(model)
    whole = [HERE]
    for body, options in (
        ({"budget": 1.5}, {"budget": 1.5}),
        ({"cost_weight": 0.7}, {"cost_weight": 0.7}),
        ({"agents": ["b", "d"]}, {"agents": ["b", "d"]}),
    ):
        said = client.post("/v1/route", json={"context": HERE, **body}).json()
        [lottery] = fitted.predict_proba(whole, **options)
        named = dict(zip(fitted.agents_, lottery.tolist(), strict=True))
        assert said["lottery"] == pytest.approx({name: named[name] for name in body.get("agents", fitted.agents_)})


def test_agents_are_drawn_from_the_lottery(client):
    body = {"context": {"language": "en", "size": 0.0}, "cost_weight": 0.55}
    first = client.post("/v1/route", json=body).json()["lottery"]
    service = client.app.state.service
    context = service.decider.context(body["context"], None)
    answer = service.decider.answer(context, cost_weight=0.55)
    drawn = np.bincount([service.decider.draw(answer.lottery) for _ in range(4000)], minlength=4) / 4000
    assert np.allclose(drawn, list(first.values()), atol=0.04)
    assert [service.decider.draw(np.array([0.25, 0.0, 0.75, 0.0]), share) for share in (0, 0.24, 0.26, 0.999)] == [
        0,
        0,
        2,
        2,
    ]


@pytest.mark.parametrize(
    ("body", "code", "argument"),
    [
        ({"context": {"lang": "en"}}, "unknown_column", "context.lang"),
        ({"context": {"size": "much"}}, "invalid", "context"),
        ({"agents": ["e"]}, "unknown_agent", "agents"),
        ({"agents": []}, "invalid", "agents"),
        ({"budget": 0.5}, "invalid", "budget"),
        ({"budget": -1}, "invalid", "budget"),
        ({"prompt": "hello"}, "invalid", "prompt"),
        ({"prommt": "hello"}, "unknown_field", "prommt"),
        ({"default": "e"}, "unknown_agent", "default"),
        ({"context": {"size": 1e300}}, "invalid", None),
        ({"session": "\0"}, "invalid", None),
    ],
)
def test_what_cannot_be_used_is_named(client, body, code, argument):
    answer = client.post("/v1/route", json=body)
    found = answer.json()["error"]["argument"]
    refused(answer, 422, code, argument if argument else found)


def test_a_decision_is_kept_with_its_propensity(client):
    said = client.post("/v1/route", json={"context": HERE, "budget": 2.0}).json()
    client.app.state.service.writer.close()
    [row] = rows(client, DECISIONS)
    assert said["decision_id"].startswith(row["id"] + ".")
    assert (row["kind"], json.loads(row["menu"]), row["propensity"]) == ("route", [said["agent"]], said["propensity"])
    assert json.loads(row["lottery"]) == said["lottery"]
    assert json.loads(row["terms"]) == {"budget": 2.0}
    assert json.loads(row["context"]) == HERE


def test_votes_in_every_form_become_the_partitions_of_the_package(client):
    menu = ["c", "a", "b"]
    forms = [
        ({"blocks": [["a"], ["b", "c"]]}, Partition((("a",), ("b", "c")))),
        ({"blocks": [["a"], ["b", "c"]], "zero": "last"}, Partition((("a",), ("b", "c")), Zero.LAST)),
        ({"winner": "b"}, winner("b", menu)),
        ({"ranking": ["b", "a", "c"]}, ranking(["b", "a", "c"])),
        ({"top": ["b", "a"]}, top(["b", "a"], menu)),
        ({"best": "a", "worst": "c"}, best_worst("a", "c", menu)),
        ({"scores": {"a": 1, "b": 2.5, "c": 1}}, scores({"a": 1, "b": 2.5, "c": 1})),
        ({"zero": "tie"}, Partition((tuple(menu),))),
    ]
    for body, _ in forms:
        assert voted(client, menu=menu, context=HERE, **body).status_code == 201
    said = [(json.loads(row["blocks"]), row["zero"]) for row in rows(client)]
    wanted = [([list(block) for block in one.blocks], one.zero.name.lower()) for _, one in forms]
    assert [([*map(sorted, blocks)], zero) for blocks, zero in said] == [([*map(sorted, b)], z) for b, z in wanted]
    assert all(row["propensity"] is None for row in rows(client))


def test_votes_on_a_proposed_menu_of_two(client):
    for body, wanted in (
        (lambda menu: {"winner": menu[1]}, lambda menu: duel(*menu, menu[1])),
        (lambda menu: {"winner": "both_bad"}, lambda menu: duel(*menu, "both_bad")),
        (lambda menu: {"blocks": [[menu[0]], [menu[1]]]}, lambda menu: duel(*menu, menu[0])),
        (lambda menu: {"zero": "tie"}, lambda menu: duel(*menu, "tie")),
        (lambda menu: {"zero": "skip"}, lambda menu: None),
    ):
        proposed = compared(client)
        answer = voted(client, decision_id=proposed["decision_id"], voter="v", **body(proposed["menu"]))
        assert answer.status_code == 201
        row = rows(client)[-1]
        partition = wanted(proposed["menu"])
        assert row["propensity"] == proposed["propensity"]
        assert json.loads(row["menu"]) == proposed["menu"]
        assert row["zero"] == ("skip" if partition is None else partition.zero.name.lower())
        assert partition is None or json.loads(row["blocks"]) == [list(block) for block in partition.blocks]


def test_the_same_key_stores_one_vote(client):
    menu = compared(client)
    body = {"decision_id": menu["decision_id"], "winner": menu["menu"][0], "key": "a key, as given"}
    first, second = voted(client, **body), voted(client, **body)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == {"id": first.json()["id"], "duplicate": False}
    assert second.json() == {"id": first.json()["id"], "duplicate": True}
    assert [row["key"] for row in rows(client)] == ["a key, as given"]
    refused(voted(client, **{**body, "winner": menu["menu"][1]}), 409, "key_used", "key")


@pytest.mark.parametrize(
    ("body", "code", "argument"),
    [
        ({"winner": "a"}, "invalid", "menu"),
        ({"menu": ["a", "e"], "winner": "a"}, "unknown_agent", "menu"),
        ({"menu": ["a"], "winner": "a"}, "invalid", "menu"),
        ({"menu": ["a", "a"], "winner": "a"}, "invalid", "menu"),
        ({"menu": ["a", "b"]}, "invalid", "zero"),
        ({"menu": ["a", "b"], "winner": "c"}, "invalid", "winner"),
        ({"menu": ["a", "b"], "winner": "a", "ranking": ["a", "b"]}, "invalid", "ranking"),
        ({"menu": ["a", "b"], "winner": "a", "zero": "tie"}, "invalid", "zero"),
        ({"menu": ["a", "b"], "zero": "censored"}, "invalid", "zero"),
        ({"menu": ["a", "b", "c"], "blocks": [["a"], ["b"]]}, "invalid", "blocks"),
        ({"menu": ["a", "b"], "blocks": []}, "invalid", "blocks"),
        ({"menu": ["a", "b", "c"], "best": "a"}, "invalid", "best"),
        ({"menu": ["a", "b", "c"], "worst": "a"}, "invalid", "worst"),
        ({"decision_id": "x.y.z", "winner": "a"}, "unknown_decision", "decision_id"),
    ],
)
def test_votes_that_cannot_be_used_are_named_and_not_stored(client, body, code, argument):
    refused(voted(client, **body), 422, code, argument)
    assert rows(client) == []


def test_a_forged_decision_is_refused(client):
    proposed = compared(client)
    name, payload, signature = proposed["decision_id"].split(".")
    other = compared(client, context={"language": "de"})["decision_id"].split(".")[1]
    for forged in (f"{name}.{other}.{signature}", f"{name}.{payload}.{'A' * 22}", f"{name}.{payload}."):
        refused(voted(client, decision_id=forged, winner="a"), 422, "unknown_decision", "decision_id")
    service = client.app.state.service
    assert opened(proposed["decision_id"], service.secret).menu == tuple(proposed["menu"])
    assert opened(proposed["decision_id"], b"another secret") is None


def test_a_vote_on_a_routed_decision_takes_its_context(client):
    said = client.post("/v1/route", json={"context": HERE}).json()
    assert voted(client, decision_id=said["decision_id"], menu=["a", "b"], winner="a").status_code == 201
    votes = votes_of(client.app.state.service.engine)
    assert votes.table["language"].to_pylist() == ["en"]
    wrong = voted(client, decision_id=said["decision_id"], menu=["a", "b"], winner="a", context={"language": "de"})
    refused(wrong, 422, "other_context", "context")


def test_a_decision_that_was_lost_takes_its_context_once_more(client, monkeypatch):
    import nasheval.serving.endpoints as endpoints

    monkeypatch.setattr(endpoints, "_LOOKS", 2)
    service = client.app.state.service
    monkeypatch.setattr(service.writer, "keep", lambda row: None)  # as if the worker died before it was written
    said = client.post("/v1/route", json={"context": HERE}).json()
    body = {"decision_id": said["decision_id"], "menu": ["a", "b"], "winner": "a"}
    refused(voted(client, **body), 409, "decision_lost", "decision_id")
    assert voted(client, **body, context=HERE).status_code == 201
    assert votes_of(service.engine).table["language"].to_pylist() == ["en"]


@pytest.mark.parametrize("kind", ["route", "compare"])
def test_a_decision_that_was_deleted_takes_its_context_once_more(served, text_model, kind, monkeypatch):
    import nasheval.serving.endpoints as endpoints

    monkeypatch.setattr(endpoints, "_LOOKS", 2)
    client = served(model=str(text_model))
    asked = {"context": {"language": "en"}, "prompt": "a secret"}
    made = client.post(f"/v1/{kind}", json=asked).json()
    until(lambda: client.post("/v1/forget", json={"prompt": "a secret"}).json()["decisions"] == 1)
    body = {"decision_id": made["decision_id"], "winner": made.get("menu", ["a"])[0]}
    body |= {} if kind == "compare" else {"menu": ["a", "b"]}
    refused(voted(client, **body), 409, "decision_lost", "decision_id")
    assert rows(client) == []
    assert voted(client, **body, **asked).status_code == 201


def test_nul_is_refused_and_six_characters_that_spell_it_are_not(served, text_model):
    client = served(model=str(text_model))
    kind = {"content-type": "application/json"}
    spelt = rb'{"prompt": "In JavaScript, what is \\u0000?"}'
    assert client.post("/v1/route", content=spelt, headers=kind).status_code == 200
    for body in (rb'{"prompt": "\u0000"}', rb'{"context": {"language": "\u0000"}}', rb'{"context": {"\u0000": 1}}'):
        answer = client.post("/v1/route", content=body, headers=kind)
        assert answer.status_code == 422
        assert "NUL" in answer.json()["error"]["message"]


@pytest.mark.parametrize("value", [1e40, -1e31, 10**31, {"a": 1}, [1, "x"]])
def test_a_value_that_no_column_takes_is_named(client, value):
    answer = client.post("/v1/route", json={"context": {"size": value}})
    error = answer.json()["error"]
    assert (answer.status_code, error["argument"]) == (422, "context.size")
    assert "a number from -1e+30 to 1e+30" in error["message"]


@pytest.mark.parametrize("value", ["xx", 5, True, 1.5])
def test_a_category_without_votes_is_declined_whatever_its_kind(client, value):
    said = client.post("/v1/route", json={"context": {"language": value}, "default": "a"}).json()
    assert (said["declined"], said["agent"]) == (True, "a")


def test_one_agent_is_no_menu(client):
    refused(client.post("/v1/compare", json={"agents": ["b"]}), 422, "invalid", "agents")


def test_every_store_keeps_the_same(served, store):
    client = served(store=store)
    proposed = compared(client, size=3)
    body = {"decision_id": proposed["decision_id"], "ranking": proposed["menu"], "voter": "ünï", "key": "k"}
    assert voted(client, **body).json()["duplicate"] is False
    assert voted(client, **body).json()["duplicate"] is True
    assert client.post("/v1/route", json={"context": HERE, "session": "s"}).status_code == 200
    client.app.state.service.writer.close()
    engine = open_store(store)
    votes = votes_of(engine)
    engine.dispose()
    assert votes.table["vote.propensity"].to_pylist() == [proposed["propensity"]]
    assert votes.table["vote.blocks"].to_pylist() == [[[name] for name in proposed["menu"]]]
    assert votes.table["vote.voter"].to_pylist() == ["ünï"]
    assert votes.table["vote.key"].to_pylist() == ["k"]
    assert (votes.table["language"].to_pylist(), votes.until) == (["en"], 1)
    assert {row["kind"] for row in rows(client, DECISIONS)} == {"route", "compare"}


# -- sessions, and being unsure ---------------------------------------------------------------------------------------


def route(client, **body):
    answer = client.post("/v1/route", json={"cost_weight": 0.55, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_session_keeps_its_agent_and_propensity(client):
    mixed = {"language": "en", "size": 0.0}
    for session in map(str, range(30)):
        first = route(client, context=mixed, session=session)
        for context in (mixed, {"language": "de"}):
            again = route(client, context=context, session=session)
            assert (again["agent"], again["propensity"]) == (first["agent"], first["propensity"])
        assert "stays with its session" in again["reason"]


def test_a_session_is_drawn_anew_where_its_agent_may_not_be_chosen(client):
    first = route(client, context=HERE, session="s")
    others = [name for name in "abcd" if name != first["agent"]]
    second = route(client, context=HERE, session="s", agents=others)
    assert second["agent"] in others
    assert second["propensity"] == second["lottery"][second["agent"]]
    assert route(client, context=HERE, session="s")["agent"] == second["agent"]
    dear = route(client, context=HERE, session="t", agents=["d"])
    cheap = route(client, context=HERE, session="t", budget=1.2)
    assert (dear["agent"], dear["propensity"]) == ("d", 1.0)
    assert COSTS[cheap["agent"]] <= 4.0
    assert cheap["propensity"] == cheap["lottery"][cheap["agent"]]


def test_sessions_are_drawn_from_the_lottery_and_not_foretold(client):
    drawn = [route(client, context=HERE, session=f"s{i}") for i in range(60)]
    lottery = drawn[0]["lottery"]
    counts = {name: sum(one["agent"] == name for one in drawn) / 60 for name in lottery}
    assert all(abs(counts[name] - share) < 0.25 for name, share in lottery.items())


def test_a_session_of_a_store_that_is_gone_is_answered_and_says_so(client, tmp_path):
    first = route(client, context=HERE, session="s")
    (tmp_path / "votes.db").rename(tmp_path / "elsewhere.db")
    said = route(client, context=HERE, session="new")
    assert "the session could not be kept" in said["reason"]
    (tmp_path / "elsewhere.db").rename(tmp_path / "votes.db")
    assert first["agent"] in "abcd"


def test_it_declines_where_it_is_unsure_only_if_asked(served):
    client = served()
    strange = {"context": {"language": "pl", "size": 0.0}}
    assert route(client, **strange)["declined"] is False
    said = route(client, **strange, default="b")
    assert (said["agent"], said["declined"], said["propensity"]) == ("b", True, 1.0)
    assert said["reason"] == "b by default: no vote, or few, had language = pl"
    assert route(client, context={"language": "en", "size": 1e6}, default="b")["declined"] is True
    assert route(client, context=HERE, default="b")["declined"] is False
    whole = served(default="b")
    assert route(whole, **strange)["agent"] == "b"
    assert route(whole, **strange, agents=["a", "c"])["declined"] is False  # the request does not allow it
    said = route(client, context=HERE, agents=["a", "d"], default="b", cost_weight=0.0)
    assert "never compared with another candidate" in said["reason"]


# -- prompts ----------------------------------------------------------------------------------------------------------


def test_prompts_are_not_stored_unless_asked(served, text_model, tmp_path):
    secret = "the diagnosis of my neighbour"
    client = served(model=str(text_model))
    body = {"context": HERE, "prompt": secret}
    proposed = client.post("/v1/compare", json=body).json()
    voted(client, decision_id=proposed["decision_id"], winner=proposed["menu"][0])
    voted(client, menu=["a", "b"], winner="a", **body)
    client.post("/v1/route", json=body)
    client.app.state.service.writer.close()
    [row] = [row for row in rows(client, DECISIONS) if row["kind"] == "compare"]
    vector = client.app.state.service.decider.encoder.text_encoder.encode([secret])[0]
    assert np.array_equal(np.frombuffer(row["vector"], "<f4"), vector)
    assert row["prompt"] is None
    assert all(secret.encode() not in file.read_bytes() for file in tmp_path.glob("votes.db*") if file.is_file())


def test_prompts_are_stored_where_asked(served, text_model):
    client = served(model=str(text_model), keep_prompts=True)
    client.post("/v1/compare", json={"context": HERE, "prompt": "why"})
    assert json.loads(rows(client, DECISIONS)[0]["prompt"]) == {"prompt": "why"}


# -- deleting ---------------------------------------------------------------------------------------------------------


def test_what_is_asked_to_be_forgotten_is_deleted(served, text_model):
    client = served(model=str(text_model))
    for voter, key, prompt in (("v", "k1", "one"), ("v", "k2", "two"), ("w", "k3", "three"), ("x", "k4", "four")):
        proposed = compared(client, prompt=prompt)
        voted(client, decision_id=proposed["decision_id"], winner=proposed["menu"][0], voter=voter, key=key)
    client.post("/v1/route", json={"context": HERE, "session": "s"})
    client.post("/v1/route", json={"context": HERE, "session": "s"})
    voted(client, menu=["a", "b"], winner="a", prompt="three")

    def forget(**body):
        return client.post("/v1/forget", json=body).json()

    assert forget(voter="v") == {"votes": 2, "decisions": 2, "sessions": 0}
    assert forget(key="k4") == {"votes": 1, "decisions": 1, "sessions": 0}
    assert forget(prompt="three") == {"votes": 2, "decisions": 1, "sessions": 0}
    client.app.state.service.writer.close()
    assert forget(session="s") == {"votes": 0, "decisions": 2, "sessions": 1}
    assert (rows(client), rows(client, DECISIONS)) == ([], [])
    refused(client.post("/v1/forget", json={}), 422, "invalid", "key")

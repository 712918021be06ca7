"""Real clients, `openai` and `litellm`, against local upstreams through the whole service."""

from __future__ import annotations

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from nasheval.serving.app import create_app
from nasheval.serving.demo import CannedUpstream
from nasheval.serving.settings import Settings

from .worlds import AGENTS, EVIL, model_folder, served, toml

openai = pytest.importorskip("openai", reason="openai is not installed (extra 'dev')")
HELLO = [{"role": "user", "content": "hello there"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Look something up.",
            "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
        },
    }
]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    with served(CannedUpstream("terse", key="sk-terse")) as one, served(CannedUpstream("chatty")) as two:
        upstreams = {
            "terse": f'url = "{one}/v1"\nkey = "TERSE_KEY"',
            "chatty": f"{two}/v1",
            EVIL: "http://127.0.0.1:9/v1",
        }
        policies = "\n[policies.cheap]\ncost_weight = 2.0\n"
        settings = Settings(
            model=str(model_folder()),
            store=str(folder / "votes.db"),
            upstreams=str(toml(folder / "upstreams.toml", upstreams, policies)),
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TERSE_KEY", "sk-terse")
            with served(create_app(settings)) as address:
                yield address, folder


@pytest.fixture
def client(service):
    with openai.OpenAI(base_url=f"{service[0]}/v1", api_key="none", max_retries=0) as client:
        yield client


def decisions(service):
    with sqlite3.connect(service[1] / "votes.db") as connection:
        found = connection.execute(
            "select menu, propensity, terms, reason from decisions where kind = 'route'"
        ).fetchall()
    connection.close()
    return found


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["nasheval", "cheap", "terse", "chatty", EVIL]


def test_openai_plain(client, service):
    answer = client.chat.completions.with_raw_response.create(model="nasheval", messages=HELLO)
    found = answer.parse()
    assert found.model == answer.headers["x-nasheval-agent"]
    assert found.model in AGENTS
    assert "hello there" in found.choices[0].message.content
    assert found.usage.total_tokens > 0
    token = answer.headers["x-nasheval-decision"]
    vote = {"decision_id": token, "menu": ["terse", "chatty"], "winner": found.model, "key": "of-the-plain-test"}
    stored = httpx.post(f"{service[0]}/v1/feedback", json=vote)
    assert stored.status_code == 201, stored.text


def test_openai_streams(client):
    chunks = list(client.chat.completions.create(model="chatty", messages=HELLO, stream=True))
    assert {chunk.model for chunk in chunks} == {"chatty"}
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == CannedUpstream("chatty").text("hello there")
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_openai_tools(client):
    answer = client.chat.completions.create(model="terse", messages=HELLO, tools=TOOLS)
    [call] = answer.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("look_up", {"what": "hello there"})
    assert answer.choices[0].finish_reason == "tool_calls"
    chunks = client.chat.completions.create(model="terse", messages=HELLO, tools=TOOLS, stream=True)
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert "".join(call.function.arguments for call in deltas) == '{"what": "hello there"}'


def test_openai_reads_errors(client):
    with pytest.raises(openai.NotFoundError) as lost:
        client.chat.completions.create(model="gpt-9", messages=HELLO)
    assert (lost.value.code, lost.value.param, lost.value.type) == ("model_not_found", "model", "invalid_request_error")
    with pytest.raises(openai.InternalServerError) as down:
        client.chat.completions.create(model=EVIL, messages=HELLO)
    assert down.value.body["failures"][0]["fault"] == "down"
    with pytest.raises(openai.UnprocessableEntityError) as odd:
        client.chat.completions.create(
            model="nasheval", messages=HELLO, extra_body={"nasheval": {"context": {"colour": "red"}}}
        )
    assert odd.value.param == "context.colour"


def test_openai_gives_context_policy_and_session(client, service):
    german = {"nasheval": {"context": {"language": "de", "length": 0.5}}}
    before = len(decisions(service))
    found = {
        client.chat.completions.create(model="nasheval", messages=HELLO, extra_body=german).model for _ in range(8)
    }
    assert found == {"terse"}  # beats all in German
    assert client.chat.completions.create(model="cheap", messages=HELLO).model == "terse"  # the cheapest
    same = {
        client.chat.completions.create(
            model="nasheval",
            messages=HELLO,
            extra_headers={"x-nasheval-session": "s1", "x-nasheval-agents": "terse,chatty"},
        ).model
        for _ in range(8)
    }
    assert len(same) == 1
    for _ in range(100):  # decisions are stored soon, not at once
        if len(rows := decisions(service)) >= before + 17:
            break
        time.sleep(0.05)
    assert all(json.loads(menu)[0] in AGENTS and 0 < propensity <= 1 for menu, propensity, *_ in rows)


def test_a_failure_is_logged_with_the_decision(client, service):
    for _ in range(30):
        answer = client.chat.completions.with_raw_response.create(model="nasheval", messages=HELLO)
        if "x-nasheval-failed" in answer.headers:
            break
    assert answer.headers["x-nasheval-failed"] == "%3Cimg%20src%3Dx%20onerror%3Dwindow.hacked%3D1%3E"
    for _ in range(100):
        failed = [(terms, reason) for _, _, terms, reason in decisions(service) if "failed" in json.loads(terms)]
        if failed:
            break
        time.sleep(0.05)
    assert json.loads(failed[0][0])["failed"] == [EVIL]
    assert "failed; the propensity is given that" in failed[0][1]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the warnings are of litellm and pydantic
def test_litellm(service):
    litellm = pytest.importorskip("litellm", reason="litellm is not installed (extra 'dev')")
    how = {"model": "openai/chatty", "messages": HELLO, "api_base": f"{service[0]}/v1", "api_key": "none"}
    plain = litellm.completion(**how)
    assert plain.choices[0].message.content == CannedUpstream("chatty").text("hello there")
    text = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**how, stream=True))
    assert text == plain.choices[0].message.content
    [call] = litellm.completion(**how, tools=TOOLS).choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"what": "hello there"}
    drawn = litellm.completion(**{**how, "model": "openai/nasheval"})
    assert drawn.choices[0].message.content


def test_answers_are_anonymous_until_the_vote(service):
    address = service[0]
    asked = {"prompt": "hello there", "answers": True, "agents": ["terse", "chatty"], "context": {"language": "en"}}
    orders = set()
    for place in range(12):
        answer = httpx.post(f"{address}/v1/compare", json=asked)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert set(found) == {"decision_id", "answers", "model_version"}
        assert [one["label"] for one in found["answers"]] == ["A", "B"]
        said = answer.text + str(answer.headers)
        assert "terse" not in said
        assert "chatty" not in said
        texts = [one["text"] for one in found["answers"]]
        first = "terse" if texts[0].startswith("In short") else "chatty"
        orders.add(first)
        vote = {"decision_id": found["decision_id"], "winner": "A", "voter": "v", "key": f"anonymous-{place}"}
        stored = httpx.post(f"{address}/v1/feedback", json=vote).json()
        assert stored["agents"]["A"] == first
        assert httpx.post(f"{address}/v1/feedback", json=vote).json() == {**stored, "duplicate": True}
        with sqlite3.connect(service[1] / "votes.db") as connection:
            [(menu, blocks, propensity)] = connection.execute(
                "select menu, blocks, propensity from votes where id = ?", (stored["id"],)
            ).fetchall()
        connection.close()
        assert json.loads(menu)[0] == first  # the order as shown is kept
        assert json.loads(blocks)[0] == [first]
        assert 0 < propensity <= 1
    assert orders == {"terse", "chatty"}  # the order is drawn: one alone has a chance of 1 in 2,048


@pytest.mark.parametrize(
    ("vote", "stored"),
    [
        ({"zero": "tie"}, ("tie", 1)), ({"zero": "both_bad"}, ("both_bad", 1)), ({"zero": "skip"}, ("skip", 0)),
        ({"blocks": [["B"], ["A"]]}, ("tie", 2)), ({"winner": "tie"}, ("tie", 1)),
        ({"scores": {"A": 1, "B": 3}}, ("tie", 2)), ({"best": "A", "worst": "B"}, ("tie", 2)),
    ],
)  # fmt: skip
def test_every_form_of_vote_on_letters(service, vote, stored):
    asked = {"prompt": "hello", "answers": True, "agents": ["terse", "chatty"]}
    token = httpx.post(f"{service[0]}/v1/compare", json=asked).json()["decision_id"]
    answer = httpx.post(f"{service[0]}/v1/feedback", json={"decision_id": token, **vote})
    assert answer.status_code == 201, answer.text
    with sqlite3.connect(service[1] / "votes.db") as connection:
        [(zero, blocks)] = connection.execute(
            "select zero, blocks from votes where id = ?", (answer.json()["id"],)
        ).fetchall()
    connection.close()
    assert (zero, len(json.loads(blocks or "[]"))) == stored


@pytest.mark.parametrize(
    ("asked", "status", "argument"),
    [
        ({"answers": True}, 422, "prompt"), ({"answers": True, "prompt": " "}, 422, "prompt"),
        ({"answers": True, "prompt": "x", "size": 4}, 422, "size"),
        ({"answers": True, "prompt": "x", "agents": ["nobody"]}, 422, "agents"),
        ({"answers": True, "prompt": "x", "agents": ["terse", EVIL]}, 502, None),
    ],
)  # fmt: skip
def test_answers_that_cannot_be_had(service, asked, status, argument):
    answer = httpx.post(f"{service[0]}/v1/compare", json=asked)
    assert (answer.status_code, answer.json()["error"]["argument"]) == (status, argument)
    if status == 502:
        assert "terse" not in answer.text


REFUSED = (
    {"winner": "terse"}, {"winner": "nobody"}, {"winner": "a"}, {"blocks": [["A"]]}, {"blocks": [["A"], ["B", "B"]]},
    {"ranking": ["A"]}, {"ranking": ["A", "C"]}, {"top": ["A", "A"]}, {"top": ["C"]}, {"best": "A", "worst": "A"},
    {"best": "A"}, {"worst": "B"}, {"scores": {"A": 1}}, {"scores": {"A": 1, "Z": 2}}, {"menu": ["A"], "winner": "A"},
    {"menu": ["terse", "x"], "winner": "A"}, {"zero": "censored"}, {"zero": "skip", "winner": "A"}, {},
)  # fmt: skip


def test_after_names_were_told_the_answers_take_no_other_vote(service):
    asked = {"prompt": "hello", "answers": True, "agents": ["terse", "chatty"]}
    token = httpx.post(f"{service[0]}/v1/compare", json=asked).json()["decision_id"]

    def cast(**vote):
        return httpx.post(f"{service[0]}/v1/feedback", json={"decision_id": token, **vote})

    first = cast(zero="skip", voter="v")
    assert set(first.json()["agents"].values()) == {"terse", "chatty"}
    for vote in ({"winner": "A", "voter": "v"}, {"winner": "B", "key": "another"}, {"zero": "skip", "voter": "w"}):
        answer = cast(**vote)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "already_voted")
    assert cast(zero="skip", voter="v", key="late").json() == {**first.json(), "duplicate": True}


def test_of_votes_at_the_same_moment_one_is_taken(service):
    asked = {"prompt": "hello", "answers": True, "agents": ["terse", "chatty"]}
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            token = httpx.post(f"{service[0]}/v1/compare", json=asked).json()["decision_id"]
            votes = [{"decision_id": token, "winner": letter, "voter": f"v{i}"} for i, letter in enumerate("ABABABAB")]
            answers = list(pool.map(lambda vote: httpx.post(f"{service[0]}/v1/feedback", json=vote), votes))
            assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
            assert {answer.json()["error"]["code"] for answer in answers if answer.is_error} == {"already_voted"}


def test_a_forged_letter_or_id_is_refused(service):
    asked = {"prompt": "hello", "answers": True, "agents": ["terse", "chatty"]}
    token = httpx.post(f"{service[0]}/v1/compare", json=asked).json()["decision_id"]
    for change in (
        {"winner": "C"},
        {"decision_id": token[:-3] + "abc", "winner": "A"},
        {"winner": "terse", "zero": "tie"},
        *REFUSED,
    ):
        answer = httpx.post(f"{service[0]}/v1/feedback", json={"decision_id": token, **change})
        assert answer.status_code == 422, change
        assert "chatty" not in answer.text  # whoever is to vote without names is told none
        assert change.get("winner") == "terse" or "terse" not in answer.text

"""Chat completions through the gateway: faults, fallback, streaming, restrictions, and what is kept."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from nasheval.serving.demo import CannedUpstream
from nasheval.serving.gateway import Gateway
from nasheval.serving.turns import Turn
from nasheval.serving.upstreams import read_upstreams

from .faults import CASES, EVENTS, JSON, KEY, FixedChooser, application, event, said, seen, upstream
from .worlds import served, toml

HELLO = [{"role": "user", "content": "hello"}]
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "gateway.md"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.fault}, {'stream' if case.streamed else 'whole'}")
def test_each_fault_is_seen_as_expected(case, tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    words, answer, chooser = seen(case, tmp_path)
    assert words == case.expected
    assert (
        f"| {case.fault} | {'stream' if case.streamed else 'whole'} | {case.expected} | {words} |" in GUIDE.read_text()
    )
    if "other agent" in case.expected:
        assert chooser.kept == [("good", 1.0, ("bad",), "")]
        assert answer.headers["x-nasheval-failed"] == "bad"
    out, err = capfd.readouterr()
    told = answer.text + str(answer.headers) + repr(chooser.kept) + out + err
    told += "".join(record.getMessage() for record in caplog.records if record.name.startswith(("nasheval", "httpx")))
    assert KEY not in told


@contextmanager
def gateway(tmp_path, upstreams, lottery=None, *, policies="", first=None):
    """A gateway before upstreams: {agent: address, or lines of TOML}; yields its address and its chooser."""
    chooser = FixedChooser(lottery or dict.fromkeys(upstreams, 1 / len(upstreams)), first)
    made = Gateway(read_upstreams(toml(tmp_path / "up.toml", upstreams, policies)), chooser)
    chooser.gateway = made
    with served(application(made)) as address:
        yield f"{address}/v1", chooser


def post(address, model="nasheval", headers=None, **body):
    return httpx.post(
        f"{address}/chat/completions", json={"model": model, "messages": HELLO, **body}, headers=headers, timeout=10
    )


@pytest.fixture(scope="module")
def canned():
    with served(CannedUpstream("terse")) as one, served(CannedUpstream("chatty")) as two:
        yield {"terse": f"{one}/v1", "chatty": f"{two}/v1"}


def test_the_agent_stands_in_the_body_and_in_every_chunk(tmp_path, canned):
    with gateway(tmp_path, canned, {"terse": 0.0, "chatty": 1.0}) as (address, chooser):
        assert post(address).json()["model"] == "chatty"
        streamed = post(address, stream=True, stream_options={"include_usage": True})
    datas = [line[6:] for line in streamed.text.splitlines() if line.startswith("data: ")]
    assert datas.pop() == "[DONE]"
    assert {json.loads(data)["model"] for data in datas} == {"chatty"}
    assert json.loads(datas[-1])["usage"]["total_tokens"] > 0
    assert streamed.headers["x-nasheval-decision"] == "decision-2"
    assert chooser.kept == [("chatty", 1.0, (), "")] * 2
    [row] = chooser.gateway.tally.to_dict()["agents"]
    assert (row["agent"], row["served"]) == ("chatty", 2)
    assert row["tokens"] > 0


def test_agents_are_drawn_in_proportion_and_propensities_say_so(tmp_path, canned):
    lottery = {"terse": 0.8, "chatty": 0.2}
    with gateway(tmp_path, canned, lottery) as (address, chooser), httpx.Client() as client:
        for _ in range(300):
            client.post(f"{address}/chat/completions", json={"model": "nasheval", "messages": HELLO})
    counts = Counter(agent for agent, *_ in chooser.kept)
    assert 205 <= counts["terse"] <= 270  # 240, within 4.3 standard errors
    assert all(propensity == pytest.approx(lottery[agent]) for agent, propensity, *_ in chooser.kept)


def test_after_a_failure_the_rest_is_renormalised(tmp_path, canned):
    upstreams = {**canned, "gone": "http://127.0.0.1:9/v1"}
    with gateway(tmp_path, upstreams, {"gone": 0.999, "terse": 0.0008, "chatty": 0.0002}) as (address, chooser):
        post(address)
    [(agent, propensity, failed, _)] = chooser.kept
    assert failed in (("gone",), ())
    assert propensity == pytest.approx({"terse": 0.8, "chatty": 0.2}[agent], abs=1e-9) or failed == ()


def test_a_header_restricts_and_another_opts_out(tmp_path, canned):
    lottery = {"terse": 0.9, "chatty": 0.1}
    with gateway(tmp_path, canned, lottery) as (address, chooser):
        only = [post(address, headers={"x-nasheval-agents": "chatty"}) for _ in range(5)]
        assert {answer.json()["model"] for answer in only} == {"chatty"}
        chooser.kept.clear()
        out = [post(address, headers={"x-nasheval-opt-out": "true"}) for _ in range(12)]
        assert {answer.json()["model"] for answer in out} == {"terse"}  # by lottery 0.28 would pass
        assert chooser.kept == []
        assert "x-nasheval-decision" not in out[0].headers
        assert post(address, headers={"x-nasheval-opt-out": "false"}).headers["x-nasheval-decision"]
        refused = post(address, headers={"x-nasheval-agents": "nobody"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "unknown_agent"
    assert refused.json()["error"]["param"] == "x-nasheval-agents"


def test_named_agents_and_policies(tmp_path, canned):
    policies = '\n[policies.brief]\nagents = ["terse"]\ncost_weight = 0.5\n'
    with gateway(tmp_path, canned, {"terse": 0.0, "chatty": 1.0}, policies=policies) as (address, chooser):
        assert post(address, "terse").json()["model"] == "terse"
        assert chooser.kept == []  # asked for by name: nothing was drawn
        assert post(address, "brief").json()["model"] == "terse"
        assert (chooser.ask.cost_weight, chooser.ask.agents) == (0.5, ("terse",))
        lost = post(address, "gpt-9")
    assert (lost.status_code, lost.json()["error"]["code"]) == (404, "model_not_found")


def test_an_agent_asked_for_by_name_is_not_replaced(tmp_path, canned):
    with gateway(tmp_path, {**canned, "gone": "http://127.0.0.1:9/v1"}) as (address, _):
        answer = post(address, "gone")
    assert answer.status_code == 502
    assert answer.json()["error"]["failures"] == [{"agent": "gone", "fault": "down", "message": "no connection"}]


@pytest.mark.parametrize(
    ("app", "status", "code"),
    [
        (upstream(429, [*JSON, (b"retry-after", b"7")], said("busy")), 429, "upstreams_busy"),
        (upstream(wait=3), 504, "upstreams_slow"),
        (upstream(500, JSON, said("oops")), 502, "upstreams_failed"),
    ],
)
def test_where_nobody_answers_the_status_says_why(tmp_path, app, status, code):
    with served(app) as bad:
        lines = f'url = "{bad}/v1"\nseconds = {{ whole = 0.2 }}'
        with gateway(tmp_path, {"one": lines, "two": lines}) as (address, chooser):
            answer = post(address)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert {failure["agent"] for failure in answer.json()["error"]["failures"]} == {"one", "two"}
    assert answer.headers.get("retry-after") == ("7" if status == 429 else None)
    assert chooser.kept == []


def test_events_come_as_they_are_made(tmp_path):
    first = event({"choices": [{"index": 0, "delta": {"content": "one"}, "finish_reason": None}]})
    with (
        served(upstream(headers=EVENTS, pieces=[first], pause=0.6, body=b"data: [DONE]\n\n")) as slow,
        gateway(tmp_path, {"slow": f"{slow}/v1"}) as (address, _),
        httpx.stream("POST", f"{address}/chat/completions", json={"model": "slow", "messages": HELLO, "stream": True})
        as answer,
    ):  # fmt: skip
        pieces = answer.iter_raw()
        assert b"one" in next(pieces)
        then = time.perf_counter()
        assert b"[DONE]" in b"".join(pieces)
        assert time.perf_counter() - then > 0.3  # the first piece did not wait for the rest


def test_a_client_that_leaves_ends_the_request_to_the_upstream(tmp_path):
    states = []

    async def endless(scope, receive, send):
        if scope["type"] != "http":
            return
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        gone = asyncio.ensure_future(receive())
        for _ in range(400):
            word = event({"choices": [{"index": 0, "delta": {"content": "on"}, "finish_reason": None}]})
            await send({"type": "http.response.body", "body": word, "more_body": True})
            await asyncio.sleep(0.02)
            if gone.done():
                states.append(gone.result()["type"])
                return

    with served(endless) as address, gateway(tmp_path, {"on": f"{address}/v1"}) as (through, chooser):
        asked = {"model": "on", "messages": HELLO, "stream": True}
        with httpx.stream("POST", f"{through}/chat/completions", json=asked) as answer:
            next(answer.iter_raw())
        for _ in range(200):
            if states:
                break
            time.sleep(0.02)
    assert states == ["http.disconnect"]
    assert chooser.gateway.tally.to_dict()["clients_left"] == 1


def test_what_is_forwarded_is_what_was_sent(tmp_path):
    got = []

    async def echo(scope, receive, send):
        if scope["type"] != "http":
            return
        got.append((json.loads((await receive())["body"]), dict(scope["headers"])))
        body = json.dumps({"choices": [{"message": {"content": "x"}}], "odd": {"kept": 1}}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [*JSON, (b"x-request-id", b"r1")]})
        await send({"type": "http.response.body", "body": body})

    with served(echo) as address:
        lines = f'url = "{address}/v1/"\nmodel = "theirs-2"\nkey = "FORWARDED_KEY"'
        with gateway(tmp_path, {"ours": lines}) as (through, chooser), pytest.MonkeyPatch.context() as patch:
            patch.setenv("FORWARDED_KEY", "sk-1")
            extra = {"temperature": 0.1, "seed": 2**53, "response_format": {"type": "json_object"}, "ö": ["ü", None]}
            ours = {"context": {"language": "de"}, "session": "s1", "budget": 2.5, "agents": ["ours"]}
            headers = {"authorization": "Bearer of-the-client", "cookie": "c=1", "x-nasheval-session": "other"}
            answer = post(through, headers=headers, nasheval=ours, **extra)
    [(body, sent)] = got
    assert body == {"model": "theirs-2", "messages": HELLO, **extra}
    assert sent[b"authorization"] == b"Bearer sk-1"
    assert b"cookie" not in sent
    assert not [name for name in sent if name.startswith(b"x-nasheval")]
    assert answer.json()["odd"] == {"kept": 1}
    assert answer.headers["x-request-id"] == "r1"
    ask = chooser.ask
    assert (dict(ask.context), ask.session, ask.budget, ask.prompt) == ({"language": "de"}, "s1", 2.5, "hello")


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"{", 400, None),
        (b"[]", 400, None),
        (b'{"model": "nasheval"}', 400, "messages"),
        (b'{"model": "nasheval", "messages": []}', 400, "messages"),
        (b'{"messages": [{}]}', 400, "model"),
        (b'{"model": "nasheval", "messages": [{}], "stream": "yes"}', 400, "stream"),
        (b'{"model": "nasheval", "messages": [{}], "nasheval": 3}', 400, "nasheval"),
        (b'{"model": "nasheval", "messages": [{}], "nasheval": {"budge": 3}}', 422, "nasheval.budge"),
        (b'{"model": "nasheval", "messages": [{}], "nasheval": {"agents": ["x"]}}', 400, "nasheval.agents"),
        (b"[" * 100_000, 400, None),
    ],
)
def test_requests_that_cannot_be_used(tmp_path, canned, body, status, param):
    with gateway(tmp_path, canned) as (address, _):
        answer = httpx.post(f"{address}/chat/completions", content=body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["param"], error["argument"], error["type"]) == (param, param, "invalid_request_error")


@pytest.mark.parametrize("content", [None, 3, [], [{"type": "image_url"}], [{"type": "text", "text": "a"}, "b"]])
def test_messages_of_any_make_are_forwarded(tmp_path, canned, content):
    with gateway(tmp_path, canned) as (address, chooser):
        post(address, messages=[{"role": "user", "content": content}])
    assert (
        chooser.ask.prompt == ("a\nb" if content and len(content) > 1 else None) if isinstance(content, list) else True
    )


def test_the_agent_of_a_session_comes_first_and_is_replaced_where_it_fails(tmp_path, canned):
    upstreams = {**canned, "gone": "http://127.0.0.1:9/v1"}
    lottery = {"terse": 1.0, "chatty": 0.0, "gone": 0.0}
    with gateway(tmp_path, upstreams, lottery, first=Turn("chatty", 0.3)) as (address, chooser):
        assert post(address).json()["model"] == "chatty"
        assert chooser.kept == [("chatty", 0.3, (), "")]
    with gateway(tmp_path, upstreams, lottery, first=Turn("gone", 0.3)) as (address, chooser):
        assert post(address).json()["model"] == "terse"
        assert chooser.kept == [("terse", 1.0, ("gone",), "")]

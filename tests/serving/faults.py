"""Upstreams that go wrong in every way, what a client is to see of each, and what it sees.

python -m tests.serving.faults      prints the table of docs/guides/gateway.md
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from nasheval.serving.demo import CannedUpstream
from nasheval.serving.gateway import Gateway
from nasheval.serving.upstreams import read_upstreams

from .worlds import free_port, served, toml

KEY = "sk-secret-of-this-test"
WORD = {"choices": [{"index": 0, "delta": {"content": "half an"}, "finish_reason": None}], "model": "x"}
EVENTS = [(b"content-type", b"text/event-stream")]
JSON = [(b"content-type", b"application/json")]
SECONDS = "seconds = { connect = 0.3, first_byte = 0.3, between_bytes = 0.3, whole = 0.4 }"


class FixedChooser:
    """Always the same lottery; keeps in a list what it is asked to record."""

    def __init__(self, lottery, first=None):
        self.shares, self.agents, self.kept, self._first = lottery, tuple(lottery), [], first

    def begin(self, ask, client):
        self.ask, self.client = ask, client
        return self

    async def first(self):
        return self._first

    async def lottery(self, agents):
        found = {agent: self.shares[agent] for agent in agents}
        return found if sum(found.values()) else dict.fromkeys(agents, 1 / len(agents))

    async def prepare(self):
        pass

    async def record(self, turn, failed):
        self.kept.append((turn.agent, turn.propensity, tuple(failed), self.client))
        return f"decision-{len(self.kept)}"


def application(gateway):
    """The gateway's chat completions alone, as an ASGI application."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await gateway.aclose()
            return await send({"type": "lifespan.shutdown.complete"})
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        return await gateway.chat(raw, scope, receive, send)

    return app


def upstream(status=200, headers=(), body=b"", *, pieces=(), wait=0.0, pause=0.0, cut=False):
    """An upstream that waits, answers, sends pieces, pauses, and may cut the connection."""

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        await receive()
        await asyncio.sleep(wait)
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await asyncio.sleep(pause)
        if cut:
            raise ConnectionAbortedError
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return app


def event(value):
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def said(message):
    return json.dumps({"error": {"message": message}}).encode()


WHOLE = json.dumps({"choices": [{"message": {"content": f"your key is {KEY}"}}]}).encode()


@dataclass(frozen=True)
class Case:
    """A fault.

    Args:
        fault: in words.
        app: the upstream; None: nothing listens.
        streamed: whether the client asks for a stream.
        expected: what it is to see.
    """

    fault: str
    app: object
    streamed: bool
    expected: str


OTHER, AFTER = "the other agent answers", "1 word, upstream_"
FIRST, WRONG = event(WORD), event({"error": {"message": "m"}})
CASES = (
    Case("down: nothing listens", None, False, OTHER),
    Case("down: nothing listens", None, True, OTHER),
    Case("slow: no answer in time", upstream(wait=2, body=WHOLE), False, OTHER),
    Case("slow: no first event in time", upstream(wait=2, headers=EVENTS), True, OTHER),
    Case("stalled before the first event", upstream(headers=EVENTS, pieces=[b": wait\n\n"], pause=2), True, OTHER),
    Case("stalled after the first event", upstream(headers=EVENTS, pieces=[FIRST], pause=2), True, AFTER + "stalled"),
    Case("cut before the first event", upstream(headers=EVENTS, cut=True), True, OTHER),
    Case("cut after the first event", upstream(headers=EVENTS, pieces=[FIRST], cut=True), True, AFTER + "cut"),
    Case("ended early after the first event", upstream(headers=EVENTS, pieces=[FIRST]), True, AFTER + "cut"),
    Case("cut within a whole answer", upstream(headers=JSON, pieces=[b'{"choices": ['], cut=True), False, OTHER),
    Case("junk: HTML with status 200", upstream(body=b"<html>busy</html>"), False, OTHER),
    Case("junk: HTML in place of a stream", upstream(body=b"<html>busy</html>"), True, OTHER),
    Case("junk: JSON without choices", upstream(headers=JSON, body=b"{}"), False, OTHER),
    Case("junk: a stream that is no JSON", upstream(headers=EVENTS, pieces=[b"data: hello\n\n"]), True, OTHER),
    Case("junk after the first event", upstream(headers=EVENTS, pieces=[FIRST, b"data: {\n\n"]), True, AFTER + "junk"),
    Case("its error as first event", upstream(headers=EVENTS, pieces=[WRONG]), True, OTHER),
    Case("its error after the first event", upstream(headers=EVENTS, pieces=[FIRST, WRONG]), True, AFTER + "error"),
    Case("its error with status 200", upstream(headers=JSON, body=said("no GPU")), False, OTHER),
    Case("refuses the key: 401", upstream(401, JSON, said(f"wrong key {KEY}")), False, OTHER),
    Case("refuses the key: 403", upstream(403, JSON, said(f"wrong key {KEY}")), True, OTHER),
    Case("busy: 429", upstream(429, [*JSON, (b"retry-after", b"7")], said("busy")), False, OTHER),
    Case("error: 500", upstream(500, JSON, said("oops")), False, OTHER),
    Case("error: 503 as HTML", upstream(503, (), b"<html>"), True, OTHER),
    Case("moved: 302", upstream(302, [(b"location", b"http://127.0.0.1:9/")]), False, OTHER),
    Case("refuses the question: 400", upstream(400, JSON, said("too long")), False, "400 too long"),
    Case("refuses the question: 422", upstream(422, JSON, said("bad tool")), True, "422 bad tool"),
    Case("refuses the question: 400 as text", upstream(400, (), b"nope"), False, "400 nope"),
)  # fmt: skip


def seen(case, folder):
    """Return what a client sees of a fault, and all that the gateway said and kept."""
    os.environ["FAULTY_KEY"] = KEY
    with ExitStack() as stack:
        bad = f"http://127.0.0.1:{free_port()}" if case.app is None else stack.enter_context(served(case.app))
        good = stack.enter_context(served(CannedUpstream("terse")))
        path = toml(
            Path(folder) / "up.toml", {"bad": f'url = "{bad}/v1"\nkey = "FAULTY_KEY"\n{SECONDS}', "good": f"{good}/v1"}
        )
        chooser = FixedChooser({"bad": 1.0, "good": 0.0})
        address = stack.enter_context(served(application(Gateway(read_upstreams(path), chooser))))
        body = {"model": "nasheval", "messages": [{"role": "user", "content": "hi"}], "stream": case.streamed}
        answer = httpx.post(f"{address}/v1/chat/completions", json=body, timeout=10)
    return in_words(answer), answer, chooser


def in_words(answer):
    if answer.headers["content-type"].startswith("application/json"):
        value = answer.json()
        if answer.status_code != 200:
            return f"{answer.status_code} {value['error']['message']}"
        return OTHER if value["model"] == "good" else f"200 of {value['model']}"
    datas = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    chunks = [json.loads(data) for data in datas if data != "[DONE]"]
    words = [one for one in chunks if "choices" in one]
    assert len({one["model"] for one in words}) == 1
    if "error" not in chunks[-1]:
        return OTHER if words[0]["model"] == "good" and datas[-1] == "[DONE]" else "a stream of the wrong agent"
    return f"{len(words)} word, {chunks[-1]['error']['code']}"


def table():
    """Return the rows of the documentation's table."""
    lines = ["| fault | asked | expected | seen |", "| --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            how = "stream" if case.streamed else "whole"
            lines.append(f"| {case.fault} | {how} | {case.expected} | {seen(case, folder)[0]} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))

"""`Gateway`: chat completions by the lottery, as OpenAI's API has them, with the next agent where one fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from random import SystemRandom
from time import perf_counter
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from nasheval.serving.chats import Ask, Refused, understood
from nasheval.serving.events import event_of
from nasheval.serving.forwarding import Fault, Headers, PassedOn, Reply, Streamed, new_client, stream, whole
from nasheval.serving.guard import CLIENT
from nasheval.serving.problems import Problem
from nasheval.serving.tally import Tally
from nasheval.serving.turns import Lottery, Turn, Turns
from nasheval.serving.upstreams import Upstreams

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_JSON: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
_EVENTS: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # reverse proxies would collect events otherwise
]
_SAFE: Headers = [(b"x-content-type-options", b"nosniff")]
_RANDOM = SystemRandom()


class Choosing(Protocol):
    """One request's lottery, and what is kept of who answered."""

    async def first(self) -> Turn | None:
        """Return whose turn comes first without a draw: the agent of a session, or the default; None: it is drawn."""
        ...

    async def lottery(self, agents: Sequence[str]) -> Lottery:
        """Return the lottery among agents; raises a Problem where the context cannot be used."""
        ...

    async def prepare(self) -> None:
        """Compute what `record` takes, while the upstream works."""
        ...

    async def record(self, turn: Turn, failed: Sequence[str]) -> str:
        """Keep that an agent served, with its propensity given who failed; return the decision's id."""
        ...


class Chooser(Protocol):
    """Knows the agents of the model of votes, and begins to choose for a request of a client."""

    @property
    def agents(self) -> Sequence[str]:
        """Return the agents of the model of votes."""
        ...

    def begin(self, ask: Ask, client: str) -> Choosing:
        """Return what chooses for one request."""
        ...


class Gateway:
    """Forwards chat completions to the agents' upstreams.

    Args:
        upstreams: where agents are found.
        chooser: knows the lottery.
        client: for requests to upstreams.
        tally: counts what becomes of them.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        chooser: Chooser,
        *,
        client: httpx.AsyncClient | None = None,
        tally: Tally | None = None,
    ) -> None:
        self.upstreams, self.chooser = upstreams, chooser
        self.client, self.tally = client or new_client(), tally or Tally()

    async def aclose(self) -> None:
        """Close connections to upstreams."""
        await self.client.aclose()

    def models(self) -> dict[str, Any]:
        """Return the answer to GET /v1/models: policies, and agents that have an upstream."""
        names = [*self.upstreams.policies, *self.upstreams.upstreams]
        return {
            "object": "list",
            "data": [{"id": name, "object": "model", "created": 0, "owned_by": "nasheval"} for name in names],
        }

    async def chat(self, raw: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer POST /v1/chat/completions, given its body; a client that leaves ends the request to the upstream."""
        work = asyncio.ensure_future(self._answer(scope, raw, send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            else:
                self.tally.left()
        finally:
            for task in (work, leaving):
                task.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)

    async def _answer(self, scope: Scope, raw: bytes, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            ask = understood(raw, headers, self.upstreams, self.chooser.agents)
            await self._by_turns(ask, self.chooser.begin(ask, str(scope.get(CLIENT, ""))), send)
        except Problem as problem:
            refused = problem if isinstance(problem, Refused) else Refused.of(problem)
            extra = [(name.encode(), value.encode("latin-1", "replace")) for name, value in refused.headers.items()]
            await _send(send, refused.status, [*_JSON, *extra], refused.body())

    async def _by_turns(self, ask: Ask, choosing: Choosing, send: Send) -> None:
        """Ask one agent after another until one begins to answer."""
        turns, faults = await _turns(ask, choosing), dict[str, Fault]()
        while (turn := await turns.next()) is not None:
            began = perf_counter()
            attempt = _Attempt(self, ask, choosing, turn, list(faults), send)
            early = asyncio.ensure_future(choosing.prepare()) if attempt.is_kept else None
            try:
                await (attempt.streamed() if ask.streamed else attempt.whole())
                return
            except Fault as fault:
                self.tally.fault(turn.agent, fault.kind, perf_counter() - began)
                faults[turn.agent] = fault
            finally:
                if early is not None:
                    early.cancel()
        raise _all_failed(faults)

    async def text_of(self, agent: str, messages: list[dict[str, Any]]) -> str:
        """Return an agent's answer as text; raises a Fault."""
        began, upstream = perf_counter(), self.upstreams.upstreams[agent]
        try:
            reply = await whole(self.client, upstream, {"messages": messages})
            if reply.status != 200:
                raise Fault("error", f"status {reply.status}: it refuses the question")
            content = json.loads(reply.body)["choices"][0]["message"]["content"]
            if not isinstance(content, str):
                raise Fault("junk", "an answer without text")
        except Fault as fault:
            self.tally.fault(agent, fault.kind, perf_counter() - began)
            raise
        except (LookupError, TypeError):
            self.tally.fault(agent, "junk", perf_counter() - began)
            raise Fault("junk", "an answer without text") from None
        self.tally.served(agent, perf_counter() - began, reply.usage, upstream.prices)
        return content


class _Attempt:
    """One turn of one request."""

    def __init__(
        self, gateway: Gateway, ask: Ask, choosing: Choosing, turn: Turn, failed: list[str], send: Send
    ) -> None:
        self.gateway, self.ask, self.choosing, self.turn, self.failed = gateway, ask, choosing, turn, failed
        self.send = send
        self.upstream = gateway.upstreams.upstreams[turn.agent]
        self.began = perf_counter()

    @property
    def is_kept(self) -> bool:
        """Whether a decision is made, and kept."""
        return not (self.ask.named or self.ask.opted_out)

    async def whole(self) -> None:
        """Pass on an answer that is not streamed; raises a Fault where there is none."""
        reply = await whole(self.gateway.client, self.upstream, dict(self.ask.body))
        await self._pass_on(reply)

    async def streamed(self) -> None:
        """Pass events on as they come; raises a Fault only where none came."""
        streamed, first = Streamed(), 0.0
        events = stream(self.gateway.client, self.upstream, dict(self.ask.body), streamed)
        async with aclosing(events):
            try:
                event = await anext(events)
            except PassedOn as refusal:
                await self._pass_on(refusal.reply)
                return
            first = perf_counter() - self.began
            start = {"type": "http.response.start", "status": 200}
            await self.send({**start, "headers": [*_EVENTS, *_SAFE, *streamed.headers, *await self._ours()]})
            try:
                await self._send_event(event)
                async for event in events:
                    await self._send_event(event)
            except Fault as fault:  # too late for another agent: what was sent cannot be taken back
                self.gateway.tally.fault(self.turn.agent, fault.kind, first)
                await self._send_event(event_of({"error": _in_band(self.turn.agent, fault)}))
            else:
                self.gateway.tally.served(self.turn.agent, first, streamed.usage, self.upstream.prices)
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_on(self, reply: Reply) -> None:
        seconds = perf_counter() - self.began
        if reply.status == 200:
            self.gateway.tally.served(self.turn.agent, seconds, reply.usage, self.upstream.prices)
            ours = await self._ours()
        else:
            self.gateway.tally.passed_on(self.turn.agent, seconds)
            ours = [(b"x-nasheval-agent", quote(self.turn.agent).encode())]
        await _send(self.send, reply.status, [*_JSON, *reply.headers, *ours], reply.body)

    async def _send_event(self, event: bytes) -> None:
        await self.send({"type": "http.response.body", "body": event, "more_body": True})

    async def _ours(self) -> Headers:
        """Keep the decision, and return the headers that tell of it."""
        said = {"x-nasheval-agent": quote(self.turn.agent), "x-nasheval-propensity": f"{self.turn.propensity:.6g}"}
        if self.failed:
            said["x-nasheval-failed"] = ",".join(map(quote, self.failed))
        if self.is_kept:
            said["x-nasheval-decision"] = await self.choosing.record(self.turn, self.failed)
        return [(name.encode(), value.encode()) for name, value in said.items()]


async def _turns(ask: Ask, choosing: Choosing) -> Turns:
    async def alone(agents: Sequence[str]) -> Lottery:
        return dict.fromkeys(agents, 1.0)

    if ask.named:
        return Turns(ask.agents, alone, None)
    if ask.opted_out:
        return Turns(ask.agents, choosing.lottery, None)
    return Turns(ask.agents, choosing.lottery, _RANDOM.random, await choosing.first())


def _in_band(agent: str, fault: Fault) -> dict[str, Any]:
    """Return the error that ends a stream; what came before it is not the whole answer."""
    message = f"{agent} stopped within its answer: {fault.said}; what came is not the whole answer"
    return Refused(502, f"upstream_{fault.kind}", message, failures=[_failure(agent, fault)]).error()


def _failure(agent: str, fault: Fault) -> dict[str, str]:
    return {"agent": agent, "fault": fault.kind, "message": fault.said}


def _all_failed(faults: Mapping[str, Fault]) -> Refused:
    """Return the refusal where nobody answered: 429 where all are busy, 504 where all are slow, otherwise 502."""
    kinds = {fault.kind for fault in faults.values()}
    alike = {"busy": (429, "upstreams_busy"), "slow": (504, "upstreams_slow")}
    status, code = alike.get("".join(kinds) if len(kinds) == 1 else "", (502, "upstreams_failed"))
    after = [fault.retry_after for fault in faults.values() if fault.retry_after]
    said = "; ".join(f"{agent}: {fault.said}" for agent, fault in faults.items())
    failures = [_failure(agent, fault) for agent, fault in faults.items()]
    headers = {"retry-after": min(after, key=lambda text: (len(text), text))} if status == 429 and after else None
    return Refused(status, code, f"no agent answered ({said}); try again later", headers=headers, failures=failures)


async def _left(receive: Receive) -> None:
    """Wait until the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    headers = [*headers, *_SAFE, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})

"""One chat completion from one upstream, whole or event by event; whatever goes wrong is a `Fault`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from nasheval.serving.events import DONE, EventError, Events, chunk_of, data_of, event_of, is_finished
from nasheval.serving.upstreams import Seconds, Upstream

Headers = list[tuple[bytes, bytes]]
Body = dict[str, Any]
_Awaited = TypeVar("_Awaited")
PASSED_ON = frozenset({400, 413, 415, 422})  # what the client did wrong, another upstream would refuse as well
_PASSED_HEADERS = ("x-request-id", "openai-processing-ms", "retry-after")
_MOST_BYTES = 1 << 26
_MOST_SAID = 300  # characters of an upstream's own words that are repeated
_HIDDEN = b"***"


class Fault(Exception):  # noqa: N818  (what an upstream did, not an error of ours)
    """An upstream that did not answer as it should.

    Args:
        kind: "down", "slow", "stalled", "cut", "junk", "refused" (its key), "busy" (429) or "error".
        said: in words, without the key.
        retry_after: what the upstream asked for, as it wrote it.
    """

    def __init__(self, kind: str, said: str, retry_after: str = "") -> None:
        super().__init__(said)
        self.kind, self.said, self.retry_after = kind, said, retry_after


@dataclass(frozen=True)
class Reply:
    """An answer that is not streamed, as it is passed on.

    Args:
        status: 200, or one of `PASSED_ON`.
        headers: those that are passed on.
        body: JSON, with the agent as `model`.
        usage: of tokens, as the upstream states it.
    """

    status: int
    headers: Headers
    body: bytes
    usage: Mapping[str, Any] | None = None


class PassedOn(Exception):  # noqa: N818
    """A refusal that goes to the client as it is."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"status {reply.status}")
        self.reply = reply


@dataclass
class Streamed:
    """What became of a stream so far: the headers to pass on, and the usage that it stated."""

    headers: Headers = field(default_factory=list)
    usage: Mapping[str, Any] | None = None


def new_client() -> httpx.AsyncClient:
    """Return a client that keeps its connections; time-outs are those of each upstream."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=200, keepalive_expiry=30)
    return httpx.AsyncClient(limits=limits, follow_redirects=False)  # a redirection would carry the key elsewhere


async def whole(client: httpx.AsyncClient, upstream: Upstream, body: Body) -> Reply:
    """Return an answer that is not streamed, or a refusal that is passed on; raises a Fault for anything else."""
    try:
        async with asyncio.timeout(upstream.seconds.whole):
            response = await _sent(client, upstream, body)
            try:
                raw = await _read(response, upstream)
            finally:
                await response.aclose()
    except TimeoutError:
        raise Fault("slow", f"no whole answer within {upstream.seconds.whole:g} seconds") from None
    if response.status_code in PASSED_ON:
        return _refusal(response, raw)
    answer = _completion(raw)
    answer["model"] = upstream.agent
    return Reply(200, _passed_headers(response), _json(answer), answer.get("usage"))


async def stream(
    client: httpx.AsyncClient, upstream: Upstream, body: Body, streamed: Streamed
) -> AsyncGenerator[bytes, None]:
    """Yield events as they come, each with the agent as `model`.

    Until the first one, a Fault says that nothing came, and a PassedOn that the client is to hear of a refusal; a Fault
    after it, that the rest will not come.
    """
    patience = _Patience(upstream.seconds)
    response = await patience.wait(_sent(client, upstream, body))
    try:
        if response.status_code in PASSED_ON:
            raise PassedOn(_refusal(response, await patience.wait(_read(response, upstream))))
        if "text/event-stream" not in response.headers.get("content-type", ""):
            raise Fault("junk", "an answer that is no stream of events")
        streamed.headers = _passed_headers(response)
        async with aclosing(_events(response, upstream, streamed, patience)) as events:
            async for event in events:
                yield event
    finally:
        await response.aclose()


class _Patience:
    """How long to wait for what comes next: until the first event, and then for each piece of the answer.

    Only waiting for the upstream counts, not the time that the client takes to read.
    """

    def __init__(self, seconds: Seconds) -> None:
        self._seconds, self._loop, self.begun = seconds, asyncio.get_running_loop(), False
        self._first = self._loop.time() + seconds.first_byte

    async def wait(self, awaited: Awaitable[_Awaited]) -> _Awaited:
        until = self._loop.time() + self._seconds.between_bytes if self.begun else self._first
        try:
            async with asyncio.timeout_at(until):
                return await awaited
        except TimeoutError:
            if self.begun:
                said = f"silence of {self._seconds.between_bytes:g} seconds within the answer"
                raise Fault("stalled", said) from None
            raise Fault("slow", f"no answer within {self._seconds.first_byte:g} seconds") from None


async def _events(
    response: httpx.Response, upstream: Upstream, streamed: Streamed, patience: _Patience
) -> AsyncGenerator[bytes, None]:
    """Yield events, and comments between them; those before the first event are kept until it comes."""
    secret, events, finished, held = upstream.secret.encode(), Events(), False, b""
    pieces = _pieces(response)
    while (piece := await patience.wait(anext(pieces, None))) is not None:
        for raw in _cut(events, piece):
            data = data_of(raw)
            if data == b"[DONE]" and patience.begun:
                yield held + DONE
                return
            if data is not None:
                chunk = _chunk(data, secret)
                chunk["model"], finished, patience.begun = upstream.agent, finished or is_finished(chunk), True
                streamed.usage = chunk.get("usage") or streamed.usage
            held += _hidden(raw, secret) + b"\n\n" if data is None else event_of(chunk)
            if patience.begun:
                yield held
                held = b""
    if not finished:
        raise Fault("cut" if patience.begun else "junk", "the stream ended before the answer did")
    yield DONE


def _cut(events: Events, piece: bytes) -> list[bytes]:
    try:
        return list(events.feed(piece))
    except EventError as error:
        raise Fault("junk", str(error)) from None


def _chunk(data: bytes, secret: bytes) -> Body:
    try:
        chunk = chunk_of(_hidden(data, secret))
    except EventError as error:
        raise Fault("junk", str(error)) from None
    if chunk.get("error"):
        raise Fault("error", f"its error in the stream: {_words(chunk['error'])}")
    return chunk


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_bytes():
            yield piece
    except httpx.HTTPError as error:
        raise Fault("cut", f"the connection ended within the answer ({type(error).__name__})") from None


async def _sent(client: httpx.AsyncClient, upstream: Upstream, body: Body) -> httpx.Response:
    """Return an upstream's answer whose body is still to come; raises a Fault for a status that is not passed on."""
    secret = upstream.secret
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    if secret:
        headers["authorization"] = f"Bearer {secret}"
    patience = httpx.Timeout(None, connect=upstream.seconds.connect)
    url, sent = f"{upstream.url}/chat/completions", _json({**body, "model": upstream.model})
    try:
        response = await client.send(
            client.build_request("POST", url, content=sent, headers=headers, timeout=patience), stream=True
        )
    except httpx.ConnectTimeout:
        raise Fault("down", f"no connection within {upstream.seconds.connect:g} seconds") from None
    except (httpx.ConnectError, httpx.UnsupportedProtocol):
        raise Fault("down", "no connection") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # a key that no header can hold is a ValueError
        kind = "down" if isinstance(error, httpx.NetworkError) else "junk"
        raise Fault(kind, f"no answer in HTTP ({type(error).__name__})") from None
    if response.status_code != 200 and response.status_code not in PASSED_ON:
        try:
            raise await _status_fault(response, upstream)
        finally:
            await response.aclose()
    return response


async def _status_fault(response: httpx.Response, upstream: Upstream) -> Fault:
    """Return what a status says; words of one that is about the key are not repeated, they may hold it."""
    status, after = response.status_code, response.headers.get("retry-after", "")[:40]
    if status in (401, 403):
        return Fault("refused", f"status {status}: it refuses the key")
    try:
        said = _words(json.loads(await _read(response, upstream)).get("error"))
    except (Fault, ValueError, AttributeError, RecursionError):
        said = ""
    return Fault("busy" if status == 429 else "error", f"status {status}" + (f": {said}" if said else ""), after)


async def _read(response: httpx.Response, upstream: Upstream) -> bytes:
    pieces, size = [], 0
    async for piece in _pieces(response):
        size += len(piece)
        if size > _MOST_BYTES:
            raise Fault("junk", f"an answer of more than {_MOST_BYTES:,} bytes")
        pieces.append(piece)
    return _hidden(b"".join(pieces), upstream.secret.encode())


def _completion(raw: bytes) -> Body:
    try:
        answer = json.loads(raw)
    except (ValueError, RecursionError):
        raise Fault("junk", "an answer that is no JSON") from None
    if isinstance(answer, dict) and answer.get("error"):
        raise Fault("error", f"its error with status 200: {_words(answer['error'])}")
    if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list) or not answer["choices"]:
        raise Fault("junk", "JSON that is no chat completion")
    return answer


def _refusal(response: httpx.Response, raw: bytes) -> Reply:
    """Return a refusal to pass on, in the shape of OpenAI's where the upstream has another."""
    try:
        fine = isinstance(json.loads(raw).get("error"), dict)
    except (ValueError, AttributeError, RecursionError):
        fine = False
    if not fine:
        said = raw[:_MOST_SAID].decode("utf-8", "replace") or f"status {response.status_code}"
        error = {"message": said, "type": "invalid_request_error", "code": "refused_by_upstream", "param": None}
        raw = _json({"error": {**error, "argument": None}})
    return Reply(response.status_code, _passed_headers(response), raw)


def _silence(upstream: Upstream, begun: bool) -> Fault:
    if begun:
        return Fault("stalled", f"silence of {upstream.seconds.between_bytes:g} seconds within the answer")
    return Fault("slow", f"no answer within {upstream.seconds.first_byte:g} seconds")


def _words(error: object) -> str:
    said = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(said or "no reason").split())[:_MOST_SAID]


def _hidden(data: bytes, secret: bytes) -> bytes:
    return data.replace(secret, _HIDDEN) if secret else data


def _passed_headers(response: httpx.Response) -> Headers:
    found = response.headers
    names = [name for name in found if name in _PASSED_HEADERS or name.startswith("x-ratelimit-")]
    return [(name.encode(), found[name].encode("latin-1", "replace")) for name in names]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")

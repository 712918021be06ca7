"""`Guard`: what every request passes before anything else: its key, its size, its time; and what it is counted as."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response

from nasheval.serving.logs import log, log_defect
from nasheval.serving.problems import Problem
from nasheval.serving.scopes import ANY, OPEN, ROUTES, scope_of

if TYPE_CHECKING:
    from nasheval.serving.service import Service

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Direct = Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]]
BODY, CLIENT = "nasheval.body", "nasheval.client"  # where a request's body and its key's name stand in its scope
_METHODS = ("POST", "PUT", "PATCH")


class Guard:
    """An ASGI application in front of another.

    Args:
        app: the other.
        service: returns the service, which is there once the application has started.
        direct: {(method, path): endpoint} of what is asked most: answered without the framework's way to its routes,
            which takes as long as the decision.
    """

    def __init__(self, app: App, service: Callable[[], Service], direct: Direct) -> None:
        self.app, self._service, self._direct = app, service, direct

    def answers(self, scope: Scope) -> bool:
        """Tell whether a request is answered without the other application."""
        return scope["type"] == "http" and (scope["method"], scope["path"]) in self._direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer why not."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is served here")
        service, began, status = self._service(), perf_counter(), 500
        started = False

        async def count(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
            await send(message)

        service.in_flight += 1
        try:
            receive = await self._admitted(service, scope, receive)
            endpoint = self._direct.get((scope["method"], scope["path"]))
            if endpoint is None:
                await self.app(scope, receive, count)
            else:
                await (await endpoint(Request(scope)))(scope, receive, count)
        except Problem as problem:
            await problem.response()(scope, receive, count)
        except Exception as error:
            log_defect(scope["path"] if scope["path"] in ROUTES else "other", error)
            if not started:
                await _defect().response()(scope, receive, count)
        finally:
            service.in_flight -= 1
            seconds = perf_counter() - began
            service.metrics.request(scope["path"], status, seconds)
            if service.settings.log_requests:
                _log_request(scope, status, seconds)

    async def _admitted(self, service: Service, scope: Scope, receive: Receive) -> Receive:
        """Return what gives the body again, which was read; raises a Problem."""
        settings = service.settings
        headers = dict(scope["headers"])
        wanted = scope_of(scope["path"])
        if wanted != OPEN:
            scope[CLIENT] = _client(service, headers, wanted)
            if wait := service.limits.wait(scope[CLIENT] or _address(scope)):
                after = {"retry-after": str(int(wait) + 1)}
                raise Problem(429, "too_many_requests", f"more than {settings.rate:g} requests a second", headers=after)
        if service.in_flight > settings.in_flight:
            raise Problem(503, "busy", f"{settings.in_flight:,} requests are under way", headers={"retry-after": "1"})
        if scope["method"] not in _METHODS:
            return receive
        return await _read(scope, headers, receive, settings.max_body, settings.body_seconds)


def _log_request(scope: Scope, status: int, seconds: float) -> None:
    path = scope["path"] if scope["path"] in ROUTES else "other"
    method = scope["method"] if scope["method"].isalpha() else "other"
    log("request", method=method, route=path, status=status, client=scope.get(CLIENT, ""), seconds=round(seconds, 6))


def _client(service: Service, headers: dict[bytes, bytes], wanted: str) -> str:
    """Return the name of the key that a request came with; raises a Problem."""
    if service.keys is None:
        host = headers.get(b"host", b"").decode("latin-1")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name.lower() not in service.settings.host_names:
            raise Problem(
                403, "wrong_host", f"{name[:80]!r} is no name of this service; start it with --hosts NAME", "host"
            )
        return ""
    how, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    key = service.keys.find(given.strip()) if how.lower() == "bearer" else None
    if key is None:
        said = "give a key of this service in the header Authorization: Bearer KEY"
        raise Problem(401, "no_key", said, "authorization", {"www-authenticate": "Bearer"})
    if wanted != ANY and wanted not in key.scopes:
        raise Problem(403, "wrong_scope", f"this takes a key with the scope {wanted!r}", "authorization")
    return key.name


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


async def _read(scope: Scope, headers: dict[bytes, bytes], receive: Receive, most: int, seconds: float) -> Receive:
    """Read a request's body into its scope; return what gives it again."""
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Problem(415, "not_json", "send JSON with the header Content-Type: application/json", "content-type")
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > most:
        raise _too_large(most)
    message = None
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
            parts = [message.get("body", b"")]
            size = len(parts[0])
            while message.get("more_body", False) and message["type"] == "http.request":
                message = await receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise _too_large(most)
    except TimeoutError:
        closing = {"connection": "close"}
        raise Problem(408, "too_slow", f"the body did not arrive within {seconds:g} s", headers=closing) from None
    if size > most:
        raise _too_large(most)
    if message["type"] == "http.disconnect":
        raise Problem(400, "incomplete", "the connection was closed before the body was there")
    body: bytes = b"".join(parts)
    scope[BODY] = body
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _too_large(most: int) -> Problem:
    said = f"the body is larger than the {most:,} bytes that are accepted"
    return Problem(413, "too_large", said, headers={"connection": "close"})


def _defect() -> Problem:
    return Problem(500, "defect", "this is our fault; the service's log says where it happened")

"""The gateway and the pages, as routes of the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from nasheval.serving.bodies import ErrorAnswer, RouteRequest
from nasheval.serving.chat_decisions import ServiceChooser
from nasheval.serving.endpoints import json_response
from nasheval.serving.exploring import Explorer, explore, inputs, live_lottery, why
from nasheval.serving.gateway import Gateway
from nasheval.serving.guard import BODY
from nasheval.serving.logs import log
from nasheval.serving.problems import Problem
from nasheval.serving.service import Service
from nasheval.serving.status import status
from nasheval.serving.upstreams import read_upstreams, require_some
from nasheval.serving.web import PAGES, page, static

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
_ERRORS = {
    400: "What was asked cannot be understood, or the upstream refuses it", 401: "No key",
    403: "A key without the scope, or another host", 404: "No such model, or no upstreams",
    408: "Too slow", 409: "The model cannot be explored", 413: "Too large", 415: "Not JSON",
    422: "An argument that cannot be used", 429: "Too many requests, or all upstreams are busy",
    500: "A defect", 502: "No upstream answered", 503: "Try again later", 504: "All upstreams are slow",
}  # fmt: skip
_READING = (401, 403, 429, 500, 503)
_BY_METHOD = {"GET": (409, *_READING), "POST": (400, 408, 409, 413, 415, 422, *_READING)}


def begin_live(app: FastAPI) -> None:
    """Make what the routes need, once the service is there."""
    app.state.gateway = gateway_of(app.state.service)
    app.state.explorer = Explorer(app.state.service)


async def end_live(app: FastAPI) -> None:
    """Close connections to upstreams."""
    if app.state.gateway is not None:
        await app.state.gateway.aclose()


def gateway_of(service: Service) -> Gateway | None:
    """Return the gateway of a worker; None where no upstreams were given."""
    path = service.settings.upstreams
    if not path:
        return None
    upstreams = read_upstreams(path)
    require_some(upstreams, tuple(service.decider.agents))
    for variable in upstreams.without_key():
        log("no_key", variable=variable, change=f"export {variable}=...")
    return Gateway(upstreams, ServiceChooser(service))


class _Chat(Response):
    """An answer that the gateway sends by itself, piece by piece."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self.gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.gateway.chat(scope[BODY], scope, receive, send)


async def chat(request: Request) -> Response:
    """Answer a chat completion with the agent that the lottery draws; the body is that of OpenAI's API."""
    return _Chat(_gateway(request))


async def models(request: Request) -> Response:
    """List what may be asked for as `model`: policies, and agents that have an upstream."""
    return json_response(_gateway(request).models())


def _gateway(request: Request) -> Gateway:
    gateway: Gateway | None = request.app.state.gateway
    if gateway is None:
        said = "this service has no upstreams to forward to; start it with --upstreams upstreams.toml"
        raise Problem(404, "no_upstreams", said)
    return gateway


def add_live(app: FastAPI) -> None:
    """Add the routes of the gateway and of the pages to an application."""
    _add_gateway(app)
    any_object: dict[str, Any] = {"type": "object", "additionalProperties": True}
    for path, endpoint, method in (
        ("/v1/explore", explore, "GET"),
        ("/v1/explore/inputs", inputs, "GET"),
        ("/v1/explore/lottery", live_lottery, "POST"),
        ("/v1/explore/why", why, "POST"),
        ("/v1/status", status, "GET"),
    ):
        extra: dict[str, Any] = {"security": [{"key": []}]}
        if method == "POST":
            schema = RouteRequest.model_json_schema()
            extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        said = {"description": endpoint.__doc__, "content": {"application/json": {"schema": any_object}}}
        _add(app, path, endpoint, method, extra, {200: said, **_responses(_BY_METHOD[method])})
    for path in PAGES:
        app.add_api_route(path, page, methods=["GET"], response_class=Response, include_in_schema=False)
    app.add_api_route("/static/{name}", static, methods=["GET"], response_class=Response, include_in_schema=False)


def _add_gateway(app: FastAPI) -> None:
    schema = {"type": "object", "required": ["model", "messages"], "additionalProperties": True}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    extra = {"security": [{"key": []}], "requestBody": body}
    _add(app, CHAT, chat, "POST", extra, _responses((*_ERRORS,)))
    _add(app, MODELS, models, "GET", {"security": [{"key": []}]}, _responses((404, *_READING)))


def _responses(codes: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": ErrorAnswer, "description": _ERRORS[code]} for code in codes}


def _add(
    app: FastAPI,
    path: str,
    endpoint: Callable[[Request], Any],
    method: str,
    extra: dict[str, Any],
    responses: dict[int | str, dict[str, Any]],
) -> None:
    about = (endpoint.__doc__ or "").strip()
    app.add_api_route(
        path,
        endpoint,
        methods=[method],
        response_class=Response,
        responses=responses,
        openapi_extra=extra,
        summary=about.split(";")[0].split(".")[0],
    )

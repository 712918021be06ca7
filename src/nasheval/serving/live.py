"""The gateway and the pages, as routes of the application."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from nasheval.serving.bodies import ErrorAnswer
from nasheval.serving.chat_decisions import ServiceChooser
from nasheval.serving.chats import Refused
from nasheval.serving.endpoints import json_response, service_of
from nasheval.serving.gateway import Gateway
from nasheval.serving.guard import BODY
from nasheval.serving.logs import log
from nasheval.serving.service import Service
from nasheval.serving.upstreams import read_upstreams, require_some

CHAT, MODELS = "/v1/chat/completions", "/v1/models"


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
        raise Refused(404, "no_upstreams", said)
    return gateway


def add_gateway(app: FastAPI) -> None:
    """Add the gateway's routes to an application."""
    shown: MutableMapping[int | str, dict[str, Any]] = {
        code: {"model": ErrorAnswer, "description": said}
        for code, said in {
            400: "What was asked cannot be understood, or the upstream refuses it", 401: "No key",
            404: "No such model, or no upstreams", 429: "All upstreams are busy", 502: "No upstream answered",
            504: "All upstreams are slow",
        }.items()
    }  # fmt: skip
    body = {"type": "object", "required": ["model", "messages"], "additionalProperties": True}
    extra: dict[str, Any] = {
        "security": [{"key": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
    }
    options: dict[str, Any] = {"response_class": Response, "responses": shown}
    app.add_api_route(CHAT, chat, methods=["POST"], openapi_extra=extra, summary=chat.__doc__, **options)
    app.add_api_route(MODELS, models, methods=["GET"], summary=models.__doc__, **options)


__all__ = ["Receive", "Scope", "Send", "add_gateway", "chat", "gateway_of", "models", "service_of"]

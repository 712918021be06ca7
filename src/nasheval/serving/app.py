"""`create_app`: the application, of which each worker makes one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from pydantic import BaseModel
from starlette.exceptions import HTTPException

import nasheval
from nasheval.errors import NashEvalError, one_line
from nasheval.serving import answers, bodies, endpoints
from nasheval.serving.guard import Direct, Guard, Receive, Scope, Send
from nasheval.serving.live import add_live, begin_live, end_live
from nasheval.serving.logs import log
from nasheval.serving.problems import Problem
from nasheval.serving.scopes import ANY, OPEN, scope_of
from nasheval.serving.service import Service
from nasheval.serving.settings import Settings

_ABOUT = "Which agent for this context: decide, show menus to voters, and store what they say."
_ERRORS = {
    400: "The body is no JSON", 401: "No key", 403: "A key without the scope, or another host", 408: "Too slow",
    409: "A key that was used, or a decision that was lost", 413: "Too large", 415: "Not JSON",
    422: "An argument that cannot be used", 429: "Too many requests", 500: "A defect", 503: "Try again later",
}  # fmt: skip
_READING = (401, 403, 429, 500, 503)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the application.

    Args:
        settings: None: those that `nasheval serve` left in the environment of its workers.
    """
    chosen = Settings.of_environment() if settings is None else settings
    direct: Direct = {("POST", "/v1/route"): endpoints.route}

    @asynccontextmanager
    async def lifespan(app: _Application) -> AsyncIterator[None]:
        try:
            app.state.service = Service(chosen)
            begin_live(app)
        except NashEvalError as error:
            log("not_started", reason=one_line(error))
            raise
        app.state.service.begin()
        app.short_cut = Guard(app, lambda: app.state.service, direct)
        yield
        app.short_cut = None
        await end_live(app)
        await app.state.service.end()

    app = _Application(
        title="NashEval",
        version=nasheval.__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,  # pages that fetch scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    add_routes(app)
    add_live(app)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(Guard, service=lambda: app.state.service, direct=direct)
    if chosen.origins:
        methods, headers = ["GET", "POST"], ["authorization", "content-type"]
        app.add_middleware(
            CORSMiddleware, allow_origins=[*chosen.origins], allow_methods=methods, allow_headers=headers
        )
    return app


class _Application(FastAPI):
    """The application; what is asked most goes by the short cut, past what the framework does around every request.

    Not where there is more middleware than the guard: that for other origins, or of a program that adds its own.
    """

    short_cut: Guard | None = None  # while the service runs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if self.short_cut is None or len(self.user_middleware) > 1 or not self.short_cut.answers(scope):
            await super().__call__(scope, receive, send)
        else:
            scope["app"] = self
            await self.short_cut(scope, receive, send)


def add_routes(app: FastAPI) -> None:
    """Add the routes of the service to an application."""
    add(app, "POST", "/v1/route", endpoints.route, bodies.RouteAnswer, bodies.RouteRequest)
    add(app, "POST", "/v1/compare", answers.compare, bodies.CompareAnswer, bodies.CompareRequest)
    add(app, "POST", "/v1/feedback", answers.feedback, bodies.FeedbackAnswer, bodies.FeedbackRequest, status=201)
    add(app, "GET", "/v1/versions", endpoints.models, bodies.ModelsAnswer)
    add(app, "POST", "/v1/forget", endpoints.forget_data, bodies.ForgetAnswer, bodies.ForgetRequest)
    add(app, "GET", "/health", endpoints.health, bodies.HealthAnswer)
    add(app, "GET", "/ready", endpoints.ready, bodies.ReadyAnswer)
    add(app, "GET", "/metrics", endpoints.metrics, None)


def add(
    app: FastAPI,
    method: str,
    path: str,
    endpoint: Callable[[Request], Any],
    answer: type[BaseModel] | None,
    body: type[BaseModel] | None = None,
    *,
    status: int = 200,
) -> None:
    """Add a route, with what the OpenAPI document says of it.

    Args:
        answer: shape of the answer; None: plain text.
        body: shape of the request, if it has one.
        status: of the answer.
    """
    codes = _ERRORS if body is not None else {code: _ERRORS[code] for code in _READING}
    responses: dict[int | str, dict[str, Any]] = {
        code: {"model": bodies.ErrorAnswer, "description": said} for code, said in codes.items()
    }
    about = (endpoint.__doc__ or "").strip()
    text = {"description": about, "content": {"text/plain": {"schema": {"type": "string"}}}}
    responses[status] = text if answer is None else {"model": answer, "description": about}
    extra: dict[str, Any] = {"security": [] if scope_of(path) == OPEN else [{"key": []}]}
    if body is not None:
        schema = body.model_json_schema()
        schema.pop("$defs", None)
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if scope_of(path) not in (OPEN, ANY):
        extra["description"] = f"{about}\n\nTakes a key with the scope `{scope_of(path)}`."
    app.add_api_route(
        path,
        endpoint,
        methods=[method],
        status_code=status,
        response_class=Response,
        responses=responses,
        openapi_extra=extra,
        summary=about.split(";")[0].split(".")[0],
    )
    _with_security(app)


def _with_security(app: FastAPI) -> None:
    """Make the OpenAPI document name the key."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = FastAPI.openapi(app)
            scheme = {"type": "http", "scheme": "bearer", "description": "A key that `nasheval keys new` printed."}
            found.setdefault("components", {})["securitySchemes"] = {"key": scheme}
        return app.openapi_schema or {}

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI's own documentation does


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _http_error(request: Request, error: Exception) -> Response:
    """Give errors of the framework our shape."""
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing at this address; see /openapi.json", 405: "this address takes another method"}
    code = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "refused")
    message = said.get(error.status_code, "the request was refused")
    return Problem(error.status_code, code, message, headers=dict(error.headers or {})).response()

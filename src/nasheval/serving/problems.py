"""`Problem`: what a request is refused with; every error of the service has this one shape.

{"error": {"code": "unknown_agent", "message": "...", "argument": "agents"}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Problem(Exception):  # noqa: N818 (as HTTP calls it)
    """A request that is refused.

    Args:
        status: of HTTP.
        code: a word for programs.
        message: what was given, what is accepted, what to do.
        argument: the field, parameter or header concerned; "" where none is.
        headers: of the answer, such as Retry-After.
    """

    def __init__(
        self, status: int, code: str, message: str, argument: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.argument = status, code, message, argument
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """Return the answer's JSON."""
        error = {"code": self.code, "message": self.message, "argument": self.argument or None}
        return json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")

    def response(self) -> Response:
        """Return the answer."""
        return Response(self.body(), self.status, {**_HEADERS, **self.headers}, "application/json")


def unavailable(message: str, code: str = "store_unavailable") -> Problem:
    """Return a 503: what to do is to try again."""
    return Problem(503, code, f"{message}; nothing was stored: try again later", headers={"retry-after": "1"})


def already_voted() -> Problem:
    """Return the refusal of another vote on answers whose names were told after the first."""
    said = "these answers were voted on, and whose they are was told; ask for new ones"
    return Problem(409, "already_voted", said, "decision_id")


def invalid(message: str, argument: str, code: str = "invalid") -> Problem:
    """Return a 422 that names the argument."""
    return Problem(422, code, message, argument)

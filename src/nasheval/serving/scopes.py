"""Which scope of a key each route takes; a route that is not listed takes `admin`."""

from __future__ import annotations

OPEN = ""  # no key: says nothing of votes, contexts or the model
ANY = "any"  # any key
_SCOPES = {
    "/health": OPEN,
    "/ready": OPEN,
    "/openapi.json": ANY,
    "/metrics": "admin",
    "/v1/route": "route",
    "/v1/compare": "vote",
    "/v1/feedback": "vote",
    "/v1/versions": "admin",
    "/v1/forget": "admin",
    "/v1/chat/completions": "route",
    "/v1/models": ANY,
    "/v1/explore": "route",
    "/v1/explore/inputs": ANY,
    "/v1/explore/lottery": "route",
    "/v1/explore/why": "route",
    "/v1/status": "admin",
}
ROUTES = tuple(_SCOPES)
PAGES = ("/", "/vote", "/status")  # which hold no data: their scripts ask the routes above


def scope_of(path: str) -> str:
    """Return the scope that a route takes."""
    return OPEN if path in PAGES or path.startswith("/static/") else _SCOPES.get(path, "admin")

"""The pages: explorer, vote and status, with the parts that they share with the report."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from nasheval.scoring.report.rendering import page_file
from nasheval.serving.endpoints import service_of

PAGES = {"/": "explorer.html", "/vote": "vote.html", "/status": "status.html"}
_SHARED = ("dom.js", "tables.js", "heat.js", "charts.js", "graph.js", "sections.js", "groups.js", "style.css")
_OWN = ("live.js", "explorer.js", "vote.js", "status.js", "live.css")
_KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "html": "text/html; charset=utf-8"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors {ancestors}"
)
_HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-cache"}


async def page(request: Request) -> Response:
    """Return a page; the one to vote on may stand in pages of the origins that were named."""
    path = request.url.path
    origins = service_of(request).settings.origins
    framed = path == "/vote"
    policy = _POLICY.format(ancestors=" ".join(["'self'", *origins]) if framed else "'none'")
    headers = {"content-security-policy": policy, "cross-origin-opener-policy": "same-origin"}
    return _file(request, PAGES[path], headers)


async def static(request: Request) -> Response:
    """Return a script or a style of the pages."""
    name = request.path_params["name"]
    if name not in (*_SHARED, *_OWN):
        raise HTTPException(404)
    return _file(request, name, {"content-security-policy": "default-src 'none'"})


def _file(request: Request, name: str, headers: dict[str, str]) -> Response:
    body, tag = _content(name)
    headers = {**_HEADERS, **headers, "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=_KINDS[name.rpartition(".")[2]])


@cache
def _content(name: str) -> tuple[bytes, str]:
    """Return a file and its tag; a page gets the sections of the report that it names as {{id}}."""
    if name in _SHARED:
        text = page_file(name)
    else:
        text = (files("nasheval.serving") / "pages" / name).read_text(encoding="utf-8")
    if name.endswith(".html"):
        text = re.sub(r"\{\{(\w+)\}\}", lambda found: section(found[1]), text)
    body = text.encode()
    return body, f'"{sha256(body).hexdigest()[:16]}"'


def section(name: str) -> str:
    """Return a section of the report's page, or, as "reading", how to read it."""
    pattern = r'<details class="reading">.*?</details>' if name == "reading" else rf'<section id="{name}".*?</section>'
    found = re.search(pattern, page_file("page.html"), re.DOTALL)
    if found is None:
        raise LookupError(f"the report has no section {name!r}")
    return found[0]

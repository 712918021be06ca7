"""From what a report shows to one HTML file that needs nothing else."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from dataclasses import asdict
from hashlib import sha256
from html import escape
from importlib.resources import files

from nasheval.files import whole_file
from nasheval.scoring.report.gathering import ReportData

_SCRIPTS = (
    "data.js", "dom.js", "tables.js", "heat.js", "charts.js", "graph.js", "audit.js", "sections.js", "groups.js",
    "page.js",
)  # fmt: skip


def render(data: ReportData) -> str:
    """Return the page: styles, script and data inline, and a policy that lets it load nothing and run nothing else.

    The data is in the page as JSON in ASCII without <, > and &, so that no text inside can end it; the script writes it
    to the page as text, never as HTML.
    """
    text = json.dumps(asdict(data), separators=(",", ":"), allow_nan=False)
    script = "\n".join(page_file(name) for name in _SCRIPTS)
    filled = {
        "TITLE": escape(data.title).encode("utf-8", "replace").decode(),  # a lone surrogate has no UTF-8
        "HASH": b64encode(sha256(script.encode()).digest()).decode(),
        "STYLE": page_file("style.css"),
        "SCRIPT": script,
        "DATA": text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
    }
    head, *rest = page_file("page.html").split("{{")
    pieces = [piece.partition("}}") for piece in rest]
    return head + "".join(filled[name] + text for name, _, text in pieces)


def write_report(data: ReportData, path: str | os.PathLike[str]) -> None:
    """Write the page to a file, whole or not at all."""
    with whole_file(path) as file:
        file.write(render(data).encode())


def page_file(name: str) -> str:
    """Return one of the files that the page is made of; the live pages share them."""
    return (files("nasheval.scoring.report") / "page" / name).read_text(encoding="utf-8")

"""Text for people's terminals: names come from files, and what would steer a terminal is shown, not sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.segment import Segment

# Control characters but for tab and newline, marks that turn the direction of writing, and halves of characters.
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PLAIN = str.maketrans({"±": "+/-", "✗": "x"})  # our own signs, where an encoding lacks them


def visible(text: str, encoding: str = "utf-8") -> str:
    """Return text whose control characters, and what an encoding cannot say, are spelled out, as in \\x1b."""
    text = _STEERING.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return text


def safe_console(**options: Any) -> Console:
    """Return a console of rich's that prints only what is `visible`."""
    from rich.console import Console

    class SafeConsole(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
            return super().render(_safe(renderable, self.encoding), options)

    return SafeConsole(**options)


def plain(drawn: object) -> str:
    """Return what would be drawn as text without colours."""
    from io import StringIO

    text = StringIO()
    safe_console(file=text, width=110, color_system=None).print(drawn)
    return text.getvalue()


def _safe(drawn: Any, encoding: str) -> Any:
    """Return text, or a table with all its cells, as `visible` has it; anything else as it is."""
    from rich.table import Table
    from rich.text import Text

    if isinstance(drawn, str):
        return visible(drawn, encoding)
    if isinstance(drawn, Text):
        shown = visible(drawn.plain, encoding)
        return drawn if shown == drawn.plain else Text(shown, drawn.style, overflow=drawn.overflow, end=drawn.end)
    if isinstance(drawn, Table):
        drawn.title = _safe(drawn.title, encoding)
        for column in drawn.columns:
            column.header = _safe(column.header, encoding)
            column._cells[:] = [_safe(cell, encoding) for cell in column.cells]
    return drawn

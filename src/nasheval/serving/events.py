"""Server-sent events, as OpenAI-compatible services stream them: cut out of bytes, and the model's name replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

DONE = b"data: [DONE]\n\n"
LARGEST = 1 << 22  # bytes of one event
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class EventError(Exception):
    """What came is no event of a chat completion."""


class Events:
    """Cuts bytes into events, whole ones only, as they come."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the events that are whole now, without the empty line that ends each."""
        self._rest += data
        while end := _END.search(self._rest):
            event, self._rest = self._rest[: end.start()], self._rest[end.end() :]
            if event.strip():
                yield event
        if len(self._rest) > LARGEST:
            raise EventError(f"an event of more than {LARGEST:,} bytes")

    def rest(self) -> bytes:
        """Return what came after the last whole event."""
        return self._rest.strip()


def data_of(event: bytes) -> bytes | None:
    """Return the data of an event; None where it has none, such as a comment that keeps the connection alive."""
    lines = [line[5:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def chunk_of(data: bytes) -> dict[str, Any]:
    """Return the chunk that an event's data holds; raises EventError where it is none."""
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        raise EventError("what is no JSON") from None
    if not isinstance(chunk, dict) or ("choices" not in chunk and "error" not in chunk):
        raise EventError("JSON that is no chunk of a chat completion")
    return chunk


def event_of(value: Any) -> bytes:
    """Return the event that carries a value."""
    return b"data: " + json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


def is_finished(chunk: dict[str, Any]) -> bool:
    """Tell whether a chunk says why an answer ended."""
    choices = chunk.get("choices")
    return isinstance(choices, list) and any(isinstance(one, dict) and one.get("finish_reason") for one in choices)

"""An upstream as fast as Python can be one, for `gateway`: `python -m studies.benchmarks.gateway_upstream PORT`.

It reads no more of a request than its length and whether it wants a stream, and answers what was made beforehand.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream": *true')
_HEAD: dict[str, Any] = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "canned"}
WORDS = ["It", "depends;", "measure,", "then", "choose."]


def _whole() -> bytes:
    message = {"role": "assistant", "content": " ".join(WORDS)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    body = json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def _events() -> bytes:
    choices: list[dict[str, Any]] = [{"index": 0, "delta": {"content": word}, "finish_reason": None} for word in WORDS]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    chunks = [{**_HEAD, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    events = [b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks] + [b"data: [DONE]\n\n"]
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + pieces + b"0\r\n\r\n"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    whole, events = _whole(), _events()
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1])) if length else b""
            writer.write(events if _STREAM.search(body) else whole)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(port: int) -> None:
    """Answer until the process is stopped."""
    server = await asyncio.start_server(_serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

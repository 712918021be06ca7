"""A tiny OpenAI-compatible upstream with canned answers: for the demo, for tests, for benchmarks.

python -m nasheval.serving.demo 8101 terse
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_JSON = [(b"content-type", b"application/json")]
_EVENTS = [(b"content-type", b"text/event-stream")]
_STYLES = {
    "terse": "In short: {prompt}? It depends; measure, then choose.",
    "chatty": (
        "What a good question! You asked: {prompt}. There are several sides to it, and I would be delighted to walk "
        "through them: first what we know, then what we would like to know, and at last what I would do in your place."
    ),
    "list": "On {prompt}:\n- what is known\n- what is not\n- what to try first",
    "steps": "First, say what {prompt} means to you. Second, list what you tried. Third, try the smallest of the rest.",
    "asking": "Before I answer {prompt}: what have you tried, and what would a good answer let you do?",
    "careful": "I may be wrong about {prompt}. What I am fairly sure of: look at the data before you decide.",
}


@dataclass(frozen=True)
class CannedUpstream:
    """An ASGI application that answers every question in one manner, or each model in one of several.

    Args:
        style: one of terse, chatty, list, steps, asking, careful; with commas, the one that the model is called, or
            else what its name falls on.
        key: what Authorization must carry; "": nothing is asked.
        word_seconds: pause between streamed words.
    """

    style: str = "terse"
    key: str = ""
    word_seconds: float = 0.0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer /v1/chat/completions and /v1/models."""
        if scope["type"] != "http":
            return None
        if self.key and (b"authorization", f"Bearer {self.key}".encode()) not in scope["headers"]:
            return await _reply(send, 401, _error(f"Incorrect API key provided; expected {self.key[:4]}...", "auth"))
        if scope["path"] == "/v1/models":
            return await _reply(send, 200, {"object": "list", "data": [{"id": self.style, "object": "model"}]})
        try:
            body = json.loads(await _body(receive))
            prompt = _prompt(body["messages"])
        except (ValueError, LookupError, TypeError, AttributeError):
            return await _reply(send, 400, _error("messages are missing", "invalid_request_error"))
        tools = body.get("tools")
        text = self.text(prompt, str(body.get("model", "")))
        message = _calls(tools[0], prompt) if tools else {"role": "assistant", "content": text}
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return await self._stream(send, message, prompt, usage)
        return await _reply(send, 200, self._completion(message, prompt))

    def text(self, prompt: str, model: str = "") -> str:
        """Return the answer of a model to a prompt."""
        styles = self.style.split(",")
        style = model if model in styles else styles[crc32(model.encode()) % len(styles)]
        return _STYLES[style].format(prompt=prompt.strip().rstrip("?.!") or "nothing")

    def _completion(self, message: dict[str, Any], prompt: str) -> dict[str, Any]:
        choice = {"index": 0, "message": message, "finish_reason": _reason(message)}
        return {**self._head("chat.completion"), "choices": [choice], "usage": _usage(prompt, message)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.style}", "object": kind, "created": 1_700_000_000, "model": f"{self.style}-1"}

    async def _stream(self, send: Send, message: dict[str, Any], prompt: str, usage: bool) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        async for delta in self._deltas(message):
            reason = _reason(message) if not delta else None
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            await _event(send, {**self._head("chat.completion.chunk"), "choices": [choice]})
        if usage:
            last = {**self._head("chat.completion.chunk"), "choices": [], "usage": _usage(prompt, message)}
            await _event(send, last)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

    async def _deltas(self, message: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        yield {"role": "assistant", "content": "" if message.get("content") else None}
        if calls := message.get("tool_calls"):
            yield {"tool_calls": [{"index": 0, **calls[0]}]}
        for place, word in enumerate((message.get("content") or "").split(" ")):
            if word or place:
                if self.word_seconds:
                    await asyncio.sleep(self.word_seconds)
                yield {"content": f" {word}" if place else word}
        yield {}


def _prompt(messages: Sequence[dict[str, Any]]) -> str:
    content = next((one.get("content") for one in reversed(messages) if one.get("role") == "user"), "")
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content or [])


def _calls(tool: dict[str, Any], prompt: str) -> dict[str, Any]:
    """Return a message that calls a tool with the prompt for its first argument."""
    function = tool["function"]
    names = list((function.get("parameters") or {}).get("properties") or {})
    arguments = json.dumps({names[0]: prompt} if names else {})
    call = {"id": "call_1", "type": "function", "function": {"name": function["name"], "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _reason(message: dict[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def _usage(prompt: str, message: dict[str, Any]) -> dict[str, int]:
    read, written = len(prompt.split()), len((message.get("content") or "call").split())
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _error(message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


async def _body(receive: Receive) -> bytes:
    raw = b""
    while (message := await receive())["type"] == "http.request":
        raw += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return raw


async def _event(send: Send, value: dict[str, Any]) -> None:
    data = b"data: " + json.dumps(value).encode() + b"\n\n"
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _reply(send: Send, status: int, value: dict[str, Any]) -> None:
    body = json.dumps(value).encode()
    headers = [*_JSON, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})

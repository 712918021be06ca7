"""What a chat completion asks of the gateway: which agents may answer, at what context, and what is forwarded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nasheval.files import parse_json
from nasheval.serving.upstreams import NamedPolicy, Upstreams

AGENTS, OPT_OUT, SESSION, CONTEXT = "x-nasheval-agents", "x-nasheval-opt-out", "x-nasheval-session", "x-nasheval-context"
OURS = "nasheval"  # the field of a body that is for the gateway alone
_FIELDS = ("context", "agents", "budget", "cost_weight", "session", "prompt")
_FALSE = ("", "0", "false", "no", "off")


class Refused(Exception):
    """A request that the gateway refuses.

    Args:
        status: of HTTP.
        code: a word for programs.
        message: what was given, what is accepted, what to do.
        argument: the field or header concerned.
        headers: of the answer.
        failures: what each upstream that was asked did.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        argument: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        failures: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.argument = status, code, message, argument
        self.headers, self.failures = dict(headers or {}), list(failures)

    def error(self) -> dict[str, Any]:
        """Return what stands under "error": the service's fields and those that clients of OpenAI read."""
        kind = "invalid_request_error" if self.status < 500 else "upstream_error"
        named = self.argument or None
        error = {"message": self.message, "type": kind, "param": named, "code": self.code, "argument": named}
        return {**error, "failures": self.failures} if self.failures else error

    def body(self) -> bytes:
        """Return the answer's JSON."""
        return json.dumps({"error": self.error()}, ensure_ascii=False).encode("utf-8", "replace")


@dataclass(frozen=True)
class Ask:
    """One chat completion, understood.

    Args:
        model: what was asked for: "nasheval", a policy, or an agent.
        agents: the agents that may answer; one alone where it was asked for by name.
        named: whether one agent was asked for by name, so that no lottery is drawn and nobody takes its place.
        opted_out: whether the most probable agent is to answer, without a draw, and nothing is to be kept.
        context: columns and their values.
        prompt: the last message of the user, as text; None where there is none.
        budget, cost_weight: terms of the lottery.
        session: whose agent stays the same; None: none.
        streamed: whether the answer is streamed.
        body: what is forwarded, but for `model`.
    """

    model: str
    agents: tuple[str, ...]
    named: bool
    opted_out: bool
    context: Mapping[str, Any]
    prompt: str | None
    budget: float | None
    cost_weight: float | None
    session: str | None
    streamed: bool
    body: Mapping[str, Any]


def understood(raw: bytes, headers: Mapping[str, str], upstreams: Upstreams, known: Sequence[str]) -> Ask:
    """Return what a request asks; raises Refused.

    Args:
        raw: its body.
        headers: by small name.
        upstreams: where agents are found.
        known: agents of the model of votes.
    """
    try:
        body = parse_json(raw)
    except ValueError as error:
        raise Refused(400, "invalid_json", f"the body is {' '.join(str(error).split())[:200]}") from None
    ours = _ours(body.pop(OURS, None))
    model, streamed = body.get("model"), body.get("stream", False)
    if not isinstance(model, str) or not model:
        raise Refused(400, "no_model", f"model is missing; accepted are {_accepted(upstreams)}", "model")
    if not isinstance(streamed, bool | None):
        raise Refused(400, "invalid", "stream is neither true nor false", "stream")
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        raise Refused(400, "invalid", "messages are missing; send a list with at least one message", "messages")
    named = model in upstreams.upstreams
    policy = upstreams.policies.get(model, NamedPolicy(model))
    if not named and model not in upstreams.policies:
        said = f"there is no model {model!r:.80}; accepted are {_accepted(upstreams)}"
        raise Refused(404, "model_not_found", said, "model")
    prompt = ours.get("prompt")
    return Ask(
        model=model,
        agents=(model,) if named else _candidates(policy, ours.get("agents"), headers, upstreams, known),
        named=named,
        opted_out=headers.get(OPT_OUT, "").strip().lower() not in _FALSE,
        context=_context(ours.get("context"), headers),
        prompt=prompt_of(body["messages"]) if prompt is None else prompt,
        budget=_number(ours, "budget", policy.budget),
        cost_weight=_number(ours, "cost_weight", policy.cost_weight),
        session=_session(ours.get("session"), headers),
        streamed=bool(streamed),
        body=body,
    )


def prompt_of(messages: Sequence[Any]) -> str | None:
    """Return the text of the last message of the user; None where there is none."""
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = message.get("content")
            parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
            texts = [part if isinstance(part, str) else _text(part) for part in parts]
            return "\n".join(filter(None, texts)) or None
    return None


def _text(part: object) -> str:
    text = part.get("text") if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else ""


def _ours(given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise Refused(400, "invalid", f"{OURS} is no object; accepted are its fields {', '.join(_FIELDS)}", OURS)
    for name in given:
        if name not in _FIELDS:
            said = f"there is no field {name!r:.80}; accepted are {', '.join(_FIELDS)}"
            raise Refused(400, "unknown_field", said, f"{OURS}.{name:.60}")
    if not isinstance(given.get("prompt"), str | None):
        raise Refused(400, "invalid", "prompt is no text", f"{OURS}.prompt")
    return given


def _candidates(
    policy: NamedPolicy, given: object, headers: Mapping[str, str], upstreams: Upstreams, known: Sequence[str]
) -> tuple[str, ...]:
    """Return the agents that have votes and an upstream, and are not ruled out by policy, body or header."""
    allowed = [agent for agent in upstreams.upstreams if agent in known]
    wanted: list[tuple[str, Sequence[Any]]] = []
    if given is not None:
        if not isinstance(given, list) or not given:
            raise Refused(400, "invalid", "agents are no list of names", f"{OURS}.agents")
        wanted.append((f"{OURS}.agents", given))
    if AGENTS in headers:
        wanted.append((AGENTS, [name.strip() for name in headers[AGENTS].split(",") if name.strip()]))
    for where, names in wanted:
        for name in names:
            if name not in allowed:
                said = f"there is no agent {str(name)[:80]!r}; accepted are {', '.join(allowed)}"
                raise Refused(400, "unknown_agent", said, where)
    rest = [agent for agent in allowed if policy.agents is None or agent in policy.agents]
    rest = [agent for agent in rest if all(agent in names for _, names in wanted)]
    if not rest:
        raise Refused(400, "no_agent", "no agent is left that may answer; allow more", wanted[0][0] if wanted else "model")
    return tuple(rest)


def _context(given: object, headers: Mapping[str, str]) -> Mapping[str, Any]:
    where = f"{OURS}.context"
    if given is None and CONTEXT in headers:
        where = CONTEXT
        try:
            given = parse_json(headers[CONTEXT])
        except ValueError as error:
            raise Refused(400, "invalid", f"it is {' '.join(str(error).split())[:200]}", CONTEXT) from None
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise Refused(400, "invalid", "context is no object of columns and their values", where)
    return given


def _number(ours: Mapping[str, Any], name: str, otherwise: float | None) -> float | None:
    value = ours.get(name)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e30:
        raise Refused(400, "invalid", f"{name} is no number from 0", f"{OURS}.{name}")
    return float(value)


def _session(given: object, headers: Mapping[str, str]) -> str | None:
    session = headers.get(SESSION) or None if given is None else given
    if session is not None and (not isinstance(session, str) or len(session) > 512):
        raise Refused(400, "invalid", "session is no text of at most 512 characters", f"{OURS}.session")
    return session


def _accepted(upstreams: Upstreams) -> str:
    return ", ".join([*upstreams.policies, *upstreams.upstreams])

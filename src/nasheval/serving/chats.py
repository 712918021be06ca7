"""What a chat completion asks of the gateway: which agents may answer, at what context, and what is forwarded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from nasheval.files import parse_json
from nasheval.serving.bodies import Agents, Body, Context, Name, Text
from nasheval.serving.problems import Problem
from nasheval.serving.strict import parsed
from nasheval.serving.upstreams import NamedPolicy, Upstreams

AGENTS, OPT_OUT, SESSION, CONTEXT = (
    "x-nasheval-agents",
    "x-nasheval-opt-out",
    "x-nasheval-session",
    "x-nasheval-context",
)
OURS = "nasheval"  # the field of a body that is for the gateway alone
_FALSE = ("", "0", "false", "no", "off")


class Refused(Problem):
    """A request that the gateway refuses; its error has the service's fields, and those that OpenAI's clients read.

    Args:
        failures: what each upstream that was asked did.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        argument: str = "",
        headers: Mapping[str, str] | None = None,
        failures: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(status, code, message, argument, headers)
        self.failures = list(failures)

    @classmethod
    def of(cls, problem: Problem, prefix: str = "") -> Refused:
        """Return a problem of the service in this shape."""
        argument = f"{prefix}{problem.argument}" if problem.argument else ""
        return cls(problem.status, problem.code, problem.message, argument, problem.headers)

    def error(self) -> dict[str, Any]:
        """Return what stands under "error"."""
        kind = "invalid_request_error" if self.status < 500 else "upstream_error"
        named = self.argument or None
        error = {"message": self.message, "type": kind, "param": named, "code": self.code, "argument": named}
        return {**error, "failures": self.failures} if self.failures else error

    def body(self) -> bytes:
        """Return the answer's JSON."""
        return json.dumps({"error": self.error()}, ensure_ascii=False).encode("utf-8", "replace")


class ChatTerms(Body):
    """The field `nasheval` of a chat completion: what is for the gateway alone."""

    context: Context = Field(default_factory=dict)
    prompt: Text | None = Field(None, description="What to route by, in place of the user's last message.")
    agents: Agents | None = Field(None, description="Those that may answer.")
    budget: float | None = Field(None, ge=0, le=1e30)
    cost_weight: float | None = Field(None, ge=0, le=1e30)
    session: Name | None = Field(None, description="Requests of one session get one agent.")


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
    ours = _terms(body.pop(OURS, None), headers)
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
    return Ask(
        model=model,
        agents=(model,) if named else _candidates(policy, ours.agents, headers, upstreams, known),
        named=named,
        opted_out=headers.get(OPT_OUT, "").strip().lower() not in _FALSE,
        context=ours.context,
        prompt=prompt_of(body["messages"]) if ours.prompt is None else ours.prompt,
        budget=policy.budget if ours.budget is None else ours.budget,
        cost_weight=policy.cost_weight if ours.cost_weight is None else ours.cost_weight,
        session=ours.session,
        streamed=bool(streamed),
        body=body,
    )


_NO_TERMS = ChatTerms.model_validate({})


def _terms(given: object, headers: Mapping[str, str]) -> ChatTerms:
    """Return the gateway's own terms, from the body and, where it leaves them out, from headers."""
    if not isinstance(given, dict | None):
        raise Refused(400, "invalid", f"{OURS} is no object; accepted are {', '.join(ChatTerms.model_fields)}", OURS)
    terms = dict(given or {})
    if CONTEXT in headers and "context" not in terms:
        try:
            terms["context"] = parse_json(_utf8(headers[CONTEXT]))
        except ValueError as error:
            raise Refused(400, "invalid", f"it is {' '.join(str(error).split())[:200]}", CONTEXT) from None
    if headers.get(SESSION) and "session" not in terms:
        terms["session"] = _utf8(headers[SESSION])
    try:
        return parsed(json.dumps(terms).encode(), ChatTerms, 16) if terms else _NO_TERMS
    except Problem as problem:
        raise Refused.of(problem, f"{OURS}.") from None


def _utf8(header: str) -> str:
    """Return a header that was sent as UTF-8."""
    return header.encode("latin-1").decode("utf-8", "replace")


def prompt_of(messages: Sequence[Any]) -> str | None:
    """Return the text of the last message of the user; None where there is none."""
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = message.get("content")
            parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
            texts = [part if isinstance(part, str) else _text(part) for part in parts]
            return "\n".join(filter(None, texts)).replace("\0", "") or None  # a store cannot hold NUL
    return None


def _text(part: object) -> str:
    text = part.get("text") if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else ""


def _candidates(
    policy: NamedPolicy, given: list[str] | None, headers: Mapping[str, str], upstreams: Upstreams, known: Sequence[str]
) -> tuple[str, ...]:
    """Return the agents that have votes and an upstream, and are not ruled out by policy, body or header."""
    allowed = [agent for agent in upstreams.upstreams if agent in known]
    wanted = [] if given is None else [(f"{OURS}.agents", given)]
    if AGENTS in headers:
        wanted.append((AGENTS, [name.strip() for name in _utf8(headers[AGENTS]).split(",") if name.strip()]))
    for where, names in wanted:
        for name in names:
            if name not in allowed:
                said = f"there is no agent {name!r:.80}; accepted are {', '.join(allowed)}"
                raise Refused(400, "unknown_agent", said, where)
    rest = [agent for agent in allowed if policy.agents is None or agent in policy.agents]
    rest = [agent for agent in rest if all(agent in names for _, names in wanted)]
    if not rest:
        raise Refused(
            400, "no_agent", "no agent is left that may answer; allow more", wanted[0][0] if wanted else "model"
        )
    return tuple(rest)


def _accepted(upstreams: Upstreams) -> str:
    return ", ".join([*upstreams.policies, *upstreams.upstreams])

"""`/v1/compare` with `answers`: ask the upstreams and show their answers without names; and the votes on these."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response

from nasheval.serving import endpoints
from nasheval.serving.about import about
from nasheval.serving.bodies import CompareRequest, FeedbackRequest
from nasheval.serving.chats import Refused
from nasheval.serving.endpoints import collect, json_response, new_decision, service_of, store_row
from nasheval.serving.forwarding import Fault
from nasheval.serving.gateway import Gateway
from nasheval.serving.guard import BODY, CLIENT
from nasheval.serving.problems import invalid
from nasheval.serving.schema import DECISIONS
from nasheval.serving.sealing import PREFIX, letters, named, sealed, unsealed
from nasheval.serving.service import Service
from nasheval.serving.strict import parsed
from nasheval.serving.tokens import opened
from nasheval.serving.voting import FORMS, answer_of, menu_of

_MOST = 8  # answers at once


async def compare(request: Request) -> Response:
    """Draw a menu to show a voter, with `answers` also what its agents say, without names; it is stored beforehand."""
    service, gateway = service_of(request), request.app.state.gateway
    asked = parsed(request.scope[BODY], CompareRequest, service.settings.max_depth)
    if not asked.answers:
        return await endpoints.compare(request)
    if gateway is None:
        said = "this service has no upstreams to ask; start it with --upstreams upstreams.toml"
        raise invalid(said, "answers", "no_upstreams")
    if not (asked.prompt or "").strip():
        raise invalid("prompt is missing: there is nothing to answer", "prompt")
    return json_response(await answered(service, gateway, asked, request.scope[CLIENT]))


async def answered(service: Service, gateway: Gateway, asked: CompareRequest, client: str) -> dict[str, Any]:
    """Return answers in the order in which they are to be shown; where an agent fails, a menu of others is drawn."""
    allowed = [agent for agent in service.decider.agents if agent in gateway.upstreams.upstreams]
    rest = [agent for agent in allowed if asked.agents is None or agent in asked.agents]
    for agent in asked.agents or ():
        if agent not in allowed:
            raise invalid(f"{agent!r:.80} has no upstream, or no votes; accepted are {', '.join(allowed)}", "agents")
    if not 2 <= asked.size <= min(len(rest), _MOST):
        raise invalid(
            f"size is {asked.size}; accepted is 2 to {min(len(rest), _MOST)}, the agents that can answer", "size"
        )
    known: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    while len(rest) >= asked.size:
        token, menu, version = await _drawn(service, asked, rest, list(faults), client)
        await _ask(gateway, [agent for agent in menu if agent not in known], asked.prompt or "", known, faults)
        if all(agent in known for agent in menu):
            texts = [
                {"label": label, "text": known[agent]} for label, agent in zip(letters(len(menu)), menu, strict=True)
            ]
            return {"decision_id": sealed(token, service.secret), "answers": texts, "model_version": version}
        rest = [agent for agent in rest if agent not in faults]
    # Their names stay in the log: whoever is to vote without names is not told who failed.
    raise Refused(502, "upstreams_failed", f"too few agents answered ({len(faults)} failed); try again later")


async def _drawn(
    service: Service, asked: CompareRequest, agents: Sequence[str], failed: list[str], client: str
) -> tuple[str, list[str], str]:
    """Draw a menu among agents and store it; return its id, it, and the model's version."""
    decider = service.decider
    prompt = None if decider.prompt_column is None else asked.prompt
    context = decider.context(asked.context, prompt)
    answer = await asyncio.to_thread(decider.answer, context, agents=agents)
    menu, propensity = decider.menu(context, answer, asked.size)
    kept = about(decider, context, service.secret, keep_prompts=service.settings.keep_prompts)
    terms = {"agents": list(agents), "size": asked.size, "answers": True, "failed": failed or None}
    token, row = new_decision(
        service, decider, "compare", menu, propensity, kept,
        client=client, session=None, answer=answer, reason="", terms=terms,
    )  # fmt: skip
    await store_row(service, DECISIONS.name, row)
    service.metrics.add("decisions_compared")
    return token, menu, decider.version


async def _ask(
    gateway: Gateway, agents: Sequence[str], prompt: str, known: dict[str, str], faults: dict[str, Fault]
) -> None:
    messages = [{"role": "user", "content": prompt}]
    found = await asyncio.gather(*(gateway.text_of(agent, messages) for agent in agents), return_exceptions=True)
    for agent, text in zip(agents, found, strict=True):
        if isinstance(text, Fault):
            faults[agent] = text
        elif isinstance(text, BaseException):
            raise text
        else:
            known[agent] = text


async def feedback(request: Request) -> Response:
    """Store a vote; it is durable when this answers. The same key again stores nothing and answers the same."""
    service = service_of(request)
    vote = parsed(request.scope[BODY], FeedbackRequest, service.settings.max_depth)
    if vote.decision_id is None or not vote.decision_id.startswith(PREFIX):
        return await endpoints.feedback(request)
    vote, menu = _opened_vote(vote, service.secret)
    name, repeated = await collect(service, vote, request.scope[CLIENT], once=True)
    agents = dict(zip(letters(len(menu)), menu, strict=True))
    return json_response({"id": name, "duplicate": repeated, "agents": agents}, 201)


def _opened_vote(vote: FeedbackRequest, secret: bytes) -> tuple[FeedbackRequest, tuple[str, ...]]:
    """Return a vote on answers without names as one on agents, and the agents in the order shown."""
    token = unsealed(vote.decision_id or "", secret)
    decision = None if token is None else opened(token, secret)
    if decision is None:
        raise invalid("no decision of this service has this id; give it as it was answered", "decision_id")
    shown = letters(len(decision.menu))
    blocks, zero = answer_of(vote, menu_of(vote, shown))  # what is wrong is said in letters, which name nobody
    said = [] if blocks is None else json.loads(blocks)
    changes = dict.fromkeys(("menu", *FORMS, "worst")) | {"decision_id": token, "zero": zero}
    changes |= {"blocks": named(said, decision.menu) or None}
    return vote.model_copy(update=changes), decision.menu

"""What each route does: parse, decide or store, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic_core import to_json
from sqlalchemy.exc import SQLAlchemyError

from nasheval.serving.about import NOTHING, About, about
from nasheval.serving.bodies import CompareRequest, FeedbackRequest, ForgetRequest, RouteRequest
from nasheval.serving.clock import now
from nasheval.serving.database import plainly
from nasheval.serving.deciding import Answer, Decider
from nasheval.serving.forgetting import SESSION, forget
from nasheval.serving.guard import BODY, CLIENT
from nasheval.serving.problems import Problem, already_voted, invalid, unavailable
from nasheval.serving.schema import DECISIONS, SESSIONS, VOTES
from nasheval.serving.service import Service
from nasheval.serving.strict import parsed
from nasheval.serving.tokens import Decision, digest_of, keyed, new_id, opened, share_of, signed
from nasheval.serving.voting import answer_of, menu_of

_Found = TypeVar("_Found")
ONE_VOTE = "one vote"  # purpose of the id of a vote on a decision that takes one
LONG = 4096  # characters of a prompt that is embedded in a thread of its own, while others are answered
_ROUNDS = 3  # of workers that draw for one session at once
_WAIT, _LOOKS = 0.05, 20  # for a decision that another worker has not stored yet


def service_of(request: Request) -> Service:
    """Return the service of the worker."""
    service: Service = request.app.state.service
    return service


def json_response(value: Any, status: int = 200) -> Response:
    """Return an answer; nothing of it may be kept by proxies."""
    return Response(to_json(value), status, {"cache-control": "no-store"}, "application/json")


# -- deciding ---------------------------------------------------------------------------------------------------------


async def route(request: Request) -> Response:
    """Choose an agent for a context, a prompt, or both."""
    service, scope = service_of(request), request.scope
    asked = parsed(scope[BODY], RouteRequest, service.settings.max_depth)
    return json_response(await decide(service, asked, scope[CLIENT]))


async def decide(service: Service, asked: RouteRequest, client: str) -> dict[str, Any]:
    """Return the answer of /v1/route, and keep the decision."""
    decider, secret = service.decider, service.secret
    context = decider.context(asked.context, asked.prompt)
    terms: dict[str, Any] = {"agents": asked.agents, "budget": asked.budget, "cost_weight": asked.cost_weight}
    began = perf_counter()
    if asked.prompt is not None and len(asked.prompt) > LONG:
        answer = await asyncio.to_thread(decider.answer, context, **terms)
    else:
        answer = decider.answer(context, **terms)
    default = _default(service, decider, asked, answer)
    hashed = keyed(secret, SESSION, asked.session) if asked.session else None
    unsure = decider.unsure(context, answer) if default else ""
    if unsure:
        agent, propensity, reason = default, 1.0, f"{default} by default: {unsure}"
        service.metrics.add("decisions_declined")
    elif hashed is not None:
        agent, propensity, reason = await sticky(service, decider, asked, context, answer, hashed)
    else:
        drawn = decider.draw(answer.lottery)
        agent, propensity = decider.agents[drawn], float(answer.lottery[drawn])
        reason = decider.reason(answer, agent)
    service.metrics.decided(perf_counter() - began)
    kept = about(decider, context, secret, keep_prompts=service.settings.keep_prompts)
    token, row = new_decision(
        service, decider, "route", [agent], propensity, kept,
        client=client, session=hashed, answer=answer, reason=reason, terms=terms,
    )  # fmt: skip
    service.writer.keep(row)
    service.metrics.add("decisions_routed")
    return {
        "decision_id": token,
        "agent": agent,
        "lottery": answer.shares,
        "winners": answer.winners,
        "propensity": propensity,
        "reason": reason,
        "expected_cost": answer.expected_cost,
        "declined": bool(unsure),
        "model_version": decider.version,
    }


def _default(service: Service, decider: Decider, asked: RouteRequest, answer: Answer) -> str:
    """Return the agent to decline to: the request's own, or the service's where the request allows it; "" for none."""
    if asked.default and asked.default not in decider.agents:
        raise invalid(f"there is no agent {asked.default!r:.80} to decline to", "default", "unknown_agent")
    default = service.settings.default
    return asked.default or (default if default and answer.up[decider.agents.index(default)] else "")


async def sticky(
    service: Service, decider: Decider, asked: RouteRequest, context: dict[str, Any], answer: Answer, hashed: str
) -> tuple[str, float, str]:
    """Return the agent of a session, drawn at its first request, with the propensity of that draw, and why.

    It is drawn anew when it may not be chosen any more: it is not among the agents that are up, or costs more than the
    budget. Workers that draw at once agree on the first that was stored.
    """
    try:
        known = await service.session(hashed)
        for _ in range(_ROUNDS):
            if known is not None and _may_stay(decider, asked, context, answer, known["agent"]):
                said = f"{known['agent']} stays with its session, drawn with {known['propensity']:.2f}"
                return known["agent"], known["propensity"], said
            draw = 0 if known is None else known["draw"] + 1
            place = decider.draw(answer.lottery, share_of(service.secret, f"{hashed} {draw}"))
            row = {
                "session": hashed, "draw": draw, "agent": decider.agents[place],
                "propensity": float(answer.lottery[place]), "version": decider.version, "at": now(),
            }  # fmt: skip
            stored = dict(await service.writer.store(SESSIONS.name, row))
            if stored == row:
                return row["agent"], row["propensity"], decider.reason(answer, row["agent"])
            known = stored
        trouble = "others changed it at the same time"
    except (Problem, SQLAlchemyError) as error:
        trouble = error.message.partition(";")[0] if isinstance(error, Problem) else plainly(error)
    place = decider.draw(answer.lottery, share_of(service.secret, f"{hashed} 0"))  # the same in every worker
    agent = decider.agents[place]
    reason = f"{decider.reason(answer, agent)}; the session could not be kept ({trouble})"
    return agent, float(answer.lottery[place]), reason


def _may_stay(decider: Decider, asked: RouteRequest, context: dict[str, Any], answer: Answer, agent: str) -> bool:
    if agent not in decider.agents or not answer.up[decider.agents.index(agent)]:
        return False
    return asked.budget is None or decider.costs_of(context).get(agent, 0.0) <= asked.budget


async def compare(request: Request) -> Response:
    """Draw a menu to show a voter; it is stored before it is answered."""
    service, scope = service_of(request), request.scope
    asked = parsed(scope[BODY], CompareRequest, service.settings.max_depth)
    decider = service.decider
    context = decider.context(asked.context, asked.prompt)
    answer = decider.answer(context, agents=asked.agents)
    menu, propensity = decider.menu(context, answer, asked.size)
    kept = about(decider, context, service.secret, keep_prompts=service.settings.keep_prompts)
    token, row = new_decision(
        service, decider, "compare", menu, propensity, kept,
        client=scope[CLIENT], session=None, answer=answer, reason="",
        terms={"agents": asked.agents, "size": asked.size},
    )  # fmt: skip
    await store_row(service, DECISIONS.name, row)
    service.metrics.add("decisions_compared")
    lottery = answer.shares
    return json_response(
        {
            "decision_id": token,
            "menu": menu,
            "propensity": propensity,
            "lottery": lottery,
            "model_version": decider.version,
        }
    )


def new_decision(
    service: Service,
    decider: Decider,
    kind: str,
    menu: Sequence[str],
    propensity: float,
    kept: About,
    *,
    client: str,
    session: str | None,
    answer: Answer,
    reason: str,
    terms: dict[str, Any],
) -> tuple[str, dict[str, Any]]:
    """Return the signed id of a decision, and its row."""
    decision = Decision(new_id(), kind, decider.version, tuple(menu), propensity, kept.digest)
    row = {
        "id": decision.id, "kind": kind, "version": decider.version, "at": now(), "client": client, "session": session,
        "menu": to_json(list(menu)).decode(), "propensity": propensity,
        "lottery": to_json(answer.shares).decode(), "reason": reason,
        "terms": to_json({name: one for name, one in terms.items() if one is not None}).decode(),
        **kept.columns,
    }  # fmt: skip
    return signed(decision, service.secret), row


async def store_row(service: Service, table: str, row: dict[str, Any]) -> Any:
    """Store a row durably; a store that does not answer is a problem of the request."""
    try:
        outcome = await service.writer.store(table, row)
    except Problem as problem:
        if problem.status == 503:
            service.metrics.add("store_failures")
        raise
    if isinstance(outcome, Problem):
        raise outcome
    return outcome


# -- collecting -------------------------------------------------------------------------------------------------------


async def feedback(request: Request) -> Response:
    """Store a vote; it is durable when this answers. The same key again stores nothing and answers the same."""
    service, scope = service_of(request), request.scope
    vote = parsed(scope[BODY], FeedbackRequest, service.settings.max_depth)
    name, repeated = await collect(service, vote, scope[CLIENT])
    return json_response({"id": name, "duplicate": repeated}, 201)


async def collect(service: Service, vote: FeedbackRequest, client: str, *, once: bool = False) -> tuple[str, bool]:
    """Store a vote; return its id, and whether it was there before.

    Args:
        once: whether its decision takes one vote, since whoever has voted is told whose the answers were.
    """
    decider = service.decider
    decision = None if vote.decision_id is None else opened(vote.decision_id, service.secret)
    if vote.decision_id is not None and decision is None:
        raise invalid(
            "no decision of this service has this id; give it as it was answered", "decision_id", "unknown_decision"
        )
    proposed = decision.menu if decision is not None and decision.kind == "compare" else None
    menu = menu_of(vote, proposed)
    if proposed is None:
        _check_known(service, decider, menu)
    blocks, zero = answer_of(vote, menu)
    columns = await _context_of(service, decider, vote, decision)
    said: dict[str, Any] = {"menu": sorted(menu), "blocks": blocks, "zero": zero, "voter": vote.voter}
    said |= {"decision": decision and decision.id, "context": columns["context"], "prompt": columns["prompt_hash"]}
    name = keyed(service.secret, ONE_VOTE, decision.id) if once and decision is not None else new_id()
    row = {
        "id": name, "client": client, "key": vote.key, "digest": digest_of(service.secret, said),
        "decision": decision.id if decision else None, "version": decision.version if decision else decider.version,
        "at": now(), "voter": vote.voter, "menu": to_json(menu).decode(), "blocks": blocks, "zero": zero,
        "propensity": decision.propensity if decision is not None and proposed is not None else None, **columns,
    }  # fmt: skip
    if once and decision is not None and (earlier := await _read(service, service.vote_on, decision.id)) is not None:
        if earlier[1] != row["digest"]:
            raise already_voted()
        service.metrics.add("votes_repeated")
        return earlier[0], True
    name, repeated = await store_row(service, VOTES.name, row)
    service.metrics.add("votes_repeated" if repeated else "votes_stored")
    return name, repeated


def _check_known(service: Service, decider: Decider, menu: Sequence[str]) -> None:
    for agent in menu:
        if agent not in decider.agents and agent not in service.settings.new_agents:
            said = f"there is no agent {agent!r:.80}; name it with --new-agents when starting, if it is a new one"
            raise invalid(said, "menu", "unknown_agent")


async def _context_of(
    service: Service, decider: Decider, vote: FeedbackRequest, decision: Decision | None
) -> dict[str, Any]:
    """Return the columns of a vote's context: nothing where its decision has them."""
    kept = None
    if vote.context is not None or vote.prompt is not None or decision is None:
        context = decider.context(vote.context or {}, vote.prompt)
        kept = about(decider, context, service.secret, keep_prompts=service.settings.keep_prompts)
    if decision is None:
        assert kept is not None
        return kept.columns
    if kept is not None and kept.digest != decision.about:
        raise invalid("context or prompt is not that of the decision; leave them out", "context", "other_context")
    if kept is None and not await _is_stored(service, decision):
        said = "the decision is not stored: it was deleted, or a worker died; give its context and prompt once more"
        raise Problem(409, "decision_lost", said, "decision_id")
    return NOTHING if kept is None else kept.columns


async def _is_stored(service: Service, decision: Decision) -> bool:
    """Tell whether a decision is stored; one of /v1/route another worker may be about to store."""
    for _ in range(_LOOKS if decision.kind == "route" else 1):
        if await _read(service, service.has_decision, decision.id):
            return True
        await asyncio.sleep(_WAIT)
    return False


async def _read(service: Service, question: Callable[[str], Awaitable[_Found]], name: str) -> _Found:
    """Return what the store says of a name; a store that does not answer is a problem of the request."""
    try:
        return await question(name)
    except SQLAlchemyError as error:
        service.metrics.add("store_failures")
        raise unavailable(plainly(error)) from None


# -- operating --------------------------------------------------------------------------------------------------------


async def health(request: Request) -> Response:
    """Say that the process runs."""
    return json_response({"status": "ok"})


async def ready(request: Request) -> Response:
    """Say whether it can answer; where there are no keys, or with one, also what it cannot do at the moment."""
    service = service_of(request)
    said: dict[str, Any] = {"status": "ready"}
    how, _, given = request.headers.get("authorization", "").partition(" ")
    if service.keys is None or (how.lower() == "bearer" and service.keys.find(given.strip())):
        said |= {"model_version": service.decider.version, "problems": service.troubles()}
    return json_response(said)


async def metrics(request: Request) -> Response:
    """Counters of all workers for Prometheus."""
    service = service_of(request)
    gauges = {
        "nasheval_requests_in_flight": ("Requests under way in the worker that answers.", service.in_flight),
        "nasheval_problems": ("Problems that /ready lists in the worker that answers.", len(service.troubles())),
    }
    return Response(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")


async def models(request: Request) -> Response:
    """List the versions of the model, and which served when."""
    service = service_of(request)
    try:
        return json_response(await asyncio.to_thread(_models, service))
    except SQLAlchemyError as error:
        raise unavailable(plainly(error)) from None


def _models(service: Service) -> dict[str, Any]:
    lines = [
        {"version": one.name, "at": one.at, "origin": one.origin, "votes_until": one.votes_until, "note": one.note}
        for one in service.versions.all()
    ]
    history = [{"version": name, "at": at, "reason": why} for name, at, why in service.versions.history()]
    loaded = service.decider.version
    return {"serving": history[0]["version"], "loaded": loaded, "models": lines, "history": history}


async def forget_data(request: Request) -> Response:
    """Delete all that is stored of a vote's key, a voter, a session, a prompt or an API key."""
    service = service_of(request)
    asked = parsed(request.scope[BODY], ForgetRequest, service.settings.max_depth)
    named = asked.model_dump(exclude_none=True)
    if len(named) != 1:
        raise invalid("name one thing to delete: key, voter, session, prompt or client", "key")
    [(what, value)] = named.items()
    try:
        return json_response(await asyncio.to_thread(forget, service.engine, service.secret, what, value))
    except SQLAlchemyError as error:
        raise unavailable(plainly(error)) from None

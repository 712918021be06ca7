"""`/v1/status`: requests, latency, votes, store, versions, upstreams and drift, for the page and for programs."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from fastapi import Request, Response
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from nasheval.serving.clock import now
from nasheval.serving.database import plainly, shown
from nasheval.serving.endpoints import json_response, service_of
from nasheval.serving.exploring import Explorer, drift_of, recent_contexts
from nasheval.serving.schema import DECISIONS, VOTES
from nasheval.serving.service import Service

_HOUR, _HOURS = 3600.0, 24
_LINE = re.compile(r'nasheval_(requests_total|request_seconds_bucket)\{route="([^"]+)",(?:status|le)="([^"]+)"\} (\S+)')


async def status(request: Request) -> Response:
    """Say what the service did and how it is."""
    service, app = service_of(request), request.app
    found: dict[str, Any] = {
        "now": now(),
        "model_version": service.decider.version,
        "agents": list(service.decider.agents),
        "store": shown(service.settings.store),
        "problems": service.troubles(),
        "in_flight": service.in_flight,
        "routes": routes_of(service.metrics.text({})),
        "gateway": None if app.state.gateway is None else app.state.gateway.tally.to_dict(),
    }
    try:
        found |= await asyncio.to_thread(_stored, service, app.state.explorer)
    except SQLAlchemyError as error:
        found |= {"votes": None, "drift": None, "history": []}
        found["problems"] = [*found["problems"], f"store: {plainly(error)}"]
    return json_response(found)


def routes_of(metrics: str) -> list[dict[str, Any]]:
    """Return requests and times by route, from the text for Prometheus; those without a request are left out."""
    counts: dict[str, dict[str, float]] = {}
    buckets: dict[str, list[tuple[float, float]]] = {}
    for kind, route, label, value in _LINE.findall(metrics):
        if kind == "requests_total":
            counts.setdefault(route, {})[label] = float(value)
        else:
            buckets.setdefault(route, []).append((float(label), float(value)))
    return [
        {
            "route": route,
            "requests": int(sum(by_status.values())),
            "errors": int(by_status.get("5xx", 0)),
            "refused": int(by_status.get("4xx", 0)),
            "median_seconds": quantile(buckets.get(route, []), 0.5),
            "p95_seconds": quantile(buckets.get(route, []), 0.95),
        }
        for route, by_status in counts.items()
        if sum(by_status.values())
    ]


def quantile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """Return a quantile from cumulative counts (bound, count), straight lines within a bucket; None beyond the last."""
    if not buckets or not buckets[-1][1]:
        return None
    at, low, below = share * buckets[-1][1], 0.0, 0.0
    for high, count in buckets:
        if count >= at:
            return None if high == float("inf") else low + (high - low) * (at - below) / max(count - below, 1)
        low, below = high, count
    return None


def _stored(service: Service, explorer: Explorer) -> dict[str, Any]:
    begin = now() - _HOURS * _HOUR
    with service.engine.connect() as connection:
        total = connection.execute(select(func.count()).select_from(VOTES)).scalar_one()
        decisions = connection.execute(select(func.count()).select_from(DECISIONS)).scalar_one()
        times = [at for (at,) in connection.execute(select(VOTES.c.at).where(VOTES.c.at >= begin))]
        counted = connection.execute(select(VOTES.c.zero, func.count()).group_by(VOTES.c.zero))
        kinds = {row[0]: row[1] for row in counted}
    by_hour = [0] * _HOURS
    for at in times:
        by_hour[min(int((at - begin) / _HOUR), _HOURS - 1)] += 1
    made = explorer.made
    usual = made.usual if made is not None and made.version == service.decider.version else {}
    drift = drift_of(service.decider, usual, recent_contexts(service))
    history = [{"version": name, "at": at, "reason": why} for name, at, why in service.versions.history()[:10]]
    votes = {"total": total, "by_hour": by_hour, "skips": kinds.get("skip", 0), "decisions": decisions}
    return {"votes": votes, "drift": drift, "history": history}

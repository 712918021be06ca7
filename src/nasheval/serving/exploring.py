"""What the pages show of the version that serves: its report as data, live lotteries, why, and how contexts drift."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from pydantic_core import to_json
from sqlalchemy import select

from nasheval.contexts.columns import BooleanColumn, CategoricalColumn, NumericColumn
from nasheval.errors import NashEvalError, one_line
from nasheval.scoring.report import gather_model
from nasheval.serving.bodies import RouteRequest
from nasheval.serving.deciding import Decider
from nasheval.serving.endpoints import json_response, service_of
from nasheval.serving.guard import BODY
from nasheval.serving.problems import Problem
from nasheval.serving.schema import DECISIONS
from nasheval.serving.service import Service
from nasheval.serving.strict import parsed

if TYPE_CHECKING:
    from nasheval.estimator import NashEval

_RECENT = 1000  # decisions that drift is told from
_FEWEST = 30  # decisions below which nothing is told of drift
_LEVELS = 50


@dataclass(frozen=True, eq=False)
class Explored:
    """What was made of one version.

    Args:
        version: its name.
        model: with its log.
        body: JSON of the report and of the inputs that a visitor can set.
        usual: {column: {value: share of the log's contexts}} of columns of few values.
    """

    version: str
    model: NashEval
    body: bytes
    usual: dict[str, dict[str, float]]


class Explorer:
    """Makes it once per version, when the first visitor asks.

    Args:
        service: of the worker.
    """

    def __init__(self, service: Service) -> None:
        self._service, self._lock = service, asyncio.Lock()
        self.made: Explored | None = None

    async def explored(self) -> Explored:
        """Return what was made of the version that serves; raises a Problem where it cannot be."""
        async with self._lock:
            decider = self._service.decider
            if self.made is None or self.made.version != decider.version:
                try:
                    self.made = await asyncio.to_thread(self._make, decider)
                except NashEvalError as error:
                    raise Problem(409, "not_explorable", f"this model cannot be explored: {one_line(error)}") from None
            return self.made

    def _make(self, decider: Decider) -> Explored:
        from nasheval.estimator import load

        folder = self._service.versions[decider.version].folder
        model = load(folder, text_encoder=self._service.settings.text_encoder or None)
        shown = asdict(gather_model(model, title="Which agent, for what?"))
        log = model.stage1_.log
        shown |= {
            "inputs": inputs_of(decider),
            "prompt": decider.prompt_column is not None,
            "model_version": decider.version,
            "has_costs": model.costs is not None,
        }
        usual = {}
        for name, column in decider.columns.items():
            if isinstance(column, CategoricalColumn | BooleanColumn) and name in log.contexts.column_names:
                usual[name] = shares_of(map(str, log.contexts[name].drop_null().to_pylist()))
        return Explored(decider.version, model, to_json(shown), usual)


def inputs_of(decider: Decider) -> list[dict[str, Any]]:
    """Return the context columns that a visitor can set, with their values."""
    found: list[dict[str, Any]] = []
    for name, column in decider.columns.items():
        if isinstance(column, BooleanColumn):
            found.append({"name": name, "kind": "truth"})
        elif isinstance(column, NumericColumn) and column.kind == "numeric":
            found.append({"name": name, "kind": "number", "mean": column.mean, "scale": column.scale})
        elif isinstance(column, CategoricalColumn):
            found.append({"name": name, "kind": "category", "values": list(column.levels[:_LEVELS])})
    return found


def shares_of(values: Any) -> dict[str, float]:
    """Return the share of each value."""
    counts = Counter(values)
    total = sum(counts.values())
    return {value: count / total for value, count in counts.items()}


# -- drift ------------------------------------------------------------------------------------------------------------


def recent_contexts(service: Service) -> list[dict[str, Any]]:
    """Return the contexts of the latest decisions."""
    rows = select(DECISIONS.c.context).where(DECISIONS.c.context.is_not(None)).order_by(DECISIONS.c.at.desc())
    with service.engine.connect() as connection:
        return [json.loads(raw) for (raw,) in connection.execute(rows.limit(_RECENT))]


def drift_of(
    decider: Decider, usual: Mapping[str, Mapping[str, float]], contexts: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return how far the latest contexts are from those of the votes, column by column.

    Of a column of few values the total variation distance, 0 to 1; of a number by how many standard deviations its mean
    has moved. A column that fewer than 30 decisions named says nothing.
    """
    lines: list[dict[str, Any]] = []
    for name, column in decider.columns.items():
        values = [context[name] for context in contexts if context.get(name) is not None]
        if len(values) < _FEWEST:
            continue
        if name in usual:
            now, then = shares_of(map(str, values)), usual[name]
            moved = 0.5 * sum(abs(now.get(value, 0.0) - then.get(value, 0.0)) for value in {*now, *then})
            unknown = sum(share for value, share in now.items() if value not in then)
            line: dict[str, Any] = {"distance": moved, "unknown": unknown, "measure": "total variation"}
        elif isinstance(column, NumericColumn) and all(type(value) in (int, float) for value in values):
            moved = abs(sum(values) / len(values) - column.mean) / column.scale
            line = {"distance": moved, "unknown": None, "measure": "standard deviations"}
        else:
            continue
        lines.append({"column": name, "decisions": len(values), **line})
    return sorted(lines, key=lambda line: -line["distance"])


# -- routes -----------------------------------------------------------------------------------------------------------


async def explore(request: Request) -> Response:
    """Return all that the explorer shows: the report of the version that serves, as data."""
    explored = await _explorer(request).explored()
    return Response(explored.body, 200, {"cache-control": "no-store"}, "application/json")


async def inputs(request: Request) -> Response:
    """Return the context columns that can be set, with their usual values, and whether prompts are taken."""
    decider = service_of(request).decider
    return json_response({"inputs": inputs_of(decider), "prompt": decider.prompt_column is not None})


async def live_lottery(request: Request) -> Response:
    """Return the lottery at a context, as /v1/route does, but choose nobody and keep nothing."""
    decider, asked, context = _asked(request)
    terms: dict[str, Any] = {"agents": asked.agents, "budget": asked.budget, "cost_weight": asked.cost_weight}
    answer = await asyncio.to_thread(decider.answer, context, **terms)
    best = max(answer.shares, key=answer.shares.__getitem__)
    return json_response(
        {
            "lottery": answer.shares,
            "winners": answer.winners,
            "expected_cost": answer.expected_cost,
            "reason": decider.reason(answer, best),
            "unsure": decider.unsure(context, answer),
            "model_version": decider.version,
        }
    )


async def why(request: Request) -> Response:
    """Return what stands behind the lottery at a context: the nearest logged contexts, and the heaviest votes."""
    explored = await _explorer(request).explored()
    _, _, context = _asked(request)
    try:
        explanation = await asyncio.to_thread(explored.model.explain, context)
    except NashEvalError as error:
        raise Problem(422, "invalid", one_line(error)[:400], "context") from None
    return json_response(explanation.to_dict())


def _asked(request: Request) -> tuple[Decider, RouteRequest, dict[str, Any]]:
    service = service_of(request)
    asked = parsed(request.scope[BODY], RouteRequest, service.settings.max_depth)
    return service.decider, asked, service.decider.context(asked.context, asked.prompt)


def _explorer(request: Request) -> Explorer:
    explorer: Explorer = request.app.state.explorer
    return explorer

"""What agents cost, from the forms in which people write it down."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nasheval.contexts.values import numbers
from nasheval.errors import Argument, InputError
from nasheval.feedback.readers.sources import Source, open_source
from nasheval.files import parse_json

_AGENT = "{agent}"


def read_costs(costs: str, source: str | Source, agents: Sequence[str]) -> dict[str, Any]:
    """Return {agent: cost, or the column that holds it} for the agents of a log.

    Args:
        costs: a TOML or JSON file of agent = cost, or FILE:field of nested ones; agent=cost with commas; or a pattern
            of columns, such as "{agent}|total_cost", whose means are taken.
        source: the log's own file, for a pattern of columns.
        agents: whose costs to return; each must have one.
    """
    if _AGENT in costs:
        return _means(costs, source, agents)
    if "=" in costs and not Path(costs).exists():
        pairs = (pair.rpartition("=") for pair in costs.split(",") if pair.strip())
        known: dict[str, Any] = {agent.strip(): _number(cost) for agent, _, cost in pairs}
    else:
        known = _from_file(costs)
    missing = [agent for agent in agents if agent not in known]
    if missing:
        raise _error(costs, f"there is no cost of {missing[0]!r}; it tells of {', '.join(known) or 'none'}.")
    return {agent: known[agent] for agent in agents}


def _error(costs: str, message: str) -> InputError:
    return InputError(Argument("costs", costs), f": {message}")


def _number(text: str) -> float | str:
    """Return a number, or the name of a column as it is."""
    try:
        return float(text)
    except ValueError:
        return text.strip()


def _from_file(costs: str) -> dict[str, Any]:
    path, field = Path(costs), ""
    if ":" in costs and not path.exists():
        name, _, field = costs.rpartition(":")
        path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
        table = parse_json(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:  # both parsers raise kinds of ValueError
        raise _error(costs, f"cannot be read as TOML or JSON ({error}).") from None
    if not isinstance(table, dict):
        raise _error(costs, "accepted is a table of agent = cost.")
    return {agent: _cost(costs, agent, value, field) for agent, value in table.items()}


def _cost(costs: str, agent: str, value: Any, field: str) -> float | str:
    cost = value if not field else value.get(field) if isinstance(value, dict) else None
    if isinstance(cost, bool) or not isinstance(cost, int | float | str):
        nested = isinstance(value, dict)
        hint = f"; name one of its fields, as in {costs}:{next(iter(value), 'price')}" if nested else ""
        raise _error(costs, f"the cost of {agent!r} is no number and no name of a column{hint}.")
    return cost


def _means(pattern: str, source: str | Source, agents: Sequence[str]) -> dict[str, float]:
    """Return the mean of each agent's cost column in the log's own file."""
    opened, columns = open_source(source), {agent: pattern.replace(_AGENT, agent) for agent in agents}
    opened.need("costs", *columns.values())
    table, _ = opened.read(columns.values())
    return {agent: float(np.nanmean(numbers(column, table[column]))) for agent, column in columns.items()}

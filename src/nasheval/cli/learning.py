"""The options that say how a model is fitted."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nasheval.cli.reading import split
from nasheval.errors import InputError
from nasheval.files import parse_json

if TYPE_CHECKING:
    from nasheval.estimator import NashEval
    from nasheval.feedback.readers.sources import Source

_PANEL = "Fitting"
_AGENT = "{agent}"
_COSTS = (
    "What agents cost: a TOML or JSON file of agent = cost, or FILE:field of nested ones; agent=cost with commas; or a "
    "pattern of columns, such as '{agent}|total_cost', whose means are taken."
)


class Outcome(StrEnum):
    """Outcome models."""

    voters = "voters"
    lightgbm = "lightgbm"
    stack = "stack"


class PropensityModel(StrEnum):
    """Propensity models."""

    auto = "auto"
    known = "known"
    lightgbm = "lightgbm"
    multinomial = "multinomial"
    marginal = "marginal"


class Stage(StrEnum):
    """Second stages."""

    corrected = "corrected"
    shared = "shared"
    per_pair = "per-pair"
    none = "none"


class PolicyKind(StrEnum):
    """Policies."""

    exact = "exact"
    learned = "learned"


class Search(StrEnum):
    """Searches for hyperparameters."""

    fast = "fast"
    paper = "paper"


class Unseen(StrEnum):
    """What to make of pairs that were never compared."""

    model = "model"
    tie = "tie"
    refuse = "refuse"


class AggregatorKind(StrEnum):
    """How the menus of a pair make one payoff."""

    auto = "auto"
    mean = "mean"
    as_asked = "as-asked"


class Device(StrEnum):
    """Where networks are trained."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def _option(text: str, **more: Any) -> Any:
    return typer.Option(help=text, rich_help_panel=_PANEL, show_default=False, **more)


@dataclass(frozen=True)
class Learning:
    """How a model is fitted; None leaves it to the estimator."""

    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Algorithm 1 with the paper's learners, where other options do not say otherwise.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    outcome: Annotated[Outcome | None, _option("Outcome model; by default voters.")] = None
    propensity_model: Annotated[
        PropensityModel | None, _option("Propensities; by default known where the log tells them, else chosen.")
    ] = None
    second_stage: Annotated[Stage | None, _option("How payoffs are debiased; by default corrected.")] = None
    aggregator: Annotated[
        AggregatorKind | None,
        _option(
            "How the menus that hold a pair make its payoff: mean (each menu counts the same), as-asked (ballots are "
            "cut into pairs: menus count as often as they were asked), or auto, the default: mean where every menu of "
            "a pair was asked 30 times, else as-asked."
        ),
    ] = None
    unseen: Annotated[
        Unseen | None,
        _option(
            "Pairs that were never compared: model (the default: bridged through other agents by the outcome model, "
            "and marked as bridged wherever they are shown), tie (payoff 0, as in the paper) or refuse (an error)."
        ),
    ] = None
    availability: Annotated[
        str,
        _option(
            "Context column of few values, such as language or release: at each value only agents that the log shows "
            "there are candidates. Without it all agents are, everywhere.",
            metavar="COLUMN",
        ),
    ] = ""
    policy: Annotated[PolicyKind | None, _option("Solve games exactly (the default), or learn a network.")] = None
    costs: Annotated[str, _option(_COSTS)] = ""
    cost_weight: Annotated[float | None, _option("Weight of costs, scaled to [0, 1], against payoffs.", min=0)] = None
    budget: Annotated[float | None, _option("The most a lottery may cost in expectation, in the units of costs.")] = (
        None
    )
    folds: Annotated[int | None, _option("Folds of the cross-fitting; by default 5.", min=2)] = None
    tune: Annotated[Search | None, _option("Search hyperparameters.")] = None
    jobs: Annotated[int | None, _option("Cores; by default all.", min=1)] = None
    device: Annotated[Device | None, _option("Where networks are trained; by default a GPU if there is one.")] = None

    def model(self, source: str | Source, agents: Sequence[str], *, seed: int, show: bool) -> NashEval:
        """Return the estimator, not fitted."""
        from nasheval.estimator import NashEval

        named: dict[str, StrEnum | None] = {
            "outcome": self.outcome,
            "propensity": self.propensity_model,
            "second_stage": self.second_stage,
        }
        named |= {"policy": self.policy, "tune": self.tune, "device": self.device, "unseen": self.unseen}
        settings: dict[str, Any] = {name: None if value is None else str(value) for name, value in named.items()}
        settings |= {"cost_weight": self.cost_weight, "budget": self.budget, "folds": self.folds, "n_jobs": self.jobs}
        settings |= {"aggregator": self._aggregator(), "availability": self.availability or None}
        settings["costs"] = costs_of(self.costs, source, agents) if self.costs else None
        given = {name: value for name, value in settings.items() if value is not None}
        if self.paper and self.policy is None and {"costs", "cost_weight", "budget"} & set(given):
            raise InputError("--paper knows no costs in its policy; add --policy exact or --policy learned.")
        make = NashEval.paper if self.paper else NashEval
        return make(**given, random_state=seed, verbose=show)

    def _aggregator(self) -> Any:
        from nasheval.payoff.aggregators import AsAsked, Mean

        known = {AggregatorKind.auto: "auto", AggregatorKind.mean: Mean(), AggregatorKind.as_asked: AsAsked()}
        return None if self.aggregator is None else known[self.aggregator]


def costs_of(said: str, source: str | Source, agents: Sequence[str]) -> dict[str, Any]:
    """Return {agent: cost or column} as --costs says it, for the agents of a log."""
    if _AGENT in said:
        return _means(said, source, agents)
    if "=" in said and not Path(said).exists():
        costs: dict[str, Any] = {name.strip(): _number(cost) for name, _, cost in _pairs(said)}
    else:
        costs = _from_file(said)
    missing = [agent for agent in agents if agent not in costs]
    if missing:
        raise InputError(
            f"--costs {said}: there is no cost of {missing[0]!r}; it tells of {', '.join(costs) or 'none'}."
        )
    return {agent: costs[agent] for agent in agents}


def _pairs(said: str) -> list[tuple[str, str, str]]:
    return [part.rpartition("=") for part in split(said)]


def _number(text: str) -> float | str:
    """Return a number, or the name of a column as it is."""
    try:
        return float(text)
    except ValueError:
        return text.strip()


def _from_file(said: str) -> dict[str, Any]:
    path, part = Path(said), ""
    if ":" in said and not path.exists():
        name, _, part = said.rpartition(":")
        path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
        told = parse_json(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:  # both parsers raise kinds of ValueError
        raise InputError(f"--costs {said}: cannot be read as TOML or JSON ({error}).") from None
    if not isinstance(told, dict):
        raise InputError(f"--costs {said}: accepted is a table of agent = cost.")
    return {agent: _cost(said, agent, value, part) for agent, value in told.items()}


def _cost(said: str, agent: str, value: Any, part: str) -> float | str:
    found = value if not part else value.get(part) if isinstance(value, dict) else None
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        fields = (
            f"; name one of its fields, as in {said}:{next(iter(value), 'price')}" if isinstance(value, dict) else ""
        )
        raise InputError(f"--costs {said}: the cost of {agent!r} is no number and no name of a column{fields}.")
    return found


def _means(pattern: str, source: str | Source, agents: Sequence[str]) -> dict[str, float]:
    """Return the mean of each agent's cost column in the log's own file."""
    import numpy as np

    from nasheval.contexts.values import numbers
    from nasheval.feedback.readers.row_checks import need_columns
    from nasheval.feedback.readers.sources import open_source

    opened, columns = open_source(source), {agent: pattern.replace(_AGENT, agent) for agent in agents}
    for column in columns.values():
        need_columns({"costs": column}, opened.names, opened.label)
    table = opened.read(columns.values())
    return {agent: float(np.nanmean(numbers(column, table[column]))) for agent, column in columns.items()}

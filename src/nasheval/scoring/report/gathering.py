"""From a fitted Stage 1 to everything a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from typing import Any, Protocol

from nasheval.contexts.table import is_number
from nasheval.feedback.groups import Groups, grouping_columns, groups_by
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Regularizer
from nasheval.notes import once
from nasheval.payoff.clusters import Speaks
from nasheval.payoff.inference import GroupPayoff, group_payoff, group_payoffs
from nasheval.payoff.intervals import checked_level
from nasheval.payoff.stage1 import Stage1
from nasheval.payoff.stage1_diagnostics import Stage1Diagnostics
from nasheval.policy.base import Policy
from nasheval.policy.terms import AnyCosts
from nasheval.scoring.adjustments import adjusted_payoffs
from nasheval.scoring.decision import MARGIN, decide
from nasheval.scoring.heldout import Evaluation, costs_of
from nasheval.scoring.report.findings import findings
from nasheval.scoring.report.frontier import FrontierPoint, Games
from nasheval.scoring.report.sections import Part, facts_of, held_out_of, part_of, trust_of
from nasheval.scoring.report.views import DRAWN, MOST_GROUPS, SHOWN, GroupView, largest, view_of
from nasheval.scoring.ties import tells_nothing, tie_groups
from nasheval.scoring.tool_rules import rule_of

_NO_SETTINGS = ("verbose", "engine")
_MOST_COLUMNS = 6  # that are grouped by unasked


@dataclass(frozen=True)
class ReportData:
    """Everything a report shows, as plain values that JSON can hold; agents are numbers into `agents`.

    Args:
        created: the day it was made.
        confidence: of intervals and stability ranges.
        facts, trust, held_out: as in `sections`; the last is None without an evaluation.
        decision: which agent to ship, in a few sentences.
        findings: what stands out, one sentence per finding.
        columns: context columns that contexts are grouped by.
        groups: all contexts first, then the groups of each column.
        tool: (name, digits) of the tool whose own score stands in the groups; None where there is none.
        frontier: empty where no costs are known.
        audit: what the caller added, as in `sections.part_of`.
        adjusted: both estimands and their difference, as in `Adjusted`; None where nothing was adjusted for.
        settings: (name, value) of what the model was fitted with.
        notes: on what the page leaves out.
    """

    title: str
    created: str
    version: str
    agents: tuple[str, ...]
    confidence: float
    facts: dict[str, Any]
    decision: tuple[str, ...]
    findings: tuple[str, ...]
    columns: tuple[str, ...]
    groups: tuple[GroupView, ...]
    tool: tuple[str, int] | None
    frontier: tuple[FrontierPoint, ...]
    adjusted: dict[str, Any] | None
    audit: tuple[dict[str, Any], ...]
    trust: dict[str, Any]
    held_out: dict[str, Any] | None
    settings: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


class FittedModel(Protocol):
    """What the report takes of a fitted `NashEval`."""

    stage1_: Stage1
    policy_: Policy
    regularizer: Regularizer
    costs: AnyCosts | None
    budget: float | SoftBudget | None
    random_state: int

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments that it was made with."""
        ...


def gather_model(model: FittedModel, **options: Any) -> ReportData:
    """Gather everything a report shows of a fitted model; the options are those of `gather`."""
    parameters = model.get_params(deep=False).items()
    return gather(
        model.stage1_,
        regularizer=model.regularizer,
        policy=model.policy_,
        costs=model.costs,
        budget=model.budget,
        settings={name: value for name, value in parameters if value is not None and name not in _NO_SETTINGS},
        seed=model.random_state,
        **options,
    )


def gather(
    stage1: Stage1,
    *,
    by: str | Sequence[str] | None = None,
    regularizer: Regularizer = L2(),  # noqa: B008 (frozen)
    policy: Policy | None = None,
    evaluation: Evaluation | None = None,
    costs: AnyCosts | None = None,
    settings: Mapping[str, object] | None = None,
    title: str = "Evaluation of agents",
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
    created: str | None = None,
    voters: Speaks | None = None,
    margin: float = MARGIN,
    budget: float | SoftBudget | None = None,
    parts: Sequence[Part] = (),
) -> ReportData:
    """Gather everything a report shows.

    Args:
        stage1: the fitted model; its log must have records.
        by: context columns to group by, numbers of more than 20 values in quarters; None: the first six that are
            numbers or have at most 20 values.
        regularizer: of the game.
        policy: that gives the winners at each context; None: the equilibria of the estimated games.
        evaluation: on a held-out log, from `evaluate`.
        costs: {agent: cost}, or {agent: context column that holds it}, in the user's units.
        settings: what the model was fitted with, by name.
        confidence: of intervals and of stability ranges.
        draws: of the bootstrap, per group.
        created: the day to print; None: today.
        voters: whom intervals speak for, as in `group_payoff`.
        margin, budget: of the decision, as in `decide`.
        parts: what else to show: the sections of an audit, a plan; sentences, tables and bars.
    """
    confidence = checked_level(confidence)
    games, columns = Games.of(stage1, policy, regularizer), grouping_columns(stage1.log, by, most=_MOST_COLUMNS)
    groups = [groups_by(stage1.log, column, stage1.pseudo.used) for column in columns]
    options: dict[str, Any] = {"confidence": confidence, "draws": draws, "seed": seed, "voters": voters}
    whole = group_payoff(stage1.pseudo, **options)
    payoffs = [group_payoffs(stage1.pseudo, largest(one, stage1.pseudo.used), **options) for one in groups]
    views = _views(stage1, "", [whole], games, regularizer)
    for column, each in zip(columns, payoffs, strict=True):
        views += _views(stage1, column, each, games, regularizer)
    first, column = (payoffs[0], columns[0]) if columns else ([], "")
    decision = decide(stage1.log, whole, first, column=column, costs=costs, margin=margin, budget=budget)
    cut = {one.column for one in groups if len(one) > MOST_GROUPS}
    coverage, diagnostics = stage1.log.coverage(), Stage1Diagnostics.of(stage1, by=columns)
    facts, warnings = facts_of(coverage, stage1.pseudo.unseen), once(coverage.warnings(), diagnostics.warnings())
    adjusted = adjusted_payoffs(stage1, confidence=confidence, voters=voters)
    frontier = () if costs is None else games.frontier(costs_of(stage1.log, costs), regularizer, policy is not None)
    return ReportData(
        title=title,
        created=created or date.today().isoformat(),
        version=version("nasheval"),
        agents=stage1.agents,
        confidence=confidence,
        facts=facts,
        decision=decision.sentences,
        findings=findings(stage1.agents, views, frontier, evaluation, confidence, facts, cut),
        columns=columns,
        groups=tuple(views),
        tool=None if (rule := rule_of(stage1.log)) is None else (rule.header, rule.digits),
        frontier=frontier,
        adjusted=None if adjusted is None else adjusted.to_dict(),
        audit=tuple(part_of(part) for part in parts),
        trust=trust_of(diagnostics.nuisances, stage1.nuisances.raw_propensity, warnings),
        held_out=None if evaluation is None else held_out_of(evaluation),
        settings=tuple((str(name), str(value)) for name, value in (settings or {}).items()),
        notes=tuple(_notes(stage1, groups, games, costs is not None)),
    )


def _views(
    stage1: Stage1, column: str, payoffs: Sequence[GroupPayoff], games: Games, regularizer: Regularizer
) -> list[GroupView]:
    """Return the groups of a column; unless they are numbers, those whose votes tell no agents apart last."""
    tied = list(zip(payoffs, tie_groups(payoffs), strict=True))
    if column and not is_number(stage1.log.contexts[column].type):
        tied.sort(key=lambda one: tells_nothing(*one))
    return [view_of(stage1.log, column, *one, games, regularizer) for one in tied]


def _notes(stage1: Stage1, groups: list[Groups], games: Games, with_costs: bool) -> list[str]:
    K, used = len(stage1.agents), int(stage1.pseudo.used.sum())
    notes = [
        f"{one.column} has {len(one):,} groups; the {MOST_GROUPS} with most contexts are shown."
        for one in groups
        if len(one) > MOST_GROUPS
    ]
    if K > DRAWN:
        notes.append(
            f"Payoff matrices show the first {min(SHOWN, K)} of {K} agents in the group's order, preference graphs "
            f"{DRAWN}; tables hold all."
        )
    if len(games.rows) < used:
        notes.append(f"Winner frequencies rest on an even sample of {len(games.rows):,} of {used:,} contexts.")
    if with_costs and games.frontier_thinning > 1:
        solved = len(games.rows[:: games.frontier_thinning])
        notes.append(f"The cost frontier rests on an even sample of {solved:,} contexts.")
    return notes

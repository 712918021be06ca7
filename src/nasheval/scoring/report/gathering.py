"""From a fitted Stage 1 to everything a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version

import numpy as np
import pyarrow as pa

from nasheval.arrays import Floats, Ints, n_pairs
from nasheval.feedback.coverage import Coverage
from nasheval.feedback.groups import grouping_columns
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.solver import solve
from nasheval.notes import once
from nasheval.payoff.clusters import Speaks
from nasheval.payoff.intervals import checked_level
from nasheval.payoff.stage1 import Stage1
from nasheval.payoff.stage1_diagnostics import Stage1Diagnostics
from nasheval.policy.base import Policy
from nasheval.policy.choosing import WINNER
from nasheval.scoring.heldout import Evaluation
from nasheval.scoring.report.data import Facts, FrontierPoint, ReportData
from nasheval.scoring.report.findings import findings
from nasheval.scoring.report.frontier import cost_frontier
from nasheval.scoring.report.held_out import held_out_of
from nasheval.scoring.report.trust import trust_of
from nasheval.scoring.report.views import (
    DRAWN,
    MOST_GROUPS,
    SHOWN,
    How,
    Solved,
    column_views,
    n_groups,
    whole_view,
)
from nasheval.scoring.spending import Costs, costs_of

_CELLS = 1 << 24  # payoffs at contexts that are solved one by one; of more contexts an even sample is
_FRONTIER_CELLS = 1 << 21  # the same for the frontier, which solves each game over and over
_MOST_COLUMNS = 6  # that are grouped by unasked


def gather(
    stage1: Stage1,
    *,
    by: str | Sequence[str] | None = None,
    regularizer: Regularizer = L2(),  # noqa: B008 (frozen)
    policy: Policy | None = None,
    evaluation: Evaluation | None = None,
    costs: Costs | None = None,
    settings: Mapping[str, object] | None = None,
    title: str = "Evaluation of agents",
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
    created: str | None = None,
    voters: Speaks | None = None,
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
    """
    how = How(regularizer, checked_level(confidence), draws, seed, voters)
    games = _Games.of(stage1, policy, regularizer)
    solved = Solved(games.rows, games.lotteries > WINNER)
    columns, coverage = grouping_columns(stage1.log, by, most=_MOST_COLUMNS), stage1.log.coverage()
    whole = whole_view(stage1.pseudo, solved, how)
    views = (whole, *(view for name in columns for view in column_views(stage1.pseudo, name, solved, how)))
    diagnostics = Stage1Diagnostics.of(stage1, by=columns)
    warnings = tuple(once(coverage.warnings(), diagnostics.warnings()))
    held_out = None if evaluation is None else held_out_of(evaluation)
    frontier = () if costs is None else games.frontier(costs_of(stage1.log, costs), regularizer, policy is not None)
    return ReportData(
        title=title,
        created=created or date.today().isoformat(),
        version=version("nasheval"),
        agents=stage1.agents,
        confidence=how.confidence,
        facts=_facts(stage1, coverage),
        findings=findings(
            stage1.agents, views, frontier, held_out, how.confidence,
            only_a_ladder=coverage.only_a_ladder, unseen=stage1.pseudo.unseen,
        ),
        columns=columns,
        groups=views,
        frontier=frontier,
        trust=trust_of(diagnostics.nuisances, stage1.nuisances.raw_propensity, warnings),
        held_out=held_out,
        settings=tuple((str(name), str(value)) for name, value in (settings or {}).items()),
        notes=tuple(_notes(stage1, columns, games, costs is not None)),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Games:
    """The estimated games at m contexts of the log, and the lotteries played there.

    Args:
        agents: names of the K agents.
        rows: (m,) the contexts.
        A: (m, K, K).
        lotteries: (m, K).
    """

    agents: tuple[str, ...]
    rows: Ints
    A: Floats
    lotteries: Floats

    @staticmethod
    def of(stage1: Stage1, policy: Policy | None, regularizer: Regularizer) -> _Games:
        used = np.flatnonzero(stage1.pseudo.used)
        rows = used[:: _thinning(len(used), len(stage1.agents), _CELLS)]
        A = stage1.payoff.predict(stage1.nuisances.X[rows])
        if policy is None:
            return _Games(stage1.agents, rows, A, solve(A, regularizer=regularizer).strategy)
        table = stage1.log.contexts  # without columns it would forget its rows
        contexts = table.take(pa.array(rows)) if table.num_columns else np.zeros((len(rows), 0))
        played = policy.predict_proba(contexts)
        return _Games(stage1.agents, rows, A, played[:, [policy.agents.index(agent) for agent in stage1.agents]])

    @property
    def frontier_thinning(self) -> int:
        """One game of so many is in the frontier."""
        return _thinning(len(self.rows), len(self.agents), _FRONTIER_CELLS)

    def frontier(self, costs: Floats, regularizer: Regularizer, with_policy: bool) -> tuple[FrontierPoint, ...]:
        """Return the frontier, given the costs (K,), or (n_contexts, K) of the log."""
        thin = self.frontier_thinning
        prices = costs if costs.ndim == 1 else costs[self.rows[::thin]]
        played = self.lotteries[::thin] if with_policy else None
        return cost_frontier(self.A[::thin], prices, self.agents, regularizer=regularizer, policy=played)


def _thinning(n: int, K: int, cells: int) -> int:
    return max(1, -(-n * K * K // cells))


def _facts(stage1: Stage1, coverage: Coverage) -> Facts:
    log = stage1.log
    return Facts(
        contexts=log.n_contexts,
        records=log.n_records,
        voters=coverage.n_voters,
        menus=coverage.n_menus,
        pairs_seen=coverage.pairs_seen,
        pairs=n_pairs(log.n_agents),
        pairs_bridged=coverage.pairs_bridged,
        pairs_unknown=coverage.pairs_unknown,
        only_a_ladder=coverage.only_a_ladder,
        unseen=stage1.pseudo.unseen,
        design=coverage.design,
        design_reason=coverage.design_reason,
    )


def _notes(stage1: Stage1, columns: tuple[str, ...], games: _Games, with_costs: bool) -> list[str]:
    notes, K, used = [], len(stage1.agents), int(stage1.pseudo.used.sum())
    for column in columns:
        count = n_groups(stage1.pseudo, column)
        if count > MOST_GROUPS:
            notes.append(f"{column} has {count:,} groups; the {MOST_GROUPS} with most contexts are shown.")
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

"""The baseline that many use in practice: in each group of contexts, the one agent that is best there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.contexts.table import as_table
from nasheval.errors import Argument, InputError
from nasheval.feedback.groups import context_column, grouping_columns
from nasheval.game.scores import best_of
from nasheval.nuisance.learners import Effort
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.availability import rows_by_value
from nasheval.policy.base import available

_MOST_GROUPS = 500


@dataclass(frozen=True)
class BestByGroup:
    """In each group of contexts, the one agent with the largest debiased payoff there, as `BestSingle` finds it.

    Contexts of a value that the log does not have get the best single agent of all contexts.

    Args:
        by: the context column that makes groups; None: the first with 2 to 20 values.
    """

    by: str | None = None

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> ByGroup:
        """Return the policy."""
        log = stage1.log
        column = self.by or next(iter(grouping_columns(log, most=1, quartiles=False)), None)
        if column is None:
            raise InputError(
                "The best agent by group takes a context column of 2 to 20 values, and this log has none; name one: ",
                *(Argument("by", ..., flag="best-by-group:COLUMN"), "."),
            )
        context_column(log, column)
        rows = rows_by_value(log.contexts, column)
        if len(rows) > _MOST_GROUPS:
            raise InputError(f"The column {column!r} has {len(rows):,} values, more than {_MOST_GROUPS}; take another.")
        code = np.empty(log.n_contexts, np.int64)
        for number, (_, members) in enumerate(rows):
            code[members] = number
        means, count = _mean_payoffs(stage1, code, len(rows))
        total = np.average(means, axis=0, weights=count) if count.any() else means[0]
        known = {value: means[g] for g, (value, _) in enumerate(rows) if count[g]}
        return ByGroup(stage1.agents, column, known, total)


def _mean_payoffs(stage1: Stage1, code: Ints, n_groups: int) -> tuple[Floats, Ints]:
    """Return (G, K, K) the mean pseudo-outcome of each pair over each group's contexts, and how many these are."""
    total, count = np.zeros((n_groups, stage1.pseudo.n_pairs)), np.zeros(n_groups, np.int64)
    for contexts, gamma in stage1.pseudo.chunks():
        np.add.at(total, code[contexts], gamma)
        count += np.bincount(code[contexts], minlength=n_groups)
    means, K = total / np.maximum(count, 1)[:, None], len(stage1.agents)
    return np.stack([pair_matrix(mean, K, -mean) for mean in means]), count


@dataclass(frozen=True, eq=False)
class ByGroup:
    """One agent for each value of a column.

    Args:
        agents: names of the K agents.
        column: the context column.
        payoffs: for each value, as text, (K, K) mean payoffs; None is the value of contexts that have none.
        overall: (K, K) those of all contexts, for other values.
    """

    agents: tuple[str, ...]
    column: str
    payoffs: Mapping[str | None, Floats]
    overall: Floats

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return (n, K) lotteries, each of one agent; `agents` are the available ones, who alone count as opponents."""
        up, table = available(self.agents, agents), as_table(contexts)
        lotteries = np.zeros((table.num_rows, len(up)))
        for value, rows in rows_by_value(table, self.column):
            among = self.payoffs.get(value, self.overall)[np.ix_(up, up)]
            lotteries[np.ix_(rows, np.flatnonzero(up))] = best_of(among.mean(axis=1)[None])[0]
        return lotteries

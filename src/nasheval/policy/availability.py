"""Candidates that depend on the context: only agents that were seen at a value of a column may win there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import nasheval.compute as pc
from nasheval.arrays import Bools, Floats, Ints
from nasheval.contexts.table import as_table
from nasheval.errors import Argument, InputError
from nasheval.feedback.arrow_columns import column_list
from nasheval.feedback.groups import context_column
from nasheval.feedback.log import Feedback
from nasheval.policy.base import Policy, available, block_of

_MOST_VALUES = 500


@dataclass(frozen=True, eq=False)
class AmongAvailable:
    """A policy played, at each context, among the agents that the log shows at that value of a column.

    Contexts of a value that the log does not have, or of none, leave all agents in.

    Args:
        policy: the policy.
        column: the context column.
        seen: for each value, as text, (K,) the agents seen there.
    """

    policy: Policy
    column: str
    seen: dict[str | None, Bools]

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the K agents."""
        return self.policy.agents

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return (n, K) lotteries; `agents` are the available ones, and the game is played among those seen there."""
        up, table = available(self.agents, agents), as_table(contexts)
        lotteries, step = np.zeros((table.num_rows, len(up))), block_of(len(up))
        for start in range(0, table.num_rows, step):
            block = table.slice(start, step)
            for value, rows in rows_by_value(block, self.column):
                names = [agent for agent, there in zip(self.agents, self.among(value, up), strict=True) if there]
                lotteries[start + rows] = self.policy.predict_proba(block.take(pa.array(rows)), agents=names)
        return lotteries

    def among(self, value: str | None, up: Bools) -> Bools:
        """Return (K,) the candidates where the column has a value: those of `up` that were seen there."""
        here = self.seen.get(value, np.ones(len(up), bool)) & up
        if not here.any():
            raise InputError(
                f"None of the agents that are up was seen where {self.column} is {value}; seen there: "
                f"{', '.join(np.array(self.agents)[self.seen[value]])}. Add one of those, or ask for all agents."
            )
        return here


def among_available(policy: Policy, log: Feedback, column: str | None) -> Policy:
    """Return a policy restricted to agents seen at each value of a column of the log; None: the policy as it is."""
    if column is None:
        return policy
    context_column(log, column, "availability")
    seen: dict[str | None, Bools] = {}
    shown = np.zeros((log.n_contexts, log.n_agents), bool)
    shown[np.repeat(log.context_of, log.records.sizes), log.records.agent] = True
    for value, rows in rows_by_value(log.contexts, column):
        here = np.atleast_1d(shown[rows].any(axis=0))
        if here.any():
            seen[value] = here
    if len(seen) > _MOST_VALUES:
        raise InputError(
            *(Argument("availability", column), f" has {len(seen):,} values; accepted is a column of at most "),
            f"{_MOST_VALUES}: a language, a release, a quarter.",
        )
    return AmongAvailable(policy, column, seen)


def candidates(policy: Policy, contexts: pa.Table, agents: Sequence[str] | None) -> Bools:
    """Return (n, K) who may win at each of n contexts: the agents asked for, and seen there under availability."""
    allowed = np.tile(available(policy.agents, agents), (contexts.num_rows, 1))
    if isinstance(policy, AmongAvailable):
        for value, rows in rows_by_value(contexts, policy.column):
            allowed[rows] &= policy.seen.get(value, True)
    return allowed


def rows_by_value(table: pa.Table, column: str) -> list[tuple[str | None, Ints]]:
    """Return the rows of each value of a column, as text; None for missing ones."""
    if column not in table.column_names:
        raise InputError(
            f"The contexts lack the column {column!r}, which says who is available; they have {column_list(table)}."
        )
    values = pc.dictionary_encode(pc.cast(table[column], "string").combine_chunks(), null_encoding="encode")
    code, names = np.asarray(values.indices), values.dictionary.to_pylist()
    return [(name, np.flatnonzero(code == number)) for number, name in enumerate(names)]

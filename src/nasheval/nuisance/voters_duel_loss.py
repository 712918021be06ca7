"""The loss of duels on a processor: utilities of the two agents that were asked, not of all.

PyTorch evaluates the hidden layers and what is small; the head, which has columns for every agent and voter, and the
likelihood are compiled, with the gradient written out (`voters_duel_compiled`). The same as `voters_likelihood` but for
rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.nuisance.voters_records import Kind, Table


class Parts(NamedTuple):
    """What the loss depends on, of all models.

    Args:
        hidden: (models, n, width) the last hidden layer, gain counted in.
        head: (models, K V + K + 1, width).
        base: (models, K, V) what each voter gives each agent everywhere.
        log_weight: (models x names, V) of the voters.
        tie: (models, T) log tie weights.
        lean: (models, V) each voter's lean to ties.
    """

    hidden: Floats
    head: Floats
    base: Floats
    log_weight: Floats
    tie: Floats
    lean: Floats


@dataclass(frozen=True, eq=False)
class Duels:
    """Tables of duels, with or without ties; the arrays of the last gradient are used again for the next."""

    tables: list[Table]
    kept: list[Parts] = field(default_factory=list)

    @staticmethod
    def of(tables: list[Table]) -> Duels | None:
        """Return the tables; None where some are not duels."""
        return Duels(tables) if all(map(_is_duel, tables)) else None

    def losses(self, parts: Parts, answers: Sequence[tuple[Ints, Ints]], names: int) -> Floats:
        """Return (models,) sums of weighted negative log likelihoods.

        Args:
            answers: for each table the row of each record, of models x n, and which record it is.
            names: voters who are distinguished by name; 1 for none.
        """
        from nasheval.nuisance.voters_duel_compiled import duel_losses

        models, n = parts.hidden.shape[:2]
        total = np.zeros(models)
        for table, (row, record) in zip(self.tables, answers, strict=True):
            loss = np.empty(len(row), np.float32)
            duel_losses(*parts, *_asked(table, row, record, n, names), loss)
            total += np.bincount(row // n, loss * table.weight[record].astype(np.float64), models)
        return total

    def gradients(self, parts: Parts, answers: Sequence[tuple[Ints, Ints]], names: int, scale: Floats) -> Parts:
        """Return the gradient of the sum over models of scale, (models,), times their losses.

        It is there until the next call.
        """
        from nasheval.nuisance.voters_duel_compiled import duel_gradients

        gradient = self._zeros(parts)
        n = parts.hidden.shape[1]
        for table, (row, record) in zip(self.tables, answers, strict=True):
            amount = (table.weight[record] * scale[row // n]).astype(np.float32)
            asked = _asked(table, row, record, n, names)
            duel_gradients(*parts, *asked, amount, *gradient)
        return gradient

    def _zeros(self, parts: Parts) -> Parts:
        """Return zeros of the same shapes."""
        if not self.kept or any(a.shape != b.shape for a, b in zip(self.kept[0], parts, strict=True)):
            self.kept[:] = [Parts(*(np.empty_like(values) for values in parts))]
        for values in self.kept[0]:
            values.fill(0.0)
        return self.kept[0]


def _is_duel(table: Table) -> bool:
    question = table.question
    ranked = question.kind == Kind.RANKED and question.size == 2 and bool((table.starts[:-1] > 0).all())
    return ranked or question.kind == Kind.DUEL


def _asked(table: Table, row: Ints, record: Ints, n: int, names: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return row, agents, outcome and place among the log weights of some records, and which tie weights are theirs.

    All in one layout, so that one form is compiled.
    """
    question, agents = table.question, table.agents.take(record, axis=1)
    outcome = table.outcome[record] if question.kind == Kind.DUEL else np.zeros(len(record))
    prior = row // n if names == 1 else row // n * names + table.name[record]
    ties = np.array([question.tie, question.tie + question.n_tie])
    row, agents, outcome, prior = (np.ascontiguousarray(each, np.int64) for each in (row, agents, outcome, prior))
    return row, agents, outcome, prior, ties

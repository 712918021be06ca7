"""What a log is made of: the fields of `Feedback` and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from nasheval.arrays import Ints, readonly
from nasheval.errors import InputError
from nasheval.feedback.design import Design, DesignName, detect
from nasheval.feedback.menus import MenuCatalogue, catalogue
from nasheval.feedback.records import Records
from nasheval.feedback.report import ReadReport
from nasheval.feedback.verdicts import PairCounts, PairVerdicts, count_pairs, pair_verdicts


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """An immutable log of relative feedback: n contexts, each with none, one or many records.

    Args:
        agents: names of the K agents.
        contexts: one row a context; may have no columns at all.
        context_offsets: (n + 1,) records of context i are context_offsets[i]:context_offsets[i + 1].
        records: the ordered partitions, grouped by context.
        voters: names of the voters that records.voter counts, or None.
        text: the context column that holds the prompt, or None.
        given_design: the design where it is known from elsewhere, or None to detect it.
        report: what a reader saw and left out, or None.
        ballots: the log of whole ballots that this one was cut from (`nasheval.feedback.ballots`), or None.
    """

    agents: tuple[str, ...]
    contexts: pa.Table
    context_offsets: Ints
    records: Records
    voters: pa.Array | None = None
    text: str | None = None
    given_design: Design | None = None
    report: ReadReport | None = field(default=None, compare=False)
    ballots: Log | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "context_offsets", readonly(self.context_offsets))
        if len(set(self.agents)) != len(self.agents):
            raise InputError("Two agents have the same name; give each agent a name of its own.")
        if self.text is not None and self.text not in self.contexts.column_names:
            raise InputError(f"The text column {self.text!r} is not in the contexts: {column_list(self.contexts)}.")

    @property
    def n_contexts(self) -> int:
        """Number of contexts, those without a record included."""
        return len(self.context_offsets) - 1

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.records)

    @property
    def n_agents(self) -> int:
        """Number of agents K."""
        return len(self.agents)

    @property
    def whole(self) -> Log:
        """The log as it was given: its whole ballots where it was cut into pairs, itself otherwise."""
        return self if self.ballots is None else self.ballots

    @cached_property
    def context_of(self) -> Ints:
        """(n_records,) the context of each record, ascending."""
        return readonly(np.repeat(np.arange(self.n_contexts, dtype=np.int32), np.diff(self.context_offsets)))

    @cached_property
    def menus(self) -> MenuCatalogue:
        """The menu catalogue Q."""
        return catalogue(self.records, self.n_agents)

    @cached_property
    def how_designed(self) -> Design:
        """The design with the reason for it."""
        if self.given_design is not None:
            return self.given_design
        return detect(self.menus.of_record, self.context_of, self.records.weights, self.n_contexts)

    @property
    def design(self) -> DesignName:
        """Either "inclusion" or "draws": see `nasheval.feedback.design`."""
        return self.how_designed.name

    @cached_property
    def verdicts(self) -> PairVerdicts:
        """Z^m_jk of every record and pair (Eq. verdict)."""
        return pair_verdicts(self.records)

    @cached_property
    def pair_counts(self) -> PairCounts:
        """Wins, ties and votes of every pair."""
        return count_pairs(self.verdicts, self.records.weight, self.n_agents)


def column_list(table: pa.Table) -> str:
    """Return the names of a table's columns, for a message."""
    return ", ".join(table.column_names) or "no columns"

"""`Feedback`: agents, contexts, and what voters said about menus of agents at those contexts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Ints, offsets_of, runs
from nasheval.contexts.table import as_table
from nasheval.errors import InputError
from nasheval.feedback import arrow
from nasheval.feedback.assemble import Written, assemble, listed, refuse_not_finite
from nasheval.feedback.base import Log
from nasheval.feedback.coverage import Coverage, measure
from nasheval.feedback.design import DESIGNS, Design, DesignName
from nasheval.feedback.joining import joined
from nasheval.feedback.records import Records
from nasheval.feedback.splitting import first_part

_AS_GIVEN = "as given"


class Feedback(Log):
    """An immutable log of relative feedback; its fields are those of `Log`.

    Make one with a reader (`read_votes`, `read_rankings`, `read_scores`), or with `from_partitions`.
    """

    # -- making one ---------------------------------------------------------------------------------------------------

    @classmethod
    def from_records(
        cls,
        records: Records,
        *,
        agents: Sequence[str],
        contexts: pa.Table | None = None,
        context_of: Ints | None = None,
        n_contexts: int | None = None,
        **options: Any,
    ) -> Feedback:
        """Return a log from flat columns.

        Args:
            context_of: (n_records,) the context of each record; None: record r belongs to context r.
            n_contexts: needed only where `contexts` has no columns and some contexts have no record.
            options: voters, text, design, report.
        """
        options["given_design"] = _given(options.pop("design", None))
        contexts = pa.table({}) if contexts is None else contexts
        context_of = np.arange(len(records)) if context_of is None else _whole_numbers(context_of)
        size = contexts.num_rows if contexts.num_columns else n_contexts
        size = int(context_of.max(initial=-1)) + 1 if size is None else size
        _check_context_of(context_of, len(records), size)
        _check_numbers(records, agents, options.get("voters"))
        if np.any(context_of[1:] < context_of[:-1]):
            order = np.argsort(context_of, kind="stable")
            records, context_of = records.take(order), context_of[order]
        starts = offsets_of(np.bincount(context_of, minlength=size))
        return cls(tuple(agents), contexts, starts, records, **options)

    @classmethod
    def from_partitions(
        cls,
        contexts: Any,
        partitions: Sequence[Written],
        *,
        agents: Sequence[str] | None = None,
        context_of: Sequence[int] | None = None,
        propensity: Sequence[float] | None = None,
        weight: Sequence[float] | None = None,
        voter: Sequence[Hashable] | None = None,
        text: str | None = None,
        design: DesignName | None = None,
    ) -> Feedback:
        """Return a log from ordered partitions.

        Args:
            contexts: DataFrame or (n, d) array, one row a context.
            partitions: for each record its ordered partition, best block first, as nested sequences of agents
                ((("a",), ("b", "c")) is a > {b, c}), or a `Partition`, which also says what a zero verdict means.
            agents: all agents; None: those that occur, sorted.
            context_of: row of `contexts` of each record; None: record r belongs to context r.
            propensity: probability with which each record's menu was asked.
            weight: weight of each record.
            voter: who gave each record.
            text: the column of `contexts` that holds the prompt.
            design: "inclusion" or "draws"; None: detected.
        """
        table = as_table(contexts)
        if table.num_columns and not isinstance(contexts, pa.Table):  # a copy: the caller may write into its own
            table = table.take(pa.array(np.arange(table.num_rows)))
        refuse_not_finite(table)
        found = assemble(
            partitions, agents=agents, propensity=propensity, weight=weight, voter=voter, context_of=context_of
        )
        return cls.from_records(
            found.records,
            agents=found.agents,
            contexts=table,
            context_of=None if context_of is None else np.asarray(context_of),
            n_contexts=len(contexts) or None,
            voters=found.voters,
            text=text,
            design=design,
        )

    # -- what it tells ------------------------------------------------------------------------------------------------

    def coverage(self, *, rare: int = 30) -> Coverage:
        """Return what the log covers and where it is thin; prints as tables.

        Args:
            rare: menus with fewer records than this are listed as too rare to estimate.
        """
        return measure(self, rare=rare)

    def __repr__(self) -> str:
        return (
            f"Feedback({self.n_records:,} records, {self.n_contexts:,} contexts, {self.n_agents} agents, "
            f"{len(self.menus):,} menus, design={self.design!r})"
        )

    def equals(self, other: Feedback) -> bool:
        """Tell whether two logs hold the same agents, contexts and records, whoever said what their design is."""
        same_names = self.agents == other.agents and self.text == other.text
        return same_names and bool(self.to_arrow().equals(other.to_arrow()))

    # -- parts of it --------------------------------------------------------------------------------------------------

    def __getitem__(self, which: slice | Ints | Bools | Sequence[int]) -> Feedback:
        """Return the log of some contexts: a slice, context numbers, or a boolean mask over contexts."""
        rows = _picked(which, self.n_contexts)
        starts, sizes = self.context_offsets[:-1][rows], np.diff(self.context_offsets)[rows]
        return replace(
            self,
            contexts=_contexts_at(self.contexts, rows),
            context_offsets=offsets_of(sizes),
            records=self.records.take(runs(starts, sizes)),
            given_design=self.how_designed,
        )

    def keep_records(self, mask: Bools) -> Feedback:
        """Return the log with only the records where mask, (n_records,), holds; every context stays."""
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.shape != (self.n_records,):
            raise InputError(
                f"The mask has shape {mask.shape} and type {mask.dtype}; give {self.n_records} booleans, one a record."
            )
        kept = np.bincount(self.context_of[mask], minlength=self.n_contexts)
        records = self.records.take(np.flatnonzero(mask))
        return replace(self, context_offsets=offsets_of(kept), records=records, given_design=self.how_designed)

    def keep_agents(self, agents: Iterable[str]) -> Feedback:
        """Return the log of the comparisons among some agents; records that name another are left out.

        The design stays that of the whole log. Under inclusion every context stays, since one at which these agents
        were not compared tells how likely they were to be; under draws a context without a record tells nothing, and
        is left out.
        """
        kept = list(agents)
        strangers = [name for name in kept if name not in self.agents]
        if strangers:
            raise InputError(f"There is no agent {strangers[0]!r} in this log; it has {listed(self.agents)}.")
        number = np.full(self.n_agents, -1)
        number[[self.agents.index(name) for name in kept]] = np.arange(len(kept))
        inside = np.logical_and.reduceat(number[self.records.agent] >= 0, self.records.offsets[:-1])
        log = self.keep_records(inside) if self.n_records else self
        return replace(log, agents=tuple(kept), records=log.records.with_agents(number)).trimmed()

    def trimmed(self) -> Feedback:
        """Return the log without contexts that tell nothing: under draws, those that have no record."""
        used = np.diff(self.context_offsets) > 0
        return self if used.all() or self.design == "inclusion" else self[used]

    def with_design(self, design: DesignName) -> Feedback:
        """Return the same log, taken to be of the given design."""
        return replace(self, given_design=_given(design))

    def average_repeats(self) -> Feedback:
        """Return the log in which records of the same menu at one context share one unit of weight.

        Unless the design was given, it is detected anew: shared records are no longer repeats, which speak for draws.
        """
        cell = self.context_of.astype(np.int64) * len(self.menus) + self.menus.of_record
        _, place, count = np.unique(cell, return_inverse=True, return_counts=True)
        design = self.given_design if self.how_designed.reason == _AS_GIVEN else None
        weight = self.records.weights / count[place.ravel()]
        return replace(self, records=self.records.replace(weight=weight), given_design=design)

    def split(self, fraction: float = 0.8, *, seed: int = 0, by: str | None = None) -> tuple[Feedback, Feedback]:
        """Split the contexts in two; a context's records stay together, and at random so do a voter's contexts.

        Voters are kept whole where every context has one known voter and there are 20 or more: what is learned of one
        would help to foretell the same one, not others. The command line (`--part`, `--holdout`) splits the same way.

        Args:
            fraction: share of the contexts in the first part; of the voters, where voters are kept whole.
            seed: of the random choice.
            by: None: at random; "time": the earliest contexts first; a context column: equal values stay together. In
                the latter two a voter may be in both parts.
        """
        chosen = first_part(self, fraction, seed=seed, by=by)
        return self[chosen], self[~chosen]

    # -- with others, and on disk -------------------------------------------------------------------------------------

    @classmethod
    def concat(cls, logs: Sequence[Feedback]) -> Feedback:
        """Return the logs one after another, their agents and voters aligned by name."""
        return cls(**joined(logs))

    def to_arrow(self) -> pa.Table:
        """Return one row a context, its records in the list column `_records`."""
        return arrow.to_arrow(self)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Feedback:
        """Return the log that `to_arrow` wrote."""
        return arrow.from_arrow(table, cls.from_records)

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the log to one Parquet file."""
        arrow.to_parquet(self, path)

    @classmethod
    def from_parquet(cls, path: str | PathLike[str]) -> Feedback:
        """Read the log that `to_parquet` wrote."""
        return arrow.from_parquet(path, cls.from_records)


def _given(design: DesignName | None) -> Design | None:
    if design is None:
        return None
    if design not in DESIGNS:
        raise InputError(f"The design {design!r} is unknown; accepted are 'inclusion' and 'draws'.")
    return Design(design, _AS_GIVEN)


def _check_context_of(context_of: Ints, n_records: int, n_contexts: int) -> None:
    if len(context_of) != n_records:
        raise InputError(f"context_of has {len(context_of)} values for {n_records} records; give one a record.")
    if n_records and (int(context_of.min()) < 0 or int(context_of.max()) >= n_contexts):
        outside = int(np.flatnonzero((context_of < 0) | (context_of >= n_contexts))[0])
        there = f"contexts are 0 to {n_contexts - 1}" if n_contexts else "there is no context"
        raise InputError(
            f"Record {outside} belongs to context {int(context_of[outside])}, but {there}; "
            "give each record the row of its context."
        )


def _whole_numbers(places: Ints) -> Ints:
    places = np.asarray(places)
    if len(places) and places.dtype.kind not in "iu":
        raise InputError(
            f"context_of holds values of type {places.dtype}; accepted are whole numbers: the row of each context."
        )
    return places.astype(np.intp, copy=False)


def _picked(which: slice | Ints | Bools | Sequence[int], n_contexts: int) -> Ints:
    every = np.arange(n_contexts)
    try:
        rows = every[which if isinstance(which, slice) else np.asarray(which) if len(which) else every[:0]]
    except (IndexError, TypeError):
        rows = every[None]
    if rows.ndim != 1:
        raise InputError(
            f"No contexts are picked by {which!r}; accepted are a slice, a list of context numbers (there are "
            f"{n_contexts} contexts), or as many booleans."
        )
    return rows


def _contexts_at(contexts: pa.Table, rows: Ints) -> pa.Table:
    if not contexts.num_columns:
        return contexts
    if np.any(rows[1:] <= rows[:-1]):
        return contexts.take(pa.array(rows))
    mask = np.zeros(contexts.num_rows, bool)  # `take` joins the chunks of a column, which 2 GB of text do not survive
    mask[rows] = True
    return contexts.filter(pa.array(mask))


def _check_numbers(records: Records, agents: Sequence[str], voters: pa.Array | None) -> None:
    if int(records.agent.max(initial=-1)) >= len(agents):
        raise InputError(f"A record names agent number {int(records.agent.max())}, but there are {len(agents)} agents.")
    known = 0 if voters is None else len(voters)
    if records.voter is not None and int(records.voter.max(initial=-1)) >= known:
        raise InputError(f"A record names voter number {int(records.voter.max())}, but there are {known} voters.")

"""`Feedback`: agents, contexts, and what voters said about menus of agents at those contexts."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Ints, offsets_of, readonly, runs
from nasheval.contexts.encoder import names_of, text_columns
from nasheval.contexts.table import as_table
from nasheval.contexts.vectors import uniform_vectors
from nasheval.errors import Argument, InputError
from nasheval.feedback.arrow_columns import column_list, joined_contexts, joined_voters, refuse_not_finite
from nasheval.feedback.assemble import Written, assemble
from nasheval.feedback.coverage import Coverage, Origin, ReadReport, measure
from nasheval.feedback.design import DESIGNS, Design, DesignName, detect
from nasheval.feedback.menus import MenuCatalogue, catalogue
from nasheval.feedback.records import Records
from nasheval.feedback.verdicts import PairCounts, PairVerdicts, count_pairs, pair_verdicts
from nasheval.notes import few

_AS_GIVEN = "as given"
SEVERAL = 20  # voters from which on some of them stand for all


@dataclass(frozen=True, eq=False, repr=False)
class Feedback:
    """An immutable log of relative feedback: n contexts, each with none, one or many records.

    Make one with a reader (`read_votes`, `read_rankings`, `read_scores`), or with `from_partitions`.

    Args:
        agents: names of the K agents.
        contexts: one row per context; may have no columns at all.
        context_offsets: (n + 1,) records of context i are context_offsets[i]:context_offsets[i + 1].
        records: the ordered partitions, grouped by context.
        voters: names of the voters that records.voter counts, or None.
        text: the context column that holds the prompt, a tuple of several text columns, the prompt first, or None.
        given_design: the design where it is known from elsewhere, or None to detect it.
        report: what a reader saw and left out, or None.
        origin: the tool that wrote it, or None.
        ballots: the log of whole ballots that this one was cut from (`nasheval.feedback.ballots`), or None.
        style: names of the columns of `records.style`, such as "length" (`nasheval.feedback.style`).
        held: (n,) `units` of the log of which some records were taken out (`keep_records`), or None.
    """

    agents: tuple[str, ...]
    contexts: pa.Table
    context_offsets: Ints
    records: Records
    voters: pa.Array | None = None
    text: str | tuple[str, ...] | None = None
    given_design: Design | None = None
    report: ReadReport | None = field(default=None, compare=False)
    origin: Origin | None = field(default=None, compare=False)
    ballots: Feedback | None = field(default=None, compare=False)
    style: tuple[str, ...] = ()
    held: Ints | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "context_offsets", readonly(self.context_offsets))
        if len(set(self.agents)) != len(self.agents):
            raise InputError("Two agents have the same name; give each agent a name of its own.")
        object.__setattr__(self, "text", text_columns(self.text))
        for name in self.texts:
            if name not in self.contexts.column_names:
                raise InputError(f"The text column {name!r} is not in the contexts: {column_list(self.contexts)}.")

    @property
    def texts(self) -> tuple[str, ...]:
        """The text columns."""
        return names_of(self.text)

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
    def whole(self) -> Feedback:
        """The log as it was given: its whole ballots where it was cut into pairs, itself otherwise."""
        return self if self.ballots is None else self.ballots

    @cached_property
    def context_of(self) -> Ints:
        """(n_records,) the context of each record, ascending."""
        return readonly(np.repeat(np.arange(self.n_contexts, dtype=np.int32), np.diff(self.context_offsets)))

    @cached_property
    def sole_voters(self) -> Ints:
        """(n_contexts,) the voter of each context; nobody, (0,), where some have none, several or an unknown one."""
        voter, sizes, nobody = self.records.voter, np.diff(self.context_offsets), np.zeros(0, np.int64)
        if voter is None or not sizes.all() or (voter < 0).any():
            return nobody
        first = voter[self.context_offsets[:-1]]
        return nobody if (voter != np.repeat(first, sizes)).any() else first

    @cached_property
    def units(self) -> Ints:
        """(n_contexts,) what is held out whole: the voter of a context, or the context itself.

        Voters where every context has one known voter, some have several contexts, and there are 20 or more: what is
        learned of one foretells the same one, not others. A context that lost its records stays with its voter.
        """
        if self.held is not None and not np.diff(self.context_offsets).all():
            return self.held
        voters = len(np.unique(self.sole_voters))
        return self.sole_voters if SEVERAL <= voters < self.n_contexts else np.arange(self.n_contexts)

    @cached_property
    def n_units(self) -> int:
        """Number of units."""
        return len(np.unique(self.units))

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
            options: voters, text, design, report, origin, style.
        """
        design = options.pop("design", None)
        if design not in (None, *DESIGNS):
            raise InputError(f"The design {design!r} is unknown; accepted are 'inclusion' and 'draws'.")
        options["given_design"] = None if design is None else Design(design, _AS_GIVEN)
        contexts = pa.table({}) if contexts is None else contexts
        known = contexts.num_rows if contexts.num_columns else n_contexts
        places = np.arange(len(records)) if context_of is None else np.asarray(context_of)
        context_of, size = _checked_contexts(places, len(records), known)
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
        text: str | Sequence[str] | None = None,
        design: DesignName | None = None,
    ) -> Feedback:
        """Return a log from ordered partitions.

        Args:
            contexts: DataFrame or (n, d) array, one row per context.
            partitions: for each record its ordered partition, best block first, as nested sequences of agents
                ((("a",), ("b", "c")) is a > {b, c}), or a `Partition`, which also says what a zero verdict means.
            agents: all agents; None: those that occur, sorted.
            context_of: row of `contexts` of each record; None: record r belongs to context r.
            propensity: probability with which each record's menu was asked.
            weight: weight of each record.
            voter: who gave each record.
            text: the column of `contexts` that holds the prompt, or several text columns.
            design: "inclusion" or "draws"; None: detected.
        """
        table = as_table(contexts)
        if table.num_columns and not isinstance(contexts, pa.Table):  # a copy: the caller may write into its own
            table = table.take(pa.array(np.arange(table.num_rows)))
        refuse_not_finite(table)
        table = uniform_vectors(table)
        records, names, voters = assemble(
            partitions, agents=agents, propensity=propensity, weight=weight, voter=voter, context_of=context_of
        )
        return cls.from_records(
            records,
            agents=names,
            contexts=table,
            context_of=None if context_of is None else np.asarray(context_of),
            n_contexts=len(contexts) or None,
            voters=voters,
            text=text,
            design=design,
        )

    # -- what it tells ------------------------------------------------------------------------------------------------

    def coverage(self) -> Coverage:
        """Return what the log covers and where it is thin; prints as tables."""
        return measure(
            self.records,
            self.agents,
            self.context_offsets,
            menus=self.menus,
            counts=self.pair_counts,
            design=self.how_designed,
        )

    def __repr__(self) -> str:
        return (
            f"Feedback({self.n_records:,} records, {self.n_contexts:,} contexts, {self.n_agents} agents, "
            f"{len(self.menus):,} menus, design={self.design!r})"
        )

    # -- parts of it --------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int]:
        """(n_contexts,): what scikit-learn splits, which then asks for log[rows, ...]."""
        return (self.n_contexts,)

    def __getitem__(self, which: Any) -> Feedback:
        """Return the log of some contexts: a slice, context numbers, or a boolean mask over contexts."""
        if isinstance(which, tuple) and len(which) == 2 and which[1] is ...:
            which = which[0]
        rows = _picked(which, self.n_contexts)
        starts, sizes = self.context_offsets[:-1][rows], np.diff(self.context_offsets)[rows]
        return replace(
            self,
            contexts=_contexts_at(self.contexts, rows),
            context_offsets=offsets_of(sizes),
            records=self.records.take(runs(starts, sizes)),
            given_design=self.how_designed,
            held=None if self.held is None else self.held[rows],
        )

    def keep_records(self, mask: Bools) -> Feedback:
        """Return the log with only the records where mask, (n_records,), holds; every context stays."""
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.shape != (self.n_records,):
            raise InputError(f"The mask has shape {mask.shape} and type {mask.dtype}; give {self.n_records} booleans.")
        kept = np.bincount(self.context_of[mask], minlength=self.n_contexts)
        records = self.records.take(np.flatnonzero(mask))
        options: dict[str, Any] = {"given_design": self.how_designed, "held": self.units}
        return replace(self, context_offsets=offsets_of(kept), records=records, **options)

    def keep_agents(self, agents: Iterable[str]) -> Feedback:
        """Return the log of the comparisons among some agents; records that name another are left out.

        The design stays that of the whole log. Under inclusion every context stays, since one at which these agents
        were not compared tells how likely they were to be; under draws a context without a record tells nothing, and
        is left out.
        """
        kept = list(agents)
        if unknown := [name for name in kept if name not in self.agents]:
            raise InputError(f"There is no agent {unknown[0]!r} in this log; it has {few(self.agents, 8)}.")
        number = np.full(self.n_agents, -1)
        number[[self.agents.index(name) for name in kept]] = np.arange(len(kept))
        inside = np.logical_and.reduceat(number[self.records.agent] >= 0, self.records.offsets[:-1])
        log = self.keep_records(inside) if self.n_records else self
        return replace(log, agents=tuple(kept), records=log.records.with_agents(number)).trimmed()

    def trimmed(self) -> Feedback:
        """Return the log without contexts that tell nothing: under draws, those that have no record."""
        used = np.diff(self.context_offsets) > 0
        return self if used.all() or self.design == "inclusion" else self[used]

    def keep_frequent(self, min_votes: int, always: Collection[str] = ()) -> Feedback:
        """Return the log of the agents that stand in at least so many records among themselves.

        Args:
            always: agents that stay however few they have.
        """
        count = np.bincount(self.records.agent, minlength=self.n_agents)
        both = zip(self.agents, count, strict=True)
        kept = [name for name, votes in both if votes >= min_votes or name in always]
        if len(kept) < 2:
            least = Argument("min_votes", min_votes)
            raise InputError(least, ": fewer than two agents have as many records; ask for fewer.")
        return self if len(kept) == self.n_agents else self.keep_agents(kept).keep_frequent(min_votes, always)

    def average_repeats(self) -> Feedback:
        """Return the log in which records of the same menu at one context share one unit of weight.

        Unless the design was given, it is detected anew: shared records are no longer repeats, which speak for draws.
        """
        cell = self.context_of.astype(np.int64) * len(self.menus) + self.menus.of_record
        _, place, count = np.unique(cell, return_inverse=True, return_counts=True)
        design = self.given_design if self.how_designed.reason == _AS_GIVEN else None
        weight = self.records.weights / count[place.ravel()]
        return replace(self, records=self.records.replace(weight=weight), given_design=design)

    def split(self, fraction: float = 0.8, *, seed: int = 0) -> tuple[Feedback, Feedback]:
        """Split the contexts in two at random; a context's records stay together, and so do a voter's contexts.

        Voters are kept whole where every context has one known voter and there are 20 or more: what is learned of one
        would help to foretell the same one, not others. The command line (`--part`, `--holdout`) splits the same way.

        Args:
            fraction: share of the contexts in the first part; of the voters, where voters are kept whole.
            seed: of the random choice.
        """
        if not 0 < fraction < 1:
            raise InputError(f"The fraction is {fraction}; accepted is a number between 0 and 1, such as 0.8.")
        rng, voters = np.random.default_rng(seed), np.unique(self.sole_voters)
        if len(voters) < SEVERAL:
            first = np.isin(
                np.arange(self.n_contexts), rng.permutation(self.n_contexts)[: round(fraction * self.n_contexts)]
            )
        else:
            held_out = round(1 - fraction, 12)  # so that 1 - 0.9 is 0.1
            first = ~np.isin(self.sole_voters, rng.permutation(voters)[: round(held_out * len(voters))])
        return self[first], self[~first]

    @classmethod
    def concat(cls, logs: Sequence[Feedback]) -> Feedback:
        """Return the logs one after another, their agents and voters aligned by name."""
        if not logs:
            raise InputError("There is nothing to concatenate; give at least one log.")
        agents = list(dict.fromkeys(name for log in logs for name in log.agents))
        number = {name: i for i, name in enumerate(agents)}
        voters, places = joined_voters([log.voters for log in logs])
        records, styles = [], {log.style for log in logs if log.n_records}
        for log, place in zip(logs, places, strict=True):
            renumbered = log.records.with_agents(np.array([number[name] for name in log.agents], np.int64))
            voter = log.records.voter
            voter = None if voter is None else np.append(place, np.int32(-1))[voter]  # -1 stays -1
            records.append(renumbered.replace(voter=voter, style=renumbered.style if len(styles) == 1 else None))
        designs, texts = {log.given_design for log in logs}, {log.text for log in logs}
        return cls(
            agents=tuple(agents),
            contexts=joined_contexts([log.contexts for log in logs]),
            context_offsets=offsets_of(np.concatenate([np.diff(log.context_offsets) for log in logs])),
            records=Records.concat(records),
            voters=voters,
            text=texts.pop() if len(texts) == 1 else None,
            given_design=designs.pop() if len(designs) == 1 else None,
            origin=logs[0].origin if all(log.origin == logs[0].origin for log in logs) else None,
            style=styles.pop() if len(styles) == 1 else (),
        )


def _checked_contexts(context_of: Ints, n_records: int, n_contexts: int | None) -> tuple[Ints, int]:
    """Return the context of each record, and how many contexts there are: as many as are named, unless known."""
    if len(context_of) and context_of.dtype.kind not in "iu":
        raise InputError(
            f"context_of holds values of type {context_of.dtype}; accepted are whole numbers: the row of each context."
        )
    if len(context_of) != n_records:
        raise InputError(f"context_of has {len(context_of)} values for {n_records} records; give one per record.")
    context_of = context_of.astype(np.intp, copy=False)
    size = int(context_of.max(initial=-1)) + 1 if n_contexts is None else n_contexts
    outside = np.flatnonzero((context_of < 0) | (context_of >= size))
    if len(outside):
        there = f"contexts are 0 to {size - 1}" if size else "there is no context"
        raise InputError(
            f"Record {outside[0]} belongs to context {context_of[outside[0]]}, but {there}; "
            "give each record the row of its context."
        )
    return context_of, size


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
    for name in agents:
        if not name.isascii() and name.encode(errors="replace").decode() != name:
            raise InputError(f"The agent {name!r} is not valid Unicode: it has half of a character; rename it.")
    known = 0 if voters is None else len(voters)
    if records.voter is not None and int(records.voter.max(initial=-1)) >= known:
        raise InputError(f"A record names voter number {int(records.voter.max())}, but there are {known} voters.")

"""`read_rankings`: ballots as long tables, as one row each, or as PrefLib files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Array, Bools, Ints
from nasheval.contexts.table import decoded, is_string
from nasheval.errors import Argument, InputError
from nasheval.feedback.arrow_columns import coded
from nasheval.feedback.design import DesignName
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.covariates import BALLOT, COMPARED, ROLES, VERDICT, Covariates
from nasheval.feedback.readers.grouping import by_appearance, codes_of, joint_codes
from nasheval.feedback.readers.parsing import agents_in, is_null, names_in, numeric_column, refuse_no_agent, to_numbers
from nasheval.feedback.readers.preflib import SUFFIXES, read_preflib
from nasheval.feedback.readers.row_checks import OnError, RowChecks, listed, several, shown_values
from nasheval.feedback.readers.sources import Source, open_source
from nasheval.feedback.records import Records

Unranked = Literal["last", "absent"]
_RANK = "a number, 1 is best, equal numbers tie"


def read_rankings(
    source: Any,
    *,
    ballot: str | Sequence[str] | None = None,
    agent: str | None = None,
    rank: str | None = None,
    agents: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    context: Sequence[str] | str | None = None,
    text: str | Sequence[str] | None = None,
    context_id: str | None = None,
    categorical: Sequence[str] | str | None = None,
    voter: str | None = None,
    time: str | None = None,
    propensity: str | None = None,
    weight: str | None = None,
    join: Any = None,
    unranked: Unranked = "last",
    design: DesignName | None = None,
    on_error: OnError = "raise",
) -> Feedback:
    """Read rankings of two or more agents; equal ranks are ties.

    Three shapes of table, told apart by the arguments:
    `ballot=, agent=, rank=` (long: one row per agent on a ballot), `agents=[...]` (one row per ballot, one column of
    ranks per agent, empty where it was not on the ballot), `order=[...]` (one row per ballot, columns hold the names of
    the first, second, ... agent). PrefLib files (.soc, .soi, .toc, .toi) need no arguments.

    Args:
        source: a path or a table, as in `read_votes`.
        ballot: column or columns that tell ballots apart.
        context, text, context_id, categorical, voter, time, propensity, weight, join: as in `read_votes`; constant on
            a ballot. Of several columns in `ballot` one may be context too; a single one is refused.
        unranked: in PrefLib files, agents that a voter left out stand "last", their order unknown, or are "absent".
        on_error: "raise", or "skip" to leave out ballots with a bad row and print how many rows are bad.
    """
    if isinstance(source, str | PathLike) and Path(fspath(source)).suffix.lower() in SUFFIXES:
        _refuse_columns(locals())
        return read_preflib(Path(fspath(source)), unranked=unranked, design=design)
    opened = open_source(source)
    shape = _shape(opened, ballot, agent, rank, agents, order)
    beside = Covariates(
        opened,
        context=context,
        text=text,
        join=join,
        categorical=categorical,
        named=shape.named,
        refused=shape.refused,
        roles={"context_id": context_id, "voter": voter, "time": time, "propensity": propensity, "weight": weight},
    )
    table, checks = beside.read([*shape.ballot, *shape.columns], on_error)
    shape = replace(shape, kind=opened.make or shape.kind)
    return _build(checks, table, shape, shape.entries(checks, table, shape), beside, design)


def _refuse_columns(arguments: dict[str, Any]) -> None:
    for name in ("ballot", "agent", "rank", "agents", "order", "context", "text", "categorical", "join", *ROLES):
        if arguments[name]:
            raise InputError(f"A PrefLib file has no columns, so {name}= cannot be used with it; leave it out.")


# -- shapes of tables -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    """How a table stores ballots.

    Args:
        kind: what reports call it, and `roles` the columns they name.
        entries: reads them off a table.
        columns: agent and rank of a long table, else the columns that hold ranks or names.
        refused: columns that cannot be context, and why.
        named: columns that hold ids or names, and so must not be taken for numbers.
        ballot: columns that tell the ballots of a long table apart.
    """

    kind: str
    roles: dict[str, str]
    entries: Callable[[RowChecks, pa.Table, _Shape], _Entries]
    columns: tuple[str, ...]
    refused: dict[str, str]
    named: tuple[str, ...] = ()
    ballot: tuple[str, ...] = ()


def _shape(
    source: Source,
    ballot: str | Sequence[str] | None,
    agent: str | None,
    rank: str | None,
    agents: Sequence[str] | None,
    order: Sequence[str] | None,
) -> _Shape:
    if sum(bool(argument) for argument in (ballot, agents, order)) != 1:
        raise InputError(
            "Say how the ballots are stored, in one way: ",
            Argument("ballot='id', agent='item', rank='rank'", flag="--ballot id --agent item --rank rank"),
            *(" for a long table; ", Argument("agents=[...]", flag="--agents a,b"), " for a column of ranks per agent"),
            Argument("; order=[...] for columns that hold the names in order.", flag="."),
        )
    if ballot:
        names = (ballot,) if isinstance(ballot, str) else tuple(several(ballot, "ballot"))
        wanted = {"agent": agent or "agent", "rank": rank or "rank"}
        source.need("ballot", *names)
        source.need("agent", wanted["agent"])
        source.need("rank", wanted["rank"])
        roles = {"ballot": ", ".join(names), **wanted}
        refused = {wanted["agent"]: COMPARED, wanted["rank"]: VERDICT}
        if len(names) == 1:  # where several tell ballots apart (id, trait), one may be context
            refused = {names[0]: BALLOT, **refused}
        named = (*names, wanted["agent"])
        return _Shape("rankings, a row per agent", roles, _long, tuple(wanted.values()), refused, named, names)
    role = "agents" if agents else "order"
    columns = tuple(dict.fromkeys(several(agents or order, role)))
    source.need(role, *columns)
    if len(columns) < 2:
        raise InputError(Argument(role), f" names {columns[0]!r} alone; a ranking needs two or more different columns.")
    roles, refused = {role: ", ".join(columns)}, dict.fromkeys(columns, VERDICT)
    if agents:
        return _Shape("rankings, a column per agent", roles, _ranks, columns, refused)
    return _Shape("rankings, best first", roles, _names, columns, refused, columns)


@dataclass(frozen=True)
class _Entries:
    """Flat entries: (e,) ballot, table row, agent number and rank of each; (b,) the first row of each ballot."""

    ballot: Ints
    row: Ints
    agent: Ints
    rank: Array
    names: list[str]
    row_of_ballot: Ints


def _long(checks: RowChecks, table: pa.Table, shape: _Shape) -> _Entries:
    agent_name, rank_name = shape.columns
    for name in shape.ballot:
        accepted = "an id in every row"
        checks.reject(
            is_null(table[name]), "there is no ballot id", column=name, accepted=accepted, fix="fill in the id"
        )
    ids = joint_codes(codes_of(names_in(table, name, checks.source)) for name in shape.ballot)
    ballot, first = by_appearance(ids)
    names, [agent] = agents_in([names_in(table, agent_name, checks.source)])
    refuse_no_agent(checks, agent, agent_name)
    rank = numeric_column(checks, table[rank_name], rank_name, role="rank", accepted=_RANK)
    cell = ballot.astype(np.int64) * (len(names) + 1) + agent
    _, place, count = np.unique(cell, return_inverse=True, return_counts=True)
    twice = (count[place.ravel()] > 1) & (agent >= 0)
    checks.reject(
        twice,
        f"{shown_values(np.array(names, object)[agent[twice]])} stands more than once on a ballot",
        column=agent_name,
        accepted="each agent once per ballot",
        fix=(
            "correct the rows, or name all columns that tell ballots apart, as in ",
            Argument("ballot", ["id", "trait"]),
        ),
    )
    small = np.bincount(ballot, minlength=len(first))[ballot] < 2
    checks.reject(
        small,
        "the ballot ranks a single agent",
        column=shape.ballot[0],
        accepted="two or more agents per ballot",
        fix=("add the others, or check that ", Argument("ballot"), " names the columns that tell ballots apart"),
    )
    return _Entries(ballot, np.arange(len(ballot)), agent, rank, names, first)


def _ranks(checks: RowChecks, table: pa.Table, shape: _Shape) -> _Entries:
    ranks, present = [], []
    for name in shape.columns:
        values, is_number = to_numbers(table[name])
        filled = ~_blank(table[name])
        accepted = f"{_RANK}, or nothing where the agent was not on the ballot"
        bad = filled & ~is_number
        checks.reject_values(bad, table[name], " as rank", name=name, accepted=accepted, fix="correct the rank")
        ranks.append(values)
        present.append(filled & is_number)
    there = np.stack(present, axis=1)
    checks.reject(
        there.sum(axis=1) < 2,
        f"the ballot ranks fewer than two of {listed(shape.columns)}",
        accepted="two or more ranks per row",
        fix="fill in the ranks",
    )
    row, agent = np.nonzero(there)
    return _Entries(row, row, agent, np.stack(ranks, axis=1)[there], list(shape.columns), np.arange(table.num_rows))


def _names(checks: RowChecks, table: pa.Table, shape: _Shape) -> _Entries:
    names, numbered = agents_in([names_in(table, name, checks.source) for name in shape.columns])
    agent = np.stack(numbered, axis=1)
    there = agent >= 0
    checks.reject(
        there.sum(axis=1) < 2,
        f"fewer than two agents stand in {listed(shape.columns)}",
        accepted="two or more names per row",
        fix="fill in the names",
    )
    ordered = np.sort(agent, axis=1)
    equal = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    twice = shown_values(np.array(names, object)[ordered[:, 1:][equal]])
    checks.reject(
        equal.any(axis=1),
        f"{twice} stands more than once in {listed(shape.columns)}",
        accepted="each agent once per row",
        fix="correct the names",
    )
    row, place = np.nonzero(there)
    return _Entries(row, row, agent[there], place, names, np.arange(table.num_rows))


def _blank(column: pa.ChunkedArray) -> Bools:
    column = decoded(column)
    if not is_string(column.type):
        return np.asarray(pc.is_null(column, nan_is_null=True).combine_chunks())
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    return np.asarray(pc.fill_null(pc.equal(text, ""), True).combine_chunks())


# -- contexts and the log ---------------------------------------------------------------------------------------------


def _build(
    checks: RowChecks,
    table: pa.Table,
    shape: _Shape,
    entries: _Entries,
    beside: Covariates,
    design: DesignName | None,
) -> Feedback:
    contexts, columns = beside.contexts(checks, table), beside.record_columns(checks, table)
    if shape.ballot:
        _refuse_changes(checks, {name: codes_of(contexts[name]) for name in contexts.column_names}, entries)
        _refuse_changes(checks, {beside.roles[role]: columns[role] for role in ROLES if role in columns}, entries)
        if ids := beside.roles.get("context_id"):
            _refuse_changes(checks, {ids: codes_of(coded(table[ids]))}, entries)
    checks.settle()
    n_ballots = len(entries.row_of_ballot)
    lost = np.bincount(entries.ballot, minlength=n_ballots) < 2
    lost[entries.ballot[checks.bad[entries.row]]] = True  # what a bad row leaves of its ballot is another ranking
    lost |= checks.bad[entries.row_of_ballot]
    if lost.all():
        raise checks.nothing_left(of="ballot", accepted="at least one ballot of two agents")
    use = ~lost[entries.ballot]
    order = np.flatnonzero(use)[np.argsort(entries.ballot[use], kind="stable")]
    rows = entries.row_of_ballot[~lost]
    contexts, context_of = beside.group(table, contexts, rows)
    voters = columns.pop("voters", None)
    records = Records.build(
        sizes=np.bincount(entries.ballot[order], minlength=n_ballots)[~lost],
        agent=entries.agent[order],
        rank=entries.rank[order],
        zero=Zero.TIE,
        **{name: values[rows] for name, values in columns.items()},
    )
    return beside.log(
        checks,
        contexts,
        context_of,
        records,
        agents=entries.names,
        kind=shape.kind,
        used=len(np.unique(entries.row[use])),
        roles=shape.roles,
        voters=voters,
        design=design,
    )


def _refuse_changes(checks: RowChecks, said: dict[str, Array], entries: _Entries) -> None:
    """Reject rows that say something else about their ballot than its first row: a ballot has one voter and context."""
    for name, values in said.items():
        first = values[entries.row_of_ballot][entries.ballot]
        checks.reject(
            (values != first) & ~((values != values) & (first != first)),
            "the value differs from that in the first row of the same ballot",
            column=name,
            accepted="one value per ballot",
            fix=f"correct the value, or leave {name!r} out",
        )

"""`read_partitions`: ordered partitions of menus, one row each, as a service that collects votes exports them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import nasheval.compute as pc
from nasheval.arrays import Ints
from nasheval.contexts.table import is_list
from nasheval.errors import ReadError
from nasheval.feedback.design import DesignName
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.covariates import COMPARED, VERDICT, Covariates
from nasheval.feedback.readers.formats import Format
from nasheval.feedback.readers.parsing import is_null, names_in
from nasheval.feedback.readers.row_checks import OnError, RowChecks
from nasheval.feedback.readers.sources import Source, open_source
from nasheval.feedback.records import Records

MARK = "vote."  # before the names of columns that are no context
MENU, BLOCKS, ZERO = f"{MARK}menu", f"{MARK}blocks", f"{MARK}zero"
ROLES = {"context_id": "decision", "voter": "voter", "time": "time", "propensity": "propensity"}
ABOUT = b"nasheval.votes"  # key of the metadata, {"text": [columns], "design": "draws"}
SKIP = "skip"
_CODES = {"tie": Zero.TIE, "both_bad": Zero.BOTH_BAD, "censored": Zero.CENSORED, "last": Zero.LAST}

PARTITIONS = Format(
    "NashEval votes",
    "partitions",
    (MENU, BLOCKS, ZERO),
    '{"vote.menu": ["b", "a"], "vote.blocks": [["a"], ["b"]], "vote.zero": "tie", "vote.propensity": 0.3, '
    '"language": "en"}',
    {role: f"{MARK}{name}" for role, name in ROLES.items()},
)


def read_partitions(
    source: Any,
    *,
    context: Sequence[str] | str | None = None,
    text: str | Sequence[str] | None = "auto",
    context_id: str | None = None,
    categorical: Sequence[str] | str | None = None,
    voter: str | None = None,
    time: str | None = None,
    propensity: str | None = None,
    weight: str | None = None,
    agents: Sequence[str] | None = None,
    join: Any = None,
    design: DesignName | None = None,
    on_error: OnError = "raise",
) -> Feedback:
    """Read ordered partitions, one row each: `vote.blocks` best first, `vote.zero` what a shared block means.

    Args:
        source: a path or a table, as in `read_votes`.
        context: context columns; None: all but those of the vote.
        text: the prompt column; "auto": what the file says.
        agents: keep only the votes among these, as `Feedback.keep_agents` does.
        context_id, categorical, voter, time, propensity, weight, join, design, on_error: as in `read_votes`.
    """
    opened = open_source(source)
    opened.need("blocks", BLOCKS)
    opened.need("zero", ZERO)
    about = json.loads((opened.schema.metadata or {}).get(ABOUT, b"{}"))
    texts = (about.get("text") or None) if text == "auto" else text
    beside = Covariates(
        opened,
        context=context or _contexts(opened, texts),
        text=texts,
        join=join,
        categorical=categorical,
        refused={MENU: COMPARED, BLOCKS: VERDICT, ZERO: VERDICT},
        roles={"context_id": context_id, "voter": voter, "time": time, "propensity": propensity, "weight": weight},
    )
    table, checks = beside.read([BLOCKS, ZERO], on_error)
    log = _build(checks, table, beside, design or about.get("design"))
    return log.keep_agents(agents) if agents else log


def _contexts(opened: Source, texts: Any) -> list[str]:
    """Return the columns that hold contexts: all others, without the leaves of nested ones."""
    named = {texts} if isinstance(texts, str) else {*(texts or ())}
    return [name for name in opened.names if not name.startswith(MARK) and name not in named]


def _build(checks: RowChecks, table: pa.Table, beside: Covariates, design: DesignName | None) -> Feedback:
    code, skipped = _codes(checks, table)
    checks.unwanted |= skipped
    if count := int(skipped.sum()):
        checks.dropped["skipped by the voter"] = count
    sizes, rank, names = _entries(checks, table[BLOCKS].combine_chunks())
    contexts, columns = beside.contexts(checks, table), beside.record_columns(checks, table)
    small = (sizes < 2) & ~skipped
    checks.reject(small, "the partition compares fewer than two agents", column=BLOCKS, accepted="two agents or more")
    checks.settle()
    use = ~(checks.bad | skipped)
    if not use.any():
        raise checks.nothing_left(of="vote", accepted="at least one vote that was not skipped")
    rows, entries = np.flatnonzero(use), np.repeat(use, sizes)
    contexts, context_of = beside.group(table, contexts, rows)
    coded = pc.dictionary_encode(names)
    agents = sorted(coded.dictionary.to_pylist())
    number = {name: place for place, name in enumerate(agents)}
    places = np.array([number[name] for name in coded.dictionary.to_pylist()], np.int64)
    voters = columns.pop("voters", None)
    records = Records.build(
        sizes=sizes[rows],
        agent=places[np.asarray(coded.indices)][entries],
        rank=rank[entries],
        zero=code[rows],
        **{name: values[rows] for name, values in columns.items()},
    )
    roles = {"blocks": BLOCKS, "zero": ZERO}
    said: dict[str, Any] = {"kind": beside.source.make or PARTITIONS.name, "used": len(rows), "roles": roles}
    return beside.log(checks, contexts, context_of, records, agents=agents, voters=voters, design=design, **said)


def _codes(checks: RowChecks, table: pa.Table) -> tuple[Ints, Any]:
    """Return what a shared block means, (n,) `Zero` codes, and which rows were skipped."""
    said = names_in(table, ZERO, checks.source)
    words = said.dictionary.to_pylist()
    known = np.array([*(_CODES.get(word, Zero.DECIDED) for word in words), Zero.TIE], np.int8)
    skip = np.array([*(word == SKIP for word in words), False])
    place = np.asarray(said.indices.fill_null(len(words)))
    code, skipped = known[place], skip[place]
    accepted = f"{', '.join(_CODES)}, {SKIP}, or nothing for tie"
    checks.reject((code == Zero.DECIDED) & ~skipped, "the meaning is unknown", column=ZERO, accepted=accepted)
    return code, skipped


def _entries(checks: RowChecks, blocks: pa.Array) -> tuple[Ints, Ints, pa.Array]:
    """Return of each row how many agents it holds, and of each agent its block and name."""
    inner = blocks.type.value_type if is_list(blocks.type) else None
    if inner is None or not is_list(inner):
        fix = "write one list of agents per block, best block first"
        raise ReadError(
            f"it holds {blocks.type}", source=checks.source, column=BLOCKS, accepted="lists of lists of agents", fix=fix
        )
    checks.reject(is_null(pa.chunked_array([blocks])) & ~checks.unwanted, "there is no answer", column=BLOCKS)
    n_blocks = np.asarray(pc.fill_null(pc.list_value_length(blocks), 0), np.int64)
    lists = blocks.flatten()
    in_block = np.asarray(pc.fill_null(pc.list_value_length(lists), 0), np.int64)
    row_of_block = np.repeat(np.arange(len(blocks)), n_blocks)
    starts = np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
    place = np.arange(len(lists)) - starts
    sizes = np.bincount(row_of_block, in_block, len(blocks)).astype(np.int64)
    names = lists.flatten()
    names = names if pa.types.is_string(names.type) else names.cast(pa.string())
    row = np.repeat(row_of_block, in_block)
    empty = np.zeros(len(blocks), bool)
    empty[row_of_block[in_block == 0]] = True
    empty[row[np.asarray(names.is_null())]] = True
    checks.reject(empty, "a block is empty, or names nobody", column=BLOCKS, accepted="one agent or more per block")
    coded = pc.dictionary_encode(names.fill_null(""))
    cell = row * (len(coded.dictionary) + 1) + np.asarray(coded.indices, np.int64)
    _, where, count = np.unique(cell, return_inverse=True, return_counts=True)
    twice = np.zeros(len(blocks), bool)
    twice[row[count[where.ravel()] > 1]] = True
    checks.reject(twice, "an agent stands in the partition twice", column=BLOCKS, accepted="each agent once")
    return sizes, np.repeat(place, in_block), names.fill_null("")

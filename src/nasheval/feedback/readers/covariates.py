"""What a row says beside its verdict: context, prompt, context id, voter, time, propensity, weight."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.arrays import Ints
from nasheval.contexts.encoder import names_of
from nasheval.errors import Argument, InputError, ReadError
from nasheval.feedback.arrow_columns import coded
from nasheval.feedback.coverage import ReadReport
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.arena import TAGS, first_of_json_lists, prompts, tag_paths
from nasheval.feedback.readers.grouping import (
    Join,
    group_rows,
    joined_columns,
    open_join,
    refuse_bad_contexts,
    refuse_id_disagreement,
    uniform_text,
    uniform_vectors,
)
from nasheval.feedback.readers.parsing import names_in, numeric_column, refuse_unknown, time_column
from nasheval.feedback.readers.row_checks import OnError, RowChecks, listed, raw_values, several
from nasheval.feedback.readers.sources import Source
from nasheval.feedback.records import Records

ROLES = ("context_id", "voter", "time", "propensity", "weight")

# Why a column cannot be context: it is the answer, or the question.
VERDICT = "is the verdict itself: a model that sees it would predict nothing new"
COMPARED = "says who was compared: that is how menus were selected, which propensities describe, not a context"
BALLOT = "is another one on every ballot: a model that sees it would learn nothing of the next"


class Covariates:
    """The columns a reader takes beside the verdicts: each that is asked for is there, or an error says which is not.

    Args:
        source: the log.
        context, text, join, categorical: as in `read_votes`.
        roles: column of each of `ROLES` that is used.
        named: columns that hold names of agents or ids of ballots, which are text, whatever they look like.
        refused: columns that cannot be context, and why: `VERDICT`, `COMPARED` or `BALLOT`.
        prompt: the column that holds the prompt in this kind of file; text="prompt" means it.
        json_text: whether that column holds JSON lists of turns.
    """

    def __init__(
        self,
        source: Source,
        *,
        context: Sequence[str] | str | None,
        text: str | Sequence[str] | None,
        join: Any,
        roles: dict[str, str | None],
        categorical: Sequence[str] | str | None = None,
        named: Collection[str] = (),
        refused: Mapping[str, str] | None = None,
        prompt: str | None = None,
        json_text: bool = False,
        by_model: bool = False,
    ) -> None:
        joined = open_join(join)
        elsewhere = [name for name in (joined.source.names if joined else []) if name not in source.names]
        tags = tag_paths(source.schema.field(TAGS).type) if TAGS in source.names else {}
        names = [context] if isinstance(context, str) else list(dict.fromkeys(several(context or (), "context")))
        texts = names_of(text if text is None or isinstance(text, str) else several(text, "text"))
        asked = [*names, *texts, *([joined.left] if joined else [])]
        own = {name: VERDICT for name in asked if source.own.is_outcome(name)}
        own |= {name: COMPARED for name in asked if source.own.is_compared(name)}
        _refuse_outcomes({**own, **(refused or {})}, names, texts, joined, source.label)
        source.need("" if by_model else "context", *names, also=[*tags, *elsewhere])
        used = {role: column for role, column in roles.items() if column}
        for role, name in [*used.items(), *([("join", joined.left)] if joined else [])]:
            source.need(role, name)
        here = [*source.names, *elsewhere]
        columns = {name: prompt if name == "prompt" not in here and prompt else name for name in texts if name}
        source.need("" if by_model else "text", *columns.values(), also=elsewhere)
        wanted = list(dict.fromkeys([*names, *columns.values()]))
        if joined and not set(wanted) & set(elsewhere):
            names_here = (Argument("context"), " or ", Argument("text"), f" ({listed(elsewhere)}).")
            label = joined.source.label
            raise InputError(Argument("join"), f" brings no column: name those that {label} adds with ", *names_here)
        self.source, self.join, self.named, self.roles = source, joined, named, used
        self.texts, self.json_text = columns, prompt if json_text else None
        self.context = [name for name in names if name not in columns]
        self.categorical = _categorical(categorical, self.context)
        self.tags = {name: tags[name] for name in names if name in tags and name not in source.names}
        self.from_join = [name for name in wanted if name in elsewhere]

    def read(self, columns: Iterable[str], on_error: OnError) -> tuple[pa.Table, RowChecks]:
        """Read the log's columns of verdicts and all that stand beside them; and what is wrong with its rows."""
        numbers = self.source.numbers
        table, files = self.source.read([*self.with_own(columns), *([numbers] if numbers else [])], text=self.as_text)
        checks = RowChecks(self.source.label, table.num_rows, on_error, files)
        checks.numbers = np.asarray(table[numbers]) if numbers else None
        checks.called = self.source.own.called
        return table, checks

    def with_own(self, columns: Iterable[str]) -> list[str]:
        """Return some columns of the log and all that stand beside them."""
        keys = [*self.roles.values(), *([self.join.left] if self.join else [])]
        own = [*self.context, *self.texts.values()]
        plain = [name for name in own if name not in self.tags and name not in self.from_join]
        return [*columns, *keys, *plain, *([TAGS] if self.tags else [])]

    @property
    def as_text(self) -> set[str]:
        """The columns that must not be taken for numbers: ids, names, prompts and categories."""
        ids = [self.roles.get("context_id"), self.roles.get("voter"), self.join.left if self.join else None]
        return {name for name in [*ids, *self.texts.values(), *self.categorical, *self.named] if name}

    def contexts(self, checks: RowChecks, table: pa.Table) -> pa.Table:
        """Return the context columns and the prompt, one row for each row of the log."""
        columns: dict[str, pa.ChunkedArray] = {}
        other = None
        if self.join and self.from_join:
            other = joined_columns(checks, self.join, table, self.from_join, text=self.categorical)
        for name in self.context:
            if name in self.tags:
                column = pc.struct_field(table[TAGS], self.tags[name])
            else:
                column = other[name] if other is not None and name in self.from_join else table[name]
            columns[name] = self._settled(checks, column, name)
        for name, place in self.texts.items():
            raw = other if other is not None and place in self.from_join else table
            columns[name] = self._prompts(checks, raw[place], place)
        refuse_bad_contexts(checks, pa.table(columns))
        contexts = uniform_vectors(checks, pa.table({n: uniform_text(column) for n, column in columns.items()}))
        if ids := self.roles.get("context_id"):
            refuse_id_disagreement(checks, contexts, names_in(table, ids, checks.source), ids)
        return contexts

    def _settled(self, checks: RowChecks, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        """Return a context column as what it holds: categories, or what a file without types shows it to be."""
        if name in self.categorical:
            texts = names_in(pa.table({name: column}), name, checks.source)
            return pa.chunked_array([texts.dictionary.take(texts.indices)])
        if self.join and name in self.from_join:
            guessed, origin = self.join.source.untyped and name != self.join.right, self.join.source.label
        else:
            guessed, origin = self.source.untyped and name not in self.as_text, ""
        return refuse_unknown(checks, column, name, origin=origin) if guessed else column

    def _prompts(self, checks: RowChecks, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        is_json = name == self.json_text
        said, bad = (first_of_json_lists if is_json else prompts)(column)
        accepted = "a JSON list of strings" if is_json else "text, or a list of {role, content} messages"
        if bad.any():
            what = f"the prompt cannot be read: found {raw_values(column, bad)}"
            fix = "correct the prompt, or leave prompts out with text=None"
            checks.reject(bad, what, column=name, accepted=accepted, fix=fix)
        return said

    def record_columns(self, checks: RowChecks, table: pa.Table) -> dict[str, Any]:
        """Return propensity, weight, time and voter, one value per row, with the voters' names under "voters"."""
        columns: dict[str, Any] = {}
        if name := self.roles.get("propensity"):
            accepted = "a probability above 0 and at most 1"
            columns["propensity"] = numeric_column(
                checks, table[name], name, role="propensity", accepted=accepted, low=0.0, high=1.0
            )
        if name := self.roles.get("weight"):
            accepted = "a finite number above 0"
            columns["weight"] = numeric_column(checks, table[name], name, role="weight", accepted=accepted, low=0.0)
        if name := self.roles.get("time"):
            columns["time"] = time_column(checks, table[name], name)
        if name := self.roles.get("voter"):
            who = names_in(table, name, checks.source)
            columns["voters"], columns["voter"] = who.dictionary, np.asarray(who.indices.fill_null(-1)).astype(np.int32)
        return columns

    def group(self, table: pa.Table, contexts: pa.Table, rows: Ints) -> tuple[pa.Table, Ints]:
        """Return the contexts of some rows of the log, and which context each of those rows belongs to."""
        ids = coded(table[self.roles["context_id"]]) if "context_id" in self.roles else None
        if len(rows) < table.num_rows:
            ids = ids.take(pa.array(rows)) if ids is not None else None
            contexts = contexts.take(pa.array(rows)) if contexts.num_columns else contexts
        return group_rows(contexts, len(rows), ids=ids, text=next(iter(self.texts), None))

    def log(
        self,
        checks: RowChecks,
        contexts: pa.Table,
        context_of: Ints,
        records: Records,
        *,
        agents: Sequence[str],
        kind: str,
        used: int,
        roles: dict[str, str],
        labels: dict[str, tuple[str, int]] | None = None,
        **options: Any,
    ) -> Feedback:
        """Return the log of records at contexts, with the report on what was read.

        Args:
            context_of: (n_records,) the context of each record.
            kind, used, roles, labels: as in `ReadReport`; roles are those of columns that hold verdicts.
            options: voters and design, as in `Feedback.from_records`.
        """
        return Feedback.from_records(
            records,
            agents=agents,
            contexts=contexts,
            context_of=context_of,
            n_contexts=int(context_of.max()) + 1,
            text=tuple(self.texts),
            report=ReadReport(
                source=checks.source,
                kind=kind,
                rows=len(checks.bad),
                used=used,
                roles=roles | self._described(),
                labels=labels or {},
                dropped=checks.dropped,
                aside=dict(self.source.aside),
                problems=tuple(checks.problems),
            ),
            **options,
        )

    def _described(self) -> dict[str, str]:
        """Return which column plays which role, for a report."""
        roles = {**self.roles, "text": ", ".join(self.texts.values()), "context": ", ".join(self.context)}
        if self.join:
            roles["join"] = f"{self.join.left} = {self.join.right} of {self.join.source.label}"
        return {role: name for role, name in roles.items() if name}


def _refuse_outcomes(
    refused: Mapping[str, str], context: list[str], texts: Sequence[str], join: Join | None, source: str
) -> None:
    """Raise where the verdict, or who was compared, is asked for as context, or as the key to it."""
    outcomes = {column: why for column, why in refused.items() if why != BALLOT}  # a prompt may tell ballots apart
    asked = [("context", "context", name, refused) for name in context]
    asked += [("text", "the text", name, outcomes) for name in texts]
    asked += [("join", "the key of a join", join.left, outcomes)] if join else []
    for role, meaning, column, why in asked:
        if column in why:
            raise ReadError(
                f"it cannot be {meaning}, because it {why[column]}",
                source=source,
                column=column,
                accepted="columns whose values are known before anybody votes",
                fix=(f"leave {column!r} out of " if role == "context" else "name another column as ", Argument(role)),
            )


def _categorical(categorical: Sequence[str] | str | None, context: list[str]) -> list[str]:
    names = [categorical] if isinstance(categorical, str) else several(categorical or (), "categorical")
    for name in names:
        if name not in context:
            raise InputError(
                *(Argument("categorical"), f" names {name!r}, which is no context column; accepted are those of "),
                *(Argument("context"), f", {listed(context)}."),
            )
    return names

"""What a row says beside its verdict: context, prompt, context id, voter, time, propensity, weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nasheval.arrays import Ints
from nasheval.errors import Argument, InputError, ReadError
from nasheval.feedback.arrow_columns import coded
from nasheval.feedback.coverage import ReadReport
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.arena import TAGS, first_of_json_lists, prompts, tag_column, tag_paths
from nasheval.feedback.readers.grouping import (
    Contexts,
    Join,
    group_rows,
    joined_columns,
    open_join,
    refuse_bad_contexts,
    refuse_id_disagreement,
    uniform_text,
)
from nasheval.feedback.readers.kinds import refuse_strangers
from nasheval.feedback.readers.parsing import names_in, numeric_column, time_column
from nasheval.feedback.readers.row_checks import RowChecks, listed, need_columns, raw_values, several
from nasheval.feedback.readers.sources import Source
from nasheval.feedback.records import Records

ROLES = ("context_id", "voter", "time", "propensity", "weight")

# Why a column cannot be context: it is the answer, or the question.
VERDICT = "is the verdict itself: a model that sees it would predict nothing new"
COMPARED = "says who was compared: that is how menus were selected, which propensities describe, not a context"
BALLOT = "is another one on every ballot: a model that sees it would learn nothing of the next"


@dataclass(frozen=True)
class Covariates:
    """The columns a reader takes beside the verdicts; make it with `resolve`.

    Args:
        context: names of the context columns, as users write them.
        categorical: those of them that are read as text, whatever they look like.
        tags: those of them that are leaves of the nested category tags, with their paths.
        text: name of the prompt in the contexts, and `text_column` the column it comes from.
        json_text: whether that column holds JSON lists of turns.
        roles: column of each of `ROLES` that is used.
        join: a second table, and `from_join` the columns that come from it.
        named: columns that hold names of agents or ids of ballots, which are text as well.
        untyped: whether the log is a file that does not say what its columns hold.
    """

    context: tuple[str, ...]
    categorical: frozenset[str]
    tags: dict[str, tuple[str, ...]]
    text: str | None
    text_column: str | None
    json_text: bool
    roles: dict[str, str]
    join: Join | None
    from_join: tuple[str, ...]
    named: frozenset[str]
    untyped: bool

    @staticmethod
    def resolve(
        source: Source,
        *,
        context: Sequence[str] | str | None,
        text: str | None,
        join: Any,
        roles: dict[str, str | None],
        categorical: Sequence[str] | str | None = None,
        named: Iterable[str] = (),
        refused: Mapping[str, str] | None = None,
        prompt: str | None = None,
        json_text: bool = False,
    ) -> Covariates:
        """Find every column that is asked for, or say which is missing.

        Args:
            refused: columns that cannot be context, and why: `VERDICT`, `COMPARED` or `BALLOT`.
            prompt: the column that holds the prompt in this kind of file; text="prompt" means it.
        """
        joined = open_join(join)
        elsewhere = [name for name in (joined.source.names if joined else []) if name not in source.names]
        tags = tag_paths(source.schema.field(TAGS).type) if TAGS in source.names else {}
        names = [context] if isinstance(context, str) else list(dict.fromkeys(several(context or (), "context")))
        for name in names:
            need_columns({"context": name}, [*source.names, *tags, *elsewhere], source.label)
        _refuse_outcomes(refused or {}, names, text, joined, source.label)
        used = {role: column for role, column in roles.items() if column}
        need_columns({**used, **({"join": joined.left} if joined else {})}, source.names, source.label)
        column = prompt if text == "prompt" and text not in [*source.names, *elsewhere] and prompt else text
        if column:
            need_columns({"text": column}, [*source.names, *elsewhere], source.label)
        wanted = [*names, *([column] if column and column not in names else [])]
        if joined and not set(wanted) & set(elsewhere):
            names_here = (Argument("context"), " or ", Argument("text"), f" ({listed(elsewhere)}).")
            label = joined.source.label
            raise InputError(Argument("join"), f" brings no column: name those that {label} adds with ", *names_here)
        own = tuple(name for name in names if name != text)
        return Covariates(
            context=own,
            categorical=_categorical(categorical, own),
            tags={name: tags[name] for name in names if name in tags and name not in source.names},
            text=text,
            text_column=column,
            json_text=json_text and column == prompt,
            roles=used,
            join=joined,
            from_join=tuple(name for name in wanted if name in elsewhere),
            named=frozenset(named),
            untyped=source.untyped,
        )

    def columns(self) -> list[str]:
        """Return the columns of the log to read."""
        keys = [*self.roles.values(), *([self.join.left] if self.join else [])]
        own = [*self.context, *([self.text_column] if self.text_column else [])]
        plain = [name for name in own if name not in self.tags and name not in self.from_join]
        return [*keys, *plain, *([TAGS] if self.tags else [])]

    def as_text(self) -> set[str]:
        """Return the columns that must not be taken for numbers: ids, names, prompts and categories."""
        ids = [self.roles.get("context_id"), self.roles.get("voter"), self.join.left if self.join else None]
        return {name for name in [*ids, self.text_column, *self.categorical, *self.named] if name}

    def contexts(self, checks: RowChecks, table: pa.Table) -> pa.Table:
        """Return the context columns and the prompt, one row for each row of the log."""
        columns: dict[str, pa.ChunkedArray] = {}
        other = None
        if self.join and self.from_join:
            other = joined_columns(checks, self.join, table, list(self.from_join), text=self.categorical)
        for name in self.context:
            if name in self.tags:
                column = tag_column(table[TAGS], self.tags[name])
            else:
                column = other[name] if other is not None and name in self.from_join else table[name]
            columns[name] = self._settled(checks, column, name)
        if self.text and self.text_column:
            raw = other if other is not None and self.text_column in self.from_join else table
            columns[self.text] = self._prompts(checks, raw[self.text_column])
        refuse_bad_contexts(checks, pa.table(columns))
        contexts = pa.table({name: uniform_text(column) for name, column in columns.items()})
        if ids := self.roles.get("context_id"):
            refuse_id_disagreement(checks, contexts, names_in(table, ids, checks.source), ids)
        return contexts

    def _settled(self, checks: RowChecks, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        """Return a context column as what it holds: categories, or what a file without types shows it to be."""
        if name in self.categorical:
            return _as_categories(column, name, checks.source)
        if self.join and name in self.from_join:
            guessed, origin = self.join.source.untyped and name != self.join.right, self.join.source.label
        else:
            guessed, origin = self.untyped and name not in self.as_text(), ""
        return refuse_strangers(checks, column, name, origin=origin) if guessed else column

    def _prompts(self, checks: RowChecks, column: pa.ChunkedArray) -> pa.ChunkedArray:
        said, bad = (first_of_json_lists if self.json_text else prompts)(column)
        accepted = "a JSON list of strings" if self.json_text else "text, or a list of {role, content} messages"
        if bad.any():
            what = f"the prompt cannot be read: found {raw_values(column, bad)}"
            fix = "correct the prompt, or leave prompts out with text=None"
            checks.reject(bad, what, column=self.text_column, accepted=accepted, fix=fix)
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

    def group(self, table: pa.Table, contexts: pa.Table, rows: Ints) -> Contexts:
        """Return the contexts of some rows of the log, and which context each of those rows belongs to."""
        where, everything = pa.array(rows), len(rows) == table.num_rows
        ids = coded(table[self.roles["context_id"]]) if "context_id" in self.roles else None
        if not everything:
            ids = ids.take(where) if ids is not None else None
            contexts = contexts.take(where) if contexts.num_columns else contexts
        return group_rows(contexts, len(rows), ids=ids, text=self.text)

    def log(
        self,
        checks: RowChecks,
        grouped: Contexts,
        records: Records,
        *,
        agents: Sequence[str],
        kind: str,
        used: int,
        roles: dict[str, str],
        labels: dict[str, tuple[str, int]] | None = None,
        row_of: Ints | None = None,
        **options: Any,
    ) -> Feedback:
        """Return the log of records at grouped contexts, with the report on what was read.

        Args:
            kind, used, roles, labels: as in `ReadReport`; roles are those of columns that hold verdicts.
            row_of: (n_records,) which of the grouped rows each record is of; None: one record per row.
            options: voters and design, as in `Feedback.from_records`.
        """
        return Feedback.from_records(
            records,
            agents=agents,
            contexts=grouped.table,
            context_of=grouped.of_row if row_of is None else grouped.of_row[row_of],
            n_contexts=int(grouped.of_row.max()) + 1,
            text=self.text,
            report=ReadReport(
                source=checks.source,
                kind=kind,
                rows=len(checks.bad),
                used=used,
                roles=roles | self._described(),
                labels=labels or {},
                dropped=checks.dropped,
                problems=tuple(checks.problems),
            ),
            **options,
        )

    def _described(self) -> dict[str, str]:
        """Return which column plays which role, for a report."""
        roles = {**self.roles, "text": self.text_column or "", "context": ", ".join(self.context)}
        if self.join:
            roles["join"] = f"{self.join.left} = {self.join.right} of {self.join.source.label}"
        return {role: name for role, name in roles.items() if name}


def _refuse_outcomes(
    refused: Mapping[str, str], context: list[str], text: str | None, join: Join | None, source: str
) -> None:
    """Raise where the verdict, or who was compared, is asked for as context, or as the key to it."""
    outcomes = {column: why for column, why in refused.items() if why != BALLOT}  # a prompt may tell ballots apart
    asked = [("context", "context", name, refused) for name in context]
    asked += [("text", "the text", text, outcomes)] if text else []
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


def _categorical(categorical: Sequence[str] | str | None, context: tuple[str, ...]) -> frozenset[str]:
    names = [categorical] if isinstance(categorical, str) else several(categorical or (), "categorical")
    for name in names:
        if name not in context:
            raise InputError(
                f"categorical names {name!r}, which is no context column; accepted are those of ",
                Argument("context"),
                f", {listed(context)}.",
            )
    return frozenset(names)


def _as_categories(column: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    texts = names_in(pa.table({name: column}), name, source)
    return pa.chunked_array([texts.dictionary.take(texts.indices)])

"""`read`: a log of any make, told from its columns; the table of all formats."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

import nasheval.compute as pc
from nasheval.errors import Argument, InputError, ReadError
from nasheval.feedback.coverage import Origin
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.annotation import ANNOTATION
from nasheval.feedback.readers.arenas import ARENAS
from nasheval.feedback.readers.formats import Format, converted, from_records, from_table, settled
from nasheval.feedback.readers.judges import ARENA_HARD, JUDGES, NO_BASELINE, QUESTIONS
from nasheval.feedback.readers.own_fields import OWN_FIELDS
from nasheval.feedback.readers.partitions import PARTITIONS, read_partitions
from nasheval.feedback.readers.preflib import SUFFIXES
from nasheval.feedback.readers.rankings import read_rankings
from nasheval.feedback.readers.score_files import SCORE_FILES
from nasheval.feedback.readers.scores import read_scores
from nasheval.feedback.readers.sources import Source, list_files, open_file, open_source, suffix_of, together
from nasheval.feedback.readers.text_files import first_records, is_json, read_lines, read_records
from nasheval.feedback.readers.votes import read_votes

FORMATS: tuple[Format, ...] = (*JUDGES, *ARENAS, *ANNOTATION, *SCORE_FILES, PARTITIONS)
READERS: dict[str, Callable[..., Feedback]] = {
    "votes": read_votes,
    "rankings": read_rankings,
    "scores": read_scores,
    "partitions": read_partitions,
}
_JSON = (".json", ".jsonl", ".ndjson")
_QUESTIONS = ("question.jsonl", "questions.jsonl")
_FIRST = 20  # rows of a table that tell who wrote it
_ABOVE = 3  # folders above a file in which its questions may lie
_COLUMN_ROLES = ("text", "context_id", "voter", "time", "weight", "propensity", "grade")
_UNNAMED = "no field names this opponent; give its name with baseline= or --baseline"
_COUNTED = ("labels", "grade", "weight")  # arguments that say how verdicts count
# Arguments that say how a table is read: with one of them it is read as it is.
_OWN = ("model_a", "model_b", "winner", "rank_a", "rank_b", "ballot", "agent", "rank", "order", "pairs_per_context")


@dataclass(frozen=True)
class Log:
    """A log that was opened: its source, the reader that takes it, the arguments that its format sets, and that format.

    Args:
        baseline: name of an opponent that the files do not name.
    """

    source: Any
    kind: str
    options: Mapping[str, Any]
    format: Format | None = None
    baseline: str = ""

    def read(self, **options: Any) -> Feedback:
        """Read it; arguments win over those of the format, and labels add to them."""
        merged = {**self.options, **options}
        if "labels" in self.options:
            merged["labels"] = {**self.options["labels"], **(options.get("labels") or {})}
        if "join" in self.options and not options.get("join"):  # the questions, unless nothing of them is used
            context = merged.get("context") or ()
            used = {merged.get("text"), *([context] if isinstance(context, str) else context)}
            if used <= {None, *self.source.names}:
                del merged["join"]
        log = replace(READERS[self.kind](self.source, **merged), origin=self._origin(options))
        return self._with_baseline(log)

    def _with_baseline(self, log: Feedback) -> Feedback:
        """Return the log with a name for the opponent that no field of it names, or with a note that it has none."""
        unnamed = self.format is ARENA_HARD and NO_BASELINE in log.agents
        if self.baseline and not unnamed:
            raise InputError(
                *(Argument("baseline", self.baseline), ": no opponent is without a name here; "),
                "it is for arena-hard judgments without the field 'baseline'. Leave it out.",
            )
        if self.baseline:
            named = (self.baseline if name == NO_BASELINE else name for name in log.agents)
            return replace(log, agents=tuple(named))
        if unnamed and log.report is not None:
            roles = {**log.report.roles, NO_BASELINE: _UNNAMED}
            return replace(log, report=replace(log.report, roles=roles))
        return log

    def _origin(self, options: Mapping[str, Any]) -> Origin | None:
        """Return the tool that wrote the log, unless its verdicts are to count in another way than it wrote them."""
        otherwise = any(options.get(name) for name in _COUNTED) or options.get("grades", "keep") != "keep"
        if self.format is None or otherwise:
            return None
        means = {}
        if self.kind == "scores" and "scores" in self.source.names:
            scores = self.source.read(["scores"])[0]["scores"].combine_chunks()
            means = {name: pc.mean(scores.field(name)).as_py() for name in scores.type.names}
        return Origin(self.format.name, means)


def read(source: Any, *, kind: str = "auto", score: str = "", baseline: str = "", **options: Any) -> Feedback:
    """Read a log of any make: votes, rankings or scores, as one of the tools that `nasheval formats` lists wrote it.

    A folder, with those inside it, or a glob is one log. A file of none of these tools is read as a table: of rankings
    where `ballot` or `order` is given, of scores where `pairs_per_context` is, else of votes.

    Args:
        source: a path or a table, as in `read_votes`.
        kind: "votes", "rankings" or "scores" sets the reader; "auto" tells.
        score: of files with several scores per answer, the one to take; else the tool's main one, or the first.
        baseline: of arena-hard judgments that do not name the opponent, its name; else "baseline".
        options: arguments of `read_votes`, `read_rankings` or `read_scores`, in place of what the format sets.
    """
    return replace(open_log(source, kind=kind, score=score, options=options), baseline=baseline).read(**options)


def open_log(source: Any, *, kind: str = "auto", score: str = "", options: Mapping[str, Any]) -> Log:
    """Open a log of any make; arguments as in `read`."""
    if kind not in ("auto", *READERS):
        raise InputError(f"kind is {kind!r}; accepted are 'auto', {', '.join(map(repr, READERS))}.")
    is_path = isinstance(source, str | PathLike)
    if is_path and Path(os.fsdecode(source)).suffix.lower() in SUFFIXES:
        return Log(source, "rankings" if kind == "auto" else kind, {})
    by_options = "rankings" if options.get("ballot") or options.get("order") else "votes"
    by_options = "scores" if options.get("pairs_per_context") else by_options
    opened, found, questions = _open_path(os.fsdecode(source), score) if is_path else _open_table(source, score)
    named = found is not None and found.records is None and any(options.get(name) for name in _OWN)
    if found is not None and kind in ("auto", found.kind) and not named:
        return _log(settled(opened, found, score), found, questions)
    source = opened if found is None else source
    return Log(source, by_options if kind == "auto" else kind, {})


def _log(source: Source, format: Format, questions: Source | None) -> Log:
    """Return a log of a known format: of the arguments that it sets, those whose columns are there."""
    options = {**format.options}
    key = options.pop("join_key", None)
    there = [field.name for field in source.schema if source.rows is None or not pa.types.is_null(field.type)]
    for role in _COLUMN_ROLES:
        names = options.pop(role, None) or ()
        fitting = [name for name in ((names,) if isinstance(names, str) else names) if name in there]
        if fitting:
            options[role] = fitting[0]
    options["context"] = [name for name in options.get("context", ()) if name in there]
    if questions is not None and key:
        prompts = next(one for one in QUESTIONS if one.kind == "questions")
        new = [name for name in prompts.options["context"] if name in questions.names and name not in source.names]
        options |= {"join": (questions, key, "question"), "text": prompts.options["text"]}
        options["context"] = [*options["context"], *new[:1]]
    return Log(replace(source, own=OWN_FIELDS[format.name]), format.kind, options, format)


# -- telling formats --------------------------------------------------------------------------------------------------


def recognised(names: Sequence[str], head: Sequence[Mapping[str, Any]] = ()) -> Format | None:
    """Return the format of a file with these columns, and these first objects where it is JSON."""
    return next((one for one in (*FORMATS, *QUESTIONS) if one.fits(names, [dict(row) for row in head])), None)


Opened = tuple[Source, Format | None, Source | None]  # a log, its format, and the questions it refers to


def _open_table(data: Any, score: str) -> Opened:
    opened = _opened_table(data)
    found = recognised(opened.names, _head(opened))
    if found is None or found.kind == "questions" or found.by_path:
        return opened, None, None
    return _as_made(opened, Path(opened.label), found, score), found, None


def _opened_table(data: Any) -> Source:
    """Open a table; of a pandas frame, columns of nested values without a common type as JSON text."""
    try:
        return open_source(data)
    except ReadError as error:
        values = list(data[error.column]) if hasattr(data, "assign") and error.column else []
        if not any(isinstance(one, list | dict) for one in values):
            raise
        text = [json.dumps(one, default=str) if isinstance(one, list | dict) else one for one in values]
        return _opened_table(data.assign(**{str(error.column): text}))


def _open_path(path: str, score: str) -> Opened:
    files = list_files(path)
    formats = {file: _format_of(file) for file in files}
    logs = {file: found for file, found in formats.items() if found is not None and found.kind != "questions"}
    if not logs:
        return together([open_file(file) for file in files], path), None, None
    found = _one_format(logs, path)
    source = together([_open_as(file, found, score) for file in logs], path)
    aside = [file for file in files if formats[file] is None]
    endings = {_ending(file) for file in logs}
    for file in aside:
        if _ending(file) in endings:
            _refuse_broken(file)
    if aside:
        names = f"{aside[0].name}" + (" and others" if len(aside) > 1 else "")
        source = replace(source, aside={**source.aside, f"files of another make: {names}": len(aside)})
    return source, found, _questions(files, formats) if found.options.get("join_key") else None


def _ending(file: Path) -> str:
    return suffix_of(file).removesuffix(".gz")


def _refuse_broken(file: Path) -> None:
    """Raise where a file of no known make cannot be parsed: what it holds would be lost, and might be a whole model."""
    if not _is_json(file):
        open_file(file)
    elif not first_records(file) and not is_json(file):
        read_records(file)


def _format_of(file: Path) -> Format | None:
    if not _is_json(file):
        try:
            opened = open_file(file)
            return recognised(opened.names, _head(opened))
        except ReadError:
            return None
    head = first_records(file)
    inner = [f"{key}.{name}" for row in head for key, value in row.items() if isinstance(value, dict) for name in value]
    return recognised([*(key for row in head for key in row), *inner], head) if head else None


def _one_format(logs: Mapping[Path, Format], path: str) -> Format:
    found = {one.name: (one, file) for file, one in reversed([*logs.items()])}
    if len(found) > 1:
        shown = "; ".join(f"{name}: {file}" for name, (_, file) in found.items())
        raise ReadError(
            f"these are files of several formats ({shown})",
            source=path,
            accepted="files of one format",
            fix="name those of one format, with a glob such as 'folder/*_pair.jsonl'",
        )
    return next(one for one, _ in found.values())


def _open_as(file: Path, format: Format, score: str) -> Source:
    if not format.records or not _is_json(file):
        return _as_made(open_file(file), file, format, score)
    quick = from_table(read_lines(file) if format.quick else None, file, format, score)
    return quick or from_records(read_records(file), file, format, score)


def _as_made(opened: Source, file: Path, format: Format, score: str) -> Source:
    """Return what a format makes of a table, which may stand for JSON objects."""
    if not format.records:
        return converted(opened, format, score)
    table = opened.read(_roots(opened))[0]
    return from_table(table, file, format, score) or from_records(_objects(table), file, format, score)


def _head(opened: Source) -> list[dict[str, Any]]:
    """Return the first rows of a table as JSON objects, where it may stand for those of some tool."""
    if not any(one.records and one.marked(opened.names) for one in FORMATS):
        return []
    return next((_objects(table.slice(0, _FIRST)) for _, table in opened.pieces(_roots(opened))), [])


def _roots(opened: Source) -> list[str]:
    """Return the columns of a table without those that stand for nested fields of others."""
    structs = tuple(f"{field.name}." for field in opened.schema if pa.types.is_struct(field.type))
    return [name for name in opened.names if not name.startswith(structs)]


def _objects(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON objects, without the keys that other rows have."""
    return [_stripped(row) for row in table.to_pylist()]


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(one) for key, one in value.items() if one is not None}
    return [_stripped(one) for one in value] if isinstance(value, list) else value


def _is_json(file: Path) -> bool:
    return _ending(file) in _JSON


def _questions(files: Sequence[Path], formats: Mapping[Path, Format | None]) -> Source | None:
    """Return the questions among some files, else those in a folder above."""
    inside = [(file, one) for file, one in formats.items() if one is not None and one.kind == "questions"]
    if not inside:
        above = [folder / name for folder in files[0].absolute().parents[:_ABOVE] for name in _QUESTIONS]
        above = [file for file in above if file.is_file()]
        for file in above:
            _refuse_broken(file)
        inside = [(file, one) for file in above if (one := _format_of(file))]
    for file, one in inside[:1]:
        return converted(open_file(file), one, "") if one.kind == "questions" else None
    return None

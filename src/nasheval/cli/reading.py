"""The options that say how a log is read; check, fit, evaluate and report share them."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from nasheval.cli.parts import Part, part_of
from nasheval.errors import InputError

if TYPE_CHECKING:
    from nasheval.estimator import NashEval
    from nasheval.feedback.log import Feedback
    from nasheval.feedback.readers.sources import Source

FILES = (
    "Votes, rankings or scores: .parquet, .csv, .tsv, .jsonl, .json, .feather, PrefLib; a folder or a glob; or the "
    "name of a data set that comes with the package, such as highway."
)
_PANEL = "Reading the log"


class Kind(StrEnum):
    """What a file holds."""

    auto = "auto"
    votes = "votes"
    rankings = "rankings"
    scores = "scores"


class OnBadRow(StrEnum):
    """What to do with a bad row."""

    stop = "raise"
    skip = "skip"


class DesignChoice(StrEnum):
    """How a log came about."""

    auto = "auto"
    inclusion = "inclusion"
    draws = "draws"


def _option(text: str, *, name: str | None = None, **more: Any) -> Any:
    return typer.Option(*([name] if name else []), help=text, rich_help_panel=_PANEL, **more)


@dataclass(frozen=True)
class Reading:
    """How a log is read; an empty string or 0 leaves it to the reader."""

    kind: Annotated[Kind, _option("What the file holds; auto tells from the columns.")] = Kind.auto
    context: Annotated[str, _option("Context columns, with commas.")] = ""
    text: Annotated[str, _option("Prompt column; 'none' reads no text.")] = ""
    context_id: Annotated[str, _option("Column whose equal values are one context.")] = ""
    categorical: Annotated[
        str, _option("Context columns, with commas, that hold categories though they look like numbers.")
    ] = ""
    join: Annotated[str, _option("Second file with more columns: FILE:key or FILE:key_here=key_there.")] = ""
    model_a: Annotated[str, _option("Votes: column of the agent shown first.")] = ""
    model_b: Annotated[str, _option("Votes: column of the agent shown second.")] = ""
    winner: Annotated[str, _option("Votes: column of the label.")] = ""
    labels: Annotated[str, _option("Votes: what labels mean, as 1=a,2=b,3=tie,-1=drop (or both_bad).")] = ""
    average_repeats: Annotated[
        bool, _option("Votes: records of one pair at one context share one unit of weight.", name="--average-repeats")
    ] = False
    ballot: Annotated[str, _option("Rankings: columns that tell ballots apart, with commas.")] = ""
    agent: Annotated[str, _option("Rankings: column of the agent.")] = ""
    rank: Annotated[str, _option("Rankings: column of the rank, 1 is best.")] = ""
    agents: Annotated[str, _option("Votes: keep only these agents. Rankings, scores: their columns.")] = ""
    min_votes: Annotated[int, _option("Leave out agents with fewer records than this.", min=0)] = 0
    pairs_per_context: Annotated[int, _option("Scores: pairs drawn a prompt; 0 takes all.", min=0)] = 0
    voter: Annotated[str, _option("Column of who voted.")] = ""
    time: Annotated[str, _option("Column of when.")] = ""
    propensity: Annotated[str, _option("Column of the probability with which the menu was asked.")] = ""
    weight: Annotated[str, _option("Column of record weights.")] = ""
    design: Annotated[
        DesignChoice, _option("Votes, rankings: whether menus are included one by one or drawn; auto tells.")
    ] = DesignChoice.auto
    seed: Annotated[int, _option("Seed of everything that is drawn.")] = 0
    where: Annotated[
        str,
        _option("Read only rows of a column's value: split=train; split=dev|test for several, split!=test for others."),
    ] = ""
    part: Annotated[
        Part,
        _option("Read four fifths of the contexts (train), or the rest (test): fit on one, evaluate on the other."),
    ] = Part.all
    on_error: Annotated[OnBadRow, _option("Stop at bad rows, or leave them out and count them.")] = OnBadRow.stop

    def log(self, file: str, *, quiet: bool = False, on_error: str | None = None) -> Feedback:
        """Read a log.

        Args:
            file: as `FILES` says.
            quiet: keep the counts of skipped rows off standard error.
            on_error: in place of the option.
        """
        file, wanted = self._bundled(file)
        reader, options = _READERS[wanted._kind(file)](wanted, file)
        common: dict[str, Any] = {name: split(getattr(wanted, name)) for name in ("context", "categorical")}
        common |= {"context_id": wanted.context_id, "join": joined(wanted.join)}
        named = {name: value for name, value in (common | options).items() if value not in ("", [], None, False)}
        with contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext():
            log: Feedback = reader(chosen_rows(file, wanted.where), on_error=on_error or str(wanted.on_error), **named)
        return part_of(_frequent(log, self.min_votes) if self.min_votes else log, self.part, self.seed)

    def like(self, model: NashEval) -> Self:
        """Return the same with the columns that a model knows, where none are named here."""
        encoder = model.stage1_.encoder
        names = ",".join(column.name for column in encoder.columns)
        categories = ",".join(column.name for column in encoder.columns if column.kind == "categorical")
        fill: dict[str, Any] = {"context": names, "text": encoder.text or "none"}
        if not self.context:
            fill["categorical"] = self.categorical or categories
        return replace(self, **{name: value for name, value in fill.items() if not getattr(self, name)})

    def _bundled(self, file: str) -> tuple[str, Self]:
        """Return the path and the options of a data set that comes with the package, if this is its name."""
        from nasheval.feedback.datasets import HIGHWAY_CONTEXT, NAMES, path

        if file not in NAMES or Path(file).exists():
            return file, self
        known: dict[str, Any] = {"context": ",".join(HIGHWAY_CONTEXT), "context_id": "configuration", "voter": "judge"}
        known["propensity"] = "propensity"
        return str(path(file)), replace(self, **{k: v for k, v in known.items() if not getattr(self, k)})

    def _kind(self, file: str) -> Kind:
        if self.kind is not Kind.auto:
            return self.kind
        if self.ballot or is_preflib(file):
            return Kind.rankings
        return Kind.scores if self.pairs_per_context else Kind.votes

    def _columns(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*names, "voter", "time", "propensity", "weight")}

    def _design(self) -> str | None:
        return None if self.design is DesignChoice.auto else str(self.design)

    def _some_text(self) -> str:
        return "" if self.text == "none" else self.text


def _votes(given: Reading, file: str) -> tuple[Any, dict[str, Any]]:
    from nasheval.feedback.readers.votes import read_votes

    options = given._columns("model_a", "model_b", "winner", "average_repeats")
    options |= {"labels": _labels(given.labels), "agents": split(given.agents), "design": given._design()}
    if given.text == "none":
        return lambda source, **named: read_votes(source, text=None, **named), options
    return read_votes, {**options, "text": given.text}


def _rankings(given: Reading, file: str) -> tuple[Any, dict[str, Any]]:
    from nasheval.feedback.readers.rankings import read_rankings

    if is_preflib(file):
        return read_rankings, {"design": given._design()}
    options = given._columns("agent", "rank") | {"design": given._design(), "text": given._some_text()}
    return read_rankings, {**options, "ballot": split(given.ballot), "agents": split(given.agents)}


def _scores(given: Reading, file: str) -> tuple[Any, dict[str, Any]]:
    from nasheval.feedback.readers.scores import read_scores

    if not given.agents:
        raise InputError("Scores need --agents: the score columns, with commas, such as --agents gpt-4,claude-v2.")
    options = {"agents": split(given.agents), "text": given._some_text(), "seed": given.seed}
    return read_scores, {**options, "pairs_per_context": given.pairs_per_context or None}


_READERS = {Kind.votes: _votes, Kind.rankings: _rankings, Kind.scores: _scores}


def _frequent(log: Feedback, least: int) -> Feedback:
    """Return the log of the agents that stand in at least so many records among themselves."""
    import numpy as np

    while True:
        count = np.bincount(log.records.agent, minlength=log.n_agents)
        kept = [name for name, votes in zip(log.agents, count, strict=True) if votes >= least]
        if len(kept) == log.n_agents:
            return log
        if len(kept) < 2:
            raise InputError(f"--min-votes {least}: fewer than two agents have as many records; ask for fewer.")
        log = log.keep_agents(kept)


def chosen_rows(file: str, where: str) -> str | Source:
    """Return the rows of a file that --where chooses; the file itself where it says nothing."""
    from nasheval.feedback.readers.row_checks import need_columns
    from nasheval.feedback.readers.sources import open_source

    if not where:
        return file
    column, equals, values = where.partition("=")
    other = column.endswith("!")
    column = column.removesuffix("!").strip()
    if not equals or not column:
        raise InputError(f"--where is {where!r}; accepted is column=value, column=one|other or column!=value.")
    source = open_source(file)
    need_columns({"where": column}, source.names, source.label)
    return source.where(column, [value.strip() for value in values.split("|")], other=other)


def is_preflib(file: str) -> bool:
    """Tell whether a file is one of PrefLib, by its ending."""
    from nasheval.feedback.readers.preflib import SUFFIXES

    return Path(file).suffix.lower() in SUFFIXES


def split(text: str) -> list[str]:
    """Return the parts between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _labels(text: str) -> dict[str | None, str] | None:
    """Return what labels mean; nothing before "=" is a missing label."""
    pairs = [part.rpartition("=") for part in split(text)]
    for _, equals, meaning in pairs:
        if not equals:
            raise InputError(f"--labels holds {meaning!r}; accepted is label=meaning, such as 1=a,2=b,3=tie,-1=drop.")
    return {label.strip() or None: meaning.strip() for label, _, meaning in pairs} or None


def joined(text: str) -> tuple[str, ...] | None:
    """Return (file, key here, key there) of FILE:key or FILE:key_here=key_there."""
    if not text:
        return None
    file, colon, keys = text.rpartition(":")
    if not colon or not file or not keys:
        raise InputError(f"--join is {text!r}; accepted is FILE:key, or FILE:key_here=key_there.")
    here, _, there = keys.partition("=")
    return (file, here, there or here)

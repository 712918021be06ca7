"""The options that say how a log is read; check, fit, evaluate and report share them."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer

from nasheval.choices import DesignName, Grades, OnError
from nasheval.cli.options import split
from nasheval.errors import InputError

if TYPE_CHECKING:
    from nasheval.estimator import NashEval
    from nasheval.feedback.log import Feedback
    from nasheval.feedback.readers.any_log import Log
    from nasheval.feedback.readers.sources import Source

FILES = (
    "Votes, rankings or scores: .parquet, .csv, .tsv, .jsonl, .json, .feather, PrefLib; a folder or a glob; or the "
    "name of a data set that comes with the package, such as highway."
)
Kind = Literal["auto", "votes", "rankings", "scores", "partitions"]
_TRAIN = 0.8  # share of the contexts in the part "train"
_PANEL = "Reading the log"


def _option(text: str, *, name: str | None = None, **more: Any) -> Any:
    return typer.Option(*([name] if name else []), help=text, rich_help_panel=_PANEL, **more)


@dataclass(frozen=True)
class Reading:
    """How a log is read; an empty string or 0 leaves it to the reader."""

    kind: Annotated[
        Kind, _option("What the file holds; auto tells, and knows the tools that `nasheval formats` lists.")
    ] = "auto"
    context: Annotated[str, _option("Context columns, with commas.")] = ""
    text: Annotated[str, _option("Prompt column, or several text columns with commas; 'none' reads no text.")] = ""
    context_id: Annotated[str, _option("Column whose equal values are one context.")] = ""
    categorical: Annotated[
        str, _option("Context columns, with commas, that hold categories though they look like numbers.")
    ] = ""
    join: Annotated[str, _option("Second file with more columns: FILE:key or FILE:key_here=key_there.")] = ""
    model_a: Annotated[str, _option("Votes: column of the agent shown first.")] = ""
    model_b: Annotated[str, _option("Votes: column of the agent shown second.")] = ""
    winner: Annotated[str, _option("Votes: column of the label.")] = ""
    labels: Annotated[
        str, _option("Votes: what labels mean, as 1=a,2=b,3=tie,-1=drop (or both_bad); b:0.5 is half as strong.")
    ] = ""
    grade: Annotated[str, _option("Votes: column of how strong each verdict is, above 0 and at most 1.")] = ""
    grades: Annotated[Grades, _option("Votes: keep how strong verdicts are (A>B is half of A>>B), or their sign.")] = (
        "keep"
    )
    rank_a: Annotated[str, _option("Votes: column of the first agent's rank, 1 is best, in place of a label.")] = ""
    rank_b: Annotated[str, _option("Votes: column of the second agent's rank.")] = ""
    style: Annotated[
        str,
        _option(
            "Votes: what answers look like, with commas: length for the columns length_a and length_b. By default "
            "length, headers, lists and bold, where the file has conv_metadata or the answers; 'none' reads none."
        ),
    ] = ""
    average_repeats: Annotated[
        bool, _option("Votes: records of one pair at one context share one unit of weight.", name="--average-repeats")
    ] = False
    ballot: Annotated[str, _option("Rankings: columns that tell ballots apart, with commas.")] = ""
    agent: Annotated[str, _option("Rankings: column of the agent.")] = ""
    rank: Annotated[str, _option("Rankings: column of the rank, 1 is best.")] = ""
    order: Annotated[str, _option("Rankings: columns, with commas, that hold the best agent, the second, ...")] = ""
    agents: Annotated[
        str, _option("Votes: keep only these agents. Rankings, scores: their columns; 'scores.*' for all that fit.")
    ] = ""
    score: Annotated[str, _option("Scores: of files with several scores per answer, the one to take.")] = ""
    baseline: Annotated[str, _option("arena-hard: name of an opponent that the files do not name.")] = ""
    min_votes: Annotated[int, _option("Leave out agents with fewer records than this.", min=0)] = 0
    pairs_per_context: Annotated[int, _option("Scores: pairs drawn per prompt; 0 takes all.", min=0)] = 0
    voter: Annotated[str, _option("Column of who voted.")] = ""
    time: Annotated[str, _option("Column of when.")] = ""
    propensity: Annotated[str, _option("Column of the probability with which the menu was asked.")] = ""
    weight: Annotated[str, _option("Column of record weights.")] = ""
    design: Annotated[
        Literal["auto", DesignName],
        _option("Votes, rankings: whether menus are included one by one or drawn; auto tells."),
    ] = "auto"
    seed: Annotated[int, _option("Seed of everything that is drawn.", min=0)] = 0
    where: Annotated[
        str,
        _option("Read only rows of a column's value: split=train; split=dev|test for several, split!=test for others."),
    ] = ""
    part: Annotated[
        Literal["all", "train", "test"],
        _option("Read four fifths of the contexts (train), or the rest (test): fit on one, evaluate on the other."),
    ] = "all"
    on_error: Annotated[OnError, _option("Stop at bad rows, or leave them out and count them.")] = "raise"

    def log(self, file: str, *, quiet: bool = False, on_error: OnError | None = None) -> Feedback:
        """Read a log.

        Args:
            file: as `FILES` says.
            quiet: keep the counts of skipped rows off standard error.
            on_error: in place of the option.
        """
        path, wanted = self._bundled(file)
        opened, options = wanted._opened(path)
        with contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext():
            log: Feedback = opened.read(on_error=on_error or self.on_error, **options)
        if self.min_votes:
            log = log.keep_frequent(self.min_votes)
        if self.part == "all":
            return log
        train, test = log.split(_TRAIN, seed=self.seed)
        return train if self.part == "train" else test

    def source(self, file: str) -> Any:
        """Return what the log is read from, with the columns that its reader knows."""
        path, wanted = self._bundled(file)
        return wanted._opened(path)[0].source

    def like(self, model: NashEval) -> Self:
        """Return the same with the columns that a model knows, where none are named here."""
        encoder = model.stage1_.encoder
        names = ",".join(column.name for column in encoder.columns)
        categories = ",".join(column.name for column in encoder.columns if column.kind == "categorical")
        fill: dict[str, Any] = {"context": names, "text": ",".join(encoder.texts) or "none"}
        if not self.context:
            fill["categorical"] = self.categorical or categories
        return replace(self, **{name: value for name, value in fill.items() if not getattr(self, name)})

    def _bundled(self, file: str) -> tuple[str, Self]:
        """Return the path and the options of a data set that comes with the package, if this is its name."""
        from nasheval.feedback.datasets import COLUMNS, path

        if file not in COLUMNS or Path(file).exists():
            return file, self
        unsaid = {role: names for role, names in COLUMNS[file].items() if not getattr(self, role)}
        columns: Any = {role: names if isinstance(names, str) else ",".join(names) for role, names in unsaid.items()}
        return str(path(file)), replace(self, **columns)

    def _opened(self, file: str) -> tuple[Log, dict[str, Any]]:
        """Return a file, opened, and those of the options that its reader takes and that say something."""
        from nasheval.feedback.readers.any_log import open_log
        from nasheval.feedback.readers.preflib import SUFFIXES

        values = {**vars(self), "labels": _labels(self.labels), "join": joined(self.join)}
        lists = ("context", "categorical", "ballot", "agents", "order", "style")
        values |= {name: split(values[name]) for name in lists}
        values |= {"design": self.design.removeprefix("auto"), "text": _texts(self.text)}
        log = open_log(file, kind=self.kind, score=self.score, options=values)
        if log.kind == "scores" and not (self.agents or "agents" in log.options):
            raise InputError("Scores need --agents: the score columns, with commas, such as --agents gpt-4,claude-v2.")
        preflib = Path(file).suffix.lower() in SUFFIXES
        taken = (*_COMMON, *(("design",) if preflib and log.kind == "rankings" else _OWN[log.kind]))
        options = {name: values[name] for name in taken if values[name] not in ("", [], None, False)}
        if self.text == "none":
            options["text"] = None
        if self.style == "none":
            options["style"] = None
        return replace(log, source=chosen_rows(log.source, self.where), baseline=self.baseline), options


def _texts(text: str) -> str | list[str]:
    names = split(text) if text != "none" else []
    return names if len(names) > 1 else "".join(names)


_COMMON = ("context", "categorical", "context_id", "join")
_COLUMNS = ("voter", "time", "propensity", "weight", "text", "agents", "design")
_OWN = {
    "votes": (
        *_COLUMNS,
        "model_a",
        "model_b",
        "winner",
        "labels",
        "grade",
        "grades",
        "rank_a",
        "rank_b",
        "average_repeats",
        "style",
    ),
    "rankings": (*_COLUMNS, "ballot", "agent", "rank", "order"),
    "scores": ("agents", "text", "seed", "pairs_per_context"),
    "partitions": _COLUMNS,
}


def chosen_rows(file: str | Source, where: str) -> str | Source:
    """Return the rows of a file that --where chooses; the file itself where it says nothing."""
    from nasheval.feedback.readers.sources import open_source

    if not where:
        return file
    column, equals, values = where.partition("=")
    other = column.endswith("!")
    column = column.removesuffix("!").strip()
    if not equals or not column:
        raise InputError(f"--where is {where!r}; accepted is column=value, column=one|other or column!=value.")
    source = open_source(file)
    source.need("where", column)
    return source.where(column, [value.strip() for value in values.split("|")], other=other)


def _labels(text: str) -> dict[str | None, str] | None:
    """Return what labels mean; nothing before "=" is a missing label."""
    pairs = [pair.rpartition("=") for pair in split(text)]
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

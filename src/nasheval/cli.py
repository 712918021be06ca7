"""The command line: parse, call, print."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nasheval.errors import InputError, NashEvalError

if TYPE_CHECKING:
    from nasheval.feedback.log import Feedback
    from nasheval.feedback.report import ReadReport

app = typer.Typer(
    name="nasheval",
    help="Which agent is best for this? Contextual maximal lotteries from votes, rankings and scores.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
datasets_app = typer.Typer(help="Data sets that come with the package.", no_args_is_help=True)
app.add_typer(datasets_app, name="datasets")


class Kind(StrEnum):
    """What a file holds."""

    auto = "auto"
    votes = "votes"
    rankings = "rankings"
    scores = "scores"


class Format(StrEnum):
    """How results are printed."""

    table = "table"
    json = "json"


class OnBadRow(StrEnum):
    """What to do with a bad row."""

    stop = "raise"
    skip = "skip"


def main() -> None:
    """Run the command line; an error of ours is one message, not a traceback, and exit status 1."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        app()
    except NashEvalError as error:
        if debug:
            raise
        from rich.console import Console

        Console(stderr=True).print(f"[bold red]error:[/] {_escaped(as_options(str(error)))}", highlight=False)
        sys.exit(1)


def as_options(message: str) -> str:
    """Return an error's message with the advice in the words of the command line: model_a= is --model-a there."""
    found, to_do, advice = message.partition("To do:")
    advice = re.sub(r"labels=\{'([^']*)': '?([^'}]*)'?\}", r"--labels '\1=\2'", advice)
    advice = re.sub(r"\b([a-z_]+)='([^']*)'", lambda m: f"--{m[1].replace('_', '-')} {m[2]}", advice)
    advice = re.sub(r"(?<!['\w])([a-z_]+)=(?=[\s,;.]|$)", lambda m: f"--{m[1].replace('_', '-')}", advice)
    return found + to_do + advice


def _version(wanted: bool) -> None:
    if wanted:
        from nasheval import __version__

        typer.echo(f"nasheval {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Add --debug to any command to see the traceback of an error."""


# -- reading a log ----------------------------------------------------------------------------------------------------

_FILES = "Votes, rankings or scores: .parquet, .csv, .tsv, .jsonl, .json, .feather, PrefLib; a folder or a glob."


@app.command()
def check(
    file: Annotated[str, typer.Argument(help=_FILES)],
    kind: Annotated[Kind, typer.Option(help="What the file holds; auto tells from the columns.")] = Kind.auto,
    context: Annotated[str, typer.Option(help="Context columns, with commas.")] = "",
    text: Annotated[str, typer.Option(help="Prompt column; 'none' reads no text.")] = "",
    context_id: Annotated[str, typer.Option(help="Column whose equal values are one context.")] = "",
    categorical: Annotated[
        str, typer.Option(help="Context columns, with commas, that hold categories though they look like numbers.")
    ] = "",
    join: Annotated[str, typer.Option(help="Second file with more columns: FILE:key or FILE:key_here=key_there.")] = "",
    model_a: Annotated[str, typer.Option(help="Votes: column of the agent shown first.")] = "",
    model_b: Annotated[str, typer.Option(help="Votes: column of the agent shown second.")] = "",
    winner: Annotated[str, typer.Option(help="Votes: column of the label.")] = "",
    labels: Annotated[str, typer.Option(help="Votes: what labels mean, as 1=a,2=b,3=tie,-1=drop (or both_bad).")] = "",
    average_repeats: Annotated[
        bool, typer.Option(help="Votes: records of one pair at one context share one unit of weight.")
    ] = False,
    ballot: Annotated[str, typer.Option(help="Rankings: columns that tell ballots apart, with commas.")] = "",
    agent: Annotated[str, typer.Option(help="Rankings: column of the agent.")] = "",
    rank: Annotated[str, typer.Option(help="Rankings: column of the rank, 1 is best.")] = "",
    agents: Annotated[str, typer.Option(help="Votes: keep only these agents. Rankings, scores: their columns.")] = "",
    pairs_per_context: Annotated[int, typer.Option(help="Scores: pairs drawn a prompt; 0 takes all.", min=0)] = 0,
    voter: Annotated[str, typer.Option(help="Column of who voted.")] = "",
    time: Annotated[str, typer.Option(help="Column of when.")] = "",
    propensity: Annotated[str, typer.Option(help="Column of the probability with which the menu was asked.")] = "",
    weight: Annotated[str, typer.Option(help="Column of record weights.")] = "",
    seed: Annotated[int, typer.Option(help="Scores: seed of the draw of pairs.")] = 0,
    on_error: Annotated[
        OnBadRow, typer.Option(help="Stop at bad rows, or leave them out and count them.")
    ] = OnBadRow.stop,
    rows: Annotated[int, typer.Option(help="How many records to show as understood.", min=0)] = 5,
    format: Annotated[Format, typer.Option(help="A table for people, JSON for machines.")] = Format.table,
) -> None:
    """Read a log and say what was understood, what it covers and what is wrong with it.

    Exit status 0: it can be used; 1: it cannot as it is.

    Examples:

      nasheval check votes.parquet --context language,is_code --text prompt

      nasheval check judgments.parquet --model-a model_1 --model-b model_2 --winner score
      --labels 1=a,2=b,3=tie,-1=drop --join prompts.parquet:prompt_id --context lang --text text --context-id prompt_id

      nasheval check ballots.csv --kind rankings --ballot id,trait --agent item --rank rank

      nasheval check scores.parquet --kind scores --agents gpt-4,claude-v2,llama-2 --text prompt --pairs-per-context 20
    """
    given = dict(locals())
    log = read_log(given, on_error="skip", quiet=True)
    report = log.report
    bad = bool(report and report.problems) and on_error is OnBadRow.stop
    if format is Format.json:
        typer.echo(json.dumps(_check_dict(log, usable=not bad), indent=1, ensure_ascii=False))
    else:
        _print_check(log, rows=rows, bad=bad)
    if bad:
        raise typer.Exit(1)


def read_log(given: dict[str, Any], *, on_error: str, quiet: bool = False) -> Feedback:
    """Read the file of a command with the reader its options ask for."""
    import contextlib
    import io

    kind = given["kind"] if given["kind"] is not Kind.auto else _kind_of(given)
    reader, options = {Kind.votes: _votes, Kind.rankings: _rankings, Kind.scores: _scores}[kind](given)
    common: dict[str, Any] = {name: _split(given[name]) for name in ("context", "categorical")}
    common |= {"context_id": given["context_id"], "join": _join(given["join"])}
    named = {name: value for name, value in (common | options).items() if value not in ("", [], None, False)}
    # The counts of skipped rows go to stderr; a command that shows them in its own way keeps that quiet.
    with contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext():
        log: Feedback = reader(given["file"], on_error=on_error, **named)
    return log


def _kind_of(given: dict[str, Any]) -> Kind:
    from nasheval.feedback.readers.preflib import SUFFIXES

    if given["ballot"] or Path(given["file"]).suffix.lower() in SUFFIXES:
        return Kind.rankings
    return Kind.scores if given["pairs_per_context"] else Kind.votes


def _votes(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from nasheval.feedback.readers.votes import read_votes

    options = {name: given[name] for name in ("model_a", "model_b", "winner", "average_repeats", *_ROW_COLUMNS)}
    options |= {"labels": _labels(given["labels"]), "agents": _split(given["agents"])}
    if given["text"] == "none":
        return lambda source, **named: read_votes(source, text=None, **named), options
    return read_votes, {**options, "text": given["text"]}


def _rankings(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from nasheval.feedback.readers.preflib import SUFFIXES
    from nasheval.feedback.readers.rankings import read_rankings

    options = {name: given[name] for name in ("agent", "rank", *_ROW_COLUMNS)}
    options |= {"ballot": _split(given["ballot"]), "agents": _split(given["agents"]), "text": _some_text(given)}
    if Path(given["file"]).suffix.lower() in SUFFIXES:
        options = {}
    return read_rankings, options


def _scores(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from nasheval.feedback.readers.scores import read_scores

    if not given["agents"]:
        raise InputError("Scores need --agents: the score columns, with commas, such as --agents gpt-4,claude-v2.")
    options = {"agents": _split(given["agents"]), "text": _some_text(given), "seed": given["seed"]}
    return read_scores, {**options, "pairs_per_context": given["pairs_per_context"] or None}


_ROW_COLUMNS = ("voter", "time", "propensity", "weight")


def _some_text(given: dict[str, Any]) -> str:
    return "" if given["text"] == "none" else str(given["text"])


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _labels(text: str) -> dict[str, str] | None:
    pairs = [part.rpartition("=") for part in _split(text)]
    for label, equals, meaning in pairs:
        if not equals or not label:
            raise InputError(f"--labels holds {meaning!r}; accepted is label=meaning, such as 1=a,2=b,3=tie,-1=drop.")
    return {label.strip(): meaning.strip() for label, _, meaning in pairs} or None


def _join(text: str) -> tuple[str, ...] | None:
    if not text:
        return None
    file, colon, keys = text.rpartition(":")
    if not colon or not file or not keys:
        raise InputError(f"--join is {text!r}; accepted is FILE:key, or FILE:key_here=key_there.")
    here, _, there = keys.partition("=")
    return (file, here, there or here)


# -- bundled data -----------------------------------------------------------------------------------------------------


@datasets_app.command("list")
def datasets_list() -> None:
    """List the data sets that come with the package."""
    from nasheval.feedback.datasets import NAMES

    for name, about in NAMES.items():
        typer.echo(f"{name}: {about}")


@datasets_app.command("path")
def datasets_path(name: Annotated[str, typer.Argument(help="Name of a data set.")]) -> None:
    """Print where the vote file of a data set lies.

    Example:

      nasheval check "$(nasheval datasets path highway)" --context-id configuration --voter judge
    """
    from nasheval.feedback.datasets import path

    typer.echo(path(name))


@datasets_app.command("build")
def datasets_build(
    name: Annotated[str, typer.Argument(help="Name of a data set.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the shards and the finished files.")],
    workers: Annotated[int, typer.Option(help="Processes; 0 takes all cores.", min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny version, to see that it works.")] = False,
) -> None:
    """Build a data set from nothing: hours of work, in shards, resumed where it stopped.

    Example:

      nasheval datasets build highway --out highway/
    """
    if name != "highway":
        raise InputError(f"There is no builder for {name!r}; accepted is 'highway'.")
    from nasheval.studies.highway_data import build

    build(out, workers=workers or None, quick=quick)


# -- showing it -------------------------------------------------------------------------------------------------------


def _print_check(log: Feedback, *, rows: int, bad: bool) -> None:
    from rich.console import Console

    console = Console()
    if log.report is not None:
        _print_report(console, log.report)
    if rows:
        _print_records(console, log, rows)
    console.print()
    console.print(log.coverage())
    winner = log.coverage().condorcet_winner
    pooled = (
        f"[bold]{_escaped(winner)}[/] beats every other agent"
        if winner
        else "no agent beats every other (a cycle, or ties)"
    )
    console.print(f"\nPooled over all contexts: {pooled}.")
    if bad and log.report is not None:
        count = sum(problem.total for problem in log.report.problems)
        console.print(f"[bold red]This log cannot be used as it is[/]: {count:,} bad values. "
                      "Mend them, or read it with --on-error skip.")  # fmt: skip


_MEANINGS = {
    "a": "the first agent won",
    "b": "the second agent won",
    "tie": "a tie",
    "both_bad": "both bad",
    "drop": "left out",
    "unknown": "not known",
}


def _print_report(console: Any, report: ReadReport) -> None:
    from rich.table import Table

    console.print(f"[bold]{_escaped(report.source)}[/]: {_escaped(report.kind)}; "
                  f"{report.used:,} of {report.rows:,} rows used")  # fmt: skip
    for role, column in report.roles.items():
        console.print(f"  {role}: {_escaped(column)}", highlight=False)
    for reason, count in report.dropped.items():
        console.print(f"  left out: {count:,} rows ({_escaped(reason)})", highlight=False)
    if report.labels:
        table = Table("label", "taken as", "rows", title="Labels", title_justify="left")
        for label, (meaning, count) in sorted(report.labels.items(), key=lambda item: -item[1][1]):
            style = "red" if meaning == "unknown" else ""
            table.add_row(_escaped(label), _MEANINGS[meaning], f"{count:,}", style=style)
        console.print(table)
    for problem in report.problems:
        console.print(f"[red]✗[/] {_escaped(as_options(str(problem.error(report.source))))}", highlight=False)


def _print_records(console: Any, log: Feedback, rows: int) -> None:
    from rich.table import Table

    table = Table("context", "what was said", title="First records, as understood", title_justify="left")
    last = -1
    for row in range(min(rows, log.n_records)):
        context = int(log.context_of[row])
        table.add_row("" if context == last else _escaped(_context_line(log, context)), _escaped(_said(log, row)))
        last = context
    console.print(table)


def _context_line(log: Feedback, context: int, width: int = 60) -> str:
    values = {name: log.contexts[name][context].as_py() for name in log.contexts.column_names}
    shown = {k: f"{v:.4g}" if isinstance(v, float) else " ".join(str(v).split())[:width] for k, v in values.items()}
    parts = [f"{name}={value}" for name, value in shown.items()]
    return f"#{context} " + ", ".join(parts)


def _said(log: Feedback, row: int) -> str:
    from nasheval.feedback.partition import Zero

    start, stop = log.records.offsets[row], log.records.offsets[row + 1]
    agents, blocks = log.records.agent[start:stop], log.records.block[start:stop]
    groups = [[log.agents[a] for a in agents[blocks == b]] for b in range(int(blocks.max()) + 1)]
    reason = {Zero.BOTH_BAD: " (both bad)", Zero.CENSORED: " (order inside = not asked)", Zero.LAST: " (last unranked)"}
    tied = any(len(group) > 1 for group in groups)
    return " > ".join(" = ".join(group) for group in groups) + (
        reason.get(Zero(int(log.records.zero[row])), "") if tied else ""
    )


def _check_dict(log: Feedback, *, usable: bool) -> dict[str, Any]:
    report = log.report
    read = {}
    if report is not None:
        read = {
            "source": report.source,
            "kind": report.kind,
            "rows": report.rows,
            "used": report.used,
            "roles": report.roles,
            "labels": {label: {"meaning": m, "rows": n} for label, (m, n) in report.labels.items()},
            "dropped": report.dropped,
            "problems": [str(problem.error(report.source)) for problem in report.problems],
        }
    return {"usable": usable, "read": read, "coverage": log.coverage().to_dict()}


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)

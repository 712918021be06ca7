"""`nasheval check`: what was understood of a log and what is wrong with it; `nasheval datasets`: logs to start with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nasheval.cli.options import FORMAT, grouped
from nasheval.cli.printing import console, escaped, print_json
from nasheval.cli.reading import FILES, Reading
from nasheval.errors import Argument
from nasheval.notes import brief

if TYPE_CHECKING:
    from nasheval.feedback.coverage import ReadReport
    from nasheval.feedback.log import Feedback


@grouped
def check(
    file: Annotated[str, typer.Argument(help=FILES)],
    reading: Reading,
    rows: Annotated[int, typer.Option(help="How many records to show as understood.", min=0)] = 5,
    format: FORMAT = "table",
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
    log = reading.log(file, on_error="skip", quiet=True)
    bad = bool(log.report and log.report.problems) and reading.on_error == "raise"
    if format == "json":
        read = log.report.to_dict() if log.report else {}
        print_json({"usable": not bad, "read": read, "coverage": log.coverage().to_dict()})
    else:
        _print_check(log, rows=rows, bad=bad)
    if bad:
        raise typer.Exit(1)


_NO_WINNER = "no agent beats every other (a cycle, ties, or pairs that were never compared)"


def _print_check(log: Feedback, *, rows: int, bad: bool) -> None:
    out = console()
    if log.report is not None:
        _print_report(out, log.report)
    if rows:
        _print_records(out, log, rows)
    out.print()
    out.print(log.coverage())
    winner = log.coverage().condorcet_winner
    best = f"[bold]{escaped(winner)}[/] beats every other agent" if winner else ""
    out.print(f"\nPooled over all contexts: {best or _NO_WINNER}.")
    if bad and log.report is not None:
        count = sum(problem.total for problem in log.report.problems)
        what = "bad value" if count == 1 else "bad values"
        out.print(f"[bold red]This log cannot be used as it is[/]: {count:,} {what}. "
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

    console.print(f"[bold]{escaped(report.source)}[/]: {escaped(report.kind)}; "
                  f"{report.used:,} of {report.rows:,} rows used")  # fmt: skip
    for role, column in report.roles.items():
        console.print(f"  {role}: {escaped(column)}", highlight=False)
    for reason, count in report.dropped.items():
        console.print(f"  left out: {count:,} {'row' if count == 1 else 'rows'} ({escaped(reason)})", highlight=False)
    for reason, count in report.aside.items():
        console.print(f"  left out: {count:,} {escaped(reason)}", highlight=False)
    if report.labels:
        table = Table("label", "taken as", "rows", title="Labels", title_justify="left")
        for label, (meaning, count) in sorted(report.labels.items(), key=lambda item: -item[1][1]):
            style = "red" if meaning == "unknown" else ""
            what, _, grade = meaning.partition(":")
            table.add_row(escaped(label), _MEANINGS[what] + (f" ({grade})" if grade else ""), f"{count:,}", style=style)
        console.print(table)
    for problem in report.problems:
        console.print(f"[red]✗[/] {escaped(problem.message(Argument.as_flag))}", highlight=False)


def _print_records(console: Any, log: Feedback, rows: int) -> None:
    from rich.table import Table

    table = Table("context", "what was said", title="First records, as understood", title_justify="left")
    last = -1
    for row in range(min(rows, log.n_records)):
        context = int(log.context_of[row])
        table.add_row("" if context == last else escaped(_context_line(log, context)), escaped(_record_line(log, row)))
        last = context
    console.print(table)


def _context_line(log: Feedback, context: int) -> str:
    values = {name: log.contexts[name][context].as_py() for name in log.contexts.column_names}
    return f"#{context} " + ", ".join(f"{name}={brief(value)}" for name, value in values.items())


def _record_line(log: Feedback, row: int) -> str:
    from nasheval.feedback.partition import Zero

    blocks = [[log.agents[a] for a in block] for block in log.records.blocks(row)]
    line = " > ".join(" = ".join(block) for block in blocks)
    if all(len(block) == 1 for block in blocks):
        grade = 1.0 if log.records.grade is None else log.records.grade[row]
        return line if grade > 0.995 else f"{line} ({grade:.2g})"
    reason = {Zero.BOTH_BAD: " (both bad)", Zero.CENSORED: " (order inside = not asked)", Zero.LAST: " (last unranked)"}
    return line + reason.get(Zero(int(log.records.zero[row])), "")


# -- logs that come with the package ----------------------------------------------------------------------------------

datasets_app = typer.Typer(help="Data sets that come with the package.", no_args_is_help=True)


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

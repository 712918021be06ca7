"""The program: its commands, its exit status, and what becomes of an error."""

from __future__ import annotations

import inspect
import os
import re
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated

import typer

from nasheval.cli.printing import console, escaped
from nasheval.errors import Argument, ConvergenceError, MissingExtraError, NashEvalError

_STATUS = {MissingExtraError: 3, ConvergenceError: 4}
_DEFECT, _INTERRUPTED = 70, 130
_ABOUT = """Which agent is best for this? Contextual maximal lotteries from votes, rankings and scores.

Start with: nasheval check votes.parquet, then nasheval fit votes.parquet -o model/

Exit status: 0 done, 1 the input cannot be used, 2 the command line was not understood, 3 a package is missing, \
4 a solver did not converge, 70 a defect, 130 interrupted. Add --debug to any command to see a traceback."""

# The module of each command, in the order of the help.
_HOMES = {
    "fit": "fitting", "leaderboard": "leaderboard", "predict": "predicting", "route": "routing",
    "evaluate": "evaluating", "promote": "promoting", "report": "reporting", "check": "checking",
    "serve": "serving", "refit": "serving", "keys": "serving", "formats": "formats", "export": "reporting",
}  # fmt: skip


def _flowing(text: str) -> str:
    """Return a docstring whose paragraphs are one line each, for the terminal to wrap."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(re.sub(r"\n\s*", " ", paragraph) for paragraph in paragraphs)


def program(only: str | None = None) -> typer.Typer:
    """Return the command line; `only` the command that was asked for, where the others would take longer to import."""
    app = typer.Typer(
        name="nasheval",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_ABOUT)(_root)
    for name, home in _HOMES.items():
        if only in (None, name):
            command = getattr(import_module(f"nasheval.cli.{home}"), name)
            app.command(help=_flowing(command.__doc__ or ""))(command)
    if only is None:
        app.add_typer(import_module("nasheval.cli.checking").datasets_app, name="datasets")
    return app


def main() -> None:
    """Run the command line; an error is one message, not a traceback, and an exit status that says what it was."""
    # Threads that wait for each other sleep: on a busy machine those that spin take three times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # no encoding is a reason to stop
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        program(sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] in _HOMES else None)()
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            console(stderr=True).print("interrupted; what was not finished was not written")
        raise
    except Exception as error:
        if debug:
            raise
        sys.exit(_reported(error))


def _reported(error: Exception) -> int:
    """Say what went wrong; return the exit status."""
    out = console(stderr=True)
    if isinstance(error, NashEvalError):
        out.print(f"[bold red]error:[/] {escaped(error.message(Argument.as_flag))}", soft_wrap=True)
        return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 1)
    if isinstance(error, OSError | MemoryError):
        out.print(f"[bold red]error:[/] {escaped(str(error) or 'out of memory')}", soft_wrap=True)
        return 1
    what = f"{type(error).__name__}: {error}"
    out.print(f"[bold red]defect:[/] {escaped(what)}\nThis is our fault. Please report it with what --debug prints.")
    return _DEFECT


def _version(wanted: bool) -> None:
    if wanted:
        from nasheval import __version__

        typer.echo(f"nasheval {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Hold what belongs to no command."""

"""The command line: parse, call, print."""

from typing import TYPE_CHECKING, Any

from nasheval.cli.program import main as main

if TYPE_CHECKING:
    import typer

    app: typer.Typer


def __getattr__(name: str) -> Any:  # `app`, all commands, is made when it is asked for
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nasheval.cli.program import program

    return globals().setdefault("app", program())

"""Options that commands share: groups of them as dataclasses, and all of them from a TOML file too."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from nasheval.choices import Engine, Speaks
from nasheval.errors import InputError

Format = Literal["table", "csv", "json"]
TableOrJson = Literal["table", "json"]  # of results that are no single table

MODEL = Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a model that nasheval fit wrote.")]
FORMAT = Annotated[TableOrJson, typer.Option(help="A table for people, JSON for machines.")]
VOTERS = Annotated[
    Speaks | None,
    typer.Option(
        help="Whom intervals speak for: panel (these very voters) or population (others like them, which is wider); by "
        "default the population with 20 named voters or more, the panel with fewer.",
        show_default=False,
    ),
]

TEXT_MODEL = Annotated[
    str,
    typer.Option(
        help="What turns texts into vectors, where the folder does not hold it or its weights are not here: the "
        "name of the model it was fitted with, which is then fetched, or its folder.",
        metavar="NAME",
    ),
]
ENGINE = Annotated[
    Engine | None,
    typer.Option(
        help="Where the work is done: local (the default), or ray: a cluster, that of RAY_ADDRESS if it is set.",
        show_default=False,
    ),
]
MARGIN = Annotated[
    float,
    typer.Option(help="How much worse than the leader an agent may be and still be shipped.", min=0, max=0.99),
]


def split(text: str) -> list[str]:
    """Return the words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in whose place typer sees one option per field of its dataclass arguments, and --config."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    shown: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        shown += _options_of(groups[parameter.name]) if parameter.name in groups else [parameter]
    config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_ConfigFile)

    @wraps(command)
    def run(**options: Any) -> None:
        options.pop("config", None)
        for name, kind in groups.items():
            options[name] = kind(**{field.name: options.pop(field.name) for field in fields(kind)})
        command(**options)

    keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*shown, config)]
    run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]  # what typer asks for
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in keyword}
    return run


def _options_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(f.name, kind, default=f.default, annotation=hints[f.name]) for f in fields(group)]


# -- options from a file ----------------------------------------------------------------------------------------------


def _read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make what a TOML file says the defaults of a command."""
    if path is None or ctx.resilient_parsing:
        return path
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"--config {path}: cannot be read as TOML ({error}).") from None
    named = {name.replace("-", "_"): value for name, value in settings.items()}
    commands = getattr(ctx.find_root().command, "commands", {}).values()
    accepted = {str(option.name) for command in commands for option in command.params}
    for name in named:
        if name not in accepted:
            near = get_close_matches(name, accepted, n=1)
            hint = f"; did you mean {near[0].replace('_', '-')!r}?" if near else ", see nasheval fit --help."
            raise InputError(f"--config {path}: there is no option {name.replace('_', '-')!r}{hint}")
    several = {str(option.name) for option in ctx.command.params if getattr(option, "multiple", False)}
    ctx.default_map = {name: _as_list(value) if name in several else _flat(value) for name, value in named.items()}
    return path


def _flat(value: Any) -> Any:
    """Return a list as commas and a table as key=value with commas, which is how flags say it."""
    return ",".join(_as_list(value)) if isinstance(value, list | dict) else value


def _as_list(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{key}={one}" for key, one in value.items()]
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


_ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file of options, such as folds = 10; lists for commas, tables for name=value. Flags win.",
        callback=_read_config,
        is_eager=True,
        show_default=False,
    ),
]

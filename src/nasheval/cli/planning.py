"""`nasheval plan`: how many votes are needed, and which menus to ask next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nasheval.cli.options import FORMAT, MARGIN, TEXT_MODEL, grouped, split
from nasheval.cli.printing import console, print_json, tell
from nasheval.errors import InputError
from nasheval.files import check_file

if TYPE_CHECKING:
    from nasheval.planning.plan import Plan

_MARGINS = 0.2
_GUESS, _MENUS = "Without a model", "Menus to ask next"


@grouped
def plan(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder of a model; without one, plan from --agents.")
    ] = "",
    goal: Annotated[
        str,
        typer.Option(
            help="What votes are for, with commas: width=0.1 (of intervals), leader (shown at most --margin worse than "
            "any other; leader=0.02 for that margin), 'cycle=a>b>c' (certain). By default all that apply."
        ),
    ] = "",
    by: Annotated[str, typer.Option(help="Context column: a plan for each of its values.")] = "",
    margin: MARGIN = 0.05,
    power: Annotated[float, typer.Option(help="Chance with which a goal is to be reached.")] = 0.8,
    confidence: Annotated[float, typer.Option(help="Of intervals, decisions and cycles.")] = 0.95,
    voters: Annotated[
        str,
        typer.Option(
            help="Of a model: whom intervals speak for, panel or population; without one: how many there are."
        ),
    ] = "",
    learning: Annotated[
        bool,
        typer.Option("--learning/--no-learning", help="Find out how much better the outcome model gets with votes."),
    ] = True,
    agents: Annotated[int, typer.Option(help="How many there are.", min=0, rich_help_panel=_GUESS)] = 0,
    margins: Annotated[
        float, typer.Option(help="By how much each agent beats every later one.", rich_help_panel=_GUESS)
    ] = _MARGINS,
    menus: Annotated[int, typer.Option(help="How many to draw; 0 draws none.", min=0, rich_help_panel=_MENUS)] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Parquet file of tasks to write.", rich_help_panel=_MENUS)
    ] = None,
    floor: Annotated[
        float,
        typer.Option(help="Least share of its probability under uniform asking of any pair.", rich_help_panel=_MENUS),
    ] = 0.2,
    size: Annotated[int, typer.Option(help="Agents of a menu.", min=2, rich_help_panel=_MENUS)] = 2,
    contexts: Annotated[
        str,
        typer.Option(help="File of contexts to ask at; by default those of the log again.", rich_help_panel=_MENUS),
    ] = "",
    among: Annotated[
        str, typer.Option(help="Agents that may be asked, with commas; by default all.", rich_help_panel=_MENUS)
    ] = "",
    plot: Annotated[
        Path | None, typer.Option(help="Picture of the curve of the first goal to write: .png, .svg or .pdf.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of all draws; by default that of the model.", min=0)] = None,
    text_model: TEXT_MODEL = "",
    format: FORMAT = "table",
) -> None:
    """Say how many votes are needed, and draw which menus to ask next.

    A goal is a width of intervals, a leader told apart by the rule of the leaderboard's decision, or a cycle. The
    number of votes comes with the curve behind it and how uncertain it is; some goals no number of votes reaches.

    With --menus, tasks are drawn: more often pairs that matter to the equilibrium of their context, and each with a
    known probability. When the column winner is filled in, the file is a log: nasheval fit tasks.parquet --propensity
    propensity.

    Examples:

      nasheval plan model/ --goal leader,width=0.1 --by language

      nasheval plan model/ --menus 2000 -o tasks.parquet

      nasheval plan --agents 5 --margins 0.2 --voters 40
    """
    _check(model, menus, out)
    if model and (agents or margins != _MARGINS):
        raise InputError("--agents and --margins are for a plan without a model; leave them out, or the model.")
    if by and not model:
        raise InputError("--by takes a model: name its folder.")
    if plot is not None:
        check_file(plot)
    how: dict[str, Any] = {"goal": split(goal) or None, "margin": margin, "power": power, "confidence": confidence}
    made = (
        _of_model(model, by, voters, learning, text_model, seed, how) if model else _guess(agents, voters, margins, how)
    )
    if out is not None:
        rows = None if not contexts else _read(contexts)
        tasks = made.menus(menus, floor, size=size, contexts=rows, agents=split(among) or None, seed=seed)
        tasks.write(out)
        tell(f"{out}: {len(tasks):,} menus; their votes spread as over {tasks.effective:,.0f} pairs asked alike.")
    if plot is not None:
        made.save_plot(plot)
    if format == "json":
        print_json(made.to_dict())
    else:
        console().print(made, soft_wrap=True)


def _check(model: str, menus: int, out: Path | None) -> None:
    if (menus > 0) != (out is not None):
        raise InputError("--menus and -o go together: how many to draw, and the Parquet file to write them to.")
    if out is not None:
        check_file(out, ".parquet")
        if not model:
            raise InputError(
                "--menus needs a model: name its folder, as in nasheval plan model/ --menus 99 -o t.parquet."
            )


def _of_model(
    folder: str, by: str, voters: str, learning: bool, text_model: str, seed: int | None, how: dict[str, Any]
) -> Plan:
    from nasheval.estimator import load
    from nasheval.planning.plan import plan as make

    if voters not in ("", "panel", "population"):
        raise InputError(f"--voters is {voters!r}; of a model, accepted are panel or population.")
    loaded = load(folder, text_encoder=text_model or None)
    speaks: Literal["panel", "population"] | None = voters or None  # type: ignore[assignment]
    return make(loaded, by=by or None, voters=speaks, learning=learning, seed=seed, **how)


def _guess(agents: int, voters: str, margins: float, how: dict[str, Any]) -> Plan:
    from nasheval.planning.plan import plan as make

    if not agents:
        raise InputError("There is nothing to plan from: name the folder of a model, or give --agents 5.")
    if voters and not voters.isdigit():
        raise InputError(f"--voters is {voters!r}; without a model, accepted is how many there are, such as 40.")
    return make(agents=agents, voters=int(voters) if voters else None, margins=margins, **how)


def _read(file: str) -> Any:
    """Return the rows of a file of contexts."""
    from nasheval.feedback.readers.sources import open_source

    source = open_source(file)
    return source.read(source.names)[0]

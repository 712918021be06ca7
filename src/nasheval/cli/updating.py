"""`nasheval update`: more votes and new agents for a saved model, without a full refit."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nasheval.cli.leaderboard import board_of
from nasheval.cli.options import FORMAT, MODEL, TEXT_MODEL, grouped
from nasheval.cli.printing import console, escaped, print_json
from nasheval.cli.reading import FILES, Reading, chosen_rows
from nasheval.errors import InputError

if TYPE_CHECKING:
    from nasheval.estimator import NashEval

_NAMED = 20  # newcomers whose standing is shown


@grouped
def update(
    model: MODEL,
    votes: Annotated[str, typer.Argument(help=f"Votes that the model has not seen, on any agents. {FILES}")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the updated model to.")],
    reading: Reading,
    costs: Annotated[str, typer.Option(help="What agents cost, newcomers too, as in fit; by default as known.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Keep prompts as they are, where the model has kept its own.")
    ] = False,
    text_model: TEXT_MODEL = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    format: FORMAT = "table",
) -> None:
    """Add votes to a saved model, agents that are new among them, without a full refit.

    What the model learned of the agents it knows stays; the utilities of newcomers are learned from their votes, and
    their intervals are as wide as these votes leave them. --min-votes leaves out newcomers with fewer votes and names
    them. It says whether a full refit is due: because the held-out loss, who votes or what is asked has changed, or
    because a quarter of the votes came after the last full fit.

    Context columns and prompt are those that the model knows. Give each vote once: those that the model was fitted on
    are in it.

    Examples:

      nasheval update model/ new-votes.parquet -o newer/

      nasheval update model/ new-votes.parquet --min-votes 100 -o newer/ --format json
    """
    from nasheval.estimator import load
    from nasheval.feedback.readers.costs import read_costs
    from nasheval.store.evidence import fingerprint
    from nasheval.store.folder import check_target

    check_target(out.resolve(), overwrite)  # before the work, not after it
    loaded = load(model, text_encoder=text_model or None)
    loaded.verbose = not quiet and sys.stderr.isatty()
    log = replace(reading, min_votes=0).like(loaded).log(votes, quiet=quiet)  # known agents stay, however few
    if getattr(loaded.stage1_, "fingerprint", "") == fingerprint(log):
        raise InputError(f"{votes} is the log that {model} was fitted on; give votes that it has not seen.")
    how: dict[str, Any] = {"min_votes": reading.min_votes}
    if costs:
        how["costs"] = read_costs(costs, chosen_rows(votes, reading.where), [*loaded.agents_, *log.agents])
    newer = loaded.update(log, **how)
    newer.save(out, overwrite=overwrite, keep_text=keep_text)
    rows = [] if quiet and format == "table" else _standings(newer)
    if format == "json":
        print_json({"model": str(out), **newer.update_.to_dict(), "standings": rows})
    elif not quiet:
        _print_summary(newer, out, rows)


def _standings(model: NashEval) -> list[dict[str, Any]]:
    """Return the rows of the leaderboard of newcomers, each with its place and its payoff against the leader."""
    if not model.update_.newcomers:
        return []
    rows, _ = board_of(model)
    group, leader = model.payoff_interval(), rows[0]["agent"]
    at = {agent: place for place, agent in enumerate(model.agents_)}
    found = []
    for place, row in enumerate(rows, start=1):
        if row["agent"] in model.update_.newcomers:
            rival = leader if row["agent"] != leader else rows[min(1, len(rows) - 1)]["agent"]
            cell = at[row["agent"]], at[rival]
            ends = {name: float(getattr(group, name)[cell]) for name in ("estimate", "lower", "upper")}
            found.append(
                {
                    "place": place,
                    "of": len(rows),
                    **row,
                    "against": rival,
                    **{f"payoff_{n}": v for n, v in ends.items()},
                }
            )
    return found


def _print_summary(model: NashEval, out: Path, rows: list[dict[str, Any]]) -> None:
    screen = console()
    for line in str(model.update_).split("\n"):
        screen.print(escaped(line), soft_wrap=True)
    for row in rows[:_NAMED]:
        against = (
            f"payoff {row['payoff_estimate']:+.2f} ({row['payoff_lower']:+.2f} to {row['payoff_upper']:+.2f}) against "
            f"{row['against']}"
        )
        screen.print(
            f"[bold]{escaped(str(row['agent']))}[/]: place {row['place']} of {row['of']}, lottery {row['lottery']:.2f} "
            f"({row['lower']:.2f} to {row['upper']:.2f}), {escaped(against)}",
            soft_wrap=True,
        )
    screen.print(f"The updated model: [bold]{escaped(str(out))}[/]", soft_wrap=True)

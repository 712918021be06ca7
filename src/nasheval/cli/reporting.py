"""`nasheval report`: one page on a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nasheval.cli.evaluating import AGAINST, RIVALS, compared
from nasheval.cli.options import MODEL, VOTERS, grouped, speaks
from nasheval.cli.printing import tell
from nasheval.cli.reading import FILES, Reading, split
from nasheval.files import check_folder

if TYPE_CHECKING:
    from nasheval.estimator import NashEval
    from nasheval.payoff.clusters import Speaks
    from nasheval.scoring.heldout import Evaluation


@grouped
def report(
    model: MODEL,
    reading: Reading,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    by: Annotated[str, typer.Option(help="Context columns to group by, with commas; without it, the usual.")] = "",
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Evaluation of agents",
    heldout: Annotated[str, typer.Option(help=f"A log that the model has not seen, to compare on. {FILES}")] = "",
    against: AGAINST = RIVALS,
    voters: VOTERS = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Write a report: one self-contained HTML page.

    Leaderboard, payoffs, cycles, costs, and how far to trust it all.

    Examples:

      nasheval report model/ -o report.html --by language

      nasheval report model/ -o report.html --heldout heldout.parquet
    """
    from nasheval.estimator import load

    check_folder(out)
    loaded = load(model)
    evaluation = None
    if heldout:
        log = reading.like(loaded).log(heldout)
        how: dict[str, Any] = {"voters": speaks(voters), "show": not quiet, "seed": reading.seed}
        evaluation = compared(loaded, log, against=against, costs=loaded.costs, **how)
    if not quiet:
        tell(f"writing the report {out} ...")
    write(loaded, out, by=split(by), title=title, evaluation=evaluation, voters=speaks(voters))
    if not quiet:
        tell(f"The report: {out}")


def write(
    model: NashEval,
    out: Path,
    *,
    by: Sequence[str] = (),
    title: str = "",
    evaluation: Evaluation | None = None,
    voters: Speaks | None = None,
) -> None:
    """Write the report of a fitted model."""
    from nasheval.scoring.report import gather, write_report

    check_folder(out)
    found = gather(
        model.stage1_,
        by=tuple(by) or None,
        regularizer=model.regularizer,
        policy=model.policy_,
        evaluation=evaluation,
        costs=model.costs,
        settings=_settings(model),
        title=title or "Evaluation of agents",
        seed=model.random_state,
        voters=voters,
    )
    write_report(found, out)


def _settings(model: NashEval) -> dict[str, object]:
    shown = {name: value for name, value in model.get_params(deep=False).items() if name not in ("verbose", "engine")}
    return {name: value for name, value in shown.items() if value is not None}

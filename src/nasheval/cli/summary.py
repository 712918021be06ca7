"""What `nasheval fit` says at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nasheval.cli.evaluating import plainly
from nasheval.cli.standings import Board, note_lines, standings_table, usual_column, winners_table
from nasheval.notes import code_of, once

if TYPE_CHECKING:
    from rich.console import Console

    from nasheval.estimator import NashEval
    from nasheval.feedback.coverage import Coverage
    from nasheval.payoff.stage1_diagnostics import Stage1Diagnostics
    from nasheval.scoring.heldout import Evaluation

_RARE = 30  # records below which a menu is called rare, as in `Feedback.coverage`
_TOP = 10  # agents of a leaderboard that are shown


@dataclass(frozen=True)
class Outcome:
    """What a fit gave.

    Args:
        model: as it was saved.
        path: where it was saved.
        report: where the report will be, if it was asked for; it is written after the summary is printed.
        by: the context column asked for.
        evaluation: of the held-out comparison, if there was one.
        note: what to know about that.
    """

    model: NashEval
    path: Path
    report: Path | None
    by: str | None
    evaluation: Evaluation | None
    note: str

    @property
    def groups(self) -> str | None:
        """The context column of the second leaderboard, if there is one to show."""
        return self.by or usual_column(self.model)


def print_summary(outcome: Outcome, out: Console) -> None:
    """Print what to know of a fit."""
    from rich.text import Text

    model, by = outcome.model, outcome.groups
    coverage, found = covered(model), model.diagnostics()
    out.print(Text(f"{model.stage1_.log!r}"))
    for line in (*menu_lines(model), *quality_lines(found)):
        out.print(Text(line))
    warnings = [*coverage.warnings(), *found.warnings()]
    for warning in once(warnings):
        out.print(Text.assemble(("! ", "yellow"), warning))
    out.print()
    board = Board.of(model, None)
    out.print(standings_table(board.rows, by=None, top=_TOP))
    said = {code_of(warning) for warning in warnings}
    for note in note_lines({"": [note for note in board.notes[""] if code_of(note) not in said]}):
        out.print(note)
    if by is not None:
        out.print(winners_table(Board.of(model, by).rows, by))
    _print_comparison(outcome, out)
    out.print()
    out.print(Text.assemble("The model: ", (str(outcome.path), "bold")))
    out.print("Next:")
    for line in next_commands(outcome):
        out.print(Text(f"  {line}"))


def covered(model: NashEval) -> Coverage:
    """Return what the log of a model covers."""
    return model.stage1_.log.coverage(rare=_RARE)


def _print_comparison(outcome: Outcome, out: Console) -> None:
    from rich.text import Text

    out.print()
    if outcome.evaluation is not None:
        from nasheval.scoring.heldout_tables import round_robin_table

        level = f"{outcome.evaluation.confidence:.0%}"
        out.print(round_robin_table(f"Held out: what the row wins against the column, with intervals of {level}",
                                    outcome.evaluation.overall))  # fmt: skip
        for line in plainly(outcome.evaluation):
            out.print(Text(line))
        if outcome.evaluation.spending is not None:
            spent = zip(outcome.evaluation.policies, outcome.evaluation.spending.mean, strict=True)
            out.print(Text("Expected cost: " + ", ".join(f"{name} {cost:.4g}" for name, cost in spent) + "."))
    out.print(Text(outcome.note))


def menu_lines(model: NashEval) -> Iterator[str]:
    """Say that ballots were cut into pairs, where they were."""
    if model.stage1_.nuisances.log.ballots is not None:
        rare = "Menus are rare: ballots" if model.aggregator == "auto" else "Ballots"
        yield f"{rare} were cut into pairs (aggregator AsAsked)"


def aggregator_used(model: NashEval) -> str:
    """Return the kind of the aggregator that a model was fitted with, such as "Mean"."""
    return type(model.stage1_.pseudo.aggregation.aggregator).__name__


def quality_lines(found: Stage1Diagnostics) -> Iterator[str]:
    """Say how well the nuisances fit, and how well menus overlap."""
    nuisances = found.nuisances
    yield (
        f"Outcome model, out of fold: R2 {nuisances.r2:.3f}, of it by context {nuisances.r2_within:.3f}, log loss "
        f"{nuisances.log_loss:.3f}"
    )
    if nuisances.choice is not None:
        yield f"Propensities: {nuisances.choice}"
    median = dict(nuisances.quantiles)[0.5]
    raised = f"{nuisances.clipped_share:.1%} of records raised to {nuisances.floor:g} of their menu's share"
    yield (
        f"Overlap ({nuisances.design}): smallest propensity {nuisances.smallest:.3g}, median {median:.3g}, "
        f"{raised if nuisances.floor else 'known, none raised'}"
    )


def next_commands(outcome: Outcome) -> list[str]:
    """Return what to run next."""
    encoder, model = outcome.model.stage1_.encoder, outcome.path
    by = f" --by {outcome.groups}" if outcome.groups else ""
    given = ' --prompt "..."' if encoder.text else ""
    given += "".join(f" --set {column.name}=..." for column in encoder.columns[:1])
    lines = [f"nasheval leaderboard {model}{by}", f"nasheval route {model}{given}"]
    return lines if outcome.report else [*lines, f"nasheval report {model} -o report.html"]


def summary_dict(outcome: Outcome) -> dict[str, Any]:
    """Return the same as plain values."""
    model, by = outcome.model, outcome.groups
    found, board = outcome.evaluation, Board.of(model, None)
    return {
        "model": str(outcome.path),
        "report": None if outcome.report is None else str(outcome.report),
        "coverage": covered(model).to_dict(),
        "diagnostics": model.diagnostics().to_dict(),
        "aggregator": aggregator_used(model),
        "leaderboard": board.rows,
        "leaderboard_notes": list(board.notes[""]),
        "by": by,
        "leaderboard_by": None if by is None else Board.of(model, by).rows,
        "held_out": None if found is None else {**found.to_dict(), "plainly": plainly(found)},
        "note": outcome.note,
    }

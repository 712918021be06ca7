"""What `nasheval fit` says at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nasheval.cli.evaluating import plainly
from nasheval.cli.leaderboard import Board, note_lines, standings_table, usual_column, winners_table

if TYPE_CHECKING:
    from rich.console import Console

    from nasheval.estimator import NashEval
    from nasheval.feedback.coverage import Coverage
    from nasheval.nuisance.diagnostics import NuisanceDiagnostics
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
    diagnostics = model.diagnostics()
    out.print(Text(f"{model.stage1_.log!r}"))
    for line in (*menu_lines(model), *quality_lines(diagnostics.nuisances)):
        out.print(Text(line))
    warnings = (f"{text[:1].upper()}{text[1:]}" for text in (*covered(model).warnings(), *diagnostics.warnings()))
    for warning in dict.fromkeys(warnings):
        out.print(Text.assemble(("! ", "yellow"), warning))
    out.print()
    board = Board.of(model, None)
    out.print(standings_table(board.rows, by=None, top=_TOP))
    for note in note_lines(board.notes):
        out.print(note)
    if by is not None:
        out.print(winners_table(Board.of(model, by).rows, by))
    out.print()
    if outcome.evaluation is not None:
        _print_comparison(outcome.evaluation, out)
    out.print(Text(outcome.note))
    out.print()
    out.print(Text.assemble("The model: ", (str(outcome.path), "bold")))
    out.print("Next:")
    for line in next_commands(outcome):
        out.print(Text(f"  {line}"))


def _print_comparison(evaluation: Evaluation, out: Console) -> None:
    from rich.text import Text

    from nasheval.scoring.heldout_tables import round_robin_table

    title = f"Held out: what the row wins against the column, with intervals of {evaluation.confidence:.0%}"
    out.print(round_robin_table(title, evaluation.overall))
    for line in plainly(evaluation):
        out.print(Text(line))
    if evaluation.spending is not None:
        spent = zip(evaluation.policies, evaluation.spending.mean, strict=True)
        out.print(Text("Expected cost: " + ", ".join(f"{name} {cost:.4g}" for name, cost in spent) + "."))


def covered(model: NashEval) -> Coverage:
    """Return what the log of a model covers."""
    from nasheval.feedback.coverage import measure

    return measure(model.stage1_.log, rare=_RARE)


def menu_lines(model: NashEval) -> Iterator[str]:
    """Say that ballots were cut into pairs, where they were."""
    if model.stage1_.nuisances.log.ballots is not None:
        rare = "Menus are rare: ballots" if model.aggregator == "auto" else "Ballots"
        yield f"{rare} were cut into pairs (aggregator AsAsked)"


def quality_lines(nuisances: NuisanceDiagnostics) -> Iterator[str]:
    """Say how well the nuisances fit, and how well menus overlap."""
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
    context = ' --prompt "..."' if encoder.text else ""
    context += "".join(f" --set {column.name}=..." for column in encoder.columns[:1])
    lines = [f"nasheval leaderboard {model}{by}", f"nasheval route {model}{context}"]
    return lines if outcome.report else [*lines, f"nasheval report {model} -o report.html"]


def summary_dict(outcome: Outcome) -> dict[str, Any]:
    """Return the same as plain values."""
    model, by, evaluation = outcome.model, outcome.groups, outcome.evaluation
    board = Board.of(model, None)
    return {
        "model": str(outcome.path),
        "report": None if outcome.report is None else str(outcome.report),
        "coverage": covered(model).to_dict(),
        "diagnostics": model.diagnostics().to_dict(),
        "aggregator": type(model.stage1_.pseudo.aggregation.aggregator).__name__,
        "leaderboard": board.rows,
        "leaderboard_notes": list(board.notes[""]),
        "by": by,
        "leaderboard_by": None if by is None else Board.of(model, by).rows,
        "held_out": None if evaluation is None else {**evaluation.to_dict(), "plainly": plainly(evaluation)},
        "note": outcome.note,
    }

"""What `nasheval fit` says at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nasheval.cli.evaluating import plainly
from nasheval.cli.standings import rows_of, standings_table, usual_column, winners_table

if TYPE_CHECKING:
    from rich.console import Console

    from nasheval.estimator import NashEval
    from nasheval.feedback.coverage import Coverage
    from nasheval.payoff.diagnostics import Stage1Diagnostics
    from nasheval.scoring.heldout import Evaluation

_RARE = 30  # records below which a menu is called rare, as in `Feedback.coverage`
_TOP = 10  # agents of a leaderboard that are shown


@dataclass(frozen=True)
class Outcome:
    """What a fit gave.

    Args:
        model: as it was saved.
        path: where it was saved.
        report: where the report is, if it was asked for.
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
    for line in quality_lines(found):
        out.print(Text(line))
    for warning in _warnings(coverage.warnings(), found.warnings()):
        out.print(Text.assemble(("! ", "yellow"), warning))
    out.print()
    out.print(standings_table(rows_of(model, None), by=None, top=_TOP))
    if by is not None:
        out.print(winners_table(rows_of(model, by), by))
    _print_comparison(outcome, out)
    out.print()
    out.print(Text.assemble("The model: ", (str(outcome.path), "bold")))
    if outcome.report is not None:
        out.print(Text.assemble("The report: ", (str(outcome.report), "bold")))
    out.print("Next:")
    for line in next_commands(outcome):
        out.print(Text(f"  {line}"))


def covered(model: NashEval) -> Coverage:
    """Return what the log of a model covers."""
    from nasheval.feedback.coverage import measure

    return measure(model.stage1_.log, rare=_RARE)


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


def quality_lines(found: Stage1Diagnostics) -> Iterator[str]:
    """Say how well the nuisances fit, and how well menus overlap."""
    nuisances = found.nuisances
    yield (
        f"Outcome model, out of fold: R2 {nuisances.r2:.3f}, of it by context {nuisances.r2_within:.3f}, log loss "
        f"{nuisances.log_loss:.3f}"
    )
    median = dict(nuisances.quantiles)[0.5]
    yield (
        f"Overlap ({nuisances.design}): smallest propensity {nuisances.smallest:.3g}, median {median:.3g}, "
        f"{nuisances.clipped_share:.1%} of records raised to {nuisances.floor:.3g}"
    )


def _warnings(coverage: list[str], found: list[str]) -> list[str]:
    """Return what both say, once each."""
    said = [text for text in coverage if not ("never compared" in text and any("never compared" in f for f in found))]
    return list(dict.fromkeys(f"{text[:1].upper()}{text[1:]}" for text in (*said, *found)))


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
    found = outcome.evaluation
    return {
        "model": str(outcome.path),
        "report": None if outcome.report is None else str(outcome.report),
        "coverage": covered(model).to_dict(),
        "diagnostics": model.diagnostics().to_dict(),
        "leaderboard": rows_of(model, None),
        "by": by,
        "leaderboard_by": None if by is None else rows_of(model, by),
        "held_out": None if found is None else {**found.to_dict(), "plainly": plainly(found)},
        "note": outcome.note,
    }

"""`nasheval fit`: from a log to a saved model, and what a person should know of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import nasheval.cli.reporting as reporting
from nasheval.cli.evaluating import compared
from nasheval.cli.learning import Learning
from nasheval.cli.options import grouped
from nasheval.cli.printing import Machine, console, escaped, print_json, tell
from nasheval.cli.reading import FILES, Reading, chosen_rows
from nasheval.cli.summary import Outcome, print_summary, summary_dict
from nasheval.errors import NashEvalError
from nasheval.files import check_folder

if TYPE_CHECKING:
    from nasheval.estimator import NashEval
    from nasheval.feedback.log import Feedback
    from nasheval.scoring.heldout import Evaluation

_LARGE = 50_000  # records above which one fit has to do
_FEWEST = 2  # contexts that a comparison needs


@grouped
def fit(
    file: Annotated[str, typer.Argument(help=FILES)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the model to.")],
    reading: Reading,
    learning: Learning,
    holdout: Annotated[
        float, typer.Option(help="Share of contexts to compare with baselines on; 0 for none.", min=0, max=0.9)
    ] = 0.2,
    by: Annotated[str, typer.Option(help="Context column of the leaderboard; by default one of few values.")] = "",
    report: Annotated[
        Path | None, typer.Option(help="Also write the report, with the comparison, to this file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Keep prompts in the model's folder as they are; else tags stand there.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    format: Annotated[Machine, typer.Option(help="A summary for people, or JSON for machines.")] = Machine.table,
) -> None:
    """Fit a model on a log, save it, and say what to know of it.

    It prints warnings, how well the nuisances fit, the leaderboard, and how the model compares with baselines.

    The comparison is on contexts held out from fitting. Up to 50,000 records, it is of a model fitted on the rest, and
    the model that is saved is fitted on everything; with more, one model is fitted on the rest, compared and saved.

    Examples:

      nasheval fit votes.parquet --text prompt --context language,is_code -o model/

      nasheval fit judgments.parquet --model-a model_1 --model-b model_2 --winner score
      --labels 1=a,2=b,3=tie,-1=drop --join prompts.parquet:prompt_id --context lang --text text -o model/

      nasheval fit ballots.csv --ballot id,trait --agent item --rank rank --context trait -o model/

      nasheval fit scores.parquet --kind scores --agents gpt-4,claude-v2 --text prompt --costs prices.toml -o model/

      nasheval fit highway -o model/ --report report.html
    """
    from nasheval.store.folder import check_target

    check_target(out.resolve(), overwrite)  # before the work, not after it
    if report is not None:
        check_folder(report)
    show = not quiet and sys.stderr.isatty()
    log = reading.log(file, quiet=quiet)
    settings = learning.model(chosen_rows(file, reading.where), log.agents, seed=reading.seed, show=show)
    work = _Work(log, settings, holdout, reading.seed, show)
    model = work.fitted()
    model.save(out, overwrite=overwrite, keep_text=keep_text)
    evaluation, note = work.comparison(model)
    outcome = Outcome(model, out, report, by or None, evaluation, note)
    if format is Machine.json:
        print_json(summary_dict(outcome))
    elif not quiet:
        print_summary(outcome, console())
    if report is not None:
        _write_report(outcome, report, quiet=quiet)
        if format is Machine.table and not quiet:
            console().print(f"The report: [bold]{escaped(str(report))}[/]", soft_wrap=True)


def _write_report(outcome: Outcome, report: Path, *, quiet: bool) -> None:
    """Write the report last: it takes longest, and whoever interrupts it has the model and the summary."""
    if not quiet:
        tell(f"writing the report {report} ...")
    try:
        by = [outcome.by] if outcome.by else ()
        reporting.write(outcome.model, report, by=by, evaluation=outcome.evaluation)
    except KeyboardInterrupt:
        again = f"nasheval report {outcome.path} -o {report}"
        tell(f"No report was written. The model is saved; for the report, run: {again}")
        raise


class _Work:
    """Which part of a log is fitted on, and which is compared on.

    Args:
        log: all of it.
        model: to be fitted.
        holdout: share of contexts to compare on.
        seed: of the split.
        show: whether to show progress.
    """

    def __init__(self, log: Feedback, model: NashEval, holdout: float, seed: int, show: bool) -> None:
        self.log, self.model, self.holdout, self.seed, self.show = log, model, holdout, seed, show
        self.parts = log.split(1 - holdout, seed=seed) if holdout else (log, log[:0])
        self.enough = self.parts[1].n_contexts >= _FEWEST and min(part.n_records for part in self.parts) > 0
        self.once = self.enough and log.n_records > _LARGE

    def fitted(self) -> NashEval:
        """Return the model to be saved."""
        return self.model.fit(self.parts[0] if self.once else self.log)

    def comparison(self, model: NashEval) -> tuple[Evaluation | None, str]:
        """Return how a model does on the contexts held out, and what to know about that; None where it cannot be."""
        from sklearn.base import clone

        train, test = self.parts
        if not self.enough:
            why = "--holdout 0" if not self.holdout else "too few contexts to hold some out"
            return None, f"No held-out comparison: {why}."
        try:
            rival = model if self.once else clone(model).fit(train)
            found = compared(rival, test, costs=model.costs, show=self.show, seed=self.seed)
        except NashEvalError as error:
            return None, f"No held-out comparison: {error}"
        return found, self._note()

    def _note(self) -> str:
        train, test = self.parts
        theirs, held = set(train.sole_voters.tolist()), set(test.sole_voters.tolist())
        which = "contexts held out, of other voters," if held and not held & theirs else "contexts held out,"
        said = f"Compared on {test.n_contexts:,} {which} with a model fitted on {train.n_contexts:,}"
        if self.once:
            return f"{said}, which is the one saved: a log of more than {_LARGE:,} records is fitted once."
        return f"{said}; the model that is saved was then fitted on all {self.log.n_contexts:,}."

"""`nasheval fit`: from a log to a saved model, and what a person should know of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import nasheval.cli.reporting as reporting
from nasheval.choices import Device, OutcomeName, PolicyName, PropensityName, Search, SecondStage, Unseen
from nasheval.cli.evaluating import compared, plainly
from nasheval.cli.leaderboard import board_of, note_lines, silent_lines, standings_table, winners_table
from nasheval.cli.options import ENGINE, MARGIN, TableOrJson, grouped, split
from nasheval.cli.printing import console, escaped, print_json, tell
from nasheval.cli.reading import FILES, Reading, chosen_rows
from nasheval.errors import Argument, InputError, NashEvalError
from nasheval.files import check_file
from nasheval.notes import code_of, few, once

if TYPE_CHECKING:
    from nasheval.estimator import NashEval
    from nasheval.feedback.log import Feedback
    from nasheval.feedback.readers.sources import Source
    from nasheval.scoring.heldout import Evaluation

_LARGE = 50_000  # records above which one fit has to do
_FEWEST = 2  # contexts that a comparison needs
_TOP = 10  # agents of a leaderboard that are shown
_NAMED = 8  # columns in a sentence
_LOOK = 10_000  # rows that tell what a column holds
_PANEL = "Fitting"
_STRONGER = (
    "Texts are embedded by WordLlama, a small model. A stronger one may tell prompts apart better, or win nothing: "
    "--text-model auto compares those that are installed on held-out votes (docs/guides/text.md)."
)
_COSTS = (
    "What agents cost: a TOML or JSON file of agent = cost, or FILE:field of nested ones; agent=cost with commas; or a "
    "pattern of columns, such as '{agent}|total_cost', whose means are taken."
)


def _option(text: str, **more: Any) -> Any:
    return typer.Option(help=text, rich_help_panel=_PANEL, show_default=False, **more)


@dataclass(frozen=True)
class Learning:
    """How a model is fitted; None leaves it to the estimator."""

    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Algorithm 1 with the paper's learners, where other options do not say otherwise.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    outcome: Annotated[OutcomeName | None, _option("Outcome model; by default voters.")] = None
    propensity_model: Annotated[
        PropensityName | None, _option("Propensities; by default known where the log tells them, else chosen.")
    ] = None
    second_stage: Annotated[SecondStage | None, _option("How payoffs are debiased; by default corrected.")] = None
    aggregator: Annotated[
        Literal["auto", "mean", "as-asked"] | None,
        _option(
            "How the menus that hold a pair make its payoff: mean (each menu counts the same), as-asked (ballots are "
            "cut into pairs: menus count as often as they were asked), or auto, the default: mean where every menu of "
            "a pair was asked 30 times, else as-asked."
        ),
    ] = None
    unseen: Annotated[
        Unseen | None,
        _option(
            "Pairs that were never compared: model (the default: bridged through other agents by the outcome model, "
            "and marked as bridged wherever they are shown), tie (payoff 0, as in the paper) or refuse (an error)."
        ),
    ] = None
    availability: Annotated[
        str,
        _option(
            "Context column of few values, such as language or release: at each value only agents that the log shows "
            "there are candidates. Without it all agents are, everywhere.",
            metavar="COLUMN",
        ),
    ] = ""
    text_model: Annotated[
        str,
        _option(
            "What turns texts into vectors: wordllama (the default, small), the name or folder of a "
            "sentence-transformers model, fetched where it is not here, such as Qwen/Qwen3-Embedding-4B (pip install "
            "'nasheval[transformers]'), or auto: of those that are installed the one that foretells held-out votes "
            "best, in at most five minutes.",
            metavar="NAME",
        ),
    ] = ""
    text_dim: Annotated[
        int | None,
        _option(
            "Cut vectors of texts, and columns of vectors, to so many dimensions by PCA; WordLlama has 64 (the "
            "default), 128 and 256 of its own.",
            min=1,
        ),
    ] = None
    adjust: Annotated[
        str,
        _option(
            "What to adjust for, with commas: position, style (all columns of style that the log has) or single ones "
            "of them. Lotteries and payoffs are then those at equal style; those as voted stand beside them.",
            metavar="WHAT",
        ),
    ] = ""
    policy: Annotated[PolicyName | None, _option("Solve games exactly (the default), or learn a network.")] = None
    costs: Annotated[str, _option(_COSTS)] = ""
    cost_weight: Annotated[float | None, _option("Weight of costs, scaled to [0, 1], against payoffs.", min=0)] = None
    budget: Annotated[float | None, _option("The most a lottery may cost in expectation, in the units of costs.")] = (
        None
    )
    folds: Annotated[int | None, _option("Folds of the cross-fitting; by default 5.", min=2)] = None
    tune: Annotated[Search | None, _option("Search hyperparameters.")] = None
    jobs: Annotated[int | None, _option("Cores, or workers of the cluster; by default all.", min=1)] = None
    engine: ENGINE = None
    device: Annotated[Device | None, _option("Where networks are trained; by default a GPU if there is one.")] = None

    def model(self, source: str | Source, agents: Sequence[str], *, seed: int, show: bool) -> NashEval:
        """Return the estimator, not fitted."""
        from nasheval.estimator import NashEval
        from nasheval.feedback.readers.costs import read_costs
        from nasheval.payoff.aggregators import AsAsked, Mean

        names = {"propensity_model": "propensity", "jobs": "n_jobs", "text_model": "text_encoder"}
        options = {name: value for name, value in vars(self).items() if name != "paper" and value not in (None, "")}
        chosen: dict[str, Any] = {names.get(name, name): value for name, value in options.items()}
        if self.aggregator is not None:
            chosen["aggregator"] = {"auto": "auto", "mean": Mean(), "as-asked": AsAsked()}[self.aggregator]
        if self.adjust:
            chosen["adjust"] = tuple(split(self.adjust))
        if self.costs:
            chosen["costs"] = read_costs(self.costs, source, agents)
        make = NashEval.paper if self.paper else NashEval
        return make(**chosen, random_state=seed, verbose=show)


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
    margin: MARGIN = 0.05,
    report: Annotated[
        Path | None, typer.Option(help="Also write the report, with the comparison, to this file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Keep prompts in the model's folder as they are; else tags stand there.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    format: Annotated[TableOrJson, typer.Option(help="A summary for people, or JSON for machines.")] = "table",
) -> None:
    """Fit a model on a log, save it, and say what to know of it.

    It prints which agent to ship (with --costs the cheapest that is shown to be at most --margin worse than the
    leader), warnings, how well the nuisances fit, the leaderboard, and how the model compares with baselines.

    The comparison is on contexts held out from fitting. Up to 50,000 records, it is of a model fitted on the rest, and
    the model that is saved is fitted on everything; with more, one model is fitted on the rest, compared and saved.

    Examples:

      nasheval fit votes.parquet --text prompt --context language,is_code -o model/

      nasheval fit judgments.parquet --model-a model_1 --model-b model_2 --winner score
      --labels 1=a,2=b,3=tie,-1=drop --join prompts.parquet:prompt_id --context lang --text text -o model/

      nasheval fit ballots.csv --ballot id,trait --agent item --rank rank --context trait -o model/

      nasheval fit scores.parquet --kind scores --agents gpt-4,claude-v2 --text prompt --costs prices.toml -o model/

      nasheval fit chat -o model/ --report report.html
    """
    from nasheval.feedback.groups import by_value, grouping_columns
    from nasheval.store.folder import check_target

    check_target(out.resolve(), overwrite)  # before the work, not after it
    if report is not None:
        check_file(report)
        if out.resolve() in (report.resolve(), *report.resolve().parents):
            raise InputError(f"--report {report} lies in -o {out}, which holds the model alone; give another place.")
    show = not quiet and sys.stderr.isatty()
    log = reading.log(file, quiet=quiet)
    if not (reading.context or quiet) and (unused := _unused_columns(log, reading.source(file))):
        tell(f"Not used as context: {few(unused, _NAMED)}. Name those that are known before a vote with --context.")
    if by:
        by_value(log, by, log.context_offsets[1:] > log.context_offsets[:-1])  # refuses what is no context column
    model = learning.model(chosen_rows(file, reading.where), log.agents, seed=reading.seed, show=show)
    division = _Division(log, holdout, reading.seed)
    del log  # of a large one only the parts stay
    model.fit(division.log)
    model.save(out, overwrite=overwrite, keep_text=keep_text)
    evaluation, note = division.comparison(model, show=show)
    column = by or next(iter(grouping_columns(model.stage1_.log, most=1, quartiles=False)), None)
    if format == "json":
        paths = {"model": str(out), "report": None if report is None else str(report)}
        print_json({**paths, **_summary_dict(model, column, evaluation, margin), "note": note})
    elif not quiet:
        _print_summary(model, column, evaluation, note, margin)
        if model.stage1_.log.texts and not learning.text_model:
            tell(_STRONGER)
        _print_next(model, out, column, report)
    if report is None:
        return
    if not quiet:
        tell(f"writing the report {report} ...")
    try:  # last: it takes longest, and whoever interrupts it has the model and the summary
        reporting.write(model, report, by=by or None, evaluation=evaluation, margin=margin)
    except KeyboardInterrupt:
        tell(f"No report was written. The model is saved; for the report, run: nasheval report {out} -o {report}")
        raise
    if format == "table" and not quiet:
        console().print(f"The report: [bold]{escaped(str(report))}[/]", soft_wrap=True)


def _unused_columns(log: Feedback, source: Any) -> list[str]:
    """Return columns of a log that could be context and have no other use, as far as its first rows tell."""
    from nasheval.contexts.encoder import usable_columns
    from nasheval.feedback.readers.sources import open_source

    roles = log.report.roles.values() if log.report else ()
    used = {column for columns in roles for column in columns.split(", ")} | set(log.contexts.column_names)
    with suppress(NashEvalError):  # what nobody uses is no reason to stop
        opened = open_source(source)
        used |= {name for name in opened.names if opened.own.is_outcome(name) or opened.own.is_compared(name)}
        for _, first in opened.pieces([name for name in opened.names if name not in {*used, opened.numbers}]):
            return usable_columns(first.slice(0, _LOOK))
    return []


class _Division:
    """A log in contexts to fit on and contexts, a share `holdout` of all, to compare on."""

    def __init__(self, log: Feedback, holdout: float, seed: int) -> None:
        self.holdout, self.seed = holdout, seed
        self.train, self.test = log.split(1 - holdout, seed=seed) if holdout else (log, log[:0])
        self.enough = self.test.n_contexts >= _FEWEST and min(self.train.n_records, self.test.n_records) > 0
        self.once = self.enough and log.n_records > _LARGE
        self.log = self.train if self.once else log  # what the model that is saved is fitted on

    def comparison(self, model: NashEval, *, show: bool) -> tuple[Evaluation | None, str]:
        """Return how a model does on the contexts held out, and what to know about that; None where it cannot be."""
        from sklearn.base import clone

        if not self.enough:
            why = "--holdout 0" if not self.holdout else "too few contexts to hold some out"
            return None, f"No held-out comparison: {why}."
        try:
            fitted = model if self.once else clone(model).fit(self.train)
            evaluation = compared(fitted, self.test, costs=model.costs, show=show, seed=self.seed)
        except NashEvalError as error:
            return None, f"No held-out comparison: {error.message(Argument.as_flag)}"
        fitted_on, held = (set(log.sole_voters.tolist()) for log in (self.train, self.test))
        which = "contexts held out, of other voters," if held and not held & fitted_on else "contexts held out,"
        note = f"Compared on {self.test.n_contexts:,} {which} with a model fitted on {self.train.n_contexts:,}"
        if self.once:
            return evaluation, f"{note}, which is the one saved: a log of more than {_LARGE:,} records is fitted once."
        return evaluation, f"{note}; the model that is saved was then fitted on all {self.log.n_contexts:,}."


# -- what it says at the end -------------------------------------------------------------------------------------------


def _print_summary(model: NashEval, by: str | None, evaluation: Evaluation | None, note: str, margin: float) -> None:
    """Print what to know of a fit; `by` makes a second leaderboard, `note` is on the evaluation or why none is."""
    from rich.text import Text

    from nasheval.scoring.heldout import round_robin_table

    out, diagnostics = console(), model.diagnostics()
    out.print(Text(str(model.decision(by, margin=margin)), style="bold"))
    out.print()
    out.print(Text(f"{model.stage1_.log!r}"))
    if model.stage1_.nuisances.log.ballots is not None:
        rare = "Menus are rare: ballots" if model.aggregator == "auto" else "Ballots"
        out.print(f"{rare} were cut into pairs (aggregator AsAsked)")
    if (encoder := model.stage1_.encoder).text_encoder is not None:
        out.print(Text(f"Texts ({', '.join(encoder.texts)}): {encoder.text_encoder}"))
    for line in diagnostics.nuisances.lines():
        out.print(Text(line))
    warnings = [*model.stage1_.log.coverage().warnings(), *diagnostics.warnings()]
    for warning in once(warnings):
        out.print(Text.assemble(("! ", "yellow"), warning))
    out.print()
    rows, notes = board_of(model)
    out.print(standings_table(rows, by=None, top=_TOP))
    if (adjusted := model.adjustment()) is not None:
        out.print(adjusted)
    codes = {code_of(warning) for warning in warnings}
    for below in note_lines({"": [text for text in notes[""] if code_of(text) not in codes]}):
        out.print(below)
    if by is not None:
        by_group = board_of(model, by)[0]
        if (table := winners_table(by_group, by)).row_count:
            out.print(table)
        for below in silent_lines(by_group, by):
            out.print(below)
    out.print()
    if evaluation is not None:
        title = f"Held out: what the row wins against the column, with intervals of {evaluation.confidence:.0%}"
        out.print(round_robin_table(title, evaluation.overall))
        for line in plainly(evaluation):
            out.print(Text(line))
        if evaluation.spending is not None:
            spent = zip(evaluation.policies, evaluation.spending.mean, strict=True)
            out.print(Text("Expected cost: " + ", ".join(f"{name} {cost:.4g}" for name, cost in spent) + "."))
    out.print(Text(note))
    out.print()


def _print_next(model: NashEval, path: Path, by: str | None, report: Path | None) -> None:
    """Print where the model is and what to run next."""
    from rich.text import Text

    out, encoder = console(), model.stage1_.encoder
    out.print(Text.assemble("The model: ", (str(path), "bold")))
    context = ' --prompt "..."' if encoder.texts else ""
    context += "".join(f" --set {column.name}=..." for column in encoder.columns[:1])
    lines = [f"nasheval leaderboard {path}{f' --by {by}' if by else ''}", f"nasheval route {path}{context}"]
    lines += [] if report else [f"nasheval report {path} -o report.html"]
    out.print(Text("\n  ".join(["Next:", *lines])))


def _summary_dict(model: NashEval, by: str | None, evaluation: Evaluation | None, margin: float) -> dict[str, Any]:
    """Return the same as plain values."""
    rows, notes = board_of(model)
    return {
        "decision": model.decision(by, margin=margin).to_dict(),
        "coverage": model.stage1_.log.coverage().to_dict(),
        "diagnostics": model.diagnostics().to_dict(),
        "text_encoder": str(model.stage1_.encoder.text_encoder or ""),
        "aggregator": type(model.stage1_.pseudo.aggregation.aggregator).__name__,
        "leaderboard": rows,
        "leaderboard_notes": list(notes[""]),
        "adjustment": None if (adjusted := model.adjustment()) is None else adjusted.to_dict(),
        "by": by,
        "leaderboard_by": None if by is None else board_of(model, by)[0],
        "held_out": None if evaluation is None else {**evaluation.to_dict(), "plainly": plainly(evaluation)},
    }

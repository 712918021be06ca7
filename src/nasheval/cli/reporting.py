"""`nasheval report`: one page on a model; `nasheval export`: a model in a form that other programs run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nasheval.cli.evaluating import AGAINST, PLANNED, RIVALS, SEQUENTIAL, baselines, compared
from nasheval.cli.options import MARGIN, MODEL, TEXT_MODEL, VOTERS, grouped, split
from nasheval.cli.printing import tell
from nasheval.cli.reading import FILES, Reading
from nasheval.errors import InputError
from nasheval.files import check_file

if TYPE_CHECKING:
    from nasheval.estimator import NashEval

_TITLE = "Evaluation of agents"


@grouped
def report(
    ctx: typer.Context,
    model: MODEL,
    reading: Reading,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    by: Annotated[str, typer.Option(help="Context columns to group by, with commas; without it, the usual.")] = "",
    title: Annotated[str, typer.Option(help="Title of the page.")] = _TITLE,
    heldout: Annotated[str, typer.Option(help=f"A log that the model has not seen, to compare on. {FILES}")] = "",
    against: AGAINST = RIVALS,
    sequential: SEQUENTIAL = False,
    planned: PLANNED = 2000,
    margin: MARGIN = 0.05,
    voters: VOTERS = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Add what the winners hang on, as nasheval audit does, with refits.")
    ] = False,
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="With --audit: whether to confirm by refits.")
    ] = True,
    plan: Annotated[
        bool, typer.Option("--plan", help="Add how many votes the usual goals would take, as nasheval plan does.")
    ] = False,
    text_model: TEXT_MODEL = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Write a report: one self-contained HTML page.

    Leaderboard, payoffs, cycles, costs, and how far to trust it all.

    Examples:

      nasheval report model/ -o report.html --by language

      nasheval report model/ -o report.html --heldout heldout.parquet

      nasheval report model/ -o report.html --by language --audit --plan
    """
    from nasheval.estimator import load

    check_file(out)
    baselines(against)  # their names are checked before the work
    if not heldout and getattr(ctx.get_parameter_source("against"), "name", "") == "COMMANDLINE":  # not in --config
        raise InputError("--against compares on a log that the model has not seen; name it with --heldout.")
    if sequential and not heldout:
        raise InputError("--sequential compares on a log that the model has not seen; name it with --heldout.")
    loaded = load(model, text_encoder=text_model or None)
    evaluation, parts = None, []
    if heldout:
        log = reading.like(loaded).log(heldout)
        how: dict[str, Any] = {"voters": voters, "show": not quiet, "seed": reading.seed}
        how |= {"sequential": sequential, "planned": planned}
        evaluation = compared(loaded, log, against=against, costs=loaded.costs, **how)
    if audit:
        loaded.verbose = not quiet and sys.stderr.isatty()
        columns = split(by)
        options_of_audit: dict[str, Any] = {"by": columns[0] if columns else None, "confirm": refit}
        parts = list(loaded.audit(**options_of_audit).sections.values())
    if plan:
        from nasheval.planning import plan as planning

        parts.append(planning.plan(loaded))
    if not quiet:
        tell(f"writing the report {out} ...")
    options: dict[str, Any] = {"evaluation": evaluation, "margin": margin, "voters": voters, "parts": parts}
    write(loaded, out, by=split(by) or None, title=title or _TITLE, **options)
    if not quiet:
        tell(f"The report: {out}")


def write(model: NashEval, out: Path, **options: Any) -> None:
    """Write the report of a fitted model; the options are those of `gather`."""
    from nasheval.scoring.report import gather_model, write_report

    write_report(gather_model(model, **options), out)


@grouped
def export(
    source: Annotated[
        str, typer.Argument(metavar="MODEL|STORE", help="Folder of a model, or the store of a service with --parquet.")
    ],
    onnx: Annotated[
        Path | None, typer.Option("--onnx", help="ONNX file to write: of a model.", show_default=False)
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", help="Parquet file to write: of a store's votes.", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Write a learned policy with its encoder as ONNX, or the votes of a service as a log that `nasheval fit` reads.

    ONNX: for models of tabular contexts that were fitted with --policy learned; onnxruntime checks the graph against
    the model to 0.00001 before it is written. Inputs are the context columns: numbers, truth values and dates (days
    since 1970) as doubles, NaN where missing; categories as strings, empty where missing. Outputs are "lottery",
    (n, agents), and "agent", the most probable one. Needs the extra: pip install 'nasheval\\[onnx]'.

    Examples:

      nasheval fit highway --policy learned -o model/

      nasheval export model/ --onnx policy.onnx

      nasheval export votes.db --parquet votes.parquet
    """
    if (onnx is None) == (parquet is None):
        raise InputError("Say what to write: --onnx FILE of a model, or --parquet FILE of a store's votes.")
    if parquet is not None:
        from nasheval.cli.serving import export_votes

        export_votes(source, parquet, quiet=quiet)
        return
    assert onnx is not None
    if Path(source).is_file():
        raise InputError(
            f"{source} is a file, and --onnx takes the folder of a model; for the votes of a store: nasheval export "
            f"{source} --parquet votes.parquet"
        )
    from nasheval.estimator import load
    from nasheval.store.onnx import export_onnx

    check_file(onnx)
    loaded = load(source)
    largest = export_onnx(loaded.policy_, onnx, contexts=loaded.stage1_.log.contexts)
    if not quiet:
        tell(f"{onnx}: differs from the model by at most {largest:.1e} at the contexts of its log.")

"""`nasheval evaluate`: a model against baselines on a held-out log."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nasheval.cli.options import FORMAT, MODEL, TEXT_MODEL, VOTERS, grouped, split
from nasheval.cli.printing import console, escaped, print_json
from nasheval.cli.reading import FILES, Reading, chosen_rows
from nasheval.errors import InputError

if TYPE_CHECKING:
    from nasheval.estimator import NashEval
    from nasheval.feedback.log import Feedback
    from nasheval.scoring.heldout import Evaluation

OURS = "nasheval"
RIVALS = "bt,maximal-lottery"
_BY_GROUP = "best-by-group"
AGAINST = Annotated[
    str,
    typer.Option(
        help="Baselines to compare with, with commas: bt, bt-plug-in, regularized-bt, borda, pooled-bt, "
        "maximal-lottery, pluralistic, best-single, best-by-group (by a column of few values; best-by-group:COLUMN "
        "names it), uniform."
    ),
]
SEQUENTIAL = Annotated[
    bool, typer.Option("--sequential", help="Intervals that hold at every look, however often you look.")
]
PLANNED = Annotated[
    int, typer.Option(help="With --sequential: votes about which you expect to decide, the same each time.", min=1)
]


@grouped
def evaluate(
    model: MODEL,
    heldout: Annotated[str, typer.Argument(help=f"A log that the model has not seen. {FILES}")],
    reading: Reading,
    against: AGAINST = RIVALS,
    by: Annotated[str, typer.Option(help="Context column; policies are compared within each of its values too.")] = "",
    costs: Annotated[str, typer.Option(help="What agents cost, as in fit; by default what the model knows.")] = "",
    voters: VOTERS = None,
    sequential: SEQUENTIAL = False,
    planned: PLANNED = 2000,
    text_model: TEXT_MODEL = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    format: FORMAT = "table",
) -> None:
    """Compare a model with baselines on a held-out log.

    By doubly robust head-to-head values with intervals. Context columns and prompt are those that the model knows
    unless they are named.

    Examples:

      nasheval evaluate model/ heldout.parquet --by language

      nasheval evaluate model/ heldout.csv --against bt,borda,best-single --format json

      nasheval evaluate model/ votes-so-far.parquet --sequential --planned 5000
    """
    from nasheval.estimator import load
    from nasheval.feedback.readers.costs import read_costs
    from nasheval.store.evidence import fingerprint

    loaded = load(model, text_encoder=text_model or None)
    log = reading.like(loaded).log(heldout)
    if getattr(loaded.stage1_, "fingerprint", "") == fingerprint(log):
        raise InputError(f"{heldout} is the log that the model was fitted on; give one that it has not seen.")
    prices = read_costs(costs, chosen_rows(heldout, reading.where), log.agents) if costs else loaded.costs
    how: dict[str, Any] = {"voters": voters, "show": not quiet, "seed": reading.seed}
    how.update(sequential=sequential, planned=planned)
    evaluation = compared(loaded, log, against=against, by=by or None, costs=prices, **how)
    if format == "json":
        print_json({**evaluation.to_dict(), "plainly": plainly(evaluation)})
    else:
        out = console()
        out.print(evaluation)
        for line in plainly(evaluation):
            out.print(escaped(line))


def compared(
    model: NashEval, test: Feedback, *, against: str = RIVALS, show: bool = False, **options: Any
) -> Evaluation:
    """Return how a model does against baselines of its Stage 1, on a log it has not seen; options: of `evaluate`."""
    from nasheval.engine import chosen_device
    from nasheval.scoring.evaluate import evaluate

    return evaluate(
        {OURS: model, **baselines(against)},
        test,
        train=model.stage1_,
        encoder=model.stage1_.encoder,
        n_jobs=model.n_jobs or os.cpu_count() or 1,
        device=chosen_device(model.device),
        verbose=show and sys.stderr.isatty(),
        **{name: getattr(model, name) for name in ("outcome", "propensity", "aggregator", "folds")},
        **options,
    )


def baselines(names: str) -> dict[str, Any]:
    """Return baselines by their names, with commas; one that is not known is an InputError."""
    from nasheval.policy import baselines as b

    known = {
        "bt": b.BradleyTerry(payoff="debiased"),
        "bt-plug-in": b.BradleyTerry(payoff="plug-in"),
        "regularized-bt": b.RegularizedBT(),
        "borda": b.Borda(),
        "pooled-bt": b.PooledBT(),
        "maximal-lottery": b.MaximalLottery(),
        "pluralistic": b.PluralisticLeaderboard(),
        "best-single": b.BestSingle(),
        _BY_GROUP: b.BestByGroup(),
        "uniform": b.Uniform(),
    }
    chosen = {}
    for name in split(names):
        word, _, column = name.partition(":")
        if word not in known or (column and word != _BY_GROUP):
            raise InputError(f"--against names {name!r}; accepted are {', '.join(known)}, {_BY_GROUP}:COLUMN.")
        chosen[name] = b.BestByGroup(column) if column else known[word]
    return chosen


def plainly(evaluation: Evaluation) -> list[str]:
    """Say in words how ours does against each rival, and plainly where it is not better."""
    names, beats = evaluation.policies, evaluation.beats
    ours, rivals = names.index(OURS), [name for name in names if name != OURS]
    lost = [rival for rival in rivals if beats[names.index(rival), ours]]
    even = [rival for rival in rivals if rival not in lost and not beats[ours, names.index(rival)]]
    lines = [f"{evaluation.compare(OURS, rival)}." for rival in rivals]
    lines += [f"On this data NashEval is worse than {rival}{_but(evaluation, rival)}." for rival in lost]
    if even:
        lines.append(f"On this data NashEval is not shown to be better than {', '.join(even)}.")
    if not lost and not even and rivals:
        lines.append(f"On this data NashEval is better than {', '.join(rivals)}.")
    return lines


def _but(evaluation: Evaluation, rival: str) -> str:
    """Return what to do about a rival that beats ours: prefer it, unless ours was asked to spend less and does."""
    if evaluation.spending is not None:
        ours, theirs = (evaluation.spending.mean[evaluation.policies.index(name)] for name in (OURS, rival))
        if ours < theirs:
            return f", at a cost of {ours:.4g} against {theirs:.4g}"
    return ": prefer that here"

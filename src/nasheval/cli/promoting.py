"""`nasheval promote`: should a new model take the place of an old one?"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from nasheval.cli.options import FORMAT, TEXT_MODEL, VOTERS, grouped
from nasheval.cli.printing import console, escaped, print_json
from nasheval.cli.reading import FILES, Reading
from nasheval.cli.serving import Served, promote_served
from nasheval.errors import InputError

_STATUS = {"promote": 0, "keep": 10, "wait": 11}


@grouped
def promote(
    reading: Reading,
    served: Served,
    old: Annotated[str, typer.Argument(help="Folder of the model that serves now.")] = "",
    new: Annotated[str, typer.Argument(help="Folder of the model that may take its place.")] = "",
    votes: Annotated[str, typer.Argument(help=f"All votes so far that neither model was fitted on. {FILES}")] = "",
    gain: Annotated[float, typer.Option(help="Keep the old model once the new one surely wins less than this.")] = 0.02,
    planned: Annotated[
        int, typer.Option(help="Votes about which you expect to decide; the same at every look.", min=1)
    ] = 2000,
    confidence: Annotated[float, typer.Option(help="Of each answer, over all looks together.")] = 0.95,
    voters: VOTERS = None,
    text_model: TEXT_MODEL = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    format: FORMAT = "table",
) -> None:
    """Say whether a new model takes the place of an old one: promote, keep or wait.

    With --store, of a service: the votes are those that neither version was fitted on, and on "promote" the new one
    serves from then on, without a request being dropped.

    Look every day if you like: a new model that is no better is promoted with a chance of 5% at most over all looks
    together. Give all votes since the first look each time, not the latest alone.

    Exit status: 0 promote, 10 keep the old model, 11 wait for more votes; others as always.

    Examples:

      nasheval promote old/ new/ votes.parquet

      nasheval promote old/ new/ votes.parquet --planned 5000 && cp -r new/ serving/

      nasheval promote --store votes.db            (then --back, to undo it)
    """
    if served.store:
        if old:
            raise InputError(f"{old} was given, and --store; with a store, name the version with --to.")
        asked: dict[str, Any] = {"gain": gain, "planned": planned, "confidence": confidence, "voters": voters}
        promote_served(served, text_model=text_model, format=format, seed=reading.seed, **asked)
    if not votes:
        raise InputError("Give OLD, NEW and VOTES, or the store of a service with --store.")
    from nasheval.engine import chosen_device
    from nasheval.estimator import load
    from nasheval.scoring.promotion import promote as decide
    from nasheval.store.evidence import fingerprint

    models = {name: load(name, text_encoder=text_model or None) for name in (old, new)}
    log = reading.like(models[new]).log(votes)
    for name, model in models.items():
        if getattr(model.stage1_, "fingerprint", "") == fingerprint(log):
            raise InputError(f"{votes} is the log that {name} was fitted on; give one that it has not seen.")
    fitted = models[new]
    how: dict[str, Any] = {name: getattr(fitted, name) for name in ("outcome", "propensity", "aggregator", "folds")}
    found = decide(
        models[old],
        fitted,
        log,
        gain=gain,
        confidence=confidence,
        planned=planned,
        voters=voters,
        encoder=fitted.stage1_.encoder,
        seed=reading.seed,
        n_jobs=fitted.n_jobs or os.cpu_count() or 1,
        device=chosen_device(fitted.device),
        verbose=not quiet and sys.stderr.isatty(),
        **how,
    )
    if format == "json":
        print_json(found.to_dict())
    else:
        out = console()
        out.print(f"[bold]{found.decision}[/]: {escaped(found.reason)}", soft_wrap=True)
        for note in found.notes:
            out.print(escaped(note), soft_wrap=True)
    raise typer.Exit(_STATUS[found.decision])

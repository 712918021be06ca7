"""`nasheval audit`: what the winners of a model hang on."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nasheval.cli.options import ENGINE, FORMAT, MODEL, TEXT_MODEL, grouped, split
from nasheval.cli.printing import console, print_json


@grouped
def audit(
    model: MODEL,
    by: Annotated[str, typer.Option(help="Context column; the winners of each of its values are looked at too.")] = "",
    parts: Annotated[str, typer.Option(help="Parts of the audit, with commas; without it, all of them.")] = "",
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Confirm predicted flips by fitting again without these votes.")
    ] = True,
    refits: Annotated[
        int, typer.Option(help="Refits of one set of votes at most; 0: 12, or 60 in logs of up to 200 records.", min=0)
    ] = 0,
    confidence: Annotated[float, typer.Option(help="Of what is said with a confidence.")] = 0.95,
    text_model: TEXT_MODEL = "",
    engine: ENGINE = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    format: FORMAT = "table",
) -> None:
    """Say what the winners hang on.

    The fewest votes and voters whose removal changes who wins, confirmed by refits, for the winner sets and for a
    Bradley-Terry ladder beside them; and how strong unmeasured selection would have to be. Refits take as long as the
    nuisances did when the model was fitted, some for each group: --no-refit leaves flips predicted.

    Examples:

      nasheval audit model/ --by language

      nasheval audit model/ --no-refit --format json
    """
    from nasheval.estimator import load

    loaded = load(model, text_encoder=text_model or None)
    loaded.verbose = not quiet and sys.stderr.isatty()
    loaded.engine = engine or "local"
    chosen = split(parts) or None
    found = loaded.audit(by or None, parts=chosen, confirm=refit, refits=refits or None, confidence=confidence)
    if format == "json":
        print_json(found.to_dict())
    else:
        console().print(found)

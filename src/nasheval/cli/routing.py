"""`nasheval route`: the lottery at one context, in a process that loads no more than that takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nasheval.cli.options import FORMAT, MODEL, TEXT_MODEL, grouped, split
from nasheval.cli.predicting import AGENTS, BUDGET, WEIGHT
from nasheval.cli.printing import console, escaped, print_json, tell
from nasheval.errors import InputError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

if TYPE_CHECKING:
    from nasheval.policy.router import Router


@grouped
def route(
    model: MODEL,
    prompt: Annotated[str | None, typer.Option(help="The prompt to route.")] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", help="A context column and its value, as language=de; as often as needed."),
    ] = None,
    agents: AGENTS = "",
    budget: BUDGET = None,
    cost_weight: WEIGHT = None,
    text_model: TEXT_MODEL = "",
    draw: Annotated[int | None, typer.Option(help="Draw the agent from the lottery with this seed.", min=0)] = None,
    format: FORMAT = "table",
) -> None:
    """Choose an agent for one prompt or context.

    It prints the lottery, the winner set, and the most probable agent. Columns that are not given are taken as missing.
    Where a winner was never compared with a rival, it says so; in JSON these rivals are "bridged" (connected through
    other agents) or "unknown" (nothing connects them).

    Examples:

      nasheval route model/ --prompt "Schreibe ein Haiku" --set language=de

      nasheval route model/ --set lanes_count=3 --set vehicles_density=1.2 --agents fast,cautious --format json
    """
    from nasheval.payoff.bridging import pair_matrix
    from nasheval.policy.choosing import WINNER, choose, winner_sets
    from nasheval.scoring.explain import rivals_not_met, winner_notes

    router = _changed(_router(model, text_model), split(agents), budget, cost_weight)
    payoff, names = router.payoff, router.agents
    context, up_only = _one_context(router, prompt, set or []), split(agents) or None
    lottery = router(context, agents=up_only)[None]
    [chosen] = choose(lottery, names, [context], seed=draw)
    [winners] = winner_sets(lottery, names)
    shares = {name: float(share) for name, share in zip(names, lottery[0], strict=True)}
    up = router.candidates(context, agents=up_only)[None]
    if format == "json":
        unmet = rivals_not_met(pair_matrix(payoff.status, len(names)), lottery > WINNER, up)
        bridged, unknown = ([name for name, on in zip(names, rows[0], strict=True) if on] for rows in unmet)
        unseen = {"bridged": bridged, "unknown": unknown}
        print_json({"agent": chosen, "winners": winners, "lottery": shares, **unseen})
    else:
        ranked = sorted(winners, key=lambda name: -shares[name])
        _print_route(chosen, ranked, shares)
        for line in winner_notes(payoff, router.game(context), ranked, up[0]):
            console().print(escaped(line), soft_wrap=True)


def _router(model: str, text_model: str) -> Router:
    """Return the router of a saved model, without its log where the folder allows that."""
    from nasheval.store.routers import load_router

    router = load_router(model, text_encoder=text_model or None)
    if router is None:
        from nasheval.estimator import load

        router = load(model, text_encoder=text_model or None).router()
    return router


def _changed(router: Router, agents: list[str], budget: float | None, weight: float | None) -> Router:
    """Return the router of what is asked otherwise than the model was fitted; a learned policy cannot answer that."""
    asked = {"budget": budget, "cost_weight": weight}
    changes = {name: value for name, value in asked.items() if value is not None}
    if (changes or agents) and router.is_learned:
        tell("The learned policy is bypassed: it knows the game it was trained for, so this one is solved exactly.")
    return router.under(**changes) if changes else router


def _one_context(router: Router, prompt: str | None, settings: list[str]) -> dict[str, Any]:
    """Return the columns that the model knows, missing where they are not given; plain numbers as numbers."""
    from nasheval.contexts.columns import NumericColumn, VectorColumn

    encoder, values = router.encoder, dict[str, Any]()
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--set is {text!r}; accepted is column=value, such as language=de.")
        values[name.strip()] = value.strip()
    if prompt is not None and not encoder.texts:
        raise InputError("--prompt was given, but this model was fitted without prompts (--text); use --set.")
    if prompt is not None:
        values[encoder.texts[0]] = prompt
    names = encoder.names
    unknown = [name for name in values if name not in names]
    if unknown:
        raise InputError(f"--set names {unknown[0]!r}; the model knows {', '.join(names) or 'no context columns'}.")
    absent = [name for name in names if name not in values]
    if absent:
        tell(f"Not given, taken as missing: {', '.join(absent)}.")
    numeric = {column.name for column in encoder.columns if isinstance(column, NumericColumn)} - {router.column}
    plain: dict[str, Any] = {name: float(v) for name, v in values.items() if name in numeric and _NUMBER.fullmatch(v)}
    vectors = {column.name for column in encoder.columns if isinstance(column, VectorColumn)}
    plain |= {name: _vector(name, v) for name, v in values.items() if name in vectors}
    return {name: plain.get(name, values.get(name)) for name in names}


def _vector(name: str, text: str) -> list[float]:
    """Return the numbers of [0.1, 0.2]; what is wrong with their count, the model says."""
    words = [word.strip() for word in text.strip("[] ").split(",")]
    if not all(_NUMBER.fullmatch(word) for word in words):
        raise InputError(f"--set {name}={text:.40}: accepted are numbers with commas, such as {name}=[0.1,-0.2].")
    return [float(word) for word in words]


def _print_route(chosen: str, ranked: list[str], shares: dict[str, float]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("winners", "lottery")
    table.columns[1].justify = "right"
    for name in ranked:
        table.add_row(Text(name), f"{shares[name]:.3f}")
    if len(shares) > len(ranked):
        rest = abs(1 - sum(shares[name] for name in ranked))
        table.add_row(f"the {len(shares) - len(ranked)} others", f"{rest:.3f}", style="dim")
    out = console()
    out.print(table)
    out.print(Text.assemble("chosen: ", (chosen, "bold green")))

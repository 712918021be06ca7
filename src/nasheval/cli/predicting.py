"""`nasheval predict` and `nasheval route`: lotteries at new contexts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from nasheval.cli.options import MODEL, grouped
from nasheval.cli.printing import Format, Machine, console, escaped, print_csv, print_json, tell
from nasheval.cli.reading import chosen_rows, joined, split
from nasheval.cli.unseen import candidates, predict_note, rivals_not_met, route_lines
from nasheval.errors import InputError
from nasheval.files import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

    from nasheval.arrays import Floats
    from nasheval.estimator import NashEval
    from nasheval.feedback.readers.sources import Source

AGENTS = Annotated[str, typer.Option(help="Agents that are up, with commas; without it, all.", show_default=False)]
BUDGET = Annotated[
    float | None, typer.Option(help="The most a lottery may cost in expectation, in the units of the model's costs.")
]
WEIGHT = Annotated[float | None, typer.Option(help="Weight of costs, in place of the model's.", min=0)]
_ENDINGS = (".parquet", ".csv", ".jsonl", ".json", ".feather", ".arrow")


@grouped
def predict(
    model: MODEL,
    file: Annotated[str, typer.Argument(help="Contexts, a row each: .parquet, .csv, .tsv, .jsonl, .json, .feather.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=f"File to write, which ends in {', '.join(_ENDINGS)}.")
    ] = None,
    keep: Annotated[str, typer.Option(help="Columns, with commas, to carry over, such as an id.")] = "",
    join: Annotated[str, typer.Option(help="Second file with more columns: FILE:key or FILE:key_here=key_there.")] = "",
    where: Annotated[str, typer.Option(help="Read only rows of a column's value: split=test.")] = "",
    agents: AGENTS = "",
    budget: BUDGET = None,
    cost_weight: WEIGHT = None,
    format: Annotated[Format, typer.Option(help="How to print, without --out.")] = Format.csv,
) -> None:
    """Give the winning lottery at each context of a file.

    The output has a column for each agent, and the most probable one as "winner"; rows are in the order of the file.
    Where winners were never compared with some rival, a note on standard error says at how many contexts.

    Examples:

      nasheval predict model/ new.parquet -o lotteries.parquet

      nasheval predict model/ new.csv --keep id --budget 0.002 > lotteries.csv
    """
    from nasheval.estimator import load
    from nasheval.policy.choosing import WINNER

    if out is not None and out.suffix.lower() not in _ENDINGS:
        raise InputError(f"--out {out}: accepted are files that end in {', '.join(_ENDINGS)}.")
    loaded = load(model)
    contexts, carried = _contexts_in(chosen_rows(file, where), loaded, join, split(keep))
    found, lotteries = _answers(loaded, contexts, carried, _changes(loaded, agents, budget, cost_weight))
    note = predict_note(loaded, lotteries > WINNER, candidates(loaded, contexts, split(agents) or None))
    if note:
        tell(note)
    if out is None:
        _print(found, format)
        return
    with whole_file(out) as target:
        _write(found, target, out.suffix.lower())
    tell(f"{found.num_rows:,} lotteries over {len(loaded.agents_)} agents: {out}")


def _contexts_in(rows: str | Source, model: NashEval, join: str, keep: list[str]) -> tuple[pa.Table, pa.Table]:
    """Return the contexts of a file, read as the model's own were, and the columns to carry over."""
    from nasheval.feedback.readers.arena import ARENA_55K, detect_schema
    from nasheval.feedback.readers.covariates import Covariates
    from nasheval.feedback.readers.row_checks import RowChecks, need_columns
    from nasheval.feedback.readers.sources import open_source

    encoder, source = model.stage1_.encoder, open_source(rows)
    schema = detect_schema(source.names)
    beside = Covariates.resolve(
        source,
        context=[column.name for column in encoder.columns],
        text=encoder.text,
        join=joined(join),
        roles={},
        categorical=[column.name for column in encoder.columns if column.kind == "categorical"],
        prompt=schema.prompt if schema else None,
        json_text=schema is ARENA_55K,
    )
    for name in keep:
        need_columns({"keep": name}, source.names, source.label)
    table = source.read([*beside.columns(), *keep, *source.names[:1]], text=beside.as_text())
    checks = RowChecks(source.label, table.num_rows, "raise")
    contexts = beside.contexts(checks, table)
    checks.settle()
    return contexts if contexts.num_columns else table.select([]), table.select(keep)


def _changes(model: NashEval, agents: str, budget: float | None, weight: float | None) -> dict[str, Any]:
    """Return what is asked otherwise than the model was fitted; a learned policy cannot answer that."""
    given = {"agents": split(agents) or None, "budget": budget, "cost_weight": weight}
    changes = {name: value for name, value in given.items() if value is not None}
    if changes and hasattr(model.policy_, "network"):
        tell("The learned policy is bypassed: it knows the game it was trained for, so this one is solved exactly.")
    return changes


def _answers(
    model: NashEval, contexts: pa.Table, carried: pa.Table, changes: dict[str, Any]
) -> tuple[pa.Table, Floats]:
    """Return the table to write, and the lotteries in it, (n, K)."""
    import pyarrow as pa

    lotteries = model.predict_proba(contexts, **changes)
    chosen = [model.agents_[best] for best in lotteries.argmax(axis=1)]
    columns = {name: carried[name] for name in carried.column_names}
    twice = [name for name in (*columns, "winner") if name in model.agents_]
    if twice:
        raise InputError(
            f"An agent is called {twice[0]!r}, as is another column of the output; leave it out of --keep."
        )
    columns |= {"winner": pa.array(chosen), **{name: lotteries[:, k] for k, name in enumerate(model.agents_)}}
    return pa.table(columns), lotteries


def _print(found: pa.Table, format: Format) -> None:
    rows = found.to_pylist()
    if format is Format.json:
        print_json(rows)
    elif format is Format.csv:
        print_csv(rows)
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(*map(escaped, found.column_names))
        for row in rows:
            table.add_row(*(Text(f"{one:.3f}" if isinstance(one, float) else str(one)) for one in row.values()))
        console().print(table)


def _write(table: pa.Table, file: BinaryIO, ending: str) -> None:
    import json

    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    match ending:
        case ".parquet":
            pyarrow.parquet.write_table(table, file)
        case ".csv":
            pyarrow.csv.write_csv(table, file)
        case ".feather" | ".arrow":
            pyarrow.feather.write_feather(table, file)
        case ".json":
            file.write(json.dumps(table.to_pylist(), default=str).encode())
        case _:
            file.writelines((json.dumps(row, default=str) + "\n").encode() for row in table.to_pylist())


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
    draw: Annotated[int | None, typer.Option(help="Draw the agent from the lottery with this seed.")] = None,
    format: Annotated[Machine, typer.Option(help="A table for people, JSON for machines.")] = Machine.table,
) -> None:
    """Choose an agent for one prompt or context.

    It prints the lottery, the winner set, and the most probable agent. Columns that are not given are taken as missing.
    Where a winner was never compared with a rival, it says so; in JSON these rivals are "bridged" (connected through
    other agents) or "unknown" (nothing connects them).

    Examples:

      nasheval route model/ --prompt "Schreibe ein Haiku" --set language=de

      nasheval route model/ --set lanes_count=3 --set vehicles_density=1.2 --agents fast,cautious --format json
    """
    from nasheval.estimator import load
    from nasheval.policy.choosing import WINNER, choose, winner_sets

    loaded = load(model)
    context = _one_context(loaded, prompt, set or [])
    lottery = loaded.predict_proba(context, **_changes(loaded, agents, budget, cost_weight))
    [chosen] = choose(lottery, loaded.agents_, seed=draw)
    [winners] = winner_sets(lottery, loaded.agents_)
    shares = {name: float(share) for name, share in zip(loaded.agents_, lottery[0], strict=True)}
    up = candidates(loaded, context, split(agents) or None)
    if format is Machine.json:
        unmet = rivals_not_met(loaded.stage1_.status, lottery > WINNER, up)
        bridged, unknown = ([name for name, on in zip(loaded.agents_, rows[0], strict=True) if on] for rows in unmet)
        unseen = {"bridged": bridged, "unknown": unknown}
        print_json({"agent": chosen, "winners": winners, "lottery": shares, **unseen})
    else:
        _print_route(chosen, winners, shares)
        ranked = sorted(winners, key=lambda name: -shares[name])
        for line in route_lines(loaded, loaded.payoff(context)[0], ranked, up[0]):
            console().print(escaped(line), soft_wrap=True)


def _one_context(model: NashEval, prompt: str | None, given: list[str]) -> pa.Table:
    """Return a table of one row: the columns that the model knows, missing where they are not given."""
    import pyarrow as pa

    encoder, values = model.stage1_.encoder, dict(map(_pair, given))
    if prompt is not None and encoder.text is None:
        raise InputError("--prompt was given, but this model was fitted without prompts (--text); use --set.")
    if prompt is not None:
        values[str(encoder.text)] = prompt
    names = [column.name for column in encoder.columns] + ([encoder.text] if encoder.text else [])
    strange = [name for name in values if name not in names]
    if strange:
        raise InputError(f"--set names {strange[0]!r}; the model knows {', '.join(names) or 'no context columns'}.")
    absent = [name for name in names if name not in values]
    if absent:
        tell(f"Not given, taken as missing: {', '.join(absent)}.")
    columns = {name: pa.array([values.get(name)], pa.string()) for name in names}
    return pa.table(columns) if columns else pa.table({"": pa.nulls(1)}).select([])


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--set is {text!r}; accepted is column=value, such as language=de.")
    return name.strip(), value.strip()


def _print_route(chosen: str, winners: list[str], shares: dict[str, float]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("winners", "lottery")
    table.columns[1].justify = "right"
    ranked = sorted(((share, name) for name, share in shares.items() if name in winners), key=lambda one: -one[0])
    for share, name in ranked:
        table.add_row(Text(name), f"{share:.3f}")
    if len(shares) > len(winners):
        table.add_row(
            f"the {len(shares) - len(winners)} others", f"{abs(1 - sum(share for share, _ in ranked)):.3f}", style="dim"
        )
    out = console()
    out.print(table)
    out.print(Text.assemble("chosen: ", (chosen, "bold green")))

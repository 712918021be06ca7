"""`nasheval predict` and `nasheval route`: lotteries at new contexts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from nasheval.cli.options import FORMAT, MODEL, Format, grouped, split
from nasheval.cli.printing import console, escaped, print_csv, print_json, tell
from nasheval.cli.reading import chosen_rows, joined
from nasheval.errors import InputError
from nasheval.files import check_file, whole_file

if TYPE_CHECKING:
    import pyarrow as pa

    from nasheval.arrays import Floats
    from nasheval.estimator import NashEval

AGENTS = Annotated[str, typer.Option(help="Agents that are up, with commas; without it, all.", show_default=False)]
BUDGET = Annotated[
    float | None, typer.Option(help="The most a lottery may cost in expectation, in the units of the model's costs.")
]
WEIGHT = Annotated[float | None, typer.Option(help="Weight of costs, in place of the model's.", min=0)]
_ENDINGS = (".parquet", ".csv", ".jsonl", ".json", ".feather", ".arrow")


@grouped
def predict(
    model: MODEL,
    file: Annotated[str, typer.Argument(help="Contexts, one per row: .parquet, .csv, .tsv, .jsonl, .json, .feather.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=f"File to write, which ends in {', '.join(_ENDINGS)}.")
    ] = None,
    keep: Annotated[str, typer.Option(help="Columns, with commas, to carry over, such as an id.")] = "",
    join: Annotated[str, typer.Option(help="Second file with more columns: FILE:key or FILE:key_here=key_there.")] = "",
    where: Annotated[str, typer.Option(help="Read only rows of a column's value: split=test.")] = "",
    agents: AGENTS = "",
    budget: BUDGET = None,
    cost_weight: WEIGHT = None,
    format: Annotated[Format, typer.Option(help="How to print, without --out.")] = "csv",
) -> None:
    """Give the winning lottery at each context of a file.

    The output has one column per agent, and the most probable one as "winner"; rows are in the order of the file.
    Where winners were never compared with some rival, a note on standard error says at how many contexts.

    Examples:

      nasheval predict model/ new.parquet -o lotteries.parquet

      nasheval predict model/ new.csv --keep id --budget 0.002 > lotteries.csv
    """
    from nasheval.estimator import load
    from nasheval.feedback.readers.covariates import read_contexts
    from nasheval.policy.availability import candidates
    from nasheval.policy.choosing import WINNER
    from nasheval.scoring.explain import context_notes

    if out is not None and out.suffix.lower() not in _ENDINGS:
        raise InputError(f"--out {out}: accepted are files that end in {', '.join(_ENDINGS)}.")
    if out is not None:
        check_file(out)
    loaded = load(model)
    rows, encoder = chosen_rows(file, where), loaded.stage1_.encoder
    contexts, carried = read_contexts(rows, encoder, join=joined(join), keep=[*dict.fromkeys(split(keep))])
    lotteries = loaded.predict_proba(contexts, **_changes(loaded, agents, budget, cost_weight))
    answers = _answers(loaded.agents_, lotteries, carried)
    up = candidates(loaded.policy_, contexts, split(agents) or None)
    if note := " ".join(context_notes(loaded.stage1_, lotteries > WINNER, up)):
        tell(note)
    if out is None:
        _print(answers, format)
        return
    with whole_file(out) as opened:
        _write(answers, opened, out.suffix.lower())
    tell(f"{answers.num_rows:,} lotteries over {len(loaded.agents_)} agents: {out}")


def _changes(model: NashEval, agents: str, budget: float | None, weight: float | None) -> dict[str, Any]:
    """Return what is asked otherwise than the model was fitted; a learned policy cannot answer that."""
    asked = {"agents": split(agents) or None, "budget": budget, "cost_weight": weight}
    changes = {name: value for name, value in asked.items() if value is not None}
    if changes and hasattr(model.policy_, "network"):
        tell("The learned policy is bypassed: it knows the game it was trained for, so this one is solved exactly.")
    return changes


def _answers(agents: Sequence[str], lotteries: Floats, carried: pa.Table) -> pa.Table:
    """Return the columns carried over, the most probable agent, and one column per agent."""
    import pyarrow as pa

    twice = [name for name in (*carried.column_names, "winner") if name in agents]
    if twice:
        raise InputError(f"An agent is called {twice[0]!r}, as is a column of the output; leave it out of --keep.")
    columns = {name: carried[name] for name in carried.column_names}
    columns["winner"] = pa.array([agents[best] for best in lotteries.argmax(axis=1)])
    return pa.table({**columns, **{name: lotteries[:, k] for k, name in enumerate(agents)}})


def _print(answers: pa.Table, format: Format) -> None:
    rows = answers.to_pylist()
    if format == "json":
        print_json(rows)
    elif format == "csv":
        print_csv(rows)
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(*map(escaped, answers.column_names))
        for row in rows:
            table.add_row(*(Text(f"{one:.3f}" if isinstance(one, float) else str(one)) for one in row.values()))
        console().print(table)


def _write(answers: pa.Table, file: BinaryIO, ending: str) -> None:
    import json

    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    match ending:
        case ".parquet":
            pyarrow.parquet.write_table(answers, file)
        case ".csv":
            pyarrow.csv.write_csv(answers, file)
        case ".feather" | ".arrow":
            pyarrow.feather.write_feather(answers, file)
        case ".json":
            file.write(json.dumps(answers.to_pylist(), default=str).encode())
        case _:
            file.writelines((json.dumps(row, default=str) + "\n").encode() for row in answers.to_pylist())


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
    from nasheval.estimator import load
    from nasheval.policy.availability import candidates
    from nasheval.policy.choosing import WINNER, choose, winner_sets
    from nasheval.scoring.explain import rivals_not_met, winner_notes

    loaded = load(model)
    context = _one_context(loaded, prompt, set or [])
    lottery = loaded.predict_proba(context, **_changes(loaded, agents, budget, cost_weight))
    [chosen] = choose(lottery, loaded.agents_, context, seed=draw)
    [winners] = winner_sets(lottery, loaded.agents_)
    shares = {name: float(share) for name, share in zip(loaded.agents_, lottery[0], strict=True)}
    up = candidates(loaded.policy_, context, split(agents) or None)
    if format == "json":
        unmet = rivals_not_met(loaded.stage1_.status, lottery > WINNER, up)
        bridged, unknown = ([name for name, on in zip(loaded.agents_, rows[0], strict=True) if on] for rows in unmet)
        unseen = {"bridged": bridged, "unknown": unknown}
        print_json({"agent": chosen, "winners": winners, "lottery": shares, **unseen})
    else:
        ranked = sorted(winners, key=lambda name: -shares[name])
        _print_route(chosen, ranked, shares)
        for line in winner_notes(loaded.stage1_, loaded.payoff(context)[0], ranked, up[0]):
            console().print(escaped(line), soft_wrap=True)


def _one_context(model: NashEval, prompt: str | None, settings: list[str]) -> pa.Table:
    """Return a table of one row: the columns that the model knows, missing where they are not given."""
    import pyarrow as pa

    encoder, values = model.stage1_.encoder, {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--set is {text!r}; accepted is column=value, such as language=de.")
        values[name.strip()] = value.strip()
    if prompt is not None and encoder.text is None:
        raise InputError("--prompt was given, but this model was fitted without prompts (--text); use --set.")
    if prompt is not None:
        values[str(encoder.text)] = prompt
    names = [column.name for column in encoder.columns] + ([encoder.text] if encoder.text else [])
    unknown = [name for name in values if name not in names]
    if unknown:
        raise InputError(f"--set names {unknown[0]!r}; the model knows {', '.join(names) or 'no context columns'}.")
    absent = [name for name in names if name not in values]
    if absent:
        tell(f"Not given, taken as missing: {', '.join(absent)}.")
    columns = {name: pa.array([values.get(name)], pa.string()) for name in names}
    return pa.table(columns) if columns else pa.table({"": pa.nulls(1)}).select([])


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

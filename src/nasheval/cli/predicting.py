"""`nasheval predict`: lotteries at new contexts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from nasheval.cli.options import MODEL, Format, grouped, split
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

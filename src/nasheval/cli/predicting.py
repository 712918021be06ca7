"""`nasheval predict`: lotteries at new contexts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from nasheval.cli.options import ENGINE, MODEL, TEXT_MODEL, Format, grouped, split
from nasheval.cli.parts import Parts, fingerprint
from nasheval.cli.printing import console, escaped, print_csv, print_json, tell
from nasheval.cli.reading import chosen_rows, joined
from nasheval.errors import InputError
from nasheval.files import check_file, whole_file
from nasheval.progress import rows_done

if TYPE_CHECKING:
    import pyarrow as pa

    from nasheval.arrays import Floats, Ints
    from nasheval.choices import Engine
    from nasheval.engine import Workers
    from nasheval.estimator import NashEval
    from nasheval.feedback.readers.context_rows import ContextRows

AGENTS = Annotated[str, typer.Option(help="Agents that are up, with commas; without it, all.", show_default=False)]
BUDGET = Annotated[
    float | None, typer.Option(help="The most a lottery may cost in expectation, in the units of the model's costs.")
]
WEIGHT = Annotated[float | None, typer.Option(help="Weight of costs, in place of the model's.", min=0)]
_ENDINGS = (".parquet", ".csv", ".jsonl", ".json", ".feather", ".arrow")
_NOT_MET = b"nasheval.not_met"  # of a part: at how many contexts a winner was never compared with some rival


@grouped
def predict(
    model: MODEL,
    file: Annotated[
        str,
        typer.Argument(
            help="Contexts, one per row: .parquet, .csv, .tsv, .jsonl, .json, .feather; a folder or a glob of them."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=f"File to write, which ends in {', '.join(_ENDINGS)}.")
    ] = None,
    keep: Annotated[str, typer.Option(help="Columns, with commas, to carry over, such as an id.")] = "",
    join: Annotated[str, typer.Option(help="Second file with more columns: FILE:key or FILE:key_here=key_there.")] = "",
    where: Annotated[str, typer.Option(help="Read only rows of a column's value: split=test.")] = "",
    agents: AGENTS = "",
    budget: BUDGET = None,
    cost_weight: WEIGHT = None,
    text_model: TEXT_MODEL = "",
    engine: ENGINE = None,
    format: Annotated[Format, typer.Option(help="How to print, without --out.")] = "csv",
) -> None:
    """Give the winning lottery at each context of a file.

    The output has one column per agent, and the most probable one as "winner"; rows are in the order of the file.
    Where winners were never compared with some rival, a note on standard error says at how many contexts.

    From Parquet to Parquet, memory does not grow with the file: all rows are checked first, then predicted part by
    part into the folder OUT.parts, which becomes OUT at the end. A run that was interrupted goes on where it stopped
    when the same command is given again; if the model, the input or an option has changed since, it refuses. With
    --engine ray the workers of a cluster share the parts out; each of its machines must see the input.

    Examples:

      nasheval predict model/ new.parquet -o lotteries.parquet

      nasheval predict model/ 'contexts/*.parquet' --keep id -o lotteries.parquet

      nasheval predict model/ new.csv --keep id --budget 0.002 > lotteries.csv
    """
    from nasheval.estimator import load
    from nasheval.feedback.readers.context_rows import ContextRows
    from nasheval.policy.base import block_of
    from nasheval.scoring.explain import context_notes

    if out is not None and out.suffix.lower() not in _ENDINGS:
        raise InputError(f"--out {out}: accepted are files that end in {', '.join(_ENDINGS)}.")
    if out is not None:
        check_file(out)
    loaded = load(model, text_encoder=text_model or None)
    carried = [*dict.fromkeys(split(keep))]
    rows = ContextRows(chosen_rows(file, where), loaded.stage1_.encoder, join=joined(join), keep=carried)
    answer = _answering(loaded, agents, _changes(loaded, agents, budget, cost_weight))
    size = block_of(len(loaded.agents_))
    if out is not None and _in_parts(rows, out, size):
        asked = {"where": where, "join": join, "keep": keep, "agents": agents, "budget": budget}
        parts = Parts(out, fingerprint(model, rows.files, {**asked, "cost_weight": cost_weight}), size)
        counts, total = _predict_parts(rows, answer, parts, engine or "local"), parts.rows or 0
    else:
        answers, counts = _predict_whole(rows, answer, size)
        total = answers.num_rows
        if out is None:
            _print(answers, format)
        else:
            with whole_file(out) as opened:
                _write(answers, opened, out.suffix.lower())
    if note := " ".join(context_notes(loaded.stage1_, counts, total)):
        tell(note)
    if out is not None:
        tell(f"{total:,} lotteries over {len(loaded.agents_)} agents: {out}")


_Answer = Callable[["pa.Table", "pa.Table"], "pa.Table"]  # contexts and columns to carry over -> what is written


def _answering(model: NashEval, agents: str, changes: dict[str, Any]) -> _Answer:
    """Return what answers a block of contexts; its table's metadata says at how many winners and rivals never met."""
    from nasheval.policy.availability import candidates
    from nasheval.policy.choosing import WINNER
    from nasheval.scoring.explain import count_not_met

    def answer(contexts: pa.Table, carried: pa.Table) -> pa.Table:
        lotteries = model.predict_proba(contexts, **changes)
        up = candidates(model.policy_, contexts, split(agents) or None)
        counts = count_not_met(model.stage1_, lotteries > WINNER, up)
        answers = _answers(model.agents_, lotteries, carried)
        return answers.replace_schema_metadata({_NOT_MET: " ".join(map(str, counts))})

    return answer


def _counted(metadata: Iterable[dict[bytes, bytes]]) -> Ints:
    """Return (2,) what the metadata of blocks say, added up."""
    import numpy as np

    return np.sum([[int(count) for count in one[_NOT_MET].split()] for one in metadata], axis=0, dtype=np.int64)


def _in_parts(rows: ContextRows, out: Path, size: int) -> bool:
    """Tell whether rows are so many that they are predicted part by part, or were begun to be."""
    large = rows.source.rows is None or rows.source.rows > size or Path(f"{out}.parts").exists()
    return rows.in_blocks and out.suffix.lower() == ".parquet" and large and bool(rows.files)


def _predict_whole(rows: ContextRows, answer: _Answer, size: int) -> tuple[pa.Table, Ints]:
    """Return the answers to all rows in one table."""
    import pyarrow as pa

    answers = [answer(contexts, carried) for contexts, carried in rows.blocks(size)]
    counts = _counted(one.schema.metadata for one in answers)
    return pa.concat_tables([one.replace_schema_metadata(None) for one in answers]), counts


def _predict_parts(rows: ContextRows, answer: _Answer, parts: Parts, engine: Engine) -> Ints:
    """Write the answers to all rows part by part, those that are there already left out."""
    from nasheval.engine import workers

    if parts.rows is None:
        parts.begin(rows.check(parts.size))
    done, total = parts.finished(), parts.rows or 0
    begun = done * parts.size
    if done:
        tell(f"{min(total, begun):,} of {total:,} lotteries are there from an earlier run.")
    try:
        with workers(engine) as pool, rows_done(total, begun, show=sys.stderr.isatty()) as advance:
            for part in _parts_from(done, rows, answer, parts, pool):
                parts.write(done, part)
                done += 1
                advance(part.num_rows)
        return _counted(parts.join())
    except KeyboardInterrupt:
        kept = f"{min(total, done * parts.size):,} of {total:,} lotteries are kept in {parts.folder}"
        tell(f"{kept}; give the same command again to go on.")
        raise


def _parts_from(
    done: int, rows: ContextRows, answer: _Answer, parts: Parts, pool: Workers | None
) -> Iterator[pa.Table]:
    """Yield the answers to the parts that are not there yet; on a cluster, each worker reads its rows by itself."""
    size, total = parts.size, parts.rows or 0
    if pool is None:
        for contexts, carried in rows.blocks(size, skip=done * size) if done * size < total else ():
            yield answer(contexts, carried)
        return
    missing = range(done, -(-total // size))
    for start in range(0, len(missing), pool.count):
        yield from pool.run(
            lambda number: answer(*next(rows.blocks(size, skip=number * size))), missing[start : start + pool.count]
        )


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
    columns["winner"] = pa.array(agents).take(pa.array(lotteries.argmax(axis=1)))
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

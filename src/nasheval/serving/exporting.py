"""A store's votes as a table that `fit` reads, and as a log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from sqlalchemy import Engine, func, select, text

from nasheval.arrays import Floats, Ints
from nasheval.errors import Argument, InputError
from nasheval.feedback.readers.partitions import ABOUT, BLOCKS, MARK, MENU, ZERO
from nasheval.serving.schema import DECISIONS, VOTES

Use = Literal["auto", "proposed", "all"]
_ROWS = 5_000  # fetched at a time
_OWN = ("id", "key", "decision", "voter", "time", "version", "client")


@dataclass(frozen=True)
class Votes:
    """The votes of a store up to some number.

    Args:
        table: one row per vote, as `read_partitions` takes it; texts that were not kept are their hashes.
        until: number of the last vote.
        vectors: {text or hash: its embedding}.
        texts: the columns of texts.
        kept: whether all texts are themselves.
        numbers: (votes,) the number of each.
    """

    table: pa.Table
    until: int
    vectors: dict[str, Floats]
    texts: tuple[str, ...]
    kept: bool
    numbers: Ints

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def used(self, which: Use) -> tuple[pa.Table, str]:
        """Return the votes to learn from, and why these.

        "auto": where some menus were not proposed by the service, nobody knows with what probability those were asked,
        and either they are left out or all propensities are estimated: left out where they are the fewer.
        """
        proposed = np.asarray(self.table[f"{MARK}propensity"].is_valid())
        share = proposed.mean() if len(proposed) else 1.0
        if share == 1.0:
            return self.table, "all menus were proposed by the service, with known propensities"
        if which == "proposed" or (which == "auto" and share >= 0.5):
            left = f"{int((~proposed).sum()):,} votes on menus of the caller's own are left out"
            return self.table.filter(pa.array(proposed)), f"{left}; propensities are known"
        table = self.table.drop_columns([f"{MARK}propensity"])
        return table, "menus of the caller's own are among them, so propensities are estimated"


def votes_of(engine: Engine, *, after: int = 0, until: int | None = None) -> Votes:
    """Return the votes whose number is above `after` and at most `until`; None: all that are there."""
    last = last_vote(engine) if until is None else until
    columns: dict[str, list[Any]] = {name: [] for name in (*_OWN, "menu", "blocks", "zero", "propensity")}
    contexts: list[dict[str, Any]] = []
    texts: list[dict[str, str]] = []
    vectors: dict[str, Floats] = {}
    numbers: list[int] = []
    kept = True
    for row in _rows(engine, after, last):
        for name in columns:
            value = row[name]
            columns[name].append(json.loads(value) if name in ("menu", "blocks") and value is not None else value)
        numbers.append(row["seq"])
        contexts.append(json.loads(row["context"] or "{}"))
        said, are_texts = _texts(row, vectors)
        texts.append(said)
        kept = kept and are_texts
    made, text_names = _assembled(columns, contexts, texts)
    return Votes(made, last, vectors, text_names, kept, np.array(numbers, np.int64))


def last_vote(engine: Engine) -> int:
    """Return the number of the last vote, once those that are being written before it are there too."""
    with engine.connect() as connection, connection.begin():
        if engine.dialect.name == "postgresql":  # numbers are given before a commit, so a lower one may still come
            connection.execute(text("LOCK TABLE votes IN SHARE MODE"))
        return int(connection.execute(select(func.max(VOTES.c.seq))).scalar() or 0)


def _rows(engine: Engine, after: int, until: int) -> Iterator[dict[str, Any]]:
    """Yield votes, each with its context, or that of its decision."""
    about = {
        name: func.coalesce(VOTES.c[name], DECISIONS.c[name]) for name in ("context", "prompt", "prompt_hash", "vector")
    }
    own = [VOTES.c[name] for name in ("seq", *_OWN[:4], "version", "client", "menu", "blocks", "zero", "propensity")]
    joined = VOTES.outerjoin(DECISIONS, VOTES.c.decision == DECISIONS.c.id)
    chosen = select(*own, VOTES.c.at.label("time"), *(column.label(name) for name, column in about.items()))
    place = after
    with engine.connect() as connection:
        while True:
            where = (VOTES.c.seq > place) & (VOTES.c.seq <= until)
            rows = connection.execute(chosen.select_from(joined).where(where).order_by(VOTES.c.seq).limit(_ROWS))
            found = [dict(row) for row in rows.mappings()]
            if not found:
                return
            yield from found
            place = found[-1]["seq"]


def _texts(row: dict[str, Any], vectors: dict[str, Floats]) -> tuple[dict[str, str], bool]:
    """Return the texts of a vote, or the hashes of those that were not kept; remember their vectors."""
    if row["prompt_hash"] is None:
        return {}, True
    hashes = json.loads(row["prompt_hash"])
    texts = hashes if row["prompt"] is None else json.loads(row["prompt"])
    if row["vector"]:
        each = np.frombuffer(row["vector"], "<f4")
        vectors |= dict(zip(texts.values(), np.split(each, len(texts)), strict=True))
    return texts, row["prompt"] is not None


def _assembled(
    columns: dict[str, list[Any]],
    contexts: Sequence[dict[str, Any]],
    texts: Sequence[dict[str, str]],
) -> tuple[pa.Table, tuple[str, ...]]:
    strings, nested = pa.string(), pa.list_(pa.string())
    kinds: dict[str, pa.DataType] = dict.fromkeys(_OWN, strings) | {"time": pa.float64(), "zero": strings}
    kinds |= {"menu": nested, "blocks": pa.list_(nested), "propensity": pa.float64()}
    # Each vote on a menu of the caller's own is a context of its own.
    columns["decision"] = [of or f"vote {own}" for of, own in zip(columns["decision"], columns["id"], strict=True)]
    table = {_named(name): pa.array(values, kinds[name]) for name, values in columns.items()}
    names = dict.fromkeys(name for context in contexts for name in context)
    clash = next((name for name in names if name.startswith(MARK)), None)
    if clash is not None:
        raise InputError(f"A context column is called {clash!r}, as those of votes are; rename it.")
    table |= {name: _column([context.get(name) for context in contexts]) for name in names}
    text_names = tuple(dict.fromkeys(name for said in texts for name in said))
    table |= {name: pa.array([said.get(name) for said in texts], strings) for name in text_names}
    about = json.dumps({"text": list(text_names), "design": "draws"}).encode()
    made = pa.table(table).replace_schema_metadata({ABOUT: about})
    return made, text_names


def _named(name: str) -> str:
    return {"menu": MENU, "blocks": BLOCKS, "zero": ZERO}.get(name, f"{MARK}{name}")


def _column(values: list[Any]) -> pa.Array:
    """Return a context column; where callers gave values of several kinds, as text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def exported(votes: Votes) -> pa.Table:
    """Return what `fit` reads: in place of texts that were not kept, their vectors as context columns."""
    table = votes.table
    if votes.kept:
        return table
    for name in votes.texts:
        found = [None if said is None else votes.vectors.get(said) for said in table[name].to_pylist()]
        size = max((len(vector) for vector in found if vector is not None), default=0)
        if not size:
            raise InputError(
                f"The prompts in {name!r} were not kept, and neither were their vectors; ",
                *("start the service with ", Argument("keep_prompts", True), "."),
            )
        filled = [[0.0] * size if vector is None else vector.tolist() for vector in found]
        table = table.drop_columns([name]).append_column(f"{name}_vector", pa.array(filled, pa.list_(pa.float32())))
    return table.replace_schema_metadata({ABOUT: json.dumps({"text": [], "design": "draws"}).encode()})

"""What the columns of a file of unknown make look like, and the command line that would read it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nasheval.contexts.table import decoded, is_string
from nasheval.errors import Argument, ReadError
from nasheval.feedback.readers.labels import filled_in
from nasheval.feedback.readers.parsing import to_numbers
from nasheval.feedback.readers.row_checks import listed
from nasheval.feedback.readers.sources import Source

_SIDES = (("a", "b"), ("A", "B"), ("1", "2"), ("0", "1"), ("left", "right"), ("first", "second"), ("x", "y"))
_WINNER = re.compile(
    r"(?i)winner|won|verdict|preference|preferred|vote|label|choice|chosen|outcome|result|better|answer"
)
_RANKS = re.compile(r"(?i)rank|place|position|score|rating")
_PROMPT = re.compile(r"(?i)prompt|question|instruction|query|input|text|task|source")
_ROWS = 5_000  # rows that are looked at
_LABELS = 8  # different verdicts at most


def paired_names(names: Sequence[str], stems: Sequence[str] = ("",)) -> tuple[str, str] | None:
    """Return two names that differ only in the side they stand for (model_a, model_b), and hold one of some stems."""
    return next((pair for pair in _pairs(names) if any(stem in pair[0].lower() for stem in stems)), None)


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    every, found = set(names), []
    for name in names:
        for one, other in _SIDES:
            kind = r"\d" if one.isdigit() else "[A-Za-z]"
            twin = re.sub(rf"(?<!{kind}){one}(?!{kind})", other, name, count=1)
            if twin != name and twin in every:
                found.append((name, twin))
    return found


def not_recognised(source: Source) -> ReadError:
    """Return the error for a file of unknown make: what its columns look like, and what to type."""
    words = [Argument(name, value) for name, value in _guess(source).items()]
    line = " ".join(["nasheval check", shlex.quote(source.label), *(word.as_flag() for word in words)])
    guess = (Argument(", ".join(map(str, words)), flag=line), " might read it; or ") if words else ()
    a, b, won = (Argument(name) for name in ("model_a", "model_b", "winner"))
    others = Argument("read_rankings or read_scores", flag="--kind rankings or --kind scores")
    return ReadError(
        f"this does not look like a table of votes; its columns: {listed(source.names)}",
        source=source.label,
        accepted=(
            "the columns model_a, model_b and winner; left, right and winner; an LMArena release; or ",
            Argument("with nasheval.read a file of a tool", flag="a file of a tool"),
            " that `nasheval formats` lists",
        ),
        fix=(*guess, "name the columns with ", a, ", ", b, " and ", won, ", or use ", others),
    )


def _guess(source: Source) -> dict[str, Any]:
    """Return the arguments that would read votes, as far as columns look like them; nothing where no two do."""
    plain = [name for name in source.names if not pa.types.is_nested(source.schema.field(name).type)]
    try:
        table = next((piece for _, piece in source.pieces(plain)), None)
    except ReadError:
        return {}
    if table is None:
        return {}
    table = pa.table({name: decoded(table[name]) for name in plain}).slice(0, _ROWS)
    sides = next((pair for pair in _pairs(plain) if _share_values(table, *pair)), None)
    if sides is None:
        return {}
    words: dict[str, Any] = {"model_a": sides[0], "model_b": sides[1]}
    rest = [name for name in plain if name not in sides]
    ranks = next((pair for pair in _pairs(rest) if _RANKS.search(pair[0]) and _numeric(table, *pair)), None)
    winner = _verdict(table, rest, sides)
    if winner:
        words["winner"] = winner
        values = [value for value in pc.unique(texts_of(table, winner)).to_pylist() if value is not None]
        names = set(pc.unique(texts_of(table, sides[0])).to_pylist())
        if labels := filled_in([value for value in values if value not in names]):
            words["labels"] = labels
    elif ranks:
        words |= {"rank_a": ranks[0], "rank_b": ranks[1]}
    else:
        return {}
    prompt = [name for name in rest if name != winner and _PROMPT.search(name) and is_string(table[name].type)]
    return words | ({"text": max(prompt, key=lambda name: _length(table, name))} if prompt else {})


def texts_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column as text."""
    return table[name].cast(pa.large_string())


def _share_values(table: pa.Table, one: str, other: str) -> bool:
    """Tell whether two columns hold names of agents: text that repeats, some of it in both."""
    if not all(is_string(table[name].type) for name in (one, other)):
        return False
    left, right = (set(pc.unique(texts_of(table, name)).to_pylist()) - {None} for name in (one, other))
    few = len(left | right) <= max(10, table.num_rows)
    return (
        few and bool(left) and bool(right) and (bool(left & right) or len(left | right) <= max(4, table.num_rows // 4))
    )


def _verdict(table: pa.Table, names: Sequence[str], sides: tuple[str, str]) -> str | None:
    """Return the column that looks most like a verdict: few values, or the agents' names; and what it is called."""
    agents = {value for name in sides for value in pc.unique(texts_of(table, name)).to_pylist()}

    def fits(name: str) -> bool:
        values = set(pc.unique(texts_of(table, name)).to_pylist()) - {None}
        return 0 < len(values - agents) <= _LABELS or bool(values and values <= agents)

    called = [name for name in names if _WINNER.search(name) and fits(name)]
    by_agents = [name for name in names if is_string(table[name].type) and fits(name)]
    named = [name for name in by_agents if set(pc.unique(texts_of(table, name)).to_pylist()) & agents - {None}]
    return next(iter([*called, *named]), None)


def _numeric(table: pa.Table, *names: str) -> bool:
    return all(bool(to_numbers(table[name])[1].any()) for name in names)


def _length(table: pa.Table, name: str) -> float:
    return float(np.nan_to_num(pc.mean(pc.utf8_length(texts_of(table, name))).as_py() or 0.0))

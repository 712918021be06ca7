"""A log on disk: round trips, and files and tables that somebody has tampered with."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.feedback.arrow import COLUMN, FORMAT, from_arrow, to_arrow
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.feedback.records import Records

from .oracle import Plain, Said, build, equal_logs, logs, quick, spelled

KEY = b"nasheval.feedback"
A_B = (("a",), ("b",))


def rich() -> Feedback:
    """Three contexts, one of them without a record, and every column there is."""
    said = (
        Said(0, (frozenset("a"), frozenset("b")), Zero.TIE, ("b", "a"), 0.5, 1.0, "ann", 10.0),
        Said(0, (frozenset("c"), frozenset("ab")), Zero.CENSORED, ("a", "b", "c"), 0.25, 2.0, None, None),
        Said(2, (frozenset("bc"),), Zero.BOTH_BAD, ("c", "b"), 1.0, 0.5, "bob", 30.0),
    )
    contexts = ({"x": 1.5, "lang": "en"}, {"x": None, "lang": "de"}, {"x": -2.0, "lang": None})
    return build(Plain(("a", "b", "c"), contexts, said, frozenset({"shown", "propensity", "weight", "voter", "time"})))


# -- round trips ------------------------------------------------------------------------------------------------------


@quick
@given(logs())
def test_arrow_gives_back_the_log(plain: Plain) -> None:
    log = build(plain)
    again = from_arrow(to_arrow(log))
    assert spelled(again) == plain.grouped()
    assert equal_logs(again, log)
    assert (again.n_contexts, again.design) == (log.n_contexts, log.design)


def test_text_and_a_given_design_are_kept() -> None:
    log = Feedback.from_partitions([{"prompt": "hi"}], [A_B], text="prompt", design="inclusion")
    again = from_arrow(to_arrow(log))
    assert (again.text, again.given_design.name) == ("prompt", "inclusion")
    assert from_arrow(to_arrow(rich())).given_design is None


def test_context_columns_keep_their_types() -> None:
    contexts = pa.table(
        {
            "category": pa.array(["u", None, "v"]).dictionary_encode(),
            "flag": pa.array([True, None, False]),
            "small": pa.array([1, 2, None], pa.int8()),
            "when": pa.array([1, 2, 3], pa.timestamp("ms")),
            "tags": pa.array([["p"], [], None]),
            "Ωμέγα ": pa.array(["ß", "", None]),
        }
    )
    log = Feedback.from_partitions(contexts, [A_B] * 3)
    assert from_arrow(to_arrow(log)).contexts.equals(contexts)


def test_strange_agent_and_voter_names_are_kept() -> None:
    names = ["", " ", "gpt-4\n", "日本", 'quo"te', "\x00"]
    log = Feedback.from_partitions(np.zeros((1, 1)), [[[name] for name in names]], agents=names, voter=["\x00é"])
    assert from_arrow(to_arrow(log)).agents == tuple(names)
    assert from_arrow(to_arrow(log)).voters.to_pylist() == ["\x00é"]


def test_a_ranking_of_two_hundred_among_three_hundred_is_kept() -> None:
    order = np.random.default_rng(0).permutation(300)[:200]
    records = Records.build(sizes=np.array([200]), agent=order, rank=np.arange(200), shown=np.arange(200))
    log = Feedback.from_records(records, agents=[f"m{i}" for i in range(300)])
    assert spelled(from_arrow(to_arrow(log))) == spelled(log)


def test_the_stored_types_follow_from_what_is_stored() -> None:
    """A log that was cut out of a larger one equals the same log made directly, and so do their round trips."""
    agents = [f"m{i}" for i in range(300)]
    wide = Feedback.from_partitions(
        np.zeros((2, 1)), [[["m0"], ["m1"]], [[name] for name in agents[:200]]], agents=agents
    )
    cut, made = wide[:1], Feedback.from_partitions(np.zeros((1, 1)), [[["m0"], ["m1"]]], agents=agents)
    assert (cut.records.agent.dtype, made.records.agent.dtype) == (np.int16, np.int8)
    assert to_arrow(cut).schema == to_arrow(made).schema
    assert equal_logs(cut, made)
    assert equal_logs(from_arrow(to_arrow(cut)), cut)


def test_large_lists_are_read_as_well() -> None:
    log = rich()
    wide = Feedback(
        log.agents, log.contexts, log.context_offsets.astype(np.int64),
        log.records.replace(offsets=log.records.offsets.astype(np.int64)), log.voters,
    )  # fmt: skip
    table = to_arrow(wide)
    assert pa.types.is_large_list(table.schema.field(COLUMN).type)
    assert pa.types.is_large_list(table.schema.field(COLUMN).type.value_type.field("agents").type)
    assert equal_logs(from_arrow(table), log)


@pytest.mark.parametrize("rows", [slice(1, 3), slice(0, 0), slice(2, 3)])
def test_some_rows_of_a_stored_table_are_the_log_of_those_contexts(rows: slice) -> None:
    table = to_arrow(rich())
    assert equal_logs(from_arrow(table.slice(rows.start, rows.stop - rows.start)), rich()[rows])


def test_a_stored_table_in_chunks_is_one_log() -> None:
    table = to_arrow(rich())
    chunked = pa.concat_tables([table[:1], table[1:1], table[1:]])
    assert chunked[COLUMN].num_chunks > 1
    assert equal_logs(from_arrow(chunked), rich())


def test_unknown_times_are_stored_as_nulls() -> None:
    assert to_arrow(rich())[COLUMN].to_pylist()[0][1]["time"] is None
    assert equal_logs(rich(), rich())


# -- tampered with ----------------------------------------------------------------------------------------------------


def described(**changes: Any) -> pa.Table:
    """The stored log with another description."""
    about = json.loads(to_arrow(rich()).schema.metadata[KEY])
    return to_arrow(rich()).replace_schema_metadata({KEY: json.dumps({**about, **changes})})


def raw_description(raw: bytes) -> pa.Table:
    return to_arrow(rich()).replace_schema_metadata({KEY: raw})


def recorded(name: str, values: list[Any] | None, kind: pa.DataType | None = None) -> pa.Table:
    """The stored log with one field of its three records exchanged (None: left out)."""
    table = to_arrow(rich())
    nested = table[COLUMN].combine_chunks()
    columns = {f.name: nested.flatten().field(i) for i, f in enumerate(nested.type.value_type)}
    columns.pop(name)
    if values is not None:
        columns[name] = pa.array(values, kind)
    return with_records(
        pa.ListArray.from_arrays(nested.offsets, pa.StructArray.from_arrays([*columns.values()], [*columns]))
    )


def with_records(column: pa.Array) -> pa.Table:
    table = to_arrow(rich())
    return table.set_column(table.column_names.index(COLUMN), COLUMN, column)


def null_record() -> pa.Table:
    nested = to_arrow(rich())[COLUMN].combine_chunks()
    inner = nested.flatten()
    fields = [inner.field(i) for i in range(inner.type.num_fields)]
    broken = pa.StructArray.from_arrays(fields, fields=list(inner.type), mask=pa.array([False, True, False]))
    return with_records(pa.ListArray.from_arrays(nested.offsets, broken))


def bad_utf8() -> pa.Table:
    bad = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(np.array([0, 1, 1, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    return to_arrow(rich()).append_column("bad", bad)


def out_of_bounds() -> pa.Table:
    offsets = pa.py_buffer(np.array([0, 1_000_000, 2, 3], np.int32))
    inner = to_arrow(rich())[COLUMN].combine_chunks().flatten()
    return with_records(pa.ListArray.from_buffers(pa.list_(inner.type), 3, [None, offsets], children=[inner]))


NOT_A_LOG = "this is not a stored log"
NO_DESCRIPTION = "the description of the stored log is damaged"
TAMPERED: list[tuple[str, Callable[[], pa.Table], str]] = [
    ("another table", lambda: pa.table({"x": [1]}), NOT_A_LOG),
    ("no metadata", lambda: to_arrow(rich()).replace_schema_metadata(None), NOT_A_LOG),
    ("no records", lambda: to_arrow(rich()).drop_columns([COLUMN]), NOT_A_LOG),
    ("no JSON", lambda: raw_description(b"{"), NO_DESCRIPTION),
    ("no UTF-8", lambda: raw_description(b"\xff\xfe\xff"), NO_DESCRIPTION),
    ("a JSON list", lambda: raw_description(b"[1]"), NO_DESCRIPTION),
    ("a JSON null", lambda: raw_description(b"null"), NO_DESCRIPTION),
    ("an empty description", lambda: raw_description(b"{}"), NO_DESCRIPTION),
    ("JSON without end", lambda: raw_description(b"[" * 100_000), NO_DESCRIPTION),
    ("format in words", lambda: described(format="1"), NO_DESCRIPTION),
    ("format 0", lambda: described(format=0), NO_DESCRIPTION),
    ("agents in words", lambda: described(agents="abc"), NO_DESCRIPTION),
    ("agents by number", lambda: described(agents=[1, 2, 3]), NO_DESCRIPTION),
    ("text by number", lambda: described(text=3), NO_DESCRIPTION),
    ("unknown design", lambda: described(design="bandit"), NO_DESCRIPTION),
    ("design in a list", lambda: described(design=["draws"]), NO_DESCRIPTION),
    ("newer format", lambda: described(format=FORMAT + 1),
     f"the log has format {FORMAT + 1}, newer than {FORMAT}; upgrade nasheval to read it"),
    ("an agent too few", lambda: described(agents=["a", "b"]),
     "the stored log is damaged (A record names agent number 2, but there are 2 agents)"),
    ("two agents of one name", lambda: described(agents=["a", "b", "a"]),
     "the stored log is damaged (Two agents have the same name; give each agent a name of its own)"),
    ("text of no column", lambda: described(text="prompt"),
     "the stored log is damaged (The text column 'prompt' is not in the contexts: x, lang)"),
    ("records of numbers", lambda: with_records(pa.array([1, 2, 3])),
     "the stored log is damaged ('_records' holds int64)"),
    ("records of lists of numbers", lambda: with_records(pa.array([[1], [], [2]])),
     "the stored log is damaged ('_records' holds int64)"),
    ("a context with null records", lambda: with_records(pa.nulls(3, to_arrow(rich()).schema.field(COLUMN).type)),
     "the stored log is damaged ('_records' holds a null)"),
    ("a null record", null_record, "the stored log is damaged ('_records' holds a null)"),
    ("agents left out", lambda: recorded("agents", None), "the stored log is damaged ('agents' is missing)"),
    ("blocks left out", lambda: recorded("blocks", None), "the stored log is damaged ('blocks' is missing)"),
    ("zero left out", lambda: recorded("zero", None), "the stored log is damaged ('zero' is missing)"),
    ("agent out of range", lambda: recorded("agents", [[0, 1], [0, 1, 2], [1, 99]]),
     "the stored log is damaged (A record names agent number 99, but there are 3 agents)"),
    ("agent beyond 64 bits", lambda: recorded("agents", [[0, 1], [0, 1, 2], [1, 2**64 - 1]], pa.list_(pa.uint64())),
     "the stored log is damaged (Integer value 18446744073709551615 not in range: 0 to 9223372036854775807)"),
    ("negative agent", lambda: recorded("agents", [[0, 1], [0, 1, 2], [-1, 2]]),
     "the stored log is damaged (Agent numbers start at 0; a negative one was given)"),
    ("half an agent", lambda: recorded("agents", [[0.5, 1], [0, 1, 2], [1, 2]]),
     "the stored log is damaged ('agents' holds double)"),
    ("agents by name", lambda: recorded("agents", [["a", "b"], ["a", "b", "c"], ["b", "c"]]),
     "the stored log is damaged ('agents' holds string)"),
    ("agents not in lists", lambda: recorded("agents", [0, 1, 2]), "the stored log is damaged ('agents' holds int64)"),
    ("null among the agents", lambda: recorded("agents", [[0, None], [0, 1, 2], [1, 2]]),
     "the stored log is damaged ('agents' holds a null)"),
    ("null for a menu", lambda: recorded("agents", [None, [0, 1, 2], [1, 2]]),
     "the stored log is damaged ('agents' holds a null)"),
    ("agent twice", lambda: recorded("agents", [[0, 1], [0, 1, 2], [2, 2]]),
     "the stored log is damaged (Record 2 names an agent more than once; a menu holds it once)"),
    ("menu of one", lambda: recorded("agents", [[0], [0, 1, 2], [1, 2]]),
     "the stored log is damaged ('blocks' and 'agents' differ in length)"),
    ("blocks shifted by one", lambda: recorded("blocks", [[0], [1, 1, 1], [0, 0, 0]]),
     "the stored log is damaged ('blocks' and 'agents' differ in length)"),
    ("negative block", lambda: recorded("blocks", [[-1, 0], [1, 1, 0], [0, 0]]),
     "the stored log is damaged ('blocks' holds a negative number)"),
    ("null among the blocks", lambda: recorded("blocks", [[0, 1], [1, 1, None], [0, 0]]),
     "the stored log is damaged ('blocks' holds a null)"),
    ("shown place too high", lambda: recorded("shown", [[0, 2], [0, 1, 2], [1, 0]]),
     "the stored log is damaged (Record 0 shows its agents at the places 0, 2; accepted are 0 to 1, each once)"),
    ("shown for other menus", lambda: recorded("shown", [[0, 1, 2], [0, 1], [1, 0]]),
     "the stored log is damaged ('shown' and 'agents' differ in length)"),
    ("unknown zero code", lambda: recorded("zero", [1, 5, 1]),
     "the stored log is damaged (The zero code of record 1 is 5; "
     "accepted is 1 (TIE), 2 (BOTH_BAD), 3 (CENSORED) or 4 (LAST))"),
    ("null zero code", lambda: recorded("zero", [1, None, 1]), "the stored log is damaged ('zero' holds a null)"),
    ("propensity 0", lambda: recorded("propensity", [0.5, 0.0, 1.0]),
     "the stored log is damaged (The propensity of record 1 is 0.0; accepted is a probability in (0, 1])"),
    ("null propensity", lambda: recorded("propensity", [0.5, None, 1.0]),
     "the stored log is damaged ('propensity' holds a null)"),
    ("propensity in words", lambda: recorded("propensity", ["a", "b", "c"]),
     "the stored log is damaged ('propensity' holds string)"),
    ("weight NaN", lambda: recorded("weight", [1.0, float("nan"), 1.0]),
     "the stored log is damaged (The weight of record 1 is nan; accepted is a finite number above 0)"),
    ("time as a date", lambda: recorded("time", [1, 2, 3], pa.timestamp("s")),
     "the stored log is damaged ('time' holds timestamp[s])"),
    ("voters by number", lambda: recorded("voter", [1, 2, 3]), "the stored log is damaged ('voter' holds int64)"),
    ("NaN context", lambda: to_arrow(rich()).append_column("y", pa.array([0.0, np.nan, 1.0])),
     "the stored log is damaged (The context column 'y' holds nan in row 1; "
     "accepted are finite numbers, or null where a value is missing)"),
    ("two columns of one name", lambda: to_arrow(rich()).append_column("x", pa.array([0.0, 1.0, 2.0])),
     "the stored log is damaged (contexts: more than one column is named 'x'. Rename or drop all but one of them)"),
    ("text that is no UTF-8", bad_utf8,
     "the stored log is damaged (Column 3: In chunk 0: Invalid: Invalid UTF8 sequence at string index 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "what"), [case[1:] for case in TAMPERED], ids=[case[0] for case in TAMPERED])
def test_a_table_tampered_with_is_refused_in_these_words(make: Callable[[], pa.Table], what: str) -> None:
    with pytest.raises(ValueError) as error:
        from_arrow(make())
    assert str(error.value) == what


def test_offsets_that_point_outside_are_never_followed() -> None:
    with pytest.raises(ValueError, match=r"the stored log is damaged \(Column 2"):
        from_arrow(out_of_bounds())


def test_a_context_column_may_not_take_the_name_of_the_records() -> None:
    log = Feedback.from_partitions(pa.table({COLUMN: [1]}), [A_B])
    with pytest.raises(InputError) as error:
        to_arrow(log)
    assert str(error.value) == (
        "A context column is called '_records', the name under which records are stored; rename it."
    )


ODD = st.sampled_from(
    [None, -1, 0, 7, 2**40, 0.5, float("nan"), float("inf"), "x", b"\xff", True, [], [[]], {}, [None]]
)


@settings(quick, max_examples=80)
@given(st.data())
def test_nothing_but_our_errors_comes_out_of_a_table_with_odd_values(data: st.DataObject) -> None:
    rows = to_arrow(rich()).to_pylist()
    for _ in range(data.draw(st.integers(1, 2))):
        at: Any = data.draw(st.sampled_from(rows))
        while isinstance(at, list | dict) and at:
            key = data.draw(st.sampled_from(range(len(at)) if isinstance(at, list) else sorted(at)))
            if not isinstance(at[key], list | dict) or data.draw(st.integers(0, 3)) == 0:
                at[key] = deepcopy(data.draw(ODD))  # or the next change might put it into itself
                break
            at = at[key]
    try:
        table = pa.Table.from_pylist(rows)
    except (pa.ArrowException, TypeError, OverflowError):  # no table can hold that
        return
    still_works(lambda: from_arrow(table.replace_schema_metadata(to_arrow(rich()).schema.metadata)))


def still_works(read: Callable[[], Feedback]) -> None:
    """Reading either raises one of ours, or gives a log on which everything else works."""
    try:
        log = read()
    except ValueError:
        return
    assert equal_logs(from_arrow(to_arrow(log)), log)
    assert log.pair_counts.votes.sum() == 2 * len(log.verdicts)
    assert repr(log).startswith("Feedback(")
    to_arrow(log).to_pylist()

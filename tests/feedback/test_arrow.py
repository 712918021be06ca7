"""A log on disk: round trips, and files and tables that somebody has tampered with."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError, NashEvalError, ReadError
from nasheval.feedback.arrow import COLUMN, FORMAT, from_arrow
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero, duel, ranking, winner
from nasheval.feedback.records import Records

from .oracle import Plain, Said, build, logs, quick, spelled

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
    again = Feedback.from_arrow(log.to_arrow())
    assert spelled(again) == plain.grouped()
    assert again.equals(log)
    assert (again.n_contexts, again.design) == (log.n_contexts, log.design)


@settings(quick, max_examples=15)
@given(logs())
def test_parquet_gives_back_the_log(tmp_path_factory: pytest.TempPathFactory, plain: Plain) -> None:
    path = tmp_path_factory.mktemp("round") / "log.parquet"
    log = build(plain)
    log.to_parquet(path)
    assert spelled(Feedback.from_parquet(path)) == plain.grouped()
    assert Feedback.from_parquet(str(path)).equals(log)
    assert [file.name for file in path.parent.iterdir()] == ["log.parquet"]


def test_text_and_a_given_design_are_kept(tmp_path: Path) -> None:
    log = Feedback.from_partitions([{"prompt": "hi"}], [A_B], text="prompt", design="inclusion")
    log.to_parquet(tmp_path / "log")
    again = Feedback.from_parquet(tmp_path / "log")
    assert (again.text, again.given_design.name) == ("prompt", "inclusion")
    assert Feedback.from_arrow(rich().to_arrow()).given_design is None


def test_context_columns_keep_their_types(tmp_path: Path) -> None:
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
    log.to_parquet(tmp_path / "log.parquet")
    assert Feedback.from_parquet(tmp_path / "log.parquet").contexts.equals(contexts)


def test_strange_agent_and_voter_names_are_kept(tmp_path: Path) -> None:
    names = ["", " ", "gpt-4\n", "日本", 'quo"te', "\x00"]
    log = Feedback.from_partitions(np.zeros((1, 1)), [[[name] for name in names]], agents=names, voter=["\x00é"])
    log.to_parquet(tmp_path / "log.parquet")
    assert Feedback.from_parquet(tmp_path / "log.parquet").agents == tuple(names)
    assert Feedback.from_parquet(tmp_path / "log.parquet").voters.to_pylist() == ["\x00é"]


def test_a_ranking_of_two_hundred_among_three_hundred_is_kept() -> None:
    order = np.random.default_rng(0).permutation(300)[:200]
    records = Records.build(sizes=np.array([200]), agent=order, rank=np.arange(200), shown=np.arange(200))
    log = Feedback.from_records(records, agents=[f"m{i}" for i in range(300)])
    assert spelled(Feedback.from_arrow(log.to_arrow())) == spelled(log)


def test_the_stored_types_follow_from_what_is_stored() -> None:
    """A log that was cut out of a larger one equals the same log made directly, and so do their round trips."""
    agents = [f"m{i}" for i in range(300)]
    wide = Feedback.from_partitions(
        np.zeros((2, 1)), [[["m0"], ["m1"]], [[name] for name in agents[:200]]], agents=agents
    )
    cut, made = wide[:1], Feedback.from_partitions(np.zeros((1, 1)), [[["m0"], ["m1"]]], agents=agents)
    assert (cut.records.agent.dtype, made.records.agent.dtype) == (np.int16, np.int8)
    assert cut.to_arrow().schema == made.to_arrow().schema
    assert cut.equals(made)
    assert Feedback.from_arrow(cut.to_arrow()).equals(cut)


def test_large_lists_are_read_as_well() -> None:
    log = rich()
    wide = Feedback(
        log.agents, log.contexts, log.context_offsets.astype(np.int64),
        log.records.replace(offsets=log.records.offsets.astype(np.int64)), log.voters,
    )  # fmt: skip
    table = wide.to_arrow()
    assert pa.types.is_large_list(table.schema.field(COLUMN).type)
    assert pa.types.is_large_list(table.schema.field(COLUMN).type.value_type.field("agents").type)
    assert Feedback.from_arrow(table).equals(log)


@pytest.mark.parametrize("rows", [slice(1, 3), slice(0, 0), slice(2, 3)])
def test_some_rows_of_a_stored_table_are_the_log_of_those_contexts(rows: slice) -> None:
    table = rich().to_arrow()
    assert Feedback.from_arrow(table.slice(rows.start, rows.stop - rows.start)).equals(rich()[rows])


def test_a_stored_table_in_chunks_is_one_log() -> None:
    table = rich().to_arrow()
    chunked = pa.concat_tables([table[:1], table[1:1], table[1:]])
    assert chunked[COLUMN].num_chunks > 1
    assert Feedback.from_arrow(chunked).equals(rich())


def test_unknown_times_are_stored_as_nulls() -> None:
    assert rich().to_arrow()[COLUMN].to_pylist()[0][1]["time"] is None
    assert rich().equals(rich())


def test_writing_over_a_log_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.parquet"
    rich().to_parquet(path)

    def break_off(table: pa.Table, where: BinaryIO, **_: Any) -> None:
        where.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", break_off)
    with pytest.raises(OSError, match="disk full"):
        rich()[:1].to_parquet(path)
    assert [file.name for file in tmp_path.iterdir()] == ["log.parquet"]
    assert Feedback.from_parquet(path).equals(rich())


# -- tampered with ----------------------------------------------------------------------------------------------------


def described(**changes: Any) -> pa.Table:
    """The stored log with another description."""
    about = json.loads(rich().to_arrow().schema.metadata[KEY])
    return rich().to_arrow().replace_schema_metadata({KEY: json.dumps({**about, **changes})})


def raw_description(raw: bytes) -> pa.Table:
    return rich().to_arrow().replace_schema_metadata({KEY: raw})


def recorded(name: str, values: list[Any] | None, kind: pa.DataType | None = None) -> pa.Table:
    """The stored log with one field of its three records exchanged (None: left out)."""
    table = rich().to_arrow()
    nested = table[COLUMN].combine_chunks()
    columns = {f.name: nested.flatten().field(i) for i, f in enumerate(nested.type.value_type)}
    columns.pop(name)
    if values is not None:
        columns[name] = pa.array(values, kind)
    return with_records(
        pa.ListArray.from_arrays(nested.offsets, pa.StructArray.from_arrays([*columns.values()], [*columns]))
    )


def with_records(column: pa.Array) -> pa.Table:
    table = rich().to_arrow()
    return table.set_column(table.column_names.index(COLUMN), COLUMN, column)


def null_record() -> pa.Table:
    nested = rich().to_arrow()[COLUMN].combine_chunks()
    inner = nested.flatten()
    fields = [inner.field(i) for i in range(inner.type.num_fields)]
    broken = pa.StructArray.from_arrays(fields, fields=list(inner.type), mask=pa.array([False, True, False]))
    return with_records(pa.ListArray.from_arrays(nested.offsets, broken))


def bad_utf8() -> pa.Table:
    bad = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(np.array([0, 1, 1, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    return rich().to_arrow().append_column("bad", bad)


def out_of_bounds() -> pa.Table:
    offsets = pa.py_buffer(np.array([0, 1_000_000, 2, 3], np.int32))
    inner = rich().to_arrow()[COLUMN].combine_chunks().flatten()
    return with_records(pa.ListArray.from_buffers(pa.list_(inner.type), 3, [None, offsets], children=[inner]))


NOT_A_LOG = "this is not a log written by Feedback.to_arrow or to_parquet"
NO_DESCRIPTION = "the description of the stored log is damaged"
TAMPERED: list[tuple[str, Callable[[], pa.Table], str]] = [
    ("another table", lambda: pa.table({"x": [1]}), NOT_A_LOG),
    ("no metadata", lambda: rich().to_arrow().replace_schema_metadata(None), NOT_A_LOG),
    ("no records", lambda: rich().to_arrow().drop_columns([COLUMN]), NOT_A_LOG),
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
    ("newer format", lambda: described(format=FORMAT + 1), f"the log has format {FORMAT + 1}, newer than {FORMAT}"),
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
    ("a context with null records", lambda: with_records(pa.nulls(3, rich().to_arrow().schema.field(COLUMN).type)),
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
    ("NaN context", lambda: rich().to_arrow().append_column("y", pa.array([0.0, np.nan, 1.0])),
     "the stored log is damaged (The context column 'y' holds nan in row 1; "
     "accepted are finite numbers, or null where a value is missing)"),
    ("two columns of one name", lambda: rich().to_arrow().append_column("x", pa.array([0.0, 1.0, 2.0])),
     "the stored log is damaged (contexts: more than one column is named 'x'. Rename or drop all but one of them)"),
    ("text that is no UTF-8", bad_utf8,
     "the stored log is damaged (Column 3: In chunk 0: Invalid: Invalid UTF8 sequence at string index 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "what"), [case[1:] for case in TAMPERED], ids=[case[0] for case in TAMPERED])
def test_a_table_tampered_with_is_refused_in_these_words(make: Callable[[], pa.Table], what: str) -> None:
    with pytest.raises(ReadError) as error:
        from_arrow(make(), Feedback.from_records, source="log.parquet")
    assert error.value.what == what
    assert str(error.value).startswith(f"log.parquet: {what}.\n")
    assert "  To do: " in str(error.value)


def test_the_whole_message_of_a_damaged_log() -> None:
    with pytest.raises(ReadError) as error:
        Feedback.from_arrow(recorded("agents", None))
    assert str(error.value) == (
        "the Arrow table: the stored log is damaged ('agents' is missing).\n"
        "  Accepted: what Feedback.to_arrow or to_parquet wrote.\n"
        "  To do: write the log again from its source."
    )


def test_offsets_that_point_outside_are_never_followed() -> None:
    with pytest.raises(ReadError, match=r"the stored log is damaged \(Column 2"):
        Feedback.from_arrow(out_of_bounds())


def test_a_context_column_may_not_take_the_name_of_the_records() -> None:
    log = Feedback.from_partitions(pa.table({COLUMN: [1]}), [A_B])
    with pytest.raises(InputError) as error:
        log.to_arrow()
    assert str(error.value) == (
        "A context column is called '_records', the name under which records are stored; rename it."
    )


ODD = st.sampled_from(
    [None, -1, 0, 7, 2**40, 0.5, float("nan"), float("inf"), "x", b"\xff", True, [], [[]], {}, [None]]
)


@settings(quick, max_examples=80)
@given(st.data())
def test_nothing_but_our_errors_comes_out_of_a_table_with_odd_values(data: st.DataObject) -> None:
    rows = rich().to_arrow().to_pylist()
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
    still_works(lambda: Feedback.from_arrow(table.replace_schema_metadata(rich().to_arrow().schema.metadata)))


@settings(quick, max_examples=150)
@given(st.data())
def test_nothing_but_our_errors_comes_out_of_a_file_with_odd_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(stored(tmp_path_factory))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["set", "set", "cut out", "truncate", "insert"]))
        if kind == "set":
            raw[place] = data.draw(st.integers(0, 255))
        elif kind == "cut out":
            del raw[place : place + data.draw(st.integers(1, 9))]
        elif kind == "insert":
            raw[place:place] = data.draw(st.binary(min_size=1, max_size=9))
        else:
            del raw[place:]
        raw = raw or bytearray(b"\x00")
    path = tmp_path_factory.getbasetemp() / "odd.parquet"
    path.write_bytes(raw)
    still_works(lambda: Feedback.from_parquet(path))


def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.getbasetemp() / "whole.parquet"
    if not path.exists():
        rich().to_parquet(path)
    return path.read_bytes()


def still_works(read: Callable[[], Feedback]) -> None:
    """Reading either raises one of ours, or gives a log on which everything else works."""
    try:
        log = read()
    except NashEvalError:
        return
    assert Feedback.from_arrow(log.to_arrow()).equals(log)
    assert log.pair_counts.votes.sum() == 2 * len(log.verdicts)
    assert repr(log).startswith("Feedback(")
    log.to_arrow().to_pylist()


def test_a_flipped_bit_never_changes_a_vote_unnoticed(tmp_path: Path) -> None:
    answers = [duel("a", "b", "a"), ranking("abc"), winner("c", "abc")] * 40
    log = Feedback.from_partitions(np.random.default_rng(0).normal(size=(120, 1)), answers)
    path = tmp_path / "log.parquet"
    log.to_parquet(path)
    raw, columns = path.read_bytes(), pq.read_metadata(path).row_group(0)
    end = 4 + sum(columns.column(i).total_compressed_size for i in range(columns.num_columns))
    refused = 0
    for place in range(4, end, 23):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :])
        try:
            assert Feedback.from_parquet(path).equals(log)  # a bit of a page's header that nobody needs
        except ReadError:
            refused += 1
    assert refused > 20


@pytest.mark.parametrize(
    ("name", "content"),
    [("missing", None), ("empty", b""), ("words", b"agent,winner\na,b\n"), ("magic", b"PAR1PAR1")],
)
def test_what_is_no_parquet_file_is_refused_by_name(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ReadError) as error:
        Feedback.from_parquet(path)
    first, todo = str(error.value).split("\n")
    assert first.startswith(f"{path}: this is not a readable Parquet file (")
    assert todo == "  To do: check the path, or write the log again with Feedback.to_parquet."


def test_a_column_name_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    Feedback.from_partitions(pa.table({"a_column": [1]}), [A_B]).to_parquet(path)
    path.write_bytes(path.read_bytes().replace(b"a_column", b"\xff_column"))
    with pytest.raises(ReadError, match="this is not a readable Parquet file"):
        Feedback.from_parquet(path)


def test_a_folder_is_not_a_log(tmp_path: Path) -> None:
    """The files of a folder may number their agents differently, so they are never read as one."""
    rich().to_parquet(tmp_path / "1.parquet")
    rich().keep_agents(["c", "b"]).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(ReadError, match="is a directory"):
        Feedback.from_parquet(tmp_path)


def test_a_plain_parquet_file_is_not_a_log(tmp_path: Path) -> None:
    pq.write_table(pa.table({"model_a": ["a"]}), tmp_path / "votes.parquet")
    with pytest.raises(ReadError) as error:
        Feedback.from_parquet(tmp_path / "votes.parquet")
    assert str(error.value) == (
        f"{tmp_path / 'votes.parquet'}: this is not a log written by Feedback.to_arrow or to_parquet.\n"
        "  To do: read votes with ne.read_votes, rankings with ne.read_rankings, scores with ne.read_scores."
    )

"""Whatever a reader is given, it returns a sound log or raises a `NashEvalError`: nothing else escapes.

Set NASHEVAL_FUZZ to run every test on that many examples.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather

from nasheval.errors import NashEvalError
from nasheval.feedback.arrow import from_arrow, to_arrow
from nasheval.feedback.readers import preflib
from nasheval.feedback.readers.rankings import read_rankings
from nasheval.feedback.readers.scores import read_scores
from nasheval.feedback.readers.votes import read_votes
from nasheval.feedback.records import Records
from tests.feedback.oracle import equal_logs


def examples(number):
    return settings(
        max_examples=int(os.environ.get("NASHEVAL_FUZZ", number)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    )


@pytest.fixture(autouse=True)
def small_elections(monkeypatch):
    monkeypatch.setattr(preflib, "_MOST", 2000)  # a count of fifty million is legal, and slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def survives(read, *args, **options):
    """Read, let a NashEvalError pass, and check what was accepted."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            log = read(*args, **options)
    except NashEvalError:
        return None
    assert_sound(log)
    return log


def assert_sound(log):
    records, report = log.records, log.report
    assert len(set(log.agents)) == log.n_agents >= 2
    assert all(name == name.strip() != "" for name in log.agents)
    assert log.n_records == len(records) > 0
    assert int(records.agent.min()) >= 0
    assert int(records.agent.max()) < log.n_agents
    assert log.contexts.num_rows == log.n_contexts or not log.contexts.num_columns
    assert log.context_offsets[-1] == log.n_records
    assert 0 < report.used <= report.rows
    again = Records.build(
        sizes=records.sizes, agent=records.agent, rank=records.block, zero=records.zero, shown=records.shown,
        propensity=records.propensity, weight=records.weight, voter=records.voter, time=records.time,
    )  # fmt: skip
    assert again.block.tolist() == records.block.tolist()
    assert equal_logs(from_arrow(to_arrow(log)), log)
    json.dumps(log.coverage().to_dict(), allow_nan=False)


# -- bytes in files ---------------------------------------------------------------------------------------------------

TABLES = (".csv", ".tsv", ".csv.gz", ".parquet", ".jsonl", ".json", ".jsonl.gz", ".feather", ".arrow")
ELECTIONS = (".soc", ".soi", ".toc", ".toi")

scraps = st.lists(
    st.sampled_from(
        ["model_a", "model_b", "winner", "x", "y", "tie", "model_a,model_b,winner\n", '{"model_a":"x","model_b":"y",',
         '"winner":"tie"}', "\n", "\r\n", ",", "\t", '"', "{", "}", "[", "]", ":", "null", "1e999", "NaN", "\ufeff",
         "\0", "é", "\u2028", "\\ud800", "# ALTERNATIVE NAME 1: x\n", "# ALTERNATIVE NAME 2: y\n", "3: 1,2\n",
         "1: {1,2}", "12", "# NUMBER VOTERS: 3\n"]
    )
    | st.text(max_size=4),
    max_size=30,
).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))  # fmt: skip
contents = st.binary(max_size=200) | scraps


@examples(80)
@given(contents, st.sampled_from(TABLES), st.booleans(), st.sampled_from(["raise", "skip"]))
def test_any_bytes_in_a_table(folder, content, ending, compressed, on_error):
    path = folder / f"bytes{ending}"
    path.write_bytes(gzip.compress(content) if compressed and ending.endswith(".gz") else content)
    survives(read_votes, path, on_error=on_error)


@examples(60)
@given(contents, st.sampled_from(ELECTIONS), st.sampled_from(["last", "absent"]))
def test_any_bytes_in_an_election(folder, content, ending, unranked):
    path = folder / f"bytes{ending}"
    path.write_bytes(content)
    survives(read_rankings, path, unranked=unranked)


# -- whole files with something broken --------------------------------------------------------------------------------

VOTES = pa.table(
    {
        "model_a": ["x", "y", "z", "x"] * 3,
        "model_b": ["y", "z", "x", "z"] * 3,
        "winner": ["model_a", "model_b", "tie", "both_bad"] * 3,
        "prompt": ["p", None, "q, r", "p"] * 3,
        "n": [1.5, 2.0, None, 1.5] * 3,
        "tags": [{"math": True}, None, {"math": False}, {"math": None}] * 3,
        "talk": [[{"role": "user", "content": "hi"}], [], None, [{"role": "system", "content": None}]] * 3,
        "when": pa.array([1, 2, None, 4] * 3, pa.timestamp("us")),
    }
).rename_columns(["model_a", "model_b", "winner", "prompt", "n", "category_tag", "talk", "when"])
ROLES = {"context": ["n", "math"], "time": "when", "on_error": "skip"}
PLAIN = VOTES.select(["model_a", "model_b", "winner", "prompt", "n", "when"])


def written(write):
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def lines(table):
    return "\n".join(json.dumps(row, default=str) for row in table.to_pylist()).encode()


def bare(table):
    return lambda out: feather.write_feather(table, out, compression="uncompressed")


WHOLE = {
    ".csv": written(lambda out: pa_csv.write_csv(PLAIN, out)),
    ".csv.gz": gzip.compress(written(lambda out: pa_csv.write_csv(PLAIN, out)), mtime=0),
    ".jsonl": lines(VOTES),
    ".json": json.dumps(VOTES.to_pylist(), default=str).encode(),
    ".parquet": written(lambda out: pq.write_table(VOTES, out, compression="none")),
    ".pq": written(lambda out: pq.write_table(VOTES, out, row_group_size=5)),
    ".feather": written(bare(VOTES)),
    ".arrow": written(lambda out: feather.write_feather(VOTES, out)),
}
ELECTION = b"# ALTERNATIVE NAME 1: x\n# ALTERNATIVE NAME 2: y\n# ALTERNATIVE NAME 3: z\n2: 1,{2,3}\n1: 2,1\n1: 3\n"


@st.composite
def broken(draw, whole):
    """Cut, repeat, overwrite or insert a few bytes."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(len(content) - 1, 0)))
        size = draw(st.sampled_from([1, 1, 1, 2, 4, 8, 30, 10_000]))
        match draw(st.integers(0, 3)):
            case 0:
                del content[start : start + size]
            case 1:
                content[start:start] = content[start : start + size]
            case 2:
                content[start : start + 1] = draw(st.binary(min_size=1, max_size=4))
            case _:
                content[start:start] = draw(st.binary(max_size=4) | scraps)
    return bytes(content)


@pytest.mark.parametrize("ending", WHOLE)
def test_the_whole_files_are_sound(folder, ending):
    path = folder / f"whole{ending}"
    path.write_bytes(WHOLE[ending])
    roles = ROLES if ending not in (".csv", ".csv.gz") else {**ROLES, "context": ["n"]}
    assert survives(read_votes, path, text="prompt", **roles).n_records == 12


@pytest.mark.parametrize("ending", WHOLE)
@examples(25)
@given(data=st.data())
def test_a_broken_table(folder, ending, data):
    path = folder / f"broken{ending}"
    path.write_bytes(data.draw(broken(WHOLE[ending])))
    text = data.draw(st.sampled_from([None, "prompt", "talk"]))
    roles = ROLES if data.draw(st.booleans()) else {"on_error": "skip"}
    survives(read_votes, path, text=text, **roles)


@examples(60)
@given(broken(ELECTION), st.sampled_from(ELECTIONS), st.sampled_from(["last", "absent"]))
def test_a_broken_election(folder, content, ending, unranked):
    path = folder / f"broken{ending}"
    path.write_bytes(content)
    survives(read_rankings, path, unranked=unranked)


# -- tables with anything in their columns ----------------------------------------------------------------------------

names = st.sampled_from(["x", "y", "z", " x", "", "tie", "model_a", "A"])
numbers = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, 0.5, 1.0, 2.0])
message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system", None]), "content": st.none() | st.text(max_size=3)}
)
part = st.fixed_dictionaries({"type": st.just("text"), "text": st.none() | st.text(max_size=3)})
said_in_parts = st.fixed_dictionaries({"role": st.just("user"), "content": st.none() | st.lists(part, max_size=2)})


def column_of(kind, values):
    return st.lists(st.none() | values, min_size=4, max_size=4).map(lambda some: pa.array(some, kind))


def ticks(kind):
    return column_of(pa.int64(), st.integers(-(2**62), 2**62)).map(lambda array: array.cast(kind))


def in_days(array):
    return pc.multiply(array, 86_400_000).cast(pa.date64())


def coded(column):
    return column.map(lambda array: array.dictionary_encode())


messages = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
in_parts = pa.list_(
    pa.struct([("role", pa.string()), ("content", pa.list_(pa.struct([("type", pa.string()), ("text", pa.string())])))])
)
KINDS = pa.array([0, 1, 0, 1], pa.int8())
SPARSE = pa.UnionArray.from_sparse(KINDS, [pa.array([1, 2, 3, 4]), pa.array(["x", "y", "z", "w"])])
DENSE = pa.UnionArray.from_dense(KINDS, pa.array([0, 0, 1, 1], pa.int32()), [pa.array([1, 2]), pa.array(["x", "y"])])
COLUMNS = [
    column_of(pa.string(), names),
    column_of(pa.string(), st.sampled_from(["model_a", "model_b", "tie", "both_bad", "?", "1", "x", "y"])),
    column_of(pa.string(), st.text(max_size=4).filter(lambda text: text.isascii() or text.isprintable())),
    column_of(pa.large_string(), names),
    column_of(pa.string_view(), names),
    coded(column_of(pa.string(), names)),
    coded(column_of(pa.float64(), numbers)),
    column_of(pa.int64(), st.integers(-3, 3)),
    column_of(pa.int8(), st.integers(0, 2)),
    column_of(pa.uint64(), st.integers(0, 2**64 - 1)),
    column_of(pa.float64(), numbers),
    column_of(pa.float32(), st.floats(width=32)),
    column_of(pa.float16(), st.sampled_from([0.5, 1.0, float("nan")]).map(np.float16)),
    column_of(pa.bool_(), st.booleans()),
    column_of(pa.decimal128(5, 2), st.sampled_from([Decimal("0.5"), Decimal("1.00"), Decimal("-2")])),
    column_of(pa.binary(), st.binary(max_size=3)),
    column_of(pa.binary(2), st.binary(min_size=2, max_size=2)),
    column_of(pa.large_binary(), st.binary(max_size=3)),
    *(ticks(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    ticks(pa.timestamp("us", "Asia/Tokyo")),
    ticks(pa.duration("us")),
    column_of(pa.int32(), st.integers(-(2**31), 2**31 - 1)).map(lambda days: days.cast(pa.date32())),
    column_of(pa.int64(), st.integers(-(2**36), 2**36)).map(in_days),
    column_of(pa.time64("us"), st.times()),
    column_of(pa.list_(pa.int64()), st.lists(st.integers(0, 3), max_size=2)),
    column_of(pa.list_(pa.string()), st.lists(names, max_size=2)),
    column_of(pa.list_(pa.float64(), 1), st.lists(st.floats(), min_size=1, max_size=1)),
    column_of(pa.struct([("math", pa.bool_())]), st.fixed_dictionaries({"math": st.booleans()})),
    column_of(messages, st.lists(message, max_size=2)),
    column_of(in_parts, st.lists(said_in_parts, max_size=2)),
    column_of(pa.map_(pa.string(), pa.int64()), st.dictionaries(names, st.integers(0, 3), max_size=2)),
    st.just(pa.nulls(4)),
    st.just(pc.run_end_encode(pa.array([1, 1, 2, 2]))),
    st.just(pc.run_end_encode(pa.array(["x", "x", None, "y"]))),
    column_of(pa.list_view(pa.string()), st.lists(names, max_size=2)),
    column_of(pa.json_(), st.sampled_from(["1", '"x"', "{}"])),
    column_of(pa.uuid(), st.binary(min_size=16, max_size=16)),
    column_of(pa.month_day_nano_interval(), st.tuples(*[st.integers(-9, 9)] * 3)),
    st.just(SPARSE),
    st.just(DENSE),
]  # fmt: skip
anything = st.one_of(COLUMNS)
on_error = st.sampled_from(["raise", "skip"])


def sure(*values):
    return st.lists(st.sampled_from(values), min_size=4, max_size=4).map(pa.array)


LIKELY = {
    "model_a": sure("x", "y"),
    "model_b": sure("z", "w", "y"),
    "winner": sure("model_a", "model_b", "tie", "both_bad"),
    "key": sure("x", "y", "z", "w") | st.just(pa.array(["x", "y", "z", "w"])),
    "ballot": st.just(pa.array([1, 1, 2, 2])),
    "agent": st.just(pa.array(["x", "y", "x", "z"])),
    "rank": sure(1, 2, 2.5),
    "number": sure(0.5, 1.0, 0.25),
    "best": sure("x", "y"),
    "second": sure("z", "w"),
}


@st.composite
def tables(draw, *expected, extra=()):
    """A table with the expected columns, most of which hold what they should, and columns with anything at all."""
    odd = draw(st.sets(st.sampled_from([*expected, "none"]), max_size=2))
    columns = {name: draw(anything if name in odd else LIKELY[name]) for name in expected}
    return pa.table(columns | {name: draw(anything) for name in extra})


def role(*columns):
    return st.none() | st.sampled_from(columns)


@examples(120)
@given(
    tables("model_a", "model_b", "winner", extra=("p", "q", "category_tag")),
    st.fixed_dictionaries(
        {
            "context": st.lists(st.sampled_from(["p", "q", "category_tag", "math"]), max_size=2),
            "text": role("p", "q", "auto"),
            "categorical": role("p", "q"),
            "on_error": on_error,
            "average_repeats": st.booleans(),
        }
        | dict.fromkeys(("context_id", "voter", "time", "propensity", "weight"), role("p", "q"))
    ),
)
def test_any_table_of_votes(table, options):
    survives(read_votes, table, **options)


@examples(50)
@given(
    tables("model_a", "model_b", "winner", extra=("key", "p")),
    tables("key", extra=("c", "d")),
    st.sampled_from([["c"], ["d"], ["c", "d"]]),
    on_error,
)
def test_any_join(table, other, context, on_error):
    survives(read_votes, table, join=(other, "key"), context=context, on_error=on_error)


@examples(60)
@given(st.data())
def test_any_file_of_the_releases(data):
    """The columns of each release, every one of them holding anything."""
    marks = data.draw(
        st.sampled_from(
            [("conversation_a", "evaluation_session_id", "timestamp", "language", "is_code", "category_tag"),
             ("conversation_a", "question_id", "judge_hash", "tstamp", "language"),
             ("conversation_a", "question_id", "judge", "tstamp", "language"),
             ("prompt", "response_a", "winner_model_a", "winner_model_b", "winner_tie")]
        )
    )  # fmt: skip
    table = data.draw(tables("model_a", "model_b", "winner", extra=marks))
    survives(read_votes, table, on_error=data.draw(on_error))


@examples(60)
@given(tables("ballot", "agent", "rank", extra=("p", "q")), role("p", "q"), role("p", "q"), role("p", "q"), on_error)
def test_any_long_table_of_rankings(table, voter, weight, context, on_error):
    survives(
        read_rankings,
        table,
        ballot="ballot",
        voter=voter,
        weight=weight,
        context=context and [context],
        on_error=on_error,
    )


@examples(40)
@given(tables("rank", "number", extra=("r",)), on_error)
def test_any_table_of_ranks(table, on_error):
    survives(read_rankings, table, agents=["rank", "number", "r"], on_error=on_error)


@examples(40)
@given(tables("best", "second", extra=("r",)), on_error, role("r"))
def test_any_table_of_names_in_order(table, on_error, context_id):
    survives(read_rankings, table, order=["best", "second", "r"], on_error=on_error, context_id=context_id)


@examples(60)
@given(
    tables("rank", "number", extra=("r", "s")),
    st.integers(-1, 4) | st.none(),
    st.sampled_from([["rank", "number"], ["rank", "number", "r"], {"u": ["rank", "r"], "v": ["number", "rank"]}]),
    role("s"),
    on_error,
)
def test_any_table_of_scores(table, pairs, agents, context, on_error):
    context = context and [context]
    survives(read_scores, table, agents=agents, pairs_per_context=pairs, context=context, on_error=on_error)


# -- labels and arguments ---------------------------------------------------------------------------------------------

label = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3) | st.sampled_from(["x", "tie"])
)
meaning = st.sampled_from(["a", "b", "tie", "both_bad", "drop"])


@examples(60)
@given(
    st.lists(st.sampled_from(["x", "y", "tie", "1", "-1", "nan", "True"]) | st.text(max_size=3), min_size=1),
    st.dictionaries(label, meaning | label, max_size=4) | st.lists(label) | label,
    on_error,
)  # fmt: skip
def test_any_labels(winners, labels, on_error):
    winners = [winner.encode("utf-8", "replace").decode() for winner in winners]
    table = pa.table({"model_a": ["x"] * len(winners), "model_b": ["y"] * len(winners), "winner": winners})
    log = survives(read_votes, table, labels=labels, on_error=on_error)
    if log is not None:
        assert sum(count for _, count in log.report.labels.values()) == len(winners)
        dropped = sum(log.report.dropped.values())
        assert log.n_records + dropped + sum(p.total for p in log.report.problems) >= len(winners)


words = st.text(st.characters(exclude_characters="/.~"), max_size=3)  # no path out of the working folder
argument = st.none() | st.integers() | words | st.lists(words | st.integers(), max_size=3)


@examples(30)
@given(
    st.dictionaries(
        st.sampled_from(["context", "categorical", "agents", "join", "on_error", "labels", "design"]), argument
    )
)
def test_any_arguments(here, options):
    survives(read_votes, VOTES, **options)


@examples(30)
@given(argument | st.binary(max_size=3) | st.floats() | st.dictionaries(st.text(max_size=3), st.lists(st.integers())))
def test_anything_as_a_source(here, source):
    for read, options in ((read_votes, {}), (read_rankings, {"ballot": "x"}), (read_scores, {"agents": ["x", "y"]})):
        survives(read, source, **options)

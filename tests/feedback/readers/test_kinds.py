"""A few others in a column of numbers: in a file without types they are errors, not a change of type."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError, ReadError
from nasheval.feedback.readers.rankings import read_rankings
from nasheval.feedback.readers.scores import read_scores
from nasheval.feedback.readers.votes import read_votes


def votes(folder, values, name="votes.csv"):
    lines = [f"x,y,tie,{value}" for value in values]
    (folder / name).write_text("\n".join(["model_a,model_b,winner,n", *lines]) + "\n")
    return name


def column(log):
    return log.contexts["n"]


def test_one_typo_in_a_column_of_numbers_is_named(here):
    votes(here, [*range(9_999), "12x"])
    with pytest.raises(ReadError) as error:
        read_votes("votes.csv", context=["n"])
    assert str(error.value) == (
        "votes.csv, column 'n', row 10000: found '12x' in a column of numbers.\n"
        "  Accepted: numbers, as in at least 90% of the rows, or nothing where a value is missing.\n"
        "  To do: correct the value, or name the column in categorical= if it holds categories, or pass "
        "on_error='skip' to leave such rows out."
    )


def test_one_typo_among_truth_values_is_named(here):
    votes(here, ["true", "FALSE", "False"] * 5 + ["flase"])
    with pytest.raises(ReadError, match=r"'n', row 16: found 'flase' in a column of true and false\."):
        read_votes("votes.csv", context=["n"])
    log = read_votes("votes.csv", context=["n"], on_error="skip")
    assert column(log).to_pylist() == [True, False, False] * 5


def test_skipping_the_typo_leaves_numbers(here, capsys):
    votes(here, [*range(19), "12x"])
    log = read_votes("votes.csv", context=["n"], on_error="skip")
    assert (column(log).type, column(log).to_pylist()) == (pa.int64(), [*range(19)])
    assert capsys.readouterr().err == "skipped: votes.csv, column 'n', row 20: found '12x' in a column of numbers.\n"
    votes(here, ["+1.5", *range(17), "", "NA", "?"])
    log = read_votes("votes.csv", context=["n"], on_error="skip")
    assert (column(log).type, column(log).to_pylist()) == (pa.float64(), [1.5, *range(17), None, None])


def test_categorical_columns_are_text_whatever_they_look_like(here):
    votes(here, [*range(19), "12x"])
    log = read_votes("votes.csv", context=["n"], categorical=["n"])
    assert column(log).to_pylist() == [*map(str, range(19)), "12x"]
    votes(here, ["007", "7", ""])
    assert column(read_votes("votes.csv", context="n", categorical="n")).to_pylist() == ["007", "7", None]


def test_categorical_reaches_every_format_and_reader(here):
    table = pa.table({"id": [1, 1, 2, 2], "agent": ["x", "y"] * 2, "rank": [1, 2, 2, 1], "n": [3, 3, None, None]})
    pq.write_table(table, "r.parquet")
    log = read_rankings("r.parquet", ballot="id", context=["n"], categorical=["n"])
    assert column(log).to_pylist() == ["3", None]
    scores = pa.table({"x": [1.0, 0.0], "y": [0.0, 1.0], "n": [True, False]})
    assert column(read_scores(scores, agents=["x", "y"], context=["n"], categorical="n")).to_pylist() == [
        "true",
        "false",
    ]


def test_categorical_names_context_columns(here):
    votes(here, [1, 2])
    with pytest.raises(InputError) as error:
        read_votes("votes.csv", context=["n"], categorical=["winner"])
    assert str(error.value) == (
        "categorical= names 'winner', which is no context column; accepted are those of context=, 'n'."
    )
    with pytest.raises(InputError, match="A PrefLib file has no columns, so categorical= cannot be used with it"):
        read_rankings("e.soc", categorical=["n"])


def test_a_typo_in_a_joined_file_names_that_file(here):
    table = pa.table({"model_a": ["x"] * 20, "model_b": ["y"] * 20, "winner": ["tie"] * 20, "q": range(20)})
    (here / "q.csv").write_text("q,n\n" + "".join(f"{i},{'1O' if i == 7 else i}\n" for i in range(20)))
    with pytest.raises(ReadError) as error:
        read_votes(table, join=("q.csv", "q"), context=["n"])
    assert str(error.value).startswith("the table, column 'n', row 8: found '1O' in a column of numbers of q.csv.")
    log = read_votes(table, join=("q.csv", "q"), context=["n"], categorical=["n"])
    assert column(log)[7].as_py() == "1O"


@pytest.mark.parametrize("role", ["voter", "context_id"])
@pytest.mark.parametrize("strange", ["19", "x19"])
def test_ids_are_text_and_stay_so(here, role, strange):
    votes(here, [*range(19), strange])
    log = read_votes("votes.csv", context=["n"], **{role: "n"})
    assert column(log).to_pylist() == [*map(str, range(19)), strange]


def test_names_of_agents_are_text_and_stay_so(here):
    lines = [f"{i},y,tie" for i in [*range(19), "x"]]
    (here / "votes.csv").write_text("\n".join(["model_a,model_b,winner", *lines]) + "\n")
    assert read_votes("votes.csv").agents == tuple(sorted([*map(str, range(19)), "x", "y"]))


def test_a_file_with_types_is_believed(here):
    table = pa.table({"model_a": ["x"] * 20, "model_b": ["y"] * 20, "winner": ["tie"] * 20, "n": ["1"] * 19 + ["?"]})
    pq.write_table(table, "v.parquet")
    for source in ("v.parquet", table):
        assert column(read_votes(source, context=["n"])).to_pylist() == ["1"] * 19 + ["?"]
    pa_csv.write_csv(table, "v.csv")
    with pytest.raises(ReadError, match="row 20: found '\\?' in a column of numbers"):
        read_votes("v.csv", context=["n"])


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(-5, 5).map(str) | st.sampled_from(["1.5", "2e3"]), max_size=30),
    st.lists(st.sampled_from(["a", "b", "12x", "1;2", "é"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["", "NA", "nan"]), max_size=3),
    st.randoms(use_true_random=False),
)
def test_nine_in_ten_make_it_a_column_of_numbers(here, numbers, others, missing, order):
    values = [*numbers, *others, *missing]
    order.shuffle(values)
    votes(here, values)
    if len(numbers) >= 9 * len(others):
        with pytest.raises(ReadError) as error:
            read_votes("votes.csv", context=["n"])
        rows = [place for place, value in enumerate(values, start=1) if value in others]
        assert (error.value.rows, error.value.total) == (tuple(rows[:5]), len(rows))
        log = read_votes("votes.csv", context=["n"], on_error="skip")
        left = [None if value in missing else float(value) for value in values if value not in others]
        assert column(log).to_pylist() == left
    else:
        assert column(read_votes("votes.csv", context=["n"])).to_pylist() == [value or None for value in values]

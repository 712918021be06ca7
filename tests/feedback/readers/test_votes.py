"""`read_votes`: which column is what, and what becomes of a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nasheval.errors import InputError, ReadError
from nasheval.feedback.readers.votes import read_votes
from tests.feedback.oracle import equal_logs


def battles(*rows, **more):
    first, second, winner = zip(*rows, strict=True)
    return pa.table({"model_a": first, "model_b": second, "winner": winner, **more})


THREE = (("x", "y", "model_a"), ("y", "z", "tie"), ("z", "x", "model_b"))


def test_plain_battles():
    log = read_votes(battles(*THREE))
    assert log.report.kind == "battles: model_a, model_b, winner"
    assert log.report.roles == {"model_a": "model_a", "model_b": "model_b", "winner": "winner"}
    assert log.pair_counts.wins.tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert log.pair_counts.ties.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert (log.n_contexts, log.contexts.num_columns, log.text) == (3, 0, None)


def test_left_and_right():
    table = battles(*THREE).rename_columns(["left", "right", "winner"])
    assert equal_logs(read_votes(table), read_votes(battles(*THREE)))
    assert read_votes(table).report.kind == "battles: left, right, winner"


def test_columns_given_by_name():
    table = battles(*THREE).rename_columns(["one", "two", "who"])
    log = read_votes(table, model_a="one", model_b="two", winner="who")
    assert equal_logs(log, read_votes(battles(*THREE)))
    assert log.report.kind == "votes, columns as given"


def test_one_column_given_by_name_the_others_as_usual():
    table = battles(*THREE).append_column("verdict", pa.array(["tie"] * 3))
    assert read_votes(table, winner="verdict").pair_counts.ties.sum() == 6


def test_the_two_sides_may_be_swapped_by_name():
    swapped = read_votes(battles(("x", "y", "model_a")), model_a="model_b", model_b="model_a")
    assert swapped.pair_counts.wins.tolist() == [[0, 0], [1, 0]]


def test_the_order_shown_is_recorded():
    log = read_votes(battles(("x", "y", "tie"), ("y", "x", "tie")))
    assert log.records.shown.tolist() == [0, 1, 1, 0]


def test_spaces_around_names_make_no_new_agent():
    log = read_votes(battles((" x", "y ", "model_a"), ("x", "y", " x ")))
    assert log.agents == ("x", "y")
    assert log.pair_counts.wins[0, 1] == 2


def test_numbers_may_name_agents():
    table = pa.table({"model_a": [1, 2], "model_b": [2, 10], "winner": ["model_a", "10"]})
    log = read_votes(table)
    assert log.agents == ("1", "10", "2")
    assert log.pair_counts.wins.tolist() == [[0, 0, 1], [0, 0, 1], [0, 0, 0]]


# -- agents= ----------------------------------------------------------------------------------------------------------


def test_agents_keeps_the_votes_among_them_in_the_order_given():
    log = read_votes(battles(*THREE), agents=["z", "x"])
    assert log.agents == ("z", "x")
    assert (log.n_records, log.report.dropped) == (1, {"an agent not in agents=": 2})
    assert log.pair_counts.wins.tolist() == [[0, 0], [1, 0]]


def test_bad_rows_about_other_agents_do_not_matter():
    table = battles(("x", "y", "model_a"), ("z", "x", "?"), ("z", "z", "tie"))
    assert read_votes(table, agents=["x", "y"]).n_records == 1


def test_agents_as_one_string_is_refused():
    with pytest.raises(InputError, match="agents is 'xy'; accepted is a list of names"):
        read_votes(battles(*THREE), agents="xy")


def test_a_single_agent_is_refused():
    with pytest.raises(InputError, match="agents= names 'x'; a comparison needs two or more different ones"):
        read_votes(battles(*THREE), agents=["x", "x"])


# -- voter, time, propensity, weight ----------------------------------------------------------------------------------


def test_voter_time_propensity_and_weight():
    table = battles(*THREE, who=[7, None, 7], at=[3.0, None, 1.0], e=[1, 0.5, 1e-9], w=["2", " 0.5 ", "+1e1"])
    log = read_votes(table, voter="who", time="at", propensity="e", weight="w")
    assert (log.voters.to_pylist(), log.records.voter.tolist()) == (["7"], [0, -1, 0])
    np.testing.assert_array_equal(log.records.time, [3.0, np.nan, 1.0])
    assert log.records.propensity.tolist() == [1, 0.5, 1e-9]
    assert log.records.weight.tolist() == [2, 0.5, 10]


def test_none_of_them_where_none_is_named():
    records = read_votes(battles(*THREE, w=[1, 2, 3])).records
    assert (records.voter, records.time, records.propensity, records.weight) == (None, None, None, None)


SECONDS = 1_744_884_000.5


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["2025-04-17T10:00:00.5"]),
        pa.array(["2025-04-17 10:00:00.5"]),
        pa.array(["2025-04-17T10:00:00.5Z"]),
        pa.array(["2025-04-17T12:00:00.5+02:00"]),
        pa.array(["2025-04-17T10:00:00.5"]).dictionary_encode(),
        pa.array(["2025-04-17T10:00:00.5"], pa.string_view()),
        pa.array([SECONDS]),
        pa.array([SECONDS]).dictionary_encode(),
        pa.array([1_744_884_000_500], pa.timestamp("ms")),
        pa.array([1_744_884_000_500_000], pa.timestamp("us", "Asia/Tokyo")),
        pa.array([1_744_884_000_500_000_000], pa.timestamp("ns")),
        pa.array([1_744_884_000_500_000_999], pa.timestamp("ns")),
    ],
    ids=lambda column: f"{column.type} {column[0]}",
)
def test_times_of_every_make(column):
    log = read_votes(battles(("x", "y", "tie"), at=column), time="at")
    assert log.records.time.tolist() == [SECONDS]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_times(kind):
    column = pa.array(["2025-04-17"]).cast(pa.timestamp("ms")).cast(kind)
    assert read_votes(battles(("x", "y", "tie"), at=column), time="at").records.time.tolist() == [1_744_848_000]


def test_times_far_away_do_not_wrap_around():
    column = pa.array([2**62], pa.timestamp("s"))
    assert read_votes(battles(("x", "y", "tie"), at=column), time="at").records.time.tolist() == [2.0**62]


def test_a_time_that_its_zone_pushes_out_of_the_calendar_is_no_time():
    table = battles(*THREE, at=["0001-01-01T00:00:00+23:00", "2025-01-01T00:00:00", "9999-12-31T23:00:00-23:00"])
    with pytest.raises(ReadError, match=r"column 'at', rows 1, 3: found '0001-01-01T00:00:00\+23:00'"):
        read_votes(table, time="at")


# -- average_repeats, design ------------------------------------------------------------------------------------------


def test_average_repeats_shares_one_unit_of_weight_inside_a_context():
    table = battles(("x", "y", "model_a"), ("y", "x", "model_a"), ("x", "z", "tie"), ("x", "y", "tie"), id=[1, 1, 1, 2])
    log = read_votes(table, context_id="id", average_repeats=True)
    assert log.records.weight.tolist() == [0.5, 0.5, 1, 1]
    assert log.pair_counts.wins[:2, :2].tolist() == [[0, 0.5], [0.5, 0]]


def test_both_orders_judged_is_an_inclusion_design_once_averaged():
    rows = [(a, b, "tie") for a, b in [("x", "y"), ("y", "x"), ("x", "z"), ("z", "x"), ("y", "z"), ("z", "y")]]
    table = battles(*rows * 4, id=np.repeat(range(4), 6))
    assert read_votes(table, context_id="id").design == "draws"
    assert read_votes(table, context_id="id", average_repeats=True).design == "inclusion"


def test_the_design_may_be_given():
    assert read_votes(battles(*THREE)).design == "draws"
    assert read_votes(battles(*THREE), design="inclusion").design == "inclusion"


def test_an_unknown_design_is_refused():
    with pytest.raises(InputError, match="The design 'random' is unknown"):
        read_votes(battles(*THREE), design="random")


# -- on_error ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def faulty():
    return battles(
        ("x", "y", "model_a"),
        ("x", "x", "tie"),
        ("x", None, "tie"),
        ("y", "z", "?"),
        ("z", "y", "model_b"),
        (" ", "y", "model_b"),
        n=[1.0, 2.0, 3.0, 4.0, np.inf, 5.0],
    )


def test_skip_leaves_bad_rows_out_and_counts_them(faulty, capsys):
    log = read_votes(faulty, context=["n"], on_error="skip")
    assert (log.n_records, log.contexts["n"].to_pylist()) == (1, [1.0])
    assert (log.report.rows, log.report.used) == (6, 1)
    assert [(p.column, p.rows, p.total) for p in log.report.problems] == [
        ("model_a", (6,), 1),
        ("model_b", (3,), 1),
        ("model_b", (2,), 1),
        ("winner", (4,), 1),
        ("n", (5,), 1),
    ]
    assert capsys.readouterr().err.splitlines() == [
        "skipped: the table, column 'model_a', row 6: there is no agent.",
        "skipped: the table, column 'model_b', row 3: there is no agent.",
        "skipped: the table, column 'model_b', row 2: 'x' is compared with itself.",
        "skipped: the table, column 'winner', row 4: unknown label '?'.",
        "skipped: the table, column 'n', row 5: found inf in a numeric context.",
    ]


def test_raise_tells_of_the_first_problem_and_how_many_more_there_are(faulty):
    with pytest.raises(ReadError) as caught:
        read_votes(faulty, context=["n"])
    assert str(caught.value) == (
        "the table, column 'model_a', row 6: there is no agent.\n"
        "  Accepted: the name of an agent in every row.\n"
        "  To do: fill in the name, or pass on_error='skip' to leave such rows out. 4 other kinds of problem: "
        "`nasheval check` lists them all."
    )


def test_many_bad_rows_show_the_first_five_and_the_number(capsys):
    table = battles(("x", "y", "tie"), *[("x", "x", "tie")] * 1200)
    read_votes(table, on_error="skip")
    assert capsys.readouterr().err == (
        "skipped: the table, column 'model_b', rows 2, 3, 4, 5, 6 and 1,195 more: "
        "'x' (1,200x) is compared with itself.\n"
    )


def test_very_many_bad_values_are_shown_without_counts():
    table = battles(*[("x", "y", "tie"), *[("x", "y", f"?{i % 9}") for i in range(12_000)]])
    with pytest.raises(ReadError, match=r"and 11,995 more: unknown label '\?0', '\?1', '\?2', '\?3' and others\."):
        read_votes(table)


def test_nothing_is_printed_where_nothing_is_wrong(capsys):
    read_votes(battles(*THREE), on_error="skip")
    assert capsys.readouterr() == ("", "")


def test_agents_that_occur_only_in_skipped_rows_stay_known():
    """Whether an agent took part does not depend on whether its label could be read."""
    log = read_votes(battles(("x", "y", "tie"), ("x", "z", "?")), on_error="skip")
    assert log.agents == ("x", "y", "z")
    assert log.pair_counts.votes.sum(axis=1).tolist() == [1, 1, 0]

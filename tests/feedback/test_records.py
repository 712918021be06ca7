"""The flat columns, and the plain spelling of a log that the tests of this folder compare them with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.feedback.records import Records, dense_ranks

from .oracle import Plain, build, logs, quick, spelled


@quick
@given(logs())
def test_columns_hold_what_was_said(plain: Plain) -> None:
    assert spelled(build(plain)) == plain.grouped()


@quick
@given(logs(has=()))
def test_agents_ascend_and_blocks_have_no_gaps(plain: Plain) -> None:
    records = build(plain).records
    for r in range(len(records)):
        run = slice(records.offsets[r], records.offsets[r + 1])
        assert np.all(np.diff(records.agent[run]) > 0)
        assert set(records.block[run]) == set(range(records.block[run].max() + 1))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3), min_size=1))
def test_dense_ranks_keep_the_order_even_of_the_largest_numbers(rows: list[list[int]]) -> None:
    dense = dense_ranks(np.array(rows, np.int64))
    assert dense.tolist() == [[sorted(set(row)).index(value) for value in row] for row in rows]


@pytest.mark.parametrize("ranks", [[True, False], [0.5, -0.5], [2, 1]], ids=["flags", "floats", "whole"])
def test_ranks_may_be_of_any_numeric_type(ranks: list[float]) -> None:
    assert one(rank=np.array(ranks)).block.tolist() == [1, 0]


def test_columns_take_the_smallest_type_that_holds_them() -> None:
    wide = Records.build(sizes=np.array([200]), agent=np.arange(200)[::-1] + 100, rank=np.arange(200))
    assert (wide.agent.dtype, wide.block.dtype, wide.offsets.dtype) == (np.int16, np.int16, np.int32)
    assert wide.agent.tolist() == list(range(100, 300))
    assert wide.block.tolist() == list(range(199, -1, -1))
    assert (one().agent.dtype, one().block.dtype, one().zero.dtype) == (np.int8, np.int8, np.int8)


def test_no_records_at_all() -> None:
    none = Records.build(sizes=np.array([]), agent=np.array([]), rank=np.array([]))
    assert (len(none), none.offsets.tolist(), list(none.by_size())) == (0, [0], [])
    assert len(none.take(np.zeros(0, int))) == 0


def test_the_callers_arrays_are_neither_kept_nor_sorted_in_place() -> None:
    given_ = {name: np.array(values) for name, values in FULL.items()}
    records = Records.build(**given_)
    for name, values in given_.items():
        assert str(values.tolist()) == str(FULL[name]), f"{name} was written to"
        values[:] = 0
    assert spelled_columns(records) == spelled_columns(Records.build(**{k: np.array(v) for k, v in FULL.items()}))


# -- parts and joins --------------------------------------------------------------------------------------------------


@quick
@given(logs(), st.data())
def test_take_picks_records_in_any_order(plain: Plain, data: st.DataObject) -> None:
    log, said = build(plain), plain.grouped().said
    rows = data.draw(st.lists(st.integers(0, len(said) - 1))) if said else []
    taken = replace(log, records=log.records.take(np.array(rows, int)), context_offsets=np.array([0, len(rows)]))
    wanted = [replace(said[row], context=0) for row in rows]
    assert list(spelled(replace(taken, contexts=pa.table({}))).said) == wanted


@quick
@given(logs())
def test_64_bit_offsets_mean_the_same(plain: Plain) -> None:
    log = build(plain)
    wide = replace(log, records=log.records.replace(offsets=log.records.offsets.astype(np.int64)))
    assert spelled(wide) == spelled(log)
    order = np.arange(len(log.records))[::-1]
    assert spelled_columns(wide.records.take(order)) == spelled_columns(log.records.take(order))
    assert wide.verdicts.z.tolist() == log.verdicts.z.tolist()
    assert wide.menus.of_record.tolist() == log.menus.of_record.tolist()


def test_joined_records_fill_what_only_one_side_has() -> None:
    bare = one()
    rich = Records.build(**{name: np.array(values) for name, values in FULL.items()})
    joined = Records.concat([bare, rich])
    assert joined.shown is None
    assert joined.propensity is None
    assert joined.weight.tolist() == [1.0, 0.5, 2.0]
    assert joined.voter.tolist() == [-1, 3, 0]
    assert joined.voter.dtype == np.int32
    assert np.array_equal(joined.time, [np.nan, 5.0, np.nan], equal_nan=True)
    assert joined.grade.tolist() == [1.0, 0.5, 1.0]
    assert joined.offsets.tolist() == [0, 2, 4, 7]


def test_a_part_without_records_takes_no_column_away() -> None:
    rich = Records.build(**{name: np.array(values) for name, values in FULL.items()})
    none = Records.build(sizes=np.array([]), agent=np.array([]), rank=np.array([]))
    assert spelled_columns(Records.concat([none, rich])) == spelled_columns(rich)


def test_by_size_meets_every_record_once() -> None:
    mixed = Records.build(sizes=np.array([3, 2, 3]), agent=np.array([0, 1, 2, 0, 1, 1, 2, 3]), rank=np.zeros(8))
    met = [(rows.tolist(), mixed.agent[entries].tolist()) for rows, entries in mixed.by_size()]
    assert met == [([1], [[0, 1]]), ([0, 2], [[0, 1, 2], [1, 2, 3]])]


# -- immutable, and strict --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [field.name for field in fields(Records)])
def test_writing_into_a_column_raises(name: str) -> None:
    records = Records.build(**{name: np.array(values) for name, values in FULL.items()})
    for each in (records, records.take(np.array([0])), Records.concat([records, records])):
        with pytest.raises(ValueError, match="read-only"):
            getattr(each, name)[0] = 1


FULL: dict[str, list[Any]] = {
    "sizes": [2, 3], "agent": [1, 0, 4, 2, 3], "rank": [1, 2, 0, 0, 1], "zero": [1, 3], "shown": [0, 1, 2, 0, 1],
    "propensity": [0.1, 1.0], "weight": [0.5, 2.0], "voter": [3, 0], "time": [5.0, float("nan")],
    "grade": [0.5, 1.0], "style": [[0.1], [0.2], [0.3], [0.4], [0.5]],
}  # fmt: skip


def one(**columns: Any) -> Records:
    """One duel, 0 before 1, with some columns exchanged."""
    usual = {"sizes": np.array([2]), "agent": np.array([0, 1]), "rank": np.array([0, 1])}
    return Records.build(**{**usual, **columns})


def spelled_columns(records: Records) -> dict[str, Any]:
    columns = {field.name: getattr(records, field.name) for field in fields(Records)}
    return {name: None if column is None else [str(value) for value in column] for name, column in columns.items()}


WRONG: list[tuple[str, Callable[[], Records], str]] = [
    ("menu of one", lambda: one(sizes=np.array([1]), agent=np.array([0]), rank=np.array([0])),
     "Record 0 compares fewer than two agents; a menu needs two or more."),
    ("agent twice", lambda: one(agent=np.array([1, 1])),
     "Record 0 names an agent more than once; a menu holds it once."),
    ("agent twice, apart", lambda: one(sizes=np.array([3]), agent=np.array([1, 0, 1]), rank=np.zeros(3)),
     "Record 0 names an agent more than once; a menu holds it once."),
    ("negative agent", lambda: one(agent=np.array([-1, 1])),
     "Agent numbers start at 0; a negative one was given."),
    ("half an agent", lambda: one(agent=np.array([0.5, 1])),
     "Agent numbers are whole numbers; these are of type float64."),
    ("NaN rank", lambda: one(rank=np.array([np.nan, 1])),
     "A rank is NaN or infinite; ranks are finite numbers, lower is better."),
    ("infinite rank", lambda: one(rank=np.array([np.inf, 1])),
     "A rank is NaN or infinite; ranks are finite numbers, lower is better."),
    ("rank in words", lambda: one(rank=np.array(["first", "last"])),
     "Ranks are numbers, lower is better; these are of type <U5."),
    ("too few agents", lambda: one(agent=np.array([0])),
     "The column 'agent' has shape (1,), not (2,), one value per menu entry."),
    ("too many ranks", lambda: one(rank=np.array([0, 1, 2])),
     "The column 'rank' has shape (3,), not (2,), one value per menu entry."),
    ("too few places", lambda: one(shown=np.array([0])),
     "The column 'shown' has shape (1,), not (2,), one value per menu entry."),
    ("places from 1", lambda: one(shown=np.array([1, 2])),
     "Record 0 shows its agents at the places 1, 2; accepted are 0 to 1, each once."),
    ("a place twice", lambda: one(shown=np.array([0, 0])),
     "Record 0 shows its agents at the places 0, 0; accepted are 0 to 1, each once."),
    ("a place that a byte cannot hold", lambda: one(shown=np.array([0, 257])),
     "Record 0 shows its agents at the places 0, 257; accepted are 0 to 1, each once."),
    ("zero code of verdicts", lambda: one(zero=np.array([0])),
     "The zero code of record 0 is 0; accepted is 1 (TIE), 2 (BOTH_BAD), 3 (CENSORED) or 4 (LAST)."),
    ("zero code that a byte would wrap", lambda: one(zero=np.array([257])),
     "The zero code of record 0 is 257; accepted is 1 (TIE), 2 (BOTH_BAD), 3 (CENSORED) or 4 (LAST)."),
    ("propensity 0", lambda: one(propensity=np.array([0.0])),
     "The propensity of record 0 is 0.0; accepted is a probability in (0, 1]."),
    ("propensity 1.2", lambda: one(propensity=np.array([1.2])),
     "The propensity of record 0 is 1.2; accepted is a probability in (0, 1]."),
    ("propensity NaN", lambda: one(propensity=np.array([np.nan])),
     "The propensity of record 0 is nan; accepted is a probability in (0, 1]."),
    ("propensities for two", lambda: one(propensity=np.array([0.5, 0.5])),
     "The column 'propensity' has shape (2,), not (1,), one value per record."),
    ("weight -1", lambda: one(weight=np.array([-1.0])),
     "The weight of record 0 is -1.0; accepted is a finite number above 0."),
    ("weight 0", lambda: one(weight=np.array([0.0])),
     "The weight of record 0 is 0.0; accepted is a finite number above 0."),
    ("weight infinite", lambda: one(weight=np.array([np.inf])),
     "The weight of record 0 is inf; accepted is a finite number above 0."),
    ("voters in a matrix", lambda: one(voter=np.array([[0]])),
     "The column 'voter' has shape (1, 1), not (1,), one value per record."),
    ("no times", lambda: one(time=np.array([])),
     "The column 'time' has shape (0,), not (1,), one value per record."),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_malformed_columns_are_refused_in_these_words(make: Callable[[], Records], message: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message

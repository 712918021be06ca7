"""`Feedback`: making one, parts of it, joining several, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Partition, Zero, duel, ranking, winner
from nasheval.feedback.records import Records

from .oracle import Plain, Said, build, designed, equal_logs, logs, quick, spelled

A_B = (("a",), ("b",))


def simple(n: int = 3, **options: Any) -> Feedback:
    """n contexts x0 = 0, 1, ..., each with one duel that a wins."""
    return Feedback.from_partitions(np.arange(n, dtype=float)[:, None], [A_B] * n, **options)


# -- making one -------------------------------------------------------------------------------------------------------


def test_from_partitions_keeps_everything_it_is_given() -> None:
    log = Feedback.from_partitions(
        pd.DataFrame({"prompt": ["p", "q", "r"], "x": [1.0, 2.0, 3.0]}),
        [winner("c", "abc"), (("b",), ("a",)), duel("a", "b", "both_bad")],
        agents=["c", "b", "a", "idle"],
        context_of=[2, 0, 0],
        propensity=[0.25, 0.5, 1.0],
        weight=[2.0, 1.0, 0.5],
        voter=["ann", None, 7],
        text="prompt",
    )
    assert spelled(log) == Plain(
        agents=("c", "b", "a", "idle"),
        contexts=({"prompt": "p", "x": 1.0}, {"prompt": "q", "x": 2.0}, {"prompt": "r", "x": 3.0}),
        said=(
            Said(0, (frozenset("b"), frozenset("a")), Zero.TIE, propensity=0.5, weight=1.0, voter=None),
            Said(0, (frozenset("ab"),), Zero.BOTH_BAD, propensity=1.0, weight=0.5, voter="7"),
            Said(2, (frozenset("c"), frozenset("ab")), Zero.CENSORED, propensity=0.25, weight=2.0, voter="ann"),
        ),
        has=frozenset({"propensity", "weight", "voter"}),
    )
    assert (log.n_contexts, log.n_records, log.n_agents, log.text) == (3, 3, 4, "prompt")
    assert log.context_of.tolist() == [0, 0, 2]


def test_agents_are_those_that_occur_sorted() -> None:
    assert simple().agents == ("a", "b")
    assert Feedback.from_partitions(np.zeros((1, 1)), [((10,), (9, "x"))]).agents == ("10", "9", "x")


def test_numbers_name_agents_whether_given_or_found() -> None:
    log = Feedback.from_partitions(np.zeros((1, 1)), [((1,), (2,))], agents=[2, 1])
    assert log.agents == ("2", "1")
    assert log.pair_counts.wins.tolist() == [[0, 0], [1, 0]]


def test_nested_sequences_of_any_make_are_partitions() -> None:
    makes = [(("a",), ("b", "c")), [["a"], ["b", "c"]], [{"a"}, {"c", "b"}], (np.array(["a"]), np.array(["b", "c"]))]
    log = Feedback.from_partitions(np.zeros((4, 1)), makes)
    assert len({(said.blocks, said.zero) for said in spelled(log).said}) == 1


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, lambda data: pa.table(data).to_pylist()])
def test_contexts_of_any_make_are_the_same_contexts(make: Callable[[dict[str, Any]], Any]) -> None:
    data = {"x": [1.5, None, 2.5], "flag": [True, False, True]}
    log = Feedback.from_partitions(make(data), [A_B] * 3)
    assert log.contexts.to_pydict() == data


@pytest.mark.parametrize(
    "contexts",
    [np.zeros((5, 0)), pd.DataFrame(index=range(5)), [{} for _ in range(5)]],
    ids=["array", "frame", "dicts"],
)
def test_contexts_without_columns_are_still_counted(contexts: Any) -> None:
    assert Feedback.from_partitions(contexts, [A_B], context_of=[1]).n_contexts == 5
    with pytest.raises(InputError, match="belongs to context 5, but contexts are 0 to 4"):
        Feedback.from_partitions(contexts, [A_B], context_of=[5])


def test_no_contexts_given_are_as_many_as_the_records_need() -> None:
    assert Feedback.from_partitions(pa.table({}), [A_B] * 3).n_contexts == 3
    records = simple(3).records
    assert Feedback.from_records(records, agents=["a", "b"], context_of=np.array([4, 0, 4])).n_contexts == 5
    assert Feedback.from_records(records, agents=["a", "b"], n_contexts=9).n_contexts == 9


@pytest.mark.parametrize("n_agents", [0, 1, 2])
def test_a_log_may_hold_no_record_and_hardly_an_agent(n_agents: int) -> None:
    log = Feedback.from_partitions(np.zeros((4, 2)), [], agents=list("ab")[:n_agents])
    assert repr(log) == f"Feedback(0 records, 4 contexts, {n_agents} agents, 0 menus, design='inclusion')"
    assert log.pair_counts.votes.shape == (n_agents, n_agents)
    assert [part.n_contexts for part in log.split(0.5)] == [2, 2]
    assert log.keep_agents(log.agents[:1]).n_records == 0
    assert Feedback.concat([log, log]).n_contexts == 8


def test_repr_says_how_much_there_is() -> None:
    assert repr(simple(1200)) == "Feedback(1,200 records, 1,200 contexts, 2 agents, 1 menus, design='draws')"


# -- immutable --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["context_offsets", "context_of"])
def test_writing_into_the_log_raises(name: str) -> None:
    log = simple()
    for part in (log, log[:2], Feedback.concat([log, log])):
        with pytest.raises(ValueError, match="read-only"):
            getattr(part, name)[0] = 1


def test_a_field_cannot_be_exchanged() -> None:
    with pytest.raises(FrozenInstanceError):
        simple().agents = ("x", "y")  # type: ignore[misc]


@pytest.mark.parametrize("make", [lambda x: x, lambda x: pd.DataFrame(x, columns=["x0"])], ids=["array", "pandas"])
def test_the_callers_contexts_are_copied(make: Callable[[Any], Any]) -> None:
    mine = make(np.zeros((3, 1)))
    log = Feedback.from_partitions(mine, [A_B] * 3)
    (mine.iloc if isinstance(mine, pd.DataFrame) else mine)[:, 0] = 9.0
    assert log.contexts["x0"].to_pylist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["propensity", "weight", "context_of"])
def test_the_callers_columns_are_copied(name: str) -> None:
    mine = np.ones(3, int if name == "context_of" else float)
    log = simple(3, **{name: mine})
    mine[:] = 0
    column = log.context_of if name == "context_of" else getattr(log.records, name)
    assert column.tolist() == [1, 1, 1]


# -- parts ------------------------------------------------------------------------------------------------------------


@quick
@given(logs(), st.data())
def test_picking_contexts_by_number_mask_or_slice(plain: Plain, data: st.DataObject) -> None:
    log, n = build(plain), len(plain.contexts)
    rows = data.draw(st.lists(st.integers(0, n - 1), max_size=6)) if n else []
    mask = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    cut = data.draw(st.slices(n))
    assert spelled(log[rows]) == plain.at(rows)
    assert spelled(log[np.array(mask, bool)]) == plain.at([row for row in range(n) if mask[row]])
    assert spelled(log[cut]) == plain.at(list(range(n))[cut])
    assert spelled(log[[row - n for row in rows]]) == plain.at(rows)


@quick
@given(logs(), st.data())
def test_keeping_records_keeps_every_context(plain: Plain, data: st.DataObject) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(plain.said), max_size=len(plain.said)))
    said = plain.grouped().said
    kept = replace(plain, said=tuple(s for s, keep in zip(said, mask, strict=True) if keep))
    assert spelled(build(plain).keep_records(np.array(mask, bool))) == kept


@quick
@given(logs(), st.data())
def test_keeping_agents_leaves_out_the_records_that_name_others(plain: Plain, data: st.DataObject) -> None:
    kept = tuple(data.draw(st.lists(st.sampled_from(plain.agents), unique=True)))
    said = tuple(s for s in plain.grouped().said if s.menu <= set(kept))
    log, left = build(plain), replace(plain, agents=kept, said=said)
    assert spelled(designed(log, "inclusion").keep_agents(kept)) == left
    with_record = sorted({s.context for s in said})
    assert spelled(designed(log, "draws").keep_agents(kept)) == left.at(with_record)
    assert log.keep_agents(kept).how_designed == log.how_designed


def test_trimming_leaves_out_empty_contexts_under_draws_alone() -> None:
    log = Feedback.from_partitions(np.arange(4.0)[:, None], [A_B] * 2, context_of=[1, 3])
    assert designed(log, "inclusion").trimmed().n_contexts == 4
    assert designed(log, "draws").trimmed().contexts["x0"].to_pylist() == [1.0, 3.0]


def test_parts_keep_the_design_of_the_whole() -> None:
    """A context that repeats a menu says draws; a part without it would, by itself, be taken for inclusion."""
    log = Feedback.from_partitions(np.zeros((3, 1)), [A_B, ranking("ac"), A_B, A_B], context_of=[0, 0, 2, 2])
    parts = [log[:2], log.keep_records(np.array([True, True, False, False])), *log.split(0.7)]
    assert [part.design for part in (log, *parts)] == ["draws"] * 5
    assert replace(log[:2], given_design=None).design == "inclusion"


def test_parts_of_a_chunked_table_are_the_same_rows() -> None:
    whole = pa.table({"x": [0, 1, 2, 3], "c": pa.array(["u", "v", None, "u"]).dictionary_encode()})
    chunked = pa.concat_tables([whole[:1], whole[1:]])
    log = Feedback.from_partitions(chunked, [A_B] * 4)
    for rows in ([1, 3], [3, 0, 0]):
        assert log[rows].contexts.to_pylist() == whole.take(rows).to_pylist()


def test_averaged_repeats_share_one_unit_of_weight() -> None:
    answers = [A_B, A_B, winner("a", "abc"), ranking("abc"), A_B]
    log = Feedback.from_partitions(np.zeros((2, 1)), answers, context_of=[0, 0, 0, 0, 1])
    assert log.average_repeats().records.weight.tolist() == [0.5, 0.5, 1.0, 1.0, 1.0]


def test_averaging_repeats_tells_the_design_anew_unless_it_was_given() -> None:
    log = Feedback.from_partitions(
        np.zeros((2, 1)), [A_B, A_B, ranking("ac"), A_B, ranking("ac")], context_of=[0, 0, 0, 1, 1]
    )
    assert [part.design for part in (log, log[:], log.average_repeats(), log[:].average_repeats())] == [
        "draws", "draws", "inclusion", "inclusion"
    ]  # fmt: skip
    assert designed(log, "draws").average_repeats().design == "draws"


# -- split ------------------------------------------------------------------------------------------------------------


def numbered(n: int, **columns: Any) -> Feedback:
    """n contexts that carry their own number, context i with i % 3 records."""
    context_of = [i for i in range(n) for _ in range(i % 3)]
    table = pa.table({"number": range(n), **columns})
    return Feedback.from_partitions(table, [A_B] * len(context_of), context_of=context_of)


def numbers(log: Feedback) -> list[int]:
    return log.contexts["number"].to_pylist()


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.8, 0.99])
def test_a_split_parts_the_contexts_and_keeps_their_records_together(fraction: float) -> None:
    log = numbered(50)
    parts = log.split(fraction, seed=3)
    assert [part.n_contexts for part in parts] == [round(fraction * 50), 50 - round(fraction * 50)]
    assert sorted(numbers(parts[0]) + numbers(parts[1])) == list(range(50))
    for part in parts:
        assert numbers(part) == sorted(numbers(part))
        assert np.diff(part.context_offsets).tolist() == [i % 3 for i in numbers(part)]


def test_a_seed_gives_the_same_split_and_another_seed_another() -> None:
    log = numbered(50)
    assert numbers(log.split(seed=1)[0]) == numbers(log.split(seed=1)[0])
    assert numbers(log.split(seed=1)[0]) != numbers(log.split(seed=2)[0])


def test_every_context_may_come_into_either_part() -> None:
    log = numbered(6)
    seen = {number for seed in range(30) for number in numbers(log.split(0.5, seed=seed)[0])}
    assert seen == set(range(6))


def voted(voter: list[int | None], context_of: list[int] | None = None) -> Feedback:
    """One context per vote, unless context_of= says otherwise, each by the voter named."""
    contexts = np.zeros((len(set(context_of)) if context_of else len(voter), 1))
    return Feedback.from_partitions(contexts, [A_B] * len(voter), voter=voter, context_of=context_of)


def voters_of(log: Feedback) -> set[str]:
    return set(log.voters.take(pa.array(log.records.voter)).to_pylist())


@quick
@given(st.sampled_from([0.1, 0.5, 0.75, 0.8, 0.9]), st.integers(0, 5), st.integers(20, 45))
def test_a_split_at_random_keeps_voters_whole(fraction: float, seed: int, people: int) -> None:
    log = voted(np.random.default_rng(seed).permutation(np.arange(4 * people) % people).tolist())
    train, test = log.split(fraction, seed=seed)
    assert not voters_of(train) & voters_of(test)
    assert train.n_contexts + test.n_contexts == log.n_contexts
    # The rule that the command line had of its own: so many of the voters, in numpy's order of the seed.
    held = round(round(1 - fraction, 12) * people)
    drawn = np.random.default_rng(seed).permutation(people)[:held]
    assert voters_of(test) == set(log.voters.take(pa.array(drawn)).to_pylist())


def test_contexts_are_split_where_voters_are_too_few_unknown_or_share_one() -> None:
    few, unknown = voted([i % 19 for i in range(95)]), voted([None, *(i % 30 for i in range(94))])
    shared = voted([*range(190)], context_of=[*range(95)] * 2)
    for log in (few, unknown, shared):
        assert [part.n_contexts for part in log.split(0.8)] == [76, 19]
    assert voters_of(few.split(0.8)[0]) & voters_of(few.split(0.8)[1])


# -- equality and joins -----------------------------------------------------------------------------------------------


@quick
@given(logs(), logs())
def test_equal_logs_are_those_that_say_the_same(one: Plain, other: Plain) -> None:
    first, second = build(one), build(other)
    assert equal_logs(first, build(one))
    assert equal_logs(first, first[:])
    same = one.grouped() == other.grouped()
    assert equal_logs(first, second) == equal_logs(second, first) == same


@pytest.mark.parametrize(
    "other",
    [
        simple(4),
        simple(agents=["b", "a"]),
        simple(agents=["a", "b", "c"]),
        simple(weight=[1, 1, 1]),
        simple(voter=["v", "v", "v"]),
        simple(context_of=[0, 0, 2]),
        Feedback.from_partitions(np.arange(3.0)[:, None], [A_B, A_B, (("b",), ("a",))]),
        Feedback.from_partitions(np.arange(3.0)[:, None], [A_B, A_B, Partition(A_B, Zero.LAST)]),
        Feedback.from_partitions(np.arange(1, 4.0)[:, None], [A_B] * 3),
    ],
)
def test_any_difference_makes_logs_unequal(other: Feedback) -> None:
    assert not equal_logs(simple(), other)


@quick
@given(logs(), st.data())
def test_a_log_cut_up_and_joined_is_the_same_log(plain: Plain, data: st.DataObject) -> None:
    n = len(plain.contexts)
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    pieces = list(pairwise([0, *cuts, n]))
    parts = [build(plain.at(list(range(start, end)))) for start, end in pieces]
    joined = Feedback.concat(parts)
    assert equal_logs(joined, build(plain))
    for part, (start, end) in zip(parts, pieces, strict=True):
        assert equal_logs(joined[start:end], part)


def test_joined_agents_and_voters_are_aligned_by_name() -> None:
    first = Feedback.from_partitions(np.zeros((1, 1)), [(("z",), ("b",))], agents=["z", "b"], voter=["ann"])
    second = Feedback.from_partitions(
        np.ones((2, 1)), [(("a",), ("b",), ("z",)), (("b",), ("a",))], voter=["bob", "ann"]
    )
    said = spelled(Feedback.concat([first, second]))
    assert said.agents == ("z", "b", "a")
    assert [tuple("".join(sorted(block)) for block in s.blocks) for s in said.said] == [
        ("z", "b"), ("a", "b", "z"), ("b", "a"),
    ]  # fmt: skip
    assert [s.voter for s in said.said] == ["ann", "bob", "ann"]


def test_joining_moves_the_shown_places_with_the_agents() -> None:
    plain = Plain(
        ("b", "a"),
        ({},),
        (Said(0, (frozenset("a"), frozenset("b")), Zero.TIE, shown=("b", "a")),),
        frozenset({"shown"}),
    )
    other = replace(plain, agents=("a", "b"))
    joined = spelled(Feedback.concat([build(other), build(plain)]))
    assert [said.shown for said in joined.said] == [("b", "a")] * 2


def test_joining_logs_whose_voters_are_unknown() -> None:
    unnamed, named, bare = simple(voter=[None] * 3), simple(voter=["ann", None, "bob"]), simple()
    joined = Feedback.concat([unnamed, named, bare, unnamed])
    assert [s.voter for s in spelled(joined).said] == [None] * 3 + ["ann", None, "bob"] + [None] * 6
    assert Feedback.concat([unnamed, bare]).voters.to_pylist() == []


def test_joining_a_log_without_records_keeps_the_propensities() -> None:
    none = Feedback.from_partitions(np.zeros((2, 1)), [], agents=["a", "b"], context_of=[])
    assert Feedback.concat([none, simple(propensity=[0.5] * 3)]).records.propensity.tolist() == [0.5] * 3


def test_joined_context_columns_are_lined_up_by_name() -> None:
    one = Feedback.from_partitions(pa.table({"x": [1], "c": pa.array(["u"]).dictionary_encode()}), [A_B])
    two = Feedback.from_partitions(pa.table({"c": ["v"], "x": [2.5]}), [A_B])
    assert Feedback.concat([one, two]).contexts.to_pydict() == {"x": [1.0, 2.5], "c": ["u", "v"]}


def test_a_join_is_of_the_design_its_parts_share() -> None:
    draws, inclusion = simple(design="draws"), simple(design="inclusion")
    assert Feedback.concat([inclusion, inclusion]).given_design.name == "inclusion"
    assert Feedback.concat([draws, inclusion]).given_design is None


def test_a_join_keeps_the_text_column_its_parts_share() -> None:
    table = pa.table({"prompt": ["p"], "reply": ["r"]})
    one, other = (Feedback.from_partitions(table, [A_B], text=name) for name in ("prompt", "reply"))
    assert Feedback.concat([one, one]).text == "prompt"
    assert Feedback.concat([one, other]).text is None


# -- strict -----------------------------------------------------------------------------------------------------------


def of(partition: Any, **options: Any) -> Feedback:
    return Feedback.from_partitions(np.zeros((1, 1)), [partition], **options)


def from_one(records: Records | None = None, **options: Any) -> Feedback:
    usual = Records.build(sizes=np.array([2]), agent=np.array([0, 1]), rank=np.array([0, 1]))
    return Feedback.from_records(records or usual, **{"agents": ["a", "b"], **options})


WRONG: list[tuple[str, Callable[[], Any], str]] = [
    ("agent twice", lambda: of((("a",), ("b", "a"))),
     "Record 0: The partition {a} > {b, a} names 'a' more than once; an agent stands in exactly one block."),
    ("agent twice under two types", lambda: of(((1,), ("1",))),
     "Record 0 names an agent more than once; a menu holds it once."),
    ("empty block", lambda: of((("a",), (), ("b",))),
     "Record 0: The partition {a} > {} > {b} holds an empty block; every block needs at least one agent: "
     "leave it out."),
    ("menu of one", lambda: of((("a",),)),
     "Record 0: The partition {a} compares fewer than two agents; a menu needs two or more."),
    ("empty partition", lambda: of(()),
     "Record 0: The partition without blocks compares fewer than two agents; a menu needs two or more."),
    ("flat sequence", lambda: of(("a", "b")),
     "Record 0: A block is a sequence of agents: write (('a',), ('b',)), not ('a', 'b')."),
    ("flat numbers", lambda: of((1, 2)),
     "Record 0 is (1, 2); accepted is a Partition or nested sequences such as (('a',), ('b', 'c'))."),
    ("a number", lambda: of(7),
     "Record 0 is 7; accepted is a Partition or nested sequences such as (('a',), ('b', 'c'))."),
    ("blocks in blocks", lambda: of(((["a"],), ("b",))),
     "Record 0 is ((['a'],), ('b',)); accepted is a Partition or nested sequences such as (('a',), ('b', 'c'))."),
    ("unknown agent", lambda: of(A_B, agents=["a", "c"]),
     "Record 0 names 'b', which is not among agents=a, c; add it there."),
    ("the first of several unknown agents", lambda: simple(2, agents=["b"]),
     "Record 0 names 'a', which is not among agents=b; add it there."),
    ("unknown among many", lambda: of(A_B, agents=[f"m{i}" for i in range(10)]),
     "Record 0 names 'a', which is not among agents=m0, m1, m2, m3, m4, m5, m6, m7 and 2 more; add it there."),
    ("agents repeated", lambda: of(A_B, agents=["a", "b", "a"]),
     "Two agents have the same name; give each agent a name of its own."),
    ("context_of too short", lambda: simple(3, context_of=[0]),
     "context_of has 1 values for 3 partitions; give one each."),
    ("context_of out of range", lambda: simple(3, context_of=[0, 1, 3]),
     "Record 2 belongs to context 3, but contexts are 0 to 2; give each record the row of its context."),
    ("context_of negative", lambda: simple(3, context_of=[0, -1, 2]),
     "Record 1 belongs to context -1, but contexts are 0 to 2; give each record the row of its context."),
    ("context_of between rows", lambda: simple(3, context_of=[0, 1.5, 2]),
     "context_of holds values of type float64; accepted are whole numbers: the row of each context."),
    ("context_of in words", lambda: simple(3, context_of=["a", "b", "c"]),
     "context_of holds values of type <U1; accepted are whole numbers: the row of each context."),
    ("more records than contexts", lambda: Feedback.from_partitions(np.zeros((1, 1)), [A_B] * 2),
     "Record 1 belongs to context 1, but contexts are 0 to 0; give each record the row of its context."),
    ("no contexts", lambda: Feedback.from_partitions(np.zeros((0, 1)), [A_B]),
     "Record 0 belongs to context 0, but there is no context; give each record the row of its context."),
    ("NaN context", lambda: Feedback.from_partitions(np.array([[1.0], [np.nan]]), [A_B]),
     "The context column 'x0' holds nan in row 1; accepted are finite numbers, or null where a value is missing."),
    ("infinite context", lambda: Feedback.from_partitions(np.array([[1.0, -np.inf]]), [A_B]),
     "The context column 'x1' holds -inf in row 0; accepted are finite numbers, or null where a value is missing."),
    ("propensity too short", lambda: simple(3, propensity=[0.5]),
     "propensity has 1 values for 3 partitions; give one each."),
    ("propensity 0", lambda: of(A_B, propensity=[0]),
     "The propensity of record 0 is 0.0; accepted is a probability in (0, 1]."),
    ("propensity 1.2", lambda: of(A_B, propensity=[1.2]),
     "The propensity of record 0 is 1.2; accepted is a probability in (0, 1]."),
    ("propensity NaN", lambda: of(A_B, propensity=[float("nan")]),
     "The propensity of record 0 is nan; accepted is a probability in (0, 1]."),
    ("propensity missing", lambda: of(A_B, propensity=[None]),
     "The propensity of record 0 is nan; accepted is a probability in (0, 1]."),
    ("propensity in words", lambda: of(A_B, propensity=["half"]),
     "propensity holds something that is not a number; give one number per partition."),
    ("propensity in a matrix", lambda: of(A_B, propensity=[[0.5, 0.5]]),
     "The column 'propensity' has shape (1, 2), not (1,), one value per record."),
    ("weight -1", lambda: of(A_B, weight=[-1]),
     "The weight of record 0 is -1.0; accepted is a finite number above 0."),
    ("weight in words", lambda: of(A_B, weight=["much"]),
     "weight holds something that is not a number; give one number per partition."),
    ("voter too long", lambda: of(A_B, voter=["ann", "bob"]),
     "voter has 2 values for 1 partitions; give one each."),
    ("text column missing", lambda: of(A_B, text="prompt"),
     "The text column 'prompt' is not in the contexts: x0."),
    ("text without columns", lambda: Feedback.from_partitions(pa.table({}), [A_B], text="prompt"),
     "The text column 'prompt' is not in the contexts: no columns."),
    ("unknown design", lambda: of(A_B, design="adaptive"),
     "The design 'adaptive' is unknown; accepted are 'inclusion' and 'draws'."),
    ("agent number too high", lambda: from_one(agents=["a"]),
     "A record names agent number 1, but there are 1 agents."),
    ("context_of of flat records too short", lambda: from_one(context_of=np.array([], int)),
     "context_of has 0 values for 1 records; give one per record."),
    ("voters without names", lambda: from_one(simple(1, voter=["ann"]).records),
     "A record names voter number 0, but there are 0 voters."),
    ("fraction 1", lambda: simple().split(1.0),
     "The fraction is 1.0; accepted is a number between 0 and 1, such as 0.8."),
    ("fraction in percent", lambda: simple().split(80),
     "The fraction is 80; accepted is a number between 0 and 1, such as 0.8."),
    ("fraction NaN", lambda: simple().split(float("nan")),
     "The fraction is nan; accepted is a number between 0 and 1, such as 0.8."),
    ("keep a stranger", lambda: simple().keep_agents(["a", "z"]),
     "There is no agent 'z' in this log; it has a, b."),
    ("keep an agent twice", lambda: simple().keep_agents(["a", "a"]),
     "Two agents have the same name; give each agent a name of its own."),
    ("record numbers for a mask", lambda: simple().keep_records(np.array([0, 2])),
     "The mask has shape (2,) and type int64; give 3 booleans."),
    ("mask too short", lambda: simple().keep_records(np.array([True])),
     "The mask has shape (1,) and type bool; give 3 booleans."),
    ("one context by number", lambda: simple()[1],
     "No contexts are picked by 1; accepted are a slice, a list of context numbers (there are 3 contexts), or as many "
     "booleans."),
    ("a context that is not there", lambda: simple()[[0, 3]],
     "No contexts are picked by [0, 3]; accepted are a slice, a list of context numbers (there are 3 contexts), or as "
     "many booleans."),
    ("a context mask too short", lambda: simple()[[True]],
     "No contexts are picked by [True]; accepted are a slice, a list of context numbers (there are 3 contexts), or as "
     "many booleans."),
    ("join of nothing", lambda: Feedback.concat([]),
     "There is nothing to concatenate; give at least one log."),
    ("join with and without columns", lambda: Feedback.concat([simple(), from_one()]),
     "Some of the logs have context columns and others have none; read them with the same columns."),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_malformed_arguments_are_refused_in_these_words(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message


def test_columns_that_do_not_fit_together_are_refused() -> None:
    words = Feedback.from_partitions(pa.table({"x0": ["low"]}), [A_B])
    with pytest.raises(InputError) as error:
        Feedback.concat([simple(), words])
    assert str(error.value).startswith("The context columns do not fit together: ")
    assert "\n" not in str(error.value)

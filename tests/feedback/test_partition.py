"""The rows of the paper's Table modalities, and what a raw answer may not be."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.feedback.partition import Partition, Zero, best_worst, duel, ranking, scores, top, weak, winner

FIVE = (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("answer", "blocks", "zero"),
    [
        (duel(1, 3, 1), ((1,), (3,)), Zero.TIE),
        (ranking([1, 2, 3, 4, 5]), ((1,), (2,), (3,), (4,), (5,)), Zero.TIE),
        (weak([{1, 2}, {3}, {4, 5}]), ((1, 2), (3,), (4, 5)), Zero.TIE),
        (top([1, 2], FIVE), ((1, 2), (3, 4, 5)), Zero.CENSORED),
        (best_worst(1, 5, FIVE), ((1,), (2, 3, 4), (5,)), Zero.CENSORED),
        (scores(dict(zip(FIVE, (5, 5, 3, 1, 1), strict=True))), ((1, 2), (3,), (4, 5)), Zero.TIE),
        (winner(2, FIVE), ((2,), (1, 3, 4, 5)), Zero.CENSORED),
    ],
    ids=["duel", "full ranking", "weak ranking", "top-2", "best-worst", "scores", "winner of subset"],
)
def test_every_modality_of_the_papers_table(answer: Partition, blocks: tuple[tuple[int, ...], ...], zero: Zero) -> None:
    assert answer == Partition(blocks, zero)
    assert sorted(answer.menu) == sorted(agent for block in blocks for agent in block)


@pytest.mark.parametrize(
    ("said", "blocks", "zero"),
    [
        ("a", (("a",), ("b",)), Zero.TIE),
        ("b", (("b",), ("a",)), Zero.TIE),
        ("tie", (("a", "b"),), Zero.TIE),
        ("both_bad", (("a", "b"),), Zero.BOTH_BAD),
    ],
)
def test_the_four_answers_to_a_duel(said: str, blocks: tuple[tuple[str, ...], ...], zero: Zero) -> None:
    assert duel("a", "b", said) == Partition(blocks, zero)


def test_an_agent_called_tie_can_win() -> None:
    assert duel("tie", "b", "tie").blocks == (("tie",), ("b",))


@pytest.mark.parametrize(
    "answer",
    [winner("a", "ab"), top(["a"], "ab"), best_worst("a", "b", "ab"), best_worst("a", "c", "abc")],
    ids=["winner of two", "top of two", "best-worst of two", "best-worst of three"],
)
def test_a_question_that_settles_every_pair_censors_nothing(answer: Partition) -> None:
    assert answer.zero is Zero.TIE
    assert all(len(block) == 1 for block in answer.blocks)


@pytest.mark.parametrize("kind", [int, float, np.uint8, np.float32, np.int64])
def test_scores_of_any_numeric_type_put_the_highest_first(kind: type) -> None:
    assert scores({"low": kind(0), "high": kind(200), "mid": kind(3)}).blocks == (("high",), ("mid",), ("low",))


def test_success_flags_are_scores() -> None:
    assert scores({"a": np.False_, "b": np.True_, "c": True}).blocks == (("b", "c"), ("a",))


def test_infinite_scores_tie_with_each_other() -> None:
    assert scores({"a": np.inf, "b": 1.0, "c": np.inf, "d": -np.inf}).blocks == (("a", "c"), ("b",), ("d",))


@given(st.dictionaries(st.integers(0, 9), st.integers(-3, 3), min_size=2))
def test_scores_order_every_pair_as_the_numbers_do(values: dict[int, int]) -> None:
    place = {agent: place for place, block in enumerate(scores(values).blocks) for agent in block}
    for j in values:
        for k in values:
            assert (place[j] < place[k]) == (values[j] > values[k])


SAID = "The partition {a} > {b} > {a}"
WRONG: list[tuple[str, Callable[[], Partition], str]] = [
    ("unknown winner", lambda: duel("a", "b", "c"),
     "The winner of a duel between 'a' and 'b' is 'c'; accepted are 'a', 'b', 'tie' and 'both_bad'."),
    ("agent against itself", lambda: duel("a", "a", "a"),
     "The partition {a} > {a} names 'a' more than once; an agent stands in exactly one block."),
    ("agent against itself, tied", lambda: duel("a", "a", "tie"),
     "The partition {a, a} names 'a' more than once; an agent stands in exactly one block."),
    ("agent twice", lambda: ranking(["a", "b", "a"]),
     f"{SAID} names 'a' more than once; an agent stands in exactly one block."),
    ("empty block", lambda: weak([["a"], [], ["b"]]),
     "The partition {a} > {} > {b} holds an empty block; every block needs at least one agent: leave it out."),
    ("menu of one", lambda: weak([["a"]]),
     "The partition {a} compares fewer than two agents; a menu needs two or more."),
    ("nothing", lambda: ranking([]),
     "The partition without blocks compares fewer than two agents; a menu needs two or more."),
    ("names for blocks", lambda: weak(["ab", "c"]),
     "A block is a sequence of agents: write (('a',), ('b',)), not ('a', 'b')."),
    ("stranger on top", lambda: top(["z"], ["a", "b"]),
     "'z' is not in the menu {a, b}; choose among those, or add it there."),
    ("stranger wins", lambda: winner("z", ["a", "b"]),
     "'z' is not in the menu {a, b}; choose among those, or add it there."),
    ("stranger is worst", lambda: best_worst("a", "z", ["a", "b"]),
     "'z' is not in the menu {a, b}; choose among those, or add it there."),
    ("all chosen", lambda: top(["a", "b"], ["a", "b"]),
     "All of the menu {a, b} was chosen, which compares nothing; leave some agent out."),
    ("none chosen", lambda: top([], ["a", "b"]),
     "The partition {} > {a, b} holds an empty block; every block needs at least one agent: leave it out."),
    ("chosen twice", lambda: top(["a", "a"], ["a", "b"]),
     "The partition {a, a} > {b} names 'a' more than once; an agent stands in exactly one block."),
    ("chosen twice in the menu", lambda: winner("a", ["a", "a", "b"]),
     "The menu {a, a, b} names 'a' more than once; name each agent once."),
    ("best twice in the menu", lambda: best_worst("a", "b", ["a", "b", "b"]),
     "The menu {a, b, b} names 'b' more than once; name each agent once."),
    ("best is worst", lambda: best_worst("a", "a", ["a", "b"]),
     f"{SAID} names 'a' more than once; an agent stands in exactly one block."),
    ("score NaN", lambda: scores({"a": float("nan"), "b": 1}),
     "The score of 'a' is not a number; leave the agent out or give a finite score."),
    ("score missing", lambda: scores({"a": 1, "b": None}),
     "The score of 'b' is not a number; leave the agent out or give a finite score."),
    ("score in words", lambda: scores({"a": 1, "b": "good"}),
     "The score of 'b' is not a number; leave the agent out or give a finite score."),
    ("a top two in order", lambda: Partition((("a",), ("b",), ("c", "d")), Zero.CENSORED),
     "The partition {a} > {b} > {c, d} has the zero code CENSORED; accepted with it are chosen > rest (`top`) and best "
     "> middle > worst (`best_worst`). Where only the last block was left unranked, use LAST."),
    ("a code for verdicts only", lambda: Partition((("a", "b"),), Zero.DECIDED),
     "The partition {a, b} has the zero code <Zero.DECIDED: 0>; accepted are TIE, BOTH_BAD, CENSORED, LAST."),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_cannot_be_an_answer_is_refused_in_these_words(make: Callable[[], Partition], message: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5).filter(lambda sizes: sum(sizes) > 1))
def test_only_the_two_questions_that_leave_an_order_open_are_censored(sizes: list[int]) -> None:
    """The form of the question is read off a censored partition, so no third question may look like one of the two."""
    agents = iter(range(sum(sizes)))
    blocks = tuple(tuple(next(agents) for _ in range(size)) for size in sizes)
    if len(sizes) <= 2 or (len(sizes) == 3 and sizes[0] == sizes[2] == 1):
        assert Partition(blocks, Zero.CENSORED).blocks == blocks
    else:
        with pytest.raises(InputError, match="has the zero code CENSORED"):
            Partition(blocks, Zero.CENSORED)

"""How the design of a log is told."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.feedback.design import Design, detect
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import duel, ranking, winner

from .oracle import quick

PAIRS = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "d"), ("b", "d"), ("c", "d")]


def asked(cells: list[tuple[int, int]], n_contexts: int, weight: list[float] | None = None) -> Design:
    """The design told from (context, menu) cells, menus being pairs of four agents."""
    partitions = [duel(*PAIRS[menu], PAIRS[menu][0]) for _, menu in cells]
    contexts, context_of = np.zeros((n_contexts, 1)), [context for context, _ in cells]
    log = Feedback.from_partitions(contexts, partitions, agents=list("abcd"), context_of=context_of, weight=weight)
    assert log.design == log.how_designed.name
    return log.how_designed


def test_independent_inclusion_never_repeats_a_menu() -> None:
    rng = np.random.default_rng(0)
    cells = [(c, m) for c in range(200) for m in range(6) if rng.random() < 0.5 or m == c % 6]
    expected = sum(n * (n - 1) / 2 for n in Counter(c for c, _ in cells).values())
    expected *= sum((n / len(cells)) ** 2 for n in Counter(m for _, m in cells).values())
    assert asked(cells, 200) == Design(
        "inclusion", f"no context repeats a menu, where independent draws would about {expected:,.0f} times"
    )


def test_draws_repeat_menus() -> None:
    rng = np.random.default_rng(0)
    cells = [(c, int(rng.integers(6))) for c in range(100) for _ in range(4)]
    repeats = sum(count > 1 for count in Counter(cells).values())
    assert asked(cells, 100) == Design("draws", f"{repeats} times a context asks the same menu again")


def test_one_record_a_context_is_a_draw() -> None:
    assert asked([(c, c % 6) for c in range(20)], 20) == Design("draws", "every context has exactly one record")


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (1, "1 context has no record, which one draw a context cannot give"),
        (1200, "1,200 contexts have no record, which one draw a context cannot give"),
    ],
)
def test_a_context_without_a_record_was_not_drawn_for(missing: int, reason: str) -> None:
    assert asked([(c, c % 6) for c in range(20)], 20 + missing) == Design("inclusion", reason)


def test_contexts_with_none_and_with_several_are_included() -> None:
    """One context more with two menus must not turn an inclusion log into draws."""
    cells = [(c, c % 6) for c in range(20)]
    assert asked(cells, 21).name == asked([*cells, (0, 5)], 21).name == "inclusion"


def test_an_arena_with_a_few_repeated_prompts_is_drawn() -> None:
    cells = [(c, c % 6) for c in range(100)] + [(3, 5), (8, 5)]
    assert asked(cells, 100) == Design(
        "draws", "most contexts have one record, and too few have several to tell otherwise"
    )


def test_a_small_log_of_several_menus_a_context_is_included() -> None:
    assert asked([(0, 0), (0, 1), (1, 2), (1, 3)], 2) == Design(
        "inclusion", "contexts have several records and none repeats a menu"
    )


def test_both_presentation_orders_at_half_weight_are_one_record() -> None:
    cells = [(c, c % 6) for c in range(20) for _ in range(2)]
    assert asked(cells, 20, [0.5] * 40) == Design("draws", "every context has exactly one record")
    assert asked(cells, 21, [0.5] * 40).name == "inclusion"
    assert asked(cells, 20) == Design("draws", "20 times a context asks the same menu again")


def test_both_orders_of_every_menu_are_still_an_inclusion_log() -> None:
    cells = [(c, m) for c in range(50) for m in range(3) for _ in range(2)]
    assert asked(cells, 50, [0.5] * 300) == Design(
        "inclusion", "no context repeats a menu, where independent draws would about 50 times"
    )


def test_the_form_of_the_question_tells_menus_apart() -> None:
    twice = [ranking("abc"), winner("a", "abc")]
    log = Feedback.from_partitions(np.zeros((1, 1)), twice, context_of=[0, 0])
    assert log.how_designed == Design("inclusion", "contexts have several records and none repeats a menu")


def test_no_records_or_no_contexts() -> None:
    nothing = np.zeros(0, np.int64)
    assert detect(nothing, nothing, np.zeros(0), 3).name == "inclusion"
    assert detect(nothing, nothing, np.zeros(0), 0).name == "draws"


@quick
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from([0.25, 0.5, 1.0, 2.0])), min_size=1))
def test_repeats_are_cells_with_more_than_one_unit_of_weight(rows: list[tuple[int, int, float]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    context, menu, weight = (np.array(column) for column in zip(*rows, strict=True))
    held = Counter(row[:2] for row in rows)
    repeats = sum(count > 1 and sum(w for c, m, w in rows if (c, m) == cell) > 1 for cell, count in held.items())
    design = detect(menu, context, weight, 5)
    if repeats:
        assert design == Design("draws", f"{repeats} times a context asks the same menu again")
    elif len({c for c, _ in held}) < 5:
        assert design.name == "inclusion"
    elif len(held) == 5:
        assert design.reason == "every context has exactly one record"


def test_a_given_design_wins() -> None:
    log = Feedback.from_partitions(np.zeros((2, 1)), [duel("a", "b", "a")] * 2, design="inclusion")
    assert log.how_designed == Design("inclusion", "as given")
    assert log.with_design("draws").design == "draws"


def test_an_unknown_design_is_refused() -> None:
    log = Feedback.from_partitions(np.zeros((2, 1)), [duel("a", "b", "a")] * 2)
    with pytest.raises(InputError) as error:
        log.with_design("bandit")
    assert str(error.value) == "The design 'bandit' is unknown; accepted are 'inclusion' and 'draws'."

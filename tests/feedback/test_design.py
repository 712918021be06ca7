"""How the design of a log is told."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_repeat_is_counted_in_words_that_fit() -> None:
    assert asked([(0, 0), (0, 0), (1, 1)], 2) == Design("draws", "1 time a context asks the same menu again")


@pytest.mark.parametrize("empty", [1, 3, 30, 60])
def test_empty_contexts_do_not_turn_an_arena_into_inclusion(empty: int) -> None:
    """One duel a context, a few of which have no usable answer: none has several, as inclusion would give."""
    design = asked([(c, c % 6) for c in range(100 - empty)], 100)
    rate = (100 - empty) / 600
    several = 100 * (1 - (1 - rate) ** 6 - 6 * rate * (1 - rate) ** 5)  # of a binomial count of six menus
    assert design.name == "draws"
    words = "no context has several records, where menus included independently would give about"
    said = re.fullmatch(rf"{words} (\d+) of them several", design.reason)
    assert said is not None
    assert int(said[1]) == pytest.approx(several, abs=1)


def test_mostly_empty_contexts_that_cannot_tell_are_included() -> None:
    """Twenty records would hardly meet at 1,220 contexts; empty contexts carry weight under inclusion alone."""
    assert asked([(c, c % 6) for c in range(20)], 1220) == Design(
        "inclusion", "most contexts have no record, and too few have one to tell otherwise"
    )


def test_a_single_menu_that_is_there_or_not_follows_the_majority() -> None:
    assert asked([(c, 0) for c in range(60)], 100).name == "draws"
    assert asked([(c, 0) for c in range(40)], 100).name == "inclusion"


def test_an_arena_with_empty_contexts_and_a_few_repeated_prompts_is_drawn() -> None:
    cells = [(c, c % 6) for c in range(97)]
    assert asked([*cells, (0, 5), (8, 5)], 100) == Design(
        "draws", "most contexts have one record, and too few have several to tell otherwise"
    )


@quick
@given(st.integers(0, 10**6))
def test_independent_inclusion_is_told_from_an_arena_with_gaps(seed: int) -> None:
    """Recovery: menus included by chance, and single duels of which a share is lost by chance."""
    rng = np.random.default_rng(seed)
    rate, lost = rng.uniform(0.1, 0.9), rng.uniform(0, 0.6)
    included = [(c, m) for c in range(300) for m in range(6) if rng.random() < rate]
    drawn = [(c, int(rng.integers(6))) for c in range(300) if rng.random() > lost]
    assert (asked(included, 300).name, asked(drawn, 300).name) == ("inclusion", "draws")


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
    assert asked(cells, 30, [0.5] * 40).name == "draws"
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
    alone = sum(count == 1 for count in Counter(c for c, _ in held).values())
    if repeats:
        assert design == Design("draws", f"{repeats} time{'s'[: repeats - 1]} a context asks the same menu again")
    elif alone == 5:
        assert design == Design("draws", "every context has exactly one record")
    else:  # five contexts are too few for anything else to be clear, so what most contexts hold decides
        assert design.name == ("draws" if alone > 2 else "inclusion")


def test_a_given_design_wins() -> None:
    log = Feedback.from_partitions(np.zeros((2, 1)), [duel("a", "b", "a")] * 2, design="inclusion")
    assert log.how_designed == Design("inclusion", "as given")

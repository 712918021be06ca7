"""The menu catalogue Q and the sets Q_jk, against a literal listing."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.feedback.log import Feedback
from nasheval.feedback.menus import BEST_WORST, ORDER, PARTIAL, MenuCatalogue, catalogue
from nasheval.feedback.partition import Partition, Zero, best_worst, duel, ranking, scores, top, weak, winner
from nasheval.feedback.records import Records

from .oracle import Plain, Said, build, logs, quick
from .test_verdicts import log_of

# -- a literal listing ------------------------------------------------------------------------------------------------

Menu = tuple[int, tuple[int, ...], int]  # size, agents, form: in the order of the catalogue


def form(said: Said) -> int:
    if said.zero is Zero.LAST:
        return PARTIAL
    if said.zero is Zero.CENSORED:
        return BEST_WORST if len(said.blocks) > 2 else len(said.blocks[0])
    return ORDER


def menu(plain: Plain, said: Said) -> Menu:
    members = tuple(sorted(plain.agents.index(name) for name in said.menu))
    return len(members), members, form(said)


def listed(menus: MenuCatalogue) -> list[Menu]:
    members = [tuple(menus.members(m).tolist()) for m in range(len(menus))]
    return [(int(s), m, int(f)) for s, m, f in zip(menus.sizes, members, menus.form, strict=True)]


@quick
@given(logs(has=()))
def test_the_catalogue_is_the_listing(plain: Plain) -> None:
    menus = build(plain).menus
    asked = [menu(plain, said) for said in plain.grouped().said]
    assert listed(menus) == sorted(set(asked))
    assert [listed(menus)[m] for m in menus.of_record] == asked
    assert menus.counts.tolist() == [asked.count(m) for m in sorted(set(asked))]


@quick
@given(logs(has=()), st.sampled_from([7, 200, 2**31]))
def test_unused_agents_change_nothing(plain: Plain, n_agents: int) -> None:
    """More agents move the search for distinct menus from a table to a sort, and from keys to rows."""
    records = build(plain).records
    few, many = catalogue(records, len(plain.agents)), catalogue(records, n_agents)
    assert listed(few) == listed(many)
    assert few.of_record.tolist() == many.of_record.tolist()


# -- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (duel("a", "b", "a"), ORDER),
        (duel("a", "b", "tie"), ORDER),
        (duel("a", "b", "both_bad"), ORDER),
        (ranking("abcd"), ORDER),
        (weak([["a"], ["b", "c"], ["d"]]), ORDER),
        (scores({"a": 1, "b": 2}), ORDER),
        (winner("a", "ab"), ORDER),
        (winner("a", "abcd"), 1),
        (top("ab", "abcd"), 2),
        (top("abc", "abcd"), 3),
        (best_worst("a", "c", "abc"), ORDER),
        (best_worst("a", "d", "abcd"), BEST_WORST),
        (Partition((("a",), ("b", "c")), Zero.LAST), PARTIAL),
    ],
    ids=str,
)
def test_the_form_of_the_question(answer: Partition, expected: int) -> None:
    assert log_of(answer).menus.form.tolist() == [expected]


def test_one_set_of_agents_asked_in_three_ways_is_three_menus() -> None:
    answers = [ranking("abcd"), winner("a", "abcd"), winner("b", "abcd"), top("ab", "abcd"), ranking("dcba")]
    menus = log_of(*answers).menus
    assert listed(menus) == [(4, (0, 1, 2, 3), form) for form in (ORDER, 1, 2)]
    assert menus.of_record.tolist() == [0, 1, 1, 2, 0]


# -- corners ----------------------------------------------------------------------------------------------------------


def test_menus_of_two_hundred_among_three_hundred() -> None:
    rng = np.random.default_rng(0)
    drawn = [np.sort(rng.choice(300, 200, replace=False)) for _ in range(3)]
    rows = [drawn[i] for i in (0, 1, 0, 2, 1)]
    records = Records.build(sizes=np.full(5, 200), agent=np.concatenate(rows), rank=np.zeros(1000))
    menus = catalogue(records, 300)
    assert listed(menus) == sorted((200, tuple(map(int, row)), ORDER) for row in drawn)
    assert [menus.members(m).tolist() for m in menus.of_record] == [row.tolist() for row in rows]


@pytest.mark.parametrize("size", [2, 10, 11, 12])
def test_menus_on_either_side_of_what_a_64_bit_key_can_tell_apart(size: int) -> None:
    rng = np.random.default_rng(size)
    rows = [tuple(sorted(rng.choice(np.arange(40, 64), size, replace=False).tolist())) for _ in range(30)] * 2
    records = Records.build(sizes=np.full(60, size), agent=np.array(rows).ravel(), rank=np.zeros(60 * size))
    menus = catalogue(records, 64)
    assert listed(menus) == sorted({(size, row, ORDER) for row in rows})
    assert [listed(menus)[m][1] for m in menus.of_record] == rows


def test_no_records_make_an_empty_catalogue() -> None:
    log = Feedback.from_partitions(np.zeros((3, 1)), [], agents=["a", "b"], context_of=[])
    assert len(log.menus) == 0
    assert log.menus.counts.tolist() == []


@pytest.mark.parametrize("name", ["offsets", "agent", "form", "of_record", "counts"])
def test_the_catalogue_cannot_be_written_to(name: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(log_of(duel("a", "b", "a")).menus, name)[0] = 1


@quick
@given(logs(has=()))
def test_columns_are_the_pairs_of_every_menu_and_verdicts_find_theirs(plain: Plain) -> None:
    log = build(plain)
    columns, verdicts = log.menus.columns, log.verdicts
    expected = [(m, j, k) for m in range(len(log.menus)) for j, k in combinations(log.menus.members(m).tolist(), 2)]
    assert list(zip(columns.menu.tolist(), columns.j.tolist(), columns.k.tolist(), strict=True)) == expected
    assert log.menus.agent[columns.left].tolist() == columns.j.tolist()
    assert log.menus.agent[columns.right].tolist() == columns.k.tolist()
    column = log.menus.column_of_verdict
    assert columns.j[column].tolist() == verdicts.j.tolist()
    assert columns.k[column].tolist() == verdicts.k.tolist()
    assert columns.menu[column].tolist() == log.menus.of_record[verdicts.record].tolist()

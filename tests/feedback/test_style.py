"""Differences in style and place, against a loop over records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from nasheval.errors import InputError
from nasheval.feedback.arrow import from_arrow, to_arrow
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.feedback.style import columns_of, differences, one_order, sizes
from tests.payoff.nuisances import ragged_log


def styled(seed=0, sizes_of=(2, 3, 2, 4, 2)):
    """A log of menus of several sizes in which every answer has two numbers and a place."""
    rng, K = np.random.default_rng(seed), 5
    menus = [rng.permutation(K)[:size] for size in sizes_of]
    agent = np.concatenate(menus)
    records = Records.build(
        sizes=np.array(sizes_of),
        agent=agent,
        rank=rng.integers(3, size=len(agent)),
        shown=np.concatenate([rng.permutation(size) for size in sizes_of]),
        style=np.stack([agent + 0.25, rng.integers(9, size=len(agent))], axis=1),
    )
    return Feedback.from_records(records, agents=list("abcde"), style=("length", "bold"))


def by_hand(log, columns):
    """The same, record by record and pair by pair."""
    records, found = log.records, []
    for r in range(len(records)):
        entries = range(records.offsets[r], records.offsets[r + 1])
        for a in entries:
            for b in entries:
                if a < b:
                    d = {name: records.style[a, s] - records.style[b, s] for s, name in enumerate(log.style)}
                    d["position"] = 1.0 if records.shown[a] < records.shown[b] else -1.0
                    found.append([d[name] for name in columns])
    return np.array(found)


@pytest.mark.parametrize("sizes_of", [(2, 2, 2), (2, 3, 2, 4, 2), (3,)])
def test_differences_are_those_of_a_loop(sizes_of):
    log = styled(sizes_of=sizes_of)
    for columns in (("length",), ("position", "bold"), ("length", "bold", "position")):
        np.testing.assert_allclose(differences(log, columns), by_hand(log, columns))


def test_style_stays_with_its_agent():
    log = styled()
    for other in (
        log[[3, 1, 0]],
        log.keep_agents("edcba"),
        Feedback.concat([log, log]),
        log.keep_records(np.arange(5) > 1),
    ):
        names = np.array(other.agents)[other.records.agent]
        np.testing.assert_allclose(other.records.style[:, 0], ["abcde".index(name) + 0.25 for name in names])
        assert other.style == log.style


def test_logs_of_different_style_have_none_together():
    log = styled()
    both = Feedback.concat([log, replace(log, style=("words", "bold"))])
    assert (both.style, both.records.style) == ((), None)


def test_a_log_keeps_its_style_as_a_table():
    log = styled()
    again = from_arrow(to_arrow(log))
    assert again.style == log.style
    np.testing.assert_array_equal(again.records.style, log.records.style)
    assert to_arrow(again).equals(to_arrow(log))


def test_damaged_style_is_refused():
    table = to_arrow(styled())
    nested = table["_records"].combine_chunks()
    struct = nested.values
    fields = {field.name: struct.field(i) for i, field in enumerate(struct.type)}
    fields["style.bold"] = pa.array([[1.0]] * len(struct))
    wrong = pa.ListArray.from_arrays(nested.offsets, pa.StructArray.from_arrays(list(fields.values()), list(fields)))
    with pytest.raises(ValueError, match="style and 'agents' differ in length"):
        from_arrow(table.set_column(table.column_names.index("_records"), "_records", wrong))


def test_sizes_are_doublings_and_other_numbers_stay():
    np.testing.assert_allclose(sizes(np.array([[0.0, 1.0], [3.0, np.nan]])), [[0, 1], [2, np.nan]])
    np.testing.assert_allclose(sizes(np.array([-1.0, 3.0])), [-1, 3])


def test_what_can_be_adjusted_for():
    log = styled()
    assert columns_of(log, "style") == ("length", "bold")
    assert columns_of(log, ("position", "style", "bold")) == ("position", "length", "bold")
    with pytest.raises(InputError, match="accepted are position, style, length, bold"):
        columns_of(log, ["colour"])
    with pytest.raises(InputError, match="this log has no style"):
        columns_of(ragged_log()[0], "style")
    with pytest.raises(InputError, match="does not say which agent was shown first"):
        columns_of(replace(log, records=log.records.replace(shown=None)), "position")


def test_position_that_is_that_of_agents_is_told():
    first = Records.build(
        sizes=np.full(9, 2), agent=np.tile([0, 1], 9), rank=np.tile([0, 1], 9), shown=np.tile([0, 1], 9)
    )
    star = Feedback.from_records(first, agents=["a", "b"])
    assert "cannot be told from agents" in one_order(star)
    both = star.records.replace(shown=np.array([0, 1] * 8 + [1, 0], np.int8))
    assert one_order(replace(star, records=both)) is None

"""`read_rankings`: three shapes of table, checked against pair verdicts worked out one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError, ReadError
from nasheval.feedback.readers.rankings import read_rankings
from tests.feedback.oracle import equal_logs

BALLOTS = [{"p": 1, "q": 2, "r": 3}, {"q": 1, "s": 1}, {"s": -1.5, "p": 2, "q": 2, "r": 7}]


def long(ballots, **more):
    rows = [(b, agent, rank) for b, ballot in enumerate(ballots) for agent, rank in ballot.items()]
    return pa.table({"id": [r[0] for r in rows], "item": [r[1] for r in rows], "rank": [r[2] for r in rows], **more})


def wide(ballots, agents="pqrs"):
    return pa.table({agent: pa.array([ballot.get(agent) for ballot in ballots], pa.float64()) for agent in agents})


def read_long(table, **options):
    return read_rankings(table, ballot="id", agent="item", rank="rank", **options)


def brute_force(ballots):
    """Every (record, j, k, z) by comparing two ranks at a time."""
    agents = sorted({agent for ballot in ballots for agent in ballot})
    return agents, [
        (record, agents.index(j), agents.index(k), (ballot[j] < ballot[k]) - (ballot[j] > ballot[k]))
        for record, ballot in enumerate(ballots)
        for j in sorted(ballot)
        for k in sorted(ballot)
        if j < k
    ]


def verdicts(log):
    v = log.verdicts
    return list(zip(v.record.tolist(), v.j.tolist(), v.k.tolist(), v.z.tolist(), strict=True))


def test_a_long_table():
    log = read_long(long(BALLOTS))
    assert (list(log.agents), verdicts(log)) == brute_force(BALLOTS)
    assert log.report.kind == "rankings, a row per agent"
    assert log.report.roles == {"ballot": "id", "agent": "item", "rank": "rank"}
    assert (log.n_contexts, log.report.rows, log.report.used) == (3, 9, 9)


def test_a_column_an_agent():
    log = read_rankings(wide(BALLOTS), agents=["p", "q", "r", "s"])
    assert (list(log.agents), verdicts(log)) == brute_force(BALLOTS)
    assert log.report.kind == "rankings, a column per agent"


def test_names_in_order():
    table = pa.table({"best": ["p", "q"], "second": ["q", "s"], "third": ["r", None]})
    log = read_rankings(table, order=["best", "second", "third"])
    assert (list(log.agents), verdicts(log)) == brute_force([{"p": 1, "q": 2, "r": 3}, {"q": 1, "s": 2}])
    assert log.report.kind == "rankings, best first"


def test_a_gap_among_names_in_order_is_no_agent():
    log = read_rankings(pa.table({"1": ["p"], "2": [" "], "3": ["q "]}), order=["1", "2", "3"])
    assert (log.agents, verdicts(log)) == (("p", "q"), [(0, 0, 1, 1)])


ballots = st.lists(
    st.dictionaries(st.sampled_from("pqrs"), st.integers(-3, 3) | st.sampled_from([0.5, 1e9]), min_size=2),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(ballots, st.randoms(use_true_random=False))
def test_long_and_wide_tables_agree_with_brute_force(some, random):
    log = read_long(long(some))
    assert (list(log.agents), verdicts(log)) == brute_force(some)
    agents = sorted({agent for ballot in some for agent in ballot})
    assert equal_logs(read_rankings(wide(some, agents), agents=agents), log)
    table = long(some)
    rows = list(range(table.num_rows))
    random.shuffle(rows)  # the rows of a ballot need not stand together
    ids, shuffled = table["id"].to_pylist(), read_long(table.take(rows))
    order = list(dict.fromkeys(ids[row] for row in rows))
    agents, expected = brute_force([some[ballot] for ballot in order])
    assert (list(shuffled.agents), verdicts(shuffled)) == (agents, expected)


@settings(deadline=None)
@given(st.lists(st.permutations("pqrs").flatmap(lambda p: st.integers(2, 4).map(lambda n: p[:n])), min_size=1))
def test_names_in_order_agree_with_brute_force(some):
    table = pa.table(
        {str(place): pa.array([dict(enumerate(b)).get(place) for b in some], pa.string()) for place in range(4)}
    )
    log = read_rankings(table, order=["0", "1", "2", "3"])
    expected = brute_force([{agent: place for place, agent in enumerate(ballot)} for ballot in some])
    assert (list(log.agents), verdicts(log)) == expected


def test_ballots_told_apart_by_two_columns():
    table = pa.table({"id": [1, 1, 1, 1, 2, 2], "trait": ["a", "a", "b", "b", "a", "a"],
                      "item": list("pqpqpq"), "rank": [1, 2, 2, 1, 1, 1]})  # fmt: skip
    log = read_rankings(table, ballot=["id", "trait"], agent="item")
    assert verdicts(log) == [(0, 0, 1, 1), (1, 0, 1, -1), (2, 0, 1, 0)]


def test_the_columns_agent_and_rank_are_found_by_themselves():
    table = pa.table({"b": [1, 1], "agent": ["p", "q"], "rank": [2, 1]})
    assert verdicts(read_rankings(table, ballot="b")) == [(0, 0, 1, -1)]


def test_ranks_may_be_text_that_is_a_number():
    assert verdicts(read_long(long([{"p": "10", "q": " 9.5"}]))) == [(0, 0, 1, -1)]


def test_what_a_ballot_carries_beside_its_ranks():
    table = long(BALLOTS, lang=["en"] * 3 + ["de"] * 2 + ["en"] * 4, prompt=["a"] * 3 + ["b"] * 2 + ["a"] * 4,
                 who=["u"] * 3 + [None] * 2 + ["v"] * 4, w=[2.0] * 3 + [1.0] * 2 + [0.5] * 4,
                 e=[0.5] * 9, t=[1] * 3 + [None] * 2 + [3] * 4)  # fmt: skip
    log = read_long(table, context=["lang"], text="prompt", voter="who", weight="w", propensity="e", time="t")
    assert log.contexts.to_pylist() == [{"lang": "en", "prompt": "a"}, {"lang": "de", "prompt": "b"}]
    assert log.context_of.tolist() == [0, 0, 1]
    assert log.records.weight.tolist() == [2.0, 0.5, 1.0]
    assert log.records.voter.tolist() == [0, 1, -1]


def test_covariates_joined_by_ballot():
    table = long([{"p": 1, "q": 2}, {"q": 1, "p": 2}])
    log = read_long(table, join=(pa.table({"id": [1, 0], "age": [30, 40]}), "id"), context=["age"])
    assert log.contexts["age"].to_pylist() == [40, 30]


@pytest.mark.parametrize("role", ["context", "voter", "weight", "time", "propensity", "context_id", "text"])
def test_what_changes_inside_a_ballot_is_refused(role):
    """A column of the items (their age, say) is no context of the ballot."""
    table = long([{"p": 1, "q": 2}, {"p": 2, "q": 1}], x=[0.5, 0.5, 0.25, 1.0])
    table = table.set_column(3, "x", table["x"].cast(pa.string())) if role in ("text", "context_id") else table
    with pytest.raises(ReadError, match="column 'x', row 4: the value differs from that in the first row of the same"):
        read_long(table, **{role: ["x"] if role == "context" else "x"})


def test_a_bad_row_takes_its_whole_ballot_along(capsys):
    """What is left of the ballot would be another ranking."""
    table = long([{"p": 1, "q": 2}, {"p": 1, "q": None, "r": 3}, {"q": 1, "r": 1}])
    log = read_long(table, on_error="skip")
    assert verdicts(log) == [(0, 0, 1, 1), (1, 1, 2, 0)]
    assert (log.report.rows, log.report.used) == (7, 4)
    assert capsys.readouterr().err == "skipped: the table, column 'rank', row 4: found nothing as rank.\n"


def test_a_ballot_that_meets_a_bad_rank_in_a_wide_table_is_skipped():
    table = pa.table({"p": ["1", "x", "2"], "q": ["2", "1", "1"], "r": ["", "2", "3"]})
    log = read_rankings(table, agents=["p", "q", "r"], on_error="skip")
    assert verdicts(log) == [(0, 0, 1, 1), (1, 0, 1, -1), (1, 0, 2, 1), (1, 1, 2, 1)]


@pytest.mark.parametrize(
    "options",
    [{}, {"agents": ["p", "q"], "order": ["p", "q"]}, {"ballot": "id", "agents": ["p", "q"]}, {"agent": "item"}],
)
def test_the_shape_must_be_said_in_one_way(options):
    with pytest.raises(InputError, match="Say how the ballots are stored, in one way"):
        read_rankings(long(BALLOTS), **options)


def test_one_column_is_no_ranking():
    with pytest.raises(InputError, match="agents= names 'p' alone; a ranking needs two or more"):
        read_rankings(wide(BALLOTS), agents=["p", "p"])
    with pytest.raises(InputError, match="order is 'pq'; accepted is a list of names"):
        read_rankings(wide(BALLOTS), order="pq")

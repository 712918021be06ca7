"""`read_scores`: known propensities, ties and runs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.scores import read_scores
from tests.feedback.oracle import equal_logs

AGENTS = ["a", "b", "c", "d", "e"]


def table(rows, agents=AGENTS, **more):
    return pa.table({agent: [float(row[i]) for row in rows] for i, agent in enumerate(agents)} | more)


def random_scores(n, seed=0, levels=3):
    return np.random.default_rng(seed).integers(0, levels, (n, len(AGENTS)))


def pairs_of(log):
    """The pairs asked at each context."""
    pair = list(zip(log.verdicts.j.tolist(), log.verdicts.k.tolist(), strict=True))
    return [pair[s:e] for s, e in zip(log.context_offsets[:-1], log.context_offsets[1:], strict=True)]


def test_all_pairs_by_default():
    scores = random_scores(20)
    log = read_scores(table(scores), agents=AGENTS)
    expected = [int(np.sign(row[j] - row[k])) for row in scores for j, k in combinations(range(5), 2)]
    assert log.verdicts.z.tolist() == expected
    assert (log.records.propensity == 1).all()
    assert (log.design, log.records.shown, log.records.weight) == ("inclusion", None, None)
    assert set(log.verdicts.zero[log.verdicts.z == 0].tolist()) == {Zero.TIE}


def test_agents_keep_the_order_given():
    log = read_scores(table([[1, 2, 3, 4, 5]]), agents=["e", "a"])
    assert (log.agents, log.verdicts.z.tolist()) == (("e", "a"), [1])


# -- the draw of pairs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [1, 4, 9, 10])
def test_exactly_that_many_distinct_pairs_with_their_known_propensity(wanted):
    log = read_scores(table(random_scores(50)), agents=AGENTS, pairs_per_context=wanted)
    assert all(len(set(pairs)) == len(pairs) == wanted for pairs in pairs_of(log))
    assert (log.records.propensity == wanted / 10).all()


def test_drawn_pairs_carry_the_verdicts_of_their_own_row():
    scores = random_scores(200, levels=100)
    log = read_scores(table(scores), agents=AGENTS, pairs_per_context=3)
    v, row = log.verdicts, log.context_of[log.verdicts.record]
    assert v.z.tolist() == np.sign(scores[row, v.j] - scores[row, v.k]).tolist()


def test_sets_of_pairs_are_drawn_uniformly():
    """Three pairs of three agents, two a prompt: the three possible sets are equally likely."""
    log = read_scores(table(np.ones((6000, 3)), AGENTS[:3]), agents=AGENTS[:3], pairs_per_context=2)
    counts = np.unique([str(pairs) for pairs in pairs_of(log)], return_counts=True)[1]
    assert len(counts) == 3
    assert stats.chisquare(counts).pvalue > 0.01


def test_the_inclusion_of_every_pair_is_uniform():
    log = read_scores(table(np.ones((4000, 5))), agents=AGENTS, pairs_per_context=4)
    seen = log.pair_counts.votes[np.triu_indices(5, 1)]
    assert seen.sum() == 16_000
    # A pair is in with p = 0.4, and the ten counts add up to a constant: n p (1 - p) each, 10/9 too much together.
    statistic = ((seen - 1600) ** 2).sum() / (4000 * 0.4 * 0.6) * 9 / 10
    assert stats.chi2.sf(statistic, 9) > 0.01


def test_the_draw_follows_the_seed():
    def drawn(seed):
        return read_scores(table(random_scores(30)), agents=AGENTS, pairs_per_context=4, seed=seed)

    assert equal_logs(drawn(7), drawn(7))
    assert not equal_logs(drawn(7), drawn(8))


def test_drawing_in_pieces_is_still_a_draw(monkeypatch):
    monkeypatch.setattr("nasheval.feedback.readers.scores._CHUNK", 25)  # two rows of ten pairs at a time
    log = read_scores(table(random_scores(33)), agents=AGENTS, pairs_per_context=4)
    assert [len(set(pairs)) for pairs in pairs_of(log)] == [4] * 33
    assert len({str(pairs) for pairs in pairs_of(log)}) > 15


# -- ties -------------------------------------------------------------------------------------------------------------


def test_scores_too_far_apart_for_a_float_still_compare():
    huge = table([[1.7e308, -1.7e308]], ["a", "b"])
    assert read_scores(huge, agents=["a", "b"]).verdicts.z.tolist() == [1]


scores_of = st.lists(
    st.lists(st.sampled_from([0, 0.1, 0.2, 0.25, 0.3, 1, 5, -2]), min_size=4, max_size=4), min_size=1, max_size=6
)


def within(row, tolerance):
    """The order of scores, where those within the tolerance of the best of a block join it."""
    blocks, leader = [], np.inf
    for value, agent in sorted(zip(row, "abcd", strict=True), key=lambda pair: -pair[0]):
        if not blocks or leader - value > tolerance:
            blocks.append([])
            leader = value
        blocks[-1].append(agent)
    return partition.weak(blocks)


@settings(deadline=None)
@given(scores_of)
def test_duels_agree_with_the_rankings_of_partition_scores(rows):
    log = read_scores(table(rows, AGENTS[:4]), agents=AGENTS[:4])
    one_by_one = [partition.scores(dict(zip("abcd", row, strict=True))) for row in rows]
    rankings = Feedback.from_partitions(np.empty((len(rows), 0)), one_by_one, agents=AGENTS[:4])
    assert log.verdicts.z.tolist() == rankings.verdicts.z.tolist()


# -- runs and repeated prompts ----------------------------------------------------------------------------------------


def test_runs_of_an_agent_are_repeated_records_that_share_one_unit_of_weight():
    data = pa.table({"a1": [1.0], "a2": [0.0], "b1": [0.0], "b2": [0.0], "c1": [1.0], "c2": [1.0]})
    log = read_scores(data, agents={"a": ["a1", "a2"], "b": ["b1", "b2"], "c": ["c1", "c2"]})
    assert log.agents == ("a", "b", "c")
    assert (log.n_records, set(log.records.weight.tolist())) == (6, {0.5})
    assert log.pair_counts.wins.tolist() == [[0, 0.5, 0], [0, 0, 0], [0.5, 1.0, 0]]


def test_a_drawn_pair_brings_all_its_runs():
    data = pa.table({f"{agent}{run}": [float(run)] * 40 for agent in "abc" for run in range(3)})
    log = read_scores(data, agents={a: [f"{a}{r}" for r in range(3)] for a in "abc"}, pairs_per_context=1)
    assert all(len(pairs) == 3 and len(set(pairs)) == 1 for pairs in pairs_of(log))
    assert (log.records.propensity == 1 / 3).all()


def test_rows_of_a_repeated_prompt_share_one_unit_of_weight():
    rows = table([[1, 0], [0, 1], [1, 0]], ["a", "b"], prompt=["p", "p", "q"])
    log = read_scores(rows, agents=["a", "b"], text="prompt")
    assert log.n_contexts == 2
    assert log.records.weight.tolist() == [0.5, 0.5, 1.0]


def test_contexts_by_id():
    log = read_scores(table([[1, 0], [0, 1]], ["a", "b"], id=["i", "i"]), agents=["a", "b"], context_id="id")
    assert (log.n_contexts, log.records.weight.tolist()) == (1, [0.5, 0.5])


def test_rows_without_a_score_can_be_skipped(capsys):
    data = pa.table({"a": [1.0, None, 0.0], "b": [0.0, 1.0, 1.0], "lang": ["en", "de", "fr"]})
    log = read_scores(data, agents=["a", "b"], context=["lang"], on_error="skip")
    assert log.contexts["lang"].to_pylist() == ["en", "fr"]
    assert (log.verdicts.z.tolist(), log.report.used) == ([1, -1], 2)
    assert capsys.readouterr().err == "skipped: the table, column 'a', row 2: no score: found nothing.\n"

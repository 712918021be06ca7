"""Logs that grow: who is let in, what stays, and propensities over both periods."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import nasheval as ne
from nasheval.errors import InputError
from nasheval.feedback.growing import admissible, grown
from nasheval.nuisance.crossfit import continued_folds, make_folds


def log_of(pairs, rng=None, voter=None, propensity=None, x=None):
    said = [ne.partition.duel(j, k, j) for j, k in pairs]
    x = np.arange(len(pairs), dtype=float) if x is None else x
    return ne.Feedback.from_partitions(pa.table({"x": x}), said, voter=voter, propensity=propensity, design="draws")


BEFORE = log_of([("b", "c")] * 6 + [("a", "c")] * 2)


def test_agents_and_contexts_of_before_come_first():
    more, left = admissible(BEFORE, log_of([("0", "a"), ("b", "a")]))
    log = grown(BEFORE, more)
    assert log.agents == ("a", "b", "c", "0")
    assert not left
    assert log.contexts["x"].to_pylist() == [*range(8), 0, 1]
    assert (log.n_records, log.design) == (10, "draws")


def test_newcomers_with_few_votes_are_left_out_with_their_votes_and_known_agents_stay():
    more = log_of([("d", "a")] * 3 + [("e", "a")] + [("a", "b")])
    kept, left = admissible(BEFORE, more, min_votes=2)
    assert left == {"e": 1}
    assert set(kept.agents) >= {"a", "b", "d"}
    assert kept.n_records == 4
    _, left = admissible(BEFORE, log_of([("d", "e")] * 3 + [("d", "a")] + [("e", "a")] * 2 + [("a", "b")]), min_votes=5)
    assert left == {"d": 4, "e": 5}  # e has two without d


def test_nothing_to_learn_from_is_said():
    with pytest.raises(InputError, match=r"all are on newcomers \(d\) with fewer votes than min_votes=9"):
        admissible(BEFORE, log_of([("d", "a")] * 3), min_votes=9)
    with pytest.raises(InputError, match="0 were given"):
        admissible(BEFORE, BEFORE[:0])
    with pytest.raises(InputError, match="min_votes=-1"):
        admissible(BEFORE, BEFORE, min_votes=-1)
    with pytest.raises(InputError, match="no context column 'x'"):
        admissible(BEFORE, ne.Feedback.from_partitions(pa.table({"y": [1.0]}), [ne.partition.duel("a", "b", "a")]))


def test_more_context_columns_than_before_are_left_aside():
    more = ne.Feedback.from_partitions(pa.table({"y": ["u"], "x": [3.0]}), [ne.partition.duel("a", "b", "a")])
    assert admissible(BEFORE, more)[0].contexts.column_names == ["x"]


def test_propensities_are_those_of_both_periods_by_hand():
    before = log_of([("a", "b")] * 6, propensity=[0.5] * 6)
    more = log_of([("a", "b")] * 1 + [("a", "d")] * 1, propensity=[0.25, 0.75])
    log = grown(before, admissible(before, more)[0])
    # three quarters of the contexts are old: a and b 3/4 0.5 + 1/4 0.25, a and d 1/4 0.75
    np.testing.assert_allclose(log.records.propensity, [0.4375] * 7 + [0.1875])


def test_propensities_of_both_periods_make_means_right():
    rng = np.random.default_rng(0)
    sums = np.zeros(3)
    for _ in range(200):
        first, second = (np.where(rng.random(n) < p, "b", "d") for n, p in ((60, 0.8), (40, 0.3)))
        logs = [
            log_of([("a", k) for k in names], propensity=np.where(names == "b", p, 1 - p))
            for names, p in ((first, 0.8), (second, 0.3))
        ]
        if "d" not in first or "b" not in second:
            continue
        log = grown(logs[0], admissible(*logs)[0])
        weight = 1 / np.asarray(log.records.propensity) / log.n_contexts
        sums += [1, weight[log.menus.of_record == 0].sum(), weight[log.menus.of_record == 1].sum()]
    np.testing.assert_allclose(sums[1:] / sums[0], 1, atol=0.02)


def test_votes_without_propensities_are_refused_where_all_others_have_them_and_the_reverse_drops_them():
    known = log_of([("a", "b")] * 4, propensity=[0.5] * 4)
    with pytest.raises(InputError, match="propensity of every vote"):
        admissible(known, log_of([("a", "d")]))
    assert admissible(BEFORE, known)[0].records.propensity is None


def test_voters_stay_in_their_fold_and_parts_do_not_matter():
    voters = [f"v{i % 30}" for i in range(120)]
    before = log_of([("a", "b")] * 120, voter=voters)
    fold = make_folds(before, 4)
    parts = [log_of([("a", "d")] * 60, voter=[f"v{20 + i % 20}" for i in range(start, start + 60)]) for start in (0, 7)]
    once = grown(before, ne.Feedback.concat(parts))
    first = grown(before, parts[0])
    twice = grown(first, parts[1])
    folds = continued_folds(once, fold, 4)
    step = continued_folds(twice, continued_folds(first, fold, 4), 4)
    np.testing.assert_array_equal(folds, step)
    np.testing.assert_array_equal(folds[:120], fold)
    for voter in np.unique(once.sole_voters):
        assert len(set(folds[once.sole_voters == voter])) == 1


def test_new_contexts_are_spread_evenly():
    before = log_of([("a", "b")] * 10)
    fold = make_folds(before, 5)
    log = grown(before, log_of([("a", "d")] * 100))
    counts = np.bincount(continued_folds(log, fold, 5)[10:], minlength=5)
    assert counts.min() >= 18

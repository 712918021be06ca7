"""Votes beside what the crowd would say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

import nasheval as ne
from nasheval.audit.crowd import _calibrated, _disjoint, _ties, crowd_of

from .crowds import fitted, world


@given(st.lists(st.integers(2, 7), min_size=1, max_size=12), st.integers(0, 5))
def test_pairs_kept_of_a_ballot_share_no_agent(sizes, seed):
    agents = list("abcdefg")
    partitions = [tuple((name,) for name in agents[:size]) for size in sizes]
    log = ne.Feedback.from_partitions(pd.DataFrame({"x": range(len(sizes))}), partitions, agents=agents)
    rows = _disjoint(log, np.random.default_rng(seed))
    kept = log.verdicts.record[rows]
    assert np.bincount(kept, minlength=len(sizes)).tolist() == [size // 2 for size in sizes]
    for record in range(len(sizes)):
        mine = rows[kept == record]
        both = np.concatenate([log.verdicts.j[mine], log.verdicts.k[mine]])
        assert len(set(both.tolist())) == len(both)


def test_duels_are_all_kept_in_order():
    log = world("honest", honest=30, votes=600)[0].log
    assert _disjoint(log, np.random.default_rng(0)).tolist() == list(range(600))


def test_ties_are_counted_among_alike_predictions():
    mu = np.repeat([0.0, 0.8], 500)
    z = np.where(np.arange(1000) % 2 == 0, 1, 0)
    z[500:] = 1
    tie = _ties(z, mu)
    assert tie[0] == pytest.approx(0.5, abs=0.01)
    assert tie[-1] < 0.01
    assert not _ties(np.ones(3), np.zeros(3)).any()


@pytest.mark.parametrize("slope", [0.5, 1.0, 1.6])
def test_log_odds_are_calibrated(slope):
    rng = np.random.default_rng(0)
    truth = rng.normal(0, 0.8, 40_000)
    z = np.where(rng.random(len(truth)) < expit(truth), 1, -1)
    mu = 2 * expit(truth / slope) - 1
    found = _calibrated(z, mu, np.zeros(len(z)))
    kept = np.abs(found) < 3.5
    assert np.polyfit(truth[kept], found[kept], 1)[0] == pytest.approx(1.0, abs=0.05)


def test_a_crowd_expects_what_votes_say():
    simulated, stage1 = world("honest", honest=100, votes=5000)
    crowd = crowd_of(stage1)
    assert len(crowd) == simulated.log.n_records
    assert crowd.by_voter
    assert crowd.n_voters == 100
    assert crowd.votes.sum() == 5000
    decided = crowd.at(crowd.decided)
    assert (decided.z > 0).mean() == pytest.approx(decided.chance.mean(), abs=0.02)
    assert crowd.tie.mean() == pytest.approx((crowd.z == 0).mean(), abs=0.01)
    np.testing.assert_allclose(logit(crowd.chance), crowd.logit, atol=1e-9)


def test_ballots_that_are_cut_into_pairs_keep_their_order():
    rng = np.random.default_rng(0)
    agents = list("abcdef")
    partitions = [tuple((agents[a],) for a in rng.permutation(6)[: rng.integers(3, 6)]) for _ in range(150)]
    voter = [f"v{i % 15}" for i in range(150)]
    log = ne.Feedback.from_partitions(pd.DataFrame({"x": rng.normal(size=150)}), partitions, agents=agents, voter=voter)
    stage1 = fitted(log)
    assert stage1.nuisances.log.ballots is not None
    crowd = crowd_of(stage1)
    key = {(r, j, k): mu for r, j, k, mu in zip(*_cells(log), stage1.nuisances.mu, strict=True)}
    for row in range(len(crowd)):
        assert crowd.mu[row] == key[crowd.record[row], crowd.j[row], crowd.k[row]]


def _cells(log):
    return log.verdicts.record, log.verdicts.j, log.verdicts.k

"""Intervals, clusters, equilibria and cycles: by hand on small logs, by simulation on many."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import norm, t

from nasheval.errors import InputError
from nasheval.feedback import partition
from nasheval.feedback.groups import Groups
from nasheval.feedback.links import BRIDGED
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import L2
from nasheval.payoff import inference
from nasheval.payoff.aggregators import Cubic
from nasheval.payoff.clusters import Moments, group_moments
from nasheval.payoff.cycles import find_cycles, signs
from nasheval.payoff.inference import GroupPayoff, group_payoff, group_payoffs, payoffs_by
from nasheval.payoff.intervals import critical_value
from nasheval.payoff.pseudo import pseudo_outcomes

from .dense import covariance_of
from .nuisances import arbitrary_fit, duel_fit, duel_log, linear_margins, ragged_log

J, K_ = np.triu_indices(4, 1)


def simulate(rng, n, **more):
    centre, slope = linear_margins(4)
    log, x = duel_log(rng, n, centre, slope, **more)
    return centre, pseudo_outcomes(duel_fit(log, x, centre, slope, one=more.get("one", False)))


def raw_moments(pseudo, inside=None, *, cluster):
    """What `group_payoff` starts from, before errors are kept from being too small."""
    code = np.zeros(pseudo.n_contexts, int) if inside is None else inside.astype(int) - 1
    return group_moments(pseudo.estimand, code, 1, cluster)[0]


# -- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", ["inclusion", "draws"])
def test_means_and_errors_by_context_are_those_of_gamma(design):
    log, x = ragged_log(design=design)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x), Cubic(1.0), unseen="tie")
    inside = x[:, 0] > -0.5
    found = raw_moments(pseudo, inside, cluster="context")
    gamma = pseudo.dense(np.flatnonzero(inside & pseudo.used))
    np.testing.assert_allclose(found.mean, gamma.mean(axis=0), atol=1e-13)
    np.testing.assert_allclose(covariance_of(found), np.cov(gamma.T) / len(gamma), atol=1e-13)
    assert found.n_contexts == found.n_clusters == len(gamma)
    for pair in range(10):
        rows = (pseudo.pair == pair) & inside[pseudo.context]
        weight = np.bincount(pseudo.context[rows], (pseudo.share * np.abs(pseudo.slope))[rows], log.n_contexts)
        effective = weight.sum() ** 2 / (weight**2).sum() if rows.any() else 0.0
        assert found.effective[pair] == pytest.approx(effective)
        c = np.bincount(pseudo.context[rows], pseudo.estimand.correction[rows], log.n_contexts)[weight > 0]
        spread = (c**4).sum() - (c**2).sum() ** 2 / max(len(c), 1)
        tail = 2 * (c**2).sum() ** 2 / spread if spread > 1e-12 * (c**2).sum() ** 2 else np.inf
        assert found.freedom[pair] == pytest.approx(min(tail, 4 * (effective - 1), len(gamma) - 1))
        assert found.votes[pair] == rows.sum()


def voter_sums(pseudo, label, mass, centre, plugin=None):
    """Cross-products of cluster sums of correction + mass * plug-in - mass * centre, and the number of clusters."""
    sums = {}
    for record in range(pseudo.fit.log.n_records):
        part = np.zeros(pseudo.n_pairs) if plugin is None else mass[record] * plugin[pseudo.fit.log.context_of[record]]
        for v in np.flatnonzero(pseudo.record == record):
            part[pseudo.pair[v]] += pseudo.estimand.correction[v]
        sums.setdefault(label(record), np.zeros(pseudo.n_pairs))
        sums[label(record)] = sums[label(record)] + part - mass[record] * centre(record)
    stacked = np.array(list(sums.values()))
    return stacked.T @ stacked, len(stacked)


@pytest.mark.parametrize("design", ["inclusion", "draws"])
def test_two_way_clustering_by_hand(design):
    log, x = ragged_log(design=design)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x), unseen="tie")
    n = int(pseudo.used.sum())
    mass = log.records.weights / np.bincount(log.context_of, log.records.weights, log.n_contexts)[log.context_of]
    plugin, centre = pseudo.plugin(np.arange(log.n_contexts)), pseudo.dense(np.flatnonzero(pseudo.used)).mean(axis=0)
    voter, context = log.records.voter, log.context_of
    of_voter, voters = voter_sums(pseudo, lambda r: voter[r], mass, lambda r: centre, plugin)
    within, _ = voter_sums(pseudo, lambda r: (context[r], voter[r]), mass, lambda r: centre, plugin)
    extra = of_voter * voters / (voters - 1) - within
    alone = raw_moments(pseudo, cluster="context")
    both = raw_moments(pseudo, cluster="both")
    raw = covariance_of(alone) + extra / n**2
    np.testing.assert_allclose(both.variance, np.maximum(np.diag(raw), alone.variance), atol=1e-13)
    assert (both.variance >= alone.variance - 1e-12).all()
    assert np.linalg.eigvalsh(covariance_of(both))[0] > -1e-12
    assert both.n_clusters == 6
    assert (both.freedom <= alone.freedom).all()
    assert (both.effective <= alone.effective).all()


def test_clustering_by_voter_takes_contexts_as_fixed():
    log, x = ragged_log(n=12)
    pseudo = pseudo_outcomes(arbitrary_fit(log, x), unseen="tie")
    n = int(pseudo.used.sum())
    mass = log.records.weights / np.bincount(log.context_of, log.records.weights, 12)[log.context_of]
    fixed = pseudo.estimand.corrections.toarray()
    sums, voters = voter_sums(pseudo, lambda r: log.records.voter[r], mass, lambda r: fixed[log.context_of[r]])
    expected = sums * voters / (voters - 1) / n**2
    np.testing.assert_allclose(covariance_of(raw_moments(pseudo, cluster="voter")), expected, atol=1e-13)


def test_records_without_a_voter_are_clusters_of_their_own():
    duels = [partition.duel("a", "b", "a")] * 6
    log = Feedback.from_partitions(np.zeros((6, 1)), duels, agents=["a", "b"], voter=["v", "v", None, None, "w", None])
    moments = group_payoff(pseudo_outcomes(arbitrary_fit(log, np.zeros((6, 1)), folds=2)), cluster="both").moments
    assert moments.n_clusters == 5


def test_what_to_cluster_by_is_chosen_by_numbers():
    rng = np.random.default_rng(0)
    for n, voters, expected in ((60, None, "context"), (60, 5, "context"), (60, 30, "both"), (12, 30, "voter")):
        _, pseudo = simulate(rng, n, voters=voters, one=n < 20, each=40 if n < 20 else 1)
        assert group_payoff(pseudo).moments.cluster == expected


def test_votes_of_one_mind_leave_some_doubt():
    log = Feedback.from_partitions(np.zeros((96, 1)), [partition.duel("a", "b", "a")] * 96, agents=["a", "b"])
    pseudo = pseudo_outcomes(duel_fit(log, np.zeros((96, 1)), np.array([1.0]), np.array([0.0]), one=True))
    group = group_payoff(pseudo, cluster="context")
    assert raw_moments(pseudo, cluster="context").error[0] == 0
    # 98 of 100 votes for a, as Agresti and Coull would count them.
    assert group.error[0, 1] == pytest.approx(2 * np.sqrt(0.02 / 100), rel=0.02)
    assert group.lower[0, 1] == pytest.approx(1 - group.error[0, 1] * t.ppf(0.975, 95), rel=1e-3)


def test_intervals_by_hand():
    variance = np.array([0.01, 0.04, 0.0])
    moments = Moments(np.array([0.5, 0.9, 0.1]), variance, np.eye(3), np.array([10.0, 1e9, 0.0]),
                      np.array([9.0, 1e9, -1.0]), np.array([10, 50, 1]),
                      np.zeros(3, int), np.zeros(3), 40, 40, "context")  # fmt: skip
    group = GroupPayoff("g", ("a", "b", "c"), np.ones(1, bool), moments)
    low, high = group.interval(simultaneous=False)
    error = 0.1 * np.sqrt(1 - 10**-1.25)  # of squares about their mean
    assert low[0, 1] == pytest.approx(0.5 - error * t.ppf(0.975, 9))
    assert high[0, 2] == 1.0  # cut
    assert low[0, 2] == pytest.approx(0.9 - 0.2 * norm.ppf(0.975))
    assert (low[1, 2], high[1, 2]) == (-1.0, 1.0)
    np.testing.assert_array_equal(low, -high.T)
    c = critical_value([moments], 0.95, group.seed)
    assert c == pytest.approx(norm.ppf((1 + np.sqrt(0.95)) / 2), abs=0.06)  # two independent pairs
    assert group.lower[0, 1] == pytest.approx(0.5 - 0.1 * t.isf(norm.sf(c), 9))
    assert np.isinf(group.error[1, 2])
    assert group.notes[0] == "pairs with fewer than two effective votes here, whose interval is [-1, 1]: 1"


# -- by simulation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", [False, True])
def test_intervals_cover(one):
    rng = np.random.default_rng(7)
    alone, together = [], []
    for _ in range(60):
        centre, pseudo = simulate(rng, 150, one=one)
        group = group_payoff(pseudo)
        low, high = group.interval(simultaneous=False)
        alone.append((low[J, K_] <= centre) & (centre <= high[J, K_]))
        together.append(((group.lower[J, K_] <= centre) & (centre <= group.upper[J, K_])).all())
    assert 0.91 <= np.mean(alone) <= 0.99  # 360 intervals
    assert np.mean(together) >= 0.85  # 60 groups


def test_voters_who_lean_are_told_from_voters_who_do_not():
    rng = np.random.default_rng(8)
    estimates, errors, alone = [], [], []
    for _ in range(40):
        _, pseudo = simulate(rng, 600, voters=30, effect=0.5)
        group = group_payoff(pseudo)
        estimates.append(group.estimate[J, K_])
        errors.append(group.error[J, K_])
        alone.append(group_payoff(pseudo, cluster="context").error[J, K_])
    spread = np.std(estimates, axis=0, ddof=1).mean()
    assert 0.85 < np.mean(errors) / spread < 1.25
    assert np.mean(alone) / spread < 0.75


def test_few_contexts_with_many_votes_are_covered_by_clusters_of_voters():
    rng = np.random.default_rng(9)
    x = rng.uniform(-1, 1, (12, 2))
    centre, slope = linear_margins(4)
    target = (centre + slope * x[:, :1]).mean(axis=0)
    inside = []
    for _ in range(30):
        log, _ = duel_log(rng, 12, centre, slope, voters=40, effect=0.3, one=True, each=150, x=x)
        group = group_payoff(pseudo_outcomes(duel_fit(log, x, centre, slope, one=True)))
        assert group.moments.cluster == "voter"
        low, high = group.interval(simultaneous=False)
        inside.append((low[J, K_] <= target) & (target <= high[J, K_]))
    assert 0.9 <= np.mean(inside) <= 0.995
    assert any("taken as fixed" in note for note in group.notes)


def test_little_is_known_from_little():
    rng = np.random.default_rng(10)
    centre, slope = linear_margins(4)
    log, x = duel_log(rng, 25, centre, slope, one=True)
    group = group_payoff(pseudo_outcomes(duel_fit(log, x, centre, slope, one=True)))
    assert (group.upper - group.lower)[J, K_].min() > 1.0
    stable = group.equilibrium()
    assert (stable.upper - stable.lower).max() > 0.9
    assert group.cycles() == ()


# -- groups -----------------------------------------------------------------------------------------------------------


def test_groups_by_a_column_are_the_groups_by_its_masks():
    _, pseudo = simulate(np.random.default_rng(1), 200)
    groups = payoffs_by(pseudo, "side", seed=3)
    assert [g.moments.n_contexts for g in groups] == sorted((g.moments.n_contexts for g in groups), reverse=True)
    sides = np.array(pseudo.fit.log.contexts["side"].to_pylist())
    for group in groups:
        alone = group_payoff(pseudo, sides == group.name, seed=3)
        np.testing.assert_allclose(group.estimate, alone.estimate, atol=1e-14)
        np.testing.assert_allclose(group.lower, alone.lower, atol=1e-12)


def test_what_is_no_group_is_refused():
    _, pseudo = simulate(np.random.default_rng(1), 600)
    with pytest.raises(InputError, match="by='language' is no context column; this log has x0, x1, side"):
        payoffs_by(pseudo, "language")
    with pytest.raises(InputError, match="more than 500; group by fewer"):
        payoffs_by(pseudo, "x0")
    with pytest.raises(InputError, match="accepted are booleans, one per context"):
        group_payoff(pseudo, np.arange(3))
    with pytest.raises(InputError, match="no context with a pseudo-outcome"):
        group_payoff(pseudo, np.zeros(600, bool))
    with pytest.raises(InputError, match="names no voters"):
        group_payoff(pseudo, cluster="voter")
    with pytest.raises(InputError, match="cluster is 'judge'"):
        group_payoff(pseudo, cluster="judge")
    for level in (95, "x", None, True):
        with pytest.raises(InputError, match=rf"confidence is {level!r}; accepted is a number between 0 and 1"):
            group_payoff(pseudo, confidence=level)


def test_results_print():
    log, x = ragged_log()
    group = group_payoff(pseudo_outcomes(arbitrary_fit(log, x), unseen="tie"), name="[bold]")
    assert np.isinf(group.error[1, 4])
    assert group.lower[1, 4] == -1
    assert "Mean payoffs of [bold]: " in str(group)
    assert group.status[1, 4] == BRIDGED
    assert "bridged" in str(group)
    stable = group.equilibrium()
    assert "among winners" in str(stable)
    assert stable.lottery.sum() == pytest.approx(1)
    assert (stable.lower <= stable.upper).all()


# -- equilibria and cycles --------------------------------------------------------------------------------------------


def known(mean, error, K=3, n=2000):
    size = K * (K - 1) // 2
    each = np.full(size, float(n))
    moments = Moments(np.asarray(mean, float), np.full(size, error**2), np.eye(size), each, each, each.astype(int),
                      np.zeros(size, int), np.zeros(size), n, n, "context")  # fmt: skip
    return GroupPayoff("g", tuple("abcdefgh"[:K]), np.ones(1, bool), moments)


def test_a_clear_winner_is_stable_and_a_close_one_is_not():
    clear = known([0.5, 0.5, 0.2], 0.05).equilibrium()
    np.testing.assert_allclose(clear.frequency, [1, 0, 0], atol=1e-12)
    assert clear.winners.tolist() == [True, False, False]
    close = known([0.0, 0.5, 0.5], 0.05).equilibrium()
    assert 0.35 < close.frequency[0] < 0.65
    assert close.lower[0] == pytest.approx(0, abs=1e-9)
    assert close.upper[0] == pytest.approx(1, abs=1e-9)
    ring = known([0.3, -0.3, 0.3], 0.02).equilibrium()
    assert (ring.frequency == 1).all()
    assert ring.lottery == pytest.approx(np.full(3, 1 / 3), abs=1e-3)


def test_a_cycle_is_found_where_its_edges_are_clear():
    found = known([0.3, -0.3, 0.3], 0.05).cycles()
    assert [str(c) for c in found] == ["a > b > c > a"]
    assert found[0].margins == (0.3, 0.3, 0.3)
    assert found[0].errors == (0.05,) * 3
    assert known([-0.3, 0.3, -0.3], 0.05).cycles()[0].agents == ("a", "c", "b")
    assert known([0.3, -0.3, 0.3], 0.2).cycles() == ()
    assert known([0.3, 0.3, 0.3], 0.05).cycles() == ()


def test_who_beats_whom_is_said_where_it_is_certain():
    beats = known([0.3, -0.3, 0.02], 0.05).beats()
    assert {(a, b) for a, b in np.argwhere(beats).tolist()} == {(0, 1), (2, 0)}
    assert known([0.13, -0.13, 0.02], 0.05).beats().any()
    assert not replace(known([0.13, -0.13, 0.02], 0.05), confidence=0.999).beats().any()


def test_signs_are_found_more_often_than_by_intervals_and_rarely_wrong():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((4000, 10))
    critical = np.quantile(np.abs(draws).max(axis=1), 0.95)
    wrong = ours = theirs = 0
    for _ in range(400):
        truth = rng.choice([-0.01, 0.01, 4.0, -4.0, 8.0], 10)
        z = truth + rng.standard_normal(10)
        sign = signs(z, draws, 0.95)
        wrong += bool(((sign != 0) & (sign != np.sign(truth))).any())
        strong = np.abs(truth) == 4
        ours += (sign != 0)[strong].sum()
        theirs += (np.abs(z) > critical)[strong].sum()
    assert wrong <= 20  # 5% of 400
    assert ours > 1.02 * theirs
    assert signs(np.zeros(0), np.zeros((5, 0)), 0.95).shape == (0,)


def brute_cycles(beats):
    """Every minimal cycle by trying all orders of all sets of agents."""
    K, found = len(beats), set()
    for size in range(3, 7):
        for path in permutations(range(K), size):
            if path[0] != min(path) or not all(beats[a, b] for a, b in zip(path, (*path[1:], path[0]), strict=True)):
                continue
            edges = sum(beats[a, b] for a in path for b in path)
            if size == 3 or edges == size:
                found.add(path)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_minimal_cycles_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    half = np.triu(rng.choice([-1, 0, 1], (6, 6), p=[0.35, 0.3, 0.35] if seed % 2 else [0.15, 0.7, 0.15]), 1)
    beats = (half - half.T) > 0
    found = find_cycles(beats)
    assert len(found) == len(set(found))
    assert set(found) == brute_cycles(beats)


def test_a_long_cycle_without_chords_is_found():
    for size, cycles in ((5, [(0, 1, 2, 3, 4)]), (7, [])):  # of more than six agents none is looked for
        assert find_cycles(np.roll(np.eye(size, dtype=bool), 1, axis=1)) == cycles


def test_transitive_worlds_rarely_show_a_cycle():
    rng = np.random.default_rng(11)
    centre, slope = np.array([0.05, 0.1, 0.15, 0.05, 0.1, 0.05]), np.full(6, 0.1)
    false = 0
    for _ in range(40):
        log, x = duel_log(rng, 150, centre, slope)
        false += bool(group_payoff(pseudo_outcomes(duel_fit(log, x, centre, slope))).cycles())
    assert false <= 4


# -- what it takes ----------------------------------------------------------------------------------------------------


def test_fewer_games_are_solved_where_each_takes_long(monkeypatch):
    """The first draws of many, at least a hundred."""
    _, pseudo = simulate(np.random.default_rng(0), 200)
    group = group_payoff(pseudo)
    whole = group._drawn(L2(1e-3))
    monkeypatch.setattr(inference, "_HELD", 0)
    assert len(whole) == 1000
    np.testing.assert_array_equal(group._drawn(L2(1e-3)), whole)
    monkeypatch.setattr(inference, "_WORK", 16 * int((whole[:250] > 0).sum()))
    np.testing.assert_array_equal(group._drawn(L2(1e-3)), whole[:300])


def test_groups_ask_for_the_plug_in_of_each_context_once(monkeypatch):
    _, pseudo = simulate(np.random.default_rng(0), 300)
    asked, chunks = [], type(pseudo).plugin_chunks
    monkeypatch.setattr(type(pseudo), "plugin_chunks", lambda self, rows=None: asked.extend(rows) or chunks(self, rows))
    code = np.arange(300) % 5
    payoffs = group_payoffs(pseudo, Groups("g", code, tuple("abcde")))
    for payoff in payoffs:
        payoff.interval(), payoff.equilibrium(), payoff.beats(), payoff.cycles()
    assert sorted(asked) == list(range(300))

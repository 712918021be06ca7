"""The simulation against a slow, literal transcription of the appendix, and its logs against its truth."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

from nasheval.errors import InputError
from nasheval.feedback import world as world_module
from nasheval.feedback.fields import cyclic_triples, preference_places, specialization
from nasheval.feedback.partition import Zero
from nasheval.feedback.world import SyntheticWorld

from .oracle import equal_logs

same = np.testing.assert_array_equal
MODALITIES = ("pairwise", "ranking", "winner")
SETTINGS = list(product(MODALITIES, (1, 3, 5)))
PAPER_MENUS = {
    "pairwise": list(combinations(range(1, 6), 2)),
    "ranking": [(1, 2, 3), (1, 2, 5), (1, 4, 5), (2, 3, 4), (3, 4, 5)],
    "winner": list(combinations(range(1, 6), 3)),
}
WORLD = SyntheticWorld(seed=70)
SMALL = {"features": 8, "calibration": 64}


@pytest.fixture(scope="module")
def big():
    """The log of must-show 3: 200,000 contexts, pairwise, three voters."""
    return WORLD.feedback("pairwise", voters=3, n=200_000, known_propensity=True, reveal_voters=True)


# -- the appendix, written out one number at a time


class Appendix:
    """The equations of the appendix in plain Python, agents and menus from 1, drawn anew from the seed's children."""

    K, d, p, D = 5, 5, 12, 128

    def __init__(self, seed):
        self.children = np.random.SeedSequence(seed).spawn(11)
        calibration = self.rng(2).random((4096, self.d))
        self.s = self.field(0, self.K, calibration)
        self.h = self.field(1, self.K * self.p, calibration)
        self.a = self.rng(3).permutation(self.K).tolist()
        pool, self.w = self.rng(4), []
        for g in (0, 1, 2, 0, 1):
            theta = [0.0] * self.p
            theta[4 * g : 4 * g + 4] = pool.dirichlet([20.0] * 4)
            self.w.append([0.1 / self.p + 0.9 * weight for weight in theta])
        self.b = self.rng(5).normal(size=self.d).tolist()

    def rng(self, child):
        return np.random.default_rng(self.children[child])

    def field(self, child, outputs, calibration):
        rng = self.rng(child)
        omega, phi = rng.normal(0, 1 / 0.5, (self.D, self.d)), rng.uniform(0, 2 * np.pi, self.D)
        V = rng.normal(size=(self.D, outputs))
        raw = np.sqrt(2 / self.D) * (np.cos(calibration @ omega.T + phi) @ V)
        mean, sd = raw.mean(axis=0).tolist(), raw.std(axis=0).tolist()

        def at(x):
            waves = [math.cos(sum(omega[b, c] * x[c] for c in range(self.d)) + phi[b]) for b in range(self.D)]
            sums = [
                math.sqrt(2 / self.D) * math.fsum(V[b, a] * waves[b] for b in range(self.D)) for a in range(outputs)
            ]
            return [(value - m) / s for value, m, s in zip(sums, mean, sd, strict=True)]

        return at

    def utilities(self, x):
        s, h = self.s(x), self.h(x)
        r = [[0.0] * self.p for _ in range(self.K)]
        for j, g in product(range(self.K), range(3)):
            for t in range(4 * g, 4 * g + 4):
                C = 2 - 2 / (self.K - 1) * ((self.a[j] - (0, 2, 4)[g]) % self.K)
                r[j][t] = 1 * s[j] + 2 * C + 0.15 * math.tanh(h[j * self.p + t])
        return [{j + 1: sum(w[t] * r[j][t] for t in range(self.p)) for j in range(self.K)} for w in self.w]

    def g(self, u, menu, j, k, modality):
        """E[Z^m_jk | x] as a fraction, given the utilities of the population's voters."""
        total = 0
        for u_v in u:
            if modality == "winner":
                W = max(menu, key=lambda a: u_v[a])
                total += (j == W) - (k == W)
            else:
                total += 1 if u_v[j] > u_v[k] else -1
        return Fraction(total, len(u))

    def payoff(self, u, j, k, modality):
        holding = [m for m in PAPER_MENUS[modality] if j in m and k in m]
        return sum((self.g(u, m, j, k, modality) for m in holding), Fraction(0)) / len(holding)

    def e0(self, x):
        norm = math.sqrt(sum(c * c for c in self.b))
        z = 2 * math.sqrt(12) * sum(c / norm * (v - 0.5) for c, v in zip(self.b, x, strict=True))
        return 0.25 + (0.75 - 0.25) / (1 + math.exp(-z))


@pytest.mark.parametrize("seed", [70, 74])
def test_truth_is_the_appendix_to_the_letter(seed):
    world, slow = SyntheticWorld(seed), Appendix(seed)
    X = world.test_contexts(12)
    U = [slow.utilities(x) for x in X.tolist()]
    np.testing.assert_allclose(world.utilities(X, 5), [[list(u.values()) for u in row] for row in U], atol=1e-11)
    np.testing.assert_allclose(world.propensity(X), [slow.e0(x) for x in X.tolist()], rtol=1e-13)
    for modality, voters in SETTINGS:
        A, mu = world.payoff(X, modality, voters), world.outcome(X, modality, voters)
        listed = [tuple(mu.catalogue.members(m).tolist()) for m in range(len(mu.catalogue))]
        assert listed == [tuple(a - 1 for a in menu) for menu in PAPER_MENUS[modality]]
        for i, u in enumerate(U):
            for j, k in combinations(range(1, 6), 2):
                assert A[i, j - 1, k - 1] == float(slow.payoff(u[:voters], j, k, modality))
            expected = [
                float(slow.g(u[:voters], menu, j, k, modality))
                for menu in PAPER_MENUS[modality]
                for j, k in combinations(menu, 2)
            ]
            assert mu.values[i].tolist() == expected


# -- must-show 3


def test_three_voters_give_four_payoffs():
    A = WORLD.payoff(WORLD.test_contexts(), "pairwise", voters=3)
    off_diagonal = A[:, ~np.eye(5, dtype=bool)]
    assert set(np.unique(off_diagonal).tolist()) == {-1.0, -1 / 3, 1 / 3, 1.0}
    assert not A[:, np.eye(5, dtype=bool)].any()


def test_share_of_contexts_without_condorcet_winner(capsys):
    X = WORLD.test_contexts()
    shares = {voters: float((WORLD.condorcet_winner(X, voters) < 0).mean()) for voters in (1, 3, 5)}
    with capsys.disabled():
        print("\nseed 70, contexts without a Condorcet winner:", shares)
    assert shares[1] == 0
    assert 0.2 < shares[3] < 0.9
    assert 0.2 < shares[5] < 0.9


def z_scores(residual, variance, cell, n_cells):
    """Sum of residuals over its standard deviation, for each cell."""
    return np.bincount(cell, residual, n_cells) / np.sqrt(np.bincount(cell, variance, n_cells))


def assert_standard_normal(z):
    assert np.abs(z).max() < 4.5
    assert 1e-3 < chdtrc(z.size, (z**2).sum()) < 1 - 1e-3


def by_quantile(values, bins):
    return np.searchsorted(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]), values)


def test_selection_means_converge_to_e0(big):
    n, e = big.n_contexts, WORLD.propensity(WORLD.contexts(200_000))
    S = np.zeros((n, 10))
    S[big.context_of, big.menus.of_record] = 1
    cell = (by_quantile(e, 20)[:, None] * 10 + np.arange(10)).ravel()
    residual, variance = S - e[:, None], np.repeat(e * (1 - e), 10)
    assert_standard_normal(z_scores(residual.ravel(), variance, cell, 200))
    both = np.array([(residual[:, a] * residual[:, b]).sum() for a, b in combinations(range(10), 2)])
    assert_standard_normal(both / np.sqrt(((e * (1 - e)) ** 2).sum()))  # menus are selected independently
    assert e.min() >= 0.25
    assert e.max() <= 0.75
    same(big.records.propensity, e[big.context_of])


def test_verdict_means_converge_to_mu0(big):
    X, verdicts, context = WORLD.contexts(200_000), big.verdicts, big.context_of[big.verdicts.record]
    mu0 = WORLD.outcome(X, "pairwise", voters=3)
    column = big.menus.column_of_verdict
    mu = mu0.values[context, column]
    decided = np.abs(mu) == 1
    same(verdicts.z[decided], mu[decided])
    split = ~decided
    residual, variance = (verdicts.z - mu)[split], (1 - mu**2)[split]
    for place in (by_quantile(WORLD.propensity(X), 10), (X[:, 0] * 10).astype(int)):
        cell = (place[context] * 10 + column)[split]
        assert_standard_normal(z_scores(residual, variance, cell, 100))
    for value in (-1 / 3, 1 / 3):  # and by the value that is to be found
        assert abs(verdicts.z[mu == value].mean() - value) < 4.5 / math.sqrt((mu == value).sum())
    assert big.voters.to_pylist() == ["v0", "v1", "v2"]
    voters = np.bincount(big.records.voter)  # sampled uniformly: two degrees of freedom
    assert 1e-3 < chdtrc(2, ((voters - voters.mean()) ** 2 / voters.mean()).sum()) < 1 - 1e-3


@pytest.mark.parametrize(("modality", "voters"), [s for s in SETTINGS if s != ("pairwise", 3)])
def test_verdict_means_converge_to_mu0_in_the_other_settings(modality, voters):
    log, X = WORLD.feedback(modality, voters, n=5000), WORLD.contexts(5000)
    mu0 = WORLD.outcome(X, modality, voters)
    column, verdicts = log.menus.column_of_verdict, log.verdicts
    same(mu0.catalogue.columns.j[column], verdicts.j)
    same(mu0.catalogue.columns.k[column], verdicts.k)
    residual = verdicts.z - mu0.values[log.context_of[verdicts.record], column]
    if voters == 1:
        assert not residual.any()
        return
    cell = by_quantile(WORLD.propensity(X), 5)[log.context_of[verdicts.record]] * mu0.values.shape[1] + column
    assert np.abs(z_scores(residual, residual**2, cell, 5 * mu0.values.shape[1])).max() < 4.5


# -- logs


@pytest.mark.parametrize(
    ("modality", "form", "held"), [("pairwise", 0, {1}), ("ranking", 0, {1, 2}), ("winner", 1, {3})]
)
def test_log_has_the_catalogue_and_the_contexts_of_its_world(modality, form, held):
    log, menus = WORLD.feedback(modality, n=400), WORLD.catalogue(modality)
    same(log.menus.agent, menus.agent)
    same(log.menus.form, menus.form)
    assert set(menus.form.tolist()) == {form}
    assert set(np.bincount(menus.columns.pair).tolist()) == held  # how many menus hold a pair, as the paper counts them
    assert log.agents == ("a0", "a1", "a2", "a3", "a4")
    assert log.contexts.column_names == ["x0", "x1", "x2", "x3", "x4"]
    same(np.asarray(log.contexts), WORLD.contexts(400))
    assert log.n_contexts == 400
    assert (np.diff(log.context_offsets) == 0).any()  # contexts without a record stay
    assert (log.records.propensity, log.records.voter, log.voters) == (None, None, None)
    assert log.design == replace(log, given_design=None).design == "inclusion"


def test_winner_records_tell_the_best_and_censor_the_rest():
    log = WORLD.feedback("winner", voters=3, n=300, reveal_voters=True)
    u = WORLD.utilities(WORLD.contexts(300), 3)[log.context_of, log.records.voter]
    members, block = log.records.agent.reshape(-1, 3), log.records.block.reshape(-1, 3)
    same(block.argmin(axis=1), np.take_along_axis(u, members.astype(int), 1).argmax(axis=1))
    assert set(np.sort(block, axis=1).ravel().tolist()) == {0, 1}
    assert (log.records.zero == Zero.CENSORED).all()


@pytest.mark.parametrize("modality", MODALITIES)
def test_one_menu_a_context_is_drawn_with_the_true_probabilities(modality):
    world = SyntheticWorld(seed=3, features=16)
    log, X = world.feedback(modality, n=40_000, selection="one", known_propensity=True), world.contexts(40_000)
    q = world.propensity(X, modality, selection="one")
    np.testing.assert_allclose(q.sum(axis=1), 1, rtol=1e-12)
    assert q.min() >= 1 / (3 * q.shape[1])
    assert q.std(axis=0).min() > 0.01
    assert log.n_records == log.n_contexts
    assert log.design == replace(log, given_design=None).design == "draws"
    same(log.records.propensity, q[np.arange(40_000), log.menus.of_record])
    S = np.zeros(q.shape)
    S[np.arange(40_000), log.menus.of_record] = 1
    cell = (by_quantile(q[:, 0], 10)[:, None] * q.shape[1] + np.arange(q.shape[1])).ravel()
    assert np.abs(z_scores((S - q).ravel(), (q * (1 - q)).ravel(), cell, 10 * q.shape[1])).max() < 4.5


# -- sharing


def test_settings_share_what_the_paper_says_they_share():
    same(WORLD.voter_weights(8)[:5], WORLD.voter_weights(5))
    same(WORLD.voter_weights(5)[:1], WORLD.voter_weights(1))
    assert WORLD.voter_weights(5).reshape(5, 3, 4).sum(axis=2).argmax(axis=1).tolist() == [0, 1, 2, 0, 1]
    np.testing.assert_allclose(WORLD.voter_weights(8).sum(axis=1), 1)
    log = WORLD.feedback("pairwise", voters=8, n=500, reveal_voters=True)
    assert set(np.unique(log.records.voter).tolist()) == set(range(8))
    logs = [WORLD.feedback(modality, voters, n=100) for modality, voters in SETTINGS]
    assert all(log.contexts.equals(logs[0].contexts) for log in logs)


def test_fewer_contexts_are_the_first_of_more():
    same(WORLD.contexts(2000)[:1000], WORLD.contexts(1000))
    same(WORLD.test_contexts(2000)[:1000], WORLD.test_contexts(1000))
    assert not np.isin(WORLD.contexts(1000), WORLD.test_contexts(1000)).any()
    for modality, selection in product(MODALITIES, ("inclusion", "one")):
        more = WORLD.feedback(modality, n=600, selection=selection, reveal_voters=True)
        assert equal_logs(more[:200], WORLD.feedback(modality, n=200, selection=selection, reveal_voters=True))


def test_what_is_asked_first_changes_nothing():
    fresh = SyntheticWorld(70)
    fresh.voter_weights(12)
    fresh.feedback("winner", voters=12, n=50)
    for modality, voters in SETTINGS:
        assert equal_logs(fresh.feedback(modality, voters, n=100), WORLD.feedback(modality, voters, n=100))
    assert not equal_logs(SyntheticWorld(71).feedback("pairwise", n=100), WORLD.feedback("pairwise", n=100))


def test_size_of_the_chunks_changes_nothing(monkeypatch):
    X, logs, A = WORLD.test_contexts(90), {}, {}
    for cells in (1, 5000, 1 << 21):
        monkeypatch.setattr(world_module, "_CELLS", cells)
        logs[cells] = [WORLD.feedback(m, n=90, selection=s) for m, s in product(MODALITIES, ("inclusion", "one"))]
        A[cells] = WORLD.payoff(X, "winner", 5)
    for cells in (1, 5000):
        assert all(equal_logs(a, b) for a, b in zip(logs[cells], logs[1 << 21], strict=True))
        same(A[cells], A[1 << 21])


def test_world_is_frozen_and_pickles():
    with pytest.raises(FrozenInstanceError):
        WORLD.agents = 6
    with pytest.raises(ValueError, match="read-only"):
        WORLD.contexts(3)[0, 0] = 1
    assert equal_logs(pickle.loads(pickle.dumps(WORLD)).feedback("ranking", n=50), WORLD.feedback("ranking", n=50))
    assert replace(WORLD, agents=6).utilities(WORLD.contexts(2)).shape == (2, 3, 6)


# -- properties

small = {"seed": st.integers(0, 2**40), "agents": st.integers(3, 8), "dim": st.integers(1, 4)}
worlds = st.builds(SyntheticWorld, features=st.just(8), calibration=st.just(64), **small)


@settings(max_examples=25, deadline=None)
@given(world=worlds, voters=st.integers(1, 8))
def test_payoffs_are_antisymmetric_margins(world, voters):
    X = world.test_contexts(20)
    pairwise, ranking, winner = (world.payoff(X, modality, voters) for modality in MODALITIES)
    u = world.utilities(X, voters)
    M = np.sign(u[:, :, :, None] - u[:, :, None, :]).sum(axis=1) / voters
    same(pairwise, M)
    same(ranking, M)
    same(winner, -winner.transpose(0, 2, 1))
    assert np.abs(winner).max() <= 1


@settings(max_examples=25, deadline=None)
@given(world=worlds, voters=st.integers(1, 8), modality=st.sampled_from(MODALITIES), n=st.integers(1, 30))
def test_every_log_is_of_its_world(world, voters, modality, n):
    log = world.feedback(modality, voters, n, reveal_voters=True)
    mu0, u = world.outcome(world.contexts(n), modality, voters), world.utilities(world.contexts(n), voters)
    verdicts, record = log.verdicts, log.verdicts.record
    context, voter = log.context_of[record], log.records.voter[record]
    sign = np.sign(u[context, voter, verdicts.j] - u[context, voter, verdicts.k])
    seen = verdicts.z != 0
    same(verdicts.z[seen], sign[seen])
    assert seen.all() == (modality != "winner" or not len(seen))
    assert (np.abs(mu0.values) <= 1).all()
    assert equal_logs(log, world.feedback(modality, voters, n, reveal_voters=True))


@given(agents=st.integers(3, 70))
@settings(max_examples=30, deadline=None)
def test_cyclic_triples_cover_every_pair_with_few_menus(agents):
    menus = cyclic_triples(agents)
    held = Counter(pair for menu in menus for pair in combinations(menu, 2))
    assert len(held) == agents * (agents - 1) // 2
    assert all(menu == tuple(sorted(set(menu))) and len(menu) == 3 for menu in menus)
    assert len(menus) <= 1.5 * math.ceil(agents / 3 * math.ceil((agents - 1) / 2)) + 1  # the covering bound


def offsets_of_groups(agents):
    """The best agent of each of three groups, where agents stand on the circle in the order of their numbers."""
    return tuple(specialization(np.arange(agents)).argmax(axis=0)[::4].tolist())


@given(agents=st.integers(3, 300))
def test_offsets_stand_evenly_round_the_circle(agents):
    offsets = offsets_of_groups(agents)
    gaps = [(b - a) % agents for a, b in zip(offsets, (*offsets[1:], offsets[0]), strict=True)]
    assert sum(gaps) == agents
    assert max(gaps) - min(gaps) <= 1
    assert offsets_of_groups(5) == (0, 2, 4)  # the paper's


def test_equal_utilities_go_by_agent_number():
    assert preference_places(np.array([[1.0, 2.0, 2.0, 1.0]])).tolist() == [[2, 0, 1, 3]]
    A = SyntheticWorld(amplitudes=(0, 0, 0), **SMALL).payoff(np.full((1, 5), 0.5), "pairwise")
    same(A[0], np.triu(np.ones((5, 5)), 1) - np.tril(np.ones((5, 5)), -1))


# -- other sizes


def test_fifty_agents():
    world = SyntheticWorld(agents=50, dim=3, **SMALL)
    X = world.test_contexts(40)
    log = world.feedback("pairwise", n=200)
    assert len(log.menus) == 1225
    assert log.n_agents == 50
    A = world.payoff(X, "pairwise")
    assert set(np.unique(A).tolist()) == {-1.0, -1 / 3, 0.0, 1 / 3, 1.0}
    same(world.payoff(X, "ranking"), A)
    winner = world.payoff(X, "winner")
    same(winner, -winner.transpose(0, 2, 1))
    drawn = world.feedback("winner", n=2000, selection="one")
    assert replace(drawn, given_design=None).design == "draws"
    assert (world.condorcet_winner(X, 1) >= 0).all()
    assert (world.condorcet_winner(X, 3) < 0).mean() > 0.3  # majorities still cycle among many agents


# -- errors

COUNTS = [("seed", -1, 0), ("seed", None, 0), ("agents", 2, 3), ("agents", 5.0, 3), ("agents", True, 3), ("dim", 0, 1)]
WORLDS = [
    ({"amplitudes": (1, 2)}, "amplitudes is (1, 2); accepted is a tuple of 3 finite numbers."),
    ({"amplitudes": 2}, "amplitudes is 2; accepted is a tuple of 3 finite numbers."),
    *(({name: value}, f"{name} is {value!r}; accepted is a whole number of {n} or more.") for name, value, n in COUNTS),
]


@pytest.mark.parametrize(("arguments", "message"), WORLDS)
def test_bad_worlds(arguments, message):
    with pytest.raises(InputError) as error:
        SyntheticWorld(**arguments)
    assert str(error.value).endswith(message)


ORIGIN = np.zeros((1, 5))
FORMS = "accepted is one of 'pairwise', 'ranking', 'winner'."
SHAPE = "accepted is (n, 5), one row per context as from `test_contexts`."
CALLS = [
    ("feedback", ("duel",), {}, "modality is 'duel'; " + FORMS),
    ("catalogue", (["pairwise"],), {}, "modality is ['pairwise']; " + FORMS),
    ("feedback", ("pairwise", 0), {}, "voters is 0; accepted is a whole number of 1 or more."),
    ("feedback", ("pairwise",), {"n": 1e3}, "n is 1000.0; accepted is a whole number of 1 or more."),
    ("feedback", ("winner",), {"selection": 2}, "selection is 2; accepted is one of 'inclusion', 'one'."),
    ("contexts", (-3,), {}, "n is -3; accepted is a whole number of 1 or more."),
    ("payoff", (np.zeros(5), "pairwise"), {}, "X has shape (5,); " + SHAPE),
    ("outcome", (np.zeros((2, 4)), "winner"), {}, "X has shape (2, 4); " + SHAPE),
    ("outcome", (ORIGIN + np.inf, "winner"), {}, "NaN or infinity; accepted are finite numbers: leave those rows out."),
    ("utilities", ("x", 3), {}, "X is str; accepted is an (n, 5) array of numbers."),
    ("utilities", (ORIGIN, 2.5), {}, "voters is 2.5; accepted is a whole number of 1 or more."),
    ("propensity", (ORIGIN,), {"selection": "one"}, "the menus matter: give modality='pairwise' or so."),
    ("propensity", (ORIGIN,), {"selection": "all"}, "selection is 'all'; accepted is one of 'inclusion', 'one'."),
]


@pytest.mark.parametrize(("method", "arguments", "options", "message"), CALLS)
def test_bad_calls(method, arguments, options, message):
    with pytest.raises(InputError) as error:
        getattr(WORLD, method)(*arguments, **options)
    assert str(error.value).endswith(message)

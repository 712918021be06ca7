"""Pairs that were never compared: what bridges them, what any transitive voters allow, and what is said of them."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from nasheval.errors import InputError
from nasheval.feedback import partition
from nasheval.feedback.links import BRIDGED, SEEN, UNKNOWN
from nasheval.feedback.log import Feedback
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.voters import Voters
from nasheval.nuisance.voters_network import Stack
from nasheval.payoff.bridging import (
    ELSEWHERE,
    ScoreBridge,
    VoterBridge,
    allowed_by_transitivity,
    bridge_of,
    check_unseen,
    pair_matrix,
    score_bridge,
    status_of,
    unseen_notes,
    weakest_link,
)
from nasheval.payoff.inference import group_payoff, payoffs_by
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.stage1 import fit_stage1

from .nuisances import Given, features

VOTERS = Voters(voters=2, hidden=(8,), epochs=2, weight_decay=0.3, members=1)


def duels(counts, n_agents, *, margin=None, seed=0, **more):
    """Return a log of duels: counts {(j, k): votes}, won by chance at margins {(j, k): E[Z]}, one per context."""
    rng = np.random.default_rng(seed)
    names, said = "abcdefgh"[:n_agents], []
    for (j, k), votes in counts.items():
        wins = rng.random(votes) < (1 + (margin or {}).get((j, k), 0.0)) / 2
        said += [partition.duel(names[j], names[k], names[j if won else k]) for won in wins]
    order = rng.permutation(len(said))
    side = np.where(np.arange(len(said)) % 2, "odd", "even")
    contexts = [{"side": str(s), "x": float(x)} for s, x in zip(side, rng.normal(size=len(said)), strict=True)]
    return Feedback.from_partitions(contexts, [said[i] for i in order], agents=list(names), design="draws", **more)


def graph(n_agents, edges, seed=0):
    """Return a bridge over edges with random numbers of votes, and random margins (n, n_pairs) of all pairs."""
    rng = np.random.default_rng(seed)
    votes = {edge: int(rng.integers(2, 40)) for edge in edges}
    return score_bridge(duels(votes, n_agents)), rng.uniform(-0.9, 0.9, (5, n_agents * (n_agents - 1) // 2))


def number(j, k, n_agents):
    return next(p for p, pair in enumerate(combinations(range(n_agents), 2)) if pair == (j, k))


# -- the bridge -------------------------------------------------------------------------------------------------------

GRAPHS = {
    "star": (5, [(0, 1), (0, 2), (0, 3), (0, 4)]),
    "chain": (5, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    "loop": (5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]),
    "two loops": (6, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_moved_is_the_slope_of_the_values(name):
    K, edges = GRAPHS[name]
    bridge, margins = graph(K, edges)
    rng, step = np.random.default_rng(1), 1e-5
    changes = rng.normal(size=margins.shape)
    there, back = (bridge.at(margins + sign * step * changes).values for sign in (1, -1))
    found = bridge.at(margins).moved(np.arange(len(margins)), bridge.lead(changes))
    np.testing.assert_allclose(found, (there - back) / (2 * step), atol=2e-4)


@pytest.mark.parametrize("name", GRAPHS)
def test_variances_at_one_context_are_those_of_the_slopes(name):
    K, edges = GRAPHS[name]
    bridge, margins = graph(K, edges)
    middle, root = bridge.at(margins[:1]), np.random.default_rng(3).normal(size=(K, K))
    slopes = middle.moved(np.zeros(K, int), np.eye(K))
    np.testing.assert_allclose(middle.variance(root @ root.T), np.einsum("kb,kl,lb->b", slopes, root @ root.T, slopes))


@pytest.mark.parametrize("name", GRAPHS)
def test_steps_by_solving_and_by_the_inverse_are_one(name):
    """Of one context at a time, of each context once, and of several changes at the same context."""
    K, edges = GRAPHS[name]
    bridge, margins = graph(K, edges)
    lead, rows = bridge.lead(np.random.default_rng(4).normal(size=(15, margins.shape[1]))), np.arange(15) % 5
    many = bridge.at(margins).moved(rows, lead)
    np.testing.assert_allclose(bridge.at(margins).moved(rows[:5], lead[:5]), many[:5], atol=1e-9)
    for i in range(15):
        alone = bridge.at(margins[[rows[i]]]).moved(np.zeros(1, int), lead[[i]])
        np.testing.assert_allclose(alone[0], many[i], atol=1e-9)


@pytest.mark.parametrize("name", GRAPHS)
def test_pairs_that_were_not_seen_do_not_enter(name):
    K, edges = GRAPHS[name]
    bridge, margins = graph(K, edges)
    other = margins.copy()
    other[:, bridge.pairs] = np.random.default_rng(2).uniform(-1, 1, (len(margins), len(bridge.pairs)))
    np.testing.assert_array_equal(bridge.at(other).values, bridge.at(margins).values)
    unseen = np.zeros(margins.shape)
    unseen[:, bridge.pairs] = 1.0
    assert not bridge.at(margins).moved(np.arange(len(margins)), bridge.lead(unseen)).any()


@pytest.mark.parametrize("name", ["star", "chain"])
def test_on_a_tree_scores_add_up_along_the_path(name):
    """On a tree the scores meet every margin, so that tanh(a + b) = (tanh a + tanh b) / (1 + tanh a tanh b)."""
    K, edges = GRAPHS[name]
    bridge, margins = graph(K, edges)
    values = bridge.at(margins).values
    for place, pair in enumerate(bridge.pairs):
        j, k = list(combinations(range(K), 2))[pair]
        path = [(0, j), (0, k)] if name == "star" else [(i, i + 1) for i in range(j, k)]
        legs = [margins[:, number(a, b, K)] * (-1 if name == "star" and b == j else 1) for a, b in path]
        total = legs[0]
        for leg in legs[1:]:
            total = (total + leg) / (1 + total * leg)
        np.testing.assert_allclose(values[:, place], total, atol=1e-3)


def test_more_votes_count_for_more():
    """Around a loop whose two ways disagree, the bridge goes with the way that more votes tell of."""
    margins = np.zeros((1, 6))
    margins[0, [0, 3]] = 0.6  # a over b over c, on many votes
    margins[0, [2, 5]] = -0.6, 0.6  # a under d under c, on few
    upper, lower = (
        score_bridge(duels({(0, 1): many, (1, 2): many, (0, 3): few, (2, 3): few}, 4)).at(margins).values[0]
        for many, few in ((1000, 10), (10, 1000))
    )
    place = list(score_bridge(duels({(0, 1): 1, (1, 2): 1, (0, 3): 1, (2, 3): 1}, 4)).pairs).index(number(0, 2, 4))
    assert upper[place] > 0.7
    assert lower[place] < -0.7


def test_margins_of_one_stay_finite():
    bridge, _ = graph(*GRAPHS["star"])
    sure = bridge.at(np.array([[1.0, -1.0, 1.0, -1.0, 0, 0, 0, 0, 0, 0]]))
    assert np.isfinite(sure.scores).all()
    assert np.abs(sure.values).max() <= 1
    changes = sure.moved(np.array([0]), bridge.lead(np.eye(10)[:1]))
    assert np.isfinite(changes).all()
    assert np.abs(changes).max() < 20


def test_voters_bridge_by_their_utilities_and_other_learners_by_scores():
    log = duels({(0, 1): 40, (0, 2): 40}, 3, margin={(0, 1): 0.5, (0, 2): -0.5})
    stage1 = fit_stage1(log, outcome=VOTERS, second_stage="none", folds=2)
    bridge, models, X = stage1.payoff.bridge, stage1.nuisances.outcome_models, stage1.nuisances.X
    assert isinstance(bridge, VoterBridge)
    expected = []
    for fold in range(2):
        voters = models.voters(X, fold)
        u = np.stack([voter.u for voter in voters]).transpose(2, 0, 1).astype(float)
        weight = np.array([float(voter.weight[0]) for voter in voters])
        expected.append((weight * np.tanh((u[:, :, 1] - u[:, :, 2]) / 2)).sum(axis=1))
    payoffs = stage1.payoff.predict(X)
    np.testing.assert_allclose(payoffs[:, 1, 2], np.mean(expected, axis=0), atol=1e-5)
    np.testing.assert_allclose(payoffs, -payoffs.swapaxes(1, 2))
    plain = fit_stage1(log, outcome=Intercept(), second_stage="none", folds=2)
    assert isinstance(plain.payoff.bridge, ScoreBridge)
    seen = plain.payoff.predict(plain.nuisances.X)
    meets = (seen[:, 1, 0] + seen[:, 0, 2]) / (1 + seen[:, 1, 0] * seen[:, 0, 2])
    np.testing.assert_allclose(seen[:, 1, 2], meets, atol=1e-3)
    assert bridge_of(duels({(0, 1): 5, (0, 2): 5, (1, 2): 5}, 3), models) is None


@pytest.mark.parametrize("n", [1, 3, 40])
def test_voters_are_asked_once_for_seen_and_bridged_pairs(monkeypatch, n):
    counts = {(0, k): 30 for k in range(1, 5)}
    log = duels(counts, 5, margin={pair: 0.2 * pair[1] - 0.5 for pair in counts})
    stage1 = fit_stage1(log, outcome=VOTERS, second_stage="none", folds=2)
    payoff, X = stage1.payoff, stage1.nuisances.X[:n]
    expected = payoff.plugin.predict(X)
    expected[:, payoff.bridge.pairs] = payoff.bridge.predict(X, expected)
    calls, outputs = [], Stack.outputs
    monkeypatch.setattr(Stack, "outputs", lambda self, x: calls.append(len(x)) or outputs(self, x))
    np.testing.assert_array_equal(payoff.predict_pairs(X), expected)
    assert calls == [n]


# -- means of groups --------------------------------------------------------------------------------------------------


def star_fit(log, mu, folds=2):
    """Return nuisances with margins mu, (n_pairs,) at every context, and each menu's share as its propensity."""
    columns, share = log.menus.columns.pair, log.menus.counts / log.n_records
    x = np.arange(log.n_contexts, dtype=float)[:, None]
    outcome = Given(lambda x, fold: np.broadcast_to(mu[columns], (len(x), len(columns))))
    propensity = Given(lambda x, fold: np.broadcast_to(share, (len(x), len(share))))
    return NuisanceFit(log, features(x), make_folds(log, folds), outcome, propensity)


def test_the_mean_of_a_bridged_pair_by_hand():
    """The bridge at mu plus its slope times the corrections; its error is that of these numbers."""
    log = duels({(0, 1): 60, (0, 2): 40}, 3, margin={(0, 1): 0.4, (0, 2): -0.3})
    mu = np.array([0.5, -0.2, 0.0])
    pseudo = pseudo_outcomes(star_fit(log, mu))
    gamma = pseudo.dense(np.arange(log.n_contexts))
    a, b = mu[:2]
    value = (b - a) / (1 - a * b)  # of b over c: tanh(atanh(-a) + atanh(b))
    slope = np.array([-(1 - b**2), 1 - a**2]) / (1 - a * b) ** 2
    expected = value + (gamma[:, :2] - mu[:2]) @ slope
    group = group_payoff(pseudo, cluster="context")
    assert group.status[1, 2] == BRIDGED
    assert group.estimate[1, 2] == pytest.approx(expected.mean(), abs=1e-3)
    assert group.error[1, 2] == pytest.approx(expected.std(ddof=1) / np.sqrt(len(expected)), rel=2e-3)
    assert group.moments.effective[2] == pytest.approx(40)  # that of the weaker of the two links
    assert group.moments.freedom[2] == min(group.moments.freedom[:2])
    tie = group_payoff(pseudo_outcomes(star_fit(log, mu), unseen="tie"))
    assert tie.estimate[1, 2] == 0
    assert (tie.lower[1, 2], tie.upper[1, 2]) == (-1, 1)
    np.testing.assert_allclose(tie.lower[0], group.lower[0])  # a bridge changes nothing of the seen pairs


def test_intervals_of_bridged_pairs_cover_where_contexts_follow_bradley_terry():
    scores, inside = np.array([0.0, 0.8, -0.5, 0.3]), []
    truth = np.tanh((scores[:, None] - scores[None, :]) / 2)
    margin = {(0, k): float(truth[0, k]) for k in range(1, 4)}
    for seed in range(60):
        log = duels(dict.fromkeys(margin, 60), 4, margin=margin, seed=seed)
        mu = np.array([*margin.values(), 0, 0, 0]) * 0.9
        low, high = group_payoff(pseudo_outcomes(star_fit(log, mu))).interval(simultaneous=False)
        inside.append(((low <= truth) & (truth <= high))[[1, 1, 2], [2, 3, 3]])
    assert 0.9 <= np.mean(inside) <= 0.995  # 180 intervals, in threes


def test_a_bridged_pair_is_never_certain_and_makes_no_cycle():
    """Payoffs that are as clear as can be: of the loop of three the votes see two edges, and the bridge the third."""
    log = duels({(0, 1): 400, (0, 2): 400}, 3, margin={(0, 1): 0.9, (0, 2): -0.9})
    group = group_payoff(pseudo_outcomes(star_fit(log, np.array([0.9, -0.9, 0.0]))))
    assert group.estimate[2, 1] > 0.9
    assert group.lower[2, 1] > 0
    beats = group.beats()
    assert beats[0, 1]
    assert beats[2, 0]
    assert not beats[2, 1]
    loop = duels({(0, 1): 400, (1, 2): 400, (2, 3): 400, (0, 3): 400}, 4,
                 margin={(0, 1): 0.9, (1, 2): 0.9, (2, 3): 0.9, (0, 3): -0.9})  # fmt: skip
    mu = np.array([0.9, 0, -0.9, 0.9, 0, 0.9])
    whole = group_payoff(pseudo_outcomes(star_fit(loop, mu)))
    assert [cycle.agents for cycle in whole.cycles()] == [("a", "b", "c", "d")]  # of seen pairs alone
    edges = {(x, y) for cycle in whole.cycles() for x, y in pairwise(cycle.agents)}
    assert not edges & {("a", "c"), ("c", "a"), ("b", "d"), ("d", "b")}


def test_the_ends_of_a_bridged_pair_may_be_outside_of_what_voters_must_say():
    log = duels({(0, 1): 200, (0, 2): 200}, 3, margin={(0, 1): -0.6, (0, 2): -0.2})
    group = group_payoff(pseudo_outcomes(star_fit(log, np.array([-0.6, -0.2, 0.0]))))
    low, high = group.allowed
    a, b = group.estimate[1, 0], group.estimate[2, 0]
    assert low[1, 2] == pytest.approx(max(-1, a - b - 1))
    assert high[1, 2] == pytest.approx(min(1, a - b + 1))
    assert low[0, 1] == pytest.approx(group.estimate[0, 1])  # of a seen pair: what was seen
    assert group.status[1, 2] == BRIDGED


def test_a_pair_seen_elsewhere_is_told_apart_from_one_never_seen():
    said = [partition.duel("a", "b", "a"), partition.duel("a", "c", "c")] * 20 + [partition.duel("b", "c", "c")] * 20
    contexts = [{"side": "here"}] * 40 + [{"side": "there"}] * 20
    log = Feedback.from_partitions(contexts, said, agents=list("abcd"), design="draws")
    pseudo = pseudo_outcomes(star_fit(log, np.array([0.9, -0.9, 0, -0.9, 0, 0])))
    here = next(group for group in payoffs_by(pseudo, "side") if group.name == "here")
    assert here.status[1, 2] == ELSEWHERE
    assert (here.lower[1, 2], here.upper[1, 2]) == (-1, 1)
    assert here.status[0, 3] == UNKNOWN
    assert any("compared elsewhere but not here" in note for note in here.notes)


# -- unknown pairs, and what is done with unseen ones -----------------------------------------------------------------

APART = {(0, 1): 60, (2, 3): 60}
APART_MARGIN = {(0, 1): 0.8, (2, 3): 0.5}


@pytest.mark.parametrize("outcome", [VOTERS, Intercept()], ids=["voters", "intercept"])
def test_of_two_components_both_stay_among_the_winners_and_a_note_says_why(outcome):
    from nasheval.estimator import NashEval

    log = duels(APART, 4, margin=APART_MARGIN)
    model = NashEval(outcome=outcome, folds=2, n_jobs=1, verbose=False, device="cpu").fit(log)
    for winners in model.winners(log.contexts.slice(0, 5)):
        assert {"a", "c"} <= set(winners)
    group = model.payoff_interval()
    assert (group.status[np.ix_([0, 1], [2, 3])] == UNKNOWN).all()
    assert {"a", "c"} <= {agent for agent, won in zip("abcd", group.equilibrium().winners, strict=True) if won}
    assert any("nothing connects: 4; both sides stay among the winners" in note for note in group.notes)
    said = [text for text in model.diagnostics().warnings() if "Nothing connects some pairs" in text]
    assert "both sides stay among the winners: no vote tells which is better" in said[0]
    assert "4 pairs (such as a and c, a and d, b and c)" in said[0]


def test_unseen_pairs_are_bridged_ties_or_refused():
    log = duels({(0, 1): 40, (0, 2): 40}, 3, margin={(0, 1): -0.8, (0, 2): 0.8})
    fitted = {how: fit_stage1(log, outcome=Intercept(), folds=2, unseen=how) for how in ("model", "tie")}
    bridged, tied = (stage1.payoffs(log.contexts)[:, 1, 2] for stage1 in fitted.values())
    assert bridged.min() > 0.8
    assert not tied.any()
    assert fitted["tie"].payoff.bridge is None
    assert fitted["tie"].status[1, 2] == BRIDGED  # what was never compared is marked, whatever is made of it
    with pytest.raises(InputError, match=r"unseen is 'refuse', and 1 pair \(such as b and c\) were never compared"):
        fit_stage1(log, outcome=Intercept(), folds=2, unseen="refuse")
    with pytest.raises(InputError, match="unseen is 'ties'; accepted are 'model', 'tie', 'refuse'"):
        check_unseen(log, "ties")
    full = duels({(0, 1): 5, (0, 2): 5, (1, 2): 5}, 3)
    check_unseen(full, "refuse")
    assert score_bridge(full) is None


def test_the_paper_keeps_ties():
    from nasheval.estimator import NashEval

    assert NashEval.paper().unseen == "tie"
    assert NashEval().unseen == "model"


def test_notes_name_the_first_three_pairs():
    log = duels({(0, k): 5 for k in range(1, 5)}, 6)
    status = status_of(log)
    assert [int((status == code).sum()) for code in (SEEN, BRIDGED, UNKNOWN)] == [4, 6, 5]
    bridged, unknown = unseen_notes(log.agents, status, "model")
    assert bridged == (
        "Payoffs of pairs never compared are bridged through others by the outcome model, and marked: 6 pairs (such as "
        "b and c, b and d, b and e); intervals hold for the bridge, not for votes on the pair."
    )
    assert "5 pairs (such as a and f, b and f, c and f)" in unknown
    assert "given as 0, a tie: 6 pairs" in unseen_notes(log.agents, status, "tie")[0]
    assert unseen_notes(log.agents, np.zeros(15, int), "model") == []


# -- what transitive voters allow -------------------------------------------------------------------------------------


@st.composite
def populations(draw):
    """Margins, (K, K), of a random population of voters with weak orders, and which pairs are seen."""
    K, V = draw(st.integers(2, 6)), draw(st.integers(1, 6))
    rank = np.array(draw(st.lists(st.lists(st.integers(0, 3), min_size=K, max_size=K), min_size=V, max_size=V)))
    margin = np.sign(rank[:, None, :] - rank[:, :, None]).mean(axis=0)
    seen = np.zeros((K, K), bool)
    for j, k in combinations(range(K), 2):
        seen[j, k] = seen[k, j] = draw(st.booleans())
    return margin, seen


@given(populations())
def test_no_transitive_voters_are_outside_of_what_is_allowed(population):
    margin, seen = population
    lower, upper = allowed_by_transitivity(margin, seen)
    assert (lower <= margin + 1e-9).all()
    assert (margin <= upper + 1e-9).all()
    assert (lower >= -1).all()
    np.testing.assert_array_equal(upper, -lower.T)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_of_a_star_no_more_can_be_said(a, b):
    """The bounds are met by some population of strict orders: the least margin by linear programming."""
    margin = np.array([[0, -a, -b], [a, 0, 0], [b, 0, 0]])  # of b and c over the reference
    seen = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], bool)
    lower, upper = allowed_by_transitivity(margin, seen)
    assert lower[1, 2] == pytest.approx(max(-1, a - b - 1))
    assert upper[1, 2] == pytest.approx(min(1, a - b + 1))
    orders = list(permutations(range(3)))
    beats = {
        pair: [1 if o.index(pair[0]) < o.index(pair[1]) else -1 for o in orders] for pair in permutations(range(3), 2)
    }
    given_rows = [beats[1, 0], beats[2, 0], [1] * 6]
    least = linprog(beats[1, 2], A_eq=given_rows, b_eq=[a, b, 1])
    assert least.fun == pytest.approx(lower[1, 2], abs=1e-6)


def test_through_several_agents_each_step_costs_one_more():
    margin = np.zeros((4, 4))
    for j, value in enumerate((0.9, 0.8, 0.95)):
        margin[j, j + 1], margin[j + 1, j] = value, -value
    lower, upper = allowed_by_transitivity(margin, margin != 0)
    assert lower[0, 2] == pytest.approx(0.7)
    assert lower[0, 3] == pytest.approx(0.65)
    assert upper[0, 3] == 1


@given(st.integers(2, 5), st.integers(0, 10**6))
def test_the_weakest_link_of_the_strongest_path(K, seed):
    rng = np.random.default_rng(seed)
    strength = rng.integers(0, 6, (K, K)).astype(float)
    strength = np.triu(strength, 1) + np.triu(strength, 1).T
    found = weakest_link(strength)
    for j, k in permutations(range(K), 2):
        others = [a for a in range(K) if a not in (j, k)]
        paths = [(j, *middle, k) for size in range(K - 1) for middle in permutations(others, size)]
        best = max(min(strength[a, b] for a, b in pairwise(path)) for path in paths)
        assert found[j, k] == best


def test_a_matrix_of_pairs_is_symmetric():
    np.testing.assert_array_equal(pair_matrix(np.array([1, 2, 3]), 3), [[0, 1, 2], [1, 0, 3], [2, 3, 0]])

"""Newcomers' utilities: against a penalised likelihood written out, against known truth, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import nasheval as ne
from nasheval.feedback.growing import Fitted, admissible, grown
from nasheval.nuisance.crossfit import continued_folds, make_folds
from nasheval.nuisance.extended import ExtendedModels, scores_of
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.newcomers import FREEDOMS, Ground, learn_newcomers
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.updating import updated_outcome
from nasheval.nuisance.voters import Voters
from nasheval.nuisance.voters_network import forward_one
from nasheval.nuisance.voters_records import Kind, Question, Table

SMALL = Voters(voters=2, hidden=(8,), epochs=4, weight_decay=0.3, members=2)
NAMES = list("abcd")


def duels(rng, n, new=0.0, menus=None, columns=2):
    """Duels of a to c with utilities 0, 0.5 and x, and of d, with utility `new` + 2 x."""
    x = rng.normal(size=(n, columns))
    u = np.stack([np.zeros(n), np.full(n, 0.5), x[:, 0], new + 2 * x[:, 0]], axis=1)
    said = []
    for row in range(n):
        j, k = menus[row] if menus is not None else rng.choice(3, 2, replace=False)
        won = rng.random() < 1 / (1 + np.exp(u[row, k] - u[row, j]))
        said.append(ne.partition.duel(NAMES[j], NAMES[k], NAMES[j if won else k]))
    return ne.Feedback.from_partitions(x, said, design="draws")


def grown_fit(outcome, n=300, m=120, new=0.0, seed=0, menus=None):
    """Return fitted models before and after an update with votes on d, with both logs, features and folds."""
    rng = np.random.default_rng(seed)
    before = duels(rng, n)
    more = duels(rng, m, new, [(3, int(rng.integers(3))) for _ in range(m)] if menus is None else menus)
    log = grown(before, admissible(before, more)[0])
    fold = make_folds(before, 3, seed=0)
    X = Features(log_x(log), log_x(log))
    train = np.arange(3)[:, None] != fold[None]
    models = outcome.fit(before, X[np.arange(n)], train, Effort())
    whole = continued_folds(log, fold, 3)
    return models, updated_outcome(models, before, log, X, whole, Fitted(3, n, n)), log, X, whole


def log_x(log):
    return np.stack([np.asarray(column) for column in log.contexts.columns], axis=1).astype(np.float32)


# -- the problem that is solved ----------------------------------------------------------------------------------------


def ground_of(rng, n=40, K=4, V=2, q=3):
    phi = rng.normal(size=(1, n, q))
    return Ground(
        rng.normal(size=(1, n, V, K)), rng.normal(size=(1, 30, V, K)), np.log([[0.7, 0.3]]), phi,
        (phi**2).sum(axis=2).mean(axis=1), np.zeros((1, 0)), np.zeros((1, n, V)),
    )  # fmt: skip


def table_of(rng, n=40, K=4, new=1):
    opponent = rng.integers(K, size=n)
    won = rng.random(n) < 0.6
    fresh = K + rng.integers(new, size=n)
    agents = np.where(won, np.stack([fresh, opponent]), np.stack([opponent, fresh]))
    whole = np.ones(n, np.int64)
    return Table(
        Question(2, 0, Kind.RANKED), agents, np.repeat([[0], [1]], n, axis=1), np.ones((2, n), np.int64), (),
        np.zeros(n, np.int64), np.ones(n, np.float32), whole, np.arange(n + 1), np.zeros(n, np.int64),
    )  # fmt: skip


def test_the_solution_is_that_of_the_penalised_likelihood_written_out():
    rng = np.random.default_rng(0)
    ground, table = ground_of(rng), table_of(rng)
    everywhere = np.ones((1, 40), bool)
    learned = learn_newcomers(ground, [table], 1, everywhere, ~everywhere)  # nothing held out: the first freedom
    u, K, far = ground.u[0], 4, ground.elsewhere[0]
    centred = (far - far.mean(axis=2, keepdims=True)) * np.sqrt(np.array([0.7, 0.3]) / 30)[:, None]
    flat = centred.reshape(-1, K)
    D = np.linalg.eigh(flat.T @ flat)[1][:, ::-1][:, :3]
    spread = (((far - far.mean(axis=2, keepdims=True)) ** 2).mean(axis=(0, 2)) * [0.7, 0.3]).sum()
    agents = np.sqrt(spread * K / (K - 1))
    sd = np.concatenate([
        [max(1.0, agents)], np.full(3, FREEDOMS[0].along / np.sqrt(K - 1)),
        np.full(3, FREEDOMS[0].beyond * agents / np.sqrt(ground.size[0])),
    ])  # fmt: skip

    def utility(theta):
        return u.mean(axis=2) + theta[0] + (u @ D) @ theta[1:4] + (ground.phi[0] @ theta[4:])[:, None]

    def loss(theta):
        new, total = utility(theta), 0.0
        for row in range(40):
            winner, loser = (new[row] if a == K else u[row, :, a] for a in table.agents[:, row])
            total -= np.log(np.array([0.7, 0.3]) @ (1 / (1 + np.exp(loser - winner))))
        return total + ((theta / sd) ** 2).sum() / 2

    best = minimize(loss, np.zeros(7), method="BFGS", options={"gtol": 1e-7}).x
    ours = learned.intercept[0, 0] + u @ learned.share[0, 0] + (ground.phi[0] @ learned.slope[0, 0])[:, None]
    np.testing.assert_allclose(ours, utility(best), atol=2e-3)
    assert learned.freedom == FREEDOMS[0]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 3))
def test_weights_of_known_agents_sum_to_one_and_the_order_of_answers_is_nothing(seed, count):
    rng = np.random.default_rng(seed)
    ground, table = ground_of(rng), table_of(rng, new=count)
    seen = rng.random((1, 40)) < 0.8
    learned = learn_newcomers(ground, [table], count, seen, ~seen)
    np.testing.assert_allclose(learned.share.sum(axis=2), 1, atol=1e-8)
    assert np.isfinite(learned.intercept).all()
    assert all(np.isfinite(loss) for loss in learned.loss)


def test_a_newcomer_without_votes_is_the_mean_agent():
    ground = ground_of(np.random.default_rng(1))
    seen = np.ones((1, 40), bool)
    learned = learn_newcomers(ground, [], 2, seen, ~seen)
    np.testing.assert_array_equal(learned.share, 0.25)
    assert not learned.intercept.any()
    assert not learned.slope.any()


# -- latent voters ----------------------------------------------------------------------------------------------------


def test_voters_keep_what_they_think_and_outputs_are_the_learned_utilities():
    models, newer, _, X, fold = grown_fit(SMALL)
    assert newer.shape.agents == 4
    assert set(fold[300:]) == {0, 1, 2}
    for f in range(3):
        before, after = models.predict(X, f), newer.predict(X, f)
        known = newer.menus.columns.k < 3
        np.testing.assert_allclose(after[:, known], before, atol=1e-6)
    for member in range(2):
        old = forward_one({name: p[0, member] for name, p in models.parameters.items()}, X.network, models.shape)
        new = forward_one({name: p[0, member] for name, p in newer.parameters.items()}, X.network, newer.shape)
        np.testing.assert_allclose(new[0][:, :3], old[0], atol=1e-5)
        np.testing.assert_array_equal(new[1], old[1])
        np.testing.assert_allclose(new[2], old[2], atol=1e-5)


@pytest.mark.parametrize("outcome", [SMALL, Intercept()], ids=["voters", "intercepts"])
def test_a_strong_newcomer_is_known_for_one_by_the_folds_that_saw_no_vote_of_the_context(outcome):
    strong, weak = (grown_fit(outcome, new=new)[1:] for new in (2.5, -2.5))
    for (newer, log, X, _), sign in ((strong, 1), (weak, -1)):
        columns = newer.menus.columns
        rows = np.flatnonzero(np.asarray(log.context_of) >= 300)
        mean = np.mean([newer.predict(X[rows], f)[:, columns.k == 3].mean() for f in range(3)])
        assert sign * -mean > 0.5  # of the others against d


def test_a_newcomer_who_won_every_vote_has_finite_margins():
    rng = np.random.default_rng(3)
    before = duels(rng, 200)
    said = [ne.partition.duel("d", NAMES[k], "d") for k in rng.integers(3, size=100)]
    more = ne.Feedback.from_partitions(rng.normal(size=(100, 2)), said, design="draws")
    log = grown(before, admissible(before, more)[0])
    fold = make_folds(before, 2)
    X = Features(log_x(log), log_x(log))
    models = SMALL.fit(before, X[np.arange(200)], np.arange(2)[:, None] != fold, Effort())
    newer = updated_outcome(models, before, log, X, continued_folds(log, fold, 2), Fitted(3, 200, 200))
    margins = -newer.predict(X, 0)[:, newer.menus.columns.k == 3]
    assert (margins > 0.6).all()
    assert (margins < 1).all()


def test_an_answer_that_was_never_given_before_gets_its_weight_from_the_votes():
    rng = np.random.default_rng(4)
    before = duels(rng, 200)  # without ties
    said = [ne.partition.duel("d", NAMES[k], "tie" if rng.random() < 0.5 else "d") for k in rng.integers(3, size=80)]
    log = grown(before, admissible(before, ne.Feedback.from_partitions(rng.normal(size=(80, 2)), said))[0])
    fold, X = make_folds(before, 2), Features(log_x(log), log_x(log))
    models = SMALL.fit(before, X[np.arange(200)], np.arange(2)[:, None] != fold, Effort())
    newer = updated_outcome(models, before, log, X, continued_folds(log, fold, 2), Fitted(3, 200, 200))
    assert newer.questions[0].kind == Kind.DUEL
    assert (newer.parameters["tie"][..., 0] > -3).all()
    assert np.isfinite(newer.predict(X, 0)).all()


# -- any other model --------------------------------------------------------------------------------------------------


def test_scores_foretell_margins_of_bradley_terry_exactly():
    rng = np.random.default_rng(5)
    s = rng.normal(size=(20, 4))
    s -= s.mean(axis=1, keepdims=True)
    log = duels(rng, 60, menus=[(j, k) for j in range(4) for k in range(j + 1, 4)] * 10)
    columns = log.menus.columns
    mu = np.tanh((s[:, columns.j] - s[:, columns.k]) / 2)
    meetings = (1 - np.eye(4)) * rng.uniform(0.2, 1)
    np.testing.assert_allclose(scores_of(mu, log.menus, meetings), s, atol=5e-3)
    np.testing.assert_allclose(scores_of(mu, log.menus, meetings, s[0]), s, atol=5e-3)


def test_cells_are_those_of_whole_predictions_and_old_columns_are_the_models_own():
    models, newer, log, X, _ = grown_fit(Intercept())
    assert isinstance(newer, ExtendedModels)
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(len(X), size=200), rng.integers(len(log.menus.columns), size=200)
    for f in range(3):
        whole = newer.predict(X, f)
        np.testing.assert_allclose(newer.cells(X, f, rows, columns), whole[rows, columns], atol=1e-12)
        np.testing.assert_array_equal(
            whole[:, newer.source >= 0], models.predict(X, f)[:, newer.source[newer.source >= 0]]
        )
    assert (newer.source[newer.menus.columns.k == 3] == -1).all()


def test_a_second_update_starts_at_the_fitted_models():
    _, newer, log, X, fold = grown_fit(Intercept())
    again = updated_outcome(newer, log, log, X, fold, Fitted(3, 300, 300))
    assert not isinstance(again.base, ExtendedModels)
    np.testing.assert_allclose(again.predict(X, 0), newer.predict(X, 0), atol=1e-9)


def test_menus_that_are_new_are_answered_by_what_the_models_know_of_their_pairs():
    rng = np.random.default_rng(6)
    before = duels(rng, 200)
    x = rng.normal(size=(40, 2))
    more = ne.Feedback.from_partitions(x, [ne.partition.ranking(rng.permutation(NAMES).tolist()[:3]) for _ in x])
    log = grown(before, admissible(before, more)[0])
    fold, X = make_folds(before, 2), Features(log_x(log), log_x(log))
    models = Intercept().fit(before, X[np.arange(200)], np.arange(2)[:, None] != fold, Effort())
    newer = updated_outcome(models, before, log, X, continued_folds(log, fold, 2), Fitted(3, 200, 200))
    values, columns = newer.predict(X, 0), newer.menus.columns
    for column in np.flatnonzero(columns.k < 3):
        [twin] = np.flatnonzero(
            (before.menus.columns.j == columns.j[column]) & (before.menus.columns.k == columns.k[column])
        )
        np.testing.assert_array_equal(values[:, column], models.predict(X, 0)[:, twin])

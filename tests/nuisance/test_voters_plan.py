"""How the voters choose their size and shrinking, and that they fall back to the pooled model."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.nuisance import training, voters_plan
from nasheval.nuisance.crossfit import make_folds
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.voters import Voters
from nasheval.nuisance.voters_network import slopes_of
from nasheval.nuisance.voters_plan import batch_for, epochs_for, hidden_for, splits
from nasheval.nuisance.voters_records import questions_of, tables_of
from nasheval.nuisance.voters_train import _batches

ALL = slice(None)


def fitted(log, learner=None, n_folds=2, **effort):
    X = Features.of(ne.ContextEncoder.fit(log.contexts), log.contexts)
    train = np.arange(n_folds)[:, None] != make_folds(log, n_folds, seed=0)[None, :]
    return (learner or Voters()).fit(log, X, train, Effort(**effort)), X


def duels(rng, n, K, chance):
    """n duels at random contexts; chance(x, j, k) that j wins."""
    x = rng.normal(size=(n, 3))
    pairs = [tuple(rng.choice(K, 2, replace=False)) for _ in range(n)]
    names = [f"a{k}" for k in range(K)]
    said = [
        ne.partition.duel(names[j], names[k], names[j] if rng.random() < chance(x[i], j, k) else names[k])
        for i, (j, k) in enumerate(pairs)
    ]
    return ne.Feedback.from_partitions(x, said, agents=names), x


def test_votes_without_any_pattern_leave_the_pooled_model():
    log, _ = duels(np.random.default_rng(0), 300, 10, lambda x, j, k: 0.5)
    models, X = fitted(log)
    assert (models.epoch == 0).all()
    assert np.abs(models.predict(X, 0)).max() < 0.6  # 30 coin flips an agent, shrunken
    np.testing.assert_array_equal(models.predict(X[:1], 0), models.predict(X[7:8], 0))  # the same everywhere


@pytest.mark.slow
def test_votes_with_a_pattern_are_learned_from():
    log, x = duels(np.random.default_rng(1), 2_000, 4, lambda x, j, k: 1 / (1 + np.exp(-3 * x[0] * (j - k))))
    models, X = fitted(log)
    assert (models.held_out_loss < models.pooled_loss - 0.1).all()
    column = np.flatnonzero((log.menus.columns.j == 0) & (log.menus.columns.k == 3))[0]
    found = models.predict(X, 0)[:, column]
    assert found[x[:, 0] > 1].mean() < -0.8
    assert found[x[:, 0] < -1].mean() > 0.8


def test_agents_that_never_met_are_told_apart_by_those_they_met():
    """a0 beats all of the middle, the middle beats a9; a0 and a9 never meet, but are asked about in a menu of three."""
    rng = np.random.default_rng(2)
    said = []
    for _ in range(400):
        middle = f"a{rng.integers(1, 9)}"
        said.append(
            ne.partition.duel("a0", middle, "a0") if rng.random() < 0.5 else ne.partition.duel(middle, "a9", middle)
        )
    said.append(ne.partition.ranking(["a0", "a9", "a1"]))
    log = ne.Feedback.from_partitions(rng.normal(size=(len(said), 1)), said)
    models, X = fitted(log)
    columns = log.menus.columns
    met = np.flatnonzero((columns.j == log.agents.index("a0")) & (columns.k == log.agents.index("a9")))
    assert (models.predict(X[:5], 0)[:, met] > 0.8).all()


@pytest.mark.slow
def test_one_voter_is_enough_for_one_voter():
    log = ne.SyntheticWorld(seed=70).feedback("ranking", voters=1, n=1_500)
    assert (fitted(log)[0].n_voters <= 2).all()


def test_what_is_given_is_not_chosen():
    log = ne.SyntheticWorld(seed=70).feedback("pairwise", voters=3, n=60)
    models, _ = fitted(log, Voters(voters=3, weight_decay=0.7, epochs=2, members=1))
    assert models.n_voters.tolist() == [3, 3]
    assert models.weight_decay.tolist() == [0.7, 0.7]


def test_progress_ends_at_one():
    done = []
    log = ne.SyntheticWorld(seed=70).feedback("pairwise", voters=3, n=80)
    fitted(log, Voters(epochs=3), advance=done.append)
    assert sum(done) == pytest.approx(1.0)
    done.clear()
    fitted(ne.SyntheticWorld(seed=70).feedback("pairwise", voters=3, n=3_000), Voters(epochs=1), advance=done.append)
    assert sum(done) == pytest.approx(1.0)


def test_the_rules_grow_with_the_log():
    assert [hidden_for(n) for n in (100, 10_000, 100_000, 10**7)] == [(64,), (128,), (128, 128), (128, 128)]
    assert [batch_for(n, n) for n in (10, 3_000, 16_000, 400_000, 800_000, 10**7)] == [32, 128, 512, 512, 1024, 8192]
    assert [batch_for(200, 200 * each) for each in (1, 3, 80)] == [32, 16, 8]
    assert [epochs_for(n) for n in (10, 16_000, 10**6)] == [30, 10, 6]


def test_a_small_log_trains_all_members_once(monkeypatch):
    trained, train = [], voters_plan.train

    def counted(data, tasks, *rest):
        trained.append(tasks)
        return train(data, tasks, *rest)

    monkeypatch.setattr(voters_plan, "train", counted)
    log = ne.SyntheticWorld(seed=70).feedback("pairwise", voters=3, n=60)
    models, _ = fitted(log)
    assert [len(tasks) for tasks in trained] == [5 * 4, 2 * 4, 4 * 4, 5 * 2]  # two members of each fold, then all five
    assert [task.group for task in trained[0]] == np.repeat(np.arange(10), 2).tolist()  # by rung and fold
    assert [task.group for task in trained[-1]] == [0] * 5 + [1] * 5
    assert [task.recipe.voters for task in trained[-1]] == np.repeat(models.n_voters, 5).tolist()


def test_of_many_contexts_few_choose_the_epoch(monkeypatch):
    monkeypatch.setattr(voters_plan, "_MOST_CHECKED", 500)
    ((fit, check),) = splits(np.ones((1, 20_000), bool), np.arange(20_000), 1, seed=0)
    assert len(check) == 500
    assert sorted([*fit, *check]) == list(range(20_000))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 5), st.integers(0, 99))
def test_batches_deal_contexts_with_all_their_records(lengths, steps, seed):
    """Against np.array_split, and every record of every context written out."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, 12))])
    table = SimpleNamespace(offsets=offsets)
    contexts = [rng.permutation(12)[:length] for length in lengths]
    batches = list(_batches(contexts, steps, [table]))
    assert len(batches) == steps
    for step, (grid, ((rows, records),)) in enumerate(batches):
        expected = [
            (model * grid.shape[1] + place, record)
            for model, mine in enumerate(contexts)
            for place, context in enumerate(np.array_split(mine, steps)[step])
            for record in range(offsets[context], offsets[context + 1])
        ]
        assert list(zip(rows.tolist(), records.tolist(), strict=True)) == expected
        for model, mine in enumerate(contexts):
            dealt = np.array_split(mine, steps)[step]
            assert grid[model, : len(dealt)].tolist() == dealt.tolist()


def test_the_spread_of_contexts_is_summed_in_chunks(monkeypatch):
    x, relevance = np.random.default_rng(0).normal(size=(1_000, 3)).astype(np.float32), np.array([1.0, 0.5, 2.0])
    monkeypatch.setattr(training, "_ROWS", 64)
    assert training.spread_of(x, relevance) == pytest.approx(np.sqrt(((x * relevance) ** 2).sum(axis=1).mean()))


def test_adam_is_that_of_pytorch():
    import torch

    start = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32))
    ours, theirs, idle = (start.clone().requires_grad_() for _ in range(3))
    mine, other = training.Adam([ours, idle], (0.9, 0.99)), torch.optim.Adam([theirs], betas=(0.9, 0.99), fused=True)
    for step in range(4):
        rate = 0.1 / (1 + step)
        for p in (ours, theirs):
            p.grad = None if step == 2 else torch.sin(p.detach() + step)
        mine.step(rate)
        other.param_groups[0]["lr"] = rate
        other.step()
    assert torch.equal(ours, theirs)
    assert torch.equal(idle, start)
    mine.forget()
    assert ours.grad is None


def test_every_member_leaves_out_contexts_of_its_own():
    train = np.ones((2, 50), bool)
    train[0, :10] = False
    found = splits(train, np.arange(50), 5, seed=0)
    assert len(found) == 10
    for fold in range(2):
        left = np.concatenate([check for _, check in found[fold * 5 : fold * 5 + 5]])
        assert sorted(left) == np.flatnonzero(train[fold]).tolist()
    for fit, check in found:
        assert not set(fit) & set(check)


def test_members_leave_out_whole_units():
    rng = np.random.default_rng(0)
    train, unit = rng.random((2, 90)) < 0.8, rng.integers(20, size=90) * 3
    found = splits(train, unit, 5, seed=0)
    for fold, rows in enumerate(train):
        mine = found[fold * 5 : fold * 5 + 5]
        assert sorted(np.concatenate([check for _, check in mine])) == np.flatnonzero(rows).tolist()
        for fit, check in mine:
            assert not set(unit[fit]) & set(unit[check])
            assert sorted([*fit, *check]) == np.flatnonzero(rows).tolist()


def test_units_that_are_contexts_are_dealt_as_they_are_drawn():
    rows = np.arange(30) % 3 > 0
    order = np.random.default_rng((7, 1, 0)).permutation(np.flatnonzero(rows))
    checks = [check for _, check in splits(rows[None], np.arange(30), 4, seed=7)]
    np.testing.assert_array_equal(np.concatenate(checks), order)


def test_equal_answers_at_a_context_are_one_row():
    said = [ne.partition.duel("a", "b", w) for w in "aabaab"] + [ne.partition.duel("b", "c", "tie")] * 2
    log = ne.Feedback.from_partitions(
        np.zeros((2, 1)), said, context_of=[0, 0, 0, 0, 1, 1, 1, 1], weight=[1, 2, 3, 4, 5, 6, 7, 8]
    )
    (table,) = tables_of(log, questions_of(log))
    rows = sorted(zip(table.agents.T.tolist(), table.outcome.tolist(), table.weight.tolist(), table.count.tolist(),
                      strict=True))  # fmt: skip
    assert rows == [
        ([0, 1], 0, 5.0, 1), ([0, 1], 0, 7.0, 3), ([1, 0], 0, 3.0, 1), ([1, 0], 0, 6.0, 1), ([1, 2], 1, 15.0, 2)
    ]  # fmt: skip
    assert table.offsets.tolist() == [0, 2, 5]


def wide(rng, n, each, inputs):
    """A log of `each` duels of three agents at each of n contexts, whose first input alone tells, and the truth."""
    x = rng.uniform(-2, 2, size=(n, inputs))
    utility = np.stack([np.sin(2 * x[:, 0]), np.cos(2 * x[:, 0]), np.zeros(n)], axis=1)
    context = np.repeat(np.arange(n), each)
    j, k = np.array([(0, 1), (0, 2), (1, 2)])[rng.integers(3, size=n * each)].T
    margin = np.tanh(1.5 * (utility[:, [0, 0, 1]] - utility[:, [1, 2, 2]]))
    won = rng.random(n * each) < 1 / (1 + np.exp(-3 * (utility[context, j] - utility[context, k])))
    said = [ne.partition.duel("abc"[a], "abc"[b], "abc"[a if w else b]) for a, b, w in zip(j, k, won, strict=True)]
    return ne.Feedback.from_partitions(x, said, agents="abc", context_of=context), margin


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 600])  # every rung in full, and trials
def test_inputs_that_tell_nothing_are_found_out(n):
    log, margin = wide(np.random.default_rng(3), n, 9, inputs=6)
    fold = make_folds(log, 2, seed=0)

    def error(models, X):
        found = [models.predict(X, f)[fold == f] - margin[fold == f] for f in range(2)]
        return np.sqrt((np.concatenate(found) ** 2).mean())

    alike, (models, X) = fitted(log, Voters(voters=2, weight_decay=0.3)), fitted(log, Voters(voters=2))
    assert error(models, X) < 0.7 * error(*alike)
    reach = np.linalg.norm(models.parameters["hidden_0"], axis=-1)
    assert (reach[..., 0] > 2 * reach[..., 1:].max(axis=-1)).all()


def test_slopes_are_those_of_the_margins():
    log = ne.SyntheticWorld(seed=70).feedback("pairwise", voters=3, n=400)
    models, X = fitted(log, Voters(voters=3, weight_decay=0.05, epochs=8, members=1))
    p = {name: values[:, 0] for name, values in models.parameters.items()}
    found = slopes_of(p, X.network, [np.arange(400)] * 2, models.shape)
    for fold in range(2):
        squares = []
        for column in range(X.network.shape[1]):
            step = np.zeros(X.network.shape[1], np.float32)
            step[column] = 0.01
            after, before = (models.predict(replace(X, network=X.network + side * step), fold) for side in (1, -1))
            squares.append((((after - before) / 0.02) ** 2).mean())
        np.testing.assert_allclose(found[fold] ** 2 / 16, squares, rtol=0.3)


@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="no CUDA device here")
def test_cuda_learns_the_same():
    log = ne.SyntheticWorld(seed=70).feedback("pairwise", voters=3, n=500)
    learner = Voters(voters=3, weight_decay=0.3, epochs=5, members=1)
    here, X = fitted(log, learner)
    there, _ = fitted(log, learner, device="cuda")
    assert np.abs(here.predict(X, 0) - there.predict(X, 0)).mean() < 0.05


def test_plain_arrays_and_back():
    from nasheval.nuisance.voters import VoterModels

    log = ne.SyntheticWorld(seed=70).feedback("winner", voters=3, n=100)
    models, X = fitted(log, Voters(epochs=2))
    again = VoterModels.from_arrays(models.to_arrays(), log)
    np.testing.assert_array_equal(again.predict(X, 1), models.predict(X, 1))
    voters = models.voters(X, 0)
    assert voters[0].u.shape == (5, 100)
    assert sum(float(voter.weight[0]) for voter in voters) == pytest.approx(1, rel=1e-5)

"""The compiled loss of duels against PyTorch's, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.nuisance import voters_train
from nasheval.nuisance.voters_duel_loss import Duels, Parts
from nasheval.nuisance.voters_network import Shape
from nasheval.nuisance.voters_records import questions_of, tables_of
from nasheval.nuisance.voters_train import Data, Recipe, Schedule, Task, _batches, _Trainer

torch = pytest.importorskip("torch")


def duels(seed, n=40, K=5, *, ties):
    rng, verdicts = np.random.default_rng(seed), ["model_a", "model_b", "tie", "tie (bothbad)"]
    votes = []
    for _ in range(n):
        j, k = rng.choice(K, 2, replace=False)
        verdict = verdicts[rng.choice(4 if ties else 2)]
        votes.append({"model_a": f"a{j}", "model_b": f"a{k}", "winner": verdict, "x": rng.normal(), "y": rng.normal()})
    return ne.read_votes(votes, context=["x", "y"], agents=[f"a{k}" for k in range(K)])


def trainer(log, *, compiled, named=False, seed=0):
    """Three models with one, two and three voters, some steps from the start."""
    questions = questions_of(log)
    names = np.arange(log.n_records) % 2 if named else np.zeros(log.n_records, np.int64)
    x = np.random.default_rng(1).normal(size=(log.n_contexts, 2)).astype(np.float32)
    data = Data(x, tables_of(log, questions, names), questions, np.full(2, 0.5) if named else np.ones(1))
    rng, T = np.random.default_rng(seed), sum(question.n_tie for question in questions)
    tasks = [
        Task(np.arange(log.n_contexts), np.arange(5), rng.normal(size=log.n_agents), rng.normal(size=T),
             Recipe(voters, 0.3, named=named and voters > 1), (seed, voters), voters)
        for voters in (1, 2, 3)
    ]  # fmt: skip
    shape = Shape(2, log.n_agents, 3, (8, 6), T)
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(voters_train.Duels, "of", staticmethod(lambda tables: None))
        made = _Trainer(data, tasks, shape, Schedule(3, 16))
    return made, list(_batches([task.fit for task in tasks], made.steps, data.tables))


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("ties", [True, False])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000))
def test_steps_are_those_of_pytorch(seed, ties, named):
    log = duels(seed, ties=ties)
    (ours, batches), (theirs, _) = (
        trainer(log, compiled=compiled, named=named, seed=seed) for compiled in (True, False)
    )
    assert ours.duels is not None
    assert theirs.duels is None
    for number, batch in enumerate(batches):
        for each in (ours, theirs):
            each._step(batch, 0.3 + 0.1 * number)
        for name, p in theirs.free.items():
            if p.grad is not None:
                torch.testing.assert_close(ours.p[name].grad, p.grad, rtol=2e-3, atol=1e-4, msg=name)
    losses = [each._losses(batches, each._population(each.p)) for each in (ours, theirs)]
    np.testing.assert_allclose(*losses, rtol=1e-3)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_the_gradient_is_that_of_the_loss(seed, ties):
    """Against finite differences, one number of every part at a time."""
    log, rng = duels(seed, n=12, K=3, ties=ties), np.random.default_rng(seed)
    tables = tables_of(log, questions_of(log))
    loss, T = Duels.of(tables), 2 if ties and tables[0].question.n_tie else 0
    shapes = ((2, log.n_contexts, 4), (2, 3 * 2 + 3 + 1, 4), (2, 3, 2), (2, 2), (2, T), (2, 2))
    parts = Parts(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    ((_, answers),) = _batches([np.arange(log.n_contexts)] * 2, 1, tables)
    scale = np.array([0.7, 1.3])
    gradient = loss.gradients(parts, answers, 1, scale)
    for name, values in parts._asdict().items():
        for place in rng.permutation(values.size)[:4]:
            step = np.zeros(values.size, np.float32)
            step[place] = 1e-2
            moved = (parts._replace(**{name: values + sign * step.reshape(values.shape)}) for sign in (1, -1))
            up, down = (scale @ loss.losses(each, answers, 1) for each in moved)
            assert getattr(gradient, name).ravel()[place] == pytest.approx((up - down) / 2e-2, rel=2e-2, abs=2e-2)


def test_voters_without_weight_are_left_alone():
    made, batches = trainer(duels(0, ties=True), compiled=True)
    before = made.p["head"].detach().clone()
    made._step(batches[0], 0.3)
    grad = made.p["head"].grad.numpy()[0, :, : 5 * 3].reshape(6, 5, 3)  # of the model with one voter
    assert np.abs(grad[..., 0]).max() > 0
    assert not grad[..., 1:].any()
    assert (made.p["head"] != before).any()


def test_menus_of_three_are_not_duels():
    log = ne.SyntheticWorld(seed=70).feedback("ranking", voters=3, n=20)
    assert Duels.of(tables_of(log, questions_of(log))) is None
    pairs = ne.SyntheticWorld(seed=70).feedback("pairwise", voters=3, n=20)
    assert Duels.of(tables_of(pairs, questions_of(pairs))) is not None

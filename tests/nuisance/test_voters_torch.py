"""What latent voters say by PyTorch, against the compiled form: the same formula up to rounding in single precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.nuisance.crossfit import make_folds
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.voters import Voters
from nasheval.nuisance.voters_probes import bridge_probes

torch = pytest.importorskip("torch")
from nasheval.nuisance import voters_torch  # noqa: E402 (imports torch)

NAMES = list("abcdef")


def log_of(answers, n=60, seed=0):
    """A log of duels at n contexts, each answered by one of the functions of two agents."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    said = [answers[i % len(answers)](*rng.choice(NAMES[:5], 2, replace=False)) for i in range(n)]
    return Feedback.from_partitions(x, said, agents=NAMES, design="draws"), Features(x, x.astype(np.float32))


def won(a, b):
    return partition.duel(a, b, a)


def tied(a, b):
    return partition.duel(a, b, "tie")


def bad(a, b):
    return partition.duel(a, b, "both_bad")


def fitted(log, X, members=2, voters=3):
    learner = Voters(voters=voters, hidden=(8, 4), epochs=2, weight_decay=0.3, members=members)
    return learner.fit(log, X, make_folds(log, 2) != np.arange(2)[:, None], Effort())


KINDS = {"wins": [won], "ties": [won, tied], "both bad": [won, tied, bad]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_duels_are_those_of_the_compiled_form(kind, rows, monkeypatch):
    log, X = log_of(KINDS[kind])
    models = fitted(log, X)
    monkeypatch.setattr(voters_torch, "_CELLS", rows * 2 * 2 * models.shape.outputs)  # so many contexts at a time
    assert voters_torch.can_answer(models, models.probes)
    found = voters_torch.mean_answers(models, X.network, models.probes, "cpu")
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), models.mean_answers(X, models.probes)[0], atol=1e-6)


@pytest.fixture(scope="module")
def trained():
    log, X = log_of(KINDS["both bad"])
    return fitted(log, X), X


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 3.0, 200.0]))
def test_any_voters_however_far_their_utilities_are_apart(trained, seed, scale):
    (models, X), rng = trained, np.random.default_rng(seed)
    wild = {name: models.parameters[name].copy() for name in models.parameters}
    for name in ("taste", "pooled", "tie", "lean", "logit"):
        wild[name] = rng.normal(0, scale, wild[name].shape).astype(np.float32)
    models = replace(models, parameters=wild)
    found = voters_torch.mean_answers(models, X.network, models.probes, "cpu").numpy()
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, models.mean_answers(X, models.probes)[0], atol=1e-6 * max(1, scale))


def test_pairs_that_were_never_compared():
    log, X = log_of([won])
    models = fitted(log, X)
    probes = bridge_probes(log, list(models.questions), np.array([3, 8, 14]))
    assert voters_torch.can_answer(models, probes)
    found = voters_torch.mean_answers(models, X.network, probes, "cpu")
    np.testing.assert_allclose(found.numpy(), models.mean_answers(X, probes)[0], atol=1e-6)


def test_other_questions_are_told_apart():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    said = [partition.winner(str(rng.choice(NAMES[:4])), NAMES[:4]) for _ in x]
    log, X = Feedback.from_partitions(x, said, agents=NAMES[:4], design="draws"), Features(x, x.astype(np.float32))
    models = fitted(log, X)
    assert not voters_torch.can_answer(models, models.probes)

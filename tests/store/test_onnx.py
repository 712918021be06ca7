"""Learned policies as ONNX graphs, against the policies themselves."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from unittest import mock

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest

from nasheval.contexts import columns
from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import ConvergenceError, InputError, MissingExtraError
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import L2
from nasheval.policy.exact import ExactEquilibria
from nasheval.policy.learned import LearnedEquilibria
from nasheval.policy.learned_training import Network, initial
from nasheval.policy.terms import Terms
from nasheval.store.onnx import export_onnx, feeds

from .small import LEARNED, TREES, fitted

AGENTS = ("ä", "b", "c d", "e")


def table(n, *, seed, gaps=True):
    rng = np.random.default_rng(seed)
    lost = rng.random((3, n)) < (0.2 if gaps else 0.0)
    return pa.table(
        {
            "length": pa.array(rng.normal(50, 20, n), mask=lost[0]),
            "flat": pa.array(np.ones(n)),
            "is_code": pa.array(rng.random(n) < 0.3, mask=lost[1]),
            "language": pa.array(rng.choice(["de", "en", "pl", "日本"], n), mask=lost[2]),
        }
    )


def policy(contexts, output="sparsemax", *, waves=8, max_levels=50, budget=None, costs=None):
    with mock.patch.object(columns, "MAX_LEVELS", max_levels):
        encoder = ContextEncoder.fit(contexts)
    rng = np.random.default_rng(0)
    p = initial(len(encoder.feature_names("network")), len(AGENTS), (16, 8), waves, 1.0, rng)
    p["head"] = rng.standard_normal(p["head"].shape).astype(np.float32)
    p["lean"] = rng.standard_normal(p["lean"].shape).astype(np.float32)
    terms = Terms(L2(), costs, 0.0, budget)
    return LearnedEquilibria(ExactEquilibria(AGENTS, encoder, None, terms), Network(output, p), None)


def asked(path, learned, contexts):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["lottery", "agent"], feeds(learned.exact.encoder, contexts))


@pytest.mark.parametrize("output", ["softmax", "sparsemax"])
@pytest.mark.parametrize("waves", [0, 8])
@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("max_levels", [2, 50])
def test_the_graph_gives_the_policys_lotteries(tmp_path, output, waves, gaps, max_levels):
    contexts = table(300, seed=1, gaps=gaps)
    learned = policy(contexts, output, waves=waves, max_levels=max_levels)
    told = export_onnx(learned, tmp_path / "p.onnx", contexts=contexts)
    new = table(500, seed=2)  # with gaps, whether training had any or not
    lottery, agent = asked(tmp_path / "p.onnx", learned, new)
    expected = learned.predict_proba(new)
    assert told <= 1e-5
    np.testing.assert_allclose(lottery, expected, atol=1e-5)
    np.testing.assert_allclose(lottery.sum(axis=1), 1, atol=1e-9)
    assert expected.std(axis=0).max() > 0.05  # the contexts matter, so agreeing means something
    sure = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2] > 1e-4
    assert [AGENTS[k] for k in expected.argmax(axis=1)[sure]] == list(agent[sure])


def test_an_unknown_level_and_wild_numbers(tmp_path):
    contexts = table(100, seed=1)
    learned = policy(contexts)
    export_onnx(learned, tmp_path / "p.onnx", contexts=contexts)
    strange = pa.table(
        {"length": [1e30, None], "flat": [2.0, -3.0], "is_code": [None, True], "language": ["tlh", None]}
    )
    np.testing.assert_allclose(
        asked(tmp_path / "p.onnx", learned, strange)[0], learned.predict_proba(strange), atol=1e-4
    )


def test_what_cannot_be_exported_says_what_to_do(tmp_path):
    contexts = table(50, seed=1)
    learned = policy(contexts)
    with pytest.raises(InputError, match="--policy learned"):
        export_onnx(learned.exact, tmp_path / "p", contexts=contexts)
    with_budget = policy(contexts, budget=1.0, costs=dict.fromkeys(AGENTS, 0.5))
    with pytest.raises(InputError, match="hard budget"):
        export_onnx(with_budget, tmp_path / "p", contexts=contexts)
    encoder = ContextEncoder.fit(contexts.append_column("prompt", pa.array(["hello"] * 50)), text="prompt")
    with_text = LearnedEquilibria(ExactEquilibria(AGENTS, encoder, None, Terms(L2())), learned.network, None)
    with pytest.raises(InputError, match=r"text column 'prompt'.*--text none"):
        export_onnx(with_text, tmp_path / "p", contexts=contexts)
    named = policy(contexts.rename_columns(["length", "flat", "agent", "language"]))
    with pytest.raises(InputError, match="called 'agent'"):
        export_onnx(named, tmp_path / "p", contexts=contexts)
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_differs_is_not_written(tmp_path, monkeypatch):
    contexts = table(50, seed=1)
    learned = policy(contexts)
    monkeypatch.setattr(Network, "lotteries", lambda self, x: np.full((len(x), 4), 0.25))
    with pytest.raises(ConvergenceError, match="differ from the model's"):
        export_onnx(learned, tmp_path / "p.onnx", contexts=contexts)
    assert not (tmp_path / "p.onnx").exists()


def test_without_onnx_it_says_what_to_install(tmp_path, monkeypatch):
    contexts = table(50, seed=1)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"nasheval\[onnx\]"):
        export_onnx(policy(contexts), tmp_path / "p.onnx", contexts=contexts)


def test_dates_are_fed_as_days(tmp_path):
    rng, n = np.random.default_rng(0), 120
    days = pa.array([None if i % 7 == 0 else date(2024, 1, 1) + timedelta(int(rng.integers(300))) for i in range(n)])
    said = [(("a",), ("b",)) if rng.random() < 0.6 else (("b",), ("a",)) for _ in range(n)]
    log = Feedback.from_partitions(pa.table({"day": days}), said)
    model = fitted(log, policy=LEARNED, outcome=TREES)
    assert export_onnx(model.policy_, tmp_path / "policy.onnx", contexts=log.contexts) < 1e-5

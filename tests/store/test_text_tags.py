"""Texts that are not kept: tags stand for them, and their vectors are remembered."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.text import TextEncoder
from nasheval.errors import InputError
from nasheval.estimator import load
from nasheval.feedback.arrow import from_arrow, to_arrow
from nasheval.feedback.design import Design
from nasheval.feedback.log import Feedback
from nasheval.store.evidence import fingerprint
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
    knowing = remembering(encoder, tagged(TEXTS), vectors)
    np.testing.assert_array_equal(knowing.embed(pa.table({"prompt": tagged(TEXTS)})), vectors)
    some = pa.table({"prompt": [TEXTS[3], None, tagged(TEXTS).to_pylist()[0]]})
    np.testing.assert_array_equal(knowing.embed(some), vectors[[3, 1, 0]])
    assert knowing.to_json() == encoder.to_json()
    assert remembering(ContextEncoder(()), TEXTS, vectors) == ContextEncoder(())


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


def test_a_text_model_on_this_machine_cannot_be_saved(faked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    model = fitted(mixed_log(text=True))
    for path in ("mine", str(tmp_path / "mine"), "../mine"):
        elsewhere = ContextEncoder(model.stage1_.encoder.columns, "prompt", TextEncoder(path, 64))
        object.__setattr__(model.stage1_, "encoder", elsewhere)
        with pytest.raises(InputError, match="path on this machine"):
            model.save(tmp_path / "model")


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

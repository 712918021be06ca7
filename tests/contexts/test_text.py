from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.contexts import TextEncoder, text
from nasheval.errors import InputError, MissingExtraError

TEXTS = ["Write a sonnet about rain", "Prove that 2 is prime", "", None, "Write a sonnet about rain", "雨についての詩"]
needs_wordllama = pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="wordllama is not installed")


class FakeTransformer:
    """Counts what it embeds; a text becomes its length and its first letter's code, then zeros."""

    seen: list[str] = []  # noqa: RUF012
    width = 0

    def __init__(self, name: str, *, truncate_dim: int) -> None:
        if name == "absent/model":
            raise OSError("no such model")
        self.dim = FakeTransformer.width or truncate_dim

    def encode(self, texts: list[str], **settings: object) -> np.ndarray[Any, Any]:
        FakeTransformer.seen += texts
        vectors = np.zeros((len(texts), self.dim))
        vectors[:, 0], vectors[:, 1] = [len(t) for t in texts], [ord(t[0]) for t in texts]
        return vectors


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeTransformer]]:
    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = FakeTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(FakeTransformer, "seen", [])
    text._load.cache_clear()
    yield FakeTransformer
    text._load.cache_clear()


@needs_wordllama
def test_texts_become_unit_vectors_and_nothing_becomes_zeros() -> None:
    vectors = TextEncoder().encode(TEXTS)
    assert vectors.shape == (6, 64)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 0, 0, 1, 1], atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[4])


@needs_wordllama
def test_nearness_means_something() -> None:
    rain, storm, tax = TextEncoder().encode(["a poem about rain", "verses on a thunderstorm", "how do I file my taxes"])
    assert rain @ storm > rain @ tax


@needs_wordllama
def test_every_container_of_strings_is_embedded_alike() -> None:
    texts = ["one", None, "three"]
    expected = TextEncoder().encode(texts)
    dictionary = pa.array(texts).dictionary_encode()
    containers = [tuple(texts), pa.array(texts), pa.chunked_array([texts[:1], texts[1:]]), dictionary]
    containers += [pd.Series(texts), pl.Series(texts), np.array(texts, dtype=object)]
    for same in containers:
        np.testing.assert_array_equal(TextEncoder().encode(same), expected)
    assert TextEncoder().encode([]).shape == (0, 64)


@needs_wordllama
@given(st.lists(st.text(), min_size=1, max_size=6), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_a_vector_does_not_depend_on_its_neighbours(texts: list[str], batch_size: int) -> None:
    with mock.patch.object(text, "_BATCH_TEXTS", batch_size):
        together = TextEncoder().encode(texts)
    alone = np.vstack([TextEncoder().encode([t]) for t in texts])
    np.testing.assert_array_equal(together, alone)


@needs_wordllama
def test_importing_wordllama_leaves_the_root_logger_alone() -> None:
    code = (
        "import logging; from nasheval.contexts import TextEncoder; TextEncoder().encode(['a']); "
        "root = logging.getLogger(); assert not root.handlers and root.level == logging.WARNING, root.handlers"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_other_models_come_from_sentence_transformers(fake: type[FakeTransformer]) -> None:
    vectors = TextEncoder("Qwen/Qwen3-Embedding-4B", 8).encode(TEXTS)
    first = np.array([25, ord("W")]) / np.hypot(25, ord("W"))
    np.testing.assert_allclose(vectors[0, :2], first, rtol=1e-6)
    assert sorted(fake.seen) == sorted({t for t in TEXTS if t})


def test_long_texts_come_in_small_batches(fake: type[FakeTransformer], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    encode = fake.encode
    monkeypatch.setattr(fake, "encode", lambda self, texts, **kw: sizes.append(len(texts)) or encode(self, texts, **kw))
    TextEncoder("m", 2).encode(["x" * 600_000, "y" * 600_000, *(f"short {i}" for i in range(100))])
    assert sizes == [32, 32, 32, *[1] * 6]
    assert sum(sizes) == 102


def test_progress_shows_on_a_terminal_only(
    fake: type[FakeTransformer], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(text, "_PROGRESS_FROM", 2)
    TextEncoder("m", 2).encode(["a", "b"])
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    TextEncoder("m", 2).encode(["a", "b"])
    assert "Embedding texts" in capsys.readouterr().err


def test_absent_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text._load.cache_clear()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError) as caught:
        TextEncoder().encode(["a"])
    assert (
        str(caught.value)
        == "Embedding text needs the package 'wordllama'. Install it with: pip install 'nasheval[text]'"
    )
    with pytest.raises(MissingExtraError) as caught:
        TextEncoder("Qwen/Qwen3-Embedding-4B").encode(["a"])
    assert str(caught.value) == (
        "Embedding text with 'Qwen/Qwen3-Embedding-4B' needs the package 'sentence-transformers'. "
        "Install it with: pip install 'nasheval[transformers]'"
    )


BAD = {
    "wordllama's dim": ({"dim": 65}, "text encoder: dim=65 for wordllama. Accepted: 64, 128 or 256."),
    "dim": ({"dim": True}, "text encoder: dim=True. Accepted: a whole number from 1 to 16,384."),
    "model": ({"model": " "}, "text encoder: model=' '. Accepted: 'wordllama' or the name of a model."),
}


@pytest.mark.parametrize("case", BAD)
def test_settings_that_cannot_be_used_are_refused(case: str) -> None:
    arguments, message = BAD[case]
    with pytest.raises(InputError) as caught:
        TextEncoder(**arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["a", 1], "list with something that is not a string"),
        (pa.array([1]), "Int64Array with something that is not a string"),
        (["\ud800"], "list with something that is not a string"),
        (pa.array([b"\xff"]).view(pa.string()), "StringArray with something that is not a string"),
        (7, "int with something that is not a string"),
    ],
)
def test_what_is_no_text_is_refused(texts: object, found: str) -> None:
    accepted = "a list, a pyarrow array, or a pandas or polars Series of strings, null where missing"
    with pytest.raises(InputError) as caught:
        TextEncoder().encode(texts)
    assert str(caught.value) == f"texts: {found}. Accepted: {accepted}."


def test_one_string_is_refused() -> None:
    with pytest.raises(InputError, match=r"^texts: a single str\. .* Put it in a list\.$"):
        TextEncoder().encode("hello")


def test_models_that_misbehave_are_named(fake: type[FakeTransformer], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"cannot load the model 'absent/model' \(no such model\)"):
        TextEncoder("absent/model").encode(["a"])
    monkeypatch.setattr(fake, "width", 3)
    with pytest.raises(InputError) as caught:
        TextEncoder("small", 4).encode(["a"])
    assert str(caught.value) == (
        "text encoder: 'small' gave vectors of shape (1, 3) in place of 4 numbers per text. Set dim= to what it has."
    )
    monkeypatch.setattr(fake, "encode", lambda *_, **__: np.full((1, 3), np.nan))
    with pytest.raises(InputError, match="'small' gave a vector with NaN or infinity"):
        TextEncoder("small", 3).encode(["a"])

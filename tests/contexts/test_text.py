from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import types
from collections import Counter
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
from nasheval.errors import Argument, InputError, MissingExtraError

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
@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(max_size=60), max_size=6), st.text(max_size=400), st.sampled_from([64, 256]))
def test_one_text_has_the_bits_that_it_has_among_others(others: list[str], one: str, dim: int) -> None:
    encoder = TextEncoder(dim=dim)
    one, *others = (text.encode("utf-8", "replace").decode() for text in (one, *others))
    whole = encoder.encode([*others, one])
    assert encoder.encode_one(one).tobytes() == whole[-1:].tobytes() == encoder.encode([one]).tobytes()
    cut = encoder.fitted([["a", "b c", "d e f", one]], 3 if dim == 256 else None)
    assert encoder.encode_one(None).any() == np.False_
    assert cut.encode_one(one).tobytes() == cut.encode([one, *others])[:1].tobytes()


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


# -- a function, a package, a cut, and what is fetched -----------------------------------------------------------------


def letters(texts: list[str]) -> list[list[float]]:
    return [[len(t), t.count("e"), t.count("o"), 1.0] for t in texts]


def test_a_function_embeds_texts() -> None:
    encoder = TextEncoder(letters)
    vectors = encoder.encode(TEXTS)
    expected = np.array(letters(["Write a sonnet about rain"]), np.float32)
    np.testing.assert_allclose(vectors[0], expected[0] / np.linalg.norm(expected), rtol=1e-6)
    np.testing.assert_array_equal(vectors[2:4], 0.0)
    assert (encoder.name, encoder.own_dim, encoder.saved_name) == ("letters", 4, text.GIVEN)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda texts: [[1.0]] * (len(texts) + 1), r"gave vectors of shape \(2, 1\) in place of 1 numbers per text"),
        (lambda texts: [1.0] * len(texts), r"gave vectors of shape \(1,\) in place of 1 numbers per text"),
        (lambda texts: [[np.nan]] * len(texts), "gave a vector with NaN or infinity"),
        (lambda texts: [["x"]] * len(texts), "failed or gave no array of numbers"),
        (lambda texts: texts.missing, None),
    ],
)
def test_a_function_that_misbehaves_is_named(function: Any, found: str | None) -> None:
    with pytest.raises(InputError if found else AttributeError, match=found):
        TextEncoder(function).encode(["a"])


@needs_wordllama
def test_a_cut_is_fitted_on_training_texts_and_wordllama_has_lengths_of_its_own() -> None:
    texts = [f"number {i} of {i % 7}" for i in range(50)]
    assert TextEncoder().fitted([texts], 128) == TextEncoder(dim=128)
    cut = TextEncoder().fitted([texts], 10)
    assert (cut.size, cut.own_dim) == (10, 256)
    assert cut.encode([*texts, None]).shape == (51, 10)
    np.testing.assert_array_equal(cut.encode(texts[:1]), cut.encode(texts)[:1])
    with pytest.raises(InputError) as caught:
        TextEncoder().fitted([texts], 300)
    assert str(caught.value) == (
        "text_dim=300 is more than the 256 numbers per text that 'wordllama' gives; ask for no more, or name a larger "
        "model with text_encoder=."
    )
    assert "--text-dim 300" in caught.value.message(Argument.as_flag)
    assert "--text-model" in caught.value.message(Argument.as_flag)


def test_a_log_is_embedded_once_by_any_other_model() -> None:
    asked: list[str] = []

    def counted(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return letters(texts)

    texts = [f"text {i}" for i in range(40)]
    fitted = TextEncoder(counted).fitted([texts], 2)
    fitted.encode(texts)
    TextEncoder(counted, 4).encode(texts[:10])
    more = [f"more {i}" for i in range(40)]
    fitted.encode(more)
    TextEncoder(counted).fitted([texts + more], 3)
    once = dict.fromkeys([*texts, *more], 1)
    assert Counter(asked) == {**once, "text 0": 3}, "each once, and the first for each fit to tell the length"
    fitted.encode(["new"])
    fitted.encode(["new"])
    assert asked.count("new") == 2, "what single contexts ask is not kept"


def test_what_stands_for_an_encoder() -> None:
    assert text.text_encoder_of(None) == TextEncoder()
    assert text.text_encoder_of("m") == TextEncoder("m")
    assert text.text_encoder_of(letters).model is letters
    for wrong in (7, "", TextEncoder, ["m"]):
        with pytest.raises(InputError, match=r"^text_encoder is "):
            text.text_encoder_of(wrong)


@pytest.mark.parametrize("name", ["numpy", "no-such-package", "a/b", "../x", "gt.x", ""])
def test_packages_without_a_model_are_none(name: str) -> None:
    assert text.packaged(name) is None


def test_a_package_that_holds_a_model_is_found_and_not_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny_model_x" / "model").mkdir(parents=True)
    (tmp_path / "tiny_model_x" / "__init__.py").write_text("raise SystemExit('it was run')")
    (tmp_path / "tiny_model_x" / "model" / "modules.json").write_text("[]")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert text.packaged("tiny-model-x") == tmp_path / "tiny_model_x" / "model"
    assert TextEncoder("tiny-model-x", 4).saved_name == "tiny-model-x"
    monkeypatch.chdir(tmp_path)
    assert text.packaged("tiny-model-x") is None, "what lies in the current folder is not installed"


class Here(FakeTransformer):
    """Is on this machine where its name says so, and else is fetched, which is noted."""

    fetched: list[str] = []  # noqa: RUF012

    def __init__(self, name: str, *, truncate_dim: int, local_files_only: bool = False) -> None:
        super().__init__(name, truncate_dim=truncate_dim)
        if "here" not in name:
            if local_files_only:
                raise OSError("not in the cache")
            Here.fetched.append(name)


@pytest.fixture
def places(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(sys.modules["sentence_transformers"], "SentenceTransformer", Here)
    monkeypatch.setattr(Here, "fetched", [])
    text._load_here.cache_clear()
    yield Here.fetched
    text._load_here.cache_clear()


def test_nothing_is_fetched_unasked(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = TextEncoder("org/away", 4, fetch=False)
    with pytest.raises(InputError) as caught:
        loaded.encode(["a"])
    assert "nothing is fetched unasked" in str(caught.value)
    assert "load(path, text_encoder='org/away')" in str(caught.value)
    assert "--text-model org/away" in caught.value.message(Argument.as_flag)
    assert places == []
    assert TextEncoder("org/here", 4, fetch=False).encode(["a"]).shape == (1, 4)
    assert places == []
    TextEncoder("org/away", 4).encode(["a"])  # named by the user
    assert places == ["org/away"]


@pytest.mark.parametrize(
    ("answer", "fetches"), [("y\n", True), ("YES\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_a_terminal_is_asked(
    places: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, fetches: bool
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    encoder = TextEncoder("org/away", 4, fetch=False)
    if fetches:
        assert encoder.encode(["a"]).shape == (1, 4)
    else:
        with pytest.raises(InputError, match="nothing is fetched unasked"):
            encoder.encode(["a"])
    assert places == ["org/away"] * fetches
    assert "'org/away' is not on this machine. Fetch its weights? [y/N]" in capsys.readouterr().err


def test_a_name_that_is_also_a_folder_is_not_guessed(
    places: list[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "here").mkdir(parents=True)
    with pytest.raises(InputError, match="is also a folder here"):
        TextEncoder("org/here", 4, fetch=False).encode(["a"])

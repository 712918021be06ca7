from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval import ContextEncoder, InputError
from studies.prompts.features import prompt_features
from studies.prompts.language import language_group

DATA = Path(os.environ.get("NASHEVAL_DATA") or Path(__file__).parents[2] / "../shared/data")


def real(name: str) -> pa.Table:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no real data at {name} under $NASHEVAL_DATA or ../shared/data")
    return pq.read_table(path)


@pytest.fixture(scope="module")
def oa_pairs() -> pa.Table:
    table = real("oa_pairs/prompts.parquet")
    text = pc.replace_substring_regex(table["text"], pattern="### (Human|Assistant):", replacement="")
    return table.set_column(table.column_names.index("text"), "text", text)


@pytest.fixture(scope="module")
def llmrouter() -> pd.DataFrame:
    table = real("llmrouter/scores.parquet")
    return prompt_features(table["question"]).append_column("task", table["task_name"]).to_pandas()


def test_columns() -> None:
    features = prompt_features(
        ["Write a Python function.", "What is $x^2$ if x = 3?", None, ""], ["en", None, "pl", "xx"]
    )
    assert features.schema.equals(
        pa.schema({"tokens": pa.int32(), "is_code": pa.bool_(), "is_math": pa.bool_(), "language_group": pa.string()})
    )
    assert features.to_pydict() == {
        "tokens": [5, 12, None, 0],
        "is_code": [True, False, None, False],
        "is_math": [False, True, None, False],
        "language_group": ["English", "English", "Polish", "Other"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "```\nx\n```",
        "def add(a, b):\n    return a + b",
        "Why does `SELECT name FROM users` hang?",
        "Fix this: for (int i = 0; i < n; i++) {\n sum += a[i];\n}",
        "Write a function to reverse a string.",
        "Напиши функцию на языке swift",
        "写一段代码",
        "Implementa el algoritmo `bubble sort` en C.",
        "<div class='a'>hi</div>",
        "total = 0;\ncount = size();\nlast = 1;\n",
        "C++ vs C#?",
    ],
)
def test_code(text: str) -> None:
    assert prompt_features([text])["is_code"].to_pylist() == [True]


@pytest.mark.parametrize(
    "text",
    [
        "Write a poem about the function of the heart",
        "Create a workout program for me",
        "What is the price of tea in China (in yuan)?",
        "f(x) = 2x. Find f(3).",
    ],
)
def test_not_code(text: str) -> None:
    assert prompt_features([text])["is_code"].to_pylist() == [False]


@pytest.mark.parametrize(
    "text",
    [
        r"Compute $\frac{1}{2} + \frac{1}{3}$",
        "Solve 4x + 2y = 8 for y",
        "12 * 7",
        "Prove that the square root of 2 is irrational",
        "Tom has 3 apples and eats two. How many are left?",
        "∫ x dx",
        "Реши уравнение",
        "求导数",
        "Rozwiąż równanie",
    ],
)
def test_math(text: str) -> None:
    assert prompt_features([text])["is_math"].to_pylist() == [True]


@pytest.mark.parametrize(
    "text",
    [
        "How many people live in Paris?",
        "Open 24/7 since 2020-21",
        "Write a story",
        "It cost $5 and then $7",
        "x = 1;\ny = 2 * 3;\nz = 4;\n",
    ],
)
def test_not_math(text: str) -> None:
    assert prompt_features([text])["is_math"].to_pylist() == [False]


def test_one_language_a_text() -> None:
    with pytest.raises(InputError) as caught:
        prompt_features(["a", "b"], ["en"])
    assert str(caught.value) == "prompt features: 2 texts and 1 languages. Give one a text."


@given(st.lists(st.none() | st.text(), max_size=5))
@settings(deadline=None, max_examples=40)
def test_any_text_has_features(texts: list[str | None]) -> None:
    features = prompt_features(texts)
    assert features.num_rows == len(texts)
    backwards = prompt_features(texts[::-1])
    assert features.to_pylist() == backwards.to_pylist()[::-1]
    assert all(
        set(row.values()) == {None} for row, text in zip(features.to_pylist(), texts, strict=True) if text is None
    )


def test_language_guesses_on_real_prompts(oa_pairs: pa.Table) -> None:
    guess = prompt_features(oa_pairs["text"])["language_group"].to_numpy()
    truth = language_group(oa_pairs["lang"]).to_numpy(zero_copy_only=False)
    assert (guess == truth).mean() > 0.95  # 0.98 when written
    for group in ("English", "Russian", "Chinese"):
        assert (guess[truth == group] == group).mean() > 0.9


def test_flags_on_real_prompts(oa_pairs: pa.Table) -> None:
    features = prompt_features(oa_pairs["text"], oa_pairs["lang"]).to_pandas()
    assert 0.05 < features["is_code"].mean() < 0.2
    assert 0.02 < features["is_math"].mean() < 0.15
    named = np.array(["python" in text.lower() for text in oa_pairs["text"].to_pylist()])
    assert features["is_code"][named].all()


def test_flags_on_tasks_of_known_kind(llmrouter: pd.DataFrame) -> None:
    share = llmrouter.groupby("task")[["is_code", "is_math"]].mean()
    assert share.loc[["mbpp", "human_eval"], "is_code"].min() > 0.95
    assert share.loc[["gsm8k", "math", "agentverse-mgsm"], "is_math"].min() > 0.85
    for task in ("natural_qa", "trivia_qa", "openbook_qa", "commonsense_qa", "commongen", "arc_challenge"):
        assert share.loc[task].max() < 0.03


def test_token_length_follows_a_real_tokeniser(oa_pairs: pa.Table) -> None:
    wordllama = pytest.importorskip("wordllama")
    folder = Path(wordllama.__file__).parent
    tokenizer = wordllama.WordLlama.load(cache_dir=folder, disable_download=True).tokenizer
    tokenizer.no_padding()
    theirs = [len(coded.ids) for coded in tokenizer.encode_batch(oa_pairs["text"].to_pylist())]
    ours = prompt_features(oa_pairs["text"])["tokens"].to_numpy()
    assert np.corrcoef(np.log1p(ours), np.log1p(theirs))[0, 1] > 0.9


def test_features_and_text_make_a_context(oa_pairs: pa.Table) -> None:
    pytest.importorskip("wordllama")
    prompts = oa_pairs.slice(0, 100)
    table = prompt_features(prompts["text"], prompts["lang"]).append_column("prompt", prompts["text"])
    encoder = ContextEncoder.fit(table, text="prompt")
    vectors = encoder.embed(table)
    for form, p in (("trees", 4 + 64), ("network", 3 + 4 + 64)):
        X = encoder.encode(table, form=form, vectors=vectors)
        assert X.shape == (100, p)
        assert np.isfinite(X).all()

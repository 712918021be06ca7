from __future__ import annotations

import re
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.prompts import characters
from studies.prompts.characters import ASCII, CYRILLIC, HAN, KANA, NOT_RUSSIAN, POLISH, class_counts, token_counts


def strings(texts: list[str | None]) -> pa.LargeStringArray:
    return pa.array(texts, pa.large_string())


def tokens_one_by_one(text: str) -> int:
    """The same rule, a character at a time."""
    count, in_word = 0, False
    for letter in text:
        lone = re.match("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3100-\u312f\u3040-\u30ff\u3400-\u9fff]", letter)
        category = unicodedata.category(letter)[0]
        word = category in "LNM" and not lone
        if category not in "ZC" and not (word and in_word):
            count += 1
        in_word = word
    return count


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (None, 0),
        (" \n\t", 0),
        ("Hello, world!", 4),
        ("don't", 3),
        ("x_1 = f(2.5)", 10),
        ("żółć naïve", 2),
        ("你好，世界", 5),
        ("用Python写", 3),
        ("ありがとう", 5),
        ("Привет мир", 2),
        ("สวัสดี", 6),
        ("👍 ok", 2),
        ("\U00020000\U00020001", 2),
    ],
)
def test_tokens(text: str | None, tokens: int) -> None:
    assert token_counts(strings([text])).tolist() == [tokens]


def test_a_word_does_not_run_on_into_the_next_text() -> None:
    assert token_counts(strings(["ab", "cd", "", "ef", None, "gh", "ż", "ó"])).tolist() == [1, 1, 0, 1, 0, 1, 1, 1]
    assert token_counts(strings(["skipped", "ab", "c d", "ż e"])[1:]).tolist() == [1, 2, 2]


def test_classes_of_letters() -> None:
    texts = strings(["abc żĄó", "привіт", "漢字かな", None])
    counts = class_counts(texts, (ASCII, POLISH, CYRILLIC, NOT_RUSSIAN, HAN, KANA))
    assert counts.tolist() == [[3, 2, 0, 0, 0, 0], [0, 0, 5, 1, 0, 0], [0, 0, 0, 0, 2, 2], [0] * 6]


alphabet = st.sampled_from("ab1 ,._\nżó漢かาﾊᄒ한ąя") | st.characters(
    min_codepoint=1, max_codepoint=0x2FF, exclude_categories=["Cs"]
)


@given(st.lists(st.none() | st.text(alphabet, max_size=12), max_size=8), st.integers(1, 30))
@settings(deadline=None)
def test_agrees_with_counting_one_by_one(texts: list[str | None], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(characters, "_CHUNK_BYTES", chunk)
        counted = token_counts(strings(texts))
    expected = [tokens_one_by_one((text or "").replace("ﾊ", "か")) for text in texts]
    np.testing.assert_array_equal(counted, expected)

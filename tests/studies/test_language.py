from __future__ import annotations

import re
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.prompts import language
from studies.prompts.characters import (
    ACCENTED,
    ASCII,
    CYRILLIC,
    HAN,
    KANA,
    LONE,
    NOT_RUSSIAN,
    OTHER_LETTER,
    POLISH,
    _table,
)
from studies.prompts.language import GROUPS, guess_language_group, language_group


@pytest.mark.parametrize(
    ("group", "codes"),
    [
        ("English", ["en", "EN", "en-US", "en_GB", "eng", "English", " english ", "English (US)", "American English"]),
        ("Polish", ["pl", "pl-PL", "pol", "Polish", "polski"]),
        ("Russian", ["ru", "ru-RU", "rus", "Russian", "русский"]),
        (
            "Chinese",
            ["zh", "zh-Hant", "zh-Hans-CN", "ZH_TW", "zho", "cmn", "Chinese (Simplified)", "Simplified Chinese"],
        ),
        ("Other", ["fr", "ja", "uk-UA", "und", "unknown", "", "-", "enm", "Plattdeutsch", "american", "🙂"]),
    ],
)
def test_groups_of_codes_and_names(group: str, codes: list[str]) -> None:
    expected = ["English" if code == "american" else group for code in codes]
    assert language_group(codes).to_pylist() == expected


def test_a_missing_language_stays_missing() -> None:
    assert language_group(["en", None]).to_pylist() == ["English", None]
    assert language_group(pa.array(["zh", "fr"]).dictionary_encode()).to_pylist() == ["Chinese", "Other"]
    assert language_group([]).to_pylist() == []


@pytest.mark.parametrize(
    ("group", "texts"),
    [
        (
            "English",
            [
                "What is the capital of France?",
                "hello",
                "Who was Lech Wałęsa and why is he famous?",
                "Translate 你好 into English please",
                "What does the café on the corner serve?",
            ],
        ),
        (
            "Polish",
            [
                "Napisz wiersz o deszczu",
                "Jaka jest stolica Francji?",
                "Wyjaśnij różnicę między listą a krotką w Pythonie",
                "Czy możesz mi pomóc?",
                "Cześć",
            ],
        ),
        ("Russian", ["Напиши функцию на Python, которая сортирует список", "Привет!", "Что такое API?"]),
        ("Chinese", ["你好", "用Python写一个hello world程序", "請解釋量子糾纏", "「深度學習」是什麼？"]),
        (
            "Other",
            [
                "¿Cuál es la capital de Francia?",
                "Wie heißt die Hauptstadt von Frankreich und wie groß ist sie?",
                "東京の人口は何人ですか",
                "프랑스의 수도는 어디입니까?",
                "Яка столиця Франції і її населення?",
                "ما هي عاصمة فرنسا؟",
                "สวัสดี",
                "Jaké je hlavní město České republiky?",
                "2 + 2 = ?",
                "",
            ],
        ),
    ],
)
def test_guesses(group: str, texts: list[str]) -> None:
    assert guess_language_group(pa.array(texts, pa.large_string())).to_pylist() == [group] * len(texts)


@given(st.lists(st.none() | st.text(), max_size=5))
@settings(deadline=None)
def test_every_text_gets_a_group(texts: list[str | None]) -> None:
    groups = guess_language_group(pa.array(texts, pa.large_string())).to_pylist()
    assert [group is None for group in groups] == [text is None for text in texts]
    assert set(groups) <= {*GROUPS, None}


def spelled_out(text: str) -> str:
    """The rule, a text at a time: every letter and word counted, whether or not it can matter."""
    head = text[:300]
    kinds = Counter(_table()[ord(letter)] for letter in head)

    def words(known: str) -> int:
        return sum(word.lower() in known.split() for word in re.findall(r"[0-9A-Za-z_]+", head))

    latin = kinds[ASCII] + kinds[ACCENTED] + kinds[POLISH]
    cyrillic, han = kinds[CYRILLIC] + kinds[NOT_RUSSIAN], kinds[HAN] + kinds[KANA]
    weights = [latin, 2 * cyrillic, 4 * han, 2 * (kinds[LONE] + kinds[OTHER_LETTER])]
    if not any(weights):
        return "Other"
    english = words(language._ENGLISH_WORDS)
    polish, other = 2 * words(language._POLISH_WORDS) + kinds[POLISH], words(language._OTHER_WORDS) + kinds[ACCENTED]
    match weights.index(max(weights)):
        case 0 if polish > english and polish >= other:
            return "Polish"
        case 0 if english >= max(polish, other):
            return "English"
        case 1 if 50 * kinds[NOT_RUSSIAN] <= kinds[CYRILLIC]:
            return "Russian"
        case 2 if 10 * kinds[KANA] <= kinds[HAN]:
            return "Chinese"
    return "Other"


WORDS = st.sampled_from(
    ["the", "The", "is", "that", "nie", "jest", "Jak", "la", "de", "per", "ich", "café", "ż", "ńć", "Привет", "її",
     "你好", "です", "สวัสดี", "12", "_the", "the_", "...", "thé", "x" * 150]
)  # fmt: skip


@given(st.lists(st.none() | st.lists(WORDS | st.text(max_size=3), max_size=12).map(" ".join), max_size=4))
@settings(deadline=None)
def test_guesses_follow_the_rule(texts: list[str | None]) -> None:
    expected = [None if text is None else spelled_out(text) for text in texts]
    assert guess_language_group(pa.array(texts, pa.large_string())).to_pylist() == expected

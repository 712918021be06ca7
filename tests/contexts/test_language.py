from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.contexts import language_group, prompt_features
from nasheval.contexts.language import GROUPS, guess_language_group
from nasheval.errors import InputError


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


def test_what_is_no_language_is_called_so() -> None:
    for codes in (5, [1, 2], "en"):
        with pytest.raises(InputError, match=r"^languages: "):
            language_group(codes)
        with pytest.raises(InputError, match=r"^languages: "):
            prompt_features(["a", "b"], codes)


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

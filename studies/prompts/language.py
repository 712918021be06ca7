"""The paper's language groups, English, Polish, Russian, Chinese, Other: from a code or a name, or guessed."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
    Counts,
    as_strings,
    class_counts,
)

_LATIN_SCRIPT, _CYRILLIC_SCRIPT, _HAN_SCRIPT = range(3)
GROUPS = ("English", "Polish", "Russian", "Chinese", "Other")

_SPELLINGS = {
    "English": "en eng english american british",
    "Polish": "pl pol polish polski",
    "Russian": "ru rus russian русский",
    "Chinese": "zh zho chi cmn yue chinese mandarin cantonese 中文 汉语 漢語",
}
_GROUP_OF = {spelling: group for group, spellings in _SPELLINGS.items() for spelling in spellings.split()}
_SCRIPT_ADJECTIVES = {"simplified", "traditional", "modern", "american", "british"}

# A guess looks at this many characters: enough for stopwords to speak, and long prompts cost no more than short ones.
_HEAD = 300
_CLASSES = (ASCII, ACCENTED, POLISH, CYRILLIC, NOT_RUSSIAN, HAN, KANA, LONE, OTHER_LETTER)
_ENGLISH_WORDS = (
    "the of and to is are was what how why who which when where you your with that this can could would should "
    "for from have has it its my not if do does did an as by be write please give explain about"
)
_POLISH_WORDS = (
    "nie jest jak czy dla oraz przez napisz aby ale jaki jaka jakie mnie mi sobie tego tym gdzie kiedy ile przy "
    "podaj opisz jestem"
)
# Words of other languages in Latin script that are not English words too.
_OTHER_WORDS = (
    "el la los las de del que es una por con para como mi se cual quien sobre entre "
    "le les des du et est une dans pour qui sur pas je vous avec quel quelle "
    "der das und ist nicht ein eine mit auf wie ich zu von dem kannst mir "
    "il che di sono nel della um uma os dos das em ao voce "
    "het een van dat niet voor yang dan untuk dengan adalah och att det som inte og ikke hvad hvordan "
    "ve bir bu icin nedir hogyan egy az ja ei mika els amb per els cum este si ang ng mga"
)


def language_group(codes: object) -> pa.StringArray:
    """Put languages into the paper's groups, (n,) strings of GROUPS; a missing language stays null.

    Args:
        codes: n codes or English names in any case: "en", "en-US", "English", "zh-Hant", "pol", "Chinese
            (Simplified)"; what is none of the four languages is "Other".
    """
    coded = as_strings(codes).dictionary_encode()
    groups = pa.array([_group(str(code)) for code in coded.dictionary.to_pylist()], pa.string())
    return groups.take(coded.indices)


def guess_language_group(texts: pa.LargeStringArray) -> pa.StringArray:
    """Guess the language group of each text, (n,); null stays null, and a text without letters is "Other".

    A guess from script, letters and frequent words in the first 300 characters, not a language model: Chinese is Han
    without kana; Russian is Cyrillic without letters foreign to it (Bulgarian passes for it); Polish has its own
    letters or words; other Latin text is English unless accents and frequent words of other languages outnumber
    English ones.

    Args:
        texts: n texts.
    """
    head = pc.utf8_slice_codeunits(texts, 0, _HEAD).fill_null("")
    count = _letters(head)
    script = _main_script(count)
    russian = 50 * count[NOT_RUSSIAN] <= count[CYRILLIC]
    chinese = 10 * count[KANA] <= count[HAN]
    english, polish, other = _signs(head, count)
    tests = {
        "Polish": (script == _LATIN_SCRIPT) & (polish > english) & (polish >= other),
        "English": (script == _LATIN_SCRIPT) & (english >= np.maximum(polish, other)),
        "Russian": (script == _CYRILLIC_SCRIPT) & russian,
        "Chinese": (script == _HAN_SCRIPT) & chinese,
    }
    group = np.select(list(tests.values()), [GROUPS.index(name) for name in tests], default=GROUPS.index("Other"))
    return pa.array(GROUPS, pa.string()).take(pa.array(group, mask=np.asarray(texts.is_null())))


def _letters(head: pa.LargeStringArray) -> dict[int, Counts]:
    """Count the letters of each class; those of a plain ASCII text, all of one class, as one if there are any."""
    counts = np.zeros((len(head), len(_CLASSES)), dtype=np.int64)
    plain = np.asarray(pc.string_is_ascii(head))
    counts[plain, _CLASSES.index(ASCII)] = np.asarray(pc.match_substring_regex(head, pattern="[A-Za-z]"))[plain]
    counts[~plain] = class_counts(head.filter(pa.array(~plain)), _CLASSES)
    return dict(zip(_CLASSES, counts.T, strict=True))


def _signs(head: pa.LargeStringArray, count: dict[int, Counts]) -> tuple[Counts, Counts, Counts]:
    """Count the signs of English, Polish and other languages in Latin script, (n,) each.

    A text without a sign of another language is English whatever its words, so most texts' words need no counting.
    """
    foreign = np.asarray(pc.match_substring_regex(head, pattern=_pattern(f"{_POLISH_WORDS} {_OTHER_WORDS}")))
    rows = np.flatnonzero(foreign | (count[POLISH] + count[ACCENTED] > 0))
    some, signs = head.take(rows), np.zeros((3, len(head)), dtype=np.int64)
    for sign, words in zip(signs, (_ENGLISH_WORDS, _POLISH_WORDS, _OTHER_WORDS), strict=True):
        sign[rows] = np.asarray(pc.count_substring_regex(some, pattern=_pattern(words)))
    return signs[0], 2 * signs[1] + count[POLISH], signs[2] + count[ACCENTED]


def _main_script(count: dict[int, Counts]) -> npt.NDArray[np.int64]:
    """Give the script of most of each text, -1 where it has no letters."""
    latin = count[ASCII] + count[ACCENTED] + count[POLISH]
    cyrillic, han = count[CYRILLIC] + count[NOT_RUSSIAN], count[HAN] + count[KANA]
    other = count[LONE] + count[OTHER_LETTER]
    # A prompt in any language may hold code and names in Latin letters, and one Han character says as much as a word.
    weights = np.stack([latin, 2 * cyrillic, 4 * han, 2 * other])
    return np.where(weights.any(axis=0), weights.argmax(axis=0), -1)


def _pattern(words: str) -> str:
    return rf"(?i)\b(?:{'|'.join(words.split())})\b"


def _group(code: str) -> str:
    words = [word for word in re.split(r"[^\w]+|_", code.strip().lower()) if word]
    spoken = [word for word in words if word not in _SCRIPT_ADJECTIVES] or words
    return _GROUP_OF.get(spoken[0], "Other") if spoken else "Other"

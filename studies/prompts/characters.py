"""The characters of many texts at once: how many tokens each text has, and in which scripts it is written."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# What a character can be. Words are runs of the classes from WORD on; LONE, HAN and KANA are a token each.
SPACE, MARK, LONE, HAN, KANA, WORD, OTHER_LETTER, ASCII, ACCENTED, POLISH, CYRILLIC, NOT_RUSSIAN = range(12)

Classes: TypeAlias = npt.NDArray[np.uint8]
Counts: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Ranges: TypeAlias = tuple[tuple[int, int], ...]

# Scripts that put no spaces between words: one character is closer to a token than one run is.
_UNSPACED: Ranges = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3100, 0x312F), (0xA9E0, 0xA9FF))
_HAN: Ranges = ((0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF))
_KANA: Ranges = ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F))
_ASCII: Ranges = ((0x41, 0x5A), (0x61, 0x7A))
_ACCENTED: Ranges = ((0x00C0, 0x00D6), (0x00D8, 0x00F6), (0x00F8, 0x024F), (0x1E00, 0x1EFF))
_CYRILLIC: Ranges = ((0x0400, 0x052F), (0x1C80, 0x1C8F))
_SCRIPTS = (
    (_UNSPACED, LONE),
    (_HAN, HAN),
    (_KANA, KANA),
    (_ASCII, ASCII),
    (_ACCENTED, ACCENTED),
    (_CYRILLIC, CYRILLIC),
)
_POLISH = "ąęłńśźżĄĘŁŃŚŹŻ"
_RUSSIAN = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"
_PLANE, _UNICODE = 0x10000, 0x110000
# Small enough for a chunk and its working memory to stay in the processor's cache.
_CHUNK_BYTES = 1 << 18


def as_strings(texts: object) -> pa.LargeStringArray:
    """Return n texts, nulls where missing, as one Arrow array: from a list or any Arrow array of strings."""
    array = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.array(texts, from_pandas=True)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    large = array.cast(pa.large_string())
    return large.combine_chunks() if isinstance(large, pa.ChunkedArray) else large


def token_counts(texts: pa.LargeStringArray) -> Counts:
    """Count the tokens of each text, (n,); a null counts as empty.

    A token is a run of letters and digits, a single character of a script without spaces between words (Chinese,
    Japanese, Thai, Lao, Khmer, Burmese), or a single mark of punctuation.

    Args:
        texts: n texts.
    """
    tokens = np.zeros(len(texts), dtype=np.int64)
    for rows, kinds, edges in _chunks(texts):
        tokens[rows] = _count(_starts_token(kinds, edges), edges)
    return tokens


def class_counts(texts: pa.LargeStringArray, classes: tuple[int, ...]) -> Counts:
    """Count the characters of some classes in each text, (n, number of classes); a null counts as empty.

    Args:
        texts: n texts.
        classes: the classes to count, for instance (HAN, KANA).
    """
    counts = np.zeros((len(texts), len(classes)), dtype=np.int64)
    for rows, kinds, edges in _chunks(texts):
        for i, kind in enumerate(classes):
            counts[rows, i] = _count(kinds == kind, edges)
    return counts


def _chunks(texts: pa.LargeStringArray) -> Iterator[tuple[Counts, Classes, Counts]]:
    """Cut n texts into runs of about _CHUNK_BYTES: their rows, the class of each character, the edges of the texts."""
    texts = texts.fill_null("")
    plain = np.asarray(pc.string_is_ascii(texts))
    # Plain ASCII, which most prompts are, needs no decoding and goes several times as fast.
    for rows, classes in ((np.flatnonzero(plain), _ascii_classes), (np.flatnonzero(~plain), _classes)):
        part = texts.take(rows)
        ends = np.cumsum(pc.binary_length(part).to_numpy())
        start = 0
        while start < len(part):
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _CHUNK_BYTES, side="right")))
            lengths = pc.utf8_length(part[start:stop]).to_numpy()
            yield rows[start:stop], classes(part[start:stop]), np.append(0, np.cumsum(lengths))
            start = stop


def _ascii_classes(texts: pa.LargeStringArray) -> Classes:
    return np.frombuffer(_bytes(texts).translate(_table()[:256].tobytes()), dtype=np.uint8)


def _classes(texts: pa.LargeStringArray) -> Classes:
    points: npt.NDArray[np.uint32] = np.frombuffer(_bytes(texts).decode().encode("utf-32-le"), dtype="<u4")
    return _table()[points]


def _bytes(texts: pa.LargeStringArray) -> bytes:
    """Give n texts in a row, as they lie in memory."""
    _, offsets, data = texts.buffers()
    first, last = np.frombuffer(offsets, dtype=np.int64)[[texts.offset, texts.offset + len(texts)]]
    return bytes(memoryview(data or b"")[first:last])


def _starts_token(kinds: Classes, edges: Counts) -> Flags:
    word = kinds >= WORD
    starts = word.copy()
    starts[1:] &= ~word[:-1]
    # A word that a text begins with starts there, whatever the text before it ended with.
    first = edges[:-1][np.diff(edges) > 0]
    starts[first] = word[first]
    return starts | ((kinds > SPACE) & (kinds < WORD))


def _count(flags: Flags, edges: Counts) -> Counts:
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    full = np.diff(edges) > 0
    # Most classes do not occur in most chunks, and looking is cheaper than adding up.
    if flags.any():
        counts[full] = np.add.reduceat(flags, edges[:-1][full], dtype=np.int32)
    return counts


@lru_cache(maxsize=1)
def _table() -> Classes:
    """Give the class of each Unicode character."""
    categories = {"L": OTHER_LETTER, "P": MARK, "S": MARK, "Z": SPACE, "C": SPACE}
    # Beyond the first plane: mostly emoji at first, then rare Chinese characters.
    table = np.repeat(np.array([MARK, HAN], dtype=np.uint8), [2 * _PLANE, _UNICODE - 2 * _PLANE])
    table[:_PLANE] = [categories.get(unicodedata.category(chr(i))[0], WORD) for i in range(_PLANE)]
    for ranges, kind in _SCRIPTS:
        for low, high in ranges:
            part = table[low : high + 1]
            part[part >= WORD] = kind
    # Letters that tell a language from its neighbours: Polish ones, and Cyrillic ones that Russian does not have.
    table[[ord(letter) for letter in _POLISH]] = POLISH
    russian = [ord(letter) for letter in _RUSSIAN + _RUSSIAN.upper()]
    table[(table == CYRILLIC) & ~np.isin(np.arange(_UNICODE), russian)] = NOT_RUSSIAN
    return table

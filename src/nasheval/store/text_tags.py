"""Texts that were not kept: a tag stands for each, and the vector it was embedded as is remembered."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nasheval.arrays import Floats, Ints, readonly
from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.table import as_strings
from nasheval.contexts.text import TextEncoder

_PREFIX = "text "


def tagged(texts: Any) -> pa.Array:
    """Return a tag for each text, equal for equal texts; a missing one stays missing.

    The tags are hashes under a key that is a hash of all texts together, so a guess at one text can be tried only by
    somebody who has all of them.
    """
    coded = as_strings(texts).dictionary_encode()
    distinct = [str(text).encode() for text in coded.dictionary.to_pylist()]
    key = blake2b(digest_size=32)
    for text in distinct:
        key.update(len(text).to_bytes(8, "little") + text)
    key.update(np.asarray(coded.indices.fill_null(-1), np.int64).tobytes())
    tags = [_PREFIX + blake2b(text, digest_size=16, key=key.digest()).hexdigest() for text in distinct]
    return pa.array(tags, pa.string()).take(coded.indices)


@dataclass(frozen=True)
class RememberedTexts(TextEncoder):
    """A text encoder that knows the vectors of a log's texts, or of the tags that stand for them.

    Args:
        known: {text or tag: its row in `vectors`}.
        vectors: (rows, size).
    """

    known: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    vectors: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32), compare=False, repr=False)

    def encode(self, texts: object) -> npt.NDArray[np.float32]:
        """Embed n texts, (n, size); those that are known are looked up."""
        coded = as_strings(texts).dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        place = np.array([self.known.get(text, -1) for text in distinct], np.int64)
        vectors = np.zeros((len(distinct) + 1, self.size), np.float32)  # the last row is that of a missing text
        vectors[:-1][place >= 0] = self.vectors[place[place >= 0]]
        new = np.flatnonzero(place < 0)
        if len(new):
            vectors[new] = super().encode(coded.dictionary.take(pa.array(new)))
        codes: Ints = np.asarray(coded.indices.fill_null(-1))
        return vectors[codes]


def remembering(encoder: ContextEncoder, contexts: pa.Table, vectors: Floats) -> ContextEncoder:
    """Return the encoder with the vectors, (n, text_size), of the texts or tags of n contexts."""
    plain = encoder.text_encoder
    if plain is None:
        return encoder
    known: dict[str, int] = {}
    for place, name in enumerate(encoder.texts):
        coded = as_strings(contexts[name]).dictionary_encode()
        codes, first = np.unique(np.asarray(coded.indices.fill_null(-1)), return_index=True)
        rows = first[codes >= 0] * len(encoder.texts) + place
        known |= dict(zip(coded.dictionary.to_pylist(), rows.tolist(), strict=True))
    saved = {each.name: getattr(plain, each.name) for each in fields(TextEncoder)}
    made = RememberedTexts(**saved, known=known, vectors=readonly(vectors.reshape(-1, plain.size)))
    return ContextEncoder(encoder.columns, encoder.text, made)

"""Decisions whose agents nobody may read: what a voter gets who is to judge answers without knowing whose they are.

A `decision_id` is signed and readable. A sealed one is also encrypted, with a keystream of BLAKE2b under the store's
secret and 128 random bits; agents are named by letters, in the order in which they are shown.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Sequence
from hashlib import blake2b
from secrets import token_bytes
from string import ascii_uppercase

PREFIX = "sealed."
_NONCE, _TAG = 16, 16  # bytes


def letters(count: int) -> list[str]:
    """Return the names of answers: A, B, and so on."""
    return list(ascii_uppercase[:count])


def sealed(token: str, secret: bytes) -> str:
    """Return a decision's id that can be given back, and not be read."""
    nonce, plain = token_bytes(_NONCE), token.encode()
    hidden = _mixed(plain, secret, nonce)
    return PREFIX + urlsafe_b64encode(nonce + hidden + _tag(nonce + hidden, secret)).decode().rstrip("=")


def unsealed(token: str, secret: bytes) -> str | None:
    """Return the id that was sealed; None where this store did not seal it."""
    text = token.removeprefix(PREFIX)
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Error, ValueError):
        return None
    nonce, hidden, tag = raw[:_NONCE], raw[_NONCE:-_TAG], raw[-_TAG:]
    if not hmac.compare_digest(tag, _tag(nonce + hidden, secret)):
        return None
    return _mixed(hidden, secret, nonce).decode()


def named(blocks: Sequence[Sequence[str]], menu: Sequence[str]) -> list[list[str]]:
    """Return blocks of a menu's letters as blocks of its agents."""
    agents = dict(zip(letters(len(menu)), menu, strict=True))
    return [[agents[letter] for letter in block] for block in blocks]


def _mixed(data: bytes, secret: bytes, nonce: bytes) -> bytes:
    stream = b"".join(
        blake2b(nonce + place.to_bytes(4), key=secret, person=b"seal").digest() for place in range(-(-len(data) // 64))
    )
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))


def _tag(data: bytes, secret: bytes) -> bytes:
    return blake2b(data, digest_size=_TAG, key=secret, person=b"seal tag").digest()

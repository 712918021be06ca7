"""`decision_id`: what a vote needs of a decision, signed, so that it can be checked without asking the store.

ID.PAYLOAD.SIGNATURE: the id of the decision's row; its kind, version, menu, propensity and a digest of its context
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import blake2b
from secrets import token_bytes
from typing import Any

from pydantic_core import to_json

_SIGNATURE = 16  # bytes
_LONGEST = 8192  # characters


@dataclass(frozen=True)
class Decision:
    """A decision, as its id tells it.

    Args:
        id: of its row.
        kind: "route" or "compare".
        version: of the model.
        menu: the agent, or the agents as shown.
        propensity: of that agent, or of that menu in any order.
        about: digest of the context and the prompt.
    """

    id: str
    kind: str
    version: str
    menu: tuple[str, ...]
    propensity: float
    about: str


def new_id() -> str:
    """Return 96 random bits as text."""
    return urlsafe_b64encode(token_bytes(12)).decode()


def signed(decision: Decision, secret: bytes) -> str:
    """Return the id that the caller gets."""
    each = [decision.kind[0], decision.version, list(decision.menu), decision.propensity, decision.about]
    payload = to_json(each)
    text = f"{decision.id}.{_text(payload)}"
    return f"{text}.{_signature(text, secret)}"


def opened(token: str, secret: bytes) -> Decision | None:
    """Return the decision of an id that this service signed; None for anything else."""
    text, _, signature = token[:_LONGEST].rpartition(".")
    if not hmac.compare_digest(_signature(text, secret).encode(), signature.encode("utf-8", "replace")):
        return None
    name, _, payload = text.partition(".")
    kind, version, menu, propensity, about = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return Decision(name, "route" if kind == "r" else "compare", version, tuple(menu), propensity, about)


def keyed(secret: bytes, purpose: str, text: str) -> str:
    """Return a hash of a text that only this store can make: sessions and prompts cannot be guessed from it."""
    return blake2b(text.encode(), digest_size=16, key=secret, person=purpose.encode()[:16]).hexdigest()


def digest_of(secret: bytes, value: Any) -> str:
    """Return a keyed hash of plain values."""
    return keyed(secret, "digest", json.dumps(value, sort_keys=True, ensure_ascii=False))


def share_of(secret: bytes, text: str) -> float:
    """Return a number in [0, 1) that a text always gets, and nobody can foretell."""
    return int.from_bytes(blake2b(text.encode(), digest_size=7, key=secret, person=b"draw").digest()) / (1 << 56)


def _signature(text: str, secret: bytes) -> str:
    return _text(
        blake2b(text.encode("utf-8", "replace"), digest_size=_SIGNATURE, key=secret, person=b"decision").digest()
    )


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")

"""A prompt is embedded once, though it is decided about and its vector stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from nasheval.contexts.text import TextEncoder
from nasheval.policy.availability import AmongAvailable
from nasheval.policy.exact import ExactEquilibria
from nasheval.policy.learned import LearnedEquilibria
from nasheval.policy.router import Router

_MOST = 256  # texts whose vectors are remembered

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class EmbeddedOnce(TextEncoder):
    """A text encoder that remembers the vectors of the last texts, before any cut."""

    known: dict[str, Vector] = field(default_factory=dict, compare=False, repr=False)

    def _embed(self, texts: Sequence[str]) -> Vector:
        if len(texts) != 1:
            return super()._embed(texts)
        found = self.known.get(texts[0])
        if found is None:
            if len(self.known) >= _MOST:
                self.known.clear()
            found = self.known[texts[0]] = super()._embed(texts)
        return found

    def vectors(self, texts: Mapping[str, str]) -> bytes:
        """Return the vectors of texts, float32, one after another."""
        return b"".join(self._embed([text])[0].astype("<f4").tobytes() for text in texts.values())


def embedding_once(router: Router) -> Router:
    """Return a router that answers the same, and remembers the vectors of the last texts."""
    plain = router.encoder.text_encoder
    if plain is None or isinstance(plain, EmbeddedOnce):
        return router
    once = EmbeddedOnce(**{each.name: getattr(plain, each.name) for each in fields(TextEncoder)})
    encoder = replace(router.encoder, text_encoder=once)
    policy = router.policy
    inner = policy.policy if isinstance(policy, AmongAvailable) else policy
    if isinstance(inner, LearnedEquilibria):
        inner = replace(inner, exact=replace(inner.exact, encoder=encoder))
    elif isinstance(inner, ExactEquilibria):
        inner = replace(inner, encoder=encoder)
    return Router(replace(policy, policy=inner) if isinstance(policy, AmongAvailable) else inner)

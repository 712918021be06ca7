"""Raw columns and text -> X: the encoder and text embeddings."""

from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.text import TextEncoder

__all__ = ["ContextEncoder", "TextEncoder"]

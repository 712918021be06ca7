"""Raw columns and text -> X: the encoder, text embeddings, and features of prompts."""

from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.features import prompt_features
from nasheval.contexts.language import language_group
from nasheval.contexts.text import TextEncoder

__all__ = ["ContextEncoder", "TextEncoder", "language_group", "prompt_features"]

"""Which agent is best for this? Contextual maximal lotteries from selective relative feedback.

Names are loaded when first used, so that `import nasheval` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nasheval.contexts.encoder import ContextEncoder as ContextEncoder
    from nasheval.contexts.features import prompt_features as prompt_features
    from nasheval.contexts.language import language_group as language_group
    from nasheval.contexts.text import TextEncoder as TextEncoder
    from nasheval.errors import InputError as InputError
    from nasheval.errors import MissingExtraError as MissingExtraError
    from nasheval.errors import NashEvalError as NashEvalError
    from nasheval.errors import ReadError as ReadError
    from nasheval.feedback import datasets as datasets
    from nasheval.feedback import partition as partition
    from nasheval.feedback.log import Feedback as Feedback
    from nasheval.feedback.readers.rankings import read_rankings as read_rankings
    from nasheval.feedback.readers.scores import read_scores as read_scores
    from nasheval.feedback.readers.votes import read_votes as read_votes
    from nasheval.feedback.world import SyntheticWorld as SyntheticWorld

__version__ = "0.1.0.dev0"

# Where each public name lives; a name that is its module's own name is the module itself.
_HOMES = {
    "ContextEncoder": "nasheval.contexts.encoder",
    "Feedback": "nasheval.feedback.log",
    "InputError": "nasheval.errors",
    "MissingExtraError": "nasheval.errors",
    "NashEvalError": "nasheval.errors",
    "ReadError": "nasheval.errors",
    "SyntheticWorld": "nasheval.feedback.world",
    "TextEncoder": "nasheval.contexts.text",
    "datasets": "nasheval.feedback.datasets",
    "language_group": "nasheval.contexts.language",
    "partition": "nasheval.feedback.partition",
    "prompt_features": "nasheval.contexts.features",
    "read_rankings": "nasheval.feedback.readers.rankings",
    "read_scores": "nasheval.feedback.readers.scores",
    "read_votes": "nasheval.feedback.readers.votes",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'nasheval' has no attribute {name!r}")
    module = import_module(_HOMES[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""Which agent is best for this? Contextual maximal lotteries from selective relative feedback.

Names are loaded when first used, so that `import nasheval` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nasheval.audit import voters as voters
    from nasheval.contexts.encoder import ContextEncoder as ContextEncoder
    from nasheval.contexts.text import TextEncoder as TextEncoder
    from nasheval.engine import workers as workers
    from nasheval.errors import ConvergenceError as ConvergenceError
    from nasheval.errors import InputError as InputError
    from nasheval.errors import MissingExtraError as MissingExtraError
    from nasheval.errors import ModelFileError as ModelFileError
    from nasheval.errors import NashEvalError as NashEvalError
    from nasheval.errors import ReadError as ReadError
    from nasheval.estimator import NashEval as NashEval
    from nasheval.estimator import load as load
    from nasheval.feedback import datasets as datasets
    from nasheval.feedback import partition as partition
    from nasheval.feedback.log import Feedback as Feedback
    from nasheval.feedback.readers.any_log import read as read
    from nasheval.feedback.readers.rankings import read_rankings as read_rankings
    from nasheval.feedback.readers.scores import read_scores as read_scores
    from nasheval.feedback.readers.votes import read_votes as read_votes
    from nasheval.feedback.world import SyntheticWorld as SyntheticWorld
    from nasheval.game.costs import SoftBudget as SoftBudget
    from nasheval.game.gaps import gap as gap
    from nasheval.game.regularizers import L2 as L2
    from nasheval.game.regularizers import Entropy as Entropy
    from nasheval.game.solver import Solution as Solution
    from nasheval.game.solver import solve as solve
    from nasheval.payoff.aggregators import AsAsked as AsAsked
    from nasheval.payoff.aggregators import Cubic as Cubic
    from nasheval.payoff.aggregators import Mean as Mean
    from nasheval.payoff.aggregators import Weighted as Weighted
    from nasheval.planning.plan import plan as plan
    from nasheval.policy import baselines as baselines
    from nasheval.policy.exact import ExactPolicy as ExactPolicy
    from nasheval.policy.learned import LearnedPolicy as LearnedPolicy
    from nasheval.scoring import metrics as metrics
    from nasheval.scoring import plots as plots
    from nasheval.scoring.evaluate import evaluate as evaluate
    from nasheval.scoring.promotion import promote as promote

__version__ = "0.1.0"

# Where each public name lives; a name that its module does not hold is the module itself.
_HOMES = {
    "AsAsked": "nasheval.payoff.aggregators",
    "ContextEncoder": "nasheval.contexts.encoder",
    "ConvergenceError": "nasheval.errors",
    "Cubic": "nasheval.payoff.aggregators",
    "Entropy": "nasheval.game.regularizers",
    "ExactPolicy": "nasheval.policy.exact",
    "Feedback": "nasheval.feedback.log",
    "InputError": "nasheval.errors",
    "L2": "nasheval.game.regularizers",
    "LearnedPolicy": "nasheval.policy.learned",
    "Mean": "nasheval.payoff.aggregators",
    "MissingExtraError": "nasheval.errors",
    "ModelFileError": "nasheval.errors",
    "NashEval": "nasheval.estimator",
    "NashEvalError": "nasheval.errors",
    "ReadError": "nasheval.errors",
    "SoftBudget": "nasheval.game.costs",
    "Solution": "nasheval.game.solver",
    "SyntheticWorld": "nasheval.feedback.world",
    "TextEncoder": "nasheval.contexts.text",
    "Weighted": "nasheval.payoff.aggregators",
    "baselines": "nasheval.policy.baselines",
    "datasets": "nasheval.feedback.datasets",
    "evaluate": "nasheval.scoring.evaluate",
    "gap": "nasheval.game.gaps",
    "load": "nasheval.estimator",
    "metrics": "nasheval.scoring.metrics",
    "partition": "nasheval.feedback.partition",
    "plan": "nasheval.planning.plan",
    "plots": "nasheval.scoring.plots",
    "promote": "nasheval.scoring.promotion",
    "read": "nasheval.feedback.readers.any_log",
    "read_rankings": "nasheval.feedback.readers.rankings",
    "read_scores": "nasheval.feedback.readers.scores",
    "read_votes": "nasheval.feedback.readers.votes",
    "solve": "nasheval.game.solver",
    "voters": "nasheval.audit.voters",
    "workers": "nasheval.engine",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'nasheval' has no attribute {name!r}")
    module = import_module(_HOMES[name])
    return getattr(module, name, module)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

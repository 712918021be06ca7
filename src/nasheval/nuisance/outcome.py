"""Which outcome learner stands behind a name."""

from __future__ import annotations

from typing import Any

from nasheval.errors import InputError
from nasheval.nuisance.learners import Learner
from nasheval.nuisance.sklearn_models import PerPair
from nasheval.nuisance.stack import Stack
from nasheval.nuisance.trees import StoppedTrees, TreeOutcome
from nasheval.nuisance.tuning import Search, TunedTrees
from nasheval.nuisance.voters import Voters

_ACCEPTED = "'voters', 'lightgbm', 'stack', a scikit-learn regressor (cloned for each menu and pair) or a Learner"


def choose_outcome(choice: Any, *, tune: Search | None = None) -> Learner:
    """Return the learner behind a name.

    Args:
        choice: "voters": a population of latent voters. "lightgbm": a regressor per menu and pair, with as
            many of the paper's trees as predict held-out contexts best (`TreeOutcome()`: all of them, as printed).
            "stack": voters and the printed trees, weighted by held-out error. A scikit-learn regressor: cloned per
            menu and pair. A `Learner` is returned as it is.
        tune: how the hyperparameters of LightGBM are searched; None leaves all but the number of trees.
    """
    if isinstance(choice, str):
        tuned = None if tune is None else TunedTrees(TreeOutcome(), how=tune)
        named: dict[str, Learner] = {
            "voters": Voters(),
            "lightgbm": tuned or StoppedTrees(),
            "stack": Stack((Voters(), tuned or TreeOutcome())),
        }
        if choice in named:
            return named[choice]
    elif callable(getattr(choice, "fit", None)):
        is_estimator = callable(getattr(choice, "predict", None)) and callable(getattr(choice, "get_params", None))
        return PerPair(choice) if is_estimator else choice
    raise InputError(f"outcome is {choice!r}; accepted are {_ACCEPTED}.")

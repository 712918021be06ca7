"""Which outcome learner stands behind a name."""

from __future__ import annotations

from typing import Any

from nasheval.errors import InputError
from nasheval.nuisance.learners import Learner
from nasheval.nuisance.sklearn_models import PerPair
from nasheval.nuisance.stack import Stack
from nasheval.nuisance.trees import TreeOutcome
from nasheval.nuisance.tuning import Search, TunedTrees
from nasheval.nuisance.voters import Voters

_ACCEPTED = "'voters', 'lightgbm', 'stack', a scikit-learn regressor (cloned for each menu and pair) or a Learner"


def choose_outcome(choice: Any, *, tune: Search | None = None) -> Learner:
    """Return the learner behind a name.

    Args:
        choice: "voters": a population of latent voters. "lightgbm": a regressor per menu and pair, as printed in the
            paper. "stack": both, weighted by held-out error. A scikit-learn regressor: cloned per menu and pair. A
            `Learner` is returned as it is.
        tune: how the hyperparameters of LightGBM are searched; None leaves them.
    """
    trees = TreeOutcome() if tune is None else TunedTrees(TreeOutcome(), how=tune)
    if isinstance(choice, str):
        named: dict[str, Learner] = {"voters": Voters(), "lightgbm": trees}
        if choice == "stack":
            return Stack(tuple(named.values()))
        if choice in named:
            return named[choice]
    elif callable(getattr(choice, "fit", None)):
        is_estimator = callable(getattr(choice, "predict", None)) and callable(getattr(choice, "get_params", None))
        return PerPair(choice) if is_estimator else choice
    raise InputError(f"outcome is {choice!r}; accepted are {_ACCEPTED}.")

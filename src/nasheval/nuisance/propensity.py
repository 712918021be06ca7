"""Propensities e^m(x): which learner stands behind a name, and those that are known.

What makes sense depends on the log's design (`nasheval.feedback.design`). Under inclusion each menu has a probability
of its own; under draws the probabilities of all menus sum to one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Bools, Floats
from nasheval.choices import PropensityName
from nasheval.errors import Argument, InputError
from nasheval.feedback.log import Feedback
from nasheval.nuisance.balance import PropensityCheck
from nasheval.nuisance.choice import BestPropensity, Choice
from nasheval.nuisance.learners import Effort, Features, FoldModels, Learner, require_draws
from nasheval.nuisance.sklearn_models import SklearnPropensity
from nasheval.nuisance.softmax import Multinomial
from nasheval.nuisance.strata import Marginal
from nasheval.nuisance.trees import TreePropensity
from nasheval.nuisance.tuning import Search, TunedTrees

NAMES: tuple[PropensityName, ...] = get_args(PropensityName)
_ACCEPTED = f"{', '.join(map(repr, NAMES))}, a callable or a scikit-learn classifier"

Rule = Callable[[Features], Any]  # contexts -> (n, M) propensities


def choose_propensity(choice: Any, log: Feedback, *, tune: Search | None = None) -> Learner:
    """Return the learner behind a name, or an InputError where the log's design rules it out.

    Args:
        choice: "auto": known propensities where the log carries them; else under inclusion LightGBM per menu with the
            number of trees chosen on training contexts (a hundred of them overfit: on the paper's simulation with 2,000
            contexts they are off by 0.14, and by 0.08 so), under draws the best of several models out of fold
            (`BestPropensity`); and marginal without any context column. "known". "lightgbm":
            under inclusion a classifier per menu, as printed in the paper; under draws one multiclass model, so that
            propensities sum to one. "multinomial": draws only. "marginal": shares of the menus, whatever the context.
            A callable of `Features`: known. A scikit-learn classifier. A `Learner` is returned as it is.
        tune: how the hyperparameters of a classifier per menu are searched; None leaves them.
    """
    if isinstance(choice, str):
        named = _named(choice, log)
        by_menu = log.design == "inclusion" and isinstance(named, TunedTrees | TreePropensity)
        return TunedTrees(TreePropensity(), how=tune) if tune is not None and by_menu else named
    if callable(getattr(choice, "predict_proba", None)):
        return SklearnPropensity(choice)
    if callable(getattr(choice, "fit", None)):
        return choice
    if callable(choice):
        return Known(choice)
    raise InputError(f"propensity is {choice!r}; accepted are {_ACCEPTED}.")


def _named(name: str, log: Feedback) -> Learner:
    if name == "known" or (name == "auto" and log.records.propensity is not None):
        return Known().checked(log)
    if name == "marginal" or (name == "auto" and not log.contexts.num_columns):
        return Marginal()
    if name == "auto" and log.design == "draws":
        return BestPropensity()
    if name == "auto":
        return TunedTrees(TreePropensity(), how="trees", columns=5, per_fold=False)
    if name == "lightgbm":
        return TreePropensity()
    if name == "multinomial":
        require_draws(log)
        return Multinomial()
    raise InputError(f"propensity is {name!r}; accepted are {_ACCEPTED}.")


# -- known ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """Propensities that whoever asked the questions knows.

    Args:
        rule: a function of contexts, (n, M) propensities; None: the log says them record by record.
    """

    rule: Rule | None = None

    def checked(self, log: Feedback) -> Known:
        """Return itself; an InputError where the log says no propensities and there is no rule."""
        if self.rule is None and log.records.propensity is None:
            raise InputError(
                "Known propensities were asked for, but this log carries none; ",
                Argument("name the column when reading, give a callable", flag="name its column with --propensity"),
                *(", or use ", Argument("propensity", "auto", flag="--propensity-model auto"), " to estimate it."),
            )
        return self

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> FoldModels:
        """Return what is known; see `Learner.fit`."""
        self.checked(log)
        effort.advance(1.0)
        if self.rule is not None:
            return RuleModels(self.rule, len(log.menus))
        return KnownModels(np.asarray(log.records.propensity))


@dataclass(frozen=True)
class KnownModels:
    """Propensities known at the records of one log, and nowhere else.

    Args:
        values: (n_records,) e^m of each record.
        known: False where they are estimates of a model that was not kept, which are raised to a floor.
        choice: why that model was chosen, if it was.
        check: where it fits worst, if that was looked at.
        clipped: how far it lay below the floors, as `NuisanceFit.clipped`; None: nowhere.
    """

    values: Floats
    known: bool = True
    choice: Choice | None = None
    check: PropensityCheck | None = None
    clipped: csr_array | None = None

    def of_records(self) -> Floats:
        """Return (n_records,) e^m of each record."""
        return self.values

    def predict(self, X: Features, fold: int) -> Floats:
        """Refuse: the log does not say what it would have been elsewhere."""
        raise InputError(
            "The propensities of this log are known record by record only; to have them at other contexts, use ",
            *(Argument("propensity", "auto", flag="--propensity-model auto"), ", or give a callable in Python."),
        )


@dataclass(frozen=True)
class RuleModels:
    """Propensities from a function of contexts.

    Args:
        rule: contexts -> (n, M).
        n_menus: M.
    """

    rule: Rule
    n_menus: int
    known: ClassVar[bool] = True

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) propensities, the same for every fold."""
        values = np.asarray(self.rule(X), np.float64)
        if values.shape != (len(X), self.n_menus):
            raise InputError(
                f"The propensity callable returned an array of shape {values.shape}; accepted is {len(X)} contexts by "
                f"{self.n_menus} menus, in the order of log.menus."
            )
        if not ((values > 0) & (values <= 1)).all():
            raise InputError("The propensity callable returned a value outside (0, 1]; accepted are probabilities.")
        return values

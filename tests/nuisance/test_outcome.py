"""Which learner stands behind a name."""

from __future__ import annotations

import pytest
from sklearn.linear_model import Ridge

from nasheval.errors import InputError
from nasheval.nuisance.outcome import choose_outcome
from nasheval.nuisance.sklearn_models import Intercept, PerPair
from nasheval.nuisance.stack import Stack
from nasheval.nuisance.trees import StoppedTrees, TreeOutcome
from nasheval.nuisance.tuning import TunedTrees
from nasheval.nuisance.voters import Voters


def test_what_is_chosen():
    assert choose_outcome("voters") == Voters()
    assert choose_outcome("lightgbm") == StoppedTrees()
    assert choose_outcome("lightgbm", tune="fast") == TunedTrees(TreeOutcome(), how="fast")
    assert choose_outcome("stack") == Stack((Voters(), TreeOutcome()))
    assert choose_outcome("stack", tune="paper") == Stack((Voters(), TunedTrees(TreeOutcome(), how="paper")))
    ridge, intercept = Ridge(), Intercept()
    assert choose_outcome(ridge) == PerPair(ridge)
    assert choose_outcome(intercept) is intercept


@pytest.mark.parametrize("choice", ["trees", 3, None])
def test_anything_else_is_refused(choice):
    with pytest.raises(InputError, match=r"accepted are 'voters', 'lightgbm', 'stack', a scikit-learn regressor"):
        choose_outcome(choice)

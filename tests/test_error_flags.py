"""What goes wrong on the command line is said in its flags, not in Python's arguments."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nasheval.errors import Argument, InputError
from nasheval.feedback.groups import context_column
from nasheval.feedback.readers.rankings import read_rankings
from nasheval.feedback.readers.votes import read_votes
from nasheval.feedback.world import SyntheticWorld
from nasheval.game.costs import HardBudget
from nasheval.game.regularizers import L2
from nasheval.nuisance.crossfit import make_folds
from nasheval.nuisance.propensity import KnownModels, choose_propensity
from nasheval.policy.base import available

LOG = SyntheticWorld(seed=3, features=16, calibration=64).feedback("pairwise", 1, 30)
VOTES = pa.table({"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["model_a", "tie"], "n": [1, 2]})


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (lambda: choose_propensity("known", LOG), "name its column with --propensity, or use --propensity-model auto"),
        (lambda: choose_propensity("multinomial", LOG), "--design draws, or use --propensity-model lightgbm"),
        (lambda: KnownModels([]).predict(None, 0), "use --propensity-model auto, or give a callable in Python."),
        (lambda: make_folds(LOG, 1), "--folds 1: accepted are 2 to 30"),
        (lambda: read_votes(VOTES, labels={"tie": "draw"}), "--labels 'tie=draw': accepted are 'a' (the first"),
        (lambda: read_votes(VOTES, agents=["x"]), "--agents names 'x'; a comparison needs two"),
        (lambda: read_votes(VOTES.select(["n"])), "or use --kind rankings or --kind scores."),
        (lambda: read_votes(VOTES, categorical="n"), "--categorical names 'n', which is no context column; "
         "accepted are those of --context"),
        (lambda: read_rankings(VOTES), "--ballot id --agent item --rank rank for a long table; --agents a,b for a "
         "column of ranks per agent."),
        (lambda: read_rankings(VOTES, agents=["n"]), "--agents names 'n' alone; a ranking needs two"),
        (lambda: context_column(LOG, "colour"), "--by colour is no context column; this log has"),
        (lambda: context_column(LOG, "colour", "availability"), "--availability colour is no context column"),
        (lambda: HardBudget(L2(), np.array([2.0, 3.0]), 1.0), "Give a larger budget, or in its place a --cost-weight, "
         "which forbids nothing."),
        (lambda: available(("x", "y"), ["z"]), "--agents names 'z'; the policy knows x, y."),
    ],
)  # fmt: skip
def test_errors_name_flags(fails, said) -> None:
    with pytest.raises(InputError) as raised:
        fails()
    assert said in raised.value.message(Argument.as_flag)
    assert "--" not in str(raised.value)

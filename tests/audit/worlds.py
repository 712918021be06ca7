"""Small logs of duels, with nuisances that are given, and models that fit in no time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sklearn.linear_model import Ridge

import nasheval as ne
from nasheval.contexts.encoder import ContextEncoder
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.learners import Features
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.second_stage import fit_payoff
from nasheval.payoff.stage1 import Stage1

HOW = {"outcome": Ridge(), "folds": 2, "n_jobs": 1, "verbose": False}


class Given:
    """Fold models from a function of (x (n, d), fold)."""

    def __init__(self, function):
        self.function = function

    def predict(self, X, fold):
        return self.function(X.trees.astype(np.float64), fold)


def duels(n=300, agents=4, seed=0, voters=0, groups=2, gap=0.3):
    """A log of duels; earlier agents are stronger."""
    rng = np.random.default_rng(seed)
    j, k = np.triu_indices(agents, 1)
    pair = rng.integers(len(j), size=n)
    pair[: len(j)] = np.arange(len(j))[:n]
    strength = np.linspace(gap, -gap, agents)
    first = rng.random(n) < (1 + np.tanh(strength[j] - strength[k])[pair]) / 2
    names = np.array([f"m{a:02}" for a in range(agents)])
    table = {"model_a": names[j[pair]], "model_b": names[k[pair]]}
    table |= {"winner": np.where(first, "model_a", "model_b"), "x": rng.random(n)}
    table["group"] = np.array(["en", "de", "fr"])[rng.integers(groups, size=n)]
    if voters:
        table["voter"] = np.array([f"v{v}" for v in range(voters)])[rng.integers(voters, size=n)]
    voter = "voter" if voters else None
    return ne.read_votes(pa.table(table), context=["group", "x"], voter=voter, design="draws")


def model_of(log, **options):
    """A fitted model."""
    return ne.NashEval(**{**HOW, **options}).fit(log)


def plain_stage1(wins, *, e=None, design="draws", repeat=1):
    """Stage 1 with mu = 0 of records [(winner, loser), ...], each at `repeat` records per context; e as given."""
    said = [partition.duel(won, lost, won) for won, lost in wins]
    agents = sorted({name for one in wins for name in one})
    context_of = np.arange(len(said)) // repeat
    n = int(context_of[-1]) + 1
    log = Feedback.from_partitions(np.zeros((n, 1)), said, agents=agents, context_of=context_of, design=design)
    x = np.zeros((n, 1))
    menus = len(log.menus)
    share = np.bincount(log.menus.of_record, minlength=menus) / log.n_records if e is None else np.full(menus, e)
    mu = Given(lambda x, fold: np.zeros((len(x), len(log.menus.columns))))
    propensity = Given(lambda x, fold: np.tile(share, (len(x), 1)))
    pseudo = pseudo_outcomes(NuisanceFit(log, Features(x, x), make_folds(log, 2), mu, propensity))
    return Stage1(ContextEncoder.fit(log.contexts), pseudo.fit, pseudo, fit_payoff(pseudo, "none"))

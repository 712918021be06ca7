"""How uncertain the game of one context is: from how far the models of the folds are apart there."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Floats
from nasheval.game.checks import games_of
from nasheval.nuisance.learners import Features
from nasheval.payoff.stage1 import Stage1

_CELLS = 1 << 22  # numbers held at a time
WIDER = 2.0  # folds share most of their votes and all of their rules: what they agree on may be wrong together


def doubts(stage1: Stage1, X: Features, lottery: Floats) -> Floats:
    """Return (n, K) standard errors of what each agent wins against a lottery, (n, K), at n contexts.

    The jackknife over the folds of cross-fitting, each of which leaves a part of the votes out. An agent without any
    vote is of unknown worth, and has an infinite one.
    """
    fit, aggregate, K = stage1.nuisances, stage1.pseudo.aggregation.aggregate, len(stage1.agents)
    error, folds = np.empty(lottery.shape), fit.n_folds
    step = max(1, _CELLS // max(1, K * K, len(fit.log.menus.columns)))
    for start in range(0, len(X), step):
        rows = slice(start, min(start + step, len(X)))
        ahead = np.empty((folds, rows.stop - rows.start, K))
        for fold in range(folds):
            games = games_of(np.ascontiguousarray(aggregate(fit.outcome_models.predict(X[rows], fold))), K)
            ahead[fold] = np.einsum("njk,nk->nj", games, lottery[rows])
        error[rows] = np.sqrt((folds - 1) * ahead.var(axis=0))
    votes = np.bincount(fit.log.records.agent, minlength=K)
    error[:, votes == 0] = np.inf
    return WIDER * error

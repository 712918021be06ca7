"""How much better the outcome model would be with more votes: from the same model, taught half as many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.nuisance.learners import Effort, Learner, cells_of

_MODELS = 2  # that are taught half as many votes
_RATE, _SLOW, _FAST = 0.75, 0.5, 1.0  # powers of votes with which the squared error of a model falls
_CELLS = 1 << 20  # verdicts that errors are compared on


@dataclass(frozen=True)
class Learning:
    """The share of squared residuals that a model of half the votes adds to those of the whole log.

    Args:
        halved: that share; 0: nothing is known, or nothing is left to learn.
        error: its standard error.
    """

    halved: float = 0.0
    error: float = 0.0

    def gain(self, times: float, rate: float = _RATE) -> float:
        """Return the share of today's squared residuals that a model of so many times the votes takes off.

        The squared error of a model is taken to fall as votes to the power of minus the rate.
        """
        drop = self.halved * (1 - times**-rate) / (2**rate - 1)
        return float(np.clip(drop, 0.0, 0.5))

    def band(self, times: float) -> tuple[float, float]:
        """Return the least and the most such share: of slow and fast learning, two standard errors each way."""
        low = Learning(max(self.halved - 2 * self.error, 0.0)).gain(times, _FAST)
        return low, Learning(max(self.halved, 0.0) + 2 * self.error).gain(times, _SLOW)


def learning_of(fit: NuisanceFit, outcome: Learner, effort: Effort) -> Learning:
    """Teach a model half of what those of the fit were taught, and compare their squared residuals out of sample."""
    log = fit.log
    train = _halves(fit, effort.seed)
    models = outcome.fit(log, fit.X, train, effort)
    verdicts = log.verdicts
    column, context = log.menus.column_of_verdict, log.context_of[verdicts.record]
    at, more = [], []
    for m in range(len(train)):
        rows = np.flatnonzero(~train[m][context])
        rows = rows[:: max(1, len(rows) * len(train) // _CELLS)]
        mu = cells_of(models, fit.X, m, context[rows], column[rows])
        z = verdicts.z[rows]
        at.append((z - fit.mu[rows]) ** 2)
        more.append((z - mu) ** 2 - at[-1])
    square, extra = np.concatenate(at), np.concatenate(more)
    if not len(square) or square.mean() <= 0:
        return Learning()
    error = extra.std() / np.sqrt(len(extra) / 2) / square.mean()
    return Learning(float(max(extra.mean(), 0.0) / square.mean()), float(error))


def _halves(fit: NuisanceFit, seed: int) -> Bools:
    """Return (models, n_contexts) random halves of what a model of a fold was taught."""
    n, rng = fit.log.n_contexts, np.random.default_rng((seed, 17))
    size = max(1, round(n * (1 - 1 / fit.n_folds) / 2))
    halves = np.zeros((_MODELS, n), bool)
    for half in halves:
        half[rng.permutation(n)[:size]] = True
    return halves

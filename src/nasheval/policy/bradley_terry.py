"""Contextual Bradley-Terry and Borda: score the agents at each context, take the best (appendix "Baselines")."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Floats, n_pairs
from nasheval.errors import InputError
from nasheval.feedback.links import SEEN
from nasheval.game.regularizers import L2, Regularizer
from nasheval.game.scores import best_of, fit_scores
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.rules import Contextual, PayoffName, check_payoff

RIDGE = 1e-4  # the paper's kappa_BT


def bt_scores(B: Floats, *, ridge: float = RIDGE, seen: Bools | None = None) -> Floats:
    """Return the Bradley-Terry scores (n, K) of margins B (n, K, K) (Eq. syn-bt-projection).

    Args:
        ridge: kappa_BT.
        seen: (K, K) the pairs to fit to, those that were compared; None: all.
    """
    K = B.shape[-1]
    if K == 1:
        return np.zeros(B.shape[:2])
    meetings = (1 - np.eye(K)) / n_pairs(K) * (1 if seen is None else seen)
    return fit_scores((B * meetings).sum(axis=2), meetings, ridge=ridge)


@dataclass(frozen=True)
class BradleyTerry:
    """The agent of the largest Bradley-Terry score at each context; equal scores by the order of the agents.

    BT-Plug-in and BT-debiased of the paper. Scores are fitted among the agents that are up, to the pairs that were
    compared.

    Args:
        payoff: which estimate of A(x) the scores are fitted to: "plug-in" or "debiased".
        ridge: kappa_BT of Eq. syn-bt-projection.
    """

    payoff: PayoffName = "plug-in"
    ridge: float = RIDGE

    def __post_init__(self) -> None:
        check_payoff(self.payoff)
        check_ridge(self.ridge)

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Contextual:
        """Return the policy."""
        seen = stage1.status == SEEN

        def choose(B: Floats, up: Bools, contexts: pa.Table) -> Floats:
            return best_of(bt_scores(B, ridge=self.ridge, seen=seen[up][:, up])).astype(float)

        return Contextual.of(stage1, self.payoff, choose)


@dataclass(frozen=True)
class Borda:
    """The agent of the largest mean margin against the others at each context; equal ones by the order of the agents.

    With payoff "debiased" it is the same policy as BradleyTerry(payoff="debiased"): scores and row sums order alike.

    Args:
        payoff: which estimate of A(x): "debiased" or "plug-in".
    """

    payoff: PayoffName = "debiased"

    def __post_init__(self) -> None:
        check_payoff(self.payoff)

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Contextual:
        """Return the policy."""
        return Contextual.of(stage1, self.payoff, self._choose)

    def _choose(self, B: Floats, up: Bools, contexts: pa.Table) -> Floats:
        return best_of(B.sum(axis=2) / max(B.shape[2] - 1, 1)).astype(float)


@dataclass(frozen=True)
class RegularizedBT:
    """The regularised equilibrium of the game that Bradley-Terry scores span (BT-Reg, Eq. syn-bt-game).

    Args:
        regularizer: of the game; give it the one that NashEval is compared with.
        payoff: which estimate of A(x) the scores are fitted to; the paper's is "plug-in".
        ridge: kappa_BT of Eq. syn-bt-projection.
    """

    regularizer: Regularizer = field(default_factory=L2)
    payoff: PayoffName = "plug-in"
    ridge: float = RIDGE

    def __post_init__(self) -> None:
        check_payoff(self.payoff)
        check_ridge(self.ridge)

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Contextual:
        """Return the policy."""
        seen = stage1.status == SEEN

        def solved(B: Floats, up: Bools, contexts: pa.Table) -> Floats:
            from nasheval.game.solver import solve

            s = bt_scores(B, ridge=self.ridge, seen=seen[up][:, up])
            omega = self.regularizer.among(np.tile(np.flatnonzero(up), (len(B), 1)))
            return solve(np.tanh((s[:, :, None] - s[:, None, :]) / 2), regularizer=omega).strategy

        return Contextual.of(stage1, self.payoff, solved)


def check_ridge(ridge: float) -> None:
    """Raise unless the ridge makes the scores unique."""
    if not 0 < ridge < np.inf:
        raise InputError(f"ridge is {ridge!r}; accepted is a finite number above 0, such as {RIDGE:g}.")

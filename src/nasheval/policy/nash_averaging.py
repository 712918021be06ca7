"""Nash averaging (Balduzzi et al., 2018), for orientation: the maximum-entropy equilibrium of pooled log-odds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.special import softmax

from nasheval.arrays import Bools, Floats, readonly
from nasheval.errors import ConvergenceError, InputError
from nasheval.feedback.base import Log
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.pooled import pooled_margins
from nasheval.policy.rules import Everywhere

MatrixName = Literal["log-odds", "margins"]
_LONG = {"maxiter": 100_000, "maxfun": 1_000_000, "maxcor": 50, "ftol": 0.0, "gtol": 1e-11}
_NEAR = 1e-6  # what an opponent may win against the answer, on the scale of the matrix


@dataclass(frozen=True, eq=False)
class NashAverage(Everywhere):
    """The maximum-entropy equilibrium of one matrix, at every context; solved again among the agents that are up.

    Args:
        agents: names of the K agents.
        matrix: (K, K) antisymmetric.
    """

    agents: tuple[str, ...]
    matrix: Floats

    def among(self, up: Bools) -> Floats:
        """Return the equilibrium (k,) of the game among the k agents that are up, (K,)."""
        return most_even_equilibrium(self.matrix[np.ix_(up, up)])


@dataclass(frozen=True)
class NashAveraging:
    """The maximum-entropy equilibrium of pooled votes.

    Args:
        matrix: "log-odds": log((w_jk + 1/2) / (w_kj + 1/2)) with w_jk the votes that j won over k, a tie being half a
            win for each; the half vote keeps it finite, and a pair that never met is 0. "margins": the mean verdicts of
            Eq. pooled-payoff, as for MaximalLottery.
    """

    matrix: MatrixName = "log-odds"

    def __post_init__(self) -> None:
        if self.matrix not in ("log-odds", "margins"):
            raise InputError(f"matrix is {self.matrix!r}; accepted are 'log-odds' and 'margins'.")

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> NashAverage:
        """Return the policy; of Stage 1 only the log is used."""
        of = pooled_log_odds if self.matrix == "log-odds" else pooled_margins
        return NashAverage(stage1.agents, of(stage1.log))


def pooled_log_odds(log: Log) -> Floats:
    """Return the log-odds of winning of each pair, (K, K), half a vote added to both sides."""
    won = np.log(log.pair_counts.wins + log.pair_counts.ties / 2 + 0.5)
    return readonly(won - won.T)


def most_even_equilibrium(A: Floats) -> Floats:
    """Return the equilibrium (K,) of largest entropy of the zero-sum game A (K, K), antisymmetric.

    All equilibria are the lotteries with A p <= 0. Among agents that some equilibrium plays, the one of largest entropy
    is p proportional to exp(A y), where y >= 0 minimises log sum exp(A y); y may be negative for agents that some
    equilibrium plays, since no equilibrium loses or wins against those.
    """
    A = A / max(float(np.abs(A).max(initial=0.0)), 1e-300)
    played = _ever_played(A)
    rows = A[played]
    bounds = [(None, None) if some else (0.0, None) for some in played]

    def spread(y: Floats) -> tuple[float, Floats]:
        logits = rows @ y
        p = softmax(logits)
        return float(logits.max() + np.log(np.exp(logits - logits.max()).sum())), p @ rows

    found = minimize(spread, np.zeros(len(A)), jac=True, method="L-BFGS-B", bounds=bounds, options=_LONG)
    pi = np.zeros(len(A))
    pi[played] = softmax(rows @ found.x)
    if not (A @ pi).max() <= _NEAR:
        raise ConvergenceError(
            f"Nash averaging did not settle: an opponent wins {(A @ pi).max():.2g}. Please report it."
        )
    return pi


def _ever_played(A: Floats) -> Bools:
    """Return (K,) which agents some equilibrium plays.

    There is an equilibrium p in which every agent has either p > 0 or a loss -A p > 0 (Tucker); the one in which the
    smaller of those sums is as large as can be tells them apart.
    """
    K = len(A)
    one = np.ones((K, 1))
    found = linprog(
        np.r_[np.zeros(K), -1.0],
        A_ub=np.block([[A, 0 * one], [A - np.eye(K), one]]),
        b_ub=np.zeros(2 * K),
        A_eq=np.r_[np.ones(K), 0.0][None],
        b_eq=[1.0],
        method="highs",
    )
    if found.status != 0:
        raise ConvergenceError(f"HiGHS could not find an equilibrium: {found.message}")
    p = found.x[:K]
    return np.asarray(p > -(A @ p))

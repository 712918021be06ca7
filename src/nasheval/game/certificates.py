"""Compiled: the gap and the residual of the L2 game for large batches, the same numbers as `gaps` gives."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Floats
from nasheval.game.compiled import compiled, inlined, spread


def certify(A: Floats, rho: float, pi: Floats) -> tuple[Floats, Floats]:
    """Return the gap (n,) and the residual (n,) of lotteries pi (n, K) in games A (n, K, K) (Eq. gap).

    What rounding left below zero in pi is taken out first, in place.
    """
    n, K = pi.shape
    gap, kkt = np.empty(n), np.empty(n)
    spread(certify_games, n, 3.0 * K * K, A, rho, pi, gap, kkt)
    return gap, kkt


@inlined
def threshold(lead: Floats) -> float:
    """Return the t with sum max(lead - t, 0) = 1, by dropping the entries below it until none is (Michelot).

    The largest entry is 0, so that t is at least -1.
    """
    t, kept = -1.0, lead.shape[0] + 1
    while True:
        total, count = -1.0, 0
        for i in range(lead.shape[0]):
            above = lead[i] > t
            total += lead[i] if above else 0.0
            count += 1 if above else 0
        if count >= kept:  # more than before only by rounding, which would go on for ever
            return t
        t, kept = total / count, count


@inlined
def response_value(payoff: Floats, most: float, rho: float, lead: Floats) -> float:
    """Return max_q payoff . q - rho / 2 ||q||^2 over the simplex, less most, the largest payoff."""
    if rho == 0.0:
        return 0.0
    for i in range(payoff.shape[0]):
        lead[i] = (payoff[i] - most) / rho
    t = threshold(lead)
    value = 0.0
    for i in range(payoff.shape[0]):
        q = max(lead[i] - t, 0.0)
        value += rho * q * (lead[i] - q / 2)
    return value


@inlined
def tidy(pi: Floats) -> None:
    """Set weights below zero to zero and scale the others to sum to one, in place."""
    total = 0.0
    for i in range(pi.shape[0]):
        pi[i] = max(pi[i], 0.0)
        total += pi[i]
    for i in range(pi.shape[0]):
        pi[i] /= total


@compiled
def certify_games(start: int, stop: int, A: Floats, rho: float, pi: Floats, gap: Floats, kkt: Floats) -> None:
    """Write the gap and the residual of games start to stop."""
    K = A.shape[1]
    payoff, lead = np.empty(K), np.empty(K)
    for g in range(start, stop):
        tidy(pi[g])
        payoff[:] = 0.0
        for j in range(K):
            for i in range(K):
                payoff[i] -= A[g, j, i] * pi[g, j]  # row by row, since A = -A^T
        most, mean, square, worst = -1e300, 0.0, 0.0, 0.0
        for i in range(K):
            most = max(most, payoff[i])
            mean += payoff[i] * pi[g, i]
            square += rho * pi[g, i] * pi[g, i]
        for i in range(K):
            loss = rho * pi[g, i] - payoff[i] - (square - mean)
            worst = max(worst, abs(min(pi[g, i], loss)))
        gap[g] = (most - mean) + response_value(payoff, most, rho, lead) + square / 2
        kkt[g] = worst

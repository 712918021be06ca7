"""Equilibria of the entropy game, compiled: damped Newton on the payoffs h = A pi, while tau falls to its target.

The equilibrium is h = A softmax(log reference + h / tau). In terms of h nothing that matters underflows: h stays within
the payoffs for every tau, while the lottery may have weights below the smallest number.
"""

from __future__ import annotations

import math

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.errors import ConvergenceError, InputError
from nasheval.game.compiled import compiled, spread
from nasheval.game.linear import dot, factor, substitute

_FALLS = (0.3, 0.7, 0.9)  # factor of tau from one problem to the next; a slower one where Newton lost the way
_LIMIT = 500
_CLOSE = 1e-10  # error in h over the payoffs' scale from which one more Newton step leaves nothing but rounding
_SHORTEST = 1e-4  # share of a Newton step


def equilibria(A: Floats, tau: float, log_reference: Floats, names: Ints) -> tuple[Floats, Ints]:
    """Return the equilibria (n, K) of games A (n, K, K), and the Newton steps of each (n,).

    Args:
        log_reference: (K,) or (n, K).
        names: (n,) what to call the games in errors.
    """
    n, K = A.shape[:2]
    if log_reference.shape not in ((K,), (n, K)):
        raise InputError(f"The reference of Entropy has shape {log_reference.shape}; it is ({K},) or ({n}, {K}) here.")
    base = np.ascontiguousarray(np.broadcast_to(log_reference, (n, K)))
    pi, steps, solved = np.empty((n, K)), np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for fall in _FALLS:
        if m := len(rows := np.flatnonzero(~solved)):
            lotteries, more, done = np.empty((m, K)), np.empty(m, np.int64), np.empty(m, np.bool_)
            spread(newton_games, m, 20.0 * K**3, A[rows], tau, base[rows], fall, lotteries, more, done)
            pi[rows], solved[rows], steps[rows] = lotteries, done, steps[rows] + more
    for g in np.flatnonzero(~solved):
        raise ConvergenceError(
            f"Game {names[g]} could not be solved: tau = {tau:g} is too small for payoffs of {np.abs(A[g]).max():.3g}. "
            "Give a larger tau, or L2, which is solved exactly for any strength."
        )
    return pi, steps


@compiled
def error_at(A: Floats, tau: float, base: Floats, h: Floats, pi: Floats, error: Floats) -> float:
    """Write pi = softmax(base + h / tau) and the error h - A pi, each (K,); return its largest entry."""
    K = A.shape[0]
    most, total, worst = -1e300, 0.0, 0.0
    for i in range(K):
        most = max(most, base[i] + h[i] / tau)
    for i in range(K):
        pi[i] = math.exp(base[i] + h[i] / tau - most)
        total += pi[i]
    for i in range(K):
        pi[i] /= total
    for i in range(K):
        error[i] = h[i] - dot(A[i], pi, 0, K)
        worst = max(worst, abs(error[i]))
    return worst


@compiled
def newton_step(A: Floats, tau: float, h: Floats, pi: Floats, step: Floats, J: Floats, order: Ints) -> None:
    """Turn step (K,), the error at h, into the Newton step: divide by I - A (diag(pi) - pi pi^T) / tau."""
    K = A.shape[0]
    for i in range(K):
        row, source = J[i], A[i]
        mean = h[i] - step[i]  # (A pi)_i
        for j in range(K):
            row[j] = (mean - source[j]) * pi[j] / tau
        row[i] += 1.0
        step[i] = -step[i]
    factor(J, K, order)
    substitute(J, K, order, step)


@compiled
def newton_games(
    start: int, stop: int, A: Floats, tau: float, base: Floats, fall: float, pi: Floats, steps: Ints, solved: Bools
) -> None:
    """Solve games start to stop of A (n, K, K) from base = log reference (n, K); write pi (n, K).

    The strength falls from the payoffs' scale to tau by the factor `fall` each time that Newton has caught up.
    """
    K = A.shape[1]
    J, order, h, moved = np.empty((K, K)), np.empty(K, np.int64), np.empty(K), np.empty(K)
    step, error = np.empty(K), np.empty(K)
    for g in range(start, stop):
        size = 0.0
        for i in range(K):
            h[i] = 0.0
            for j in range(K):
                size = max(size, abs(A[g, i, j]))
        now = max(size, tau)
        solved[g] = False
        for count in range(_LIMIT):
            steps[g] = count
            before = error_at(A[g], now, base[g], h, pi[g], step)
            newton_step(A[g], now, h, pi[g], step, J, order)
            share, after = 1.0, np.inf
            while share > _SHORTEST:
                for i in range(K):
                    moved[i] = h[i] + share * step[i]
                after = error_at(A[g], now, base[g], moved, pi[g], error)
                if after <= (1.0 - 0.1 * share) * before or before <= _CLOSE * size:
                    break
                share /= 2
            h, moved = moved, h
            if now == tau and before <= _CLOSE * size:
                solved[g] = after <= _CLOSE * size
                break
            if after <= 0.1 * now:
                now = max(tau, fall * now)

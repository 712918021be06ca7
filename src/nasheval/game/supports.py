"""Compiled: the exact solve of the L2 game on a support, and the residual that certifies it.

The game is written as the complementarity problem

    x >= 0,   w = R x - A x - lam e >= 0,   x w = 0,   e x = 1,        R = diag(rho, ..., rho, 0), e = (1, ..., 1, 0),

with A (n, n) antisymmetric. The first `agents` entries of x are the lottery; a hard budget adds one more, its
multiplier. Multiplying by x gives lam = rho ||lottery||^2, so a residual needs no multiplier.
"""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.game.compiled import compiled, inlined, spread
from nasheval.game.linear import careful_dot, dot, factor, substitute
from nasheval.game.single import CERTIFIED, ROUNDING, STRICT

_CAREFUL = -1e-13  # the same, carefully solved
Workspace = tuple[Floats, Floats, Ints, Floats, Floats]


@compiled
def workspace(n: int) -> Workspace:
    """Return room for the linear systems of a game with n entries."""
    square = (n + 1, n + 1)
    return np.empty(square), np.empty(square), np.empty(n + 1, np.int64), np.empty(n + 1), np.empty(n + 1)


@compiled
def residual(A: Floats, agents: int, rho: float, x: Floats) -> float:
    """Return the largest of |min(x_i, w_i)| and |e x - 1|, zero exactly at the equilibrium."""
    n = A.shape[0]
    lam, w = rho * dot(x, x, 0, agents), np.zeros(n)
    for j in range(n):
        if x[j] != 0.0:
            row = A[j]
            for i in range(n):
                w[i] += row[i] * x[j]  # row by row, since A = -A^T
    worst, total = 0.0, 0.0
    for i in range(n):
        if i < agents:
            w[i] += rho * x[i] - lam
            total += x[i]
        worst = max(worst, abs(min(x[i], w[i])))
    return max(worst, abs(total - 1.0))


@compiled
def bordered(A: Floats, agents: int, rho: float, inside: Bools, B: Floats) -> int:
    """Write the system of the support, [R - A, -e; e, 0] on the entries inside, into B; return its order."""
    n = A.shape[0]
    m = 0
    for i in range(n):
        if inside[i]:
            k = 0
            for j in range(n):
                if inside[j]:
                    B[m, k] = -A[i, j]
                    k += 1
            border = 1.0 if i < agents else 0.0
            B[m, m] += rho * border
            B[m, k] = -border
            B[k, m] = border
            m += 1
    B[m, m] = 0.0
    return m + 1


@compiled
def refined(B: Floats, m: int, lu: Floats, order: Ints, y: Floats, error: Floats, careful: bool) -> None:
    """Write the solution of B y = (0, ..., 0, 1) into y, given the factors of B, refined once, or carefully."""
    for i in range(m):
        y[i] = 1.0 if i == m - 1 else 0.0
    substitute(lu, m, order, y)
    for _ in range(4 if careful else 1):
        for i in range(m):
            target = 1.0 if i == m - 1 else 0.0
            error[i] = careful_dot(B[i], y, target, m) if careful else target - dot(B[i], y, 0, m)
        substitute(lu, m, order, error)
        for i in range(m):
            y[i] += error[i]


@compiled
def solve_on(A: Floats, agents: int, rho: float, inside: Bools, x: Floats, work: Workspace, careful: bool) -> float:
    """Solve for x (n,) with support inside (n,); return how regular the system is (0: not at all).

    Weights that rounding left below zero become zero. Where the support is wrong, some weight stays negative.
    """
    B, lu, order, y, error = work
    m = bordered(A, agents, rho, inside, B)
    regular, y[0] = 1.0, 1.0  # one agent alone gets everything
    if m > 2:
        for i in range(m):
            for j in range(m):
                lu[i, j] = B[i, j]
        regular = factor(lu, m, order)
        if regular > 0.0:
            refined(B, m, lu, order, y, error, careful)
    k, total = 0, 0.0
    for i in range(A.shape[0]):
        x[i] = 0.0
        if inside[i] and regular > 0.0:
            x[i] = 0.0 if (_CAREFUL if careful else ROUNDING) < y[k] < 0.0 else y[k]
            total += x[i] if i < agents else 0.0
            k += 1
    for i in range(A.shape[0] if total > 0.0 else 0):
        x[i] /= total
    return regular


@compiled
def is_strict(A: Floats, inside: Bools, x: Floats) -> bool:
    """Whether every entry inside has weight and every other loses, both by a clear margin."""
    margin = 1.0
    for i in range(A.shape[0]):
        margin = min(margin, x[i] if inside[i] else -dot(A[i], x, 0, A.shape[0]))
    return margin > STRICT


@compiled
def certified_on(A: Floats, agents: int, rho: float, inside: Bools, x: Floats, work: Workspace, careful: bool) -> float:
    """Solve for x (n,) on the support inside (n,) and return its residual, infinite where it is not the one answer.

    Without regulariser there may be several; a strict answer of a regular system is the only one.
    """
    regular = solve_on(A, agents, rho, inside, x, work, careful)
    if regular == 0.0 or (rho == 0.0 and (regular < STRICT or not is_strict(A, inside, x))):
        return np.inf
    return residual(A, agents, rho, x)


@compiled
def first_wrong(A: Floats, agents: int, rho: float, inside: Bools, x: Floats) -> int:
    """Return the first entry on the wrong side of the support that x (n,) was solved on, -1 where none is."""
    n = A.shape[0]
    lam = rho * dot(x, x, 0, agents)
    for i in range(n):
        w = -dot(A[i], x, 0, n) + (rho * x[i] - lam if i < agents else 0.0)
        if (inside[i] and x[i] < 0.0) or (not inside[i] and w < -CERTIFIED / 2):
            return i
    return -1


@compiled
def settle(A: Floats, agents: int, rho: float, inside: Bools, x: Floats, work: Workspace) -> float:
    """As `certified_on`, but mend a support that rounding misled, by the sure rule, carefully solved each time."""
    wrong = certified_on(A, agents, rho, inside, x, work, False)
    for _ in range(min(A.shape[0] ** 2, 1000)):
        if wrong < CERTIFIED or rho == 0.0:
            break
        wrong = certified_on(A, agents, rho, inside, x, work, True)
        i = first_wrong(A, agents, rho, inside, x) if wrong < np.inf else -1
        if wrong < CERTIFIED or i < 0:
            break
        inside[i] = not inside[i]
    return wrong


# -- the gap and the residual of large batches, the same numbers as `gaps` gives --------------------------------------


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
            if pi[g, j] != 0.0:
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

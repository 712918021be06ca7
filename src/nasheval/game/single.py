"""One small L2 game: in one compiled call, or in NumPy where the compiled solvers are not loaded, which takes a second.

NumPy takes the same steps in the same order as `pivoting`, so that the lottery has the same bits; sums run from the
first entry to the last, which `np.add.accumulate` promises and `sum` does not. What is not certified is left to others.
"""

from __future__ import annotations

import sys

import numpy as np

from nasheval.arrays import Floats, Ints

CERTIFIED = 1e-12  # the residual of a game whose largest entry is 1
STRICT = 1e-11  # margin that makes an equilibrium without regulariser the only one
ROUNDING = -1e-9  # a weight below this says that the support is wrong
SLIGHT = 1e-7  # rho of the tableau where the game's is smaller: without any, pivots would be zero
ZERO = 1e-11  # an entry of the tableau above minus this counts as not negative
GREEDY, SURE = 8, 8  # pivots per agent by the greedy rule, then by the sure rule
REFINEMENTS, STILL = 3, 1e-13  # of the weights by the tableau, until they move by less
REGULAR = 1e4  # entries of the tableau below this say that its support has one answer without regulariser too
PIVOT_UP_TO = 55  # agents; beyond, the interior method is faster
LARGEST_GAP = 1e-9  # over the scale of a game; a larger one is never handed out
UNIT = (0.25, 4.0)  # a game whose largest entry, or rho, is between these is solved as it is (`unit_scale`)


def solvers_are_loaded() -> bool:
    """Tell whether the compiled solvers are at hand."""
    return "nasheval.game.quadratic" in sys.modules


def unit_scale(largest: Floats, rho: float) -> Floats:
    """Return powers of two (n,) that bring the largest entry (n,) of a game, or rho, near 1."""
    size = np.maximum(largest, rho)
    powers = np.round(np.log2(np.where(size > 0, size, 1.0)))
    return np.exp2(np.where(np.abs(powers) > 2, powers, 0.0))


def equilibrium(A: Floats, rho: float) -> tuple[Floats, int] | None:
    """Return the lottery (K,) of a game A (K, K) and the pivots it took; None where it is not certified."""
    [scale] = unit_scale(np.array([A.max()]), rho)
    game, rho = (A, rho) if scale == 1 else (A / scale, float(rho / scale))
    with np.errstate(all="ignore"):  # a zero pivot is not certified
        T, q, inside, steps = _find_support(game, max(rho, SLIGHT))
        lottery = _read_off(game, rho, T, q, np.flatnonzero(inside))
    return None if lottery is None else (lottery, steps)


def tidied(x: Floats) -> Floats:
    """Return weights (K,) that sum to one, those below zero taken out."""
    x = np.maximum(x, 0.0)
    return np.asarray(x / _sum(x))


def _sum(values: Floats) -> Floats:
    """Return the sums along the last axis, from the first entry to the last."""
    return np.asarray(np.add.accumulate(values, axis=-1)[..., -1])


def _find_support(A: Floats, rho: float) -> tuple[Floats, Floats, Floats, int]:
    """Pivot until the support is found, or the limit is reached; return the tableau T, q, the support and pivots."""
    K = len(A)
    s = int(_sum(A).argmax())
    T = (A[:, s] + rho)[:, None] - A + A[s]
    T.flat[:: K + 1] += rho
    T[:, s], T[s] = 1.0, -1.0
    T[s, s] = 0.0
    q, inside = A[s] - rho, np.zeros(K, bool)
    q[s], inside[s] = 1.0, True
    steps = 0
    for steps in range((GREEDY + SURE) * K + 1):
        wrong = q < -ZERO
        gain = q * q / np.maximum(T.flat[:: K + 1], 1e-300) if steps < GREEDY * K else np.ones(K)
        gain = np.where(wrong & (gain > 0.0), gain, 0.0)
        r = int(gain.argmax())
        if not gain[r] > 0.0 or steps == (GREEDY + SURE) * K:
            break
        _pivot(T, q, r)
        inside[r] = not inside[r]
    return T, q, inside, steps


def _pivot(T: Floats, q: Floats, r: int) -> None:
    """Move agent r over to the other side, in place."""
    inverse, column = 1.0 / T[r, r], T[:, r].copy()
    constant, top = q[r] * inverse, T[r] * inverse
    T -= column[:, None] * top
    T[:, r] = column * inverse
    q -= column * constant
    T[r], q[r] = -top, -constant
    T[r, r] = inverse


def _losses(A: Floats, rho: float, on: Ints, x: Floats) -> Floats:
    w, square = np.zeros(len(x)), 0.0
    for j in on:
        square += x[j] * x[j]
        w += A[j] * x[j]
    w += rho * (x - square)
    return w


def _read_off(A: Floats, rho: float, T: Floats, q: Floats, on: Ints) -> Floats | None:
    """Return the lottery (K,) of the tableau's support, refined with it; None where rounding rules."""
    x, inverse = np.zeros(len(A)), T[np.ix_(on, on)]
    x[on] = q[on]
    moved = np.inf
    for _ in range(REFINEMENTS):
        move = _sum(inverse * _losses(A, rho, on, x)[on])
        x[on] -= move
        moved = float(np.abs(move).max())
        if moved <= STILL:
            break
    x[(x > ROUNDING) & (x < 0.0)] = 0.0
    total = float(_sum(x))
    if not 0.0 < total < np.inf:
        return None
    x /= total
    w = _losses(A, rho, on, x)
    unique = rho > 0.0 or (np.maximum(x, w).min() > STRICT and np.abs(inverse).max() < REGULAR)
    return x if unique and moved <= STILL and np.abs(np.minimum(x, w)).max() < CERTIFIED else None

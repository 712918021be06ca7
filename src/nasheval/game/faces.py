"""The game without regulariser where several maximal lotteries may exist: all of them, and the one of least norm."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from nasheval.arrays import Floats, Ints

_CLEAR = 1e3  # ratio of x to w, or of w to x, that settles on which side an entry is
_RANK = 1e-12  # singular values below this, of a matrix whose largest entry is 1, are zero
_EPSILON = 1e-13  # rounding in a basis of free directions, over the smallest singular value that fixes the others
_NOTHING = 1e-14  # a weight below this is zero but for rounding
_PRICE = 1e-4  # weight of a budget's multiplier in the norm: enough to choose one, too little to move the lottery


def least_norm(A: Floats, agents: int, x: Floats, w: Floats) -> Floats:
    """Return the equilibrium z (m,) of least norm, given the central one.

    All equilibria form the polytope {z >= 0, A z <= 0, the lottery sums to 1}. It is flat: z = 0 where the centre has
    w > 0, and A z = 0 where it has x > 0. Entries that are on neither side for sure keep their inequalities.

    Args:
        A: (m, m) antisymmetric, the largest entry about 1.
        agents: how many of the m entries are the lottery; one more is a budget's multiplier.
        x, w: (m,) the centre of all equilibria and its losses, from the interior method.
    """
    tied, lost = x > _CLEAR * w, w > _CLEAR * x
    on = np.flatnonzero(~lost)
    border = (on < agents).astype(float)
    weight = np.where(border > 0, 1.0, _PRICE)
    E = np.vstack([A[tied][:, on], border]) / weight
    G = np.vstack([np.eye(len(on)), -A[~tied][:, on]]) / weight
    z = np.zeros(len(x))
    z[on] = _nearest_to_zero(E, G) / weight
    z[z < _NOTHING] = 0.0
    return z / z[:agents].sum()


def _nearest_to_zero(E: Floats, G: Floats) -> Floats:
    """Return the y of least norm with E y = (0, ..., 0, 1) and G y >= 0."""
    y, free, noise = _affine(E)
    if not free.shape[1] or (G @ y >= -1e-12).all():
        return y
    exact, _, _ = _affine(np.vstack([G[_touched(G, free, y, noise)], E]))
    return exact


def _affine(E: Floats) -> tuple[Floats, Floats, float]:
    """Return the y of least norm with E y = (0, ..., 0, 1), a basis of what is left free, and its noise."""
    U, sizes, V = np.linalg.svd(E)
    rank = int((sizes > _RANK).sum())
    return V[:rank].T @ (U[-1, :rank] / sizes[:rank]), V[rank:].T, _EPSILON / float(sizes[rank - 1])


def _touched(G: Floats, free: Floats, y: Floats, noise: float) -> Ints:
    """Return which of G z >= 0 hold with equality at the z = y + free t of least norm (Lawson and Hanson's LDP).

    Constraints that t moves by no more than noise are left out: rounding would look like any constraint.
    """
    C, d = G @ free, -(G @ y)
    size = np.linalg.norm(C, axis=1)
    moving = np.flatnonzero(size > noise * np.linalg.norm(G, axis=1))
    target = np.zeros(C.shape[1] + 1)
    target[-1] = 1.0
    multipliers, _ = nnls((np.column_stack([C, d])[moving] / size[moving, None]).T, target)
    return moving[multipliers > 1e-12 * multipliers.max()]

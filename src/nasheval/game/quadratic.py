"""Equilibria of the L2 game, with or without a hard budget: which kernel solves which game."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.errors import ConvergenceError
from nasheval.game.compiled import spread
from nasheval.game.costs import budgeted, charged, scale_of, spend_of, surcharge
from nasheval.game.growing import grow_games
from nasheval.game.interior import interior_games
from nasheval.game.linear import size_games
from nasheval.game.pivoting import pivot_games
from nasheval.game.single import PIVOT_UP_TO, unit_scale
from nasheval.game.supports import residual

_SLIGHT = (1e-11, 5e-11, 1e-12)  # rho that stands in for none where several supports are equally good up to rounding
_CLEAR = 1e3  # ratio of x to w, or of w to x, that settles on which side an entry is
_RANK = 1e-12  # singular values below this, of a matrix whose largest entry is 1, are zero
_EPSILON = 1e-13  # rounding in a basis of free directions, over the smallest singular value that fixes the others
_NOTHING = 1e-14  # a weight below this is zero but for rounding
_PRICE = 1e-4  # weight of a budget's multiplier in the norm: enough to choose one, too little to move the lottery
_HARD = 1e-10  # residual that certifies an answer put together from several solves


def equilibria(A: Floats, rho: float, names: Ints) -> tuple[Floats, Ints]:
    """Return the equilibria of games A (n, K, K): exact solves on supports, found whichever way is fast.

    Few agents are pivoted; many are pivoted among candidates, and where too many of them play, the interior method
    takes over.

    Args:
        names: (n,) what to call the games in errors.
    """
    K = A.shape[1]
    games, scale = _to_unit_scale(A, rho)
    x, steps, certified = (_by_pivoting if K <= PIVOT_UP_TO else _by_growing)(games, K, rho / scale)
    if len(rows := np.flatnonzero(~certified)):
        x[rows], more, certified[rows] = _by_interior(games[rows], K, (rho / scale)[rows])
        steps[rows] += more
    for name in names[~certified]:
        raise ConvergenceError(f"Game {name} could not be solved: no support was certified. Please report it.")
    return x, steps


def budgeted_equilibria(
    A: Floats, rho: float, costs: Floats, limit: Floats, names: Ints
) -> tuple[Floats, Ints, Floats]:
    """Return equilibria of games A (n, K, K) in which nobody may spend more than `limit`, steps and multipliers (n,).

    For both players (Eq. hard-budget-equilibrium).

    Args:
        costs: (n, K), in the user's units.
        limit: (n,), likewise.
        names: (n,) what to call the games in errors.
    """
    over = costs - limit[:, None]
    barred = surcharge(costs, limit[:, None], 4 * (np.abs(A).max((1, 2)) + rho)[:, None])
    pi, steps = equilibria(charged(A, barred), rho, names)
    price = _price_that_bars(A, rho, pi, costs, barred > 0)
    # Where the budget bars nobody, or the free lottery keeps it, that is the answer. Without regulariser, keeping it
    # to the last bit is not enough: there may then be others of a smaller norm, which only the budget makes equal.
    excess = spend_of(over, pi)
    rows = np.flatnonzero(((over > 0) & (barred == 0)).any(-1) & (excess > 0 if rho > 0 else excess >= 0))
    pi[rows], more, price[rows] = _binding(A[rows], rho, over[rows], names[rows])
    steps[rows] += more
    return pi, steps, price


def _binding(A: Floats, rho: float, over: Floats, names: Ints) -> tuple[Floats, Ints, Floats]:
    """Return the equilibria of games A (n, K, K) whose budgets bind, steps and multipliers (n,); over is (n, K).

    The multiplier is one more entry of the complementarity problem. Where that is too flat to be certified, as when
    hardly any money is left beyond the cheapest agent, it is searched for.
    """
    K = A.shape[1]
    size = scale_of(over)
    games, scale = _to_unit_scale(A, rho)
    larger = np.zeros((len(A), K + 1, K + 1))
    larger[:, :K, :K], larger[:, K, :K] = games, over / size[:, None]
    larger[:, :K, K] = -larger[:, K, :K]
    x, steps, certified = _by_interior(larger, K, rho / scale)
    pi, price = x[:, :K], x[:, K] * scale / size

    def answer(prices: Floats, rows: Ints) -> Floats:
        lotteries, more = equilibria(charged(A[left[rows]], prices), rho, names[left[rows]])
        steps[left[rows]] += more
        return lotteries

    if len(left := np.flatnonzero(~certified)):
        pi[left], price[left] = budgeted(answer, over[left])
    return pi, steps, price


def _to_unit_scale(A: Floats, rho: float) -> tuple[Floats, Floats]:
    """Return the games over powers of two (n,) that bring the largest of A and rho near 1; equilibria stay the same."""
    n, K = A.shape[:2]
    largest = np.empty(n)
    spread(size_games, n, 1.0 * K * K, np.ascontiguousarray(A).reshape(n, K * K), largest)
    scale = unit_scale(largest, rho)
    return A if (scale == 1).all() else A / scale[:, None, None], scale


def _by_pivoting(A: Floats, agents: int, rho: Floats) -> tuple[Floats, Ints, Bools]:
    """Return lotteries x (n, agents) of games A of unit scale, pivots (n,), and whether they are certified."""
    n = len(A)
    x, steps, certified = np.empty((n, agents)), np.empty(n, np.int64), np.empty(n, np.bool_)
    spread(pivot_games, n, 3.0 * agents**3, A, rho, x, steps, certified)
    return x, steps, certified


def _by_growing(A: Floats, agents: int, rho: Floats) -> tuple[Floats, Ints, Bools]:
    """As `_by_pivoting`, for games of many agents; those that many play in are not certified."""
    n = len(A)
    x, steps, certified = np.empty((n, agents)), np.empty(n, np.int64), np.empty(n, np.bool_)
    spread(grow_games, n, 1e2 * agents, A, rho, x, steps, certified)
    return x, steps, certified


def _by_interior(A: Floats, agents: int, rho: Floats) -> tuple[Floats, Ints, Bools]:
    """Return equilibria x (n, m) of games A (n, m, m) of unit scale, iterations (n,), and whether each is certified."""
    x, w, steps, certified = _interior(A, agents, rho)
    for g in np.flatnonzero(~certified):
        for answer in _candidates(A[g], agents, rho[g], x[g], w[g]):
            if residual(A[g], agents, rho[g], answer) < _HARD:
                x[g], certified[g] = answer, True
                break
    return x, steps, certified


def _interior(A: Floats, agents: int, rho: Floats) -> tuple[Floats, Floats, Ints, Bools]:
    n, m = A.shape[:2]
    x, w, steps, certified = np.empty((n, m)), np.empty((n, m)), np.empty(n, np.int64), np.empty(n, np.bool_)
    spread(interior_games, n, 10.0 * m**3, A, agents, rho, x, w, steps, certified)
    return x, w, steps, certified


def _candidates(A: Floats, agents: int, rho: float, x: Floats, w: Floats) -> Iterator[Floats]:
    """Yield what may be the equilibrium (m,) where no support was certified, given the centre x, w (m,) of all.

    Without regulariser that is the equilibrium of least norm. Ties broken by less than about 1e-8 can defeat it; then a
    rho so slight that the gap it leaves is below rounding stands in for none.
    """
    if rho > 0:
        yield _at_price(A, agents, rho, x)
    if rho < _HARD:
        yield least_norm(A, agents, x, w)
        for slight in np.array(_SLIGHT)[:, None]:
            yield (_by_pivoting if agents == len(A) else _interior)(A[None], agents, slight)[0][0]


def _at_price(A: Floats, agents: int, rho: float, x: Floats) -> Floats:
    """Return the equilibrium (m,) at the multiplier that x (m,) has.

    Where all agents of the support cost exactly the budget, many multipliers do, and the exact solve cannot choose one.
    """
    prices = -A[:agents, agents:] @ x[agents:]
    lottery, _, _ = _by_pivoting(charged(A[:agents, :agents], prices)[None], agents, np.array([rho]))
    return np.append(lottery[0], x[agents:])


def _price_that_bars(A: Floats, rho: float, pi: Floats, costs: Floats, barred: Bools) -> Floats:
    """Return the least price of spend, (n,), at which nobody wants the barred agents, 0 where none are barred."""
    payoff = np.einsum("njk,nk->nj", A, pi) - rho * pi
    gain = payoff - np.einsum("nk,nk->n", payoff, pi)[:, None]
    dearer = np.where(barred, costs - costs.min(-1, keepdims=True), 1.0)
    return np.where(barred, np.maximum(gain, 0.0) / dearer, 0.0).max(-1)


# -- without regulariser, where several maximal lotteries may exist ---------------------------------------------------


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
    from scipy.optimize import nnls

    C, d = G @ free, -(G @ y)
    size = np.linalg.norm(C, axis=1)
    moving = np.flatnonzero(size > noise * np.linalg.norm(G, axis=1))
    target = np.zeros(C.shape[1] + 1)
    target[-1] = 1.0
    multipliers, _ = nnls((np.column_stack([C, d])[moving] / size[moving, None]).T, target)
    return moving[multipliers > 1e-12 * multipliers.max()]

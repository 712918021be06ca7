"""Equilibria of the L2 game, with or without a hard budget: which kernel solves which game."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.errors import ConvergenceError
from nasheval.game.compiled import spread
from nasheval.game.costs import charged, spend_of, surcharge
from nasheval.game.faces import least_norm
from nasheval.game.kernels import interior_games, pivot_games, residual
from nasheval.game.linear import survey_games

_PIVOT_UP_TO = 40  # agents; beyond, the interior method is faster
_SLIGHT = (1e-11, 5e-11, 1e-12)  # rho that stands in for none where several supports are equally good up to rounding
_HARD = 1e-10  # residual that certifies an answer put together from several solves


def equilibria(A: Floats, rho: float, names: Ints) -> tuple[Floats, Ints]:
    """Return the equilibria of games A (n, K, K): exact solves on supports that pivoting or the interior method find.

    Args:
        names: (n,) what to call the games in errors.
    """
    K = A.shape[1]
    games, scale = _to_unit_scale(A, rho)
    if K > _PIVOT_UP_TO:
        return _by_interior(games, K, rho / scale, names)
    x, steps, certified = _by_pivoting(games, rho / scale)
    if not certified.all():
        rows = np.flatnonzero(~certified)
        x[rows], more = _by_interior(games[rows], K, (rho / scale)[rows], names[rows])
        steps[rows] += more
    return x, steps


def budgeted_equilibria(
    A: Floats, rho: float, costs: Floats, limit: Floats, names: Ints
) -> tuple[Floats, Ints, Floats]:
    """Return equilibria of games A (n, K, K) in which nobody may spend more than `limit`, steps and multipliers (n,).

    The budget's multiplier is one more entry of the complementarity problem (Eq. hard-budget-equilibrium).

    Args:
        costs: (n, K), in the user's units.
        limit: (n,), likewise.
        names: (n,) what to call the games in errors.
    """
    K = A.shape[1]
    over = costs - limit[:, None]
    barred = surcharge(costs, limit[:, None], 4 * (np.abs(A).max((1, 2)) + rho)[:, None])
    pi, steps = equilibria(charged(A, barred), rho, names)
    price = _price_that_bars(A, rho, pi, costs, barred > 0)
    # Where the budget bars nobody, or the free lottery keeps it, that is the answer. Without regulariser, keeping it
    # to the last bit is not enough: there may then be others of a smaller norm, which only the budget makes equal.
    spare = limit - spend_of(costs, pi)
    rows = np.flatnonzero(((over > 0) & (barred == 0)).any(-1) & (spare < 0 if rho > 0 else spare <= 0))
    if len(rows):
        over = over[rows]
        size = np.abs(over).max(-1)
        games, scale = _to_unit_scale(A[rows], rho)
        x, more = _by_interior(_with_budget(games, over / size[:, None]), K, rho / scale, names[rows])
        pi[rows], price[rows] = x[:, :K], x[:, K] * scale / size
        steps[rows] += more
    return pi, steps, price


def _to_unit_scale(A: Floats, rho: float) -> tuple[Floats, Floats]:
    """Return the games over powers of two (n,) that bring the largest of A and rho near 1; equilibria stay the same."""
    largest, uneven = np.empty(len(A)), np.empty(len(A))
    spread(survey_games, len(A), 2.0 * A[0].size, A, largest, uneven)
    size = np.maximum(largest, rho)
    powers = np.round(np.log2(np.where(size > 0, size, 1.0)))
    scale = np.exp2(np.where(np.abs(powers) > 2, powers, 0.0))
    return A if (scale == 1).all() else A / scale[:, None, None], scale


def _by_pivoting(A: Floats, rho: Floats) -> tuple[Floats, Ints, Bools]:
    n, K = A.shape[:2]
    x, steps, certified = np.empty((n, K)), np.empty(n, np.int64), np.empty(n, np.bool_)
    spread(pivot_games, n, 3.0 * K**3, A, rho, x, steps, certified)
    return x, steps, certified


def _by_interior(A: Floats, agents: int, rho: Floats, names: Ints) -> tuple[Floats, Ints]:
    """Solve games A (n, m, m) of unit scale; raise where the answer is not certified."""
    x, w, steps, certified = _interior(A, agents, rho)
    for g in np.flatnonzero(~certified):
        for answer in _candidates(A[g], agents, rho[g], x[g], w[g]):
            if residual(A[g], agents, rho[g], answer) < _HARD:
                x[g] = answer
                break
        else:
            raise ConvergenceError(f"Game {names[g]} could not be solved: no support was certified. Please report it.")
    return x, steps


def _interior(A: Floats, agents: int, rho: Floats) -> tuple[Floats, Floats, Ints, Bools]:
    n, m = A.shape[:2]
    x, w, steps, certified = np.empty((n, m)), np.empty((n, m)), np.empty(n, np.int64), np.empty(n, np.bool_)
    spread(interior_games, n, 10.0 * m**3, A, agents, rho, x, w, steps, certified)
    return x, w, steps, certified


def _candidates(A: Floats, agents: int, rho: float, x: Floats, w: Floats) -> Iterator[Floats]:
    """Yield what may be the equilibrium (m,) where no support was certified, given the centre x, w (m,) of all.

    Without regulariser that is the equilibrium of least norm. Ties broken by less than about 1e-7 can defeat it; then a
    rho so slight that the gap it leaves is below rounding stands in for none.
    """
    if rho > 0:
        yield _at_price(A, agents, rho, x)
    if rho < _HARD:
        yield least_norm(A, agents, x, w)
        for slight in np.array(_SLIGHT)[:, None]:
            yield (_by_pivoting(A[None], slight) if agents == len(A) else _interior(A[None], agents, slight))[0][0]


def _at_price(A: Floats, agents: int, rho: float, x: Floats) -> Floats:
    """Return the equilibrium (m,) at the multiplier that x (m,) has.

    Where all agents of the support cost exactly the budget, many multipliers do, and the exact solve cannot choose one.
    """
    prices = -A[:agents, agents:] @ x[agents:]
    lottery, _, _ = _by_pivoting(charged(A[:agents, :agents], prices)[None], np.array([rho]))
    return np.append(lottery[0], x[agents:])


def _with_budget(A: Floats, over: Floats) -> Floats:
    """Return games (n, K + 1, K + 1) with the budget's multiplier as one more entry; over (n, K) is cost - budget."""
    n, K = over.shape
    larger = np.zeros((n, K + 1, K + 1))
    larger[:, :K, :K], larger[:, :K, K], larger[:, K, :K] = A, -over, over
    return larger


def _price_that_bars(A: Floats, rho: float, pi: Floats, costs: Floats, barred: Bools) -> Floats:
    """Return the least price of spend, (n,), at which nobody wants the barred agents, 0 where none are barred."""
    payoff = np.einsum("njk,nk->nj", A, pi) - rho * pi
    gain = payoff - np.einsum("nk,nk->n", payoff, pi)[:, None]
    dearer = np.where(barred, costs - costs.min(-1, keepdims=True), 1.0)
    return cast(Floats, np.where(barred, np.maximum(gain, 0.0) / dearer, 0.0).max(-1))

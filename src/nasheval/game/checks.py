"""Parse what callers give: payoffs, costs, budgets. Behind this, arrays are trusted."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nasheval.arrays import Bools, Floats
from nasheval.errors import InputError
from nasheval.game.single import solvers_are_loaded

_UNEVEN = {np.dtype(np.float32): 1e-6, np.dtype(np.float16): 1e-3}  # how far A may be from -A^T; 1e-9 for others


def payoffs(A: ArrayLike) -> Floats:
    """Return the payoffs as (n, K, K) float64, exactly antisymmetric."""
    given = np.asarray(A)
    games = np.require(_square(given), np.float64, ["C", "W"])  # kernels are compiled for such arrays only
    largest, uneven = _survey(games)
    if not np.isfinite(largest).all():
        raise InputError(_not_finite(games, int(np.flatnonzero(~np.isfinite(largest))[0])))
    allowed = _UNEVEN.get(given.dtype, 1e-9)
    if (uneven > allowed * np.maximum(largest, 1.0)).any():
        raise InputError(_not_antisymmetric(games, int(uneven.argmax()), allowed))
    if uneven.any():  # what rounding left: the solvers count on pi A pi being zero
        games = (games - games.swapaxes(1, 2)) / 2
    return games


def _survey(games: Floats) -> tuple[Floats, Floats]:
    """Return the largest |A_ij| (NaN where one is not finite) and the largest |A_ij + A_ji| of each game, (n,)."""
    n, K = games.shape[:2]
    if n == 1 and not solvers_are_loaded():
        most = np.abs(games).max((1, 2))
        return np.where(np.isfinite(most), most, np.nan), np.abs(games + games.swapaxes(1, 2)).max((1, 2))
    from nasheval.game.compiled import spread
    from nasheval.game.linear import survey_games

    largest, uneven = np.empty(n), np.empty(n)
    spread(survey_games, n, 2.0 * K * K, games, largest, uneven)
    return largest, uneven


def games_of(pairs: Floats, K: int) -> Floats:
    """Return antisymmetric games (n, K, K), given A_jk of the pairs j < k, (n, n_pairs); no negative zeros."""
    n = len(pairs)
    if n == 1 and not solvers_are_loaded():
        A, (j, k) = np.zeros((1, K, K)), np.triu_indices(K, 1)
        A[0, j, k], A[0, k, j] = pairs[0], 0.0 - pairs[0]
        return A
    from nasheval.game.compiled import spread
    from nasheval.game.linear import fill_games

    A = np.empty((n, K, K))
    spread(fill_games, n, 2.0 * K * K, pairs, A)
    return A


def agents_up(available: ArrayLike, n: int, K: int) -> Bools:
    """Return which agents are up in each game, (n, K)."""
    up = np.asarray(available)
    if up.dtype != np.bool_ or up.shape not in ((K,), (n, K)):
        raise InputError(
            f"available has shape {up.shape} and holds {up.dtype}; with {n} games of {K} agents it is ({K},) or "
            f"({n}, {K}), True where the agent is available."
        )
    up = np.broadcast_to(up, (n, K))
    for g in np.flatnonzero(~up.any(-1)):
        raise InputError(f"No agent is available in game {g}: all {K} are False, and at least one must be True.")
    return up


def _square(given: Floats) -> Floats:
    if given.ndim not in (2, 3) or given.shape[-1] != given.shape[-2] or given.shape[-1] == 0:
        raise InputError(f"A has shape {given.shape}; payoffs are (K, K), or (n, K, K) for n games, with K at least 1.")
    if given.dtype.kind not in "fiub":
        raise InputError(f"A holds {given.dtype}; payoffs are real numbers.")
    return given if given.ndim == 3 else given[None]


def _not_finite(games: Floats, g: int) -> str:
    i, j = np.argwhere(~np.isfinite(games[g]))[0]
    return f"A holds {games[g, i, j]} in game {g} at ({i}, {j}); every payoff must be finite."


def _not_antisymmetric(games: Floats, g: int, allowed: float) -> str:
    uneven = np.abs(games[g] + games[g].T)
    i, j = np.unravel_index(uneven.argmax(), uneven.shape)
    return (
        f"A is not antisymmetric: in game {g}, A[{i}, {j}] = {games[g, i, j]:.9g} and A[{j}, {i}] = "
        f"{games[g, j, i]:.9g}; each should be minus the other (within {allowed:g}). "
        "Give margins, such as P - P.T for win rates P."
    )

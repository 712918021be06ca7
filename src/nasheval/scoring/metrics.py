"""How good is a lottery where the true payoff is known? (appendix "Evaluation metrics")

Each function takes n contexts at once and returns the mean over them, a float; or with reduce=False the (n,) values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nasheval.arrays import Floats
from nasheval.errors import InputError

__all__ = ["expected_cost", "exploitability", "game_value", "strict_win_rate", "support_f1"]


def exploitability(A: npt.ArrayLike, pi: npt.ArrayLike, *, reduce: bool = True) -> Any:
    """Return what the best opponent wins against pi, without regularisation (Eq. eval-exploitability).

    Args:
        A: (n, K, K) or (K, K) payoff matrices, positive where the row agent is preferred.
        pi: (n, K) or (K,) lotteries.
    """
    payoff, lottery = _games(A), _lotteries(pi)
    _agree(payoff[..., 0], lottery)
    return _reduced(np.einsum("...jk,...k->...j", payoff, lottery).max(axis=-1), reduce)


def support_f1(pi: npt.ArrayLike, ref: npt.ArrayLike, *, tau: float = 1e-3, reduce: bool = True) -> Any:
    """Return how well the winners of pi, those above tau, match the winners of a reference (Eq. eval-support-f1)."""
    chosen, true = _lotteries(pi) > tau, _lotteries(ref) > tau
    _agree(chosen, true)
    both, total = (chosen & true).sum(axis=-1), chosen.sum(axis=-1) + true.sum(axis=-1)
    return _reduced(2.0 * both / np.maximum(total, 1), reduce)


def game_value(pi: npt.ArrayLike, q: npt.ArrayLike, A: npt.ArrayLike, *, reduce: bool = True) -> Any:
    """Return the payoff of pi against q, positive where pi is preferred (Eq. eval-game-value)."""
    payoff, one, other = _games(A), _lotteries(pi), _lotteries(q)
    _agree(payoff[..., 0], one, other)
    return _reduced(np.einsum("...j,...jk,...k->...", one, payoff, other), reduce)


def strict_win_rate(pi: npt.ArrayLike, W: npt.ArrayLike, *, reduce: bool = True) -> Any:
    """Return how often an agent drawn from pi strictly beats one drawn uniformly (Eq. eval-win-rate).

    Args:
        W: (n, K, K) probability that the row agent strictly beats the column agent; ties and itself earn nothing.
    """
    wins, lottery = _games(W), _lotteries(pi)
    _agree(wins[..., 0], lottery)
    return _reduced(np.einsum("...j,...jk->...", lottery, wins) / wins.shape[-1], reduce)


def expected_cost(pi: npt.ArrayLike, costs: npt.ArrayLike, *, reduce: bool = True) -> Any:
    """Return what pi spends, with costs (K,), or (n, K) where they depend on the context."""
    lottery, prices = _lotteries(pi), _numbers(costs, "costs")
    _agree(lottery, np.atleast_1d(prices))
    return _reduced((lottery * prices).sum(axis=-1), reduce)


def _games(A: npt.ArrayLike) -> Floats:
    payoff = _numbers(A, "A payoff")
    if payoff.ndim < 2 or payoff.shape[-1] != payoff.shape[-2]:
        raise InputError(f"A payoff has shape {payoff.shape}; accepted are (K, K) and (n, K, K).")
    return payoff


def _lotteries(pi: npt.ArrayLike) -> Floats:
    lottery = _numbers(pi, "A lottery")
    if lottery.ndim < 1 or not np.allclose(lottery.sum(axis=-1), 1, atol=1e-6) or (lottery < -1e-9).any():
        raise InputError(
            f"A lottery, shape {lottery.shape}, has negative entries or does not sum to 1; give (K,) or (n, K)."
        )
    return lottery


def _numbers(values: npt.ArrayLike, name: str) -> Floats:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {values!r:.60}; accepted is an array of numbers.") from None


def _agree(*arrays: npt.NDArray[Any]) -> None:
    """Check that arrays, (..., K) each, speak of as many agents, and of as many contexts or of one."""
    sizes = [array.shape[-1] for array in arrays]
    if len(set(sizes)) > 1:
        raise InputError(f"The arguments speak of {' and '.join(map(str, sizes))} agents; they must agree.")
    counts = [array.shape[:-1] for array in arrays]
    try:
        np.broadcast_shapes(*counts)
    except ValueError:
        listed = " and ".join(" x ".join(map(str, count)) or "one" for count in counts)
        raise InputError(f"The arguments speak of {listed} contexts; they must agree.") from None


def _reduced(values: Any, reduce: bool) -> Any:
    return float(np.mean(values)) if reduce else np.asarray(values)

"""Which pair to ask at a context, as a distribution: what matters to the equilibrium there, and a floor for the rest.

The lottery pi played at a context loses max_j sum_k pi_k A_jk, where A is the truth. An agent j that the estimate puts
far below zero loses nobody anything, however uncertain it is; of one near zero, a contender, the error of its payoff
against pi is what costs. With q_p the share of votes that pair p = (j, k) gets, that error has the variance

    sum over k of pi_k^2 s_jk^2 / q_jk,        s_jk^2 = 1 - A_jk^2 the variance of one verdict,

and its sum over contenders j, each by the chance c_j that it is one, is least (Neyman, 1934) where q_jk is proportional
to s_jk sqrt(c_j pi_k^2 + c_k pi_j^2). The lottery itself is uncertain: half of it is spread over contenders.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from nasheval.arrays import Bools, Floats, as_number
from nasheval.errors import Argument, InputError

FLOOR = 0.2  # of its share under uniform asking, the least that a pair is asked
_SPREAD = 0.5  # of the lottery that is spread over contenders
_TINY = 1e-12


def asking(
    lottery: Floats,
    *,
    payoff: Floats | None = None,
    error: Floats | None = None,
    doubt: Floats | None = None,
    floor: float = FLOOR,
    available: Bools | None = None,
) -> Floats:
    """Return (n, n_pairs) the probability of asking each pair j < k at each of n contexts; rows sum to one.

    Pairs are in the order of `numpy.triu_indices(K, 1)`. It is fast for one context, and exact: what it returns is the
    propensity to write down.

    Args:
        lottery: (n, K) or (K,) what is played at the contexts.
        payoff: (n, K, K) or (K, K) estimated payoffs there; None: every agent is a contender.
        error: (n, K, K) or (K, K) their standard errors, such as those of a group; infinite where nothing is known.
        doubt: (n, K) or (K,) standard errors of what each agent wins against the lottery, in place of `error`, such as
            `nasheval.planning.doubts.doubts` gives. Without both every agent is a contender.
        floor: the least share of its probability under uniform asking that a pair keeps, from 0 to 1 (uniform).
        available: (n, K) or (K,) which agents may be asked; None: all.
    """
    share = checked_floor(floor)
    pi = np.atleast_2d(np.asarray(lottery, np.float64))
    n, K = pi.shape
    j, k = np.triu_indices(K, 1)
    able = np.broadcast_to(np.True_ if available is None else np.asarray(available, bool), (n, K))
    pairs = able[:, j] & able[:, k]
    count = pairs.sum(axis=1, keepdims=True)
    if not count.all():
        raise InputError("available leaves fewer than two agents at a context; accepted are two or more to compare.")
    A = np.zeros((1, K, K)) if payoff is None else np.asarray(payoff, np.float64).reshape(-1, K, K)
    if doubt is None and error is not None:
        doubt = against(pi, np.asarray(error, np.float64))
    near = np.ones((n, K)) if payoff is None or doubt is None else contenders(pi, A, doubt)
    near = near * able
    pi = (1 - _SPREAD) * pi + _SPREAD * near / np.maximum(near.sum(axis=1, keepdims=True), _TINY)
    verdict = np.sqrt(np.maximum(1 - A[:, j, k] ** 2, 0.05))  # of one verdict; nobody is unanimous for sure
    wanted = verdict * np.sqrt(near[:, j] * pi[:, k] ** 2 + near[:, k] * pi[:, j] ** 2) * pairs
    total = wanted.sum(axis=1, keepdims=True)
    uniform = pairs / count
    wanted = np.where(total > _TINY, wanted / np.maximum(total, _TINY), uniform)
    return np.asarray(share * uniform + (1 - share) * wanted)


def contenders(lottery: Floats, payoff: Floats, doubt: Floats) -> Floats:
    """Return (n, K) how likely each agent is to win against the lottery: 1 for one that is estimated not to lose.

    Twice the chance that a normal error lifts what it wins to zero.

    Args:
        lottery: (n, K).
        payoff: (n, K, K) or (1, K, K).
        doubt: (n, K) or (K,) standard errors of what each wins.
    """
    ahead = np.einsum("njk,nk->nj", np.broadcast_to(payoff, (len(lottery), *payoff.shape[1:])), lottery)
    spread = np.broadcast_to(np.asarray(doubt, np.float64), ahead.shape)
    ratio = np.divide(ahead, spread, out=np.where(ahead < 0, -np.inf, 0.0), where=(spread > 0) & np.isfinite(spread))
    return np.asarray(np.minimum(2 * ndtr(np.where(np.isinf(spread), 0.0, ratio)), 1.0))


def against(lottery: Floats, error: Floats) -> Floats:
    """Return (n, K) standard errors of what each agent wins against a lottery, given those of pairs.

    Args:
        lottery: (n, K).
        error: (n, K, K) or (K, K).
    """
    n, K = lottery.shape
    whole = np.broadcast_to(error, (n, K, K))
    unknown = np.isinf(whole) & ~np.eye(K, dtype=bool)
    spread = np.sqrt(np.einsum("njk,nk->nj", np.where(np.isfinite(whole), whole, 0.0) ** 2, lottery**2))
    return np.where((unknown & (lottery[:, None, :] > _TINY)).any(axis=2), np.inf, spread)


def checked_floor(floor: float) -> float:
    """Return a floor, checked."""
    if not 0 <= as_number(floor) <= 1:
        raise InputError(Argument("floor", floor), "; accepted is a number from 0 to 1 (uniform asking), such as 0.2.")
    return float(floor)

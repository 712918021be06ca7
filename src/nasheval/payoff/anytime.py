"""Critical values for those who look again and again: intervals that hold at all numbers of votes together.

The studentised error of a doubly robust mean, z at n votes, moves as a Brownian motion at time n does, divided by
sqrt(n) (Waudby-Smith et al., 2024: asymptotic confidence sequences). For that motion the likelihood ratio of drifts
drawn from a normal law, cut at 0, against no drift is a martingale of mean 1; it goes beyond 1 / error at some time or
other with a chance of `error` at most (Ville). The drifts are put where they make the interval narrow about `planned`
votes: there it is 1.5 times as wide as one that may be looked at once, and it is a little wider long before and after.
"""

from __future__ import annotations

from functools import cache
from math import log, sqrt

from scipy.optimize import brentq
from scipy.special import log_ndtr

from nasheval.arrays import is_whole
from nasheval.errors import InputError

PLANNED = 2000  # votes
_DRIFT, _SPREAD = 1.06, 0.25  # of the drifts, in units of the one that is best at `planned` votes
_MOST = 1e6  # standard errors: no interval is wider


def checked_planned(planned: object) -> int:
    """Return the number of votes about which a decision is expected."""
    if not is_whole(planned, 1):
        raise InputError(f"planned is {planned!r}; accepted is a whole number of votes, 1 or more.")
    return int(planned)  # type: ignore[call-overload]


@cache
def anytime_value(votes: int, planned: int, error: float) -> float:
    """Return c: at no number of votes is z above its c, but for a chance of `error`.

    Args:
        votes: so far.
        planned: about which a decision is expected, named before the first look.
        error: the chance, of one side.
    """
    time, unit = votes / planned, sqrt(2 * log(1 / error))
    return float(brentq(lambda z: _log_ratio(z * sqrt(time), time, unit) + log(error), 0.0, _MOST))


def _log_ratio(value: float, time: float, unit: float) -> float:
    """Return the logarithm of the likelihood ratio of a Brownian motion's value at a time."""
    drift, spread = _DRIFT * unit, (_SPREAD * unit) ** 2
    wider = 1 + spread * time
    cut = log_ndtr((drift + spread * value) / sqrt(spread * wider)) - log_ndtr(drift / sqrt(spread))
    return float(cut - log(wider) / 2 + (spread * value**2 + 2 * drift * value - drift**2 * time) / (2 * wider))

"""Signs that votes are planted, other than loyalty: no agreement with anybody, votes in a rush, surges of an agent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm, t

from nasheval.arrays import Bools, Floats, Ints, bin_sums
from nasheval.audit.crowd import Crowd
from nasheval.audit.tastes import Tastes

_LEAST_TOLD = 0.5  # Fisher information on agreement below which nothing is said
_CONTRARY = 0.1  # share of honest voters who may want the reverse of the rest: that is a taste, not chance
_ROUNDS, _SPARSE = 100, 0.5  # of EM; voters that are taken off its count: fewer than that is nobody
_LEAST_TIMED = 5  # votes with a time that make a rhythm
_SURGE = 0.01  # chance that any surge is found where there is none
_SMALLEST = 16  # votes of a surge


@dataclass(frozen=True, eq=False)
class Agreement:
    """How far each voter agrees with what the model expects; n voters.

    Args:
        votes, agreed: (n,) decided votes with a favourite, and those for it.
        expected: (n,) of those, how many the crowd would give.
        score: (n,) standardised: 0 as the crowd, negative less; 0 where nothing can be said.
        odds: (n,) log odds that votes are cast at random, against all that makes honest voters disagree.
        vary: variance of agreement between voters, that of the slope on the model's log odds.
    """

    votes: Ints
    agreed: Ints
    expected: Floats
    score: Floats
    odds: Floats
    vary: float


def agreement_of(crowd: Crowd, tastes: Tastes) -> Agreement:
    """Return how far voters agree with the model, beside what tastes and the spread between voters explain.

    The score is that of a voter's slope on the log odds, (y - p) times the log odds, summed. Its variance has three
    parts: chance, tastes for agents, and slopes that vary between voters as much as makes all scores together vary as
    they should (Paule and Mandel), so that a minority that disagrees widens it. How much likelier votes are at
    random is their likelihood ratio, in logs, times the share of chance in that variance.
    """
    votes, n = crowd.named.at(crowd.named.decided), crowd.n_voters
    y, p, x = (votes.z > 0).astype(float), votes.chance, votes.logit
    score, chance = bin_sums(votes.voter, (y - p) * x, n), bin_sums(votes.voter, p * (1 - p) * x**2, n)
    variance, slope = chance + _taste_variance(votes, tastes, n), chance
    told = chance > _LEAST_TOLD

    def excess(vary: float) -> float:
        return float((score[told] ** 2 / (variance + vary * slope**2)[told]).mean() - 1)

    vary = 0.0 if not told.any() or excess(0.0) <= 0 else float(brentq(excess, 0.0, 1e3)) if excess(1e3) < 0 else 1e3
    total = np.maximum(variance + vary * slope**2, 1e-12)
    honest, contrary = (bin_sums(votes.voter, -np.logaddexp(0.0, side * x), n) for side in (1 - 2 * y, 2 * y - 1))
    at_random = np.log(0.5) * np.bincount(votes.voter, minlength=n)
    factor = (at_random - np.logaddexp(honest, contrary + np.log(_CONTRARY))) * chance / total
    favourite = (x != 0) & ((y > 0) == (x > 0))
    return Agreement(
        votes=np.bincount(votes.voter[x != 0], minlength=n),
        agreed=np.bincount(votes.voter[favourite], minlength=n),
        expected=bin_sums(votes.voter, np.maximum(p, 1 - p) * (x != 0), n),
        score=np.where(told, score / np.sqrt(total), 0.0),
        odds=_odds(np.where(told, factor, 0.0), crowd.votes > 0),
        vary=vary,
    )


def _odds(factor: Floats, active: Bools) -> Floats:
    """Return (n,) log odds of voting at random, given how many times likelier that makes a voter's votes, in logs.

    The share of such voters is estimated, for each voter from all others, and is that of half a voter at least.
    """
    count, size = 1.0, max(int(active.sum()), 1)
    for _ in range(_ROUNDS):
        belief = expit(np.log(count / size) + factor) * active
        count = float(np.clip(belief.sum() - _SPARSE, 1e-9, 0.4 * size))
    return np.log(np.maximum(count + _SPARSE - belief, _SPARSE) / size) + factor


def _taste_variance(votes: Crowd, tastes: Tastes, n: int) -> Floats:
    """Return (n,) the variance of a voter's score that tastes for agents add."""
    K = len(votes.agents)
    moved = np.zeros(n * K)
    for agent, sign in votes.sides():
        moved += bin_sums(
            votes.voter * np.int64(K) + agent, sign * votes.chance * (1 - votes.chance) * votes.logit, n * K
        )
    return (moved.reshape(n, K) ** 2) @ tastes.spread


@dataclass(frozen=True, eq=False)
class Rhythm:
    """Median seconds between a voter's votes, (n,), NaN where unknown, and how much faster than others', in errors."""

    gap: Floats
    score: Floats
    typical: float


def rhythm_of(crowd: Crowd) -> Rhythm | None:
    """Return the rhythm of voters with five timed votes or more; None where fewer than ten have them."""
    records, n = crowd.log.records, crowd.n_voters
    if records.time is None or records.voter is None:
        return None
    rows = np.flatnonzero((records.voter >= 0) & np.isfinite(records.time))
    rows = rows[np.lexsort((records.time[rows], records.voter[rows]))]
    voter, time = records.voter[rows], records.time[rows]
    same = voter[1:] == voter[:-1]
    gaps, owner = np.diff(time)[same], voter[1:][same]
    order = np.lexsort((gaps, owner))
    count = np.bincount(owner, minlength=n)
    starts = np.cumsum(count) - count
    known = count >= _LEAST_TIMED - 1
    gap = np.full(n, np.nan)
    gap[known] = gaps[order][(starts + count // 2)[known]]
    if known.sum() < 2 * _LEAST_TIMED:
        return None
    speed = -np.log1p(gap)
    middle = np.nanmedian(speed)
    scale = max(1.4826 * float(np.nanmedian(np.abs(speed - middle))), 0.25)
    return Rhythm(gap, np.where(known, (speed - middle) / scale, 0.0), float(np.nanmedian(gap)))


def rush_chance(score: Floats) -> Floats:
    """Return the chance of so fast a rhythm; the rhythms of people have heavy tails."""
    return t.sf(score, 5)


def strength(chance: Floats) -> Floats:
    """Return at most how many times likelier something of a p-value is if it is no chance (Sellke, Bayarri, Berger)."""
    p = np.clip(chance, 1e-300, 1 / np.e)
    return 1 / (-np.e * p * np.log(p))


@dataclass(frozen=True)
class Surge:
    """A stretch of time in which an agent did far better than its votes before and after.

    Args:
        agent: its name.
        start, end: seconds.
        votes, wins: decided votes on it, and those for it.
        expected: of those, how many the crowd would give.
        voters: who gave them, as far as they are named.
        score: in standard errors.
    """

    agent: str
    start: float
    end: float
    votes: int
    wins: int
    expected: float
    voters: int
    score: float


def surges(crowd: Crowd) -> tuple[Surge, ...]:
    """Return for each agent the stretch of votes that favours it most, where no chance explains it.

    Stretches of 16, 32, 64, ... votes, up to a quarter of the agent's, are looked at; the limit is for all stretches of
    all agents together, and the errors are those that stretches of the agent have.
    """
    time = crowd.log.records.time
    if time is None:
        return ()
    votes = crowd.at(crowd.decided & np.isfinite(time[crowd.record]))
    votes = votes.at(np.argsort(time[votes.record], kind="stable"))
    looked = [_scan(votes, time, agent) for agent in range(len(crowd.agents))]
    limit = norm.isf(_SURGE / max(1, sum(tried for _, tried in looked)))
    return tuple(surge for surge, _ in looked if surge is not None and surge.score > limit)


def _scan(votes: Crowd, time: Floats, agent: int) -> tuple[Surge | None, int]:
    mine = np.flatnonzero((votes.j == agent) | (votes.k == agent))
    sign = np.where(votes.j[mine] == agent, 1, -1)
    won, p = sign * votes.z[mine] > 0, np.where(sign > 0, votes.chance[mine], 1 - votes.chance[mine])
    rest, spread = (np.concatenate([[0.0], np.cumsum(each)]) for each in (won - p, p * (1 - p)))
    best, tried, size = (0.0, 0, 0), 0, _SMALLEST
    while size <= len(mine) // 4:
        score = (rest[size:] - rest[:-size]) / np.sqrt(spread[size:] - spread[:-size])
        score /= max(1.0, 1.4826 * float(np.median(np.abs(score))))
        place = int(score.argmax())
        best, tried, size = max(best, (float(score[place]), place, size)), tried + len(score), 2 * size
    if not best[2]:
        return None, tried
    inside = slice(best[1], best[1] + best[2])
    rows, voter = mine[inside], votes.voter[mine[inside]]
    start, end = (float(time[votes.record[row]]) for row in (rows[0], rows[-1]))
    n_voters = len(np.unique(voter[voter >= 0]))
    name, wins, expected = votes.agents[agent], int(won[inside].sum()), float(p[inside].sum())
    return Surge(name, start, end, best[2], wins, expected, n_voters, best[0]), tried

"""E[Z^m_jk] of one latent voter, for every form of question, in NumPy.

All functions take u, (size, ...), the utilities of the agents of a menu, and return (pairs, ...), the pairs in the
order (0, 1), (0, 2), ..., (1, 2), ... The answers are those of `voters_likelihood`, ties and what was not
asked included.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import comb

import numpy as np

from nasheval.arrays import Floats
from nasheval.feedback.menus import BEST_WORST, PARTIAL
from nasheval.nuisance.voters_likelihood import quadrature
from nasheval.nuisance.voters_records import Kind, Question

ENUMERATED = 1024  # sets of chosen agents up to this number are summed exactly
ENUMERATED_MENU = 8  # largest menu of which partial rankings are summed exactly
SPREAD = 80.0  # utilities further below the best than this count as that far below: exp stays a normal number


def margins(question: Question, u: Floats, ties: Floats, stops: Floats) -> Floats:
    """Return E[Z_jk | m] of one voter.

    Args:
        u: (size, M, n) utilities of the agents of M menus at n contexts.
        ties: (n_tie, ...) log tie weights that broadcast to (n_tie, M, n).
        stops: (size,) share of voters who stop ranking after so many blocks, for PARTIAL.

    Two agents in place of a larger menu are asked for what their margin is in such menus (`in_larger_menu`).
    """
    if stands_for_menus(question, len(u)):
        return in_larger_menu(question, u, ties, stops)
    if question.kind == Kind.CENSORED:
        return best_worst(u) if question.form == BEST_WORST else top(u, question.form)
    if question.kind == Kind.TIED or (question.form == PARTIAL and len(u) <= ENUMERATED_MENU):
        return ordered(u, ties, stops)
    margin = duel(u, ties) if question.n_tie else decided(u)
    if question.form == PARTIAL:
        margin *= 1.0 - unranked(u, stops)
    return margin


def is_duel(question: Question, size: int) -> bool:
    """Tell whether the margins of a question on `size` agents are those of Davidson duels; see `tie_weights`."""
    if stands_for_menus(question, size):
        return True
    return question.kind not in (Kind.CENSORED, Kind.TIED) and question.form != PARTIAL


def stands_for_menus(question: Question, size: int) -> bool:
    """Tell whether two agents are asked for what their margin is in larger menus, on which it depends."""
    return size == 2 < question.size and (question.kind == Kind.TIED or question.form == PARTIAL)


def tie_weights(ties: Sequence[Floats]) -> tuple[Floats, Floats | None]:
    """Return the weight nu of ties and the log weight of both-bad, (...) each, of duels (`voters_duels`).

    Args:
        ties: log tie weights, (...) each: of ties, and of both-bad where that is an answer; else there is no weight.
    """
    return np.exp(np.minimum(ties[0], SPREAD)), ties[1] if len(ties) > 1 else None


def menu_tie_weight(question: Question, ties: Floats, stops: Floats) -> Floats:
    """Return about the weight nu, (n,), with which two agents duel in menus of a question.

    The others are taken to lie halfway between the two. nu is the one that is right where the two differ by d = 1,
    given that a duel's margin is sinh(d / 2) / (cosh(d / 2) + nu / 2): one menu is worked out in place of all.

    Args:
        ties: (n_tie, 1, n) log tie weights.
        stops: as for `margins`.
    """
    probe = np.zeros((question.size, 1, ties.shape[2]), ties.dtype)
    probe[0], probe[1] = 0.5, -0.5
    there = np.maximum(margins(question, probe, ties, stops)[0, 0], 1e-6)
    return (2 * np.maximum(np.sinh(0.5) / there - np.cosh(0.5), 0.0)).astype(ties.dtype)


def in_larger_menu(question: Question, u: Floats, ties: Floats, stops: Floats) -> Floats:
    """Return about E[Z] of two agents, (1, M, n), in menus of which the others lie halfway between the two."""
    half_nu = menu_tie_weight(question, ties, stops) / 2
    half = np.clip((u[0] - u[1]) / 2, -SPREAD / 2, SPREAD / 2)
    return (np.sinh(half) / (np.cosh(half) + half_nu))[None]


def _differences(values: Floats) -> Floats:
    left, right = np.triu_indices(len(values), 1)
    return values[left] - values[right]


def decided(u: Floats) -> Floats:
    """Plackett-Luce, all of the order given: tanh((u_j - u_k) / 2)."""
    half = _differences(u)
    half *= 0.5
    return np.tanh(half, out=half)


def duel(u: Floats, ties: Floats) -> Floats:
    """Davidson, with the log weight of both-bad where ties holds two rows."""
    left, right = np.triu_indices(len(u), 1)
    gap = u[left] - u[right]
    width = np.exp(-0.5 * np.abs(gap))
    neither = np.exp(np.minimum(ties[0], SPREAD))
    if len(ties) > 1:
        neither = neither + np.exp(np.clip(ties[1] - (u[left] + u[right]) / 2, -SPREAD, SPREAD))
    return np.tanh(gap / 2) / (1.0 + neither * width / (1.0 + width**2))


def _rates(u: Floats) -> Floats:
    return np.exp(np.maximum(u - u.max(axis=0), -SPREAD))


def ordered(u: Floats, ties: Floats, stops: Floats) -> Floats:
    """Davidson-Luce (Plackett-Luce without ties) block by block, for voters who may stop before the end.

    Walks over the sets of agents not yet ranked, from the whole menu down, with the chance of standing there.
    """
    size = len(u)
    centred = np.maximum(u - u.max(axis=0), -SPREAD).astype(np.float64)
    zero = np.zeros(centred.shape[1:])
    weight = {
        chosen: np.exp(centred[list(chosen)].mean(axis=0) + (ties[t - 2] if t > 1 else 0.0)) + zero
        for t in range(1, 2 + len(ties))
        for chosen in combinations(range(size), t)
    }
    wins = np.zeros((size, size, *zero.shape))
    waiting: dict[tuple[int, ...], Floats] = {tuple(range(size)): zero + 1.0}
    for stage in range(size - 1):
        following: dict[tuple[int, ...], Floats] = {}
        for left, chance in waiting.items():
            sets = [chosen for t in range(1, min(len(ties) + 1, len(left)) + 1) for chosen in combinations(left, t)]
            each = chance * (1.0 - stops[stage]) / sum(weight[chosen] for chosen in sets)
            for chosen in sets:  # the next block
                share = each * weight[chosen]
                rest = tuple(agent for agent in left if agent not in chosen)
                for j, k in product(chosen, rest):
                    wins[j, k] += share
                if len(rest) > 1:
                    following[rest] = following[rest] + share if rest in following else share
        waiting = following
    first, second = np.triu_indices(size, 1)
    return (wins[first, second] - wins[second, first]).astype(u.dtype)


def top(u: Floats, r: int) -> Floats:
    """The best r were chosen: P(j chosen) - P(k chosen)."""
    if r >= len(u):
        return np.zeros((len(u) * (len(u) - 1) // 2, *u.shape[1:]), u.dtype)
    rate = _rates(u)
    if r == 1:
        return _differences(rate / rate.sum(axis=0))
    exact = sum(comb(len(u), c) for c in range(r + 1)) <= ENUMERATED
    return _differences(_chosen(rate, r) if exact else 1.0 - np.exp(-rate * _time_of(rate, r)))


def _chosen(rate: Floats, r: int) -> Floats:
    """Return (size, ...) the chance of each agent to be among the first r, summed over sets."""
    size, total = len(rate), rate.sum(axis=0)
    waiting: dict[tuple[int, ...], Floats] = {(): np.ones_like(total)}
    for _ in range(r):
        following: dict[tuple[int, ...], Floats] = {}
        for chosen, chance in waiting.items():
            left = [agent for agent in range(size) if agent not in chosen]
            each = chance / rate[left].sum(axis=0)
            for agent in left:
                grown, share = tuple(sorted((*chosen, agent))), each * rate[agent]
                following[grown] = following[grown] + share if grown in following else share
        waiting = following
    inside = np.zeros_like(rate)
    for chosen, chance in waiting.items():
        inside[list(chosen)] += chance
    return inside


def _time_of(rate: Floats, r: float, steps: int = 40) -> Floats:
    """Return the time by which r agents are expected to have rung: the r-th ringing, where there are many agents.

    With it P(j among the first r) is about 1 - exp(-rate_j time); these sum to r, as they must.
    """
    low, high = np.full(rate.shape[1:], -5.0), np.full(rate.shape[1:], SPREAD + 10.0)
    for _ in range(steps):
        middle = (low + high) / 2
        early = -np.expm1(-rate * np.exp(middle)).sum(axis=0) < r
        low, high = np.where(early, middle, low), np.where(early, high, middle)
    return np.exp((low + high) / 2).astype(rate.dtype)


def best_worst(u: Floats) -> Floats:
    """E[Z_jk] = P(j best or k worst) - P(k best or j worst)."""
    size, rate = len(u), _rates(u)
    best = rate / rate.sum(axis=0)
    joint = best[:, None] * _worst_without(u)  # j best and k worst
    joint[np.arange(size), np.arange(size)] = 0.0
    worst = joint.sum(axis=0)
    j, k = np.triu_indices(size, 1)
    return best[j] + worst[k] - joint[j, k] - best[k] - worst[j] + joint[k, j]


def _worst_without(u: Floats) -> Floats:
    """Return (size, size, ...) the chance that k is last among all but j, by quadrature over the time k rings."""
    size = len(u)
    chance = np.zeros((size, *u.shape), u.dtype)
    for log_time, share in zip(*quadrature(), strict=True):
        for k in range(size):
            age = np.exp(np.clip(log_time + u - u[k], -SPREAD, 20.0).astype(u.dtype))
            rung = np.log(-np.expm1(-age))
            rung[k] = 0.0
            chance[:, k] += share.astype(u.dtype) * np.exp(rung.sum(axis=0) - rung)
    return chance


def unranked(u: Floats, stops: Floats) -> Floats:
    """Return (pairs, ...) about the chance that neither of two agents is ranked before the voter stops.

    Their order is independent of that under Plackett-Luce, so a margin shrinks by exactly this chance. Used for menus
    that are too large to enumerate.
    """
    left, right = np.triu_indices(len(u), 1)
    rate, going, chance = _rates(u), 1.0, np.zeros((len(left), *u.shape[1:]), u.dtype)
    for ranked in range(len(u) - 1):
        stopping = going * float(stops[ranked])
        going -= stopping
        if stopping > 0:
            time = _time_of(rate, ranked) if ranked else np.zeros(u.shape[1:], u.dtype)
            chance += (stopping * np.exp(-(rate[left] + rate[right]) * time)).astype(u.dtype)
    return chance

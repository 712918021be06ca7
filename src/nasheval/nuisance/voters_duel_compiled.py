"""Compiled: the loss of duels and its gradient, at the two agents that were asked alone. Imported when voters train."""

from __future__ import annotations

from typing import Any

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.game.compiled import compiled, reordered

Number = float | np.floating[Any]
_NOBODY = -1e3  # log weight of a voter who has none


@reordered
def dot(a: Floats, b: Floats) -> Number:
    """Return the sum of products, in any order."""
    total = np.float32(0.0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@compiled
def pull_both(amount: Number, h: Floats, by_column: Floats, column: Floats, by_h: Floats) -> None:
    """Add the gradients of amount h . column."""
    for i in range(h.shape[0]):
        by_column[i] += amount * h[i]
        by_h[i] += amount * column[i]


@compiled
def likelihood(one: Number, two: Number, tie: Number, bad: Number, outcome: int, share: Floats) -> Number:
    """Return log L of a duel, and in share (4,) the chances that the first wins, of a tie, of both bad, of the other.

    The log weights are one, tie, bad and two; the outcome is 0, 1 or 2.
    """
    top = max(max(one, two), max(tie, bad))
    share[0], share[1], share[2], share[3] = np.exp(one - top), np.exp(tie - top), np.exp(bad - top), np.exp(two - top)
    total = (share[0] + share[1]) + (share[2] + share[3])
    chosen = one if outcome == 0 else tie if outcome == 1 else bad
    for i in range(4):
        share[i] /= total
    return (chosen - top) - np.log(total)


@compiled
def duel_losses(
    hidden: Floats,
    head: Floats,
    base: Floats,
    log_weight: Floats,
    tie: Floats,
    lean: Floats,
    row: Ints,
    agents: Ints,
    outcome: Ints,
    prior: Ints,
    ties: Ints,
    loss: Floats,
) -> None:
    """Write the negative log likelihood of each record; shapes as in `Duels.losses`."""
    K, V = base.shape[1:]
    said, share, u = np.empty(V, np.float32), np.empty((V, 4), np.float32), np.empty((2, V), np.float32)
    for i in range(row.shape[0]):
        model, place = row[i] // hidden.shape[1], row[i] % hidden.shape[1]
        h, weights, log_prior = hidden[model, place], head[model], log_weight[prior[i]]
        utilities(h, weights, base[model], agents[0, i], agents[1, i], log_prior, u)
        leaning, log_tie = dot(h, weights[K * V + K]), tie[model, ties[0] : ties[1]]
        loss[i] = -mixture(u, log_prior, log_tie, lean[model], leaning, outcome[i], said, share)


@compiled
def utilities(h: Floats, head: Floats, base: Floats, one: int, two: int, log_weight: Floats, u: Floats) -> None:
    """Write u (2, V), what each voter gives to two agents; head (K V + K + 1, width), base (K, V)."""
    K, V = base.shape
    for side in range(2):
        agent = one if side == 0 else two
        shared = dot(h, head[K * V + agent])
        for v in range(V):
            if log_weight[v] > _NOBODY:
                u[side, v] = (dot(h, head[agent * V + v]) + shared) + base[agent, v]


@compiled
def mixture(
    u: Floats, log_weight: Floats, tie: Floats, lean: Floats, leaning: Number, outcome: int, said: Floats, share: Floats
) -> Number:
    """Return log sum over voters of weight L; said (V,) are the chances that each spoke, share (V, 4) those of each."""
    top = np.float32(-np.inf)
    for v in range(u.shape[1]):
        said[v] = -np.inf
        if log_weight[v] > _NOBODY:
            t, bad = tie_weights(u, v, tie, lean, leaning)
            said[v] = likelihood(u[0, v], u[1, v], t, bad, outcome, share[v]) + log_weight[v]
            top = max(top, said[v])
    total = np.float32(0.0)
    for v in range(u.shape[1]):
        said[v] = np.exp(said[v] - top)
        total += said[v]
    for v in range(u.shape[1]):
        said[v] /= total
    return top + np.log(total)


@compiled
def tie_weights(u: Floats, v: int, tie: Floats, lean: Floats, leaning: Number) -> tuple[Number, Number]:
    """Return the log weights of a tie and of both bad, for voter v; without ties they are minus infinity."""
    if not tie.shape[0]:
        return np.float32(-np.inf), np.float32(-np.inf)
    half = np.float32(0.5) * (u[0, v] + u[1, v])
    return (tie[0] + (lean[v] + leaning)) + half, tie[1]


@compiled
def duel_gradients(
    hidden: Floats,
    head: Floats,
    base: Floats,
    log_weight: Floats,
    tie: Floats,
    lean: Floats,
    row: Ints,
    agents: Ints,
    outcome: Ints,
    prior: Ints,
    ties: Ints,
    scale: Floats,
    by_hidden: Floats,
    by_head: Floats,
    by_base: Floats,
    by_log_weight: Floats,
    by_tie: Floats,
    by_lean: Floats,
) -> None:
    """Add the gradient of sum over records of scale times negative log likelihood; shapes as in `Duels.gradients`."""
    K, V = base.shape[1:]
    said, share, u = np.empty(V, np.float32), np.empty((V, 4), np.float32), np.empty((2, V), np.float32)
    half, tied = np.float32(0.5), ties[1] > ties[0]
    for i in range(row.shape[0]):
        model, place = row[i] // hidden.shape[1], row[i] % hidden.shape[1]
        h, weights, log_prior = hidden[model, place], head[model], log_weight[prior[i]]
        back, pulled = by_hidden[model, place], by_head[model]
        utilities(h, weights, base[model], agents[0, i], agents[1, i], log_prior, u)
        leaning, log_tie = dot(h, weights[K * V + K]), tie[model, ties[0] : ties[1]]
        mixture(u, log_prior, log_tie, lean[model], leaning, outcome[i], said, share)
        shared, leant = np.zeros(2, np.float32), np.float32(0.0)
        for v in range(V):
            if said[v] > 0.0:
                chance, amount = share[v], scale[i] * said[v]
                chance[outcome[i]] -= np.float32(1.0)
                by_log_weight[prior[i], v] -= amount
                for side in range(2):
                    agent, pull = agents[side, i], amount * (chance[3 * side] + half * chance[1])
                    by_base[model, agent, v] += pull
                    shared[side] += pull
                    pull_both(pull, h, pulled[agent * V + v], weights[agent * V + v], back)
                if tied:
                    by_tie[model, ties[0]] += amount * chance[1]
                    by_tie[model, ties[0] + 1] += amount * chance[2]
                    by_lean[model, v] += amount * chance[1]
                    leant += amount * chance[1]
        for side in range(2):
            column = K * V + agents[side, i]
            pull_both(shared[side], h, pulled[column], weights[column], back)
        if tied:
            pull_both(leant, h, pulled[K * V + K], weights[K * V + K], back)

"""Compiled: the margins of `voters_duels` at many contexts. Imported when they are asked for."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.game.compiled import compiled
from nasheval.game.compiled import spread as spread


@compiled
def centre(u: Floats, middle: Floats, most: float) -> None:
    """Write the middle of each row of utilities (rows, K) into middle (rows,), and half of what they are off into u.

    Args:
        most: of halves; those beyond are cut.
    """
    for row in range(u.shape[0]):
        values = u[row]
        low, high = values[0], values[0]
        for value in values[1:]:
            if value < low or value != value:  # what is no number makes all of them none, as in NumPy
                low = value
            if value > high:
                high = value
        middle[row] = (high + low) * np.float32(0.5)
        for k in range(len(values)):
            half = (values[k] - middle[row]) * np.float32(0.5)
            values[k] = np.float32(most if half > most else -most if half < -most else half)


@compiled
def halves_of_one(
    out: Floats, taste: Floats, lean: Floats, most: float, u: Floats, middle: Floats, leaning: Floats
) -> None:
    """Write what `Stack.forward` and `centre` make of the outputs at one context, (models, 1, V K + 1).

    Args:
        taste, lean: of `Stack`.
        u, middle, leaning: (F, M, 1, V, K), (F, M, 1, V) and (F, M, 1, V), for F M models.
    """
    folds, members, _, voters, K = u.shape
    for f in range(folds):
        for m in range(members):
            model = f * members + m
            said = out[model, 0]
            for v in range(voters):
                own, shared = u[f, m, 0, v], taste[model, 0, v]
                for k in range(K):
                    own[k] = said[v * K + k] + shared[k]
                leaning[f, m, 0, v] = said[voters * K] + lean[model, 0, v]
            centre(u[f, m, 0], middle[f, m, 0], most)


@compiled
def duel_contexts(
    start: int, stop: int, s: Floats, nu: Floats, bad: Floats, weight: Floats, runs: Ints, place: Ints, total: Floats
) -> None:
    """Write what voters say of pairs into total (n, c) at contexts start to stop; shapes as in `Electorate`."""
    folds, places = s.shape[0], 0
    for r in range(runs.shape[0]):
        places += runs[r, 3]
    mean, summed = np.empty(places, np.float32), np.empty(places)
    for g in range(start, stop):
        summed[:] = 0.0
        for f in range(folds):
            say_duels(f, g, s, nu, bad, weight, runs, mean)
            for c in range(places):
                summed[c] += mean[c]
        for c in range(place.shape[0]):
            total[g, c] = summed[place[c]]


@compiled
def say_duels(fold: int, g: int, s: Floats, nu: Floats, bad: Floats, weight: Floats, runs: Ints, mean: Floats) -> None:
    """Write what the voters of a fold say at the g-th context into mean (c,); shapes as in `Electorate`."""
    mean[:] = 0.0
    for m in range(s.shape[1]):
        for v in range(s.shape[3]):
            share = weight[fold, m, v]
            if share > 0.0:
                add_duels(s[fold, m, g, v], nu[fold, m, g, v], bad[fold, m, g, v], share, runs, mean)


@compiled
def add_duels(s: Floats, nu: float, bad: float, share: float, runs: Ints, mean: Floats) -> None:
    """Add one voter's margins, times its share, to mean (c,)."""
    for r in range(runs.shape[0]):
        first, size = runs[r, 0], runs[r, 3]
        one = s[runs[r, 1]]
        square = one * one
        others, out = s[runs[r, 2] : runs[r, 2] + size], mean[first : first + size]
        for t in range(size):
            other = others[t]
            loss = other * other
            out[t] += share * ((square - loss) / (((square + loss) + nu * (one * other)) + bad))


@compiled
def duel_agents(
    start: int, stop: int, s: Floats, nu: Floats, bad: Floats, weight: Floats, row: Ints, agent: Ints, total: Floats
) -> None:
    """Write what voters say of agent[i] against every agent, at the context row[i], into total (m, K)."""
    folds, K = s.shape[0], s.shape[4]
    mean, run = np.empty(K, np.float32), np.zeros((1, 4), np.int64)
    run[0, 3] = K
    for i in range(start, stop):
        g, run[0, 1] = row[i], agent[i]
        total[i] = 0.0
        for f in range(folds):
            say_duels(f, g, s, nu, bad, weight, run, mean)
            for k in range(K):
                total[i, k] += mean[k]


@compiled
def favour(start: int, stop: int, s: Floats, weight: Floats, up: Bools, favourite: Ints) -> None:
    """Write who of the agents up wins most often against one in the middle of each voter's utilities."""
    folds, members, _, voters, K = s.shape
    score = np.empty(K, np.float32)
    for g in range(start, stop):
        score[:] = 0.0
        for f in range(folds):
            for m in range(members):
                for v in range(voters):
                    share, own = weight[f, m, v], s[f, m, g, v]
                    for k in range(K if share > 0.0 else 0):
                        square = own[k] * own[k]
                        score[k] += share * (square / (square + np.float32(1.0)))
        best = -1
        for k in range(K):
            if up[k] and (best < 0 or score[k] > score[best]):
                best = k
        favourite[g] = best

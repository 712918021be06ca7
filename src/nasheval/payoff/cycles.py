"""Cycles that hold at a stated confidence: a beats b beats c beats a, every edge tested, all pairs at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from nasheval.arrays import Bools, Floats, Ints
from nasheval.payoff.estimand import CELLS

_LONGEST = 6  # most agents in a cycle
_MOST_PATHS = 100_000  # looked at for cycles of more than three
_TINY = 1e-300


@dataclass(frozen=True)
class Cycle:
    """Agents of which each beats the next, and the last the first.

    Args:
        agents: names, starting with the one that the log names first.
        margins: estimated payoff of each over the next.
        errors: their standard errors.
    """

    agents: tuple[str, ...]
    margins: tuple[float, ...]
    errors: tuple[float, ...]

    def __str__(self) -> str:
        return " > ".join((*self.agents, self.agents[0]))


def signs(z: Floats, draws: Floats, confidence: float) -> Ints:
    """Return (m,) +1 or -1 where the sign of a mean is certain, 0 where it is not, all together at one confidence.

    Two steps (Romano, Shaikh and Wolf, 2014). A tenth of the error buys a region that holds all means: outside of zero
    it settles a sign and says how far from zero that mean is at least. The rest buys a test of the signs by stepping
    down (Romano and Wolf, 2005): its critical value is the quantile of the largest statistic that could still mislead,
    |z| of a mean of unknown sign, and -z less that distance of a mean whose sign is settled or found. The chance of any
    wrong sign is at most 1 - confidence, and clear pairs do not make it harder to settle the others.

    Args:
        z: (m,) estimates over their standard errors, on the normal scale.
        draws: (B, m) such statistics when all means are zero.
    """
    if not len(z):
        return np.zeros(0, np.int8)
    error = 1 - confidence
    reach = np.quantile(_most_misleading(draws, np.zeros(len(z), np.int8), np.zeros(len(z))), 1 - error / 10)
    away = np.maximum(np.abs(z) - reach, 0)
    sign = np.where(away > 0, np.sign(z), 0)
    while (sign == 0).any():
        critical = np.quantile(_most_misleading(draws, sign, away), 1 - 0.9 * error)
        more = np.where((sign == 0) & (np.abs(z) > critical), np.sign(z), sign)
        if (more == sign).all():
            break
        sign = more
    return sign.astype(np.int8)


def _most_misleading(draws: Floats, sign: Ints, away: Floats) -> Floats:
    """Return (B,) the largest statistic of each draw: |z| of unknown signs, -z less the distance of the others."""
    step, largest = max(1, CELLS // max(1, len(sign))), np.empty(len(draws))
    open_, settled = sign == 0, np.flatnonzero(sign)
    for start in range(0, len(draws), step):
        some = slice(start, start + step)
        most = np.abs(draws[some][:, open_]).max(axis=1, initial=-np.inf)
        against = (-sign[settled] * draws[some][:, settled] - away[settled]).max(axis=1, initial=-np.inf)
        largest[some] = np.maximum(most, against)
    return largest


def find_cycles(beats: Bools) -> list[tuple[int, ...]]:
    """Return the minimal cycles of a directed graph: all of three, and those of up to six that no edge cuts short.

    A false cycle has a false edge, so that cycles of certain edges are certain together. Of the longer ones, which may
    be countless, no more are looked for after a hundred thousand paths.

    Args:
        beats: (K, K) which agent certainly beats which.
    """
    within = _same_component(beats)
    return [*_triples(beats & within), *_chordless(beats, within)]


def _same_component(beats: Bools) -> Bools:
    """Return (K, K) which agents lead to each other and back: a cycle stays among such."""
    label = connected_components(csr_array(beats), connection="strong")[1]
    return np.asarray(label[:, None] == label[None, :])


def _triples(beats: Bools) -> list[tuple[int, ...]]:
    """Return (a, b, c) with a beats b beats c beats a and a the lowest number."""
    a, b = np.nonzero(np.triu(beats))
    edge, c = np.nonzero(beats[b] & beats.T[a] & (np.arange(len(beats)) > a[:, None]))
    return sorted(zip(a[edge].tolist(), b[edge].tolist(), c.tolist(), strict=True))


def _chordless(beats: Bools, within: Bools) -> Iterator[tuple[int, ...]]:
    """Yield cycles of four agents or more in which no two agents but neighbours have an edge.

    A path is followed only while it can still return in time: the steps from each agent to each are known.
    """
    joined, steps = beats | beats.T, _steps(beats & within)
    paths: list[tuple[int, ...]] = [(int(a), int(b)) for a, b in np.argwhere(np.triu(beats & within))[::-1]]
    for _ in range(_MOST_PATHS):
        if not paths:
            return
        path = paths.pop()
        near = steps[:, path[0]] <= _LONGEST - len(path)
        chord = joined[list(path[1:-1])].any(axis=0) | beats[path[0]]
        for c in np.flatnonzero(beats[path[-1]] & near & ~chord & (np.arange(len(beats)) > path[0])):
            if not beats[c, path[0]]:
                paths += [(*path, int(c))] * (len(path) + 1 < _LONGEST)
            elif len(path) > 2:
                yield (*path, int(c))


def _steps(beats: Bools) -> Ints:
    """Return (K, K) the least number of edges from each agent to each; seven where it is more, or there is no way."""
    steps, reached = np.where(beats, 1, _LONGEST + 1), beats
    for length in range(2, _LONGEST + 1):
        reached = (reached.astype(np.float32) @ beats.astype(np.float32)) > 0
        steps = np.where(reached, np.minimum(steps, length), steps)
    return steps


def as_cycles(
    cycles: list[tuple[int, ...]], agents: tuple[str, ...], margin: Floats, error: Floats
) -> tuple[Cycle, ...]:
    """Name the agents of cycles, the clearest (largest smallest margin over its error) first."""

    def edges(values: Floats, cycle: tuple[int, ...]) -> tuple[float, ...]:
        return tuple(float(values[a, b]) for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True))

    named = [Cycle(tuple(agents[a] for a in c), edges(margin, c), edges(error, c)) for c in cycles]
    return tuple(sorted(named, key=lambda c: -min(m / max(e, _TINY) for m, e in zip(c.margins, c.errors, strict=True))))

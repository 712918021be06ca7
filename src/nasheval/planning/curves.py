"""How near to a goal so many votes are expected to come, and with how many it is reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from nasheval.arrays import Floats
from nasheval.planning.future import Pairs, futures
from nasheval.planning.goals import Goal, Leader, Width
from nasheval.planning.learning import Learning
from nasheval.scoring.decision import rough

_TIMES = (1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 200, 400, 1000)
_FROM_NOTHING = (2, 4, 8, 16, 30, 50, 100, 200, 400, 800, 1500, 3000, 6000, 12_000, 25_000, 50_000, 100_000)
_FUTURES, _LEAST = 400, 16
_MANY = 10_000  # pairs, with which every second number of votes is looked at
_CELLS = 1 << 22  # pairs in all futures together, unless that is too few futures
_TIES = (0.02, 0.05, 0.1, 0.2, 0.3)  # margins that may be shown where no leader is
_SIGMA = 2.0  # of everything that a band holds


@dataclass(frozen=True, eq=False)
class Curve:
    """A goal against the number of votes of a group.

    Args:
        goal: what is asked for, as it is typed.
        group: of contexts.
        is_chance: whether values are chances; else they are widths.
        target: what a value must come to: a width at most, a chance at least.
        votes: (n,) how many in all, today's included; the first is today where there is a log.
        value: (n,) expected.
        lower, upper: (n,) how far it may be from that.
        reached: whether it is reached today.
        needed: votes in all until it is reached; None: no number of `votes`.
        least, most: the same of the band; None as for `needed`.
        today: votes that there are.
        agents: of a cycle.
        beaten: of a leader, the share of futures with the most votes in which some agent certainly beats it.
        enough: of a leader that no number of votes is likely to tell apart, a margin that can be shown, as a goal, and
            the votes it takes: what is enough to call it a tie.
    """

    goal: str
    group: str
    is_chance: bool
    target: float
    votes: Floats
    value: Floats
    lower: Floats
    upper: Floats
    reached: bool
    needed: int | None
    least: int | None
    most: int | None
    today: int
    agents: tuple[str, ...] = ()
    beaten: float = 0.0
    enough: tuple[str, int] | None = None

    @property
    def more(self) -> int | None:
        """How many more votes are needed; None: no number is enough."""
        return None if self.needed is None else max(self.needed - self.today, 0)

    def at(self, votes: float) -> tuple[float, float, float]:
        """Return the expected value at a number of votes, and the band about it."""
        x = np.log(self.votes)
        value, lower, upper = (
            float(np.interp(np.log(votes), x, each)) for each in (self.value, self.lower, self.upper)
        )
        return value, lower, upper

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        named = ("goal", "group", "is_chance", "target", "reached", "needed", "least", "most", "today", "more")
        arrays = {name: getattr(self, name).tolist() for name in ("votes", "value", "lower", "upper")}
        more = {"agents": list(self.agents), "beaten": self.beaten, "enough": self.enough and list(self.enough)}
        return {name: getattr(self, name) for name in named} | arrays | more


def curves_of(
    pairs: Pairs, goals: list[Goal], learning: Learning, *, votes: int, power: float, seed: int, reached: list[bool]
) -> list[Curve]:
    """Return the curve of each goal.

    Args:
        votes: of the group today; of one vote per pair where there are none.
        power: the chance with which a goal is to be reached.
        reached: whether each goal is reached today.
    """
    times = np.asarray(_TIMES if pairs.kept else _FROM_NOTHING, float)
    times = times[:: 2 if len(pairs.votes) > _MANY else 1]
    count = int(np.clip(_CELLS // (len(times) * len(pairs.votes)), _LEAST, _FUTURES))
    paths = {"expected": _values(pairs, goals, times, count, learning.gain, seed)}
    for place, name in enumerate(("least", "most")):
        paths[name] = paths["expected"]
        if learning.band(2.0) != (0.0, 0.0):
            some = partial(_of_band, learning, place)
            paths[name] = _values(pairs, goals, times, max(count // 4, _LEAST // 2), some, seed)
    total, today = times * votes, votes if pairs.kept else 0
    curves = [
        _curve(goal, pairs, {name: path[g] for name, path in paths.items()}, total, today, power, reached[g])
        for g, goal in enumerate(goals)
    ]
    last = futures(pairs, float(times[-1]), count, seed, gain=learning.gain(float(times[-1])))
    for g, goal in enumerate(goals):
        if isinstance(goal, Leader) and curves[g].needed is None:
            wider = [Leader(margin) for margin in _TIES if margin > goal.margin]
            chances = _values(pairs, wider, times, count, learning.gain, seed).mean(axis=2)
            enough = _first(wider, np.maximum.accumulate(chances, axis=1), total, power)
            curves[g] = replace(curves[g], beaten=goal.beaten(last, pairs.today.agents), enough=enough)
    return curves


def _of_band(learning: Learning, place: int, times: float) -> float:
    return learning.band(times)[place]


def _first(goals: Sequence[Goal], chances: Floats, votes: Floats, power: float) -> tuple[str, int] | None:
    """Return the first goal that is reached, of chances (goals, n), and the votes it takes; None: none is."""
    for goal, chance in zip(goals, chances, strict=True):
        needed = _falls_below(votes, -chance, -power)
        if needed is not None:
            return goal.name, rough(needed) or 0
    return None


def _values(
    pairs: Pairs, goals: Sequence[Goal], times: Floats, count: int, gain: Callable[[float], float], seed: int
) -> Floats:
    """Return (goals, times, futures) what each future comes to; futures of the same number share their draws."""
    values = np.empty((len(goals), len(times), count))
    for t, factor in enumerate(times.tolist()):
        found = futures(pairs, factor, count, seed, gain=gain(factor))
        values[:, t] = [goal.values(found, pairs.today.agents) for goal in goals]
    return values


def _curve(
    goal: Goal, pairs: Pairs, paths: dict[str, Floats], votes: Floats, today: int, power: float, reached: bool
) -> Curve:
    value = paths["expected"].mean(axis=1)
    if isinstance(goal, Width):
        spread = _SIGMA * np.hypot(paths["expected"].std(axis=1), value * pairs.doubt)
        lower, upper = paths["most"].mean(axis=1) - spread, paths["least"].mean(axis=1) + spread
        value, lower, upper = (np.minimum.accumulate(each) for each in (value, np.minimum(lower, value), upper))
        upper, target = np.maximum(upper, value), goal.target
        crossings = [_falls_below(votes, each, target) for each in (value, lower, upper)]
    else:
        spread = _SIGMA * np.sqrt(np.maximum(value * (1 - value), 0.01) / paths["expected"].shape[1])
        ends = [paths[name].mean(axis=1) for name in ("least", "most")]
        lower, upper = np.minimum(*ends), np.maximum(*ends)
        lower, upper = np.minimum(lower, value - spread), np.maximum(upper, value + spread)
        value, lower, upper = (np.clip(np.maximum.accumulate(each), 0, 1) for each in (value, lower, upper))
        target = power
        crossings = [_falls_below(votes, -each, -target) for each in (value, upper, lower)]
    needed, least, most = (
        today if reached else None if each is None else rough(max(each, today)) for each in crossings
    )
    agents = getattr(goal, "agents", ())
    return Curve(
        goal.name, pairs.today.name, goal.is_chance, target, votes, value, lower, upper, reached, needed, least, most,
        today, tuple(agents),
    )  # fmt: skip


def _falls_below(votes: Floats, value: Floats, target: float) -> float | None:
    """Return where a falling curve meets its target, None where it stays above; straight lines in log votes."""
    below = np.flatnonzero(value <= target)
    if not len(below):
        return None
    i = int(below[0])
    if i == 0:
        return float(votes[0])
    a, b = value[i - 1], value[i]
    share = (a - target) / (a - b) if a > b else 1.0
    if a > 0 and b > 0:  # widths fall as a power of votes
        share = np.log(a / target) / np.log(a / b)
    return float(np.exp(np.log(votes[i - 1]) + share * np.log(votes[i] / votes[i - 1])))

"""Judges: how far they agree with each other and with the crowd, and what they lean to.

A judge is a voter with 30 votes or more; the dozen with most votes are looked at. Leans are deviations from what the
model expects of the same menus at the same contexts, so that a judge who was shown other agents than the rest is not
blamed for it. All intervals of leans hold together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import t

from nasheval.arrays import Bools, Floats, Ints, bin_sums, n_pairs, pair_index
from nasheval.audit.crowd import Crowd, crowd_of
from nasheval.audit.section import Bars, Listing
from nasheval.audit.units import content_of, joined
from nasheval.audit.words import counted
from nasheval.feedback.position import ONE_ORDER, position_bias
from nasheval.feedback.style import POSITION, differences
from nasheval.notes import few
from nasheval.payoff.grouped import FEW
from nasheval.payoff.intervals import checked_level
from nasheval.payoff.stage1 import Stage1

_LEAST = 30  # votes of a judge
_MOST = 12  # judges looked at
_COMMON = 10  # questions in common that tell how far two judges agree
CROWD, TIES = "agreement with the model", "ties"


@dataclass(frozen=True, eq=False)
class Lean:
    """One property of J judges, with what it is where nothing is special.

    Args:
        name: "agreement with the model", "position", a column of style, or "ties".
        about: what one unit of it is, in words.
        fair: the value of a judge like the crowd.
        value, error: (J,) NaN where nothing can be said.
        freedom: (J,) degrees of freedom of each error.
    """

    name: str
    about: str
    fair: float
    value: Floats
    error: Floats
    freedom: Floats

    def half(self, chance: float) -> Floats:
        """Return (J,) half the width of intervals that miss with so much of a chance each."""
        return t.isf(chance / 2, np.maximum(self.freedom, 1)) * self.error


@dataclass(frozen=True)
class Pair:
    """How far two judges agree where both were asked the same.

    Args:
        judges: their names.
        asked, agreed: questions in common, and how many got the same answer.
        kappa: Cohen's kappa: 1 full agreement, 0 as much as their shares of answers give.
        lower, upper: its interval, all pairs together.
        expected: share of questions on which the model expects the same answer.
    """

    judges: tuple[str, str]
    asked: int
    agreed: int
    kappa: float
    lower: float
    upper: float
    expected: float


@dataclass(frozen=True, eq=False)
class Judges:
    """J judges, most votes first.

    Args:
        judges: their names.
        votes: (J,) records of each.
        leans: what was measured of each.
        pairs: pairs of judges with questions in common, the least agreement first.
        alpha: Krippendorff's alpha of all judges (nominal), with its interval; None where nothing tells it.
        confidence: of all intervals of leans together, and of all of pairs together.
        notes: what to know before trusting it.
    """

    judges: tuple[str, ...]
    votes: Ints
    leans: tuple[Lean, ...]
    pairs: tuple[Pair, ...]
    alpha: tuple[float, float, float] | None
    confidence: float
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """A few words."""
        return "Judges"

    @property
    def chance(self) -> float:
        """The chance with which each single interval of a lean may miss."""
        told = sum(int(np.isfinite(lean.value).sum()) for lean in self.leans)
        return (1 - self.confidence) / max(1, told)

    def interval(self, lean: Lean) -> tuple[Floats, Floats]:
        """Return (J,) lower and upper ends of a lean, all leans of all judges together."""
        half = lean.half(self.chance)
        return lean.value - half, lean.value + half

    def clear(self, lean: Lean) -> Bools:
        """Return (J,) whether each judge is surely not like the crowd."""
        low, high = self.interval(lean)
        return np.asarray((low > lean.fair) | (high < lean.fair))

    def lines(self) -> list[str]:
        """Return what was found, in sentences, the most important first."""
        return [*self._agreement(), *(line for lean in self.leans for line in self._lean(lean)), *self.notes]

    def _agreement(self) -> Iterator[str]:
        if self.alpha is not None:
            value, low, high = self.alpha
            yield (
                f"Asked the same, {counted(len(self.judges), 'judge')} agree with Krippendorff's alpha "
                f"{value:.2f} [{low:.2f}, {high:.2f}]; 1 is full agreement, 0 none beyond chance."
            )
        if len(self.pairs) > 1 and self.pairs[0].kappa < self.pairs[-1].kappa:
            least, most = self.pairs[0], self.pairs[-1]
            yield (
                f"{' and '.join(least.judges)} agree least (kappa {least.kappa:.2f}), "
                f"{' and '.join(most.judges)} most ({most.kappa:.2f})."
            )

    def _lean(self, lean: Lean) -> Iterator[str]:
        clear = self.clear(lean)
        for side, word in ((1, "more"), (-1, "less")):
            rows = np.flatnonzero(clear & (np.sign(lean.value - lean.fair) == side))
            if len(rows):
                who = few([f"{self.judges[row]} ({lean.value[row]:+.2f})" for row in rows], 5)
                said = _WORDS.get(lean.name, {}).get(side, f"Lean to {word} {lean.name}")
                yield f"{said}: {who}."

    def listings(self) -> list[Listing]:
        """Return each judge's figures with their intervals, and pairs of judges."""
        if not self.judges:
            return []
        rows = []
        for row, name in enumerate(self.judges):
            cells = []
            for lean in self.leans:
                (low, high), value = self.interval(lean), lean.value[row]
                mark = "*" if self.clear(lean)[row] else ""
                cells.append("" if np.isnan(value) else f"{value:+.2f}{mark} [{low[row]:+.2f}, {high[row]:+.2f}]")
            rows.append((name, f"{self.votes[row]:,}", *cells))
        about = (f"{lean.name}: {lean.about}" for lean in self.leans)
        title = (
            f"Judges (* surely not like the others; intervals of {self.confidence:.0%} together). {'; '.join(about)}"
        )
        tables = [Listing(title, ("judge",), ("votes", *(lean.name for lean in self.leans)), tuple(rows))]
        pairs = tuple(
            (
                *pair.judges,
                f"{pair.asked:,}",
                f"{pair.agreed / pair.asked:.0%}",
                f"{pair.expected:.0%}",
                f"{pair.kappa:+.2f} [{pair.lower:+.2f}, {pair.upper:+.2f}]",
            )
            for pair in self.pairs[:20]
        )
        if pairs:
            numbers = ("asked both", "agree", "model expects", "kappa")
            tables.append(Listing("Pairs of judges, asked the same", ("judge", "and"), numbers, pairs))
        return tables

    def charts(self) -> list[Bars]:
        """Return each property of the judges with its intervals."""
        charts = []
        for lean in self.leans:
            rows = np.flatnonzero(np.isfinite(lean.value))
            if len(rows):
                low, high = self.interval(lean)
                value, lower, upper = (tuple(column[rows].tolist()) for column in (lean.value, low, high))
                marked = tuple(bool(one) for one in self.clear(lean)[rows])
                names = tuple(self.judges[r] for r in rows)
                charts.append(Bars(f"{lean.name}: {lean.about}", names, value, lower, upper, marked))
        return charts

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        leans = {}
        for lean in self.leans:
            low, high = self.interval(lean)
            leans[lean.name] = {"value": _plain(lean.value), "lower": _plain(low), "upper": _plain(high)}
        return {
            "judges": list(self.judges),
            "votes": self.votes.tolist(),
            "leans": leans,
            "pairs": [{**asdict(pair), "judges": list(pair.judges)} for pair in self.pairs],
            "alpha": None if self.alpha is None else list(self.alpha),
            "confidence": self.confidence,
            "notes": list(self.notes),
        }


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


_WORDS = {
    CROWD: {1: "Agree with the model's expectations more than others do", -1: "Agree with them less"},
    POSITION: {1: "Lean to the answer shown first", -1: "Lean to the answer shown last"},
    TIES: {1: "Call more ties", -1: "Call fewer ties"},
}


def judges(stage1: Stage1, *, confidence: float = 0.95, seed: int = 0) -> Judges:
    """Return how far judges agree, and what they lean to.

    Args:
        confidence: of the intervals of all leans together, and of all pairs together.
        seed: which pairs of ballots on more than two agents are looked at, and of the bootstrap.
    """
    level, crowd = checked_level(confidence), crowd_of(stage1, seed=seed)
    order = np.argsort(-crowd.votes, kind="stable")
    chosen = order[crowd.votes[order] >= _LEAST][:_MOST]
    number = np.full(crowd.n_voters + 1, -1)
    number[chosen] = np.arange(len(chosen))
    whole = crowd
    crowd = crowd.at(number[crowd.voter] >= 0) if len(chosen) else crowd.at(np.zeros(len(crowd), bool))
    judge, J, names = number[crowd.voter], len(chosen), tuple(crowd.names(chosen))
    leans = tuple(_leans(crowd, whole, judge, J)) if J else ()
    pairs, alpha = _agreement(crowd, judge, names, 1 - level, seed) if J > 1 else ((), None)
    return Judges(names, crowd.votes[chosen], leans, pairs, alpha, level, tuple(_notes(whole, J, pairs)))


def _leans(crowd: Crowd, whole: Crowd, judge: Ints, J: int) -> Iterator[Lean]:
    decided = crowd.decided
    p, x, y = crowd.chance, crowd.logit, (crowd.z > 0).astype(float)
    agree = _slope(judge, crowd.context, x, y - p, p * (1 - p) * x, decided, J)
    yield Lean(CROWD, "1 as the model expects of anybody, 0 none", 1.0, 1 + agree[0], *agree[1:])
    rest = crowd.z - (1 - crowd.tie) * (2 * p - 1)
    every = np.ones(len(crowd), bool)
    log = crowd.log
    if position_bias(log.records, log.n_agents) is not None:
        d = _of_rows(crowd, differences(log, [POSITION])[:, 0])
        about = "what being shown first adds to the verdict"
        yield Lean(POSITION, about, 0.0, *_slope(judge, crowd.context, d, rest, d, every, J))
    for name in log.style:
        d = _within_pairs(crowd, _of_rows(crowd, differences(log, [name])[:, 0]), judge, J)
        known = np.isfinite(d)
        d = np.where(known, d, 0.0)
        value = _slope(judge, crowd.context, d, rest, d, known, J)
        yield Lean(name, f"what twice the {name} adds, or one more", 0.0, *value)
    tied = (crowd.z == 0).astype(float)
    if (whole.z == 0).any():
        one = np.ones(len(crowd))
        value = _slope(judge, crowd.context, one, tied - crowd.tie, one, every, J)
        yield Lean(TIES, "share of ties beyond that of all voters on such questions", 0.0, *value)


def _of_rows(crowd: Crowd, values: Floats) -> Floats:
    """Return the values, one per verdict of the log, at the verdicts of the crowd."""
    verdicts = crowd.log.verdicts
    K = crowd.log.n_agents
    key = verdicts.record.astype(np.int64) * n_pairs(K) + pair_index(verdicts.j, verdicts.k, K)
    mine = crowd.record.astype(np.int64) * n_pairs(K) + pair_index(crowd.j, crowd.k, K)
    order = np.argsort(key, kind="stable")
    return values[order[np.searchsorted(key, mine, sorter=order)]]


def _within_pairs(crowd: Crowd, d: Floats, judge: Ints, J: int) -> Floats:
    """Return differences in style less their mean over the same pair and judge, which the model tells nothing of."""
    K = crowd.log.n_agents
    cell, known = pair_index(crowd.j, crowd.k, K) * J + judge, np.isfinite(d)
    size = n_pairs(K) * J
    count = np.bincount(cell[known], minlength=size)
    mean = bin_sums(cell[known], d[known], size) / np.maximum(count, 1)
    return np.where(count[cell] > 1, d - mean[cell], np.nan)


def _slope(
    judge: Ints, context: Ints, x: Floats, rest: Floats, moved: Floats, rows: Bools, J: int
) -> tuple[Floats, Floats, Floats]:
    """Return (J,) slopes of the rest on x, where one unit of the slope moves the rest by `moved`; errors; freedom.

    A sandwich with contexts as clusters; a judge's contexts are taken as fixed where they are fewer than 20, and votes
    are the clusters. The degrees of freedom are Satterthwaite's.
    """
    x, rest, moved = x[rows], rest[rows], moved[rows]
    judge, context = judge[rows], context[rows]
    curvature = bin_sums(judge, x * moved, J)
    told = curvature > 1e-9
    slope = np.divide(bin_sums(judge, x * rest, J), curvature, out=np.full(J, np.nan), where=told)
    left = x * (rest - np.where(told, slope, 0.0)[judge] * moved)
    cell = joined(context.astype(np.int64), judge.astype(np.int64)) if len(judge) else np.zeros(0, np.int64)
    met = np.bincount(judge[np.unique(cell, return_index=True)[1]], minlength=J)  # contexts of each judge
    cell = np.where((met < FEW)[judge], int(cell.max(initial=0)) + 1 + np.arange(len(cell)), cell)
    _, first, cell = np.unique(cell, return_index=True, return_inverse=True)
    owner, sums = judge[first], bin_sums(cell, left, len(first))
    second, fourth, clusters = (bin_sums(owner, sums**power, J) for power in (2, 4, 0))
    scale = np.divide(clusters, clusters - 1, out=np.ones(J), where=clusters > 1)
    freedom = np.divide(second**2, fourth, out=np.zeros(J), where=fourth > 0)
    enough = told & (clusters >= _COMMON) & (second > 0)
    error = np.sqrt(scale * second) / np.where(told, curvature, 1.0)
    return np.where(enough, slope, np.nan), np.where(enough, error, np.nan), np.maximum(freedom - 1, 1.0)


def _agreement(
    crowd: Crowd, judge: Ints, names: tuple[str, ...], error: float, seed: int
) -> tuple[tuple[Pair, ...], tuple[float, float, float] | None]:
    """Return pairs of judges, and Krippendorff's alpha; a judge's first answer to each question counts."""
    J, content = len(names), content_of(crowd.log)[crowd.context]
    unit = joined(content, pair_index(crowd.j, crowd.k, crowd.log.n_agents))
    answer = np.full((int(unit.max(initial=-1)) + 1, J), -1)
    answer[unit[::-1], judge[::-1]] = (crowd.z + 1)[::-1]
    both = (1 - crowd.tie) * crowd.chance, (1 - crowd.tie) * (1 - crowd.chance), crowd.tie
    alike = np.zeros(len(answer))
    alike[unit] = sum(each**2 for each in both)
    met = [(a, b) for a, b in combinations(range(J), 2) if _both(answer, a, b).sum() >= _COMMON]
    pairs = []
    for a, b in met:
        rows = _both(answer, a, b)
        pairs.append(_pair(answer[rows][:, [a, b]], alike[rows], (names[a], names[b]), error / len(met)))
    return tuple(sorted(pairs, key=lambda pair: pair.kappa)), _alpha(answer, error, seed)


def _both(answer: Ints, a: int, b: int) -> Bools:
    return np.asarray((answer[:, a] >= 0) & (answer[:, b] >= 0))


def _pair(answer: Ints, alike: Floats, names: tuple[str, str], chance: float) -> Pair:
    """Return Cohen's kappa of (n, 2) answers, with the interval of its influence function."""
    n, same = len(answer), (answer[:, 0] == answer[:, 1]).astype(float)
    shares = np.stack([np.bincount(side, minlength=3) / n for side in answer.T])
    observed, by_chance = same.mean(), float(shares[0] @ shares[1])
    if by_chance > 1 - 1e-9:  # both always give one and the same answer, which tells nothing of how they choose
        return Pair(names, n, n, 1.0, -1.0, 1.0, float(alike.mean()))
    kappa = (observed - by_chance) / max(1 - by_chance, 1e-9)
    moved = same - observed - (1 - kappa) * (shares[1][answer[:, 0]] + shares[0][answer[:, 1]] - 2 * by_chance)
    error = max(float(np.sqrt((moved**2).sum())) / n / max(1 - by_chance, 1e-9), 2 * np.sqrt(2) / (n + 4))
    half = float(t.isf(chance / 2, n - 1)) * error
    low, high = max(kappa - half, -1.0), min(kappa + half, 1.0)
    return Pair(names, n, int(same.sum()), float(kappa), float(low), float(high), float(alike.mean()))


def _alpha(answer: Ints, error: float, seed: int, draws: int = 1000) -> tuple[float, float, float] | None:
    """Return Krippendorff's alpha (nominal) of (units, judges) answers, -1 for none, and its bootstrap interval."""
    count = np.stack([(answer == value).sum(axis=1) for value in range(3)], axis=1).astype(float)
    m = count.sum(axis=1)
    count, m = count[m > 1], m[m > 1]
    if len(m) < _COMMON or (count.sum(axis=0) > 0).sum() < 2:  # where all say the same, nothing tells agreement
        return None
    disagreed = (m**2 - (count**2).sum(axis=1)) / (m - 1)  # ordered pairs of answers that differ, per unit
    rng, columns = np.random.default_rng(seed), np.column_stack([m, disagreed, count])
    drawn = [rng.multinomial(len(m), np.full(len(m), 1 / len(m))) @ columns for _ in range(draws)]
    total, differ, *values = np.vstack([columns.sum(axis=0), *drawn]).T
    expected = (total**2 - sum(value**2 for value in values)) / np.maximum(total - 1, 1)
    alpha = 1 - np.divide(differ, expected, out=np.zeros(len(total)), where=expected > 0)
    low, high = np.quantile(alpha[1:], [error / 2, 1 - error / 2])
    return float(alpha[0]), float(min(low, alpha[0])), float(max(high, alpha[0]))


def _notes(crowd: Crowd, J: int, pairs: tuple[Pair, ...]) -> Iterator[str]:
    log = crowd.log
    if not crowd.n_voters:
        yield "The log names no voters, so judges cannot be told apart; name the column (voter=, --voter)."
        return
    if not J:
        yield f"No voter has {_LEAST} votes, which is the least that is looked at as a judge."
        return
    if not pairs:
        yield f"No two judges were asked {_COMMON} of the same questions, so their agreement cannot be counted."
    if log.records.shown is None:
        yield "The log does not say which agent was shown first, so leans to position cannot be told."
    elif position_bias(log.records, log.n_agents) is None:
        yield f"{ONE_ORDER[0].upper()}{ONE_ORDER[1:]}."
    if not log.style:
        yield "The log has no style of answers (style=, --style), so leans to length cannot be told."
    if (crowd.votes >= _LEAST).sum() > J:
        many = int((crowd.votes >= _LEAST).sum())
        yield f"The {_MOST} judges with most votes are shown, of {many:,} with {_LEAST} votes or more."
    if not crowd.by_voter:
        yield "The model has learned from other votes of each judge: with few judges, each looks more like the others."

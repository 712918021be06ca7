"""Do propensities fit: how often menus and agents were asked in groups of contexts, against what was expected.

The cells of a group are menus, those with small expectations as one cell, or agents. With D_a what was asked of cell a
less its out-of-fold expectation, and V_a its variance where propensities are right, the statistics are the sum of
D_a^2 / V_a and the largest |D_a| / sqrt(V_a); docs/method.md says what they are compared with, and what V allows for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammainc, gammaincc
from scipy.stats import gamma

from nasheval.arrays import Floats, Ints, n_pairs, pair_index, runs
from nasheval.feedback.groups import Groups, grouping_columns, groups_by
from nasheval.feedback.log import Feedback
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.nuisance.learners import menu_members

LEVEL = 0.05  # chance of a warning where propensities are right
_MOST_CELLS = 1 << 24  # contexts x menus that are looked at; more contexts than that are thinned out evenly
_CHUNK_CELLS = 1 << 21
_LEAST = 10.0  # expected in a cell; menus with less are one cell
_NEVER = 10.0  # expected of a pair that was never asked in a group, to be named


@dataclass(frozen=True)
class PropensityCheck:
    """The group of contexts where propensities fit worst.

    Args:
        p_value: that any group differs so much where propensities are right, all groups together.
        n_tests: how many groups and levels were looked at.
        column, group: the context column of the worst group and its value there.
        what: the agents of the menu, or the agent, that is furthest off there.
        observed, expected: how often it was asked there, by weight.
        rival: a model that foretells which menus are asked better, and by how much, where that is the clearest sign.
    """

    p_value: float
    n_tests: int
    column: str
    group: str
    what: tuple[str, ...]
    observed: float
    expected: float
    rival: str = ""

    @property
    def is_off(self) -> bool:
        """Whether the propensities do not fit, at a level of 5%."""
        return self.p_value < LEVEL

    def __str__(self) -> str:
        verdict = "do not fit" if self.is_off else "fit worst"
        small = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"
        asked = "took part" if len(self.what) == 1 else "were compared"
        if self.rival:
            return f"Propensities {verdict} ({small}): {self.rival}"
        return (
            f"Propensities {verdict} where {self.column} is {self.group} ({small}): {_joined(self.what)} {asked} "
            f"{self.observed:,.0f} times, {self.expected:,.0f} expected"
        )


class NeverAsked(NamedTuple):
    """A pair whose menu of two was never asked in a group of contexts.

    Args:
        column, group: the context column and its value in the group.
        first, second: the pair.
        expected: how often the overall share of its menus would have it asked there.
    """

    column: str
    group: str
    first: str
    second: str
    expected: float


def groupings(log: Feedback) -> Iterator[Groups]:
    """Yield the groups of each column of `grouping_columns`; contexts without a record are in none under draws.

    A column with one group only says nothing.
    """
    used = np.diff(log.context_offsets) > 0 if log.design == "draws" else np.ones(log.n_contexts, bool)
    for column in grouping_columns(log):
        groups = groups_by(log, column, used)
        if len(groups) > 1:
            yield replace(groups, code=np.where(used, groups.code, -1))


# -- never asked ------------------------------------------------------------------------------------------------------


def never_asked(log: Feedback) -> tuple[NeverAsked, ...]:
    """Return the pairs never asked in a group where ten or more were expected, the most expected first in a group.

    Where many pairs and groups are looked at, more is asked of the expectation: with E expected, none has the chance
    exp(-E), which must be below 5% for all of them together.
    """
    two = log.menus.sizes == 2
    j, k = (log.menus.agent[log.menus.offsets[:-1][two] + side] for side in (0, 1))
    pair = np.full(len(log.menus), -1, np.int64)
    pair[two] = pair_index(j.astype(np.int64), k.astype(np.int64), log.n_agents)
    rows = np.flatnonzero(pair[log.menus.of_record] >= 0)
    if not len(rows):
        return ()
    of_row, weight, context = pair[log.menus.of_record[rows]], log.records.weights[rows], log.context_of[rows]
    (first, second), size, pairs = np.triu_indices(log.n_agents, 1), n_pairs(log.n_agents), []
    for groups in groupings(log):
        column, group, names = groups.column, groups.code, groups.names
        kept = group[context] >= 0
        count = np.bincount(group[context[kept]] * size + of_row[kept], weight[kept], len(names) * size)
        count = count.reshape(len(names), size)
        trials = np.bincount(group[log.context_of][group[log.context_of] >= 0], minlength=len(names)).astype(float)
        expected = np.outer(trials / trials.sum(), count.sum(axis=0))
        least = max(_NEVER, np.log(max(1.0, float((expected >= _NEVER).sum())) / LEVEL))
        for g, name in enumerate(names):
            none = np.flatnonzero((count[g] == 0) & (expected[g] >= least))
            order = none[np.argsort(-expected[g, none], kind="stable")]
            pairs += [
                NeverAsked(column, name, log.agents[first[p]], log.agents[second[p]], float(expected[g, p]))
                for p in order
            ]
    return tuple(pairs)


# -- the check --------------------------------------------------------------------------------------------------------


def check_propensities(fit: NuisanceFit) -> PropensityCheck | None:
    """Compare how often menus and agents were asked with out-of-fold propensities; None where no column can tell."""
    cells: _Cells | None = None
    tests: list[PropensityCheck] = []
    if not fit.log.n_records:
        return None
    for groups in groupings(fit.log):
        cells = cells or _Cells(fit)
        for g, name in enumerate(groups.names):
            rows = np.flatnonzero(groups.code[cells.context] == g)
            tests += _Group(cells, rows, groups.column, name).tests()
    if not tests:
        return None
    worst = min(tests, key=lambda one: one.p_value)
    p_value, rival = _against_rival(fit, min(1.0, worst.p_value * len(tests)))
    return replace(worst, p_value=p_value, n_tests=len(tests) + bool(rival), rival=rival)


def _against_rival(fit: NuisanceFit, by_group: float) -> tuple[float, str]:
    """Return the p-value of groups and of the best other model together, and what that model is if it is the clearer.

    Where menus are many, groups are too thin to show what a model of the context learns from all of them. Out of fold
    a model that learned noise loses, so that a gain is evidence.
    """
    from scipy.stats import norm

    from nasheval.nuisance.choice import best_rival

    rival = best_rival(fit)
    if rival is None:
        return by_group, ""
    name, gain, error = rival
    p_value = float(norm.sf(gain / error)) if error > 0 else 1.0
    better = f"{name} foretell which menus are asked better, log loss {gain:.4f} ± {error:.4f} lower out of fold"
    return min(1.0, 2 * min(p_value, by_group)), better if p_value < by_group else ""


class _Cells:
    """What was asked and what was expected at n contexts.

    `asked` is (n, M) float32 weight of records of each menu, under inclusion 1 where it was included, and `expected`
    its expectation; `scale` is (n,) sum of squared weights over sum of weights: what an expectation is multiplied by to
    be a variance; `squares` are (n, M) sums of squared weights, None where that is the same as asked squared; one of
    `thin` contexts is looked at.
    """

    def __init__(self, fit: NuisanceFit) -> None:
        log, n_menus = fit.log, len(fit.log.menus)
        self.log, self.known, self.members = log, fit.is_known, menu_members(log)
        used = np.diff(log.context_offsets) > 0 if log.design == "draws" else np.ones(log.n_contexts, bool)
        context = np.flatnonzero(used)
        self.thin = max(1, -(-len(context) * n_menus // _MOST_CELLS))
        self.context = context = context[:: self.thin]
        self.unit = log.units[context]
        row, menu, weight = records_at(log, context)
        shape = (len(context), n_menus)

        def by_menu(values: Floats) -> Floats:
            return np.bincount(row * n_menus + menu, values, shape[0] * shape[1]).reshape(shape).astype(np.float32)

        self.asked, self.expected = by_menu(weight), np.empty(shape, np.float32)
        self.scale, self.squares = np.ones(len(context)), None
        for rows, e in fit.out_of_fold(fit.propensity_models, n_menus, context, _CHUNK_CELLS):
            self.expected[rows] = e
        if log.design == "inclusion":
            self.asked = np.minimum(self.asked, 1.0)
            return
        total, second = (np.bincount(row, each, len(context)) for each in (weight, weight**2))
        self.squares = by_menu(weight**2) if len(row) > len(context) else None
        self.expected *= total[:, None].astype(np.float32)
        self.scale = second / total

    @cached_property
    def total(self) -> float:
        """How much was expected in all, also at the contexts that are not looked at."""
        return self.thin * float(self.expected.sum(dtype=np.float64))

    @cached_property
    def alone(self) -> bool:
        """Whether every unit has one record, which then varies as a draw does."""
        return self.squares is None and len(np.unique(self.unit)) == len(self.unit)


def records_at(log: Feedback, context: Ints) -> tuple[Ints, Ints, Floats]:
    """Return row, menu and weight of the records at some contexts."""
    sizes = np.diff(log.context_offsets)[context].astype(np.int64)
    records = runs(log.context_offsets[context].astype(np.int64), sizes)
    row = np.repeat(np.arange(len(context)), sizes)
    return row, log.menus.of_record[records].astype(np.int64), log.records.weights[records]


class _Group:
    """What was asked and expected at the contexts `rows` of a group, all menus together: `observed` and `mean`, (M,).

    `variance` is (M,), of what is asked of each menu; under draws the covariance is less by the outer product over its
    sum. `least` is the variance from which a menu is a cell of its own, `learned` what is left of a variance because
    the propensities have learned from the group; 1 for known ones.
    """

    def __init__(self, cells: _Cells, rows: Ints, column: str, name: str) -> None:
        self.cells, self.rows, self.column, self.name = cells, rows, column, name
        asked, expected = cells.asked[rows], cells.expected[rows]
        if cells.log.design == "inclusion":
            self.variance = (expected * (1 - expected)).sum(axis=0, dtype=np.float64)
        else:
            self.variance = cells.scale[rows] @ expected
        self.observed, self.mean = (each.sum(axis=0, dtype=np.float64) for each in (asked, expected))
        usual = float(cells.scale[rows].mean()) if len(rows) else 1.0
        self.least = _LEAST * usual**2  # ten records of usual weight
        self.learned = 1.0 if cells.known else max(0.1, 1 - float(self.mean.sum()) / max(cells.total, 1e-300))

    def tests(self) -> Iterator[PropensityCheck]:
        """Yield the tests by menu and by agent, where enough is expected."""
        alone = self.variance >= self.least
        number = np.where(alone, np.cumsum(alone) - 1, alone.sum())
        menu = np.arange(len(number))
        by_menu = csr_array((np.ones(len(menu)), (menu, number)), shape=(len(menu), int(alone.sum()) + 1))
        menus = [tuple(np.flatnonzero(self.cells.members[m]).tolist()) for m in np.flatnonzero(alone)]
        agents: list[tuple[int, ...]] = [(agent,) for agent in range(self.cells.log.n_agents)]
        for level, names in ((by_menu, menus), (csr_array(self.cells.members.astype(np.float64)), agents)):
            test = self._test(level, names)
            if test is not None:
                yield test

    def _test(self, level: Any, names: list[tuple[int, ...]]) -> PropensityCheck | None:
        """Return one test; level is (M, L) sparse, which menus make up a cell, names the agents of its first cells."""
        spread = level.T @ self.variance
        kept = np.flatnonzero(spread >= self.least)
        if len(kept) < 2:
            return None
        level, inverse = level[:, kept], 1 / spread[kept]
        off = level.T @ (self.observed - self.mean)
        factor = self.learned * (1.0 if self.cells.alone else self._overdispersion(level, inverse))
        mean, variance = self._moments(level, inverse)
        q = float(off**2 @ inverse) / factor
        by_q = float(gamma.sf(q, mean**2 / variance, scale=variance / mean)) if mean > 0 else 1.0
        observed, expected = (level.T @ each for each in (self.observed, self.mean))
        by_cell = _cell_p_values(observed, expected, factor * spread[kept] / np.maximum(expected, 1e-300))
        p_value = 2 * min(by_q, 1 - (1 - float(by_cell.min())) ** len(by_cell))
        by_cell[kept >= len(names)] = 2.0
        worst = int(by_cell.argmin())
        what = tuple(self.cells.log.agents[agent] for agent in names[min(int(kept[worst]), len(names) - 1)])
        asked = (float(observed[worst]), float(expected[worst]))
        return PropensityCheck(p_value, 1, self.column, self.name, what, *asked)

    def _moments(self, level: Any, inverse: Floats) -> tuple[float, float]:
        """Return mean and variance of Q; for counts the latter has sum of 1 / V_a, in records, beside 2 tr((WS)^2)."""
        own = (level * self.variance[:, None]).T @ level  # V without the covariance that a fixed total brings
        scaled = own * inverse
        mean, square = float(scaled.diagonal().sum()), float((scaled * scaled.T).sum())
        if self.cells.log.design == "draws":
            share, total = level.T @ self.variance, max(float(self.variance.sum()), 1e-300)
            loss = float(share**2 @ inverse) / total
            cross = float((share * inverse) @ (own @ (share * inverse))) / total
            mean, square = mean - loss, square - 2 * cross + loss**2
        return mean, 2 * square + float(inverse.sum()) * self.least / _LEAST

    def _overdispersion(self, level: Any, inverse: Floats) -> float:
        """Return how many times more sums over units vary than the sum of their records by themselves, at least 1.

        sum over units u of |D_u|^2 / the same over records, |D|^2 = sum over cells of D_a^2 / V_a.
        """
        asked, expected = self.cells.asked[self.rows], self.cells.expected[self.rows]
        unit = self.cells.unit[self.rows]
        order = np.argsort(unit, kind="stable")
        starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
        together = float((np.add.reduceat(((asked - expected) @ level)[order], starts, axis=0) ** 2 @ inverse).sum())
        if self.cells.log.design == "inclusion":
            alone = float((((asked - expected) ** 2 @ level) @ inverse).sum())
        else:  # sum over records of w^2 |A (1{menu} - e)|^2
            squares = asked**2 if self.cells.squares is None else self.cells.squares[self.rows]
            e = (expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-30)) @ level
            drawn = squares @ level
            single = (drawn @ inverse).sum() - 2 * ((drawn * e) @ inverse).sum()
            alone = float(single + squares.sum(axis=1, dtype=np.float64) @ (e**2 @ inverse))
        return max(1.0, together / max(alone, 1e-300))


def _cell_p_values(observed: Floats, expected: Floats, scale: Floats) -> Floats:
    """Return (L,) two-sided p-values of counts that vary `scale` times as much as Poisson ones."""
    o, e = observed / scale, expected / scale
    above = np.where(o > 0, gammainc(np.maximum(o, 1e-300), e), 1.0)
    return np.minimum(2 * np.minimum(above, gammaincc(o + 1, e)), 1.0)


def _joined(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

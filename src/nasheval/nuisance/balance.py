"""Do propensities fit: how often menus and agents were asked in groups of contexts, against what was expected.

With o_c and e_c what was asked at context c and its out-of-fold expectation, (M,) each, and A the cells that are
compared (menus, those with small expectations as one cell; or agents), the statistics of a group g are

    Q = sum over cells a of D_a^2 / V_a  and  the largest |D_a| / sqrt(V_a),   D = sum over c in g of A (o_c - e_c),

with V_a the variance of D_a where the propensities are right: large where the group was asked differently. Q is
compared with a gamma distribution of its mean and variance, tr(WS) and 2 tr((WS)^2) with S the covariance of D and
W = diag(1 / V); the largest cell with Poisson counts. Two things change V from what single draws would have:

* estimated propensities have learned from the group as well: with shares V is smaller by the factor 1 - (share of the
  group), with models that know the group's column by more;
* where a unit (`units`: a context, or a voter with several) has several records, V is scaled by how much more the sums
  over units vary than their records would by themselves.

The smaller of the two p-values is doubled, and multiplied by the number of groups and levels that were looked at.
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
    size, found = n_pairs(log.n_agents), []
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
            found += [_never(log, column, name, int(p), float(expected[g, p])) for p in order]
    return tuple(found)


def _never(log: Feedback, column: str, group: str, pair: int, expected: float) -> NeverAsked:
    j, k = (int(side[pair]) for side in np.triu_indices(log.n_agents, 1))
    return NeverAsked(column, group, log.agents[j], log.agents[k], expected)


# -- the check --------------------------------------------------------------------------------------------------------


def check_propensities(fit: NuisanceFit) -> PropensityCheck | None:
    """Compare how often menus and agents were asked with out-of-fold propensities; None where no column can tell."""
    cells: _Cells | None = None
    tests: list[_Test] = []
    if not fit.log.n_records:
        return None
    for groups in groupings(fit.log):
        cells = cells or _Cells.of(fit)
        for g, name in enumerate(groups.names):
            rows = np.flatnonzero(groups.code[cells.context] == g)
            tests += _Group.of(cells, rows, groups.column, name).tests()
    if not tests:
        return None
    worst = min(tests, key=lambda one: one.p_value)
    by_group = min(1.0, worst.p_value * len(tests))
    p_value, rival = _against_rival(fit, by_group)
    what = tuple(fit.log.agents[a] for a in worst.what)
    asked = (what, worst.observed, worst.expected)
    return PropensityCheck(p_value, len(tests) + bool(rival), worst.column, worst.group, *asked, rival)


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


@dataclass(frozen=True)
class _Test:
    """One group at one level."""

    p_value: float
    column: str
    group: str
    what: tuple[int, ...]
    observed: float
    expected: float


@dataclass(frozen=True)
class _Cells:
    """What was asked and what was expected at some contexts; n of them.

    Args:
        log: the log.
        context: (n,) the contexts.
        unit: (n,) the unit of each.
        asked: (n, M) float32 weight of records of each menu; under inclusion 1 where it was included.
        expected: (n, M) float32, its expectation.
        scale: (n,) sum of squared weights over sum of weights: what an expectation is multiplied by to be a variance.
        squares: (n, M) float32, sums of squared weights; None where that is the same as asked squared.
        members: (M, K) one where an agent is in a menu.
        known: whether propensities are known.
        thin: one of so many contexts is looked at.
    """

    log: Feedback
    context: Ints
    unit: Ints
    asked: Floats
    expected: Floats
    scale: Floats
    squares: Floats | None
    members: Floats
    known: bool
    thin: int

    @staticmethod
    def of(fit: NuisanceFit) -> _Cells:
        log, n_menus = fit.log, len(fit.log.menus)
        used = np.diff(log.context_offsets) > 0 if log.design == "draws" else np.ones(log.n_contexts, bool)
        context = np.flatnonzero(used)
        thin = max(1, -(-len(context) * n_menus // _MOST_CELLS))
        context = context[::thin]
        row, menu, weight = _records(log, context)
        shape = (len(context), n_menus)
        cell = row * n_menus + menu
        asked = np.bincount(cell, weight, shape[0] * shape[1]).reshape(shape).astype(np.float32)
        expected = _predicted(fit, context, n_menus)
        members = np.zeros((n_menus, log.n_agents), np.float32)
        members[np.repeat(np.arange(len(log.menus)), log.menus.sizes), log.menus.agent] = 1.0
        if log.design == "inclusion":
            ones = np.ones(len(context))
            asked = np.minimum(asked, 1.0)
            return _Cells(log, context, log.units[context], asked, expected, ones, None, members, fit.is_known, thin)
        total, second = (np.bincount(row, each, len(context)) for each in (weight, weight**2))
        squares = None
        if len(row) > len(context):
            squares = np.bincount(cell, weight**2, shape[0] * shape[1]).reshape(shape).astype(np.float32)
        expected *= total[:, None].astype(np.float32)
        scale = second / total
        return _Cells(log, context, log.units[context], asked, expected, scale, squares, members, fit.is_known, thin)

    @cached_property
    def total(self) -> float:
        """How much was expected in all, also at the contexts that are not looked at."""
        return self.thin * float(self.expected.sum(dtype=np.float64))

    @cached_property
    def alone(self) -> bool:
        """Whether every unit has one record, which then varies as a draw does."""
        return self.squares is None and len(np.unique(self.unit)) == len(self.unit)


def _records(log: Feedback, context: Ints) -> tuple[Ints, Ints, Floats]:
    """Return row, menu and weight of the records at some contexts."""
    sizes = np.diff(log.context_offsets)[context].astype(np.int64)
    records = runs(log.context_offsets[context].astype(np.int64), sizes)
    row = np.repeat(np.arange(len(context)), sizes)
    return row, log.menus.of_record[records].astype(np.int64), log.records.weights[records]


def _predicted(fit: NuisanceFit, context: Ints, n_menus: int) -> Floats:
    """Return (n, M) float32 out-of-fold propensities."""
    e, step = np.empty((len(context), n_menus), np.float32), max(1, _CHUNK_CELLS // n_menus)
    for fold in range(fit.n_folds):
        rows = np.flatnonzero(fit.fold[context] == fold)
        for start in range(0, len(rows), step):
            chunk = rows[start : start + step]
            e[chunk] = fit.propensity_models.predict(fit.X[context[chunk]], fold)
    return e


@dataclass(frozen=True)
class _Group:
    """What was asked and expected at n contexts of a group, all menus together (M,) and by context (n, M).

    Args:
        cells: of all contexts.
        rows: (n,) those of the group.
        column, name: of the group.
        observed, mean: (M,) asked and expected.
        variance: (M,) of what is asked of each menu; under draws less the outer product over its sum is the covariance.
        least: the variance from which a menu is a cell of its own.
        learned: what is left of a variance because the propensities have learned from the group; 1 for known ones.
    """

    cells: _Cells
    rows: Ints
    column: str
    name: str
    observed: Floats
    mean: Floats
    variance: Floats
    least: float
    learned: float

    @staticmethod
    def of(cells: _Cells, rows: Ints, column: str, name: str) -> _Group:
        asked, expected = cells.asked[rows], cells.expected[rows]
        if cells.log.design == "inclusion":
            variance = (expected * (1 - expected)).sum(axis=0, dtype=np.float64)
        else:
            variance = cells.scale[rows] @ expected
        observed, mean = (each.sum(axis=0, dtype=np.float64) for each in (asked, expected))
        least = _LEAST * float(cells.scale[rows].mean()) ** 2 if len(rows) else _LEAST  # ten records of usual weight
        learned = 1.0 if cells.known else max(0.1, 1 - float(mean.sum()) / max(cells.total, 1e-300))
        return _Group(cells, rows, column, name, observed, mean, variance, least, learned)

    def tests(self) -> Iterator[_Test]:
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

    def _test(self, level: Any, names: list[tuple[int, ...]]) -> _Test | None:
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
        what = names[min(int(kept[worst]), len(names) - 1)]
        return _Test(p_value, self.column, self.name, what, float(observed[worst]), float(expected[worst]))

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
        else:
            alone = self._records_alone(level, inverse)
        return max(1.0, together / max(alone, 1e-300))

    def _records_alone(self, level: Any, inverse: Floats) -> float:
        """Return the sum over records of w^2 |A (1{menu} - e)|^2."""
        squares = self.cells.asked[self.rows] ** 2 if self.cells.squares is None else self.cells.squares[self.rows]
        expected = self.cells.expected[self.rows]
        e = (expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-30)) @ level
        drawn = squares @ level
        single = (drawn @ inverse).sum() - 2 * ((drawn * e) @ inverse).sum()
        return float(single + squares.sum(axis=1, dtype=np.float64) @ (e**2 @ inverse))


def _cell_p_values(observed: Floats, expected: Floats, scale: Floats) -> Floats:
    """Return (L,) two-sided p-values of counts that vary `scale` times as much as Poisson ones."""
    o, e = observed / scale, expected / scale
    above = np.where(o > 0, gammainc(np.maximum(o, 1e-300), e), 1.0)
    return np.asarray(np.minimum(2 * np.minimum(above, gammaincc(o + 1, e)), 1.0))


def _joined(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

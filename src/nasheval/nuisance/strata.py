"""Propensities that are shares of the menus, overall or within strata of columns chosen on held-out records.

The share of a menu in a stratum is shrunken to that in the stratum of all columns but the last, and so on up to the
share overall: evenly, or menu by menu (`Shrinkage`; docs/method.md has the formulas). Columns are added one at a time,
with the shrinkage that does best, as long as the log loss on held-out records falls by more than two standard errors.
All of it is counting, so that it costs little at any number of menus.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.feedback.log import Feedback
from nasheval.nuisance.cuts import Cut, cuts
from nasheval.nuisance.learners import Effort, Features, records_of, require_draws, run_all, sampled

_BINS = (4, 8, 16)
_MOST_COLUMNS = 3
_PRIORS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0)  # where shares are shrunken evenly
_SPIKES = ((0.1, 1.0), (0.1, 5.0), (0.01, 1.0))  # (q, a) where they are shrunken menu by menu
_INNER = 5  # folds of the training records on which columns and priors are chosen
_MOST_RECORDS = 1 << 17  # records on which they are chosen, drawn at random where there are more
_MOST_CELLS = 1 << 19  # strata x menus; columns that would make more are not tried
_SPIKE_CELLS = 1 << 19  # inner folds x strata x menus up to which menus are shrunken one by one
_SMALLEST = 1e-12
_SCALINGS = 4
# A prior of least log loss is divided by this where it is used: an estimate that errs toward the coarser share biases
# means, one that is a little noisy does not.
_LESS = 4.0


@dataclass(frozen=True)
class Marginal:
    """The share of each menu, whatever the context.

    Under draws a share of records, which sum to one; under inclusion the share of contexts that include the menu.
    """

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> StrataModels:
        """Count the menus on each training set; see `Learner.fit`."""
        effort.advance(1.0)
        return StrataModels(((),) * len(train), tuple(readonly(menu_shares(log, seen)[None]) for seen in train))


@dataclass(frozen=True)
class Strata:
    """Shares of the menus within strata of up to three columns; for logs that draw one menu per record."""

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> StrataModels:
        """Choose columns and count the menus on each training set; see `Learner.fit`."""
        require_draws(log)
        candidates = cuts(log, X, _BINS)

        def fit_fold(fold: int) -> tuple[tuple[tuple[int, Shrinkage], ...], Floats]:
            rng = np.random.default_rng([effort.seed, fold])
            search = _Search.of(log, train[fold], rng)
            steps = search.steps(candidates, [cut.codes(X, search.context) for cut in candidates])
            freer = [how if how.prior is None else Shrinkage(how.prior / _LESS) for _, how in steps]
            columns = [(candidates[c].size, candidates[c].codes(X), h) for (c, _), h in zip(steps, freer, strict=True)]
            return steps, _table(log, train[fold], columns)

        chosen = run_all(fit_fold, range(len(train)), len(train), effort)
        used = tuple(tuple(candidates[c] for c, _ in steps) for steps, _ in chosen)
        return StrataModels(used, tuple(readonly(table) for _, table in chosen))


@dataclass(frozen=True)
class StrataModels:
    """Shares of the menus by stratum, one table per fold.

    Args:
        cuts: the columns of each fold, first chosen first; none: the shares overall.
        shares: of each fold, (strata, M); the last column's strata change fastest.
    """

    cuts: tuple[tuple[Cut, ...], ...]
    shares: tuple[Floats, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that more than half of the folds use, the most used first."""
        count = Counter(name for fold in self.cuts for name in dict.fromkeys(cut.name for cut in fold))
        return tuple(name for name, times in count.most_common() if 2 * times > len(self.cuts))

    def strata(self, X: Features, fold: int, rows: Ints | None = None) -> Ints:
        """Return (n,) the row of a fold's table for each context, or for those in some rows."""
        stratum = np.zeros(len(X) if rows is None else len(rows), np.int64)
        for cut in self.cuts[fold]:
            stratum = stratum * cut.size + cut.codes(X, rows)
        return stratum

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) the shares in each context's stratum."""
        return self.shares[fold][self.strata(X, fold)].astype(np.float64)

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) the shares of menus columns[i] at rows[i] of X."""
        return self.shares[fold][self.strata(X, fold, rows), columns].astype(np.float64)


@dataclass(frozen=True)
class Shrinkage:
    """How the share of a menu in a stratum is shrunken to a coarser one.

    Args:
        prior: how many records the coarser share is worth; None: menu by menu.
        chance: q, that a menu differs at all.
        shape: a, of the gamma distribution; the smaller, the more it may differ.
    """

    prior: float | None
    chance: float = 1.0
    shape: float = 1.0

    def shares(self, count: Floats, coarse: Floats) -> Floats:
        """Return (..., M) shares from counts and coarser shares, both (..., M); rows sum to one."""
        total = count.sum(axis=-1, keepdims=True)
        if self.prior is not None:
            return (count + self.prior * coarse) / (total + self.prior)
        share = coarse * self.ratio(count, total * coarse)
        return share / share.sum(axis=-1, keepdims=True)

    def ratio(self, count: Floats, expected: Floats) -> Floats:
        """Return about the posterior mean of lambda of each cell, (..., M), times the scale of its stratum.

        Where some menus are asked more often, the shares of all others fall alike. So what the coarser share expects of
        menus that do not differ is scaled to what was counted of them, stratum by stratum.
        """
        scale = np.ones((*count.shape[:-1], 1))
        for _ in range(_SCALINGS):
            alike = 1 - self.differs(count, scale * expected)
            counted, foreseen = ((alike * values).sum(axis=-1, keepdims=True) for values in (count, expected))
            scale = (counted + 1) / (foreseen + 1)
        return scale * self.posterior(count, scale * expected)

    def posterior(self, count: Floats, expected: Floats) -> Floats:
        """Return the posterior mean of lambda of each cell."""
        a = self.shape
        return 1 + self.differs(count, expected) * ((count + a) / (expected + a) - 1)

    def differs(self, count: Floats, expected: Floats) -> Floats:
        """Return the posterior chance that lambda of each cell is not 1."""
        from scipy.special import expit, gammaln

        a = self.shape
        bayes = gammaln(a + count) - gammaln(a) + a * np.log(a) - (a + count) * np.log(a + expected) + expected
        return np.asarray(expit(bayes + np.log(self.chance / (1 - self.chance))))


def _asked(log: Feedback, seen: Bools) -> tuple[Ints, Ints, Floats]:
    """Return context, menu and weight of what was asked: each record, or each inclusion once."""
    records = records_of(log, seen)
    context, menu, weight = log.context_of[records], log.menus.of_record[records], log.records.weights[records]
    if log.design == "draws":
        return context, menu, weight
    once = np.unique(context.astype(np.int64) * len(log.menus) + menu)
    return once // len(log.menus), once % len(log.menus), np.ones(len(once))


def menu_shares(log: Feedback, seen: Bools) -> Floats:
    """Return (M,) the smoothed share of each menu over some contexts; under draws they sum to one.

    Each menu is given half a context more; under draws half a record (`half_record`).
    """
    _, menu, weight = _asked(log, seen)
    count = np.bincount(menu, weight, len(log.menus)) + (half_record(log) if log.design == "draws" else 0.5)
    return count / (count.sum() if log.design == "draws" else int(seen.sum()) + 1.0)


def half_record(log: Feedback) -> float:
    """Return half a record's weight, that of a light record where records share one vote.

    Half a voter's records where voters are held out whole and may share one menu.
    """
    whole = log.n_contexts / max(1, log.n_units)
    usual = float(log.records.weights.mean()) if log.n_records else 1.0
    return 0.5 * whole * min(1.0, usual)


def raw_shares(log: Feedback) -> Floats:
    """Return (M,) the share of records that ask each menu, by weight; under inclusion of contexts that include it."""
    _, menu, weight = _asked(log, np.ones(log.n_contexts, bool))
    total = weight.sum() if log.design == "draws" else log.n_contexts
    return np.bincount(menu, weight, len(log.menus)) / max(total, 1e-300)


def _table(log: Feedback, seen: Bools, steps: list[tuple[int, Ints, Shrinkage]]) -> Floats:
    """Return (strata, M) shares over some contexts; a step is the size of a cut, (n_contexts,) codes and how."""
    records, n_menus = records_of(log, seen), len(log.menus)
    menu, weight = log.menus.of_record[records].astype(np.int64), log.records.weights[records]
    share, stratum = menu_shares(log, seen)[None], np.zeros(len(records), np.int64)
    for size, code, how in steps:
        stratum = stratum * size + code[log.context_of[records]]
        n_strata = len(share) * size
        count = np.bincount(stratum * n_menus + menu, weight, n_strata * n_menus).astype(np.float64)
        share = how.shares(count.reshape(n_strata, n_menus), np.repeat(share, size, axis=0))
    return share.astype(np.float32)


@dataclass(frozen=True)
class _Search:
    """Records of a training set in inner folds of whole units, and what is added to the count of each of M menus."""

    context: Ints
    menu: Ints
    weight: Floats
    unit: Ints
    inner: Ints
    half: float
    n_menus: int

    @staticmethod
    def of(log: Feedback, seen: Bools, rng: np.random.Generator) -> _Search:
        records = sampled(records_of(log, seen), _MOST_RECORDS, rng)
        context = log.context_of[records]
        place = np.unique(log.units[context], return_inverse=True)[1]
        inner = rng.permutation(int(place.max(initial=-1)) + 1)[place] % _INNER
        menu, weight = log.menus.of_record[records].astype(np.int64), log.records.weights[records]
        return _Search(context, menu, weight, place, inner, half_record(log), len(log.menus))

    def steps(self, candidates: tuple[Cut, ...], codes: list[Ints]) -> tuple[tuple[int, Shrinkage], ...]:
        """Return the candidates to use, by number, each with its shrinkage; given the codes of each at the records."""
        chosen: list[tuple[int, Shrinkage]] = []
        now = _Step.overall(self)
        for _ in range(_MOST_COLUMNS if len(self.menu) else 0):
            taken = {(candidates[c].column, candidates[c].size) for c, _ in chosen}
            lowest, near, best_column = np.inf, _PRIORS[len(_PRIORS) // 2], -1
            for c, cut in enumerate(candidates):
                if (cut.column, cut.size) not in taken and now.table[0].size * cut.size <= _MOST_CELLS:
                    loss, near = now.best_prior(self, codes[c], cut.size, near)
                    if loss < lowest:
                        lowest, best_column = loss, c
            if best_column < 0:
                break
            code, size = codes[best_column], candidates[best_column].size
            prior = now.best_prior(self, code, size)[1]
            spikes = _SPIKES if now.table.size * size <= _SPIKE_CELLS else ()
            hows = [Shrinkage(prior), *(Shrinkage(None, q, a) for q, a in spikes)]
            step = min((now.next(self, code, size, how) for how in hows), key=lambda step: self.loss(step.share))
            if not self.falls(now.share, step.share):
                break
            now = step
            chosen.append((best_column, step.how))
        return tuple(chosen)

    def loss(self, share: Floats) -> float:
        """Return the log loss, by weight, of (N,) shares of each record's menu."""
        return -float(self.weight @ np.log(np.maximum(share, _SMALLEST)))

    def counts(self, stratum: Ints, n_strata: int) -> Floats:
        """Return (inner folds, strata, M) counts outside each inner fold."""
        shape = (_INNER, n_strata, self.n_menus)
        cell = (self.inner * n_strata + stratum) * self.n_menus + self.menu
        inside = np.bincount(cell, self.weight, shape[0] * shape[1] * shape[2]).reshape(shape)
        return inside.sum(axis=0) - inside

    def outside(self, key: Ints, size: int) -> Floats:
        """Return (N,) how often each record's key, 0 to size - 1, occurs outside its inner fold, by weight."""
        own = self.inner * size + key
        inside = np.bincount(own, self.weight, _INNER * size)
        return inside.reshape(_INNER, size).sum(axis=0)[key] - inside[own]

    def falls(self, before: Floats, after: Floats) -> bool:
        """Tell whether the loss falls by more than two standard errors, records of a unit taken together."""
        before, after = np.maximum(before, _SMALLEST), np.maximum(after, _SMALLEST)
        gain = np.bincount(self.unit, self.weight * np.log(after / before))
        return bool(gain.sum() > 2 * np.sqrt(len(gain) * gain.var()))


@dataclass(frozen=True)
class _Step:
    """Shares outside each inner fold by the columns chosen so far, the last one shrunken as `how` says.

    `table` is (inner folds, strata, M), `share` (N,) that of each record's menu, `stratum` (N,) that of each record.
    """

    table: Floats
    share: Floats
    stratum: Ints
    how: Shrinkage

    @staticmethod
    def overall(search: _Search) -> _Step:
        stratum = np.zeros(len(search.menu), np.int64)
        count = search.counts(stratum, 1) + search.half
        table = count / count.sum(axis=2, keepdims=True)
        return _Step(table, table[search.inner, 0, search.menu], stratum, Shrinkage(0.0))

    def best_prior(self, search: _Search, code: Ints, size: int, near: float | None = None) -> tuple[float, float]:
        """Return the lowest loss with one more column and even shrinkage, and its prior.

        Args:
            near: a prior from which on to walk as long as the loss falls; None: try them all.
        """
        stratum, n_strata = self.stratum * size + code, self.table.shape[1] * size
        count = search.outside(stratum * search.n_menus + search.menu, n_strata * search.n_menus).astype(np.float32)
        total = search.outside(stratum, n_strata).astype(np.float32)
        share = self.share.astype(np.float32)

        def loss(place: int) -> tuple[float, float]:
            prior = np.float32(_PRIORS[place])
            return search.loss((count + prior * share) / (total + prior)), _PRIORS[place]

        if near is None:
            return min(loss(place) for place in range(len(_PRIORS)))
        place, best = _PRIORS.index(near), loss(_PRIORS.index(near))
        for step in (1, -1):
            while 0 <= place + step < len(_PRIORS) and (after := loss(place + step)) < best:
                place, best = place + step, after
        return best

    def next(self, search: _Search, code: Ints, size: int, how: Shrinkage) -> _Step:
        """Return the step that adds a column."""
        stratum = self.stratum * size + code
        table = how.shares(search.counts(stratum, self.table.shape[1] * size), np.repeat(self.table, size, axis=1))
        return _Step(table, table[search.inner, stratum, search.menu], stratum, how)

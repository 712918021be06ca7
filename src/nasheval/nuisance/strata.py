"""Propensities that are shares of the menus within strata of columns that are chosen on held-out records.

The share of menu m in a stratum s of the columns c_1, ..., c_T is shrunken to its share in the stratum of c_1, ...,
c_{T-1} that holds s, and so on up to the share overall. With O the count of m in s, n that of all menus there, and
E = n p_{t-1}(m | s) what the coarser share expects, a share is shrunken in one of two ways (`Shrinkage`): evenly,

    p_t(m | s) = (O + prior p_{t-1}(m | s)) / (n + prior),

or menu by menu, for few menus that differ much while most do not: O is Poisson with mean c E lambda, where lambda is 1,
or with chance q a draw from Gamma(a, a), c is one number per stratum, and p_t is proportional to p_{t-1} times the
posterior mean of lambda. A prior that was chosen by log loss is divided by four where it is used: an estimate that errs
toward the coarser share biases means, one that is a little noisy does not.

Columns are added one at a time, with the shrinkage that does best, as long as the log loss on held-out records falls by
more than two standard errors. All of it is counting, so that it costs little at any number of menus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.feedback.log import Feedback
from nasheval.nuisance.cuts import Cut, cuts
from nasheval.nuisance.learners import Effort, Features, records_of
from nasheval.nuisance.marginal import half_record, menu_shares
from nasheval.nuisance.trees import require_draws, run_all

_BINS = (4, 8, 16)
_INNER = 5  # folds of the training records on which columns and priors are chosen
_MOST_RECORDS = 1 << 17  # records on which they are chosen, drawn at random where there are more
_MOST_CELLS = 1 << 19  # strata x menus; columns that would make more are not tried
_SPIKE_CELLS = 1 << 19  # inner folds x strata x menus up to which menus are shrunken one by one
_SMALLEST = 1e-12
_SCALINGS = 4
_LESS = 4.0  # what the prior of least log loss is divided by where it is used


@dataclass(frozen=True)
class Strata:
    """Shares of the menus within strata of up to `most` columns; for logs that draw one menu per record.

    Args:
        most: columns at most.
        priors: how many records the coarser share may be worth in a stratum, where shares are shrunken evenly.
        spikes: (q, a) where they are shrunken menu by menu.
    """

    most: int = 3
    priors: tuple[float, ...] = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0)
    spikes: tuple[tuple[float, float], ...] = ((0.1, 1.0), (0.1, 5.0), (0.01, 1.0))

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> StrataModels:
        """Choose columns and count the menus on each training set; see `Learner.fit`."""
        require_draws(log)
        candidates = cuts(log, X, _BINS)
        codes = [cut.codes(X) for cut in candidates]
        unit = log.units

        def fit_fold(fold: int) -> tuple[tuple[tuple[int, Shrinkage], ...], Floats]:
            rng = np.random.default_rng([effort.seed, fold])
            steps = _Search.of(log, train[fold], unit, rng).steps(candidates, codes, self)
            freer = [(candidates[c].size, codes[c], how.freer()) for c, how in steps]
            return steps, _table(log, train[fold], freer)

        chosen = run_all(fit_fold, range(len(train)), len(train), effort)
        used = tuple(tuple(candidates[c] for c, _ in steps) for steps, _ in chosen)
        return StrataModels(used, tuple(readonly(table) for _, table in chosen))


@dataclass(frozen=True)
class StrataModels:
    """Shares of the menus by stratum, one table per fold.

    Args:
        cuts: the columns of each fold, first chosen first; none: the shares overall.
        shares: of each fold, (strata, M) float32, rows sum to one; the last column's strata change fastest.
    """

    cuts: tuple[tuple[Cut, ...], ...]
    shares: tuple[Floats, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that more than half of the folds use, the most used first."""
        count = Counter(name for fold in self.cuts for name in dict.fromkeys(cut.name for cut in fold))
        return tuple(name for name, times in count.most_common() if 2 * times > len(self.cuts))

    def strata(self, X: Features, fold: int) -> Ints:
        """Return (n,) the row of a fold's table for each context."""
        stratum = np.zeros(len(X), np.int64)
        for cut in self.cuts[fold]:
            stratum = stratum * cut.size + cut.codes(X)
        return stratum

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) the shares in each context's stratum."""
        return self.shares[fold][self.strata(X, fold)].astype(np.float64)

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) the shares of menus columns[i] at rows[i] of X."""
        return self.shares[fold][self.strata(X, fold)[rows], columns].astype(np.float64)


@dataclass(frozen=True)
class Shrinkage:
    """How the share of a menu in a stratum is shrunken to a coarser one; see the module.

    Args:
        prior: how many records the coarser share is worth; None: menu by menu.
        chance: q, that a menu differs at all.
        shape: a, of the gamma distribution; the smaller, the more it may differ.
    """

    prior: float | None
    chance: float = 1.0
    shape: float = 1.0

    def freer(self) -> Shrinkage:
        """Return a shrinkage that leans less on the coarser share."""
        return self if self.prior is None else replace(self, prior=self.prior / _LESS)

    def shares(self, count: Floats, coarse: Floats) -> Floats:
        """Return (..., M) shares from counts and coarser shares, both (..., M); rows sum to one."""
        total = count.sum(axis=-1, keepdims=True)
        if self.prior is not None:
            return np.asarray((count + self.prior * coarse) / (total + self.prior))
        share = coarse * self.ratio(count, total * coarse)
        return np.asarray(share / share.sum(axis=-1, keepdims=True))

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
        return np.asarray(scale * self.posterior(count, scale * expected))

    def posterior(self, count: Floats, expected: Floats) -> Floats:
        """Return the posterior mean of lambda of each cell."""
        a = self.shape
        return np.asarray(1 + self.differs(count, expected) * ((count + a) / (expected + a) - 1))

    def differs(self, count: Floats, expected: Floats) -> Floats:
        """Return the posterior chance that lambda of each cell is not 1."""
        from scipy.special import expit, gammaln

        a = self.shape
        bayes = gammaln(a + count) - gammaln(a) + a * np.log(a) - (a + count) * np.log(a + expected) + expected
        return np.asarray(expit(bayes + np.log(self.chance / (1 - self.chance))))


def _table(log: Feedback, seen: Bools, steps: list[tuple[int, Ints, Shrinkage]]) -> Floats:
    """Return (strata, M) shares over some contexts; a step is the size of a cut, (n_contexts,) codes and how."""
    records, n_menus = records_of(log, seen), len(log.menus)
    menu, weight = log.menus.of_record[records].astype(np.int64), log.records.weights[records]
    share, stratum = menu_shares(log, seen)[None], np.zeros(len(records), np.int64)
    for size, code, how in steps:
        stratum = stratum * size + code[log.context_of[records]]
        n_strata = len(share) * size
        count = np.bincount(stratum * n_menus + menu, weight, n_strata * n_menus).reshape(n_strata, n_menus)
        share = how.shares(count, np.repeat(share, size, axis=0))
    return share.astype(np.float32)


@dataclass(frozen=True)
class _Search:
    """Records of a training set, in inner folds of whole units.

    Args:
        context, menu, weight, unit, inner: (N,) of each record.
        half: what is added to the count of each menu.
        n_menus: M.
    """

    context: Ints
    menu: Ints
    weight: Floats
    unit: Ints
    inner: Ints
    half: float
    n_menus: int

    @staticmethod
    def of(log: Feedback, seen: Bools, unit: Ints, rng: np.random.Generator) -> _Search:
        records = records_of(log, seen)
        if len(records) > _MOST_RECORDS:
            records = np.sort(rng.choice(records, _MOST_RECORDS, replace=False))
        context = log.context_of[records]
        place = np.unique(unit[context], return_inverse=True)[1]
        inner = rng.permutation(int(place.max(initial=-1)) + 1)[place] % _INNER
        menu, weight = log.menus.of_record[records].astype(np.int64), log.records.weights[records]
        return _Search(context, menu, weight, place, inner, half_record(log), len(log.menus))

    def steps(self, candidates: tuple[Cut, ...], codes: list[Ints], how: Strata) -> tuple[tuple[int, Shrinkage], ...]:
        """Return the candidates to use, by number, each with its shrinkage."""
        chosen: list[tuple[int, Shrinkage]] = []
        now = _Step.overall(self)
        for _ in range(how.most if len(self.menu) else 0):
            taken = {(candidates[c].column, candidates[c].size) for c, _ in chosen}
            tried = [
                (now.evenly(self, codes[c][self.context], cut.size, how.priors), c)
                for c, cut in enumerate(candidates)
                if (cut.column, cut.size) not in taken and now.n_strata * cut.size * self.n_menus <= _MOST_CELLS
            ]
            if not tried:
                break
            (_, even, _), c = min(tried, key=lambda one: one[0][0])
            code, size = codes[c][self.context], candidates[c].size
            nexts = [now.next(self, code, size, even), *now.menu_by_menu(self, code, size, how.spikes)]
            best = min(nexts, key=lambda step: self.loss(step.share))
            if not self.falls(now.share, best.share):
                break
            now = best
            chosen.append((c, best.how))
        return tuple(chosen)

    def loss(self, share: Floats) -> float:
        """Return the log loss, by weight, of (N,) shares of each record's menu."""
        return -float(self.weight @ np.log(np.maximum(share, _SMALLEST)))

    def counts(self, stratum: Ints, n_strata: int) -> Floats:
        """Return (inner folds, strata, M) counts outside each inner fold."""
        shape = (_INNER, n_strata, self.n_menus)
        cell = (self.inner * n_strata + stratum) * self.n_menus + self.menu
        inside = np.bincount(cell, self.weight, shape[0] * shape[1] * shape[2]).reshape(shape)
        return np.asarray(inside.sum(axis=0) - inside)

    def falls(self, before: Floats, after: Floats) -> bool:
        """Tell whether the loss falls by more than two standard errors, records of a unit taken together."""
        before, after = np.maximum(before, _SMALLEST), np.maximum(after, _SMALLEST)
        gain = np.bincount(self.unit, self.weight * np.log(after / before))
        return bool(gain.sum() > 2 * np.sqrt(len(gain) * gain.var()))


@dataclass(frozen=True)
class _Step:
    """Shares outside each inner fold by the columns chosen so far.

    Args:
        table: (inner folds, strata, M) shares.
        share: (N,) that of each record's menu outside its own inner fold.
        stratum: (N,) of each record.
        how: the shrinkage of the last column.
    """

    table: Floats
    share: Floats
    stratum: Ints
    how: Shrinkage

    @property
    def n_strata(self) -> int:
        return int(self.table.shape[1])

    @staticmethod
    def overall(search: _Search) -> _Step:
        stratum = np.zeros(len(search.menu), np.int64)
        count = search.counts(stratum, 1) + search.half
        table = count / count.sum(axis=2, keepdims=True)
        return _Step(table, table[search.inner, 0, search.menu], stratum, Shrinkage(0.0))

    def evenly(
        self, search: _Search, code: Ints, size: int, priors: tuple[float, ...]
    ) -> tuple[float, Shrinkage, Floats]:
        """Return the lowest loss with one more column and even shrinkage, which one, and (N,) shares."""
        n_strata, stratum = self.n_strata * size, self.stratum * size + code
        count, total = _outside(search, stratum, n_strata)
        shares = [(count + prior * self.share) / (total + prior) for prior in priors]
        losses = [search.loss(share) for share in shares]
        best = int(np.argmin(losses))
        return losses[best], Shrinkage(priors[best]), shares[best]

    def menu_by_menu(
        self, search: _Search, code: Ints, size: int, spikes: tuple[tuple[float, float], ...]
    ) -> Iterator[_Step]:
        """Yield the next step with each shrinkage menu by menu, where tables are small enough."""
        if self.table.size * size <= _SPIKE_CELLS:
            yield from (self.next(search, code, size, Shrinkage(None, q, a)) for q, a in spikes)

    def next(self, search: _Search, code: Ints, size: int, how: Shrinkage) -> _Step:
        """Return the step that adds a column."""
        stratum = self.stratum * size + code
        table = how.shares(search.counts(stratum, self.n_strata * size), np.repeat(self.table, size, axis=1))
        return _Step(table, table[search.inner, stratum, search.menu], stratum, how)


def _outside(search: _Search, stratum: Ints, n_strata: int) -> tuple[Floats, Floats]:
    """Return (N,) counts of each record's stratum and menu outside its inner fold, and of the stratum alone."""
    counts = []
    for key, size in ((stratum * search.n_menus + search.menu, n_strata * search.n_menus), (stratum, n_strata)):
        own = search.inner * size + key
        inside = np.bincount(own, search.weight, _INNER * size)
        counts.append(inside.reshape(_INNER, size).sum(axis=0)[key] - inside[own])
    return counts[0], counts[1]

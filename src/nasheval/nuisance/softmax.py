"""Propensities by softmaxes that sum to one over the menus, for logs that draw one menu per record.

`Multinomial` has slopes per menu. `AgentSoftmax` builds its logits from agents, for any number of menus:

    p(m | x)  proportional to  base_m(x) exp( sum over j in m of theta_j . phi(x)
                                              + sum over r of (w_r . phi(x)) sum over j < k in m of v_rj v_rk ),

where base are shares of the menus, overall or by stratum (`Strata`), and phi(x) is the network form of a context, with
indicators of the quantile bins of its numbers, hinges at some of their quantiles, and a constant. There are K slopes
per feature and a few pair terms, not one slope per menu; the pair terms say that some groups of agents meet one another
more often at some contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.feedback.log import Feedback
from nasheval.nuisance.cuts import Cut, cuts, hinges
from nasheval.nuisance.learners import (
    Effort,
    Features,
    held_out,
    menu_members,
    picked,
    records_of,
    require_draws,
    run_all,
    sampled,
)
from nasheval.nuisance.softmax_counts import Counts, Menus, Slopes, distinct, pair_sums
from nasheval.nuisance.strata import Marginal, StrataModels, menu_shares

_BINS, _KNOT_BINS = (16,), (8,)  # of features, and of which the knots of curves are taken
_FREE_MENUS = 50  # up to this many menus each has slopes of its own in `Multinomial`
_FIT_CELLS = 1 << 24  # rows x menus on which that is fitted
# Its ridge penalties, falling; the first that does worse than the one before ends the search.
_PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)
_FIRST_CELLS = 1 << 22  # rows x menus that `AgentSoftmax` is first fitted on; more records than that are sampled
_LAST_CELLS = 1 << 25  # and on which that fit is then improved; also the most rows x features of either: 128 MB
_FEWEST = 2000  # records that are kept all the same
_CHUNK_CELLS = 1 << 19
_ROWS = 1 << 13  # contexts predicted at a time
_ITERATIONS, _MORE_ITERATIONS = 20, 8
_RANK = 3  # pair terms, where there are any
_Form = Callable[[Features], Floats]  # from contexts to the features of a softmax
_Strata = Callable[[Ints], Ints]  # from rows of contexts to those of the base's table
_Loss = Callable[[Floats], tuple[float, Floats]]  # and its gradient


@dataclass(frozen=True)
class AgentSoftmax:
    """The softmax of the module, with a ridge penalty on theta, w and v.

    The penalty, and whether there are pair terms, are chosen on a fifth of the first training set, and all others use
    the same; no slopes at all is among the choices. A model is fitted on 2^22 / M records, but no fewer than 2,000,
    drawn at random, and then improved on 2^25 / M; of q features neither has more than 2^25 / q records.

    Args:
        base: models of the base shares, one per training set.
        penalties: ridge penalties to try, falling; the first that does worse than those before ends the search.
    """

    base: StrataModels
    penalties: tuple[float, ...] = (300.0, 30.0, 3.0, 0.3)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> AgentSoftmaxModels:
        """Fit one model on each training set; see `Learner.fit`."""
        columns = cuts(log, X, _BINS, categories=False)
        menus, width = Menus(menu_members(log)), _phi(X[:1], columns).shape[1]

        def draws(fold: int, cells: int) -> _Draws:
            rng, strata = np.random.default_rng([effort.seed, fold]), partial(self.base.strata, X, fold)
            most = min(cells // max(1, len(menus)), _LAST_CELLS // width)
            return _draws(log, X, train[fold], lambda rows: _phi(rows, columns), strata, most, rng)

        def fit_fold(fold: int) -> Slopes:
            zero, offset = _zero(width, log.n_agents), np.log(self.base.shares[fold])
            if penalty is None:
                return zero
            first = draws(fold, _FIRST_CELLS)
            counts = first.counts(menus, offset)
            slopes = _minimised(counts, penalty, zero)
            if with_pairs:
                slopes = _minimised(counts, penalty, _with_pairs(counts, slopes))
            last = draws(fold, _LAST_CELLS)
            if len(last.menu) == len(first.menu):
                return slopes
            return _minimised(last.counts(menus, offset), penalty, slopes, _MORE_ITERATIONS)

        penalty, with_pairs = self._chosen(draws(0, _FIRST_CELLS), menus, effort)
        slopes = run_all(fit_fold, range(len(train)), len(train), effort)
        return AgentSoftmaxModels(self.base, columns, menus, tuple(slopes), penalty)

    def _chosen(self, draws: _Draws, menus: Menus, effort: Effort) -> tuple[float | None, bool]:
        """Return which penalty, and whether pair terms, do best on held-out contexts of the first training set."""
        held = held_out(draws.unit, np.random.default_rng(effort.seed))
        if held.all() or not held.any():
            return None, False
        offset = np.log(self.base.shares[0])
        kept, test = (draws[rows].counts(menus, offset) for rows in (~held, held))
        theta = _zero(draws.phi.shape[1], menus.n_agents)
        choice: tuple[float | None, bool] = (None, False)
        best = test.loss(theta)[0]
        for number, penalty in enumerate(self.penalties):
            theta = _minimised(kept, penalty, theta)
            both = _minimised(kept, penalty, _with_pairs(kept, theta))
            loss, with_pairs = min((test.loss(theta)[0], False), (test.loss(both)[0], True))
            if loss < best:
                best, choice = loss, (penalty, with_pairs)
            elif number:
                break
        return choice


@dataclass(frozen=True)
class AgentSoftmaxModels:
    """Softmax models, one per fold.

    Args:
        base: models of the base shares.
        cuts: the columns whose bins are features.
        menus: which agents are in which.
        slopes: of each fold.
        penalty: the ridge penalty; None: no slopes were found worth having, so that these are the base shares.
    """

    base: StrataModels
    cuts: tuple[Cut, ...]
    menus: Menus
    slopes: tuple[Slopes, ...]
    penalty: float | None

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) float32 probabilities, rows sum to one."""
        slopes, phi = self.slopes[fold], _phi(X, self.cuts)
        logit = np.hstack([phi @ slopes.theta, phi @ slopes.w]) @ self.menus.terms(slopes.v).T
        logit += np.log(self.base.shares[fold])[self.base.strata(X, fold)]
        logit -= logit.max(axis=1, keepdims=True)
        np.exp(logit, out=logit)
        logit /= logit.sum(axis=1, keepdims=True)
        return logit

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) probabilities of menus columns[i] at rows[i] of X."""
        slopes, pairs, offset = self.slopes[fold], self.menus.pairs, np.log(self.base.shares[fold])
        if slopes.v.size or pairs is None:
            return picked(self, X, fold, rows, columns)
        stratum, values = self.base.strata(X, fold, rows), np.empty(len(rows))
        order, base = np.argsort(stratum, kind="stable"), self.menus.by_pair(self.base.shares[fold])
        for start in range(0, len(rows), _ROWS):
            chunk = order[start : start + _ROWS]
            score, menu = _phi(X[rows[chunk]], self.cuts) @ slopes.theta, columns[chunk]
            sums = pair_sums(score, stratum[chunk], base)
            if sums is None:
                return picked(self, X, fold, rows, columns)
            logit = offset[stratum[chunk], menu] - sums.log_total
            values[chunk] = np.exp(sum((score[np.arange(len(chunk)), side[menu]] for side in pairs), logit))
        return values


# -- data -------------------------------------------------------------------------------------------------------------


def _phi(X: Features, cuts: tuple[Cut, ...]) -> Floats:
    """Return the network form, indicators of the bins of numbers, hinges at five knots of each, and a constant."""
    bins = [(cut.codes(X)[:, None] == np.arange(cut.size)).astype(np.float32) for cut in cuts]
    curves = hinges(tuple(cut for cut in cuts if not cut.exact), X)
    return np.hstack([X.network.astype(np.float32), *bins, curves, np.ones((len(X), 1), np.float32)])


@dataclass(frozen=True)
class _Draws:
    """Records: (N, q) phi, (N,) strata of the base, menus, weights and units that are held out whole."""

    phi: Floats
    stratum: Ints
    menu: Ints
    weight: Floats
    unit: Ints

    def __getitem__(self, rows: Bools | slice) -> _Draws:
        return _Draws(self.phi[rows], self.stratum[rows], self.menu[rows], self.weight[rows], self.unit[rows])

    def counts(self, menus: Menus, offset: Floats) -> Counts:
        """Return them as counts: one row for all records with the same phi and stratum."""
        first, place = distinct(np.column_stack([self.phi, self.stratum.astype(np.float32)]))
        order = np.argsort(self.stratum[first], kind="stable")
        first, place = first[order], np.argsort(order)[place]
        key, at = np.unique(place * len(menus) + self.menu, return_inverse=True)
        weight = np.bincount(at, self.weight).astype(np.float32)
        total = np.bincount(place, self.weight).astype(np.float32)
        row, menu = np.divmod(key, len(menus))
        return Counts(self.phi[first], self.stratum[first], total, row, menu, weight, offset, menus)


def _draws(
    log: Feedback, X: Features, seen: Bools, form: _Form, strata: _Strata, most: int, rng: np.random.Generator
) -> _Draws:
    """Return the records at some contexts, at most so many of them (but 2,000 in any case), at random."""
    records = sampled(records_of(log, seen), max(_FEWEST, most), rng)
    context = log.context_of[records]
    menu, weight = log.menus.of_record[records].astype(np.int64), log.records.weights[records]
    return _Draws(form(X[context]), strata(context), menu, weight, log.units[context])


# -- fitting ----------------------------------------------------------------------------------------------------------


def _zero(width: int, n_agents: int) -> Slopes:
    return Slopes(
        np.zeros((width, n_agents), np.float32), np.zeros((width, 0), np.float32), np.zeros((n_agents, 0), np.float32)
    )


def _minimised(counts: Counts, penalty: float, start: Slopes, iterations: int = _ITERATIONS) -> Slopes:
    """Return the slopes that minimise log loss + penalty / 2 |slopes|^2, from a start."""

    def loss(flat: Floats) -> tuple[float, Floats]:
        value, gradient = counts.loss(_shaped(flat, start))
        return value, _flat(gradient)

    scale, options = float(counts.total.sum()), {"maxiter": iterations, "ftol": 1e-6, "gtol": 1e-6}
    return _shaped(_ridge(loss, _flat(start), penalty, scale, options), start)


def _ridge(loss: _Loss, start: Floats, penalty: float, scale: float, options: dict[str, Any]) -> Floats:
    """Return what minimises loss + penalty / 2 |flat|^2, by L-BFGS from a start."""
    from scipy.optimize import minimize

    def objective(flat: Floats) -> tuple[float, Floats]:
        value, gradient = loss(flat)
        return (value + penalty / 2 * float(flat @ flat)) / scale, (gradient + penalty * flat) / scale

    best: Floats = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    return best


def _flat(slopes: Slopes) -> Floats:
    return np.concatenate([array.ravel() for array in slopes]).astype(np.float64)


def _shaped(flat: Floats, like: Slopes) -> Slopes:
    ends = np.cumsum([array.size for array in like])
    arrays = np.split(flat.astype(np.float32), ends[:-1])
    return Slopes(*(array.reshape(one.shape) for array, one in zip(arrays, like, strict=True)))


def _with_pairs(counts: Counts, slopes: Slopes) -> Slopes:
    """Add pair terms that point where pairs of agents meet more or less often than theta says.

    For each feature the surplus of every pair, in standard errors, is a symmetric matrix; the leading eigenvectors over
    all features are v, and w starts at their feature. From zero no gradient would move them.
    """
    n_agents = counts.menus.n_agents
    sums = [counts.menus.by_pair(each).astype(np.float64) for each in counts.menu_residuals(slopes)]
    z = sums[0] / np.sqrt(sums[1] + max(float(sums[1].mean()), 1e-6))
    values, vectors = np.linalg.eigh(z)
    order = np.argsort(-np.abs(values).ravel(), kind="stable")[:_RANK]
    feature, place = np.divmod(order, n_agents)
    w, v = np.zeros((len(z), _RANK), np.float32), np.zeros((n_agents, _RANK), np.float32)
    for r, (f, p) in enumerate(zip(feature, place, strict=True)):
        vector = vectors[f][:, p]
        v[:, r] = 0.5 * vector / np.abs(vector).max()
        w[f, r] = np.sign(values[f, p])
    return slopes._replace(w=w, v=v)


# -- slopes per menu ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Multinomial:
    """P(the menu drawn is m | x), which sum to one over the menus; for logs that draw one menu per record.

    p(m | x) is proportional to share_m exp(theta_m . x) with a ridge penalty on theta, chosen on a fifth of the
    training contexts; no slopes at all, the shares, is among the choices. It is fitted on at most 2^24 / M records,
    drawn at random. More than 50 menus have an `AgentSoftmax` instead. `TreePropensity` is the same with LightGBM.

    Args:
        curved: whether x has curves in the numbers of a context (`hinges`) as well.
    """

    curved: bool = False

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> SoftmaxModels | AgentSoftmaxModels:
        """Fit one model on each training set; see `Learner.fit`."""
        require_draws(log)
        if len(log.menus) > _FREE_MENUS:
            return AgentSoftmax(Marginal().fit(log, X, train, effort.share(0.0))).fit(log, X, train, effort)
        numbers = tuple(cut for cut in cuts(log, X, _KNOT_BINS, categories=False) if not cut.exact and self.curved)
        offset = np.log([menu_shares(log, seen) for seen in train])

        def fit_fold(fold: int) -> Floats:
            rng = np.random.default_rng([effort.seed, fold])
            inputs, most = partial(_inputs, numbers=numbers), _FIT_CELLS // max(1, len(log.menus))
            return _slopes(_draws(log, X, train[fold], inputs, np.zeros_like, most, rng), offset[fold], rng)

        theta = run_all(fit_fold, range(len(train)), len(train), effort)
        return SoftmaxModels(readonly(offset), readonly(np.stack(theta)), numbers)


@dataclass(frozen=True)
class SoftmaxModels:
    """Linear multinomial models, one per fold.

    Args:
        offset: (folds, M) log shares of the menus.
        theta: (folds, q + 1, M) slopes, the constant last.
        numbers: the columns of numbers with curves.
    """

    offset: Floats
    theta: Floats
    numbers: tuple[Cut, ...]

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) probabilities, rows sum to one."""
        return softmax(_inputs(X, self.numbers) @ self.theta[fold] + self.offset[fold], axis=1)


def _inputs(X: Features, numbers: tuple[Cut, ...]) -> Floats:
    return np.column_stack([X.network, hinges(numbers, X), np.ones(len(X))]).astype(np.float64)


def _loss(draws: _Draws, offset: Floats, theta: Floats) -> tuple[float, Floats]:
    """Return the weighted log loss summed over draws and its gradient in theta."""
    total, gradient = 0.0, np.zeros((theta.shape[0], len(offset)))
    step = max(1, _CHUNK_CELLS // len(offset))
    for chunk in (draws[start : start + step] for start in range(0, len(draws.menu), step)):
        p, rows = softmax(chunk.phi @ theta + offset, axis=1), np.arange(len(chunk.menu))
        total -= float(chunk.weight @ np.log(np.maximum(p[rows, chunk.menu], 1e-300)))
        p[rows, chunk.menu] -= 1.0
        gradient += (chunk.phi * chunk.weight[:, None]).T @ p
    return total, gradient


def _fitted(draws: _Draws, offset: Floats, penalty: float, start: Floats) -> Floats:
    """Return the theta that minimises log loss + penalty / 2 |theta|^2."""

    def loss(flat: Floats) -> tuple[float, Floats]:
        value, gradient = _loss(draws, offset, flat.reshape(start.shape))
        return value, gradient.ravel()

    options = {"maxiter": 100, "gtol": 1e-5}
    return _ridge(loss, start.ravel(), penalty, float(draws.weight.sum()), options).reshape(start.shape)


def _slopes(draws: _Draws, offset: Floats, rng: np.random.Generator) -> Floats:
    """Fit theta, (q + 1, M), with the penalty that does best on held-out contexts; zeros where none does."""
    held = held_out(draws.unit, rng)
    zero: Floats = np.zeros((draws.phi.shape[1], len(offset)))
    theta, best, chosen = zero, _loss(draws[held], offset, zero)[0], np.inf
    for penalty in _PENALTIES if held.any() and not held.all() else ():
        theta = _fitted(draws[~held], offset, penalty, theta)
        loss = _loss(draws[held], offset, theta)[0]
        if loss >= best:
            break
        best, chosen = loss, penalty
    return zero if np.isinf(chosen) else _fitted(draws, offset, chosen, theta)

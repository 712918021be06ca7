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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

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
    records_of,
    require_draws,
    run_all,
    sampled,
)
from nasheval.nuisance.strata import Marginal, StrataModels, menu_shares

_BINS, _KNOT_BINS = (16,), (8,)  # of features, and of which the knots of curves are taken
_FREE_MENUS = 50  # up to this many menus each has slopes of its own in `Multinomial`
_FIT_CELLS = 1 << 24  # rows x menus on which that is fitted
# Its ridge penalties, falling; the first that does worse than the one before ends the search.
_PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)
_FIRST_CELLS = 1 << 22  # rows x menus that `AgentSoftmax` is first fitted on; more records than that are sampled
_LAST_CELLS = 1 << 25  # and on which that fit is then improved
_FEWEST = 2000  # records that are kept all the same
_CHUNK_CELLS = 1 << 19
_ITERATIONS, _MORE_ITERATIONS = 20, 8
_RANK = 3  # pair terms, where there are any
_Form = Callable[[Features], Floats]  # from contexts to the features of a softmax
_Strata = Callable[[Ints], Ints]  # from rows of contexts to those of the base's table
_Loss = Callable[[Floats], tuple[float, Floats]]  # and its gradient


class Slopes(NamedTuple):
    """What is learned: theta (q, K), w (q, R) and v (K, R), float32."""

    theta: Floats
    w: Floats
    v: Floats


@dataclass(frozen=True)
class AgentSoftmax:
    """The softmax of the module, with a ridge penalty on theta, w and v.

    The penalty, and whether there are pair terms, are chosen on a fifth of the first training set, and all others use
    the same; no slopes at all is among the choices. A model is fitted on 2^22 / M records, but no fewer than 2,000,
    drawn at random, and then improved on 2^25 / M.

    Args:
        base: models of the base shares, one per training set.
        penalties: ridge penalties to try, falling; the first that does worse than those before ends the search.
    """

    base: StrataModels
    penalties: tuple[float, ...] = (300.0, 30.0, 3.0, 0.3)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> AgentSoftmaxModels:
        """Fit one model on each training set; see `Learner.fit`."""
        columns = cuts(log, X, _BINS, categories=False)
        members = menu_members(log)

        def draws(fold: int, cells: int) -> _Draws:
            rng = np.random.default_rng([effort.seed, fold])
            strata = partial(self.base.strata, X, fold)
            return _draws(log, X, train[fold], lambda rows: _phi(rows, columns), strata, cells, rng)

        def fit_fold(fold: int) -> Slopes:
            zero, offset = _zero(_phi(X[:1], columns).shape[1], log.n_agents), np.log(self.base.shares[fold])
            if penalty is None:
                return zero
            first = draws(fold, _FIRST_CELLS)
            counts = first.counts(members, offset)
            slopes = _minimised(counts, penalty, zero)
            if with_pairs:
                slopes = _minimised(counts, penalty, _with_pairs(counts, slopes))
            last = draws(fold, _LAST_CELLS)
            if len(last.menu) == len(first.menu):
                return slopes
            return _minimised(last.counts(members, offset), penalty, slopes, _MORE_ITERATIONS)

        penalty, with_pairs = self._chosen(draws(0, _FIRST_CELLS), members, effort)
        slopes = run_all(fit_fold, range(len(train)), len(train), effort)
        return AgentSoftmaxModels(self.base, columns, members, tuple(slopes), penalty)

    def _chosen(self, draws: _Draws, members: Floats, effort: Effort) -> tuple[float | None, bool]:
        """Return which penalty, and whether pair terms, do best on held-out contexts of the first training set."""
        held = held_out(draws.unit, np.random.default_rng(effort.seed))
        if held.all() or not held.any():
            return None, False
        offset = np.log(self.base.shares[0])
        kept, test = (draws[rows].counts(members, offset) for rows in (~held, held))
        theta = _zero(draws.phi.shape[1], members.shape[1])
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
        members: (M, K) float32, one where an agent is in a menu.
        slopes: of each fold.
        penalty: the ridge penalty; None: no slopes were found worth having, so that these are the base shares.
    """

    base: StrataModels
    cuts: tuple[Cut, ...]
    members: Floats
    slopes: tuple[Slopes, ...]
    penalty: float | None

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) float32 probabilities, rows sum to one."""
        slopes, phi = self.slopes[fold], _phi(X, self.cuts)
        logit = np.hstack([phi @ slopes.theta, phi @ slopes.w]) @ _terms(self.members, slopes.v).T
        logit += np.log(self.base.shares[fold])[self.base.strata(X, fold)]
        logit -= logit.max(axis=1, keepdims=True)
        np.exp(logit, out=logit)
        logit /= logit.sum(axis=1, keepdims=True)
        return logit


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

    def counts(self, members: Floats, offset: Floats) -> _Counts:
        """Return them as counts: one row for all records with the same phi and stratum."""
        rows = np.ascontiguousarray(np.column_stack([self.phi, self.stratum.astype(np.float32)]))
        _, first, place = np.unique(
            rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel(),
            return_index=True,
            return_inverse=True,
        )
        key, at = np.unique(place.astype(np.int64) * len(members) + self.menu, return_inverse=True)
        weight = np.bincount(at, self.weight).astype(np.float32)
        total = np.bincount(place, self.weight).astype(np.float32)
        row, menu = key // len(members), key % len(members)
        return _Counts(self.phi[first], self.stratum[first], total, row, menu, weight, offset, members)


def _draws(
    log: Feedback, X: Features, seen: Bools, form: _Form, strata: _Strata, cells: int, rng: np.random.Generator
) -> _Draws:
    """Return the records at some contexts, cells / M of them at random."""
    records = sampled(records_of(log, seen), max(_FEWEST, cells // max(1, len(log.menus))), rng)
    context = log.context_of[records]
    menu, weight = log.menus.of_record[records].astype(np.int64), log.records.weights[records]
    return _Draws(form(X[context]), strata(context), menu, weight, log.units[context])


# -- the loss ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """How often each menu was drawn at each of U rows.

    Of the rows (U, q) phi, (U,) strata, which are rows of `offset`, (strata, M) log shares of the base, and weight in
    all; of the cells that were drawn at all, by row, (C,) row, menu and weight; and (M, K) the members of the menus.
    """

    phi: Floats
    stratum: Ints
    total: Floats
    row: Ints
    menu: Ints
    weight: Floats
    offset: Floats
    members: Floats

    def loss(self, slopes: Slopes) -> tuple[float, Slopes]:
        """Return the weighted log loss summed over draws and its gradient."""
        terms, n_agents = _terms(self.members, slopes.v), self.members.shape[1]
        score = np.hstack([self.phi @ slopes.theta, self.phi @ slopes.w])
        back, pull = np.zeros_like(score), np.zeros((len(terms), slopes.v.shape[1]), np.float32)
        total = 0.0
        for rows, cells in self._chunks():
            loss, residual = self._residual(score[rows], terms, rows, cells)
            total += loss
            back[rows] = residual @ terms
            pull += residual.T @ score[rows, n_agents:]
        slope = self.phi.T @ back
        together = self.members @ slopes.v
        gradient_v = self.members.T @ (together * pull) - slopes.v * (self.members.T @ pull)
        return total, Slopes(slope[:, :n_agents], slope[:, n_agents:], gradient_v)

    def _residual(self, score: Floats, terms: Floats, rows: slice, cells: slice) -> tuple[float, Floats]:
        """Return the loss of some rows and (rows, M) expected less drawn, by weight."""
        logit = score @ terms.T
        logit += self.offset[self.stratum[rows]]
        at, menu, weight = self.row[cells] - rows.start, self.menu[cells], self.weight[cells]
        drawn = logit[at, menu]
        top = logit.max(axis=1, keepdims=True)
        logit -= top
        np.exp(logit, out=logit)
        size = logit.sum(axis=1, keepdims=True)
        total = self.total[rows, None]
        loss = float((total * (np.log(size) + top)).sum(dtype=np.float64) - weight @ drawn.astype(np.float64))
        logit *= total / size
        logit[at, menu] -= weight
        return loss, logit

    def _chunks(self) -> Iterator[tuple[slice, slice]]:
        step = max(1, _CHUNK_CELLS // len(self.members))
        for start in range(0, len(self.phi), step):
            stop = min(start + step, len(self.phi))
            yield slice(start, stop), slice(*np.searchsorted(self.row, [start, stop]))

    def pair_residuals(self, slopes: Slopes) -> tuple[Floats, Floats]:
        """Return (q, M) draws less expectation of each menu, summed with weights phi, and their variances."""
        terms = _terms(self.members, slopes.v)
        score = np.hstack([self.phi @ slopes.theta, self.phi @ slopes.w])
        surplus, variance = np.zeros((2, self.phi.shape[1], len(terms)), np.float32)
        for rows, cells in self._chunks():
            residual = self._residual(score[rows], terms, rows, cells)[1]
            surplus -= self.phi[rows].T @ residual
            residual[self.row[cells] - rows.start, self.menu[cells]] += self.weight[cells]
            variance += (self.phi[rows] ** 2).T @ residual
        return surplus, variance


def _terms(members: Floats, v: Floats) -> Floats:
    """Return (M, K + R): which agents are in a menu, and of each pair term sum over j < k in m of v_j v_k."""
    return np.hstack([members, ((members @ v) ** 2 - members @ v**2) / 2])


# -- fitting ----------------------------------------------------------------------------------------------------------


def _zero(width: int, n_agents: int) -> Slopes:
    return Slopes(
        np.zeros((width, n_agents), np.float32), np.zeros((width, 0), np.float32), np.zeros((n_agents, 0), np.float32)
    )


def _minimised(counts: _Counts, penalty: float, start: Slopes, iterations: int = _ITERATIONS) -> Slopes:
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


def _with_pairs(counts: _Counts, slopes: Slopes) -> Slopes:
    """Add pair terms that point where pairs of agents meet more or less often than theta says.

    For each feature the surplus of every pair, in standard errors, is a symmetric matrix; the leading eigenvectors over
    all features are v, and w starts at their feature. From zero no gradient would move them.
    """
    surplus, variance = counts.pair_residuals(slopes)
    n_agents = counts.members.shape[1]
    sums = [_by_pair(each, counts.members) for each in (surplus, variance)]
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


def _by_pair(values: Floats, members: Floats) -> Floats:
    """Return (q, K, K) sums of the menus' values, (q, M), over the menus that hold each pair; zero diagonals."""
    sums = np.stack([(members * row[:, None]).T @ members for row in values]).astype(np.float64)
    sums[:, np.arange(members.shape[1]), np.arange(members.shape[1])] = 0.0
    return sums


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
            draws = _draws(log, X, train[fold], lambda rows: _inputs(rows, numbers), np.zeros_like, _FIT_CELLS, rng)
            return _slopes(draws, offset[fold], rng)

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

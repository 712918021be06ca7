"""Propensities by a softmax over menus whose logits are built from agents, for any number of menus.

    p(m | x)  proportional to  base_m(x) exp( sum over j in m of theta_j . phi(x)
                                              + sum over r of (w_r . phi(x)) sum over j < k in m of v_rj v_rk ),

where base are shares of the menus, overall or by stratum (`Strata`), and phi(x) is the network form of a context, with
indicators of the quantile bins of its numbers, hinges at some of their quantiles, and a constant. There are K slopes
per feature and a few pair terms, not one slope per menu; the pair terms say that some groups of agents meet one another
more often at some contexts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.feedback.log import Feedback
from nasheval.nuisance.cuts import Cut, cuts, hinges
from nasheval.nuisance.learners import Effort, Features, records_of
from nasheval.nuisance.strata import StrataModels
from nasheval.nuisance.trees import held_out, run_all

_BINS = (16,)
_FIRST_CELLS = 1 << 22  # rows x menus that a model is first fitted on; more records than that are sampled
_LAST_CELLS = 1 << 25  # and on which that fit is then improved
_FEWEST = 2000  # records that are kept all the same
_CHUNK_CELLS = 1 << 19
_ITERATIONS, _MORE_ITERATIONS = 20, 8
_NO_SLOPES: tuple[float | None, int] = (None, 0)


class Slopes(NamedTuple):
    """What is learned: theta (q, K), w (q, R) and v (K, R), float32."""

    theta: Floats
    w: Floats
    v: Floats


@dataclass(frozen=True)
class AgentSoftmax:
    """The softmax of the module, with a ridge penalty on theta, w and v.

    Penalty and rank are chosen on a fifth of the first training set, all other training sets use the same; no slopes at
    all is among the choices. A model is fitted on 2^22 / M records, but no fewer than 2,000, drawn at random, and then
    improved on 2^25 / M.

    Args:
        base: models of the base shares, one per training set.
        rank: R, pair terms.
        penalties: ridge penalties to try, falling; the first that does worse than those before ends the search.
    """

    base: StrataModels
    rank: int = 3
    penalties: tuple[float, ...] = (300.0, 30.0, 3.0, 0.3)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> AgentSoftmaxModels:
        """Fit one model on each training set; see `Learner.fit`."""
        form = _Form(cuts(log, X, _BINS, categories=False))
        menus = _Menus.of(log)

        def draws(fold: int, cells: int) -> _Draws:
            rng = np.random.default_rng([effort.seed, fold])
            return _draws(log, X, train[fold], form, self.base.strata(X, fold), cells, rng)

        def fit_fold(fold: int) -> Slopes:
            zero, offset = _zero(form.width(X), log.n_agents), np.log(self.base.shares[fold])
            if penalty is None:
                return zero
            first = draws(fold, _FIRST_CELLS)
            slopes = _fitted(first.counts(menus, offset), penalty, rank, zero)
            last = draws(fold, _LAST_CELLS)
            if len(last.menu) == len(first.menu):
                return slopes
            return _minimised(last.counts(menus, offset), penalty, slopes, _MORE_ITERATIONS)

        penalty, rank = self._chosen(draws(0, _FIRST_CELLS), menus, effort)
        slopes = run_all(fit_fold, range(len(train)), len(train), effort)
        return AgentSoftmaxModels(self.base, form.cuts, menus.members, tuple(slopes), penalty)

    def _chosen(self, draws: _Draws, menus: _Menus, effort: Effort) -> tuple[float | None, int]:
        """Return the penalty and the rank that do best on held-out contexts of the first training set."""
        held = held_out(draws.unit, np.random.default_rng(effort.seed))
        if held.all() or not held.any():
            return _NO_SLOPES
        offset = np.log(self.base.shares[0])
        kept, test = (draws[rows].counts(menus, offset) for rows in (~held, held))
        theta = _zero(draws.phi.shape[1], menus.members.shape[1])
        best, choice = test.loss(theta)[0], _NO_SLOPES
        for number, penalty in enumerate(self.penalties):
            theta = _minimised(kept, penalty, theta)
            losses = {0: test.loss(theta)[0]}
            if self.rank:
                losses[self.rank] = test.loss(_minimised(kept, penalty, _with_pairs(kept, theta, self.rank)))[0]
            rank = min(losses, key=lambda one: losses[one])
            if losses[rank] < best:
                best, choice = losses[rank], (penalty, rank)
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
        """Return (n, M) probabilities, rows sum to one."""
        slopes, phi = self.slopes[fold], _Form(self.cuts).of(X)
        offset, stratum = np.log(self.base.shares[fold]), self.base.strata(X, fold)
        terms = _terms(self.members, slopes.v)
        logit = np.hstack([phi @ slopes.theta, phi @ slopes.w]) @ terms.T + offset[stratum]
        return _normalised(logit).astype(np.float64)


# -- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """phi: the network form, indicators of the bins of numbers, hinges at five knots of each, and a constant."""

    cuts: tuple[Cut, ...]

    def width(self, X: Features) -> int:
        return int(self.of(X[:1]).shape[1])

    def of(self, X: Features) -> Floats:
        bins = [(cut.codes(X)[:, None] == np.arange(cut.size)).astype(np.float32) for cut in self.cuts]
        curves = hinges(tuple(cut for cut in self.cuts if not cut.exact), X)
        return np.hstack([X.network.astype(np.float32), *bins, curves, np.ones((len(X), 1), np.float32)])


@dataclass(frozen=True)
class _Menus:
    """(M, K) float32, one where an agent is in a menu."""

    members: Floats

    @staticmethod
    def of(log: Feedback) -> _Menus:
        members = np.zeros((len(log.menus), log.n_agents), np.float32)
        members[np.repeat(np.arange(len(log.menus)), log.menus.sizes), log.menus.agent] = 1.0
        return _Menus(members)


@dataclass(frozen=True)
class _Draws:
    """Records: (N, q) phi, (N,) strata of the base, menus, weights and units that are held out whole."""

    phi: Floats
    stratum: Ints
    menu: Ints
    weight: Floats
    unit: Ints

    def __getitem__(self, rows: Bools) -> _Draws:
        return _Draws(self.phi[rows], self.stratum[rows], self.menu[rows], self.weight[rows], self.unit[rows])

    def counts(self, menus: _Menus, offset: Floats) -> _Counts:
        """Return them as counts: one row for all records with the same phi and stratum."""
        rows = np.ascontiguousarray(np.column_stack([self.phi, self.stratum.astype(np.float32)]))
        _, first, place = np.unique(
            rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel(),
            return_index=True,
            return_inverse=True,
        )
        key, at = np.unique(place.astype(np.int64) * len(menus.members) + self.menu, return_inverse=True)
        weight = np.bincount(at, self.weight).astype(np.float32)
        total = np.bincount(place, self.weight).astype(np.float32)
        row, menu = key // len(menus.members), key % len(menus.members)
        return _Counts(self.phi[first], self.stratum[first], total, row, menu, weight, offset, menus.members)


def _draws(
    log: Feedback, X: Features, seen: Bools, form: _Form, stratum: Ints, cells: int, rng: np.random.Generator
) -> _Draws:
    """Return the records at some contexts, cells / M of them at random; stratum is (n_contexts,)."""
    records = records_of(log, seen)
    most = max(_FEWEST, cells // max(1, len(log.menus)))
    if len(records) > most:
        records = np.sort(rng.choice(records, most, replace=False))
    context = log.context_of[records]
    menu, weight = log.menus.of_record[records].astype(np.int64), log.records.weights[records]
    return _Draws(form.of(X[context]), stratum[context], menu, weight, log.units[context])


# -- the loss ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """How often each menu was drawn at each of U rows.

    Args:
        phi: (U, q) features.
        stratum: (U,) rows of `offset`.
        total: (U,) weight of all draws.
        row, menu, weight: (C,) cells that were drawn at all, by row, and their weight.
        offset: (strata, M) log shares of the base.
        members: (M, K) one where an agent is in a menu.
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


def _normalised(logit: Floats) -> Floats:
    logit -= logit.max(axis=1, keepdims=True)
    np.exp(logit, out=logit)
    logit /= logit.sum(axis=1, keepdims=True)
    return logit


# -- fitting ----------------------------------------------------------------------------------------------------------


def _zero(width: int, n_agents: int) -> Slopes:
    return Slopes(
        np.zeros((width, n_agents), np.float32), np.zeros((width, 0), np.float32), np.zeros((n_agents, 0), np.float32)
    )


def _fitted(counts: _Counts, penalty: float, rank: int, zero: Slopes) -> Slopes:
    """Fit theta alone, then all of it from where its residuals point."""
    theta = _minimised(counts, penalty, zero)
    return _minimised(counts, penalty, _with_pairs(counts, theta, rank)) if rank else theta


def _minimised(counts: _Counts, penalty: float, start: Slopes, iterations: int = _ITERATIONS) -> Slopes:
    """Return the slopes that minimise log loss + penalty / 2 |slopes|^2, by L-BFGS from a start."""
    from scipy.optimize import minimize

    scale = float(counts.total.sum())

    def objective(flat: Floats) -> tuple[float, Floats]:
        slopes = _shaped(flat.astype(np.float32), start)
        value, gradient = counts.loss(slopes)
        return (value + penalty / 2 * float(flat @ flat)) / scale, (_flat(gradient) + penalty * flat) / scale

    options = {"maxiter": iterations, "ftol": 1e-6, "gtol": 1e-6}
    return _shaped(minimize(objective, _flat(start), jac=True, method="L-BFGS-B", options=options).x, start)


def _flat(slopes: Slopes) -> Floats:
    return np.concatenate([array.ravel() for array in slopes]).astype(np.float64)


def _shaped(flat: Floats, like: Slopes) -> Slopes:
    ends = np.cumsum([array.size for array in like])
    arrays = np.split(flat.astype(np.float32), ends[:-1])
    return Slopes(*(array.reshape(one.shape) for array, one in zip(arrays, like, strict=True)))


def _with_pairs(counts: _Counts, slopes: Slopes, rank: int) -> Slopes:
    """Add pair terms that point where pairs of agents meet more or less often than theta says.

    For each feature the surplus of every pair, in standard errors, is a symmetric matrix; the leading eigenvectors over
    all features are v, and w starts at their feature. From zero no gradient would move them.
    """
    surplus, variance = counts.pair_residuals(slopes)
    n_agents = counts.members.shape[1]
    sums = [_by_pair(each, counts.members) for each in (surplus, variance)]
    z = sums[0] / np.sqrt(sums[1] + max(float(sums[1].mean()), 1e-6))
    values, vectors = np.linalg.eigh(z)
    order = np.argsort(-np.abs(values).ravel(), kind="stable")[:rank]
    feature, place = np.divmod(order, n_agents)
    w, v = np.zeros((len(z), rank), np.float32), np.zeros((n_agents, rank), np.float32)
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

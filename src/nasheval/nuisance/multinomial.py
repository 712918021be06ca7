"""Propensities that sum to one over the menus, for logs that draw one menu a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort, Features, records_of
from nasheval.nuisance.marginal import menu_shares
from nasheval.nuisance.trees import held_out, require_draws, run_all

_FREE_MENUS = 50  # up to this many menus each has slopes of its own
_FIT_CELLS = 1 << 24  # records x menus that the slopes are fitted on; more records than that are sampled
_CHUNK_CELLS = 1 << 19


@dataclass(frozen=True)
class Multinomial:
    """P(the menu drawn is m | x), which sum to one over the menus; for logs that draw one menu a record.

    p(m | x) is proportional to share_m exp(theta_m . x) with a ridge penalty on theta, chosen on a fifth of the
    training contexts; no slopes at all, the shares, is among the choices. With more than 50 menus the slopes are sums
    over a menu's agents, theta_m = sum of theta_j (K of them, not M), and they are fitted on at most 2^24 / M records,
    drawn at random. `TreeMultinomial` is the same with LightGBM.

    Args:
        penalties: ridge penalties to try, falling; the first that does worse than the one before ends the search.
    """

    penalties: tuple[float, ...] = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> SoftmaxModels:
        """Fit one model on each training set; see `Learner.fit`."""
        require_draws(log)
        members = _members(log) if len(log.menus) > _FREE_MENUS else None
        offset = np.log([menu_shares(log, seen) for seen in train])

        def fit_fold(fold: int) -> Floats:
            rng = np.random.default_rng([effort.seed, fold])
            return _slopes(_draws(log, X, train[fold], rng), offset[fold], members, self.penalties, rng)

        theta = run_all(fit_fold, range(len(train)), len(train), effort)
        return SoftmaxModels(readonly(offset), readonly(np.stack(theta)), members)


@dataclass(frozen=True)
class SoftmaxModels:
    """Linear multinomial models, one a fold.

    Args:
        offset: (folds, M) log shares of the menus.
        theta: (folds, q + 1, D) slopes, the constant last.
        members: (M, D) which slopes a menu sums; None: D = M, a menu has its own.
    """

    offset: Floats
    theta: Floats
    members: Floats | None

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) probabilities, rows sum to one."""
        return _softmax(_with_one(X.network), self.offset[fold], self.theta[fold], self.members)


@dataclass(frozen=True)
class _Draws:
    """Records as draws: (N, q + 1) contexts with a constant, (N,) menus, weights and what is held out whole."""

    x: Floats
    menu: Ints
    weight: Floats
    unit: Ints

    def __getitem__(self, rows: Bools | slice) -> _Draws:
        return _Draws(self.x[rows], self.menu[rows], self.weight[rows], self.unit[rows])

    def chunks(self, n_menus: int) -> Iterator[_Draws]:
        step = max(1, _CHUNK_CELLS // n_menus)
        return (self[start : start + step] for start in range(0, len(self.menu), step))


def _draws(log: Feedback, X: Features, seen: Bools, rng: np.random.Generator) -> _Draws:
    records = records_of(log, seen)
    most = max(2000, _FIT_CELLS // len(log.menus))
    if len(records) > most:
        records = np.sort(rng.choice(records, most, replace=False))
    context = log.context_of[records]
    x, weight = _with_one(X.network[context]), log.records.weights[records]
    return _Draws(x, log.menus.of_record[records], weight, log.units[context])


def _members(log: Feedback) -> Floats:
    """Return (M, K) ones where an agent is in a menu."""
    members = np.zeros((len(log.menus), log.n_agents))
    members[np.repeat(np.arange(len(log.menus)), log.menus.sizes), log.menus.agent] = 1.0
    return members


def _with_one(x: Floats) -> Floats:
    return np.column_stack([x, np.ones(len(x))]).astype(np.float64)


def _softmax(x: Floats, offset: Floats, theta: Floats, members: Floats | None) -> Floats:
    logit: Floats = x @ (theta if members is None else theta @ members.T)
    logit += offset
    logit -= logit.max(axis=1, keepdims=True)
    np.exp(logit, out=logit)
    logit /= logit.sum(axis=1, keepdims=True)
    return logit


def _loss(draws: _Draws, offset: Floats, theta: Floats, members: Floats | None) -> tuple[float, Floats]:
    """Return the weighted log loss summed over draws and its gradient in theta."""
    total, gradient = 0.0, np.zeros((theta.shape[0], len(offset)))
    for part in draws.chunks(len(offset)):
        p, rows = _softmax(part.x, offset, theta, members), np.arange(len(part.menu))
        total -= float(part.weight @ np.log(np.maximum(p[rows, part.menu], 1e-300)))
        p[rows, part.menu] -= 1.0
        gradient += (part.x * part.weight[:, None]).T @ p
    return total, gradient if members is None else gradient @ members


def _ridge(draws: _Draws, offset: Floats, members: Floats | None, penalty: float, start: Floats) -> Floats:
    """Return the theta that minimises log loss + penalty / 2 |theta|^2."""
    from scipy.optimize import minimize

    scale = float(draws.weight.sum())

    def objective(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(start.shape)
        value, gradient = _loss(draws, offset, theta, members)
        return (value + penalty / 2 * float(flat @ flat)) / scale, ((gradient + penalty * theta) / scale).ravel()

    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100, "gtol": 1e-5})
    return np.asarray(found.x).reshape(start.shape)


def _slopes(
    draws: _Draws, offset: Floats, members: Floats | None, penalties: Iterable[float], rng: np.random.Generator
) -> Floats:
    """Fit theta, (q + 1, D), with the penalty that does best on held-out contexts; zeros where none does."""
    held = held_out(draws.unit, rng)
    zero = np.zeros((draws.x.shape[1], len(offset) if members is None else members.shape[1]))
    theta, best, chosen = zero, _loss(draws[held], offset, zero, members)[0], np.inf
    for penalty in penalties if held.any() and not held.all() else ():
        theta = _ridge(draws[~held], offset, members, penalty, theta)
        loss = _loss(draws[held], offset, theta, members)[0]
        if loss >= best:
            break
        best, chosen = loss, penalty
    return zero if np.isinf(chosen) else _ridge(draws, offset, members, chosen, theta)

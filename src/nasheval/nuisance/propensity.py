"""Propensities e^m(x) that are not boosted a menu: known, marginal by stratum, and multinomial over the menus.

What makes sense depends on the log's design (`nasheval.feedback.design`). Under inclusion each menu has a probability
of its own; under draws the probabilities of all menus sum to one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.errors import InputError
from nasheval.feedback.base import Log
from nasheval.nuisance.learners import Effort, Features, FoldModels, Learner, records_of
from nasheval.nuisance.sklearn_models import SklearnPropensity
from nasheval.nuisance.trees import TreeMultinomial, TreePropensity, held_out, require_draws, run_all
from nasheval.nuisance.tuning import TunedTrees

NAMES = ("auto", "known", "lightgbm", "multinomial", "marginal")
_ACCEPTED = f"{', '.join(map(repr, NAMES))}, a callable or a scikit-learn classifier"
FEW_MENUS = 200  # "auto" models draws by context up to this many menus
_MOST_STRATA = 1000
_FREE_MENUS = 50  # up to this many menus each has slopes of its own
_FIT_CELLS = 1 << 24  # records x menus that the slopes are fitted on; more records than that are sampled
_CHUNK_CELLS = 1 << 19

Rule = Callable[[Features], Any]  # contexts -> (n, M) propensities


def choose_propensity(choice: Any, log: Log) -> Learner:
    """Return the learner behind a name, or an InputError where the log's design rules it out.

    Args:
        choice: "auto": known propensities where the log carries them; else under inclusion LightGBM a menu with the
            number of trees chosen on training contexts (a hundred of them overfit: on the paper's simulation with 2,000
            contexts they are off by 0.14, and by 0.08 so), under draws multinomial if there are at most 200 menus; and
            marginal with more menus, or without any context column. "known". "lightgbm":
            under inclusion a classifier a menu, as printed in the paper; under draws one multiclass model, so that
            propensities sum to one. "multinomial": draws only. "marginal": shares of the menus, whatever the context.
            A callable of `Features`: known. A scikit-learn classifier. A `Learner` is returned as it is.
    """
    if isinstance(choice, str):
        return _named(choice, log)
    if callable(getattr(choice, "predict_proba", None)):
        return SklearnPropensity(choice)
    if callable(getattr(choice, "fit", None)):
        return choice  # type: ignore[no-any-return]
    if callable(choice):
        return Known(choice)
    raise InputError(f"propensity is {choice!r}; accepted are {_ACCEPTED}.")


def _named(name: str, log: Log) -> Learner:
    if name == "auto":
        return _automatic(log)
    draws = log.design == "draws"
    if name == "known":
        return Known().checked(log)
    if name == "lightgbm":
        return TreeMultinomial() if draws else TreePropensity()
    if name == "marginal":
        return Marginal()
    if name == "multinomial":
        require_draws(log)
        return Multinomial()
    raise InputError(f"propensity is {name!r}; accepted are {_ACCEPTED}.")


def _automatic(log: Log) -> Learner:
    if log.records.propensity is not None:
        return Known()
    if not log.contexts.num_columns:
        return Marginal()
    if log.design == "inclusion":
        return TunedTrees(TreePropensity(), how="trees", columns=5, per_fold=False)
    return Multinomial() if len(log.menus) <= FEW_MENUS else Marginal()


# -- known ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """Propensities that whoever asked the questions knows.

    Args:
        rule: a function of contexts, (n, M) propensities; None: the log says them record by record.
    """

    rule: Rule | None = None

    def checked(self, log: Log) -> Known:
        """Return itself; an InputError where the log says no propensities and there is no rule."""
        if self.rule is None and log.records.propensity is None:
            raise InputError(
                "propensity is 'known', but this log carries none; name the column when reading, give a callable, or "
                "use propensity='auto' to estimate it."
            )
        return self

    def fit(self, log: Log, X: Features, train: Bools, effort: Effort) -> FoldModels:
        """Return what is known; see `Learner.fit`."""
        self.checked(log)
        effort.advance(1.0)
        if self.rule is not None:
            return RuleModels(self.rule, len(log.menus))
        return KnownModels(np.asarray(log.records.propensity))


@dataclass(frozen=True)
class KnownModels:
    """Propensities known at the records of one log, and nowhere else.

    Args:
        values: (n_records,) e^m of each record.
    """

    values: Floats

    def of_records(self) -> Floats:
        """Return (n_records,) e^m of each record."""
        return self.values

    def predict(self, X: Features, fold: int) -> Floats:
        """Refuse: the log does not say what it would have been elsewhere."""
        raise InputError(
            "The propensities of this log are known record by record only; to have them at other contexts, fit with "
            "propensity=a callable, or estimate them (propensity='lightgbm', 'multinomial' or 'marginal')."
        )


@dataclass(frozen=True)
class RuleModels:
    """Propensities from a function of contexts.

    Args:
        rule: contexts -> (n, M).
        n_menus: M.
    """

    rule: Rule
    n_menus: int

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) propensities, the same for every fold."""
        values = np.asarray(self.rule(X), np.float64)
        if values.shape != (len(X), self.n_menus):
            raise InputError(
                f"The propensity callable returned an array of shape {values.shape}; accepted is {len(X)} contexts by "
                f"{self.n_menus} menus, in the order of log.menus."
            )
        if not ((values > 0) & (values <= 1)).all():
            raise InputError("The propensity callable returned a value outside (0, 1]; accepted are probabilities.")
        return values


# -- marginal ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marginal:
    """The share of each menu, overall or by stratum of the context.

    Under draws a share of records, which sum to one; under inclusion the share of contexts that include the menu. The
    share in a stratum is shrunken to the overall share, and a stratum never seen has the overall share.

    Args:
        by: context columns that make the strata, by name or by their number in `Features.trees`; None: no strata.
        prior: how many records (or contexts) the overall share is worth in a stratum.
    """

    by: str | int | Iterable[str | int] | None = None
    prior: float = 20.0

    def fit(self, log: Log, X: Features, train: Bools, effort: Effort) -> MarginalModels:
        """Count the menus on each training set; see `Learner.fit`."""
        columns = _column_numbers(self.by, X)
        levels, stratum = _strata(X, columns)
        if len(levels) > _MOST_STRATA:
            raise InputError(
                f"by={self.by!r} makes {len(levels):,} strata; accepted are at most {_MOST_STRATA:,}: columns of a few "
                f"categories."
            )
        shares = [self._shares(log, seen, stratum, len(levels)) for seen in train]
        effort.advance(1.0)
        return MarginalModels(columns, readonly(levels), readonly(np.stack(shares)))

    def _shares(self, log: Log, seen: Bools, stratum: Ints, n_strata: int) -> Floats:
        """Return (n_strata + 1, M) shares, the last row overall."""
        n_menus, overall = len(log.menus), menu_shares(log, seen)
        context, menu, weight = _asked(log, seen)
        cell = stratum[context].astype(np.int64) * n_menus + menu
        count = np.bincount(cell, weight, n_strata * n_menus)[: n_strata * n_menus].reshape(n_strata, n_menus)
        if log.design == "draws":
            total = count.sum(axis=1, keepdims=True)
        else:
            total = np.bincount(stratum[seen], minlength=n_strata)[:n_strata, None]
        return np.vstack([(count + self.prior * overall) / (total + self.prior), overall])


@dataclass(frozen=True)
class MarginalModels:
    """Shares of the menus by stratum.

    Args:
        columns: the columns of `Features.trees` that make the strata.
        levels: (S, len(columns)) their values in each stratum, -1 where missing.
        shares: (folds, S + 1, M) e^m in each stratum, the last row for strata that were never seen.
    """

    columns: tuple[int, ...]
    levels: Floats
    shares: Floats

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, M) the shares in each context's stratum."""
        number = {tuple(level): s for s, level in enumerate(self.levels.tolist())}
        found, place = _strata(X, self.columns)
        stratum = np.array([*(number.get(tuple(level), -1) for level in found.tolist()), -1], np.int64)
        return np.asarray(self.shares[fold][stratum[place]])


def _strata(X: Features, columns: tuple[int, ...]) -> tuple[Floats, Ints]:
    """Return (S, columns) the values that some columns take and (n,) the stratum of each context."""
    if not columns:
        return np.zeros((0, 0), np.float32), np.zeros(len(X), np.int64)
    levels, stratum = np.unique(np.nan_to_num(X.trees[:, list(columns)], nan=-1.0), axis=0, return_inverse=True)
    return levels, stratum.ravel()


def _column_numbers(by: Any, X: Features) -> tuple[int, ...]:
    wanted = () if by is None else (by,) if isinstance(by, str | int) else tuple(by)
    accepted = set(X.names) | set(range(X.trees.shape[1]))
    missing = [column for column in wanted if column not in accepted]
    if missing:
        names = ", ".join(map(repr, X.names[:20])) or f"0 to {X.trees.shape[1] - 1}"
        raise InputError(f"by names {', '.join(map(repr, missing))}; accepted are context columns: {names}.")
    return tuple(X.names.index(column) if isinstance(column, str) else column for column in wanted)


def _asked(log: Log, seen: Bools) -> tuple[Ints, Ints, Floats]:
    """Return context, menu and weight of what was asked: each record, or each inclusion once."""
    records = records_of(log, seen)
    context, menu, weight = log.context_of[records], log.menus.of_record[records], log.records.weights[records]
    if log.design == "draws":
        return context, menu, weight
    once = np.unique(context.astype(np.int64) * len(log.menus) + menu)
    return once // len(log.menus), once % len(log.menus), np.ones(len(once))


def menu_shares(log: Log, seen: Bools) -> Floats:
    """Return (M,) the smoothed share of each menu over some contexts; under draws they sum to one."""
    _, menu, weight = _asked(log, seen)
    count = np.bincount(menu, weight, len(log.menus)) + 0.5
    return count / (count.sum() if log.design == "draws" else int(seen.sum()) + 1.0)


# -- multinomial ------------------------------------------------------------------------------------------------------


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

    penalties: tuple[float, ...] = (1000.0, 100.0, 10.0, 1.0)

    def fit(self, log: Log, X: Features, train: Bools, effort: Effort) -> SoftmaxModels:
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
    """Records as draws: (N, q + 1) contexts with a constant, (N,) menus, weights and context numbers."""

    x: Floats
    menu: Ints
    weight: Floats
    context: Ints

    def __getitem__(self, rows: Bools | slice) -> _Draws:
        return _Draws(self.x[rows], self.menu[rows], self.weight[rows], self.context[rows])

    def chunks(self, n_menus: int) -> Iterator[_Draws]:
        step = max(1, _CHUNK_CELLS // n_menus)
        return (self[start : start + step] for start in range(0, len(self.menu), step))


def _draws(log: Log, X: Features, seen: Bools, rng: np.random.Generator) -> _Draws:
    records = records_of(log, seen)
    most = max(2000, _FIT_CELLS // len(log.menus))
    if len(records) > most:
        records = np.sort(rng.choice(records, most, replace=False))
    context = log.context_of[records]
    return _Draws(_with_one(X.network[context]), log.menus.of_record[records], log.records.weights[records], context)


def _members(log: Log) -> Floats:
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
    held = held_out(draws.context, rng)
    zero = np.zeros((draws.x.shape[1], len(offset) if members is None else members.shape[1]))
    theta, best, chosen = zero, _loss(draws[held], offset, zero, members)[0], np.inf
    for penalty in penalties:
        theta = _ridge(draws[~held], offset, members, penalty, theta)
        loss = _loss(draws[held], offset, theta, members)[0]
        if loss >= best:
            break
        best, chosen = loss, penalty
    return zero if np.isinf(chosen) else _ridge(draws, offset, members, chosen, theta)

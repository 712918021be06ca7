"""What style and position are worth: beta of E[Z | x, pair, d] = h(eta(x) + beta'd), free of who the agents are.

An agent that writes long answers is compared at large d, and may be better for other reasons. So beta is estimated as
in Robinson (1988) and double machine learning, from what is left of Z and of d once context and pair are accounted for.
On a straight line, h(u) = u and eta = mu - beta'm, that is

    r_Z = Z - mu(x),   r_d = d - m(x),   beta = (sum w r_d r_d')^-1 sum w r_d r_Z,   m = E[d | x, pair],

both out of fold; on a curve (`nasheval.nuisance.links`) the same with slopes h'. The one that leaves less of the
verdicts is taken. m is antisymmetric: g_j(x) - g_k(x) + t_jk, with an intercept per agent, slopes in the context (a
ridge whose size is chosen on contexts held out, none included), and what a pair has beyond its agents, shrunk. The
payoff at equal style is h(eta(x)); docs/method.md, "At equal style", has its influence function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Bools, Floats, Ints, bin_sums, n_pairs, readonly
from nasheval.feedback.log import Feedback
from nasheval.feedback.style import POSITION, columns_of, differences, one_order
from nasheval.notes import Note
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.nuisance.learners import Features, held_out
from nasheval.nuisance.links import Curved, Link, Straight

_RIDGES = (0.001, 0.01, 0.1, 1.0)  # of slopes in the context, as shares of the votes per agent
_CELLS = 1 << 20  # numbers in the design that slopes are learned from
_STEPS, _EXACT = 50, 1e-6  # of conjugate gradients and of Newton's method, and how exact they are
_MOST = 20.0  # of beta: beyond, a curve is a wall
_UNKNOWN = 0.5  # share of votes in which a column may be unknown
_LEAST = 0.01  # of the variance of a column, what must be left of it given context, pair and the columns before it
_ALONE = 1e-8  # ridge of the intercepts: it decides nothing that votes decide


@dataclass(frozen=True, eq=False)
class StyleModels:
    """m(x, pair) = g_j(x) - g_k(x) + t_jk of S columns, one model per fold.

    Args:
        agent: (folds, S, K, 1 + q) of g: an intercept, and slopes in the features for networks.
        pair: (folds, S, n_pairs) t.
    """

    agent: Floats
    pair: Floats

    @cached_property
    def _ends(self) -> tuple[Ints, Ints]:
        return np.triu_indices(self.agent.shape[2], 1)

    def cells(self, X: Features, fold: Ints, rows: Ints, pair: Ints) -> Floats:
        """Return (cells, S) m at rows[i] of X and pair[i], by the model of fold[i]."""
        values, (j, k) = np.empty((len(rows), self.agent.shape[1])), self._ends
        for number in range(len(self.agent)):
            own = np.flatnonzero(fold == number)
            g, inside = self.agent[number], X.network[rows[own]]
            for s in range(g.shape[0]):
                slope = g[s, j[pair[own]]] - g[s, k[pair[own]]]
                along = np.einsum("ij,ij->i", inside, slope[:, 1:])
                values[own, s] = slope[:, 0] + along + self.pair[number, s, pair[own]]
        return values

    def surface(self, X: Features, weight: Floats, fold: int | None = None) -> Floats:
        """Return (n, n_pairs) weight'm, given (S,) weights, by the model of a fold; None: the mean over folds."""
        agent, pair = self._of(fold)
        g = np.tensordot(weight, agent, 1)
        at = X.network @ g[:, 1:].T + g[:, 0]
        j, k = self._ends
        return np.asarray(at[:, j] - at[:, k] + weight @ pair, np.float64)

    def _of(self, fold: int | None) -> tuple[Floats, Floats]:
        return self._mean if fold is None else (self.agent[fold], self.pair[fold])

    @cached_property
    def _mean(self) -> tuple[Floats, Floats]:
        return self.agent.mean(axis=0), self.pair.mean(axis=0)


@dataclass(frozen=True, eq=False)
class Adjustment:
    """What was adjusted for, and how; v counts the observed pair verdicts, in the log's order.

    Args:
        fit: the nuisances of the verdicts as voted.
        names: of the S columns.
        models: m.
        beta: (S,) what one more of d adds to the index of a verdict: to the verdict itself, where h is straight.
        curved: whether h is tanh.
        left_out: why other columns that were asked for are not among them.
    """

    fit: NuisanceFit
    names: tuple[str, ...]
    models: StyleModels
    beta: Floats
    curved: bool = False
    left_out: tuple[Note, ...] = ()

    @cached_property
    def rest(self) -> Floats:
        """(v, S) r_d = d - m, out of fold; 0 where some of d is unknown."""
        return readonly(_rest(self.fit, self.models, differences(self.fit.log.whole, self.names)))

    @cached_property
    def link(self) -> Link:
        """The form h."""
        return Curved.of(self.rest[self._known], self.beta) if self.curved and self._known.any() else Straight()

    @cached_property
    def _known(self) -> Bools:
        return np.asarray(self.rest.any(axis=1))

    @cached_property
    def _index(self) -> tuple[Floats, Floats]:
        """(v,) twice: the index of each verdict's pair at the style it has on average, and at that of the verdict."""
        index = self.link.index(self.fit.mu)
        return index, index + self.rest @ self.beta

    @cached_property
    def residual(self) -> Floats:
        """(v,) Z less its mean given context, pair and d; given context and pair where d is unknown."""
        mean = np.where(self._known, self.link.value(self._index[1]), self.fit.mu)
        return readonly(np.asarray(self.fit.log.verdicts.z - mean, np.float64))

    @cached_property
    def moved(self) -> Floats:
        """(v, S) what the mean of each verdict moves by with beta, mu being what it is; on average 0."""
        index, there = self._index
        slope = self.link.slope(there)[:, None] * (self.rest - self.link.centre(index))
        return readonly(np.where(self._known[:, None], slope, 0.0))

    @cached_property
    def ratio(self) -> Floats:
        """(v,) by how much the payoff at equal style moves with that as voted, at each verdict's context and pair."""
        context, pair = places(self.fit.log)
        index, average = self._index[0], self.models.cells(self.fit.X, self.fit.fold[context], context, pair)
        return readonly(self.link.slope(index - average @ self.beta) / self.link.mean_slope(index))

    @cached_property
    def score(self) -> Floats:
        """(v, S) what each verdict adds to the error of beta."""
        weight = self.fit.log.records.weights[self.fit.log.verdicts.record]
        step = _step(self, weight)
        return readonly((weight * self.residual)[:, None] * step)

    def equal(self, mu: Floats, style: Floats) -> Floats:
        """Return payoffs at equal style, given those as voted and beta'm."""
        return self.link.value(self.link.index(mu) - style)

    def slopes(self, mu: Floats, m: Floats, style: Floats, column: int) -> Floats:
        """Return by how much payoffs at equal style fall with one of beta, given those as voted, its m, and beta'm."""
        index, centre = self.link.index(mu), self.link.centre(self.link.index(mu))
        lean = centre[..., column] if isinstance(centre, np.ndarray) else centre
        return np.asarray(self.link.slope(index - style) * (m + lean))


def _step(style: Adjustment, weight: Floats) -> Floats:
    """Return (v, S) the weights of residuals in a step of Newton's method for beta."""
    slope = style.link.slope(style._index[1])
    centred = np.where(style._known[:, None], style.rest - style.link.centre(style._index[0]), 0.0)
    moment = centred.T @ ((weight * slope)[:, None] * centred)
    return np.asarray(np.linalg.solve(moment, centred.T).T)


def fit_style(fit: NuisanceFit, adjust: Sequence[str] | str) -> Adjustment:
    """Estimate what style and position are worth, given cross-fitted outcomes.

    Args:
        adjust: "position", "style" (all columns of style), or names of some of them.
    """
    names, notes, log = list(columns_of(fit.log.whole, adjust)), [], fit.log
    if POSITION in names and (note := one_order(log.whole)):
        names.remove(POSITION)
        notes.append(note)
    d = differences(log.whole, names)
    rare = np.isnan(d).mean(axis=0) > _UNKNOWN
    notes += [_unknown(name) for name, out in zip(names, rare, strict=True) if out]
    names, d = [name for name, out in zip(names, rare, strict=True) if not out], d[:, ~rare]
    models = fit_models(fit, d)
    weight = log.records.weights[log.verdicts.record]
    kept = _varying(_rest(fit, models, d), d, weight)
    notes += [_without(name) for name, inside in zip(names, kept, strict=True) if not inside]
    models = StyleModels(models.agent[:, kept], models.pair[:, kept])
    start = Adjustment(
        fit, tuple(np.array(names, object)[kept]), models, np.zeros(int(kept.sum())), False, tuple(notes)
    )
    if not kept.any():
        return start
    forms = [_solved(start, weight), _solved(replace(start, curved=True), weight)]
    return min((form for form in forms if form is not None), key=lambda form: float(weight @ form.residual**2))


def _solved(style: Adjustment, weight: Floats) -> Adjustment | None:
    """Return the adjustment with its beta, by Newton's method: one step on a straight line; None where it fails."""
    for _ in range(_STEPS if style.curved else 1):
        step = _step(style, weight).T @ (weight * style.residual)
        if not np.isfinite(step).all() or np.abs(style.beta + step).max() > _MOST:
            return None
        style = replace(style, beta=readonly(style.beta + step))
        if np.abs(step).max() < _EXACT:
            return style
    return None if style.curved else style


def _rest(fit: NuisanceFit, models: StyleModels, d: Floats) -> Floats:
    """Return (v, S) d - m out of fold; 0 where some of d is unknown."""
    context, pair = places(fit.log)
    rest = d - models.cells(fit.X, fit.fold[context], context, pair)
    return np.where(np.isnan(d).any(axis=1, keepdims=True), 0.0, rest)


def places(log: Feedback) -> tuple[Ints, Ints]:
    """Return (v,) the context and the pair of each verdict."""
    return log.context_of[log.verdicts.record], log.menus.columns.pair[log.menus.column_of_verdict]


def _varying(rest: Floats, d: Floats, weight: Floats) -> Bools:
    """Return (S,) the columns of which enough is left given context, pair and the columns kept before them."""
    kept = np.zeros(rest.shape[1], bool)
    for s in range(rest.shape[1]):
        own, others = rest[:, s], rest[:, kept]
        left = own - others @ np.linalg.lstsq(others * np.sqrt(weight)[:, None], own * np.sqrt(weight), rcond=None)[0]
        size = float(np.nansum(weight * d[:, s] ** 2))
        kept[s] = size > 0 and float(weight @ left**2) > _LEAST * size
    return kept


def _unknown(name: str) -> Note:
    return Note(f"{name} is unknown in most votes; it is left out of the adjustment", "unknown-style")


def _without(name: str) -> Note:
    text = f"{name} cannot be told from agents: it hardly varies once context and pair, and the columns before it, are"
    return Note(f"{text} accounted for; it is left out of the adjustment", "no-variation")


# -- m ----------------------------------------------------------------------------------------------------------------


def fit_models(fit: NuisanceFit, d: Floats) -> StyleModels:
    """Fit m on all folds but one, for each fold in turn, to differences (v, S)."""
    log, (context, pair) = fit.log, places(fit.log)
    K, weight = log.n_agents, log.records.weights[log.verdicts.record]
    known = ~np.isnan(d).any(axis=1)
    j, k = log.verdicts.j.astype(np.int64), log.verdicts.k.astype(np.int64)
    agents, pairs, ridge = [], [], None
    for fold in range(fit.n_folds):
        rows = np.flatnonzero(known & (fit.fold[context] != fold))
        votes = _Votes(fit.X.network, context[rows], j[rows], k[rows], pair[rows], weight[rows], d[rows], K)
        ridge = votes.chosen_ridge() if ridge is None else ridge
        g, t = votes.fitted(ridge)
        agents.append(g)
        pairs.append(t)
    return StyleModels(np.stack(agents), np.stack(pairs))


@dataclass(frozen=True, eq=False)
class _Votes:
    """Verdicts that m is learned from: X (n, q), and (v,) context, agents j and k, pair, weight, and d (v, S)."""

    X: Floats
    context: Ints
    j: Ints
    k: Ints
    pair: Ints
    weight: Floats
    d: Floats
    K: int

    def take(self, rows: Ints | Bools) -> _Votes:
        names = ("context", "j", "k", "pair", "weight", "d")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def chosen_ridge(self) -> float:
        """Return the ridge of slopes that foretells contexts held out best; infinite: there are no slopes."""
        if not self.X.shape[1] or len(np.unique(self.context)) < 10 or not self.d.shape[1]:
            return np.inf
        votes = self._sampled()
        test = held_out(votes.context, np.random.default_rng(0))
        train, other, scale = votes.take(~test), votes.take(test), np.maximum(self.d.var(axis=0), 1e-300)

        def loss(ridge: float) -> float:
            left = other._left(*train.fitted(ridge))
            return float((other.weight @ left**2 / scale).sum())

        return min((np.inf, *_RIDGES), key=loss)

    def fitted(self, ridge: float) -> tuple[Floats, Floats]:
        """Return g (S, K, 1 + q) and t (S, n_pairs)."""
        S, q = self.d.shape[1], self.X.shape[1]
        g, t = np.zeros((S, self.K, 1 + q)), np.zeros((S, n_pairs(self.K)))
        g[:, :, 0] = self._intercepts(self.d)
        if np.isfinite(ridge):
            g[:, :, 1:] = self._sampled()._slopes(g, ridge)
            g[:, :, 0] += self._intercepts(self._left(g, t))
        return g, self._beyond(self._left(g, t))

    def _sampled(self) -> _Votes:
        """Return so many votes as slopes are learned from."""
        most = max(1000, _CELLS // (2 * max(self.X.shape[1], 1)))
        n = len(self.j)
        return self if n <= most else self.take(np.sort(np.random.default_rng(0).choice(n, most, replace=False)))

    def _left(self, g: Floats, t: Floats) -> Floats:
        """Return (v, S) what m leaves of d."""
        left = self.d - t[:, self.pair].T
        for s in range(left.shape[1]):
            slope = g[s, self.j] - g[s, self.k]
            left[:, s] -= slope[:, 0]
            if g[s, :, 1:].any():
                left[:, s] -= np.einsum("ij,ij->i", self.X[self.context], slope[:, 1:])
        return left

    def _intercepts(self, values: Floats) -> Floats:
        """Return (S, K) the agents' intercepts, by weighted least squares."""
        K, S = self.K, values.shape[1]
        both = bin_sums(self.j * K + self.k, self.weight, K * K).reshape(K, K)
        laplacian = np.diag((both + both.T).sum(axis=1)) - both - both.T
        lead = np.stack([bin_sums(self.j, self.weight * values[:, s], K) for s in range(S)]) if S else np.zeros((0, K))
        for s in range(S):
            lead[s] -= bin_sums(self.k, self.weight * values[:, s], K)
        size = max(float(self.weight.sum()), 1e-300)
        return np.linalg.solve(laplacian + _ALONE * size * np.eye(K), lead.T).T

    def _beyond(self, left: Floats) -> Floats:
        """Return (S, n_pairs) what pairs have beyond their agents: their means, shrunk by how much pairs differ."""
        size = n_pairs(self.K)
        count, total = np.bincount(self.pair, minlength=size), bin_sums(self.pair, self.weight, size)
        some = np.maximum(total, 1e-300)
        t = np.zeros((left.shape[1], size))
        for s in range(left.shape[1]):
            mean = bin_sums(self.pair, self.weight * left[:, s], size) / some
            within = float(self.weight @ (left[:, s] - mean[self.pair]) ** 2) / max(
                len(left) - int((count > 0).sum()), 1
            )
            seen = count > 1
            between = float((total[seen] * mean[seen] ** 2).sum() - within * seen.sum()) / max(
                total[seen].sum(), 1e-300
            )
            if between > 0:
                t[s] = mean * total / (total + within / between)
        return t

    def _slopes(self, g: Floats, ridge: float) -> Floats:
        """Return (S, K, q) slopes in the context: a ridge, by conjugate gradients for all columns together."""
        q, v = self.X.shape[1], len(self.j)
        inside = self.X[self.context] * np.sqrt(self.weight)[:, None]
        columns = np.stack([self.j, self.k], axis=1)[:, :, None] * q + np.arange(q)
        entries = np.stack([inside, -inside], axis=1)
        design = csr_array(
            (entries.ravel(), columns.ravel(), np.arange(0, 2 * q * v + 1, 2 * q)), shape=(v, self.K * q)
        )
        left = self._left(g, np.zeros((len(g), n_pairs(self.K)))) * np.sqrt(self.weight)[:, None]
        penalty = ridge * 2 * float(self.weight.sum()) / self.K
        found = _conjugate(lambda b: design.T @ (design @ b) + penalty * b, design.T @ left)
        return np.asarray(found.T.reshape(-1, self.K, q))


def _conjugate(normal: Callable[[Floats], Floats], right: Floats) -> Floats:
    """Solve normal(b) = right, (n, S), column by column at once, by conjugate gradients."""
    b, rest = np.zeros(right.shape), right.copy()
    direction, size = rest.copy(), (rest**2).sum(axis=0)
    enough = _EXACT**2 * size
    for _ in range(_STEPS):
        if (size <= enough).all():
            break
        moved = normal(direction)
        step = size / np.maximum((direction * moved).sum(axis=0), 1e-300)
        b += step * direction
        rest -= step * moved
        before, size = size, (rest**2).sum(axis=0)
        direction = rest + size / np.maximum(before, 1e-300) * direction
    return b

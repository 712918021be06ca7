"""An aggregator made ready for the menus of one log: sums over sorted columns, nothing as large as menus x pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, n_pairs, offsets_of, readonly
from nasheval.errors import InputError
from nasheval.feedback.ballots import as_pairs, has_rare_menus
from nasheval.feedback.log import Feedback
from nasheval.payoff.aggregators import Aggregator, AsAsked, Cubic, Linked, Mean, MenuNames, Weights, checked_weight

_TOLERANCE = 1e-6  # of the checks of a user's aggregator
_STEP = 1e-5  # of the finite differences among them
_CHECKED = 12  # pairs on which it is checked


@dataclass(frozen=True, eq=False)
class Aggregation:
    """f_jk for every pair of agents, over columns laid out as in `log.menus.columns`.

    A pair that no menu holds has no column: its payoff is not identified. It is given the value 0, and `covered` says
    which pairs those are.

    Args:
        aggregator: f.
        pair: (P,) the pair of each column, numbered by `pair_index`.
        weight: (P,) the weight of each column, summing to one over the columns of a pair.
        n_agents: K.
    """

    aggregator: Aggregator
    pair: Ints
    weight: Floats
    n_agents: int

    @property
    def n_pairs(self) -> int:
        """Number of pairs of agents, covered or not."""
        return n_pairs(self.n_agents)

    @property
    def linear(self) -> bool:
        """Whether f is linear, so that its derivative is the weight."""
        return isinstance(self.aggregator, Linked) and self.aggregator.linear

    @cached_property
    def covered(self) -> Bools:
        """(n_pairs,) which pairs some menu holds."""
        return readonly(np.bincount(self.pair, minlength=self.n_pairs) > 0)

    def aggregate(self, mu: Floats) -> Floats:
        """Return f_jk(mu), (n, n_pairs), given mu (n, P); 0 for pairs that are not covered."""
        found = np.zeros((len(mu), self.n_pairs))
        found[:, self._pairs] = self._values(mu)
        return found

    def derivative(self, mu: Floats) -> Floats:
        """Return df_jk / du_m at mu for each column, (n, P)."""
        if self.linear:
            return np.broadcast_to(self.weight, mu.shape)
        if not isinstance(self.aggregator, Linked):
            return self._own_derivative(mu)
        outer = self.aggregator.slope(self._values(mu))
        return np.asarray(self.weight * self.aggregator.slope(mu) / outer[:, self._place])

    def spread(self, derivative: Floats) -> Floats:
        """Return the sum of |df_jk / du_m| over the columns of each column's own pair, (n, P)."""
        return self._sums(np.abs(derivative))[:, self._place]

    def _values(self, mu: Floats) -> Floats:
        """Return f at the covered pairs only, ascending."""
        if self._single:
            return mu[:, self._order]  # f of one menu is that menu's margin, by idempotence
        if not isinstance(self.aggregator, Linked):
            return np.stack([self.aggregator.value(mu[:, c], self.weight[c]) for c in self._segments()], axis=1)
        return self.aggregator.inverse(self._sums(self.aggregator.link(mu) * self.weight))

    def _own_derivative(self, mu: Floats) -> Floats:
        found = np.zeros(mu.shape)
        for columns in self._segments():
            found[:, columns] = self.aggregator.derivative(mu[:, columns], self.weight[columns])
        return found

    def _sums(self, values: Floats) -> Floats:
        """Sum columns, (n, P), over each covered pair."""
        return np.add.reduceat(values[:, self._order], self._starts, axis=1) if len(self._starts) else values[:, :0]

    def _segments(self) -> Iterator[Ints]:
        """Yield the columns of positive weight of each covered pair."""
        for columns in np.split(self._order, self._starts[1:]) if len(self._order) else ():
            yield columns[self.weight[columns] > 0]

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.pair, kind="stable")

    @cached_property
    def _pairs(self) -> Ints:
        return np.flatnonzero(self.covered)

    @cached_property
    def _starts(self) -> Ints:
        return offsets_of(np.bincount(self.pair, minlength=self.n_pairs)[self._pairs])[:-1]

    @cached_property
    def _place(self) -> Ints:
        """(P,) place of each column's pair among the covered ones."""
        return (np.cumsum(self.covered) - 1)[self.pair]

    @cached_property
    def _single(self) -> bool:
        return len(self._pairs) == len(self.pair)

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` needs, as plain values; an aggregator of the user's own cannot be saved."""
        if not isinstance(self.aggregator, Linked):
            raise InputError(f"{type(self.aggregator).__name__} is an aggregator of your own; only built-in ones save.")
        alpha = self.aggregator.alpha if isinstance(self.aggregator, Cubic) else 0.0
        return {
            "alpha": alpha, "pair": self.pair.tolist(), "weight": self.weight.tolist(), "n_agents": self.n_agents
        }  # fmt: skip

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> Aggregation:
        """Return the aggregation that `to_dict` wrote; linear ones come back as Cubic(0), which is the same."""
        pair, weight = np.asarray(saved["pair"], np.int64), np.asarray(saved["weight"], np.float64)
        return Aggregation(Cubic(float(saved["alpha"])), readonly(pair), readonly(weight), int(saved["n_agents"]))


AnyAggregator: TypeAlias = "Aggregator | Literal['auto'] | None"


def as_asked(log: Feedback, aggregator: AnyAggregator = "auto") -> tuple[Feedback, Aggregator]:
    """Return the log in the form that an aggregator needs, and the aggregator.

    Args:
        aggregator: "auto" (or None): `Mean()` where every menu of a pair was asked at least 30 times, or propensities
            are known; else `AsAsked()`, for which ballots are cut into pairs.
    """
    if isinstance(aggregator, str) and aggregator != "auto":
        raise InputError(
            f"aggregator is {aggregator!r}; accepted are 'auto', Mean(), AsAsked(), Weighted() or Cubic()."
        )
    if aggregator is None or isinstance(aggregator, str):
        rare = log.records.propensity is None and has_rare_menus(log)  # known ones tell of menus, not of pairs
        aggregator = AsAsked() if log.ballots is not None or rare else Mean()
    several = len(log.menus.columns) > len(np.unique(log.menus.columns.pair))
    return (as_pairs(log) if isinstance(aggregator, AsAsked) and several else log), aggregator


def aggregation_of(log: Feedback, aggregator: Aggregator) -> Aggregation:
    """Make an aggregator ready for a log: weigh its menus, and check an aggregator that is not one of ours."""
    columns = log.menus.columns
    menu_weight = _menu_weights(log, getattr(aggregator, "weights", None))
    raw = menu_weight[columns.menu]
    total = np.bincount(columns.pair, raw, n_pairs(log.n_agents))
    _require_weight(log, total)
    made = Aggregation(aggregator, columns.pair, readonly(raw / total[columns.pair]), log.n_agents)
    if not isinstance(aggregator, Linked):
        _check_own(made)
    return made


def _menu_weights(log: Feedback, weights: Weights | None) -> Floats:
    """Return (M,) the weight of each menu before it is normalised."""
    if weights is None:
        return np.ones(len(log.menus))
    menus = [frozenset(log.agents[a] for a in log.menus.members(m)) for m in range(len(log.menus))]
    if callable(weights):
        return np.array([checked_weight(weights(menu), menu) for menu in menus])
    given = cast(Mapping[MenuNames, float], weights)
    _require_coverage(log, given, set(menus))
    return np.array([given.get(menu, 0.0) for menu in menus])


def _require_coverage(log: Feedback, weights: Mapping[MenuNames, float], menus: set[MenuNames]) -> None:
    unknown = sorted({str(name) for menu in weights for name in menu} - set(log.agents))
    if unknown:
        raise InputError(f"weights names {', '.join(unknown)}, no agent of this log: {', '.join(log.agents)}.")
    missing = [sorted(menu) for menu, weight in weights.items() if weight > 0 and menu not in menus]
    if missing:
        raise InputError(
            f"The menu {missing[0]} has a positive weight and no record ({len(missing)} such menus): its margin is not "
            "identified. Give it the weight 0, or collect records on it."
        )


def _require_weight(log: Feedback, total: Floats) -> None:
    """Raise unless every pair that some menu holds has a menu of positive weight."""
    j, k = np.triu_indices(log.n_agents, 1)
    bare = np.flatnonzero((np.bincount(log.menus.columns.pair, minlength=len(total)) > 0) & (total <= 0))
    if len(bare):
        names = ", ".join(f"{log.agents[j[p]]} and {log.agents[k[p]]}" for p in bare[:5])
        raise InputError(
            f"{len(bare)} pairs have no menu of positive weight (such as {names}); "
            "give at least one menu of every pair a positive weight."
        )


# -- an aggregator of the user's own ----------------------------------------------------------------------------------


def _check_own(made: Aggregation) -> None:
    """Raise unless it is odd, idempotent, within [-1, 1], and its derivative is its derivative, on random margins."""
    segments = sorted(made._segments(), key=len, reverse=True)[:_CHECKED]
    rng = np.random.default_rng(0)
    for columns in segments:
        weights, f = made.weight[columns], made.aggregator
        u = rng.uniform(-1, 1, (64, len(columns)))
        corners = np.sign(u)
        level = np.repeat(np.linspace(-1, 1, 9)[:, None], len(columns), axis=1)
        value = _shaped(f.value(u, weights), (len(u),), "value")
        _hold(np.abs(f.value(-u, weights) + value), f, "odd: f(-u) is not -f(u)")
        _hold(np.abs(f.value(level, weights) - level[:, 0]), f, "idempotent: f(c, ..., c) is not c")
        _hold(np.abs(np.append(value, f.value(corners, weights))) - 1, f, "within [-1, 1]")
        _check_derivative(f, 0.9 * u, weights)


def _check_derivative(f: Aggregator, u: Floats, weights: Floats) -> None:
    given = _shaped(f.derivative(u, weights), u.shape, "derivative")
    for m in range(u.shape[1]):
        step = np.zeros(u.shape[1])
        step[m] = _STEP
        slope = (f.value(u + step, weights) - f.value(u - step, weights)) / (2 * _STEP)
        _hold((np.abs(given[:, m] - slope) - 1e-4 * np.abs(slope)) / 10, f, "differentiated rightly by `derivative`")


def _shaped(values: Any, shape: tuple[int, ...], name: str) -> Floats:
    found = np.asarray(values)
    if found.shape != shape or found.dtype.kind != "f" or not np.isfinite(found).all():
        raise InputError(f"The aggregator's `{name}` gave shape {found.shape}; accepted are finite numbers, {shape}.")
    return found


def _hold(excess: Floats, aggregator: Aggregator, what: str) -> None:
    if not float(np.max(excess)) <= _TOLERANCE:
        raise InputError(
            f"{type(aggregator).__name__} is not {what}, by {float(np.max(excess)):.2g}; a payoff needs a smooth, odd, "
            "idempotent aggregator with values in [-1, 1] (appendix aggregator-instantiations)."
        )

"""Aggregators f_jk: from the margins of a pair in several menus to its payoff (appendix aggregator-instantiations).

The aggregator is part of what is estimated, not a detail of how: other weights are another game. Weights must be chosen
without looking at the outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums, n_pairs, offsets_of, readonly
from nasheval.errors import InputError
from nasheval.feedback.ballots import as_pairs, has_rare_menus
from nasheval.feedback.log import Feedback

MenuNames = frozenset[str]
Weights = Mapping[Any, float] | Callable[[MenuNames], float]  # keys of a mapping: frozensets or tuples of agent names

_LARGEST_ALPHA = 1e100  # beyond it the closed form overflows; the cube root itself is reached long before


class Aggregator:
    """f(u) = phi^-1(sum_m w_m phi(u_m)) with an odd, increasing link phi (Eq. nonlinear-menu-aggregator).

    It takes the margins u of one pair in its m menus, whose weights sum to one, and is odd and idempotent.
    """

    weights: Weights | None = None

    @property
    def linear(self) -> bool:
        """Whether f is linear in u."""
        return True

    def link(self, u: Floats) -> Floats:
        """Return phi(u), in the shape of u."""
        return u

    def slope(self, u: Floats) -> Floats:
        """Return phi'(u), in the shape of u."""
        return np.ones_like(u)

    def inverse(self, y: Floats) -> Floats:
        """Return the u for which phi(u) = y, in the shape of y."""
        return y


@dataclass(frozen=True)
class Mean(Aggregator):
    """The mean over a pair's menus: what the paper's section on the problem uses."""


@dataclass(frozen=True)
class AsAsked(Aggregator):
    """The mean verdict of a pair wherever both agents were shown, E[Z | x, both were shown].

    Menus collapse to pairs (`nasheval.feedback.ballots`): the mean over a pair's menus weighted by how often each was
    asked, with propensities that can be estimated however rare the menus are.
    """


@dataclass(frozen=True)
class Weighted(Aggregator):
    """A weighted mean over a pair's menus (Eq. linear-menu-aggregator).

    Args:
        weights: {menu: weight} with menus as frozensets or tuples of agent names, or a function of such a frozenset;
            normalised to sum to one over the menus of each pair. A menu that a mapping leaves out weighs nothing. A
            weight holds for every form in which those agents were asked about.
    """

    weights: Weights

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _checked(self.weights))


@dataclass(frozen=True)
class Cubic(Aggregator):
    """A weighted mean after the link phi(u) = (u + alpha u^3) / (1 + alpha): large margins count more.

    Args:
        alpha: at least 0, where the link is the identity.
        weights: as for `Weighted`, or None for equal weights.
    """

    alpha: float
    weights: Weights | None = None

    def __post_init__(self) -> None:
        if not _is_number(self.alpha) or not 0 <= self.alpha <= _LARGEST_ALPHA:
            raise InputError(f"alpha is {self.alpha!r}; accepted is a number from 0 to {_LARGEST_ALPHA:g}.")
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked(self.weights))

    @property
    def linear(self) -> bool:
        """Whether f is linear in u."""
        return self.alpha == 0

    def link(self, u: Floats) -> Floats:
        """Return phi(u), in the shape of u."""
        return u if self.alpha == 0 else u * ((1 + self.alpha * u**2) / (1 + self.alpha))

    def slope(self, u: Floats) -> Floats:
        """Return phi'(u), in the shape of u."""
        return (1 + 3 * self.alpha * u**2) / (1 + self.alpha)

    def inverse(self, y: Floats) -> Floats:
        """Return the one real root u of alpha u^3 + u = (1 + alpha) y, in the shape of y.

        Cardano's formula in hyperbolic form, u = 2 / r sinh(asinh(3 r (1 + alpha) y / 2) / 3) with r = sqrt(3 alpha):
        nothing cancels, so it holds to rounding as alpha goes to 0.
        """
        if self.alpha == 0:
            return y
        r = np.sqrt(3 * self.alpha)
        return 2 / r * np.sinh(np.arcsinh(1.5 * r * (1 + self.alpha) * y) / 3)


# -- weights ----------------------------------------------------------------------------------------------------------


def _checked(weights: Any) -> Weights:
    """Return weights with frozensets as keys; raise for what is no weight."""
    if callable(weights):
        return weights
    if not isinstance(weights, Mapping):
        raise InputError(
            f"weights is {type(weights).__name__}; accepted is a mapping such as {{('a', 'b', 'c'): 2.0}}, "
            "or a function of a menu (a frozenset of agent names)."
        )
    checked: dict[MenuNames, float] = {}
    for menu, weight in weights.items():
        if not isinstance(menu, tuple | frozenset) or len(set(menu)) < max(2, len(menu)):
            raise InputError(f"weights has the key {menu!r}; accepted is a tuple or frozenset of at least two agents.")
        names = frozenset(menu)
        if names in checked:
            raise InputError(f"weights names the menu {sorted(names)} twice; give each menu one weight.")
        checked[names] = _checked_weight(weight, names)
    return checked


def _checked_weight(weight: Any, menu: MenuNames) -> float:
    """Return a weight as a float; raise unless it is a finite number of 0 or more."""
    if not _is_number(weight) or not (isfinite(weight) and weight >= 0):
        raise InputError(f"The weight of the menu {sorted(menu)} is {weight!r}; accepted is a number of 0 or more.")
    return float(weight)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


# -- for the menus of one log -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Aggregation:
    """f_jk for every pair of agents, over columns laid out as in `log.menus.columns`; sums over sorted columns.

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
        return self.aggregator.linear

    @cached_property
    def covered(self) -> Bools:
        """(n_pairs,) which pairs some menu holds."""
        return readonly(np.bincount(self.pair, minlength=self.n_pairs) > 0)

    def aggregate(self, mu: Floats) -> Floats:
        """Return f_jk(mu), (n, n_pairs), given mu (n, P); 0 for pairs that are not covered. It may be mu itself."""
        if self._is_identity:
            return mu.astype(np.float64, copy=False)
        if 0 < len(self._pairs) == len(self.pair):  # f of one menu is that menu's margin, by idempotence
            payoffs = mu.take(self._column, axis=1).astype(np.float64, copy=False)
            payoffs[:, ~self.covered] = 0.0
            return payoffs
        payoffs = np.zeros((len(mu), self.n_pairs))
        payoffs[:, self._pairs] = self._values(mu)
        return payoffs

    def derivative(self, mu: Floats) -> Floats:
        """Return df_jk / du_m at mu for each column, (n, P)."""
        if self.linear:
            return np.broadcast_to(self.weight, mu.shape)
        outer = self.aggregator.slope(self._values(mu))
        return self.weight * self.aggregator.slope(mu) / outer[:, self._place]

    def spread(self, derivative: Floats) -> Floats:
        """Return the sum of |df_jk / du_m| over the columns of each column's own pair, (n, P)."""
        return self._sums(np.abs(derivative))[:, self._place]

    def _values(self, mu: Floats) -> Floats:
        """Return f at the covered pairs only, ascending."""
        if self.single is not None:
            return mu[:, self._order]  # f of one menu is that menu's margin, by idempotence
        return self.aggregator.inverse(self._sums(self.aggregator.link(mu) * self.weight))

    def _sums(self, values: Floats) -> Floats:
        """Sum columns, (n, P), over each covered pair."""
        return np.add.reduceat(values[:, self._order], self._starts, axis=1) if len(self._starts) else values[:, :0]

    @cached_property
    def single(self) -> Ints | None:
        """(P,) the pair of each column, where every covered pair has one menu, and f is that menu's margin."""
        return self.pair if len(self._pairs) == len(self.pair) else None

    @cached_property
    def _is_identity(self) -> bool:
        """Whether every pair has one menu and all stand in order."""
        return len(self.pair) == self.n_pairs and bool((np.diff(self.pair) == 1).all())

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
    def _column(self) -> Ints:
        """(n_pairs,) a column of each pair, the first of all where it has none."""
        column = np.zeros(self.n_pairs, np.int64)
        column[self.pair] = np.arange(len(self.pair))
        return column

    @cached_property
    def _place(self) -> Ints:
        """(P,) place of each column's pair among the covered ones."""
        return (np.cumsum(self.covered) - 1)[self.pair]


AnyAggregator: TypeAlias = Aggregator | Literal["auto"] | None


def as_asked(log: Feedback, aggregator: AnyAggregator = "auto") -> tuple[Feedback, Aggregator]:
    """Return the log in the form that an aggregator needs, and the aggregator.

    Args:
        aggregator: "auto" (or None): `Mean()` where every menu of a pair was asked at least 30 times, or propensities
            are known; else `AsAsked()`, for which ballots are cut into pairs.
    """
    if not isinstance(aggregator, Aggregator | None) and not (isinstance(aggregator, str) and aggregator == "auto"):
        raise InputError(
            f"aggregator is {aggregator!r:.80}; accepted are 'auto', Mean(), AsAsked(), Weighted() or Cubic()."
        )
    if not isinstance(aggregator, Aggregator):
        rare = log.records.propensity is None and has_rare_menus(log)  # known ones tell of menus, not of pairs
        aggregator = AsAsked() if log.ballots is not None or rare else Mean()
    several = len(log.menus.columns) > len(np.unique(log.menus.columns.pair))
    return (as_pairs(log) if isinstance(aggregator, AsAsked) and several else log), aggregator


def aggregation_of(log: Feedback, aggregator: Aggregator) -> Aggregation:
    """Make an aggregator ready for a log: weigh its menus."""
    columns = log.menus.columns
    raw = _menu_weights(log, aggregator.weights)[columns.menu]
    total = bin_sums(columns.pair, raw, n_pairs(log.n_agents))
    _require_weight(log, total)
    return Aggregation(aggregator, columns.pair, readonly(raw / total[columns.pair]), log.n_agents)


def _menu_weights(log: Feedback, weights: Weights | None) -> Floats:
    """Return (M,) the weight of each menu before it is normalised."""
    if weights is None:
        return np.ones(len(log.menus))
    menus = [frozenset(log.agents[a] for a in log.menus.members(m)) for m in range(len(log.menus))]
    if callable(weights):
        return np.array([_checked_weight(weights(menu), menu) for menu in menus])
    _require_coverage(log, weights, set(menus))
    return np.array([weights.get(menu, 0.0) for menu in menus])


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

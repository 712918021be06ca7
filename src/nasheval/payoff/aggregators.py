"""Aggregators f_jk: from the margins of a pair in several menus to its payoff (appendix aggregator-instantiations).

The aggregator is part of what is estimated, not a detail of how: other weights are another game. Weights must be chosen
without looking at the outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol, TypeGuard

import numpy as np

from nasheval.arrays import Floats
from nasheval.errors import InputError

MenuNames = frozenset[str]
WeightOf = Callable[[MenuNames], float]
Weights = Mapping[Any, float] | WeightOf  # keys of a mapping: frozensets or tuples of agent names

_LARGEST_ALPHA = 1e100  # beyond it the closed form overflows; the cube root itself is reached long before


class Aggregator(Protocol):
    """A smooth f: [-1, 1]^m -> [-1, 1], odd and idempotent, of the margins of one pair in its m menus.

    One of your own may have an attribute `weights`, as `Weighted` takes them (None: equal).
    """

    def value(self, u: Floats, weights: Floats) -> Floats:
        """Return f(u), (n,), for margins u (n, m) in menus of weights (m,), which sum to one."""
        ...

    def derivative(self, u: Floats, weights: Floats) -> Floats:
        """Return df/du, (n, m)."""
        ...


class Linked:
    """f(u) = phi^-1(sum_m w_m phi(u_m)) with an odd, increasing link phi (Eq. nonlinear-menu-aggregator)."""

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

    def value(self, u: Floats, weights: Floats) -> Floats:
        """Return f(u), (n,), for margins u (n, m) and weights (m,)."""
        return self.inverse(self.link(u) @ weights)

    def derivative(self, u: Floats, weights: Floats) -> Floats:
        """Return df/du_m = w_m phi'(u_m) / phi'(f(u)), (n, m)."""
        return weights * self.slope(u) / self.slope(self.value(u, weights))[:, None]


@dataclass(frozen=True)
class Mean(Linked):
    """The mean over a pair's menus: what the paper's section on the problem uses."""


@dataclass(frozen=True)
class AsAsked(Linked):
    """The mean verdict of a pair wherever both agents were shown, E[Z | x, both were shown].

    Menus collapse to pairs (`nasheval.feedback.ballots`): the mean over a pair's menus weighted by how often each was
    asked, with propensities that can be estimated however rare the menus are.
    """


@dataclass(frozen=True)
class Weighted(Linked):
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
class Cubic(Linked):
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
        return np.asarray(2 / r * np.sinh(np.arcsinh(1.5 * r * (1 + self.alpha) * y) / 3))


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
        names = _menu_names(menu)
        if names in checked:
            raise InputError(f"weights names the menu {sorted(names)} twice; give each menu one weight.")
        checked[names] = checked_weight(weight, names)
    return checked


def _menu_names(menu: Any) -> MenuNames:
    if not isinstance(menu, tuple | frozenset) or len(set(menu)) < max(2, len(menu)):
        raise InputError(f"weights has the key {menu!r}; accepted is a tuple or frozenset of two agent names or more.")
    return frozenset(menu)


def checked_weight(weight: Any, menu: MenuNames) -> float:
    """Return a weight as a float; raise unless it is a finite number of 0 or more."""
    if not _is_number(weight) or not (isfinite(weight) and weight >= 0):
        raise InputError(f"The weight of the menu {sorted(menu)} is {weight!r}; accepted is a number of 0 or more.")
    return float(weight)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)

"""How style moves verdicts: along a straight line, or along a curve that levels off where a pair is lopsided.

E[Z | x, pair, d] = h(eta(x, pair) + beta'd), with h(u) = u or h(u) = tanh(u), the curve of Bradley-Terry scores. As
voted a pair has mu = F(eta + beta'm), where F(u) = E h(u + beta'r) over what is left of d given context and pair, r.
On a straight line F(u) = u.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nasheval.arrays import Floats

GRID = 1201  # values of u that F is known at
_GRID = np.linspace(-6.0, 6.0, GRID)  # of u, between whose values F is interpolated
_SAMPLE = 512  # values of beta'r that F is a mean over
_LARGEST = 0.999  # margins beyond it have the index of this one


@dataclass(frozen=True, eq=False)
class Straight:
    """h(u) = u."""

    def index(self, mu: Floats) -> Floats:
        """Return the index u at which pairs have a margin mu as voted."""
        return mu

    def value(self, index: Floats) -> Floats:
        """Return h."""
        return index

    def slope(self, index: Floats) -> Floats:
        """Return h'."""
        return np.ones(index.shape)

    def mean_slope(self, index: Floats) -> Floats:
        """Return E h'(u + beta'r)."""
        return np.ones(index.shape)

    def centre(self, index: Floats) -> Floats | float:
        """Return (..., S) E h'(u + beta'r) r / E h'(u + beta'r)."""
        return 0.0


@dataclass(frozen=True, eq=False)
class Curved:
    """h(u) = tanh(u).

    Args:
        margin: (grid,) F.
        steepness: (grid,) its slope, E h'.
        lean: (grid, S) E h' r; (grid, 0) where only payoffs are asked for.
    """

    margin: Floats
    steepness: Floats
    lean: Floats

    @staticmethod
    def of(rest: Floats, beta: Floats) -> Curved:
        """Return the curve, given (v, S) r and beta."""
        sample = rest[np.linspace(0, len(rest) - 1, min(_SAMPLE, len(rest))).astype(np.int64)]
        sample = sample - sample.mean(axis=0)
        value = np.tanh(_GRID[:, None] + sample @ beta)
        slope = 1 - value**2
        return Curved(value.mean(axis=1), slope.mean(axis=1), slope @ sample / len(sample))

    def index(self, mu: Floats) -> Floats:
        """Return the index u at which pairs have a margin mu as voted."""
        return np.interp(np.clip(mu, -_LARGEST, _LARGEST), self.margin, _GRID)

    def value(self, index: Floats) -> Floats:
        """Return h."""
        return np.tanh(index)

    def slope(self, index: Floats) -> Floats:
        """Return h'."""
        return np.asarray(1 - np.tanh(index) ** 2)

    def mean_slope(self, index: Floats) -> Floats:
        """Return E h'(u + beta'r)."""
        return np.interp(index, _GRID, self.steepness)

    def centre(self, index: Floats) -> Floats | float:
        """Return (..., S) E h'(u + beta'r) r / E h'(u + beta'r)."""
        return np.stack([np.interp(index, _GRID, each) for each in self._centres], axis=-1)

    @cached_property
    def _centres(self) -> Floats:
        return np.asarray((self.lean / self.steepness[:, None]).T)


Link = Straight | Curved

"""Regularisers Omega of the game: value, gradient, regularised best response and modulus of strong convexity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from nasheval.arrays import Floats, Ints, as_number
from nasheval.errors import InputError

_STRENGTH = "The strength of a regulariser, {}, is a finite number {}; {!r} was given."


class Regularizer(Protocol):
    """A convex function Omega on the simplex; every method is batched over leading axes."""

    @property
    def kappa(self) -> float:
        """The modulus of strong convexity (Eq. strong-convexity)."""

    def at(self, rows: Ints) -> Regularizer:
        """Return the same for the games `rows` of a batch."""

    def among(self, agents: Ints) -> Regularizer:
        """Return the same for lotteries over the agents (n, k) of each game only."""

    def value(self, pi: Floats) -> Floats:
        """Return Omega(pi), (...), for lotteries pi (..., K)."""

    def gradient(self, pi: Floats) -> Floats:
        """Return the gradient of Omega, (..., K), at lotteries pi (..., K)."""

    def best_response(self, payoff: Floats) -> Floats:
        """Return the lottery q (..., K) that maximises payoff . q - Omega(q) (Eq. regularized-best-response)."""


@dataclass(frozen=True)
class L2:
    """Omega(pi) = rho / 2 ||pi||^2; its centre does not matter on the simplex.

    With rho = 0 the equilibrium is the maximal lottery: where there are several, the one of least L2 norm.

    Args:
        rho: strength, at least 0, on the scale of the payoffs.
    """

    rho: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 <= as_number(self.rho) < np.inf:
            raise InputError(_STRENGTH.format("rho", "at least 0", self.rho))

    @property
    def kappa(self) -> float:
        """The modulus of strong convexity, in the Euclidean norm."""
        return float(self.rho)

    def at(self, rows: Ints) -> L2:
        """Return the same for the games `rows` of a batch."""
        return self

    def among(self, agents: Ints) -> L2:
        """Return the same for lotteries over the agents (n, k) of each game only."""
        return self

    def value(self, pi: Floats) -> Floats:
        """Return rho / 2 ||pi||^2, (...)."""
        return self.rho / 2 * np.einsum("...k,...k->...", pi, pi)

    def gradient(self, pi: Floats) -> Floats:
        """Return rho pi, (..., K)."""
        return self.rho * pi

    def best_response(self, payoff: Floats) -> Floats:
        """Return the projection of payoff / rho on the simplex; with rho = 0, uniform over the best agents."""
        lead = payoff - payoff.max(-1, keepdims=True)
        if self.rho > 0:
            return project(lead / self.rho)
        best = (lead == 0).astype(float)
        return best / best.sum(-1, keepdims=True)


@dataclass(frozen=True)
class Entropy:
    """Omega(pi) = tau KL(pi || reference).

    Args:
        tau: strength, above 0, on the scale of the payoffs.
        reference: a lottery (K,) or (n, K) that gives every agent weight; None is the uniform lottery.
    """

    tau: float
    reference: ArrayLike | None = None

    def __post_init__(self) -> None:
        if not 0 < as_number(self.tau) < np.inf:
            raise InputError(_STRENGTH.format("tau", "above 0", self.tau))
        try:
            reference = np.ones(1) if self.reference is None else np.asarray(self.reference, float)
        except (TypeError, ValueError):
            reference = np.zeros(0)
        if (
            reference.ndim not in (1, 2)
            or not (reference > 0).all()
            or not np.allclose(reference.sum(-1), 1, atol=1e-6)
        ):
            raise InputError(
                "The reference of Entropy is a lottery (K,), or one per game (n, K): entries above 0, summing to 1."
            )

    @property
    def kappa(self) -> float:
        """The modulus of strong convexity, in the 1-norm (Pinsker) and so in the Euclidean norm too."""
        return float(self.tau)

    def at(self, rows: Ints) -> Entropy:
        """Return the same for the games `rows` of a batch."""
        return self if np.asarray(self.reference).ndim < 2 else Entropy(self.tau, np.asarray(self.reference)[rows])

    def among(self, agents: Ints) -> Entropy:
        """Return the same, but for a constant, for lotteries over the agents (n, k) of each game only."""
        if self.reference is None:
            return self
        kept = columns_of(np.asarray(self.reference, float), agents)
        return Entropy(self.tau, kept / kept.sum(-1, keepdims=True))

    def log_reference(self, K: int) -> Floats:
        """Return log reference, (K,) or (n, K)."""
        return np.full(K, -np.log(K)) if self.reference is None else np.log(np.asarray(self.reference, float))

    def value(self, pi: Floats) -> Floats:
        """Return tau KL(pi || reference), (...)."""
        terms = pi * (np.log(np.where(pi > 0, pi, 1.0)) - self.log_reference(pi.shape[-1]))
        return self.tau * terms.sum(-1)

    def gradient(self, pi: Floats) -> Floats:
        """Return tau (log pi - log reference + 1), (..., K); minus infinity where pi is zero."""
        with np.errstate(divide="ignore"):
            logs = np.log(pi)
        return self.tau * (logs - self.log_reference(pi.shape[-1]) + 1.0)

    def best_response(self, payoff: Floats) -> Floats:
        """Return reference exp(payoff / tau), scaled to sum to one."""
        logits = payoff / self.tau + self.log_reference(payoff.shape[-1])
        weight = np.exp(logits - logits.max(-1, keepdims=True))
        return weight / weight.sum(-1, keepdims=True)


def columns_of(each: Floats, agents: Ints) -> Floats:
    """Return what (K,) or (n, K) numbers say of the agents (n, k) of each game, (n, k)."""
    return each[agents] if each.ndim == 1 else np.take_along_axis(each, agents, -1)


def project(v: Floats) -> Floats:
    """Return the point of the simplex nearest to v, (..., K)."""
    ordered = np.sort(v, axis=-1)[..., ::-1]
    surplus = np.add.accumulate(ordered, -1)
    surplus -= 1.0
    kept = np.add.reduce(ordered * np.arange(1, v.shape[-1] + 1) > surplus, -1, dtype=np.int64)
    rows = surplus.reshape(-1, v.shape[-1])
    shift = rows[np.arange(len(rows)), kept.ravel() - 1].reshape(kept.shape) / kept
    nearest: Floats = np.maximum(v - shift[..., None], 0.0)
    return nearest

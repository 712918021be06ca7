"""Train a network on the empirical gap loss (Eq. empirical-gap-loss), with early stopping on held-out contexts."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

import numpy as np

from nasheval.arrays import Array, Floats, Ints
from nasheval.errors import InputError
from nasheval.game.costs import HardBudget
from nasheval.game.regularizers import Regularizer
from nasheval.nuisance.learners import Effort, torch_threads
from nasheval.nuisance.training import Tensor, one_cycle, spread_of, to_device
from nasheval.policy.learned_contexts import Games
from nasheval.policy.learned_network import OUTPUTS, Network, Output, forward, initial
from nasheval.policy.terms import strengthened

Schedule = Literal["annealed", "constant"]
_STRONG, _WEAK = 10.0, 1e-3  # between which it is annealed: at 10 every agent has a share, payoffs being at most 1
_ANNEALED = 0.5  # share of the training after which the regulariser is the one that was asked for
_ROWS = 1 << 14  # contexts evaluated at a time


@dataclass(frozen=True)
class Recipe:
    """How a network is built and trained.

    Args:
        output: "softmax", or "sparsemax" for exact zeros.
        hidden: widths of the ReLU layers.
        waves: Fourier features before them, 0 for none.
        rate: learning rate of Adam, the highest one of an annealed schedule.
        weight_decay: L2 penalty on all parameters.
        batch: contexts per step.
        epochs: most passes over the contexts.
        patience: epochs without a new lowest held-out gap after which training ends.
        schedule: "constant", or "annealed": the regulariser starts strong, where equilibria are mixtures and no agent
            drops out before it was tried, and falls to its own strength over the first half; the rate goes up and down
            in one cycle. Payoffs near -1 and 1 need that: a lottery stuck on the wrong agent has no gradient.
    """

    output: Output = "sparsemax"
    hidden: tuple[int, ...] = (256, 256)
    waves: int = 256
    rate: float = 2e-3
    weight_decay: float = 1e-5
    batch: int = 256
    epochs: int = 12
    patience: int = 30
    schedule: Schedule = "annealed"

    def __post_init__(self) -> None:
        for name, accepted in (("output", OUTPUTS), ("schedule", get_args(Schedule))):
            if getattr(self, name) not in accepted:
                raise InputError(
                    f"{name} is {getattr(self, name)!r}; accepted are {' and '.join(map(repr, accepted))}."
                )
        for name in ("batch", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)!r}; accepted is a whole number of 1 or more.")
        if not self.hidden or min(self.hidden) < 1 or self.waves < 0:
            raise InputError(
                f"hidden is {self.hidden!r}, waves {self.waves!r}; accepted are widths of 1 or more, and 0."
            )
        if not (0 < self.rate < np.inf and 0 <= self.weight_decay < np.inf):
            raise InputError(f"rate is {self.rate!r} and weight_decay {self.weight_decay!r}; accepted: above 0, and 0.")

    def rate_at(self, progress: float) -> float:
        """Return the learning rate at a share of the whole training."""
        return self.rate if self.schedule == "constant" else self.rate * one_cycle(progress)

    def omega_at(self, omega: Regularizer, progress: float) -> Regularizer:
        """Return the regulariser at a share of the whole training."""
        if self.schedule == "constant" or progress >= _ANNEALED:
            return omega
        return strengthened(omega, _STRONG * (_WEAK / _STRONG) ** (progress / _ANNEALED))


@dataclass(frozen=True)
class Training:
    """How training went.

    Args:
        recipe: that was followed.
        gaps: (epochs,) mean regularised gap at the held-out contexts after each epoch.
        epoch: the one that was kept, counted from 1.
    """

    recipe: Recipe
    gaps: tuple[float, ...]
    epoch: int

    @property
    def gap(self) -> float:
        """The lowest held-out gap, that of the network that was kept."""
        return self.gaps[self.epoch - 1]


def train(games: Games, omega: Regularizer, recipe: Recipe, *, agents: int, effort: Effort) -> tuple[Network, Training]:
    """Train one network and return it as it was after its best epoch.

    Args:
        omega: regulariser of all N games.
        agents: K.
    """
    with torch_threads(1):  # steps are so small that threads wait for each other
        return _Trainer(games, omega, recipe, agents, effort).run()


def affordable(pi: Tensor, costs: Tensor, limit: float) -> Tensor:
    """Return lotteries (n, K) that cost at most `limit`: dear ones are mixed with the cheapest agent.

    Works on arrays of NumPy and of PyTorch alike.

    Args:
        costs: (K,) or (n, K).
    """
    least = costs.min(-1)
    least = least if isinstance(costs, np.ndarray) else least.values
    cheapest = (costs == least[..., None]) * 1.0
    cheapest = cheapest / cheapest.sum(-1)[..., None]
    over = (pi * costs).sum(-1) - limit
    share = (over / (over + limit - least + 1e-30)).clip(0.0, 1.0)[..., None]
    return (1 - share) * pi + share * cheapest


class _Trainer:
    def __init__(self, games: Games, omega: Regularizer, recipe: Recipe, K: int, effort: Effort) -> None:
        import torch

        self.omega, self.recipe, self.rng = omega, recipe, np.random.default_rng(effort.seed)
        self.device, self.advance = torch.device(effort.device), effort.advance
        self.fit, self.check = np.flatnonzero(~games.held), np.flatnonzero(games.held)
        spread = spread_of(games.x[self.fit])
        start = initial(games.x.shape[1], K, recipe.hidden, recipe.waves, spread, self.rng)
        self.p = {name: self._put(values).requires_grad_() for name, values in start.items()}
        self.x, self.pairs = self._put(games.x), self._put(games.pairs)
        self.place = self._put(_places(K))
        self.optimiser = torch.optim.Adam(self.p.values(), lr=recipe.rate, weight_decay=recipe.weight_decay, fused=True)

    def _put(self, values: Array) -> Tensor:
        return to_device(values, self.device)

    def run(self) -> tuple[Network, Training]:
        gaps: list[float] = []
        best, kept, epochs = 0, self._copy(), self.recipe.epochs
        annealed = ceil(_ANNEALED * epochs) if self.recipe.schedule == "annealed" else 0
        for epoch in range(1, epochs + 1):
            self._epoch(epoch)
            gaps.append(self._held_out())
            self.advance(1.0 / epochs)
            if not best or gaps[-1] < gaps[best - 1]:
                best, kept = epoch, self._copy()
            if epoch - max(best, annealed) >= self.recipe.patience:
                break
        self.advance(1.0 - len(gaps) / epochs)  # what early stopping spared
        return Network(self.recipe.output, kept), Training(self.recipe, tuple(gaps), best)

    def _copy(self) -> dict[str, Floats]:
        return {name: p.detach().cpu().numpy().copy() for name, p in self.p.items()}

    def _epoch(self, number: int) -> None:
        order = self.rng.permutation(self.fit)
        steps = ceil(len(order) / self.recipe.batch)
        for step in range(steps):
            progress = (number - 1 + step / steps) / self.recipe.epochs
            rows = order[step * self.recipe.batch : (step + 1) * self.recipe.batch]
            self.optimiser.param_groups[0]["lr"] = self.recipe.rate_at(progress)
            self.optimiser.zero_grad(set_to_none=True)
            self._gaps(rows, self.recipe.omega_at(self.omega, progress)).mean().backward()
            self.optimiser.step()

    def _held_out(self) -> float:
        """Return the mean gap at the contexts held out, under the regulariser that was asked for."""
        import torch

        with torch.no_grad():
            chunks = [self.check[start : start + _ROWS] for start in range(0, len(self.check), _ROWS)]
            total = sum(float(self._gaps(rows, self.omega).double().sum()) for rows in chunks)
        return total / len(self.check)

    def _gaps(self, rows: Ints, omega: Regularizer) -> Tensor:
        """Return the gap of the network's lotteries at some contexts, (rows,)."""
        from nasheval.game.torch_gap import gap

        at = self._put(rows)
        lotteries = forward(self.p, self.x[at], self.recipe.output)
        omega = omega.at(rows)
        if isinstance(omega, HardBudget):
            costs = self._put(omega.costs.astype(np.float32))
            lotteries = affordable(lotteries, costs, omega.limit)
        return gap(lotteries, self._payoffs(at), omega)

    def _payoffs(self, at: Tensor) -> Tensor:
        """Return A(x), (rows, K, K), from the pairs j < k."""
        import torch

        pairs = self.pairs[at]
        both = torch.cat([pairs, -pairs, pairs.new_zeros(len(pairs), 1)], 1)
        return both[:, self.place]


def _places(K: int) -> Ints:
    """Return where each entry of A, (K, K), stands among the pairs j < k, minus those, and a zero."""
    j, k = np.triu_indices(K, 1)
    place = np.full((K, K), 2 * len(j))
    place[j, k], place[k, j] = np.arange(len(j)), np.arange(len(j)) + len(j)
    return place

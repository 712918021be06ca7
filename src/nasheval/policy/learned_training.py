"""The network behind a learned policy, context -> lottery, and its training on the empirical gap loss.

One set of parameters, float32 arrays, serves PyTorch and NumPy:

    wave, phase                (inputs, waves), (waves,)    sin(x wave + phase); absent without Fourier features
    hidden_0, bias_0, ...      (before, width), (width,)    ReLU
    head, lean                 (width, K), (K,)             then softmax or sparsemax

Training (Eq. empirical-gap-loss) stops early by held-out contexts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, Literal, get_args

import numpy as np

from nasheval.arrays import Array, Floats, Ints
from nasheval.errors import InputError
from nasheval.game.costs import HardBudget
from nasheval.game.regularizers import Regularizer, project
from nasheval.nuisance.learners import Effort, torch_threads
from nasheval.nuisance.training import Layer, Tensor, initial_layers, last_hidden, one_cycle, spread_of, to_device
from nasheval.policy.learned_contexts import Games
from nasheval.policy.terms import strengthened

Output = Literal["softmax", "sparsemax"]
OUTPUTS: tuple[Output, ...] = get_args(Output)
Schedule = Literal["annealed", "constant"]
_STRONG, _WEAK = 10.0, 1e-3  # between which it is annealed: at 10 every agent has a share, payoffs being at most 1
_ANNEALED = 0.5  # share of the training after which the regulariser is the one that was asked for
_CACHED = 1 << 12  # contexts at a time: their hidden layers stay in cache
_ROWS = 1 << 14  # contexts evaluated at a time in training


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network.

    Args:
        output: "softmax", or "sparsemax" for exact zeros.
        parameters: as above.
    """

    output: Output
    parameters: dict[str, Floats]

    def lotteries(self, x: Floats) -> Floats:
        """Return (n, K) float64 lotteries at contexts x, (n, inputs) float32; rows sum to one."""
        p = self.parameters
        scores = np.empty((len(x), len(p["lean"])))
        for start in range(0, len(x), _CACHED):
            rows = slice(start, start + _CACHED)
            np.add(last_hidden(x[rows], self._layers) @ p["head"], p["lean"], out=scores[rows])
        if self.output == "sparsemax":
            return project(scores)
        weight = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True)

    @cached_property
    def _layers(self) -> list[Layer]:
        return _layers(self.parameters)

    def to_arrays(self) -> dict[str, Floats]:
        """Return everything as plain arrays, for a file; `from_arrays` is the way back."""
        return {"output": np.array(OUTPUTS.index(self.output)), **self.parameters}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Network:
        """Return the network that `to_arrays` wrote."""
        parameters = {name: np.asarray(values) for name, values in arrays.items() if name != "output"}
        return cls(OUTPUTS[int(arrays["output"])], parameters)


def depth(parameters: Mapping[str, Any]) -> int:
    """Return the number of ReLU layers."""
    return sum(name.startswith("hidden_") for name in parameters)


def _layers(p: Mapping[str, Any]) -> list[Layer]:
    layers: list[Layer] = [(p["wave"], p["phase"], "sin")] if "wave" in p else []
    return layers + [(p[f"hidden_{layer}"], p[f"bias_{layer}"], "relu") for layer in range(depth(p))]


def initial(
    inputs: int, agents: int, hidden: tuple[int, ...], waves: int, spread: float, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return parameters to start from, at which every lottery is uniform: no agent is out before it was tried.

    Args:
        hidden: widths of the ReLU layers.
        waves: number of Fourier features, 0 for none; their phases go over about one turn of a typical context.
        spread: root mean square length of the contexts.
    """
    widths = (inputs, waves, *hidden) if waves else (inputs, *hidden)
    names = [("wave", "phase")] * (waves > 0) + [(f"hidden_{layer}", f"bias_{layer}") for layer in range(len(hidden))]
    drawn = initial_layers(rng, widths, 2**0.5, spread=spread if waves else None)
    p = {
        name: values for pair, layer in zip(names, drawn, strict=True) for name, values in zip(pair, layer, strict=True)
    }
    p["head"], p["lean"] = np.zeros((hidden[-1], agents)), np.zeros(agents)
    return {name: values.astype(np.float32) for name, values in p.items()}


def forward(p: Mapping[str, Tensor], x: Tensor, output: Output) -> Tensor:
    """Return lotteries (n, K) at contexts x (n, inputs), in PyTorch."""
    import torch

    from nasheval.game.torch_gap import project as sparsemax

    scores = torch.addmm(p["lean"], last_hidden(x, _layers(p)), p["head"])
    return sparsemax(scores) if output == "sparsemax" else torch.softmax(scores, -1)


# -- training ---------------------------------------------------------------------------------------------------------


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
